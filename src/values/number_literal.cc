// Literals of digits, then the tokens of a mention.
#include <algorithm>
#include <string>
#include <vector>

#include "text/unicode.h"
#include "values/number_literal.h"
#include "values/unit_table.h"
#include "values/value_text.h"

namespace banyan {

namespace {

struct VulgarFraction {
  char32_t code;
  int numerator, denominator;
};
constexpr VulgarFraction kVulgarFractions[] = {
    {0xBC, 1, 4},   {0xBD, 1, 2},   {0xBE, 3, 4},   {0x2150, 1, 7}, {0x2151, 1, 9}, {0x2152, 1, 10},
    {0x2153, 1, 3}, {0x2154, 2, 3}, {0x2155, 1, 5}, {0x2156, 2, 5}, {0x2157, 3, 5}, {0x2158, 4, 5},
    {0x2159, 1, 6}, {0x215A, 5, 6}, {0x215B, 1, 8}, {0x215C, 3, 8}, {0x215D, 5, 8}, {0x215E, 7, 8},
};

const VulgarFraction* FindVulgarFraction(char32_t code) {
  const auto found = std::find_if(std::begin(kVulgarFractions), std::end(kVulgarFractions),
                                  [&](const VulgarFraction& f) { return f.code == code; });
  return found == std::end(kVulgarFractions) ? nullptr : found;
}

Decimal Quotient(int numerator, int denominator) {
  return MakeDecimal(numerator) / MakeDecimal(denominator);
}

// Digits and the marks between them.
struct DigitGroups {
  std::vector<std::string> groups;  // groups[0] is empty for ".5"
  std::u32string marks;             // marks[i] precedes groups[i + 1]; spaces are ' '
  bool plain_space = false;
  size_t end = 0;
};

char32_t CharacterAt(std::u32string_view text, size_t at) {
  return at < text.size() ? text[at] : U'\0';
}

size_t DigitRun(std::u32string_view text, size_t at) {
  size_t end = at;
  while (IsAsciiDigit(CharacterAt(text, end))) ++end;
  return end - at;
}

std::string Digits(std::u32string_view text, size_t at, size_t count) {
  std::string digits;
  for (size_t i = at; i < at + count; ++i) digits += static_cast<char>(text[i]);
  return digits;
}

// Spaces and apostrophes join exactly three digits to at most three before them, and only while no
// point or comma has come.
bool JoinsGroup(const DigitGroups& read, char32_t mark, size_t digits_after) {
  if (digits_after != 3 || read.groups[0].empty() || read.groups[0].size() > 3) return false;
  return std::all_of(read.marks.begin(), read.marks.end(), [&](char32_t m) { return m == mark; });
}

DigitGroups ReadGroups(std::u32string_view text, size_t at) {
  DigitGroups read;
  size_t run = DigitRun(text, at);
  read.groups.push_back(Digits(text, at, run));
  read.end = at + run;
  while (true) {
    const char32_t c = CharacterAt(text, read.end);
    run = DigitRun(text, read.end + 1);
    if (run == 0) return read;
    const char32_t mark = c == kGroupSpace ? U' ' : c;
    if (mark == U' ' || mark == U'\'') {
      if (!JoinsGroup(read, mark, run)) return read;
      read.plain_space |= c == U' ';
    } else if (mark != U'.' && mark != U',') {
      return read;
    }
    read.marks += mark;
    read.groups.push_back(Digits(text, read.end + 1, run));
    read.end += 1 + run;
  }
}

std::string JoinedDigits(const std::vector<std::string>& groups) {
  std::string digits;
  for (const std::string& group : groups) digits += group;
  return digits;
}

// Whether groups [0, count) are thousands: 1–3 digits, then threes; or as in India: 12,34,567.
bool AreThousands(const std::vector<std::string>& groups, size_t count) {
  if (groups[0].empty() || groups[0].size() > 3) return false;
  const auto all_have = [&](size_t begin, size_t end, size_t digits) {
    return std::all_of(groups.begin() + static_cast<std::ptrdiff_t>(begin),
                       groups.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](const std::string& g) { return g.size() == digits; });
  };
  if (all_have(1, count, 3)) return true;
  return count > 2 && groups[0].size() <= 2 && all_have(1, count - 1, 2) &&
         groups[count - 1].size() == 3;
}

// REQUIRES: marks is not empty. Says where the decimal mark is: 0 for none, else groups[result]
// are the decimals; nullopt when the marks follow no notation.
std::optional<size_t> DecimalsOf(const DigitGroups& read) {
  const std::u32string& marks = read.marks;
  const size_t last = marks.size();
  const auto count = std::count(marks.begin(), marks.end(), marks.back());
  const bool one_kind = count == static_cast<std::ptrdiff_t>(marks.size());
  const bool last_is_point = marks.back() == U'.' || marks.back() == U',';
  if (one_kind && (last > 1 || !last_is_point)) {
    if (!AreThousands(read.groups, last + 1)) return std::nullopt;
    return 0;
  }
  if (one_kind) return 1;
  const bool others_alike =
      std::all_of(marks.begin(), marks.end() - 1, [&](char32_t m) { return m == marks.front(); });
  if (count != 1 || !others_alike || !last_is_point || !AreThousands(read.groups, last)) {
    return std::nullopt;
  }
  return last;
}

void Interpret(const DigitGroups& read, NumberLiteral& literal) {
  const std::string digits = JoinedDigits(read.groups);
  literal.digit_count = digits.size();
  literal.plain_space = read.plain_space;
  if (digits.size() > kMaxLiteralDigits) return;
  literal.understood = true;
  literal.value = MakeDecimal(digits, 0);
  literal.digits_only = read.marks.empty();
  if (read.marks.empty()) return;
  const std::optional<size_t> decimals = DecimalsOf(read);
  literal.understood = decimals.has_value();
  if (!literal.understood) return;
  literal.separated = read.marks.size() > (*decimals == 0 ? 0u : 1u);
  if (*decimals == 0) return;
  const std::string& after = read.groups.back();
  literal.cents = after.size() == 2;
  literal.value = MakeDecimal(digits, -static_cast<int>(after.size()));
  const std::string& before = read.groups[0];
  if (read.marks.size() == 1 && after.size() == 3 && !before.empty() && before.size() <= 3 &&
      before[0] != '0') {
    literal.unsure_mark = read.marks[0];
    literal.grouped = MakeDecimal(digits, 0);
  }
}

// "60,-" and "60.--": no cents.
void ReadDashForCents(std::u32string_view text, NumberLiteral& literal) {
  const char32_t mark = CharacterAt(text, literal.end);
  if ((mark != U',' && mark != U'.') || CharacterAt(text, literal.end + 1) != U'-') return;
  size_t end = literal.end + 2;
  while (CharacterAt(text, end) == U'-') ++end;
  if (IsAsciiDigit(CharacterAt(text, end))) return;
  literal.end = end;
  literal.cents = true;
  literal.digits_only = false;
  if (literal.unsure_mark != 0) {  // 1.250,- has its decimal mark after the dash
    literal.value = literal.grouped;
    literal.unsure_mark = 0;
    literal.separated = true;
  }
}

// "1/2", with 2, 3, 4, 8, 16, 32, 64 below: 4/5 and 8/10 may be ratings, 24/7 and 9/11 are no
// numbers.
bool ReadFraction(std::u32string_view text, size_t at, Decimal& value, size_t& end) {
  const size_t above = DigitRun(text, at);
  if (above == 0 || above > 2 || CharacterAt(text, at + above) != U'/') return false;
  const size_t below_at = at + above + 1;
  const size_t below = DigitRun(text, below_at);
  if (below == 0 || below > 2) return false;
  const char32_t next = CharacterAt(text, below_at + below);
  if (next == U'/' || next == U'.' || next == U',') {
    if (IsAsciiDigit(CharacterAt(text, below_at + below + 1))) return false;
  }
  const int numerator = std::stoi(Digits(text, at, above));
  const int denominator = std::stoi(Digits(text, below_at, below));
  constexpr int kDenominators[] = {2, 3, 4, 8, 16, 32, 64};
  if (numerator == 0 || numerator >= denominator ||
      std::find(std::begin(kDenominators), std::end(kDenominators), denominator) ==
          std::end(kDenominators)) {
    return false;
  }
  value = Quotient(numerator, denominator);
  end = below_at + below;
  return true;
}

// A fraction after a whole number: "2½", "2 ½", "1 1/2".
void ReadMixedFraction(std::u32string_view text, NumberLiteral& literal) {
  const char32_t next = CharacterAt(text, literal.end);
  const bool space = next == U' ' || next == kGroupSpace;
  const size_t at = literal.end + (space ? 1 : 0);
  if (const VulgarFraction* vulgar = FindVulgarFraction(CharacterAt(text, at))) {
    literal.value = literal.value + Quotient(vulgar->numerator, vulgar->denominator);
    literal.end = at + 1;
    literal.digits_only = false;
    return;
  }
  Decimal fraction;
  if (space && ReadFraction(text, at, fraction, literal.end)) {
    literal.value = literal.value + fraction;
    literal.digits_only = false;
  }
}

// "1.5e3", "1,5 x 10^3", "1.5·10³".
void ReadExponent(std::u32string_view text, NumberLiteral& literal) {
  constexpr std::u32string_view kSuperscripts = U"⁰¹²³⁴⁵⁶⁷⁸⁹";
  size_t at = literal.end;
  const char32_t first = CharacterAt(text, at);
  bool superscript = false;
  if (first == U'e' || first == U'E') {
    ++at;
  } else {
    while (CharacterAt(text, at) == U' ' || CharacterAt(text, at) == kGroupSpace) ++at;
    if (std::u32string_view(U"x×*·").find(CharacterAt(text, at)) == std::u32string_view::npos)
      return;
    ++at;
    while (CharacterAt(text, at) == U' ' || CharacterAt(text, at) == kGroupSpace) ++at;
    if (text.substr(std::min(at, text.size()), 2) != U"10") return;
    at += 2;
    superscript = CharacterAt(text, at) != U'^';
    if (!superscript) ++at;
  }
  const bool negative = CharacterAt(text, at) == U'-' || CharacterAt(text, at) == U'⁻';
  if (negative || CharacterAt(text, at) == U'+') ++at;
  int exponent = 0;
  size_t digits = 0;
  for (; digits < 4 && at < text.size(); ++at, ++digits) {
    const size_t raised = kSuperscripts.find(text[at]);
    if (superscript ? raised == std::u32string_view::npos : !IsAsciiDigit(text[at])) break;
    exponent = exponent * 10 + static_cast<int>(superscript ? raised : text[at] - U'0');
  }
  if (digits == 0) return;
  literal.end = at;
  literal.digits_only = false;
  literal.unsure_mark = 0;
  literal.understood = literal.understood && exponent <= 300;
  if (!literal.understood) return;
  literal.value = literal.value * MakeDecimal(1, negative ? -exponent : exponent);
}

}  // namespace

