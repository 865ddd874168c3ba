// A model's chat template: messages → the text of a prompt, as Transformers' apply_chat_template
// renders it; and Harmony, the chat format of gpt-oss.
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
// Control text is what the template wrote. Tokens may cross the boundary of two pieces unless a
// special token is there.
struct ChatPiece {
  std::string text;
  bool from_user;
};

// Immutable; safe to use from several threads.
class ChatTemplate {
 public:
  // Throws kFormat for bad syntax and kUnsupported for what is not in the subset, with the line.
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

// Harmony: an assistant writes messages in channels, its reasoning as
// "<|channel|>analysis<|message|>…<|end|>" and then, after "<|start|>assistant", its answer as
// "<|channel|>final<|message|>…<|return|>".

// Appended to a generation prompt ("<|start|>assistant"), this makes the model skip the reasoning.
inline constexpr std::string_view kHarmonyAnswer = "<|channel|>final<|message|>";

// Whether a chat template produces the format.
bool IsHarmonyTemplate(std::string_view chat_template);

// A model's output by channel. Without a final channel, all of it is reasoning.
struct HarmonyText {
  bool in_channels = false;  // false: the text has no channels, and the others are empty
  std::string thinking, answer;
};
// `text` is what follows the generation prompt, decoded with its special tokens.
HarmonyText SplitHarmony(std::string_view text);

}  // namespace banyan
