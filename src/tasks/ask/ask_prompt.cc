// A question of a record as a prompt: its text, and its tokens with those of its choices.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/ask/ask_work.h"

namespace banyan {
bool AskWork::IsLetterQuestion(size_t question) const {
  return settings_.options.choices == ChoiceMode::kLetter &&
         !record_.questions[question].choices.empty();
}

// What stands in the prompt for {question} and {choices}.
void AskWork::Show(size_t question) {
  const AskQuestion& wanted = record_.questions[question];
  Asked& asked = asked_[question];
  asked.shown = wanted.question;
  if (wanted.choices.empty()) return;
  if (IsLetterQuestion(question) && wanted.choices.size() > 26) {
    Throw(ErrorKind::kInput, "'choices': letters serve up to 26, found {}", wanted.choices.size());
  }
  for (size_t i = 0; i < wanted.choices.size(); ++i) {
    const std::string label = wanted.choices.size() <= 26
                                  ? std::string(1, static_cast<char>('A' + i))
                                  : fmt::format("{}", i + 1);
    asked.options += fmt::format("{}{}. {}", i > 0 ? "\n" : "", label, wanted.choices[i]);
  }
  if (IsLetterQuestion(question) && !settings_.template_shows_choices) {
    asked.shown += "\n" + asked.options + "\nAnswer with the letter.";
  }
}

std::vector<PromptPart> AskWork::Write(size_t question, std::string_view context) {
  const AskQuestion& wanted = record_.questions[question];
  const Asked& asked = asked_[question];
  const auto carried = [&](const Json& fields, const std::string& name,
                           PromptLevel level) -> std::optional<PromptVariable> {
    const auto it = fields.find(name);
    if (it == fields.end()) return std::nullopt;
    if (it->is_string()) return PromptVariable{it->get_ref<const std::string&>(), level};
    return PromptVariable{texts_.emplace_back(TextOrJson(*it)), level};
  };
  return settings_.writer->Write([&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "context") return PromptVariable{context, PromptLevel::kRecord};
    if (name == "question") return PromptVariable{asked.shown, PromptLevel::kQuestion};
    if (name == "choices") return PromptVariable{asked.options, PromptLevel::kQuestion};
    if (name == "instruction") {
      return PromptVariable{
          record_.instruction ? *record_.instruction : settings_.options.instruction,
          PromptLevel::kShared};
    }
    if (name == "id") {
      return PromptVariable{texts_.emplace_back(TextOrJson(record_.id)), PromptLevel::kRecord};
    }
    if (name == "question_id") {
      return PromptVariable{texts_.emplace_back(TextOrJson(wanted.id)), PromptLevel::kQuestion};
    }
    if (auto found = carried(wanted.carried, name, PromptLevel::kQuestion)) return found;
    return carried(record_.carried, name, PromptLevel::kRecord);
  });
}

AskWork::Prompt AskWork::Encode(size_t question, std::string_view context) {
  const AskQuestion& wanted = record_.questions[question];
  Prompt prompt;
  prompt.context = context;
  prompt.parts = Write(question, context);
  prompt.encoded = encoder_->Encode(prompt.parts);
  if (wanted.choices.empty()) {
    prompt.room = settings_.options.max_new;
    return prompt;
  }
  const std::string separator(settings_.writer->answer_separator());
  for (size_t i = 0; i < wanted.choices.size(); ++i) {
    const std::string option =
        IsLetterQuestion(question) ? std::string(1, static_cast<char>('A' + i)) : wanted.choices[i];
    size_t kept = 0;
    std::vector<TokenId> tokens =
        encoder_->Continue(prompt.parts, prompt.encoded, separator + option, kept);
    if (kept == tokens.size()) {
      Throw(ErrorKind::kInput, "'choices': option {} has no tokens of its own", i);
    }
    if (IsLetterQuestion(question)) tokens.resize(kept + 1);
    prompt.room = std::max(prompt.room, static_cast<int>(tokens.size() - kept));
    prompt.continued.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.end());
    prompt.kept.push_back(kept);
  }
  return prompt;
}

std::int64_t AskWork::Needs(const Prompt& prompt) const {
  return static_cast<std::int64_t>(prompt.encoded.tokens.size()) + prompt.room;
}

}  // namespace banyan
