// GPT-2's reversible spelling of bytes as printable characters: the 188 bytes that print stand for
// themselves, the others for U+0100 and up in order. A space is 'Ġ', a newline 'Ċ'.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace banyan {

void AppendByteLevel(std::string_view bytes, std::string& out);

// The inverse. False, with nothing appended, when a character of `token` spells no byte.
bool AppendFromByteLevel(std::string_view token, std::string& out);
// The same; nullopt when a character of `token` spells no byte.
std::optional<std::string> FromByteLevel(std::string_view token);

}  // namespace banyan