bool IsAsciiDigit(char32_t code) { return code >= U'0' && code <= U'9'; }

bool IsVulgarFraction(char32_t code) { return FindVulgarFraction(code) != nullptr; }

NumberLiteral ReadLiteral(std::u32string_view text, size_t at) {
  NumberLiteral literal;
  if (const VulgarFraction* vulgar = FindVulgarFraction(text[at])) {
    literal.understood = true;
    literal.value = Quotient(vulgar->numerator, vulgar->denominator);
    literal.end = at + 1;
    return literal;
  }
  if (ReadFraction(text, at, literal.value, literal.end)) {
    literal.understood = true;
    return literal;
  }
  const DigitGroups read = ReadGroups(text, at);
  literal.end = read.end;
  Interpret(read, literal);
  if (!literal.understood) return literal;
  ReadDashForCents(text, literal);
  if (literal.digits_only) ReadMixedFraction(text, literal);
  ReadExponent(text, literal);
  return literal;
}

namespace {

using Kind = NumberToken::Kind;

class NumberTokenReader {
 public:
  explicit NumberTokenReader(std::u32string_view text) : text_(text) {}

  std::vector<NumberToken> Read() {
    while (at_ < text_.size()) ReadOne();
    return std::move(tokens_);
  }

 private:
  char32_t At(size_t index) const { return index < text_.size() ? text_[index] : U'\0'; }
  static bool IsSpace(char32_t code) { return code == ' ' || code == '\n' || code == kGroupSpace; }
  static bool IsLetter(char32_t code) {
    return !IsAsciiDigit(code) && code != '_' && IsWordCharacter(code);
  }
  bool StartsNumber(size_t index) const {
    const char32_t c = At(index);
    if (IsAsciiDigit(c) || IsVulgarFraction(c)) return true;
    return (c == '.' || c == ',') && IsAsciiDigit(At(index + 1));
  }
  bool AfterNumber() const { return !tokens_.empty() && tokens_.back().kind == Kind::kNumber; }
  bool AfterWord() const { return !tokens_.empty() && tokens_.back().kind == Kind::kWord; }

