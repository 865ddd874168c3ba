// The work on one record of `ask`: what is asked of its questions, stage by stage.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/ask/ask_answers.h"
#include "tasks/ask/ask_prompt.h"
#include "tasks/ask/ask_record.h"
#include "tasks/ask/ask_rows.h"
#include "tasks/job/task.h"

namespace banyan {

class AskWork : public RecordWork {
 public:
  AskWork(const AskSettings& settings, const AskModel& model, AskRecord record, RowPlace place);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;

  // A row is the answer to a question.
  std::int64_t row_count() const override { return static_cast<std::int64_t>(asked_.size()); }
  std::vector<RowProblem> Problems() const override;  // of questions that cannot be asked
  OutputRow Row(size_t question) override;
  size_t parts() const override;
  bool IsAnswered(size_t question) const override {
    return asked_[question].missing == 0 && asked_[question].next == AskStage::kDone;
  }
  size_t RowOf(std::uint64_t tag) const override { return requests_.SlotOf(tag).question; }
  std::string QuestionOf(size_t question) const override {
    return record_.questions[question].question;
  }

  // One sample without choices or thoughts, over one part, that --min-confidence cannot withhold.
  bool IsPlain(std::uint64_t tag) const override;
  void Hear(std::uint64_t tag, std::span<const float> logprobs) override;
  // No text while the answer may still turn into null, and no word that may be cut off.
  LiveText::Rules ShowRules(std::uint64_t tag) const override;

 private:
  // The first stage
  void AskAll();
  bool Fits(size_t question, const AskPrompt& prompt);
  void AskTooLong(const std::vector<size_t>& questions);
  std::vector<std::string_view> PartsFor(size_t question, std::int64_t without);
  void AskPrior(size_t question);
  // Later stages
  void Settle(size_t question);
  bool WantsMore() const;
  void AskNextStage();
  void AskAboutNull(size_t question, size_t part_number);
  void AskReduced(size_t question);

  void Guarded(size_t question, const std::function<void()>& body);
  void AddPrompt(size_t question, size_t part_number, const AskPrompt& prompt);

  const AskSettings& settings_;
  const AskModel model_;
  const AskRecord record_;
  const RowPlace place_;
  bool started_ = false;
  std::vector<AskedQuestion> asked_;  // [questions]
  AskPromptBuilder prompts_;
  AskRequestTree requests_;
  ContextCopies copies_;
  const AnswerReader reader_;
  const NullBias null_bias_;
  const PartRanking ranking_;
  const AskRowWriter rows_;
};

}  // namespace banyan
