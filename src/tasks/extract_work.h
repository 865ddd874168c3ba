// The documents of one prompt on their way, one unless they are stacked: the prompt with the
// template after it, values as rows.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/extract_task.h"

namespace banyan {

class ExtractWork : public RecordWork {
 public:
  // The records have one plan.
  ExtractWork(const ExtractSettings& settings, std::vector<ExtractRecord> records);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  std::vector<OutputRow> Rows() override;
  std::int64_t row_count() const override { return static_cast<std::int64_t>(records_.size()); }

  // The text of the prompt, its template included.
  std::string Show();
  // Its tokens, positions and slots, as JSON (WriteExtractLayouts).
  std::string Layout();

 private:
  std::string DocumentText(std::span<const std::string_view> documents) const;
  std::vector<PromptPart> Write(std::string_view document);
  EncodedPrompt Encode(std::span<const std::string_view> documents);
  EncodedPrompt EncodeWhatFits();
  std::int64_t TokensAfterPrompt() const;
  PromptSegment Template(std::int64_t position) const;
  AnswerRequest RequestFor(size_t slot) const;
  size_t slots() const;
  std::vector<ExtractedValue> Values(size_t document) const;
  OutputRow RowOf(size_t document) const;
  OutputRow ErrorRowOf(const ExtractRecord& record) const;

  const ExtractSettings& settings_;
  const CategoryPlan& plan_;
  std::vector<ExtractRecord> records_;
  bool started_ = false;
  std::optional<RowProblem> problem_;
  std::vector<Answer> answers_;
  std::int64_t prompt_tokens_ = 0;
  std::vector<size_t> cut_bytes_;  // of each document, to make the prompt fit
  std::deque<std::string> texts_;  // of variables that are no texts in the record
};

}  // namespace banyan
