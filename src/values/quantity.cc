// Reads a number, then its magnitude, unit, further parts and what precedes it.
#include "values/quantity.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "values/number_words.h"
#include "values/value_text.h"

namespace banyan {
namespace {

constexpr std::string_view kPerWords = "per pro par je";
constexpr std::string_view kJoiningWords = "and und et";
// Words after a number that name no unit.
constexpr std::string_view kNoUnitWords =
    "and und et or oder ou to bis a in of for with mit avec x pro per par je from ab de von at um "
    "ca "
    "approx about incl inkl plus minus only nur the der die das than als fois times mal";
constexpr std::string_view kOrdinalEndings = "st nd rd th er ere re e eme te ter tes ten";

class QuantityReader {
 public:
  QuantityReader(std::span<const NumberToken> tokens, const QuantityHints& hints)
      : tokens_(tokens), hints_(hints) {
    for (const NumberToken& token : tokens) words_.push_back(token.folded);
  }

  std::vector<Quantity> Read() {
    std::vector<Quantity> quantities;
    for (size_t i = 0; i < tokens_.size();) {
      const std::optional<Quantity> quantity = ReadAt(i);
      i = quantity ? quantity->end : i + 1;
      if (quantity) {
        taken_ = quantity->end;
        quantities.push_back(*quantity);
      }
    }
    return quantities;
  }

 private:
  struct FoundUnit {
    const Unit* unit = nullptr;
    size_t end = 0;
  };

  bool IsWord(size_t i) const {
    return i < tokens_.size() && tokens_[i].kind == NumberToken::Kind::kWord;
  }
  bool IsNumber(size_t i) const {
    return i < tokens_.size() && tokens_[i].kind == NumberToken::Kind::kNumber;
  }
  bool IsMark(size_t i, char32_t mark) const {
    return i < tokens_.size() && tokens_[i].kind == NumberToken::Kind::kMark &&
           tokens_[i].mark == mark;
  }
  bool IsGlued(size_t i) const { return i < tokens_.size() && !tokens_[i].spaced; }

  static bool IsMoney(const Unit* unit) {
    return unit != nullptr && unit->dimension == Dimension::kMoney;
  }

  // The longest spelling of a unit that begins at token i.
  FoundUnit UnitAt(size_t i) const {
    constexpr size_t kMostTokens = 4;
    FoundUnit found;
    std::string spelling;
    for (size_t end = i; end < tokens_.size() && end < i + kMostTokens; ++end) {
      if (IsMark(end, '/') && end > i) {
        spelling += '/';
        continue;
      }
      if (IsNumber(end) && spelling.ends_with('/') &&
          tokens_[end].number.value == MakeDecimal(100)) {
        spelling += "100";  // l/100 km
        continue;
      }
      if (!IsWord(end)) break;
      if (!spelling.empty() && spelling.back() != '/') spelling += ' ';
      spelling += tokens_[end].text;
      if (const Unit* unit = FindUnit(spelling)) found = {unit, end + 1};
    }
    // "2 in Berlin" are no inches.
    const bool preposition = found.end == i + 1 && words_[i] == "in" && IsWord(i + 1);
    return preposition ? FoundUnit{} : found;
  }

  std::optional<Quantity> ReadAt(size_t i) {
    Quantity q;
    q.begin = i;
    if (IsNumber(i)) {
      ReadClock(i, q);
      if (q.end == 0) ReadDigits(i, q);
    } else if (!ReadWords(i, q)) {
      return std::nullopt;
    }
    ReadFront(q);
    return q;
  }

  // "1:30 h"
  void ReadClock(size_t i, Quantity& q) const {
    if (!IsMark(i + 1, ':') || !IsNumber(i + 2) || !tokens_[i].number.digits_only) return;
    const NumberLiteral& minutes = tokens_[i + 2].number;
    const FoundUnit hour = UnitAt(i + 3);
    if (hour.unit == nullptr || hour.unit->symbol != "h" || minutes.digit_count != 2 ||
        !minutes.digits_only || ToDouble(minutes.value) >= 60) {
      return;
    }
    q.value = tokens_[i].number.value + minutes.value / MakeDecimal(60);
    SetUnit(hour, q);
  }

