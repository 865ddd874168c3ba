#include "text/character_class.h"

#include <string>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace banyan {
namespace {

// The alphabets of most texts lie below the first bound. Planes 0 to 3 have all letters and numbers
// of Unicode; the others hold marks, private use and nothing.
constexpr char32_t kFirstTableEnd = 0x3000;
constexpr char32_t kSecondTableEnd = 0x40000;

class ClassTable {  // of the codes [begin, end)
 public:
  ClassTable(char32_t begin, char32_t end) : begin_(begin), classes_(end - begin, kOtherCharacter) {
    std::string every_character;
    every_character.reserve(classes_.size() * 4);
    for (char32_t code = begin; code < end; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      AppendUtf8(code, every_character);
      if (IsWhitespace(code)) At(code) = code == '\r' || code == '\n' ? kNewline : kBlank;
    }
    Mark(every_character, "\\p{L}+", kLetter);
    Mark(every_character, "\\p{N}+", kNumber);
    for (char32_t code = begin; code < end; ++code) {
      if (IsNumeric(code)) At(code) |= kNumeric;
    }
  }

  CharacterClass Of(char32_t code) const { return classes_[code - begin_]; }

 private:
  CharacterClass& At(char32_t code) { return classes_[code - begin_]; }
  void Mark(const std::string& text, const char* pattern, CharacterClass character_class) {
    std::vector<TextRange> matches;
    Regex(pattern, "character classes").FindAll(text, matches);
    for (const TextRange& match : matches) {
      for (size_t i = match.begin; i < match.end;) {
        const Utf8Character c = ReadUtf8(text, i);
        At(c.code) = character_class;
        i += c.length;
      }
    }
  }

  char32_t begin_;
  std::vector<CharacterClass> classes_;
};

}  // namespace

CharacterClass ClassInTable(char32_t code) {
  if (code < kFirstTableEnd) {
    static const ClassTable first(0, kFirstTableEnd);
    return first.Of(code);
  }
  if (code >= kSecondTableEnd) return kOtherCharacter;
  static const ClassTable second(kFirstTableEnd, kSecondTableEnd);
  return second.Of(code);
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
