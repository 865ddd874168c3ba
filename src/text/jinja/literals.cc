#include "text/jinja/literals.h"

#include <cstdint>

#include "base/error.h"
#include "text/jinja/text.h"

namespace banyan::jinja {
namespace {

// The character whose number the first `digits` bytes are.
int32_t HexCharacter(std::string_view body, size_t digits, int line) {
  int64_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const size_t nibble = i < body.size()
                              ? std::string_view("0123456789abcdef")
                                    .find(IsDigit(body[i]) ? body[i] : char(body[i] | 0x20))
                              : std::string_view::npos;
    if (nibble == std::string_view::npos) {
      Throw(ErrorKind::kFormat, "chat template line {}: a string's \\x or \\u needs {} digits",
            line, digits);
    }
    code = code * 16 + static_cast<int64_t>(nibble);
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    Throw(ErrorKind::kFormat, "chat template line {}: a string's escape U+{:X} is no character",
          line, code);
  }
  return static_cast<int32_t>(code);
}

}  // namespace

NumberLiteral ReadNumber(std::string_view source, size_t begin, bool after_dot) {
  size_t end = begin;
  const auto skip_digits = [&] {
    while (end < source.size() && IsDigit(source[end])) ++end;
  };
  skip_digits();
  const bool is_float =
      !after_dot && end + 1 < source.size() && source[end] == '.' && IsDigit(source[end + 1]);
  if (is_float) {
    ++end;
    skip_digits();
  }
  return {std::string(source.substr(begin, end - begin)), is_float, end};
}

std::string Unescape(std::string_view body, int line) {
  std::string out;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\') {
      out += body[i++];
      continue;
    }
    const char c = body[i + 1];  // a backslash is not the last byte
    static constexpr std::string_view kFrom = "nrt\\'\"";
    static constexpr std::string_view kTo = "\n\r\t\\'\"";
    if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
      out += kTo[at];
      i += 2;
    } else if (c == 'x' || c == 'u') {
      const size_t digits = c == 'x' ? 2 : 4;
      AppendUtf8(out, HexCharacter(body.substr(i + 2), digits, line));
      i += 2 + digits;
    } else if (std::string_view("abfvNU01234567\n").find(c) != std::string_view::npos) {
      Throw(ErrorKind::kUnsupported, "chat template line {}: the escape \\{} in a string", line, c);
    } else {
      out += '\\';
      ++i;
    }
  }
  return out;
}

}  // namespace banyan::jinja
