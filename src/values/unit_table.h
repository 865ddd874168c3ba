// Everyday units: spellings in English, German and French, and factors within a dimension.
//
// Exact factors: 1 lb = 0.45359237 kg, 1 in = 2.54 cm, 1 mi = 1.609344 km, 1 hp = 550 ft·lbf/s,
// 1 PS = 735.49875 W, 1 kcal = 4.184 kJ. Gallon, quart, pint and fluid ounce are those of the USA.
// kB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB of 1024. Days and weeks are seconds; months
// and years are a dimension of their own (a year has 12 months), because a month has no fixed
// number of days. Each currency is a dimension of its own: amounts are never exchanged. Not in the
// table, because they mean different amounts: ton, Pfund, livre, calorie, quart, Zentner.
#pragma once

#include <string>
#include <string_view>

#include "values/decimal.h"

namespace banyan {

enum class Dimension {
  kMass,
  kLength,
  kArea,
  kVolume,
  kTime,
  kMonths,
  kPower,
  kEnergy,
  kData,
  kDataRate,
  kTemperature,
  kAngle,
  kSpeed,
  kShare,
  kVoltage,
  kCurrent,
  kCharge,
  kResistance,
  kFrequency,
  kRotation,
  kPressure,
  kSound,
  kLight,
  kPixels,
  kPieces,
  kTorque,
  kConsumption,
  kMoney
};

struct Unit {
  std::string symbol;  // as results show it: "kg", "EUR", "°C"
  Dimension dimension = Dimension::kPieces;
  Decimal factor;  // in the dimension's base unit; temperatures: see ConvertUnit
};

// The unit of that spelling, or nullptr. Symbols are looked up as they are written first (mW and
// MW, Mb and MB differ), then spellings without regard to case and accents. A point at the end, a
// space or a hyphen inside, and a superscript written as ² or ^2 or 2 make no difference.
const Unit* FindUnit(std::string_view spelling);

// The plain name of a dimension for messages: "mass", "money".
std::string_view DimensionName(Dimension dimension);

// Whether values in `from` can be given in `to`. $ fits every dollar, kr every crown, ¥ yen and
// yuan, pound both the mass and the money; a bare degree fits °C and °F.
bool CanConvert(const Unit& from, const Unit& to);

// REQUIRES: CanConvert(from, to).
Decimal ConvertUnit(const Decimal& value, const Unit& from, const Unit& to);

}  // namespace banyan
