#include "decode/answer_words.h"

#include <utility>

#include "text/unicode.h"

namespace banyan {
namespace {

bool IsNewline(char32_t code) { return code == '\n' || code == '\r'; }

WordSign SignOf(char32_t code) {
  if (IsNumeric(code)) return WordSign::kDigit;
  if ((ClassOfCode(code) & kLetterClass) == 0) return WordSign::kMark;
  std::string small, same;
  AppendLowercase(code, small);
  AppendUtf8(code, same);
  return small == same ? WordSign::kLetter : WordSign::kCapital;
}

size_t PlaceOf(const UnitEnd& end) {
  return (end.inside ? 1u : 0u) + (end.capital ? 2u : 0u) + (end.letter ? 4u : 0u) +
         (end.digit ? 8u : 0u);
}

}  // namespace

WordTokens::WordTokens(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), beginnings_(tokenizer_->vocab_size()) {
  for (size_t token = 0; token < beginnings_.size(); ++token) {
    const std::string bytes = BytesOf(static_cast<TokenId>(token));
    Beginning& beginning = beginnings_[token];
    for (size_t at = 0; at < bytes.size() && beginning.sign == WordSign::kNone;) {
      const Utf8Character character = ReadUtf8(bytes, at);
      at += character.length;
      if (!character.valid) {
        beginning.sign = WordSign::kPart;
      } else if (!IsWhitespace(character.code)) {
        beginning.sign = SignOf(character.code);
      } else if (beginning.space != Space::kNewline) {
        beginning.space = IsNewline(character.code) ? Space::kNewline : Space::kBlank;
      }
    }
  }
}

std::string WordTokens::BytesOf(TokenId token) const {
  const bool known = token >= 0 && static_cast<size_t>(token) < tokenizer_->vocab_size();
  return known && !tokenizer_->IsSpecial(token) ? tokenizer_->TokenBytes(token) : std::string();
}

bool WordTokens::GoesOn(const UnitEnd& end, const Beginning& beginning) const {
  if (beginning.sign == WordSign::kNone || beginning.space == Space::kNewline) return false;
  if (end.inside && beginning.space == Space::kNone) return true;
  switch (beginning.sign) {
    case WordSign::kCapital:
      return end.capital;
    case WordSign::kDigit:
      return end.digit;
    case WordSign::kPart:
      return end.capital || end.letter;
    default:
      return end.letter;  // a sign too: "12 %"
  }
}

bool WordTokens::GoesOn(const UnitEnd& end, TokenId token) const {
  const bool known = token >= 0 && static_cast<size_t>(token) < beginnings_.size();
  return known && GoesOn(end, beginnings_[static_cast<size_t>(token)]);
}

bool WordTokens::Begins(TokenId token) const {
  const bool known = token >= 0 && static_cast<size_t>(token) < beginnings_.size();
  return known && beginnings_[static_cast<size_t>(token)].sign != WordSign::kNone;
}

std::span<const std::uint32_t> WordTokens::Others(const UnitEnd& end) {
  std::vector<std::uint32_t>& mask = others_[PlaceOf(end)];
  if (!mask.empty()) return mask;
  mask.assign((beginnings_.size() + 31) / 32, 0);
  for (size_t token = 0; token < beginnings_.size(); ++token) {
    if (!GoesOn(end, beginnings_[token])) mask[token / 32] |= std::uint32_t{1} << (token % 32);
  }
  return mask;
}

void AnswerWords::Push(std::string_view bytes) {
  unfinished_ += bytes;
  size_t at = 0;
  while (at < unfinished_.size()) {
    const Utf8Character character = ReadUtf8(unfinished_, at);
    if (character.incomplete) break;
    at += character.length;
    Add(character.code);
  }
  unfinished_.erase(0, at);
  if (!unfinished_.empty()) end_.inside = true;
}

UnitEnd AnswerWords::AfterWord() const {
  if (last_ == ';' || last_ == ':' || last_ == '!' || last_ == '?') return {};
  if (last_ == ',') return {.digit = digits_};
  const bool number = first_ == WordSign::kDigit, name = first_ == WordSign::kCapital;
  return {.capital = number || name, .letter = number, .digit = number || name || unit_digits_};
}

void AnswerWords::Add(char32_t code) {
  if (IsWhitespace(code)) {
    in_word_ = end_.inside = false;
    if (IsNewline(code)) end_ = {};
    return;
  }
  const WordSign sign = SignOf(code);
  if (!in_word_) {
    const bool joined = sign == WordSign::kCapital ? end_.capital
                        : sign == WordSign::kDigit ? end_.digit
                                                   : end_.letter;
    if (!joined) unit_digits_ = false;
    first_ = WordSign::kNone;
    digits_ = false;
  }
  if (first_ == WordSign::kNone && sign != WordSign::kMark) first_ = sign;
  digits_ = digits_ || sign == WordSign::kDigit;
  unit_digits_ = unit_digits_ || sign == WordSign::kDigit;
  last_ = code;
  in_word_ = true;
  end_ = AfterWord();
  end_.inside = true;
}

}  // namespace banyan
