// The text of a prompt, in parts: instruction, few-shot block, context and question in the model's
// chat template, or in a template of the user's own. Not here: tokens (prompt_encoder.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/ask.h"
#include "banyan/text.h"

namespace banyan {

// Which prompts share this text. The levels of a prompt's parts never fall.
enum class PromptLevel { kShared, kRecord, kQuestion };

// The text belongs to the writer or to the variables' owner.
struct PromptPart {
  std::string_view text;
  bool from_user = false;  // plain text: control tokens spelled in it are not control tokens
  PromptLevel level = PromptLevel::kShared;
};

// A variable's text and level; nothing when there is no such variable.
struct PromptVariable {
  std::string_view text;
  PromptLevel level = PromptLevel::kRecord;
};
using PromptVariables = std::function<std::optional<PromptVariable>(const std::string& name)>;

// "Text {name} {{ }}" in pieces. Throws kUsage with the place of a syntax error.
struct TemplatePiece {
  bool is_variable = false;
  std::string text;  // literal, or the variable's name
};
std::vector<TemplatePiece> ParsePromptTemplate(std::string_view text);

class PromptWriter {
 public:
  // Throws kUsage for a bad template or few-shot file, kUnsupported when a chat template is asked
  // for and there is none.
  PromptWriter(std::shared_ptr<const Text> text, const AskOptions& options);

  bool uses_chat() const { return chat_; }
  // The chat template differs when thoughts are asked for.
  bool thinking_matters() const;
  // An answer continues the prompt's text: it begins with a space unless the prompt ends a line.
  std::string_view answer_separator() const { return chat_ ? "" : " "; }
  // Throws kInput when the template names a variable that is not there.
  std::vector<PromptPart> Write(const PromptVariables& variables) const;

 private:
  // Where a message's text goes in the rendered chat, and whether the template trims it.
  struct Slot {
    const std::vector<TemplatePiece>* content = nullptr;  // null: this is rendered text
    std::string text;
    bool from_user = false;
    bool trim_begin = false, trim_end = false;
  };
  void Compose(const AskOptions& options);
  std::vector<Slot> RenderSkeleton(const AskOptions& options, bool with_instruction) const;
  std::string Messages(bool with_system) const;
  void Add(const Slot& slot, const PromptVariables& variables,
           std::vector<PromptPart>& parts) const;

  std::shared_ptr<const Text> text_;
  bool chat_ = false;
  std::string few_shot_;        // a block of text
  std::string few_shot_turns_;  // or JSON of messages
  std::vector<TemplatePiece> system_, user_;
  std::vector<TemplatePiece> user_alone_;  // without a chat: when there is no instruction
  std::vector<Slot> with_instruction_, without_instruction_;
};

}  // namespace banyan