  NumberToken& Add(Kind kind) {
    NumberToken& token = tokens_.emplace_back();
    token.kind = kind;
    token.spaced = spaced_;
    spaced_ = false;
    return token;
  }

  void AddWord(std::u32string_view word) {
    NumberToken& token = Add(Kind::kWord);
    token.text = Utf8Of(word);
    token.folded = FoldedText(token.text);
  }

  void ReadOne() {
    const char32_t c = text_[at_];
    if (IsSpace(c)) {
      spaced_ = true;
      ++at_;
    } else if (StartsNumber(at_) && !(c < '0' && AfterNumber() && !spaced_)) {
      NumberToken& token = Add(Kind::kNumber);
      token.number = ReadLiteral(text_, at_);
      at_ = token.number.end;
    } else if (c == '\'' || c == '"') {
      ReadQuote(c);
    } else if (c == '-') {
      ReadDash();
    } else if (c == 0xB0) {
      ReadDegree();
    } else if (c == '%' || c == 0x2030 || IsCurrencySign(c)) {
      AddWord(text_.substr(at_, 1));
      ++at_;
    } else if (IsLetter(c)) {
      ReadWord();
    } else {
      Add(Kind::kMark).mark = c;
      ++at_;
    }
  }

  // ' and " after a number are feet and inches; elsewhere they only separate.
  void ReadQuote(char32_t c) {
    const bool two = c == '\'' && At(at_ + 1) == '\'';
    if (AfterNumber() && !spaced_) AddWord(c == '"' || two ? U"\"" : U"'");
    at_ += two ? 2 : 1;
  }

