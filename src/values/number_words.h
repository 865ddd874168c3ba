// Numbers in words, zero to 999 999, in English, German and French: "two", "einundzwanzig",
// "quatre-vingt-dix", "half a dozen".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "values/decimal.h"

namespace banyan {

struct WordNumber {
  size_t words = 0;  // how many words it takes; 0: there is no number here
  Decimal value;
  // An article ("a", "ein", "une") or a half: counts only before a unit or alone.
  bool weak = false;
  bool ordinal = false;  // first, zweite, troisième
};

// The number that begins words[0], the longest of the three languages. Words are folded
// (value_text.h) and hyphens separate them. Ordinals: first to twelfth.
WordNumber ReadNumberWords(std::span<const std::string> words);

// Thousand, Mio., milliards …: the power of ten, 0 for other words. "billion" and "billions"
// are 10^9 as in English; "Billionen" are 10^12.
int MagnitudeOf(std::string_view folded_word);

// Whether a magnitude exists only in German or French: the comma before it is then a decimal
// comma.
bool IsGermanOrFrenchMagnitude(std::string_view folded_word);

}  // namespace banyan
