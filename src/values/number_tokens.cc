#include "values/number_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "values/unit_table.h"
#include "values/value_text.h"

namespace banyan {
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
  bool BehindNumber() const { return !tokens_.empty() && tokens_.back().kind == Kind::kNumber; }
  bool BehindWord() const { return !tokens_.empty() && tokens_.back().kind == Kind::kWord; }

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
    } else if (StartsNumber(at_) && !(c < '0' && BehindNumber() && !spaced_)) {
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

  // ' and " behind a number are feet and inches; elsewhere they only separate.
  void ReadQuote(char32_t c) {
    const bool two = c == '\'' && At(at_ + 1) == '\'';
    if (BehindNumber() && !spaced_) AddWord(c == '"' || two ? U"\"" : U"'");
    at_ += two ? 2 : 1;
  }

  void ReadDash() {
    const bool number_next = StartsNumber(at_ + 1) || IsCurrencySign(At(at_ + 1));
    const bool letter_next = IsLetter(At(at_ + 1));
    const bool behind_sign =
        BehindWord() && IsCurrencySign(At(at_ - 1));  // a word stands before, so at_ > 0
    char32_t mark = kPlainDash;
    if (number_next && (tokens_.empty() || behind_sign || (spaced_ && !BehindNumber()) ||
                        tokens_.back().kind == Kind::kMark)) {
      mark = kMinusSign;
    } else if (number_next && BehindWord() && !spaced_ && !LastWordFollowsNumber()) {
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
    const bool glued = BehindNumber() && !spaced_;  // 1h30: digits behind begin a new number
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
