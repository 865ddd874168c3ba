// An index of the rows by symbol and by folded name.
#include "values/unit_table.h"

#include "values/unit_rows.h"

#include <deque>
#include <unordered_map>

#include "values/value_text.h"

namespace banyan {
namespace {

// ² ³ ^2 ^3 as digits, "sq." and "cu." spelled one way, spaces and hyphens as one space or none
// beside a slash, no point at a word's end.
std::string UniformUnit(std::string_view spelling) {
  const std::u32string text = UniformText(spelling);
  std::string out;
  for (const char32_t code : text) {
    if (code == 0xB2) {
      out += '2';
    } else if (code == 0xB3) {
      out += '3';
    } else if (code == '.' || code == '^') {
      continue;
    } else if (code == ' ' || code == '-' || code == kGroupSpace || code == '\n') {
      if (!out.empty() && out.back() != ' ' && out.back() != '/') out += ' ';
    } else if (code == '/') {
      if (!out.empty() && out.back() == ' ') out.pop_back();
      out += '/';
    } else {
      out += Utf8Of(std::u32string_view(&code, 1));
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

class UnitIndex {
 public:
  UnitIndex() {
    for (const UnitRow& row : kUnitRows) {
      units_.push_back({row.symbol, row.dimension, MakeDecimal(row.mantissa, row.exponent)});
      const Unit* unit = &units_.back();
      exact_.emplace(UniformUnit(row.symbol), unit);
      AddAll(row.symbols, unit, exact_);
      AddAll(row.names, unit, folded_);
    }
  }

  const Unit* Find(std::string_view spelling) const {
    if (spelling.size() > kLongestSpelling) return nullptr;
    const std::string uniform = UniformUnit(spelling);
    if (const auto found = exact_.find(uniform); found != exact_.end()) return found->second;
    const auto found = folded_.find(FoldedText(uniform));
    return found == folded_.end() ? nullptr : found->second;
  }

 private:
  using Map = std::unordered_map<std::string, const Unit*>;
  static constexpr size_t kLongestSpelling = 40;

  static void AddAll(std::string_view list, const Unit* unit, Map& map) {
    while (!list.empty()) {
      const size_t end = std::min(list.find('|'), list.size());
      map.emplace(list.substr(0, end), unit);
      list.remove_prefix(std::min(end + 1, list.size()));
    }
  }

  std::deque<Unit> units_;  // stable addresses
  Map exact_, folded_;
};

bool SharesSign(const Unit& from, const Unit& to) {
  if (from.symbol == "USD") return ListHasWord("CAD AUD NZD SGD HKD MXN TWD", to.symbol);
  if (from.symbol == "kr") return ListHasWord("SEK NOK DKK ISK", to.symbol);
  if (from.symbol == "JPY") return to.symbol == "CNY";
  if (from.symbol == "lb") return to.symbol == "GBP";
  return from.symbol == "°" && to.dimension == Dimension::kTemperature && to.symbol != "K";
}

Decimal ToCelsius(const Decimal& value, const Unit& unit) {
  if (unit.symbol == "K") return value + MakeDecimal(-27315, -2);
  if (unit.symbol != "°F") return value;
  return (value + MakeDecimal(-32)) * MakeDecimal(5) / MakeDecimal(9);
}

Decimal FromCelsius(const Decimal& value, const Unit& unit) {
  if (unit.symbol == "K") return value + MakeDecimal(27315, -2);
  if (unit.symbol != "°F") return value;
  return value * MakeDecimal(18, -1) + MakeDecimal(32);
}

}  // namespace

const Unit* FindUnit(std::string_view spelling) {
  static const UnitIndex index;
  return index.Find(spelling);
}

std::string_view DimensionName(Dimension dimension) {
  switch (dimension) {
    case Dimension::kMass:
      return "mass";
    case Dimension::kLength:
      return "length";
    case Dimension::kArea:
      return "area";
    case Dimension::kVolume:
      return "volume";
    case Dimension::kTime:
      return "time";
    case Dimension::kMonths:
      return "calendar time";
    case Dimension::kPower:
      return "power";
    case Dimension::kEnergy:
      return "energy";
    case Dimension::kData:
      return "amount of data";
    case Dimension::kDataRate:
      return "data rate";
    case Dimension::kTemperature:
      return "temperature";
    case Dimension::kAngle:
      return "angle";
    case Dimension::kSpeed:
      return "speed";
    case Dimension::kShare:
      return "share";
    case Dimension::kVoltage:
      return "voltage";
    case Dimension::kCurrent:
      return "current";
    case Dimension::kCharge:
      return "charge";
    case Dimension::kResistance:
      return "resistance";
    case Dimension::kFrequency:
      return "frequency";
    case Dimension::kRotation:
      return "rotation speed";
    case Dimension::kPressure:
      return "pressure";
    case Dimension::kSound:
      return "sound level";
    case Dimension::kLight:
      return "light";
    case Dimension::kPixels:
      return "number of pixels";
    case Dimension::kPieces:
      return "number of pieces";
    case Dimension::kTorque:
      return "torque";
    case Dimension::kConsumption:
      return "consumption";
    case Dimension::kMoney:
      return "currency";
  }
  return "quantity";
}

bool CanConvert(const Unit& from, const Unit& to) {
  if (from.symbol == to.symbol || SharesSign(from, to)) return true;
  return from.dimension == to.dimension && from.dimension != Dimension::kMoney &&
         from.dimension != Dimension::kLight && from.dimension != Dimension::kConsumption;
}

Decimal ConvertUnit(const Decimal& value, const Unit& from, const Unit& to) {
  if (from.symbol == to.symbol || SharesSign(from, to)) return value;
  if (from.dimension == Dimension::kTemperature) return FromCelsius(ToCelsius(value, from), to);
  return value * from.factor / to.factor;
}

}  // namespace banyan
