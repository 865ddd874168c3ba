// Tokens of a date, then one pattern after another.
#include "values/date.h"

#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/unicode.h"
#include "values/number_literal.h"
#include "values/value_text.h"

namespace banyan {
namespace {

// A mention of a date as numbers, words and marks.
struct DateToken {
  int number = -1;      // of digits: their value, at most 8 of them; otherwise -1
  size_t digits = 0;    // how many
  std::string word;     // folded, without points
  char32_t mark = 0;    // neither digits nor letters
  bool spaced = false;  // white space before it
};

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

// Ordinal endings directly after a number (31st, 1er) and points after words give no token.
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
      const bool after_number = !tokens.empty() && tokens.back().number >= 0 && !spaced;
      if (after_number && ListHasWord("st nd rd th er e eme ten", token.word)) continue;
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

constexpr std::string_view kRelativeWords =
    "today tomorrow yesterday tonight next last ago heute morgen gestern ubermorgen nachste "
    "nachsten "
    "nachster letzte letzten aujourd hui demain hier prochain prochaine dernier derniere now jetzt "
    "maintenant soon bald asap";
constexpr std::string_view kStrictDateWords = "before after vor nach avant apres";

constexpr const char* kNoYear = "has no year";

struct FoundDate {
  size_t begin = 0, end = 0;  // tokens
  int year = 0, month = 0, day = 0;
};

class DateReader {
 public:
  DateReader(std::string_view raw, bool month_first)
      : raw_(raw), month_first_(month_first), tokens_(ReadDateTokens(raw)) {}

  ConvertedValue Read() const {
    if (tokens_.empty()) return Refuse("is not a date");
    std::optional<FoundDate> found;
    for (size_t i = 0; i < tokens_.size() && !found; ++i) found = DateAt(i);
    if (!found) return Refuse(WhyNone());
    bool only_times = OnlyTimes(0, found->begin);
    size_t checked = found->end;
    for (size_t i = found->end; i < tokens_.size(); ++i) {
      const std::optional<FoundDate> second = DateAt(i);
      if (!second) continue;
      if (!IsSame(*second, *found)) return Refuse("has several dates");
      only_times = only_times && OnlyTimes(checked, i);
      checked = second->end;
      i = second->end - 1;
    }
    if (!only_times || !OnlyTimes(checked, tokens_.size())) {
      return Refuse("has numbers besides its date");
    }
    for (size_t i = 0; i < found->begin; ++i) {
      if (ListHasWord(kStrictDateWords, tokens_[i].word))
        return Refuse("is before or after a date");
      if (ListHasWord(kRelativeWords, tokens_[i].word)) return Refuse("is relative to another day");
    }
    if (!IsDay(found->year, found->month, found->day)) return Refuse("is no day of the calendar");
    return {fmt::format("{:04}-{:02}-{:02}", found->year, found->month, found->day), "", ""};
  }

 private:
  ConvertedValue Refuse(const std::string& problem) const {
    return {nullptr, "", QuotedMention(raw_) + " " + problem};
  }

  static bool IsSame(const FoundDate& a, const FoundDate& b) {
    return a.year == b.year && a.month == b.month && a.day == b.day;
  }

  bool IsNumber(size_t i, size_t most_digits) const {
    return i < tokens_.size() && tokens_[i].number >= 0 && tokens_[i].digits <= most_digits;
  }
  bool IsMark(size_t i, char32_t mark) const {
    return i < tokens_.size() && tokens_[i].mark == mark;
  }
  int MonthAt(size_t i) const { return i < tokens_.size() ? MonthNamed(tokens_[i].word) : 0; }

  // The year of two or four digits at token i.
  std::optional<int> YearAt(size_t i) const {
    if (!IsNumber(i, 4)) return std::nullopt;
    const DateToken& token = tokens_[i];
    if (token.digits == 4 && token.number > 0) return token.number;
    if (token.digits != 2) return std::nullopt;
    return token.number + (token.number < 70 ? 2000 : 1900);
  }

  // A number that is no part of a larger notation: a clock time, a decimal or a range.
  bool EndsCleanly(size_t i) const {
    if (i >= tokens_.size()) return true;
    const DateToken& token = tokens_[i];
    const bool number_after = i + 1 < tokens_.size() && tokens_[i + 1].number >= 0;
    if (token.number >= 0) return token.spaced;
    const bool joins =
        token.mark == '.' || token.mark == '/' || token.mark == '-' || token.mark == ':';
    return !(joins && number_after && !tokens_[i + 1].spaced && !token.spaced);
  }

  std::optional<FoundDate> DateAt(size_t i) const {
    if (i >= tokens_.size()) return std::nullopt;
    std::optional<FoundDate> found;
    if (tokens_[i].number >= 0) {
      found = NumericAt(i);
      if (!found) found = DayMonthYearAt(i);
      if (!found) found = CompactAt(i);
    } else if (MonthAt(i) > 0) {
      found = MonthDayYearAt(i);
    }
    if (found && !EndsCleanly(found->end)) return std::nullopt;
    return found;
  }

