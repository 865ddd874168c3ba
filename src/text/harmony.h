// Harmony, the chat format of gpt-oss: an assistant writes messages in channels, its thoughts as
// "<|channel|>analysis<|message|>…<|end|>" and then, begun by "<|start|>assistant", its answer as
// "<|channel|>final<|message|>…<|return|>".
#pragma once

#include <string>
#include <string_view>

namespace banyan {

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
