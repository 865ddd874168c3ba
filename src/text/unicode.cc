// UTF-8 by hand, properties and normal forms by utf8proc, character classes by PCRE2.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/regex.h"

namespace banyan {

namespace {

struct LeadByte {
  int continuation = 0;  // bytes that follow; 0: not the lead of a multi-byte character
  unsigned char low = 0x80, high = 0xBF;  // range of the first of them
};

LeadByte ClassifyLead(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

}  // namespace

size_t SkipAscii(std::string_view text, size_t begin) {
  size_t i = begin;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t bytes;
    std::memcpy(&bytes, text.data() + i, 8);
    if ((bytes & 0x8080808080808080ull) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

Utf8Character ReadUtf8(std::string_view text, size_t position) {
  const auto byte_at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(position);
  if (first < 0x80) return {first, 1, true, false};
  const LeadByte lead = ClassifyLead(first);
  if (lead.continuation == 0) return {};
  char32_t code = first & (0x3Fu >> lead.continuation);
  for (int i = 1; i <= lead.continuation; ++i) {
    const auto taken = static_cast<std::uint8_t>(i);
    if (position + static_cast<size_t>(i) >= text.size()) {
      return {kReplacementCharacter, taken, false, true};
    }
    const unsigned char next = byte_at(position + static_cast<size_t>(i));
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (next < low || next > high) return {kReplacementCharacter, taken, false, false};
    code = (code << 6) | (next & 0x3Fu);
  }
  return {code, static_cast<std::uint8_t>(lead.continuation + 1), true, false};
}

void AppendUtf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

bool IsAscii(std::string_view text) { return SkipAscii(text, 0) == text.size(); }

bool IsValidUtf8(std::string_view text) {
  for (size_t i = SkipAscii(text, 0); i < text.size(); i = SkipAscii(text, i)) {
    const Utf8Character c = ReadUtf8(text, i);
    if (!c.valid) return false;
    i += c.length;
  }
  return true;
}

void AppendLossyUtf8(std::string_view bytes, std::string& out) {
  size_t done = 0;  // bytes before it are appended
  for (size_t i = SkipAscii(bytes, 0); i < bytes.size(); i = SkipAscii(bytes, i)) {
    const Utf8Character c = ReadUtf8(bytes, i);
    if (!c.valid) {
      out.append(bytes.substr(done, i - done));
      AppendUtf8(kReplacementCharacter, out);
      done = i + c.length;
    }
    i += c.length;
  }
  out.append(bytes.substr(done));
}

size_t FinishedUtf8Prefix(std::string_view bytes) {
  const size_t first = bytes.size() > 3 ? bytes.size() - 3 : 0;
  for (size_t i = first; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte >= 0xC0 && ReadUtf8(bytes, i).incomplete) return i;
  }
  return bytes.size();
}

namespace {

utf8proc_category_t CategoryOf(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

struct CodeRange {
  char32_t first, last;
};
// Characters that are their own normal form C, and compose with nothing before them. Precomposed
// letters are among them, combining marks are not.
constexpr CodeRange kSurelyNfc[] = {
    {0x0000, 0x02FF},                    // Latin
    {0x0400, 0x0482},                    // Cyrillic, around its combining marks
    {0x048A, 0x052F}, {0x2010, 0x2027},  // dashes and quotation marks
    {0x3000, 0x3029},                    // ideographs, their punctuation, kana
    {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3},  // Hangul syllables
    {0xFF01, 0xFF60},                    // full width
};

bool InRange(char32_t code, char32_t low, char32_t high) { return code >= low && code <= high; }

// Alphabetic characters outside L* and Nl: circled and squared Latin letters. (Other_Alphabetic
// marks are word characters already because they are marks.)
bool IsAlphabeticSymbol(char32_t code) {
  return InRange(code, 0x24B6, 0x24E9) || InRange(code, 0x1F130, 0x1F149) ||
         InRange(code, 0x1F150, 0x1F169) || InRange(code, 0x1F170, 0x1F189);
}

}  // namespace

bool IsWhitespace(char32_t code) {
  if (code < 0x80) return code == ' ' || InRange(code, 0x09, 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || InRange(code, 0x2000, 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsNumeric(char32_t code) {
  if (code < 0x80) return InRange(code, '0', '9');
  const utf8proc_category_t c = CategoryOf(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return InRange(code, '!', '/') || InRange(code, ':', '@') || InRange(code, '[', '`') ||
           InRange(code, '{', '~');
  }
  const utf8proc_category_t c = CategoryOf(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool IsMark(char32_t code) {
  const utf8proc_category_t c = CategoryOf(code);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool IsNonspacingMark(char32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_MN; }

bool IsControl(char32_t code) {
  const utf8proc_category_t c = CategoryOf(code);
  return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool IsWordCharacter(char32_t code) {
  if (code < 0x80) {
    return InRange(code, '0', '9') || InRange(code, 'a', 'z') || InRange(code, 'A', 'Z') ||
           code == '_';
  }
  const utf8proc_category_t c = CategoryOf(code);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) || IsMark(code) ||
         c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC ||
         code == 0x200C || code == 0x200D || IsAlphabeticSymbol(code);
}

bool IsChineseCharacter(char32_t code) {
  return InRange(code, 0x4E00, 0x9FFF) || InRange(code, 0x3400, 0x4DBF) ||
         InRange(code, 0x20000, 0x2A6DF) || InRange(code, 0x2A700, 0x2B73F) ||
         InRange(code, 0x2B740, 0x2B81F) || InRange(code, 0x2B920, 0x2CEAF) ||
         InRange(code, 0xF900, 0xFAFF) || InRange(code, 0x2F800, 0x2FA1F);
}

void AppendLowercase(char32_t code, std::string& out) {
  if (code == 0x130) {  // İ is the one character whose lower case is two characters
    out += "i\u0307";
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
}

bool IsSurelyNfc(std::string_view text) {
  for (size_t i = SkipAscii(text, 0); i < text.size(); i = SkipAscii(text, i)) {
    const Utf8Character c = ReadUtf8(text, i);
    const bool sure = std::any_of(
        std::begin(kSurelyNfc), std::end(kSurelyNfc),
        [&](const CodeRange& range) { return InRange(c.code, range.first, range.last); });
    if (!sure) return false;
    i += c.length;
  }
  return true;
}

std::string ToNormalForm(std::string_view text, NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &result,
                                             static_cast<utf8proc_option_t>(options));
  if (size < 0) Throw(ErrorKind::kInput, "text normalisation: {}", utf8proc_errmsg(size));
  std::string out(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
  std::free(result);
  return out;
}

namespace {

// The alphabets of most texts lie below the first bound. Planes 0 to 3 have all letters and numbers
// of Unicode; the others have only marks and private use.
constexpr char32_t kFirstTableEnd = 0x3000;
constexpr char32_t kSecondTableEnd = 0x40000;

class ClassTable {  // of the codes [begin, end)
 public:
  ClassTable(char32_t begin, char32_t end) : begin_(begin), classes_(end - begin, kOtherClass) {
    std::string every_character;
    every_character.reserve(classes_.size() * 4);
    for (char32_t code = begin; code < end; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      AppendUtf8(code, every_character);
      if (IsWhitespace(code)) At(code) = code == '\r' || code == '\n' ? kNewlineClass : kBlankClass;
    }
    Mark(every_character, "\\p{L}+", kLetterClass);
    Mark(every_character, "\\p{N}+", kNumberClass);
    for (char32_t code = begin; code < end; ++code) {
      if (IsNumeric(code)) At(code) |= kNumericClass;
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
  if (code >= kSecondTableEnd) return kOtherClass;
  static const ClassTable second(kFirstTableEnd, kSecondTableEnd);
  return second.Of(code);
}

bool IsCutBeforeWord(std::string_view text, size_t at) {
  if (at == 0 || at + 1 >= text.size() || text[at] != ' ') return false;
  const auto is_letter = [&](size_t begin, size_t end) {
    const Utf8Character c = ReadUtf8(text.substr(0, end), begin);
    return c.valid && (ClassOfCode(c.code) & kLetterClass) != 0;
  };
  size_t before = at - 1;
  while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  return before + ReadUtf8(text, before).length == at && is_letter(before, at) &&
         is_letter(at + 1, text.size());
}

}  // namespace banyan
