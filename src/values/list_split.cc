// Strong separators first, then commas and joining words.
#include "values/list_split.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"
#include "values/date.h"
#include "values/number_literal.h"
#include "values/value_text.h"

namespace banyan {
namespace {

using Text = std::u32string_view;

std::u32string Decoded(std::string_view raw) {
  std::u32string out;
  for (size_t i = 0; i < raw.size();) {
    const Utf8Character c = ReadUtf8(raw, i);
    out += c.code;
    i += c.length;
  }
  return out;
}

bool IsBullet(char32_t code) {
  return code == 0x2022 || code == 0x2023 || code == 0x25E6 || code == 0x25AA || code == 0xB7 ||
         code == 0x25CF || code == 0x2043;
}

Text TrimmedText(Text text) {
  while (!text.empty() && IsWhitespace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsWhitespace(text.back())) text.remove_suffix(1);
  return text;
}

// The bracket depth of each character; 0 everywhere when brackets do not match.
std::vector<int> BracketDepths(Text text) {
  std::vector<int> depths(text.size(), 0);
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c == '(' || c == '[') ++depth;
    depths[i] = depth;
    if (c == ')' || c == ']') --depth;
    if (depth < 0) break;
  }
  if (depth != 0) std::fill(depths.begin(), depths.end(), 0);
  return depths;
}

