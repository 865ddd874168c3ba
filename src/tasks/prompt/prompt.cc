// The chat is rendered once with marks; messages are put in their place afterwards.
#include "tasks/prompt/prompt.h"

#include <algorithm>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"

namespace banyan {
namespace {

constexpr std::string_view kSystemMark = "@@banyan:system@@";
constexpr std::string_view kUserMark = "@@banyan:user@@";
// Space around a mark shows in the rendered chat whether the template trims messages.
constexpr std::string_view kSpaceBefore = "\n ";
constexpr std::string_view kSpaceAfter = " \n";

constexpr const char* kChatTemplate = "{context}\n\nQuestion: {question}";
constexpr const char* kPlainTemplate =
    "{instruction}\n\n{few_shot}{context}\n\nQuestion: {question}\nAnswer:";

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool Names(const std::vector<TemplatePiece>& pieces, std::string_view name) {
  return std::any_of(pieces.begin(), pieces.end(), [&](const TemplatePiece& piece) {
    return piece.is_variable && piece.text == name;
  });
}

std::string AsJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<TemplatePiece> ParsePromptTemplate(std::string_view text) {
  std::vector<TemplatePiece> pieces;
  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) pieces.push_back({false, std::move(literal)});
    literal.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool doubled = i + 1 < text.size() && text[i + 1] == c;
    if ((c == '{' || c == '}') && doubled) {
      literal += c;
      ++i;
    } else if (c == '}') {
      Throw(ErrorKind::kUsage, "template: '}}' at byte {} closes nothing; write '}}}}' for a brace",
            i);
    } else if (c == '{') {
      const size_t close = text.find('}', i);
      const std::string name(
          text.substr(i + 1, close == std::string_view::npos ? 0 : close - i - 1));
      if (name.empty() || !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
        Throw(ErrorKind::kUsage,
              "template: expected a {{variable}} at byte {}; write '{{{{' for a brace", i);
      }
      end_literal();
      pieces.push_back({true, name});
      i = close;
    } else {
      literal += c;
    }
  }
  end_literal();
  return pieces;
}

PromptWriter::PromptWriter(std::shared_ptr<const Text> text, const AskOptions& options)
    : text_(std::move(text)) {
  chat_ = options.chat == ChatUse::kOn ||
          (options.chat == ChatUse::kAuto && text_->has_chat_template());
  if (chat_ && !text_->has_chat_template()) {
    Throw(ErrorKind::kUnsupported, "--chat on: the model has no chat template");
  }
  Compose(options);
  if (!chat_) {
    with_instruction_ = {{&user_, "", false, false, false}};
    without_instruction_ = {{&user_alone_, "", false, false, false}};
    return;
  }
  without_instruction_ = RenderSkeleton(options, false);
  with_instruction_ = RenderSkeleton(options, true);
}

