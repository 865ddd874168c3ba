// The answers of a document as values, and values as the document's row.
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/extract/extract_prompt.h"
#include "tasks/extract/extract_value.h"
#include "tasks/job/task.h"

namespace banyan {

// The values of one document in one part, without those of other parts. REQUIRES: all answers of
// the part are there.
std::vector<ExtractedValue> ValuesOfPart(const ExtractStack& stack, const ExtractPart& part,
                                         size_t document);
// The values of a document that has no words, so nothing was asked about it.
std::vector<ExtractedValue> ValuesWithoutText(const CategoryPlan& plan);

// What a row says beside the values.
struct RowFacts {
  std::int64_t prompt_tokens = 0;
  size_t parts = 0;
  size_t stacked = 0;  // documents of its prompt; 0: they were not stacked
  size_t cut_bytes = 0;
};
OutputRow RowOfValues(const ExtractSettings& settings, const ExtractRecord& record,
                      const std::vector<ExtractedValue>& values, const RowFacts& facts);
OutputRow ErrorRowOf(const ExtractSettings& settings, const ExtractRecord& record,
                     const RowProblem& problem);

}  // namespace banyan
