#include "values/date_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "values/number_literal.h"
#include "values/value_text.h"

namespace banyan {
namespace {

constexpr std::string_view kMonthNames[] = {
    "january jan januar janner jan janvier janv",
    "february feb februar feber fevrier fevr fev",
    "march mar marz mrz maerz mars",
    "april apr avril avr",
    "may mai",
    "june jun juni juno juin",
    "july jul juli juillet juil",
    "august aug aout",
    "september sep sept septembre",
    "october oct oktober okt octobre",
    "november nov novembre",
    "december dec dezember dez decembre",
};
constexpr std::string_view kWeekdays =
    "monday mon tuesday tue tues wednesday wed thursday thu thur thurs friday fri saturday sat "
    "sunday "
    "sun montag mo dienstag di mittwoch mi donnerstag do freitag fr samstag sa sonnabend sonntag "
    "so "
    "lundi lun mardi mercredi mer jeudi jeu vendredi ven samedi sam dimanche dim";

bool IsDateLetter(char32_t code) {
  return !IsAsciiDigit(code) && code != '_' && IsWordCharacter(code);
}

DateToken ReadDigitRun(std::u32string_view text, size_t& at) {
  DateToken token;
  token.number = 0;
  for (; at < text.size() && IsAsciiDigit(text[at]); ++at, ++token.digits) {
    if (token.digits < 8) token.number = token.number * 10 + static_cast<int>(text[at] - '0');
  }
  return token;
}

}  // namespace

std::vector<DateToken> ReadDateTokens(std::string_view raw) {
  const std::u32string text = UniformText(raw);
  std::vector<DateToken> tokens;
  bool spaced = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = text[at];
    if (c == ' ' || c == '\n' || c == kGroupSpace) {
      spaced = true;
      ++at;
      continue;
    }
    DateToken token;
    if (IsAsciiDigit(c)) {
      token = ReadDigitRun(text, at);
    } else if (IsDateLetter(c)) {
      const size_t begin = at;
      while (at < text.size() && IsDateLetter(text[at])) ++at;
      token.word = FoldedText(Utf8Of(std::u32string_view(text).substr(begin, at - begin)));
      if (at < text.size() && text[at] == '.') ++at;
      const bool behind_number = !tokens.empty() && tokens.back().number >= 0 && !spaced;
      if (behind_number && ListHasWord("st nd rd th er e eme ten", token.word)) continue;
    } else {
      token.mark = c;
      ++at;
      if (c == '\'' || c == '"') continue;  // '24, quotation marks
    }
    token.spaced = spaced;
    spaced = false;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

int MonthNamed(std::string_view folded_word) {
  for (size_t i = 0; i < std::size(kMonthNames); ++i) {
    if (ListHasWord(kMonthNames[i], folded_word)) return static_cast<int>(i) + 1;
  }
  return 0;
}

bool IsWeekday(std::string_view folded_word) { return ListHasWord(kWeekdays, folded_word); }

}  // namespace banyan
