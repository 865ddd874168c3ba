// A record's questions as prompts: the text and tokens of each, the tree of requests that the
// engine is given, and the texts that answers may be copied from.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/ask.h"
#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "banyan/model.h"
#include "tasks/ask/ask_record.h"
#include "tasks/prompt/prompt.h"
#include "tasks/prompt/prompt_encoder.h"

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

// The model of one record: it may be one with an adapter.
struct AskModel {
  const ModelCard* card = nullptr;
  bool copies = false;      // free answers are copied from the context
  bool may_exceed = false;  // and are not where the context is too long for that
};

// The question has choices, and the model answers with the letter of one.
bool IsLetterQuestion(const AskOptions& options, const AskQuestion& question);

// The prompt of a question over one text.
struct AskPrompt {
  std::vector<PromptPart> parts;
  EncodedPrompt encoded;
  // Each choice: after `kept` of the prompt's tokens come those in `continued`. Empty: free text.
  std::vector<size_t> kept;
  std::vector<std::vector<TokenId>> continued;
  int answer_tokens = 0;     // that the answer may need
  std::string_view context;  // as the prompt has it

  // Of the prompt and its answer.
  std::int64_t tokens() const {
    return static_cast<std::int64_t>(encoded.tokens.size()) + answer_tokens;
  }
};

// Makes the prompts of one record. Prompts view texts that belong to the record and to the builder.
class AskPromptBuilder {
 public:
  AskPromptBuilder(const AskSettings& settings, const AskRecord& record);

  // The encoder of the prompts that follow; null: none follow for now.
  void SetEncoder(PromptEncoder* encoder) { encoder_ = encoder; }
  // Prepares the question's text with its lettered choices. Throws kInput for too many choices.
  void Prepare(size_t question);
  // REQUIRES: an encoder, a question that was prepared. Throws kInput.
  AskPrompt Build(size_t question, std::string_view context);
  // The tokens of `text` after the prompt; `kept`: how many of the prompt's tokens stay before it.
  std::vector<TokenId> Continue(const AskPrompt& prompt, std::string_view text, size_t& kept);
  // A text with the lifetime of the builder, for contexts that are not in the record.
  std::string& NewText() { return texts_.emplace_back(); }

 private:
  // What stands in the prompt for {question} and {choices}.
  struct QuestionText {
    std::string question, choices;
  };
  std::vector<PromptPart> Write(size_t question, std::string_view context);

  const AskSettings& settings_;
  const AskRecord& record_;
  PromptEncoder* encoder_ = nullptr;
  std::vector<QuestionText> questions_;
  std::deque<std::string> texts_;  // of variables that are no texts in the record, and NewText
};

// Where an answer belongs. The part's and answer's numbers are the caller's.
struct AnswerSlot {
  size_t question = 0, part = 0, answer = 0;
};

// The requests of one record, by tag, and the tree of prompts that has them as leaves.
class AskRequestTree {
 public:
  AskRequestTree(const AskSettings& settings, const AskRecord& record)
      : settings_(settings), record_(record) {}

  // A request with a tag of its own. Throws kLimit where the record asks for too much.
  AnswerRequest NewRequest(const AnswerSlot& slot);
  const AnswerSlot& SlotOf(std::uint64_t tag) const { return slots_[tag]; }
  // Puts the request after the first `prompt_tokens` tokens of the prompt, as instruction → context
  // → question.
  void Add(const EncodedPrompt& prompt, size_t prompt_tokens, AnswerRequest request);
  bool empty() const { return roots_.empty(); }
  // What was added since the last call.
  std::vector<PromptSegment> TakePrompts();

 private:
  const AskSettings& settings_;
  const AskRecord& record_;
  std::vector<AnswerSlot> slots_;  // [tags]
  std::vector<PromptSegment> roots_;
};

// What may be copied from texts as a free answer.
class ContextCopies {
 public:
  ContextCopies(const AskSettings& settings, const AskModel& model)
      : settings_(settings), model_(model) {}

  // A copy or null, made once for every text. No constraint: the text is too long for one, and
  // answers need not be copied.
  std::shared_ptr<const Constraint> OrNull(std::string_view context);
  // A copy. Throws where there is nothing to copy.
  std::shared_ptr<const Constraint> Alone(std::string_view context) const;

 private:
  std::shared_ptr<const Constraint> Make(std::string_view context,
                                         std::span<const std::string> others) const;

  const AskSettings& settings_;
  const AskModel& model_;
  std::map<std::pair<const char*, size_t>, std::shared_ptr<const Constraint>> made_;  // by place
};

}  // namespace banyan
