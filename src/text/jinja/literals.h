// Numbers and strings in a template's tags, as Python spells them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace banyan::jinja {

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct NumberLiteral {
  std::string digits;
  bool is_float;
  size_t end;  // behind it in the source
};

// The number that begins with the digit source[begin]: digits, or digits.digits. `after_dot`:
// digits after "x." are an index of x, never a fraction.
NumberLiteral ReadNumber(std::string_view source, size_t begin, bool after_dot);

// What a string with this text between its quotes says: \n \r \t \\ \' \" \xHH \uHHHH; a backslash
// before another character is itself, Python's other escapes are refused (kUnsupported). A
// backslash must not be the last byte. Errors name `line`.
std::string Unescape(std::string_view body, int line);

}  // namespace banyan::jinja
