#include "program/visible.h"

#include <fmt/format.h>

namespace banyan {
namespace {

// Bytes of the character that begins the text, 0 when they are none. Overlong forms of control
// characters need no care: they would begin with 0xC0, 0xE0 0x80 or 0xF0 0x80.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80            ? 1
                        : first >> 5 == 0b110   ? 2
                        : first >> 4 == 0b1110  ? 3
                        : first >> 3 == 0b11110 ? 4
                                                : 0;
  if (length == 0 || length > text.size() || first == 0xC0 || first == 0xC1) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0b10) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  return overlong ? 0 : length;
}

}  // namespace

std::string Visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool c1 = length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0) {
      out += fmt::format("\\x{:02x}", first);
    } else if (c1) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[1]));
    } else if ((first < 0x20 && first != '\n' && first != '\t') || first == 0x7F) {
      out += fmt::format("\\u{:04x}", first);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace banyan