  void ReadDash() {
    const bool number_next = StartsNumber(at_ + 1) || IsCurrencySign(At(at_ + 1));
    const bool letter_next = IsLetter(At(at_ + 1));
    const bool after_sign =
        AfterWord() && IsCurrencySign(At(at_ - 1));  // a word stands before, so at_ > 0
    char32_t mark = kPlainDash;
    if (number_next && (tokens_.empty() || after_sign || (spaced_ && !AfterNumber()) ||
                        tokens_.back().kind == Kind::kMark)) {
      mark = kMinusSign;
    } else if (number_next && AfterWord() && !spaced_ && !LastWordFollowsNumber()) {
      mark = kNameDash;
    } else if (letter_next && !spaced_ && !tokens_.empty()) {
      mark = 0;  // joins two words, or a number and its unit: 15-inch
    }
    // "5 -3": a sign of the second number, and two numbers in any case.
    if (mark != 0) Add(Kind::kMark).mark = mark;
    ++at_;
  }

  // "3kg-5kg" is a range, "A-5" is a name.
  bool LastWordFollowsNumber() const {
    return tokens_.size() > 1 && tokens_[tokens_.size() - 2].kind == Kind::kNumber;
  }

  void ReadDegree() {
    size_t end = at_ + 1;
    size_t letter = end;
    if (At(letter) == ' ' || At(letter) == kGroupSpace) ++letter;
    if (std::u32string_view(U"CFKcfk").find(At(letter)) != std::u32string_view::npos &&
        At(letter) != 0 && !IsLetter(At(letter + 1))) {
      AddWord(std::u32string(U"°") + At(letter));
      end = letter + 1;
    } else {
      AddWord(U"°");
    }
    at_ = end;
  }

  void ReadWord() {
    const bool glued = AfterNumber() && !spaced_;  // 1h30: digits after begin a new number
    size_t end = at_;
    while (IsLetter(At(end)) || At(end) == 0xB2 || At(end) == 0xB3 || IsPointInside(end) ||
           IsPower(end) || (IsAsciiDigit(At(end)) && (!glued || IsExponentDigit(end)))) {
      // USD60 is an amount, ISO9001 a name.
      if (IsAsciiDigit(At(end)) && !IsAsciiDigit(At(end - 1)) && IsCurrencyName(end)) break;
      ++end;
    }
    if (end - at_ <= 3 && std::u32string_view(U"$€£¥").find(At(end)) != std::u32string_view::npos &&
        At(end) != 0) {
      ++end;  // US$, k€
    }
    AddWord(text_.substr(at_, end - at_));
    at_ = end;
    if (At(at_) == '.' && !IsAsciiDigit(At(at_ + 1))) ++at_;  // Mio., Std.
  }

  // p.a., sq.ft
  bool IsPointInside(size_t index) const {
    if (index == at_ || (At(index) != '.' && At(index) != ',')) return false;
    if (IsAsciiDigit(At(index - 1))) return IsAsciiDigit(At(index + 1));  // B2,5 is a name, too
    return At(index) == '.' && IsLetter(At(index + 1));
  }
  bool IsCurrencyName(size_t end) const {
    const Unit* unit = FindUnit(Utf8Of(text_.substr(at_, end - at_)));
    return unit != nullptr && unit->dimension == Dimension::kMoney;
  }
  // m^2
  bool IsPower(size_t index) const {
    return At(index) == '^' && (At(index + 1) == '2' || At(index + 1) == '3') && index > at_;
  }
  // The 2 of 50m2.
  bool IsExponentDigit(size_t index) const {
    if ((At(index) != '2' && At(index) != '3') || IsAsciiDigit(At(index + 1))) return false;
    const std::string word = Utf8Of(text_.substr(at_, index - at_));
    return At(index - 1) == '^' || ListHasWord("mm cm dm m km in ft yd mi", word);
  }

  std::u32string_view text_;
  size_t at_ = 0;
  bool spaced_ = false;
  std::vector<NumberToken> tokens_;
};

}  // namespace

bool IsCurrencySign(char32_t code) {
  return code == '$' || code == 0xA3 || code == 0xA5 || code == 0xE3F || code == 0xFFE5 ||
         (code >= 0x20A0 && code <= 0x20CF);
}

std::vector<NumberToken> ReadNumberTokens(std::u32string_view text) {
  return NumberTokenReader(text).Read();
}

}  // namespace banyan
