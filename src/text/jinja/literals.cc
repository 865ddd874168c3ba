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
  std::string digits;
  const auto take = [&](auto&& accepted) {
    while (end < source.size() &&
           (accepted(source[end]) ||
            (source[end] == '_' && end + 1 < source.size() && accepted(source[end + 1])))) {
      if (source[end] != '_') digits += source[end];
      ++end;
    }
  };
  const char prefix = begin + 1 < source.size() ? source[begin + 1] : '\0';
  if (source[begin] == '0' && std::string_view("xXoObB").find(prefix) != std::string::npos) {
    digits = {'0', static_cast<char>(prefix | 0x20)};
    end += 2;
    take([](char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
    return {digits, false, end};
  }
  take(IsDigit);
  bool is_float = false;
  if (!after_dot && end + 1 < source.size() && source[end] == '.' && IsDigit(source[end + 1])) {
    digits += '.';
    ++end;
    take(IsDigit);
    is_float = true;
  }
  if (!after_dot && end < source.size() && (source[end] | 0x20) == 'e') {
    size_t exponent = end + 1;
    if (exponent < source.size() && (source[exponent] == '+' || source[exponent] == '-')) {
      ++exponent;
    }
    if (exponent < source.size() && IsDigit(source[exponent])) {
      digits += source.substr(end, exponent - end);
      end = exponent;
      take(IsDigit);
      is_float = true;
    }
  }
  return {digits, is_float, end};
}

std::string Unescape(std::string_view body, int line) {
  std::string out;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\') {
      out += body[i++];
      continue;
    }
    const char c = body[i + 1];  // a backslash is not the last byte
    static constexpr std::string_view kFrom = "abfnrtv\\'\"";
    static constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
      out += kTo[at];
      i += 2;
    } else if (c == '\n') {
      i += 2;
    } else if (c >= '0' && c <= '7') {
      size_t end = i + 1;
      int32_t code = 0;
      while (end < body.size() && end < i + 4 && body[end] >= '0' && body[end] <= '7') {
        code = code * 8 + (body[end++] - '0');
      }
      AppendUtf8(out, code);
      i = end;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      AppendUtf8(out, HexCharacter(body.substr(i + 2), digits, line));
      i += 2 + digits;
    } else if (c == 'N') {
      Throw(ErrorKind::kUnsupported, "chat template line {}: \\N{{…}} in a string", line);
    } else {
      out += '\\';
      ++i;
    }
  }
  return out;
}

}  // namespace banyan::jinja
