// Renders a template with the interpreter of text/jinja, and splits Harmony's channels.
#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "text/jinja/parser.h"
#include "text/jinja/render.h"

namespace banyan {

struct ChatTemplate::Parsed {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(const std::string& source)
    : parsed_(new Parsed{jinja::ParseTemplate(source, jinja::Limits())}) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

namespace {

void CheckMessages(const OrderedJson& messages) {
  if (!messages.is_array()) {
    Throw(ErrorKind::kInput, "chat messages: expected an array, found {}", messages.type_name());
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object() || !messages[i].contains("role")) {
      Throw(ErrorKind::kInput, "chat message {}: expected an object with a role, found {}", i,
            messages[i].type_name());
    }
  }
}

std::tm LocalNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

jinja::Text RenderText(const jinja::Block& block, const OrderedJson& messages,
                       const ChatOptions& options) {
  CheckMessages(messages);
  if (!options.extra.is_object() && !options.extra.is_null()) {
    Throw(ErrorKind::kInput, "chat options: expected an object of variables, found {}",
          options.extra.type_name());
  }
  jinja::Runtime runtime{jinja::Limits()};
  runtime.date = options.date.has_value() ? *options.date : LocalNow();

  jinja::Variables variables;
  // Transformers passes these two always.
  variables.emplace("tools", jinja::None{});
  variables.emplace("documents", jinja::None{});
  if (!options.bos_token.empty()) {
    variables.emplace("bos_token", jinja::Value::String(options.bos_token));
  }
  if (!options.eos_token.empty()) {
    variables.emplace("eos_token", jinja::Value::String(options.eos_token));
  }
  for (const auto& [name, value] : options.extra.items()) {
    variables.insert_or_assign(name, jinja::FromJson(runtime, value, true));
  }
  variables.insert_or_assign("messages", jinja::FromJson(runtime, messages, true));
  variables.insert_or_assign("add_generation_prompt", jinja::Value(options.add_generation_prompt));
  return jinja::Render(runtime, block, std::move(variables));
}

}  // namespace

std::string ChatTemplate::Render(const OrderedJson& messages, const ChatOptions& options) const {
  return RenderText(parsed_->block, messages, options).bytes();
}

std::vector<ChatPiece> ChatTemplate::RenderPieces(const OrderedJson& messages,
                                                  const ChatOptions& options) const {
  const jinja::Text text = RenderText(parsed_->block, messages, options);
  std::vector<ChatPiece> pieces;
  size_t begin = 0;
  for (const jinja::Run& run : text.runs()) {
    pieces.push_back({text.bytes().substr(begin, run.end - begin), run.from_user});
    begin = run.end;
  }
  return pieces;
}

namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>";
constexpr std::string_view kEnds[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>"};

}  // namespace

bool IsHarmonyTemplate(std::string_view chat_template) {
  return chat_template.find("<|start|>assistant") != std::string_view::npos &&
         chat_template.find(kChannel) != std::string_view::npos &&
         chat_template.find(kMessage) != std::string_view::npos;
}

HarmonyText SplitHarmony(std::string_view text) {
  HarmonyText split;
  for (size_t at = text.find(kChannel); at != std::string_view::npos; at = text.find(kChannel)) {
    text.remove_prefix(at + kChannel.size());
    const size_t message = text.find(kMessage);
    if (message == std::string_view::npos) break;
    split.in_channels = true;
    const std::string_view channel = text.substr(0, message);
    text.remove_prefix(message + kMessage.size());
    size_t end = text.size();
    for (const std::string_view mark : kEnds) end = std::min(end, text.find(mark));
    // "final", or with more after it: "final <|constrain|>json".
    std::string& target = channel.starts_with("final") ? split.answer : split.thinking;
    if (!target.empty()) target += '\n';
    target += text.substr(0, end);
    text.remove_prefix(end);
  }
  return split;
}

}  // namespace banyan
