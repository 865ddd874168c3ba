#include "text/harmony.h"

#include <algorithm>

namespace banyan {
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
