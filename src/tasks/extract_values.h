// Answers → values: JSON out of what was written, cut where a value ended or was cut off.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/answer.h"
#include "tasks/extract_plan.h"
#include "text/span.h"

namespace banyan {

struct ExtractedValue {
  nlohmann::ordered_json value;
  std::string written;  // as the model wrote it
  // Mean log-probability of its tokens; nothing when it has none.
  std::optional<double> confidence;
  bool truncated = false;  // it needed more tokens than it had
  int tokens = 0;
};

// The value of one slot.
ExtractedValue ReadValue(const ExtractAttribute& attribute, const ValueSlot& slot,
                         const Answer& answer);
// All values of a category, written one after another.
std::vector<ExtractedValue> ReadSequence(const CategoryPlan& plan, const Answer& answer);

// Where the JSON value that begins at `begin` ends; the text's end when it does not.
size_t JsonValueEnd(std::string_view text, size_t begin);

// Where a text or number stands in the document, if it does: as it is, else whatever its case.
std::optional<TextSpan> SpanOf(const ExtractedValue& value, std::string_view document);

}  // namespace banyan
