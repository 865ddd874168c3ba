#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "text/utf8.h"

namespace banyan {
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

}  // namespace banyan
