// The answers of a record as its row: text, citations, trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tasks/job/task.h"
#include "tasks/rag/rag_prompt.h"
#include "tasks/rag/rag_record.h"

namespace banyan {

// A span of a text, in bytes; it begins and ends between characters.
struct CitedBytes {
  size_t begin = 0, end = 0;
};

// The first place of `wanted` in `text`: as it is; else with runs of white space taken as one
// space; else in other case of ASCII letters too. Nothing: nowhere, or `wanted` is blank.
std::optional<CitedBytes> FindWords(std::string_view text, std::string_view wanted);

// {"document","text","begin","end",…}: the document's own words and their place. Words that the
// document does not have are cited as they were written, without a place.
nlohmann::ordered_json CitationOf(const RagDocument& document, std::string_view written);
// Whether one of the citations is of the document.
bool IsCited(const nlohmann::ordered_json& citations, const RagDocument& document);

// `record`: the fields of the input, or those that are carried.
OutputRow RagErrorRow(const Json& id, const Json& question, const RowProblem& problem,
                      const RowPlace& place, const Json& record);

struct RagAnswers {
  // The answer once more, without one of the documents that it cites.
  struct LeftOut {
    size_t document = 0;
    Answer answer;
  };

  Answer answer;
  std::vector<Answer> notes;      // map-reduce: [documents]
  std::vector<LeftOut> left_out;  // with --verify: [documents that are cited]
};

class RagRowWriter {
 public:
  RagRowWriter(const RagSettings& settings, const RagRecord& record)
      : settings_(settings), record_(record) {}

  // `truncated`: ids of documents that were cut.
  OutputRow Row(const RagAnswers& answers, const std::vector<Json>& truncated) const;
  std::string TextOf(const Answer& answer) const;
  // Of experts: the runs of tokens that each document won. Else, and of copied answers: the
  // documents that contain the answer, among those that were read.
  nlohmann::ordered_json Citations(const Answer& answer) const;

 private:
  std::vector<std::string> TokenTexts(const Answer& answer) const;
  std::vector<size_t> ReadBy(std::int32_t expert) const;
  size_t SourceOf(const Answer& answer, const std::string& text) const;
  nlohmann::ordered_json Stale(const nlohmann::ordered_json& citations) const;
  nlohmann::ordered_json Verified(const RagAnswers& answers,
                                  const nlohmann::ordered_json& answer) const;
  nlohmann::ordered_json Trace(const RagAnswers& answers) const;

  const RagSettings& settings_;
  const RagRecord& record_;
};

}  // namespace banyan
