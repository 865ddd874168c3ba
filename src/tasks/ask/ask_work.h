// One record of `ask` on its way: its questions as prompts, their answers as rows.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/ask.h"
#include "banyan/constrain.h"
#include "banyan/model.h"
#include "tasks/ask/ask_record.h"
#include "tasks/job/task.h"
#include "tasks/prompt/encoder_pool.h"
#include "tasks/prompt/prompt.h"
#include "text/span.h"

namespace banyan {

// What all records of a job have in common; several threads work on records at once.
struct AskSettings {
  AskOptions options;
  std::shared_ptr<Model> model;
  std::shared_ptr<const Text> text;
  std::unique_ptr<PromptWriter> writer;
  std::unique_ptr<EncoderPool> encoders;
  bool template_shows_choices = false;
  std::shared_ptr<const Constraint> constraint;  // of free answers; null: none
  std::shared_ptr<const TokenTrie> trie;         // for answers that are copied; null: none are
};

// What one record has of its own: its model may be one with an adapter.
struct AskModel {
  const ModelCard* card = nullptr;
  bool copies = false;      // free answers are copied from the context
  bool may_exceed = false;  // and are not where the context is too long for that
};

OutputRow AskErrorRow(const Json& id, const Json& question_id, const Json& question,
                      const RowProblem& problem, const RowPlace& place);

class AskWork : public RecordWork {
 public:
  AskWork(AskSettings& settings, AskModel model, AskRecord record, RowPlace place);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;

  // A row is the answer to a question.
  std::int64_t row_count() const override { return static_cast<std::int64_t>(asked_.size()); }
  std::vector<RowProblem> Problems() const override;  // of questions that cannot be asked
  OutputRow Row(size_t question) override;
  bool IsAnswered(size_t question) const override {
    return asked_[question].missing == 0 && asked_[question].next == Stage::kDone;
  }
  size_t RowOf(std::uint64_t tag) const override { return slots_[tag].question; }
  std::string QuestionOf(size_t question) const override {
    return record_.questions[question].question;
  }

  // One sample, no choices, no thoughts, nothing split, nothing that is withheld when it is known.
  bool IsPlain(std::uint64_t tag) const override;
  void Hear(std::uint64_t tag, std::span<const float> logprobs) override;
  // None as long as the answer may give way to null, none of a word that may be cut off.
  LiveText::Rules ShowRules(std::uint64_t tag) const override;

 private:
  // The answers of a question on one stretch of the context: samples, or one per choice.
  struct Part {
    std::vector<Answer> answers;
    std::int64_t prompt_tokens = 0;
    std::shared_ptr<const Constraint> copied;  // what its stretch allows; null: not copied
    std::string_view context;                  // its stretch
    std::vector<std::string_view> pieces;      // of the record's context that it is made of
    std::optional<float> heard;                // of the first token, while the answer is written
    Answer other;                             // what would be said against a null, or a null itself
    std::shared_ptr<const Constraint> spans;  // with no null among the copies
  };
  // What is asked of a question, in this order: all of it; once more about null (ask_again.cc); the
  // best passages together (ask_reduce.cc).
  enum class Stage { kFirst, kNull, kReduce, kDone };
  // What a part answers that says something.
  struct Candidate {
    size_t part = 0;
    std::string answer;
    std::optional<TextSpan> place;  // in the record's context
    double score = 0.0;             // the best has the highest
    std::optional<double> confidence;
    size_t begin = 0;  // of the part, in bytes of the context
  };
  struct Asked {
    std::optional<RowProblem> problem;
    std::vector<Part> parts;
    Part prior;    // its choices without a document; no answers: not asked for
    Part reduced;  // the best passages together; no answers: not asked for
    Stage stage = Stage::kFirst;
    Stage next = Stage::kDone;  // once all answers of `stage` are there
    bool cancelled = false;
    std::string shown;     // the question as the prompt has it
    std::string options;   // its lettered choices
    size_t cut_bytes = 0;  // of the context, to make it fit
    size_t missing = 0;    // answers that are not there yet
  };
  struct Slot {
    size_t question, part, answer;
  };
  // Of a slot: Asked::prior, Asked::reduced; Part::other.
  static constexpr size_t kPriorPart = ~size_t{0}, kReducedPart = kPriorPart - 1;
  static constexpr size_t kOtherAnswer = ~size_t{0};
  // A prompt that is to be asked.
  struct Prompt {
    std::vector<PromptPart> parts;
    EncodedPrompt encoded;
    // Each choice: after so many of the prompt's tokens come these. Empty: free text.
    std::vector<size_t> kept;
    std::vector<std::vector<TokenId>> continued;
    int room = 0;              // tokens that the answer may need
    std::string_view context;  // as the prompt has it
  };

