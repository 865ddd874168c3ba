// One document on its way: a prompt with the template after it, values as a row.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tasks/extract_task.h"

namespace banyan {

class ExtractWork : public RecordWork {
 public:
  ExtractWork(const ExtractSettings& settings, ExtractRecord record);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  std::vector<OutputRow> Rows() override;

  // The text of the prompt, its template included.
  std::string Show();
  // Its tokens, positions and slots, as JSON (WriteExtractLayouts).
  std::string Layout();

 private:
  std::vector<PromptPart> Write(std::string_view document);
  EncodedPrompt Encode(std::string_view document);
  EncodedPrompt EncodeWhatFits();
  std::int64_t TokensAfterPrompt() const;
  PromptSegment Template(std::int64_t position) const;
  AnswerRequest RequestFor(size_t slot) const;
  std::vector<ExtractedValue> Values() const;
  OutputRow NestedRow(const std::vector<ExtractedValue>& values) const;
  OutputRow FlatRow(const std::vector<ExtractedValue>& values) const;

  const ExtractSettings& settings_;
  ExtractRecord record_;
  bool started_ = false;
  std::optional<RowProblem> problem_;
  std::vector<Answer> answers_;
  std::int64_t prompt_tokens_ = 0;
  size_t cut_bytes_ = 0;           // of the document, to make it fit
  std::deque<std::string> texts_;  // of variables that are no texts in the record
};

}  // namespace banyan