  // 31.05.2024, 31/5/24, 2024-05-31, 31 05 2024
  std::optional<FoundDate> NumericAt(size_t i) const {
    size_t second = i + 1;
    size_t third = i + 2;
    char32_t mark = ' ';
    if (i + 1 < tokens_.size() && tokens_[i + 1].mark != 0) {
      mark = tokens_[i + 1].mark;
      if ((mark != '.' && mark != '/' && mark != '-') || !IsMark(i + 3, mark)) return std::nullopt;
      second = i + 2;
      third = i + 4;
    }
    if (!IsNumber(i, 4) || !IsNumber(second, 2) || !IsNumber(third, 4)) return std::nullopt;
    const DateToken& a = tokens_[i];
    const int b = tokens_[second].number;
    const DateToken& c = tokens_[third];
    if (a.digits == 4) {
      if (c.digits > 2 || mark == ' ') return std::nullopt;
      return FoundDate{i, third + 1, a.number, b, c.number};
    }
    const std::optional<int> year = YearAt(third);
    if (!year || a.digits > 2 || (mark == ' ' && c.digits != 4)) return std::nullopt;
    const bool only_month_first = b > 12 && a.number <= 12;
    const bool only_day_first = a.number > 12;
    const bool swap = only_month_first || (month_first_ && !only_day_first && mark != '.');
    return FoundDate{i, third + 1, *year, swap ? a.number : b, swap ? b : a.number};
  }

  // Marks and little words between the parts of a written date.
  size_t SkipBetween(size_t i) const {
    while (i < tokens_.size() &&
           (tokens_[i].mark == '.' || tokens_[i].mark == ',' || tokens_[i].mark == '-' ||
            tokens_[i].mark == '/' || ListHasWord("of de d the", tokens_[i].word))) {
      ++i;
    }
    return i;
  }

  // 31 May 2024, 31. Mai 2024, 1er mars 2024, 31-May-24; 2024 May 31
  std::optional<FoundDate> DayMonthYearAt(size_t i) const {
    const size_t month_at = SkipBetween(i + 1);
    const int month = MonthAt(month_at);
    if (month == 0) return std::nullopt;
    const size_t last = SkipBetween(month_at + 1);
    if (tokens_[i].digits == 4 && IsNumber(last, 2)) {
      return FoundDate{i, last + 1, tokens_[i].number, month, tokens_[last].number};
    }
    const std::optional<int> year = YearAt(last);
    if (!year || tokens_[i].digits > 2) return std::nullopt;
    return FoundDate{i, last + 1, *year, month, tokens_[i].number};
  }

  // May 31st, 2024
  std::optional<FoundDate> MonthDayYearAt(size_t i) const {
    const size_t day_at = SkipBetween(i + 1);
    if (!IsNumber(day_at, 2)) return std::nullopt;
    const size_t year_at = SkipBetween(day_at + 1);
    const std::optional<int> year = YearAt(year_at);
    if (!year || IsMark(year_at + 1, ':')) return std::nullopt;
    return FoundDate{i, year_at + 1, *year, MonthAt(i), tokens_[day_at].number};
  }

  // 20240531
  std::optional<FoundDate> CompactAt(size_t i) const {
    const DateToken& token = tokens_[i];
    if (token.digits != 8 || token.number < 10000000) return std::nullopt;
    return FoundDate{i, i + 1, token.number / 10000, token.number / 100 % 100, token.number % 100};
  }

  // Whether the numbers of tokens [begin, end) are all clock times or zones.
  bool OnlyTimes(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i) {
      if (tokens_[i].number < 0) continue;
      const bool colon = (i + 1 < end && IsMark(i + 1, ':')) || (i > begin && IsMark(i - 1, ':'));
      const bool named = i + 1 < end && ListHasWord("uhr h am pm heures", tokens_[i + 1].word);
      // Minutes of 10h30, fractions of a second, +0200.
      const bool minutes = i > begin && tokens_[i - 1].word == "h";
      const bool fraction = i > begin + 2 && IsMark(i - 1, '.') && tokens_[i - 2].number >= 0;
      const bool zone = i > begin && (IsMark(i - 1, '+') || IsMark(i - 1, '-')) && i > begin + 1;
      if (tokens_[i].digits > (fraction ? 9u : zone ? 4u : 2u)) return false;
      if (!colon && !named && !minutes && !fraction && !zone) return false;
    }
    return true;
  }

  std::string WhyNone() const {
    bool month = false;
    bool number = false;
    bool year = false;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (ListHasWord(kRelativeWords, tokens_[i].word)) return "is relative to another day";
      month |= MonthAt(i) > 0;
      number |= IsNumber(i, 2);
      year |= IsNumber(i, 4) && tokens_[i].digits == 4;
    }
    if (month && number) return year ? "is not a date of one day" : kNoYear;
    if (month || year) return "has no day";
    return "is not a date";
  }

  std::string_view raw_;
  bool month_first_;
  std::vector<DateToken> tokens_;
};

}  // namespace

int MonthNamed(std::string_view folded_word) {
  for (size_t i = 0; i < std::size(kMonthNames); ++i) {
    if (ListHasWord(kMonthNames[i], folded_word)) return static_cast<int>(i) + 1;
  }
  return 0;
}

bool IsDay(int year, int month, int day) {
  if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1) return false;
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return day <= kDays[month - 1] + (month == 2 && leap ? 1 : 0);
}

ConvertedValue ConvertDate(std::string_view raw, const ValueWish& wish) {
  ConvertedValue date = DateReader(raw, wish.month_first).Read();
  if (!date.value.is_null() || wish.year == 0) return date;
  // With the year at its end it must be a date, and the same text without one was none.
  const std::string mention = PlainText(raw);
  const bool numeric = mention.ends_with('.');
  const std::string whole = fmt::format("{}{}{}", mention, numeric ? "" : " ", wish.year);
  if (!numeric && !date.reason.ends_with(kNoYear)) return date;
  ConvertedValue of_year = DateReader(whole, wish.month_first).Read();
  return of_year.value.is_null() ? date : of_year;
}

}  // namespace banyan
