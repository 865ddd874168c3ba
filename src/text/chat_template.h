// A model's chat template: messages → the text of a prompt, as Transformers' apply_chat_template
// renders it. Not here: tokenization, and where a model keeps its template.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace banyan {

// Keeps the order of keys, which templates print with tojson.
using OrderedJson = nlohmann::ordered_json;

struct ChatOptions {
  bool add_generation_prompt = false;
  // An object of further variables: tools, documents, enable_thinking, date_string…
  OrderedJson extra = OrderedJson::object();
  // Empty: the model has none, and the template sees an undefined variable.
  std::string bos_token;
  std::string eos_token;
  std::optional<std::tm> date;  // what strftime_now() formats; absent: now, in local time
};

// A part of a rendered prompt. User text is what the caller supplied in `messages` or `extra`, also
// where the template trimmed or changed it: special tokens written in it must stay plain text.
// Control text is what the template wrote. A piece is no unit of tokenization: text on both sides
// of a boundary is split into tokens together unless a special token stands there.
struct ChatPiece {
  std::string text;
  bool from_user;
};

// Immutable; safe to use from several threads.
class ChatTemplate {
 public:
  // Throws kFormat or kUnsupported with the line for what is no template of our subset.
  explicit ChatTemplate(const std::string& source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `messages` is an array of objects with role and content; further keys (tool_calls,
  // reasoning_content…) reach the template. Throws kInput when the template refuses them, kLimit
  // when it would run or write too long.
  std::string Render(const OrderedJson& messages, const ChatOptions& options) const;

  // The same text in pieces of alternating origin; none is empty.
  std::vector<ChatPiece> RenderPieces(const OrderedJson& messages,
                                      const ChatOptions& options) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

// Harmony, the chat format of gpt-oss: an assistant writes messages in channels, its thoughts as
// "<|channel|>analysis<|message|>…<|end|>" and then, begun by "<|start|>assistant", its answer as
// "<|channel|>final<|message|>…<|return|>".

// After a generation prompt ("<|start|>assistant"), this makes the answer come at once.
inline constexpr std::string_view kHarmonyAnswer = "<|channel|>final<|message|>";

// Whether a chat template writes the format.
bool IsHarmonyTemplate(std::string_view chat_template);

// What was written in channels. Without a final one, all is thought.
struct HarmonyText {
  bool in_channels = false;  // false: the text is no such thing, and the others are empty
  std::string thinking, answer;
};
// `text` is decoded with its special tokens, from after the generation prompt on.
HarmonyText SplitHarmony(std::string_view text);

}  // namespace banyan
