// Where a value stands in a JSON text, without building anything.
#include <optional>
#include <string>

#include "base/json_limits.h"

namespace banyan {
namespace {

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