  // ask_work.cc
  void AskAll();
  void Guarded(size_t question, const std::function<void()>& body);
  void Add(size_t question, const Prompt& prompt);
  void AddTo(size_t question, size_t part_index, const Prompt& prompt);
  Part& PartAt(size_t question, size_t part_index);
  void AddLeaf(const std::vector<TokenId>& tokens, const EncodedPrompt& ends, size_t prompt_tokens,
               AnswerRequest request);
  AnswerRequest RequestFor(size_t question, size_t part, size_t answer);
  std::shared_ptr<const Constraint> CopiesOf(std::string_view context);

  // ask_prompt.cc
  bool IsLetterQuestion(size_t question) const;
  void Show(size_t question);
  std::vector<PromptPart> Write(size_t question, std::string_view context);
  Prompt Encode(size_t question, std::string_view context);
  std::int64_t Needs(const Prompt& prompt) const;

  // ask_too_long.cc
  void AskTooLong(const std::vector<size_t>& questions);
  std::int64_t PartWindow(std::int64_t without) const;
  std::vector<std::string_view> Stretches(size_t question, std::int64_t without);
  size_t LongestFit(size_t question, std::string_view context, std::int64_t without);

  // An answer's text; with --thinking on the thoughts apart from it.
  struct Said {
    std::string answer, thinking;
  };

  // ask_again.cc
  void Settle(size_t question);
  bool WantsMore() const;  // all answers are there, and some questions have more to ask
  void AskAgain();
  double NullBias() const;
  bool IsUndecided(const Part& part) const;
  bool MayGiveWay(double first_logprob, bool nothing) const;
  void AskOtherwise(size_t question, size_t part_index);
  void Decide(Part& part);

  // ask_reduce.cc
  std::optional<TextSpan> PlaceOf(const Part& part, const std::string& answer) const;
  std::vector<Candidate> Candidates(const Asked& asked) const;
  size_t BestPart(const Asked& asked) const;
  bool ReducedCounts(const Asked& asked, const Part& best) const;
  TextSpan SpanOf(std::string_view piece) const;
  void WriteParts(const Asked& asked, const Part& answered, nlohmann::ordered_json& row) const;
  std::vector<std::string_view> Passages(const std::vector<Candidate>& candidates,
                                         size_t bytes) const;
  void AskReduced(size_t question);

  // ask_choice.cc
  void AddPrior(size_t question);
  std::vector<double> ScoresOf(const Asked& asked, const Part& part) const;
  std::optional<double> ChoiceConfidence(size_t question, double share) const;
  void WriteChoice(size_t question, nlohmann::ordered_json& row) const;

  // ask_rows.cc
  OutputRow AnswerRow(size_t question);
  void WriteFree(const Asked& asked, nlohmann::ordered_json& row) const;
  Said WhatWasSaid(const Answer& answer, const Part& part) const;
  const std::string& null_text() const { return model_.card->null_text; }
  bool SaysNothingHere(const std::string& answer) const;
  std::optional<double> ConfidenceOf(const Answer& answer, bool nothing) const;
  std::string Decode(std::span<const TokenId> tokens, bool skip_special) const;

  AskSettings& settings_;
  const AskModel model_;
  AskRecord record_;
  RowPlace place_;
  bool started_ = false;
  PromptEncoder* encoder_ = nullptr;  // while prompts are made
  std::vector<Asked> asked_;          // [questions]
  std::vector<Slot> slots_;           // by tag
  std::vector<PromptSegment> roots_;
  // What stretches of the context allow, by where they lie; made when first needed.
  std::map<std::pair<const char*, size_t>, std::shared_ptr<const Constraint>> copies_;
  std::deque<std::string> texts_;  // of variables that are no texts in the record
};

}  // namespace banyan