// Splits at the characters for which separates(index) is true.
template <typename Separates>
std::vector<Text> Cut(Text text, Separates separates) {
  const std::vector<int> depths = BracketDepths(text);
  std::vector<Text> pieces;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (depths[i] > 0 || !separates(i))) continue;
    pieces.push_back(TrimmedText(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  std::erase_if(pieces, [](Text piece) { return piece.empty(); });
  return pieces;
}

// "- red", "• red", "* red", "1. red", "2) red" → "red"
Text WithoutBullet(Text line) {
  size_t end = 0;
  if (!line.empty() && IsBullet(line[0])) return TrimmedText(line.substr(1));
  while (end < line.size() && end < 3 && IsAsciiDigit(line[end])) ++end;
  const char32_t mark = end < line.size() ? line[end] : U'\0';
  const bool numbered = end > 0 && (mark == '.' || mark == ')');
  const bool dashed = end == 0 && (mark == '-' || mark == '*' || mark == 0x2013 || mark == 0x2014);
  if ((!numbered && !dashed) || end + 1 >= line.size() || !IsWhitespace(line[end + 1])) return line;
  return TrimmedText(line.substr(end + 1));
}

bool IsListLetter(char32_t code) { return IsWordCharacter(code) && !IsAsciiDigit(code); }

// Letters directly before and after text[i]: how many, up to three.
size_t LettersBefore(Text text, size_t i) {
  size_t count = 0;
  while (count < 3 && count < i && IsListLetter(text[i - 1 - count])) ++count;
  return count;
}
size_t LettersAfter(Text text, size_t i) {
  size_t count = 0;
  while (count < 3 && i + 1 + count < text.size() && IsListLetter(text[i + 1 + count])) ++count;
  return count;
}

// The folded word that begins at `i` or after the spaces there; at most 12 letters are read.
std::string WordFrom(Text text, size_t i) {
  while (i < text.size() && IsWhitespace(text[i])) ++i;
  size_t end = i;
  while (end < text.size() && end < i + 12 && IsListLetter(text[end])) ++end;
  return FoldedText(Utf8Of(text.substr(i, end - i)));
}

// Whether the commas of a run of digits and commas separate items ("1,2,3", not "1,5").
bool RunIsList(Text run) {
  const auto commas = std::count(run.begin(), run.end(), U',');
  if (commas < 2) return false;
  const NumberLiteral literal = ReadLiteral(run, 0);
  return !literal.understood;
}

class CommaRule {
 public:
  explicit CommaRule(Text text) : text_(text) {}

  bool Separates(size_t i) {
    const char32_t c = text_[i];
    const char32_t before = i > 0 ? text_[i - 1] : U'\0';
    const char32_t after = i + 1 < text_.size() ? text_[i + 1] : U'\0';
    if (c == '/' || c == '+') {
      const bool spaced = IsWhitespace(before) && IsWhitespace(after);
      return spaced || (c == '/' && LettersBefore(text_, i) == 3 && LettersAfter(text_, i) == 3 &&
                        !ListHasWord("or oder ou", WordFrom(text_, i + 1)));
    }
    if (IsBullet(c)) return true;
    if (c != ',' && c != 0x3001 && c != 0xFF0C) return false;  // 、 and ，too
    if (IsAsciiDigit(before) && IsAsciiDigit(after)) return InListRun(i);
    if (ListHasWord("inc ltd llc llp plc corp co gmbh ag kg sarl sa jr sr phd md esq",
                    WordFrom(text_, i + 1))) {
      return false;
    }
    return !IsDateComma(i);
  }

 private:
  // Each run of digits, points and commas is judged once.
  bool InListRun(size_t i) {
    if (i >= run_end_) {
      size_t begin = i;
      while (begin > 0 && InRun(text_[begin - 1])) --begin;
      while (begin < i && !IsAsciiDigit(text_[begin])) ++begin;
      run_end_ = i;
      while (run_end_ < text_.size() && InRun(text_[run_end_])) ++run_end_;
      run_is_list_ = RunIsList(text_.substr(begin, run_end_ - begin));
    }
    return run_is_list_;
  }
  static bool InRun(char32_t c) { return IsAsciiDigit(c) || c == ',' || c == '.'; }

  // "May 31, 2024" and "May 31st, 2024"
  bool IsDateComma(size_t i) const {
    size_t at = i + 1;
    while (at < text_.size() && IsWhitespace(text_[at])) ++at;
    size_t digits = 0;
    while (digits < 5 && at + digits < text_.size() && IsAsciiDigit(text_[at + digits])) ++digits;
    if (digits != 4) return false;
    const size_t window = std::min<size_t>(i, 20);
    const std::vector<std::string> words = FoldedWords(Utf8Of(text_.substr(i - window, window)));
    return words.size() >= 2 && MonthNamed(words[words.size() - 2]) > 0 &&
           IsAsciiDigit(static_cast<unsigned char>(words.back()[0]));
  }

  Text text_;
  size_t run_end_ = 0;
  bool run_is_list_ = false;
};

constexpr std::string_view kListJoiners = "and or und oder et ou sowie";

// Splits at joining words ("and", "oder") outside brackets; only at the first if `first_only`.
// `sign_too`: also at "&".
std::vector<Text> CutAtJoiners(Text item, bool sign_too, bool first_only) {
  const std::vector<int> depths = BracketDepths(item);
  std::vector<Text> pieces;
  size_t begin = 0;
  for (size_t i = 0; i < item.size(); ++i) {
    const bool starts = i == 0 || IsWhitespace(item[i - 1]);
    if (!starts || depths[i] > 0) continue;
    size_t end = i;
    while (end < item.size() && !IsWhitespace(item[end]) && end < i + 6) ++end;
    if (end < item.size() && !IsWhitespace(item[end])) continue;
    const std::string word = FoldedText(Utf8Of(item.substr(i, end - i)));
    if (!ListHasWord(kListJoiners, word) && !(sign_too && word == "&")) continue;
    const std::string next = WordFrom(item, end);
    if (ListHasWord("sons co company partners associates sohne fils cie", next)) continue;
    pieces.push_back(TrimmedText(item.substr(begin, i - begin)));
    begin = end;
    if (first_only) break;
  }
  pieces.push_back(TrimmedText(item.substr(begin)));
  std::erase_if(pieces, [](Text piece) { return piece.empty(); });
  return pieces;
}

std::vector<Text> ListPieces(Text text) {
  const auto strong = [&](size_t i) {
    const char32_t c = text[i];
    return c == '\n' || c == '\r' || c == ';' || c == '|' || c == 0x2028 || c == 0x2029 ||
           c == 0xFF1B;
  };
  std::vector<Text> pieces = Cut(text, strong);
  if (pieces.size() > 1) {
    for (Text& piece : pieces) piece = WithoutBullet(piece);
    std::erase_if(pieces, [](Text piece) { return piece.empty(); });
    return pieces;
  }
  if (pieces.empty()) return {};
  const Text line = WithoutBullet(pieces[0]);
  CommaRule rule(line);
  pieces = Cut(line, [&](size_t i) { return rule.Separates(i); });
  if (pieces.empty()) return {};
  const bool several = pieces.size() > 1;
  const std::vector<Text> last = CutAtJoiners(pieces.back(), several, several);
  pieces.pop_back();
  pieces.insert(pieces.end(), last.begin(), last.end());
  return pieces;
}

}  // namespace

std::vector<std::string> SplitList(std::string_view raw) {
  const std::u32string text = Decoded(raw);
  std::vector<std::string> items;
  for (const Text piece : ListPieces(text)) {
    std::string item = PlainText(Utf8Of(piece));
    if (!item.empty()) items.push_back(std::move(item));
  }
  return items;
}

}  // namespace banyan
