// Character properties and normal forms, as the tokenizers of the field use them.
#pragma once

#include <string>
#include <string_view>

namespace banyan {

bool IsWhitespace(char32_t code);        // Unicode White_Space
bool IsNumeric(char32_t code);           // Nd, Nl, No
bool IsPunctuation(char32_t code);       // P*, and the ASCII symbols such as $ and ^
bool IsMark(char32_t code);              // Mn, Mc, Me
bool IsNonspacingMark(char32_t code);    // Mn
bool IsControl(char32_t code);           // Cc, Cf, Co
bool IsWordCharacter(char32_t code);     // \w: letters, marks, decimal digits, connectors
bool IsChineseCharacter(char32_t code);  // the ideograph blocks that BERT separates

// Full lower-case mapping of one character (without context), appended to `out`.
void AppendLowercase(char32_t code, std::string& out);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// REQUIRES: text is well-formed UTF-8.
std::string ToNormalForm(std::string_view text, NormalForm form);

// Whether `text` has only characters of the common alphabets that normal form C never changes: a
// quick test, which most texts pass. False says nothing. REQUIRES: text is well-formed UTF-8.
bool IsSurelyNfc(std::string_view text);

}  // namespace banyan