  void ReadDigits(size_t i, Quantity& q) {
    const NumberLiteral& literal = tokens_[i].number;
    q.understood = literal.understood && !(i > 0 && IsMark(i - 1, kNameDash));
    q.value = literal.value;
    q.plain_space = literal.plain_space;
    q.accounting = literal.cents || literal.separated;
    const Unit* front = FrontCurrency(i);
    const size_t magnitude_at = i + 1;
    ReadAfter(magnitude_at, front, q);
    if (literal.unsure_mark == 0) return;
    const Unit* unit = q.unit != nullptr ? q.unit : front != nullptr ? front : hints_.wanted;
    const std::string_view next = IsWord(magnitude_at) ? words_[magnitude_at] : std::string_view();
    const Reading reading = ReadingOf(literal, unit, next);
    q.unsure = reading == Reading::kUnsure;
    if (reading != Reading::kThousands) return;
    q.accounting = true;
    q.value = literal.grouped;
    ReadAfter(magnitude_at, front, q);
  }

  enum class Reading { kDecimal, kThousands, kUnsure };

  // Of a single mark with three digits after it; the rules are in convert.h.
  Reading ReadingOf(const NumberLiteral& literal, const Unit* unit, std::string_view next) const {
    if (hints_.whole && MagnitudeOf(next) == 0) return Reading::kThousands;
    const bool comma = literal.unsure_mark == ',';
    if (hints_.mark != DecimalMark::kUnknown) {
      return comma == (hints_.mark == DecimalMark::kComma) ? Reading::kDecimal
                                                           : Reading::kThousands;
    }
    if (comma) return IsGermanOrFrenchMagnitude(next) ? Reading::kDecimal : Reading::kThousands;
    if (MagnitudeOf(next) > 0) return Reading::kDecimal;
    if (unit != nullptr &&
        (unit->dimension == Dimension::kMoney || unit->dimension == Dimension::kPieces ||
         unit->dimension == Dimension::kPixels)) {
      return Reading::kThousands;
    }
    // 12.500 km seldom means 12.5 km.
    return literal.grouped.exponent > 0 ? Reading::kUnsure : Reading::kDecimal;
  }

  bool ReadWords(size_t i, Quantity& q) {
    if (!IsWord(i)) return false;
    const WordNumber number = ReadNumberWords(std::span(words_).subspan(i));
    if (number.words == 0 || (number.ordinal && i > 0)) return false;
    const size_t end = i + number.words;
    if (number.words == 1 && words_[i] == "one" && IsWord(end) &&
        ListHasWord("of way", words_[end])) {
      return false;
    }
    const bool counts = UnitAt(end).unit != nullptr ||
                        (IsWord(end) && MagnitudeOf(words_[end]) > 0) ||
                        (i == 0 && end == tokens_.size());
    if (number.weak && !counts) return false;
    q.value = number.value;
    ReadAfter(end, nullptr, q);
    return true;
  }

  // Magnitude, unit and further parts after a number whose tokens end at `i`.
  void ReadAfter(size_t i, const Unit* front, Quantity& q) const {
    q.end = i;
    if (IsWord(i) && IsGlued(i) && ListHasWord(kOrdinalEndings, words_[i])) q.end = ++i;
    if (ReadScaledCurrency(i, q)) return ReadPer(q);
    i = ReadMagnitude(i, front, q);
    q.end = i;
    const bool of = IsWord(i) && ListHasWord("d de of", words_[i]) && UnitAt(i + 1).unit != nullptr;
    const FoundUnit found = UnitAt(of ? i + 1 : i);  // a million d'euros
    if (found.unit != nullptr) {
      SetUnit(found, q);
      ReadParts(q);
      ReadHalf(q);
    } else {
      q.unit_text = UnknownUnit(i);
    }
    ReadPer(q);
  }

