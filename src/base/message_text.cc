// Counts, sizes and untrusted text in messages.
#include "program/message_text.h"

#include <fmt/format.h>

#include <cctype>
#include <cstddef>
#include <cstdlib>

#include "base/error.h"

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

std::string Plural(std::int64_t count, std::string_view noun) {
  std::string text = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), " ");
  }
  text += ' ';
  text += noun;
  if (count != 1) text += 's';
  return text;
}

std::string SizeText(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1 << 10) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", value / (1 << 10));
  if (bytes < 1 << 30) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.2f} GiB", value / (1 << 30));
}

std::int64_t ParseBytes(const std::string& text, const std::string& option) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.size() > 1 && unit.back() == 'B') unit.pop_back();
  if (unit.size() > 1 && unit.back() == 'I') unit.pop_back();
  double factor = 0.0;
  if (unit.empty() || unit == "B") factor = 1.0;
  if (unit == "K") factor = 1024.0;
  if (unit == "M") factor = 1024.0 * 1024.0;
  if (unit == "G") factor = 1024.0 * 1024.0 * 1024.0;
  if (end == text.c_str() || factor == 0.0 || !(number > 0.0) || number * factor > 1e15) {
    Throw(ErrorKind::kUsage, "{}: expected a size such as 512M or 2G, found '{}'", option, text);
  }
  return static_cast<std::int64_t>(number * factor);
}

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
