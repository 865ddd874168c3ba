#include "text/character_class.h"

#include <string>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace banyan {
namespace {

// Planes 0 to 3 have all letters and numbers of Unicode; the others hold marks, private use and
// nothing.
constexpr char32_t kTableEnd = 0x40000;

class ClassTable {
 public:
  ClassTable() : classes_(kTableEnd, kOtherCharacter) {
    std::string every_character;
    for (char32_t code = 0; code < kTableEnd; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      AppendUtf8(code, every_character);
      if (IsWhitespace(code)) classes_[code] = kBlank;
    }
    classes_['\r'] = classes_['\n'] = kNewline;
    Mark(every_character, "\\p{L}+", kLetter);
    Mark(every_character, "\\p{N}+", kNumber);
    for (char32_t code = 0; code < kTableEnd; ++code) {
      if (IsNumeric(code)) classes_[code] |= kNumeric;
    }
  }

  CharacterClass Of(char32_t code) const {
    return code < kTableEnd ? classes_[code] : kOtherCharacter;
  }

 private:
  void Mark(const std::string& text, const char* pattern, CharacterClass character_class) {
    std::vector<TextRange> matches;
    Regex(pattern, "character classes").FindAll(text, matches);
    for (const TextRange& match : matches) {
      for (size_t i = match.begin; i < match.end;) {
        const Utf8Character c = ReadUtf8(text, i);
        classes_[c.code] = character_class;
        i += c.length;
      }
    }
  }

  std::vector<CharacterClass> classes_;  // [kTableEnd]
};

}  // namespace

CharacterClass ClassInTable(char32_t code) {
  static const ClassTable table;
  return table.Of(code);
}

bool IsCutBeforeWord(std::string_view text, size_t at) {
  if (at == 0 || at + 1 >= text.size() || text[at] != ' ') return false;
  const auto is_letter = [&](size_t begin, size_t end) {
    const Utf8Character c = ReadUtf8(text.substr(0, end), begin);
    return c.valid && (ClassOfCode(c.code) & kLetter) != 0;
  };
  size_t before = at - 1;
  while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  return before + ReadUtf8(text, before).length == at && is_letter(before, at) &&
         is_letter(at + 1, text.size());
}

}  // namespace banyan