  static void SetUnit(const FoundUnit& found, Quantity& q) {
    q.unit = found.unit;
    q.unit_text = found.unit->symbol;
    q.end = found.end;
    q.accounting |= IsMoney(q.unit);
  }

  // k€, T€, TEUR, M€
  bool ReadScaledCurrency(size_t i, Quantity& q) const {
    if (!IsWord(i)) return false;
    const std::string_view text = tokens_[i].text;
    if (text.size() < 2 || std::string_view("kKTM").find(text[0]) == std::string_view::npos ||
        FindUnit(text) != nullptr) {
      return false;
    }
    const Unit* unit = FindUnit(text.substr(1));
    if (!IsMoney(unit) || unit->symbol == "kr") return false;
    q.value = q.value * MakeDecimal(1, text[0] == 'M' ? 6 : 3);
    SetUnit({unit, i + 1}, q);
    return true;
  }

  size_t ReadMagnitude(size_t i, const Unit* front, Quantity& q) const {
    if (!IsWord(i)) return i;
    const std::string& text = tokens_[i].text;
    const auto wants = [&](Dimension d) { return hints_.wanted && hints_.wanted->dimension == d; };
    int power = MagnitudeOf(words_[i]);
    if (ListHasWord("hundred hundert", words_[i])) power = 2;
    const bool money = front != nullptr || IsMoney(UnitAt(i + 1).unit);
    if (text == "k" || (text == "K" && IsGlued(i) && !wants(Dimension::kTemperature))) power = 3;
    if (text == "M" && (money || (IsGlued(i) && !wants(Dimension::kLength)))) power = 6;
    if (money && ListHasWord("m mm mn", words_[i])) power = 6;
    if (money && words_[i] == "b") power = 9;
    if (ListHasWord("dozen dutzend douzaine douzaines", words_[i])) {
      q.value = q.value * MakeDecimal(12);
      return i + 1;
    }
    if (power == 0) return i;
    q.value = q.value * MakeDecimal(1, power);
    return i + 1;
  }

  // Smaller units after: 1 h 30 min, 1h30, 5'11", 2 lb 3 oz, 1m80, 2€50.
  void ReadParts(Quantity& q) const {
    const Unit* last = q.unit;
    while (true) {
      const bool joined = IsWord(q.end) && ListHasWord(kJoiningWords, words_[q.end]);
      const size_t at = q.end + (joined ? 1 : 0);
      if (!IsNumber(at) || !tokens_[at].number.understood) return;
      const NumberLiteral& literal = tokens_[at].number;
      FoundUnit part = UnitAt(at + 1);
      const bool named = part.unit != nullptr;
      if (!named && !joined) part = {ImpliedPart(*last, literal, at), at + 1};
      if (part.unit == nullptr) return;
      const bool money = IsMoney(last) && !named;
      const bool smaller = part.unit->dimension == last->dimension &&
                           part.unit->dimension != Dimension::kTemperature &&
                           ToDouble(part.unit->factor) < ToDouble(last->factor) &&
                           ToDouble(literal.value * part.unit->factor) < ToDouble(last->factor);
      if (!money && !smaller) return;
      q.value = q.value + (money ? literal.value / MakeDecimal(100)
                                 : ConvertUnit(literal.value, *part.unit, *q.unit));
      q.end = part.end;
      if (money) return;
      last = part.unit;
    }
  }

  // The unit of a number without one after `last`.
  const Unit* ImpliedPart(const Unit& last, const NumberLiteral& literal, size_t at) const {
    if (!literal.digits_only || literal.digit_count > 2) return nullptr;
    const bool two_glued = literal.digit_count == 2 && IsGlued(at);
    const bool ends = !IsWord(at + 1);
    if (last.symbol == "h" && ends && ToDouble(literal.value) < 60) return FindUnit("min");
    if (last.symbol == "min" && ends && two_glued) return FindUnit("s");
    if (last.symbol == "ft" && ends && ToDouble(literal.value) < 12) return FindUnit("in");
    if (last.symbol == "m" && ends && two_glued) return FindUnit("cm");
    return last.dimension == Dimension::kMoney && two_glued ? &last : nullptr;
  }

