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

// The first place of `wanted` in `text` where it cuts no word or number (CutsWord): as it is; else
// with runs of white space taken as one space; else in other case of ASCII letters too. Nothing:
// nowhere, or `wanted` is blank.
std::optional<CitedBytes> FindWords(std::string_view text, std::string_view wanted);

// The spans of a copied answer that stand in documents: all of it, else what "; " divides. Nothing:
// a part of it stands nowhere.
std::optional<std::vector<std::string_view>> SpansOf(std::string_view said,
                                                     const std::vector<RagDocument>& documents);

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

  // What a document answers by itself.
  struct Alone {
    size_t document = 0;
    Answer answer;
  };

  Answer answer;
  std::optional<Answer> joint;    // what all experts say, where a document's own answer is surer
  std::vector<Alone> alone;       // of documents that may have an answer, the best first
  std::optional<Answer> scored;   // the answer once more, by the document that is cited
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
  // The document of a copied span: of those that have it, the one that won most of its tokens, else
  // the most relevant; where none has it, the same among all.
  size_t SourceOf(const Answer& answer, std::string_view span) const;

 private:
  std::vector<std::string> TokenTexts(const Answer& answer) const;
  std::vector<size_t> ReadBy(std::int32_t expert) const;
  nlohmann::ordered_json Stale(const nlohmann::ordered_json& citations) const;
  nlohmann::ordered_json Verified(const RagAnswers& answers,
                                  const nlohmann::ordered_json& answer) const;
  nlohmann::ordered_json Trace(const RagAnswers& answers) const;

  const RagSettings& settings_;
  const RagRecord& record_;
};

}  // namespace banyan
