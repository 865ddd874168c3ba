// A mention of a date as numbers, words and marks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct DateToken {
  int number = -1;      // of digits: their value, at most 8 of them; otherwise -1
  size_t digits = 0;    // how many
  std::string word;     // folded, without points
  char32_t mark = 0;    // neither digits nor letters
  bool spaced = false;  // white space before it
};

// Ordinal endings directly behind a number (31st, 1er) and points behind words give no token.
std::vector<DateToken> ReadDateTokens(std::string_view raw);

// 1 to 12 for a month's name or abbreviation in English, German or French, folded; else 0.
int MonthNamed(std::string_view folded_word);

bool IsWeekday(std::string_view folded_word);

}  // namespace banyan