// The texts of the messages, still with variables.
void PromptWriter::Compose(const AskOptions& options) {
  const char* fallback = chat_ ? kChatTemplate : kPlainTemplate;
  user_ = ParsePromptTemplate(options.prompt_template.empty() ? fallback : options.prompt_template);
  if (!Names(user_, "question")) {
    Throw(ErrorKind::kUsage, "template: expected the variable {{question}} in it");
  }
  user_alone_ = user_;
  if (!chat_ && options.prompt_template.empty()) {  // without "{instruction}\n\n"
    user_alone_ = ParsePromptTemplate(std::string_view(kPlainTemplate).substr(15));
  }
  const size_t first = options.few_shot.find_first_not_of(kSpaces);
  if (first != std::string::npos && !chat_ && !Names(user_, "few_shot")) {
    Throw(ErrorKind::kUsage, "--few-shot: the template has no {{few_shot}} in it");
  }
  if (first != std::string::npos) {
    if (options.few_shot[first] == '{') {
      Json turns = Json::array();
      std::string block;
      size_t number = 0;
      std::string_view rest = options.few_shot;
      while (!rest.empty()) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        ++number;
        if (line.find_first_not_of(kSpaces) == std::string_view::npos) continue;
        const std::string where = fmt::format("few-shot file, line {}", number);
        const Json example = ParseJson(line, where);
        const auto field = [&](const char* name) -> std::string {
          const bool there =
              example.is_object() && example.contains(name) && example.at(name).is_string();
          if (!there) {
            Throw(ErrorKind::kUsage, "{}: expected a text field '{}', found none", where, name);
          }
          return example.at(name).get<std::string>();
        };
        const bool has_context = example.is_object() && example.contains("context");
        const std::string question =
            (has_context ? field("context") + "\n\n" : "") + "Question: " + field("question");
        turns.push_back({{"role", "user"}, {"content", question}});
        turns.push_back({{"role", "assistant"}, {"content", field("answer")}});
        block += question + "\nAnswer: " + field("answer") + "\n\n";
      }
      if (chat_) few_shot_turns_ = AsJson(turns);
      if (!chat_) few_shot_ = block;
    } else {
      few_shot_ = options.few_shot.substr(0, options.few_shot.find_last_not_of(kSpaces) + 1);
      if (!chat_) few_shot_ += "\n\n";
    }
  }
  system_ = ParsePromptTemplate("{instruction}");
  if (chat_ && !few_shot_.empty() && !Names(user_, "few_shot")) {
    system_ = ParsePromptTemplate("{instruction}\n\n{few_shot}");
  }
}

std::string PromptWriter::Messages(bool with_system) const {
  Json messages = Json::array();
  const auto marked = [](std::string_view mark) {
    return std::string(kSpaceBefore) + std::string(mark) + std::string(kSpaceAfter);
  };
  if (with_system) messages.push_back({{"role", "system"}, {"content", marked(kSystemMark)}});
  if (!few_shot_turns_.empty()) {
    for (const Json& turn : Json::parse(few_shot_turns_)) messages.push_back(turn);
  }
  messages.push_back({{"role", "user"}, {"content", marked(kUserMark)}});
  return AsJson(messages);
}

// The chat with marks in the place of our messages.
std::vector<PromptWriter::Slot> PromptWriter::RenderSkeleton(const AskOptions& options,
                                                             bool with_instruction) const {
  const std::string extra = AsJson({{"enable_thinking", options.thinking}});
  // Some templates write a default system prompt when none is given; few-shot text needs a place
  // too.
  const bool wants_system = with_instruction || (!few_shot_.empty() && !Names(user_, "few_shot"));
  std::vector<ChatText> pieces;
  bool has_system = wants_system;
  try {
    pieces = text_->RenderChat(Messages(wants_system), true, extra);
  } catch (const Error& e) {
    if (!wants_system || e.kind() != ErrorKind::kInput) throw;
    has_system = false;  // a template that refuses system prompts
  }
  const auto holds = [&](std::string_view mark) {
    return std::any_of(pieces.begin(), pieces.end(), [&](const ChatText& piece) {
      return piece.text.find(mark) != std::string::npos;
    });
  };
  has_system = has_system && holds(kSystemMark);
  if (wants_system && !has_system) pieces = text_->RenderChat(Messages(false), true, extra);
  if (!holds(kUserMark)) {
    Throw(ErrorKind::kUnsupported,
          "the model's chat template does not show the user's message as it is; use --chat off");
  }

  if (!options.thinking && !text_->answer_opening().empty()) {
    pieces.push_back({std::string(text_->answer_opening()), false});
  }

  std::vector<Slot> slots;
  const auto add_text = [&](std::string text, bool from_user) {
    if (!text.empty()) slots.push_back({nullptr, std::move(text), from_user, false, false});
  };
  for (const ChatText& piece : pieces) {
    std::string_view rest = piece.text;
    while (true) {
      const size_t system_at = rest.find(kSystemMark), user_at = rest.find(kUserMark);
      const size_t at = std::min(system_at, user_at);
      if (at == std::string_view::npos) break;
      const bool is_user = user_at == at;
      std::string_view before = rest.substr(0, at);
      rest.remove_prefix(at + (is_user ? kUserMark.size() : kSystemMark.size()));
      Slot slot;
      slot.from_user = true;
      slot.trim_begin = !before.ends_with(kSpaceBefore);
      slot.trim_end = !rest.starts_with(kSpaceAfter);
      if (!slot.trim_begin) before.remove_suffix(kSpaceBefore.size());
      if (!slot.trim_end) rest.remove_prefix(kSpaceAfter.size());
      add_text(std::string(before), piece.from_user);
      if (is_user && wants_system && !has_system) {
        Slot system = slot;
        system.content = &system_;
        slots.push_back(system);
        add_text("\n\n", true);
      }
      slot.content = is_user ? &user_ : &system_;
      slots.push_back(slot);
    }
    add_text(std::string(rest), piece.from_user);
  }
  return slots;
}