  // "an hour and a half", "une heure et demie"
  void ReadHalf(Quantity& q) const {
    const size_t i = q.end;
    size_t words = 0;
    if (IsWord(i + 1) && words_[i] == "et" && ListHasWord("demi demie", words_[i + 1])) words = 2;
    if (IsWord(i + 2) && words_[i] == "and" && words_[i + 1] == "a" && words_[i + 2] == "half") {
      words = 3;
    }
    if (words == 0) return;
    q.value = q.value + MakeDecimal(5, -1);
    q.end = i + words;
  }

  // "/month", "per night", "pro Person"; km pro Stunde is km/h.
  void ReadPer(Quantity& q) const {
    const size_t i = q.end;
    const bool per_word = IsWord(i) && ListHasWord(kPerWords, words_[i]);
    if ((!IsMark(i, '/') && !per_word) || !IsWord(i + 1)) return;
    const FoundUnit below = UnitAt(i + 1);
    const std::string name = below.unit ? below.unit->symbol : tokens_[i + 1].text;
    q.end = below.unit ? below.end : i + 2;
    const Unit* whole = q.unit ? FindUnit(q.unit->symbol + "/" + name) : nullptr;
    if (whole != nullptr) return SetUnit({whole, q.end}, q);
    q.per = "/" + name;
  }

  std::string UnknownUnit(size_t i) const {
    constexpr size_t kMostWords = 3;
    constexpr size_t kMostBytes = 40;
    std::string text;
    for (size_t end = i; IsWord(end) && end < i + kMostWords; ++end) {
      if (ListHasWord(kNoUnitWords, words_[end]) && !IsGlued(end)) break;
      const WordNumber number = ReadNumberWords(std::span(words_).subspan(end));
      if (number.words > 0 && !number.weak) break;
      text += (text.empty() ? "" : " ") + tokens_[end].text;
    }
    return text.size() > kMostBytes ? std::string() : text;
  }

  const Unit* FrontCurrency(size_t i) const {
    if (i > taken_ && IsMark(i - 1, kMinusSign)) --i;
    if (i <= taken_ || !IsWord(i - 1)) return nullptr;
    const Unit* unit = FindUnit(tokens_[i - 1].text);
    return IsMoney(unit) ? unit : nullptr;
  }

  // Sign and currency in front: "-€60", "€ -60", "minus 5".
  void ReadFront(Quantity& q) const {
    bool negative = false;
    for (int step = 0; step < 3 && q.begin > taken_; ++step) {
      const size_t i = q.begin - 1;
      const bool after_au = i > 0 && ListHasWord("au de le", words_[i - 1]);
      if (!negative &&
          (IsMark(i, kMinusSign) || words_[i] == "minus" || (words_[i] == "moins" && !after_au))) {
        negative = true;
      } else if (const Unit* unit = IsWord(i) ? FindUnit(tokens_[i].text) : nullptr;
                 IsMoney(unit) && (q.unit == nullptr || q.unit == unit)) {
        SetUnit({unit, q.end}, q);
      } else {
        break;
      }
      q.begin = i;
    }
    if (negative) q.value = -q.value;
  }

  std::span<const NumberToken> tokens_;
  QuantityHints hints_;
  std::vector<std::string> words_;  // folded; empty for other tokens
  size_t taken_ = 0;                // tokens before belong to an earlier quantity
};

}  // namespace

std::vector<Quantity> ReadQuantities(std::span<const NumberToken> tokens,
                                     const QuantityHints& hints) {
  return QuantityReader(tokens, hints).Read();
}

}  // namespace banyan
