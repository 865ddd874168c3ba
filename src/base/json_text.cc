// The grammar of JSON (RFC 8259) over bytes, without building or copying anything.
#include "base/json_text.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/work_budget.h"

namespace banyan {
namespace {

constexpr size_t kMostDepth = 256;         // deeper is refused by whoever builds the value
constexpr size_t kMostNumberBytes = 4096;  // of one number

class JsonChecker {
 public:
  explicit JsonChecker(std::string_view text) : text_(text) {}

  std::optional<size_t> FirstError() {
    SkipSpace();
    if (!Value()) return at_;
    while (depth_ > 0 && !too_deep_) {
      if (!Continue()) return at_;
    }
    if (too_deep_) return std::nullopt;
    return at_ == text_.size() ? std::nullopt : std::optional(at_);
  }

 private:
  bool At(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool Take(char c) {
    if (!At(c)) return false;
    ++at_;
    SkipSpace();
    return true;
  }
  void SkipSpace() {
    while (At(' ') || At('\t') || At('\n') || At('\r')) ++at_;
  }

  // What follows a value inside a list or an object.
  bool Continue() {
    constexpr size_t kValuesBetweenLooks = 1 << 12;
    if (++values_ % kValuesBetweenLooks == 0) CheckBudget();
    const bool object = is_object_[depth_ - 1];
    if (Take(object ? '}' : ']')) {
      --depth_;
      fresh_ = false;
      return true;
    }
    if (!fresh_ && !Take(',')) return false;
    fresh_ = false;
    if (object && !(String() && Take(':'))) return false;
    return Value();
  }

  bool Value() {
    fresh_ = false;
    if (At('{') || At('[')) return Open();
    if (At('"')) return String();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      SkipSpace();
      return true;
    }
    return Number();
  }

  bool Open() {
    if (depth_ == kMostDepth) {
      too_deep_ = true;
      return true;
    }
    is_object_[depth_++] = At('{');
    ++at_;
    SkipSpace();
    fresh_ = true;
    return true;
  }

  bool Digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }
  bool Number() {
    const size_t begin = at_;
    if (At('-')) ++at_;
    if (At('0')) {
      ++at_;
    } else if (!Digits()) {
      return false;
    }
    if (At('.')) {
      ++at_;
      if (!Digits()) return false;
    }
    if (At('e') || At('E')) {
      ++at_;
      if (At('+') || At('-')) ++at_;
      if (!Digits()) return false;
    }
    if (at_ - begin > kMostNumberBytes) return false;
    SkipSpace();
    return true;
  }

  bool String() {
    constexpr size_t kBytesBetweenLooks = 1 << 16;
    if (!At('"')) return false;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (at_ % kBytesBetweenLooks == 0) CheckBudget();
      const auto c = static_cast<std::uint8_t>(text_[at_]);
      if (c < 0x20) return false;
      if (c == '\\' ? !Escape() : c < 0x80 ? (++at_, false) : !Character(c)) return false;
    }
    return Take('"');
  }

  // The 16 bits of \uXXXX; nothing: no such thing.
  std::optional<unsigned> Unit() {
    if (text_.substr(at_, 2) != "\\u" || at_ + 6 > text_.size()) return std::nullopt;
    unsigned unit = 0;
    for (size_t i = at_ + 2; i < at_ + 6; ++i) {
      const char c = text_[i];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      unit = unit * 16 + static_cast<unsigned>(digit);
    }
    at_ += 6;
    return unit;
  }

  bool Escape() {
    if (at_ + 1 >= text_.size()) return false;
    if (text_[at_ + 1] != 'u') {
      if (std::string_view("\"\\/bfnrt").find(text_[at_ + 1]) == std::string_view::npos) {
        return false;
      }
      at_ += 2;
      return true;
    }
    const std::optional<unsigned> unit = Unit();
    if (!unit || (*unit >= 0xDC00 && *unit < 0xE000)) return false;
    if (*unit < 0xD800 || *unit >= 0xE000) return true;
    const std::optional<unsigned> second = Unit();  // of a pair of surrogates
    return second && *second >= 0xDC00 && *second < 0xE000;
  }

  // A character of two to four bytes, as Unicode's table 3-7 has them.
  bool Character(std::uint8_t first) {
    const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first < 0xC2 || first > 0xF4 || at_ + length > text_.size()) return false;
    const auto byte = [&](size_t i) { return static_cast<std::uint8_t>(text_[at_ + i]); };
    const std::uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(1) < least || byte(1) > most) return false;
    for (size_t i = 2; i < length; ++i) {
      if (byte(i) < 0x80 || byte(i) > 0xBF) return false;
    }
    at_ += length;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0, depth_ = 0, values_ = 0;
  bool fresh_ = false;     // a list or object was just opened
  bool too_deep_ = false;  // what follows was not looked at
  std::array<bool, kMostDepth> is_object_{};
};

// Reads valid JSON from a place on; each step takes at least one byte or is at the end.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) { SkipSpace(); }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // True, and over it, if the sign is there.
  bool Take(char sign) {
    if (Peek() != sign || at_ >= text_.size()) return false;
    ++at_;
    SkipSpace();
    return true;
  }
  // A string with its quotes, or any other value, whole.
  std::string_view TakeValue() {
    const size_t begin = at_;
    int open = 0;
    do {
      const char c = Peek();
      if (c == '"') {
        SkipString();
      } else {
        open += (c == '{' || c == '[') ? 1 : (c == '}' || c == ']') ? -1 : 0;
        ++at_;
        if (open == 0) SkipScalar();
      }
    } while (open > 0 && at_ < text_.size());
    at_ = std::min(at_, text_.size());
    const std::string_view value = text_.substr(begin, at_ - begin);
    SkipSpace();
    return value;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }
  // The rest of a number or a word.
  void SkipScalar() {
    while (at_ < text_.size() &&
           std::string_view(",]} \t\n\r").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

// `written` has its quotes, and may spell letters by number.
bool IsName(std::string_view written, std::string_view name) {
  if (written.size() < 2) return false;
  if (written.find('\\') == std::string_view::npos) {
    return written.substr(1, written.size() - 2) == name;
  }
  const Json text = Json::parse(written, nullptr, /*allow_exceptions=*/false);
  return text.is_string() && text.get_ref<const std::string&>() == name;
}

}  // namespace

std::optional<size_t> FirstJsonError(std::string_view text) {
  return JsonChecker(text).FirstError();
}

std::string_view JsonValueText(std::string_view json, std::span<const char* const> way) {
  std::string_view value = JsonScanner(json).TakeValue();
  for (const char* wanted : way) {
    JsonScanner scanner(value);
    std::optional<std::string_view> found;
    if (!scanner.Take('{')) return {};
    while (scanner.Peek() == '"') {
      const std::string_view name = scanner.TakeValue();
      if (!scanner.Take(':')) return {};
      const std::string_view field = scanner.TakeValue();
      if (IsName(name, wanted)) found = field;
      if (!scanner.Take(',')) break;
    }
    if (!found) return {};
    value = *found;
  }
  return value;
}

}  // namespace banyan