bool PromptWriter::thinking_matters() const {
  if (!chat_) return false;
  if (!text_->answer_opening().empty()) return true;
  const auto rendered = [&](bool thinking) {
    std::string all;
    for (const ChatText& piece :
         text_->RenderChat(Messages(false), true, AsJson({{"enable_thinking", thinking}}))) {
      all += piece.text;
    }
    return all;
  };
  return rendered(true) != rendered(false);
}

std::vector<PromptPart> PromptWriter::Write(const PromptVariables& variables) const {
  const PromptVariables all = [&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "few_shot") return PromptVariable{few_shot_, PromptLevel::kShared};
    return variables(name);
  };
  const std::optional<PromptVariable> instruction = all("instruction");
  const bool instructed = instruction && !instruction->text.empty();
  std::vector<PromptPart> parts;
  for (const Slot& slot : instructed ? with_instruction_ : without_instruction_) {
    Add(slot, all, parts);
  }
  // Levels only rise. Space before the question goes with it: words are tokenised with the space
  // before them.
  PromptLevel level = PromptLevel::kShared;
  std::vector<PromptPart> leveled;
  for (size_t i = 0; i < parts.size(); ++i) {
    level = std::max(level, parts[i].level);
    PromptPart part = parts[i];
    part.level = level;
    const bool question_next = i + 1 < parts.size() &&
                               parts[i + 1].level == PromptLevel::kQuestion &&
                               level < PromptLevel::kQuestion;
    const size_t end = part.text.find_last_not_of(kSpaces) + 1;  // 0: nothing but space
    if (question_next && end < part.text.size()) {
      PromptPart space = part;
      space.text = part.text.substr(end);
      space.level = PromptLevel::kQuestion;
      part.text = part.text.substr(0, end);
      if (!part.text.empty()) leveled.push_back(part);
      leveled.push_back(space);
      level = PromptLevel::kQuestion;
      continue;
    }
    if (!part.text.empty()) leveled.push_back(part);
  }
  return leveled;
}

void PromptWriter::Add(const Slot& slot, const PromptVariables& variables,
                       std::vector<PromptPart>& parts) const {
  if (slot.content == nullptr) {
    parts.push_back({slot.text, slot.from_user, PromptLevel::kShared});
    return;
  }
  const size_t first = parts.size();
  for (const TemplatePiece& piece : *slot.content) {
    if (!piece.is_variable) {
      parts.push_back({piece.text, slot.from_user, PromptLevel::kShared});
      continue;
    }
    const std::optional<PromptVariable> variable = variables(piece.text);
    if (!variable) {
      Throw(ErrorKind::kInput, "the template needs the field '{}', found none", piece.text);
    }
    parts.push_back({variable->text, true, variable->level});
  }
  for (size_t i = first; slot.trim_begin && i < parts.size(); ++i) {
    std::string_view& text = parts[i].text;
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    if (!text.empty()) break;
  }
  for (size_t i = parts.size(); slot.trim_end && i > first; --i) {
    std::string_view& text = parts[i - 1].text;
    text = text.substr(0, text.find_last_not_of(kSpaces) + 1);
    if (!text.empty()) break;
  }
}

}  // namespace banyan
