// Literals first, then the lexer: text between tags, tags, comments.
#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "text/jinja/text.h"

namespace banyan::jinja {

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

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

struct NumberLiteral {
  std::string digits;
  bool is_float;
  size_t end;  // offset in the source after the literal
};

// The number that begins with the digit source[begin]: digits, or digits.digits. `after_dot`:
// digits after "x." are an index of x, never a fraction.
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

// Decodes the text between a string's quotes: \n \r \t \\ \' \" \xHH \uHHHH. A backslash before
// another character is itself; Python's other escapes are refused (kUnsupported). A backslash must
// not be the last byte. Errors name `line`.
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

bool IsNameByte(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// "\r\n" and "\r" become "\n"; one newline at the very end goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const Limits& limits)
      : source_(NormalizeNewlines(source)), limits_(limits) {}

  std::vector<Token> Run() {
    while (pos_ < source_.size()) LexText();
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    Throw(ErrorKind::kFormat, "chat template line {}: {}", line_,
          fmt::format(format, std::forward<Args>(args)...));
  }

  bool At(std::string_view what) const {
    return std::string_view(source_).substr(pos_, what.size()) == what;
  }
  void Emit(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void AdvanceTo(size_t pos) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(pos), '\n'));
    pos_ = pos;
  }
  size_t SkipSpace(size_t pos) const {
    while (pos < source_.size() && IsSpace(CharAt(source_, pos))) {
      pos += CharLength(source_, pos);
    }
    return pos;
  }

  // Literal text up to the next tag, then the tag.
  void LexText() {
    size_t tag = pos_;
    do {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) return LastText();
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    } while (true);
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    EmitText(tag, sign, type != '{');
    AdvanceTo(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (type == '#') return LexComment();
    Emit(type == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    LexTag(type == '%');
  }

  void LastText() {
    Emit(TokenKind::kText, source_.substr(pos_));
    AdvanceTo(source_.size());
  }

  // Text [pos_, end) before a tag that opens with `sign`.
  void EmitText(size_t end, char sign, bool strips_line_start) {
    std::string_view text = std::string_view(source_).substr(pos_, end - pos_);
    if (sign == '-') {
      text = text.substr(0, TrimmedRange(text, nullptr, {.left = false}).end);
    } else if (sign != '+' && strips_line_start) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const std::string_view rest = text.substr(line_start);
      if ((line_start > 0 || line_starting_) &&
          TrimmedRange(rest, nullptr, {.right = false}).begin == rest.size()) {
        text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) Emit(TokenKind::kText, std::string(text));
  }

  // Steps over a tag's end at pos_ (sign, two closing characters, what they strip); false when
  // pos_ is at none. `trims` says that a newline right after it goes.
  bool SkipTagEnd(std::string_view close, bool trims, bool plus_allowed) {
    const bool minus = source_[pos_] == '-';
    const bool plus = plus_allowed && source_[pos_] == '+';
    const size_t at = pos_ + (minus || plus ? 1 : 0);
    if (std::string_view(source_).substr(at, 2) != close) return false;
    size_t end = at + 2;
    if (minus) {
      end = SkipSpace(end);
    } else if (!plus && trims && end < source_.size() && source_[end] == '\n') {
      ++end;
    }
    AdvanceTo(end);
    line_starting_ = source_[end - 1] == '\n';
    return true;
  }

  void LexComment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string::npos) Fail("this comment does not end");
    const bool sign = end > pos_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    AdvanceTo(end - (sign ? 1 : 0));
    SkipTagEnd("#}", true, true);
  }

  // Tokens inside {% %} or {{ }}, and the end.
  void LexTag(bool is_block) {
    std::string open;  // brackets not closed yet
    while (true) {
      AdvanceTo(SkipSpace(pos_));
      if (pos_ >= source_.size()) Fail("this tag does not end");
      const TokenKind end_kind = is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd;
      if (open.empty() && AtTagEnd(is_block)) {
        Emit(end_kind, "");
        SkipTagEnd(is_block ? "%}" : "}}", is_block, is_block);
        return;
      }
      const char c = source_[pos_];
      if (c == '\'' || c == '"') {
        LexString(c);
      } else if (IsDigit(c)) {
        LexNumber();
      } else if (IsNameByte(c)) {
        size_t end = pos_;
        while (end < source_.size() && IsNameByte(source_[end])) ++end;
        Emit(TokenKind::kName, source_.substr(pos_, end - pos_));
        pos_ = end;
      } else {
        LexOperator(open);
      }
    }
  }

  bool AtTagEnd(bool is_block) const {
    if (is_block) return At("%}") || At("-%}") || At("+%}");
    return At("}}") || At("-}}");
  }

  void LexOperator(std::string& open) {
    static constexpr std::array<std::string_view, 5> kPairs = {"//", "==", "!=", ">=", "<="};
    for (const std::string_view pair : kPairs) {
      if (At(pair)) {
        Emit(TokenKind::kOperator, std::string(pair));
        pos_ += 2;
        return;
      }
    }
    const char c = source_[pos_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      Fail("unexpected character '{}'", c);
    }
    if (c == '(' || c == '[' || c == '{') {
      open += c;
      if (static_cast<int>(open.size()) > limits_.nesting) {
        Throw(ErrorKind::kLimit, "chat template line {}: brackets nest deeper than {}", line_,
              limits_.nesting);
      }
    } else if (c == ')' || c == ']' || c == '}') {
      const char expected = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != expected) Fail("unexpected '{}'", c);
      open.pop_back();
    }
    Emit(TokenKind::kOperator, std::string(1, c));
    ++pos_;
  }

  void LexNumber() {
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                           tokens_.back().text == ".";
    NumberLiteral number = ReadNumber(source_, pos_, after_dot);
    Emit(number.is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(number.digits));
    pos_ = number.end;
  }

  void LexString(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Fail("this string does not end");
    Emit(TokenKind::kString,
         Unescape(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1), line_));
    AdvanceTo(end + 1);
  }

  const std::string source_;
  const Limits limits_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline, or there was none yet
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source, const Limits& limits) {
  if (source.size() > limits.source_bytes) {
    Throw(ErrorKind::kLimit, "chat template: {} bytes, at most {} are read", source.size(),
          limits.source_bytes);
  }
  return Lexer(source, limits).Run();
}

}  // namespace banyan::jinja
