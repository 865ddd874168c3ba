#include <set>

#include "values/conversion_fixture.h"
#include "values/unit_rows.h"

namespace banyan {
namespace {

struct UnitCase {
  std::string_view raw, wanted, json;
  std::string_view reason = "";
};

TEST(Units, IntoTheWantedUnit) {
  const UnitCase cases[] = {
      {"1.35 kg", "g", "1350"},
      {"1,35 kg", "g", "1350"},
      {"1350 g", "kg", "1.35"},
      {"60", "EUR", "60"},
      {"60 EUR", "EUR", "60"},
      {"60 €", "EUR", "60"},
      {"60 EUR", "€", "60"},
      {"2 lb", "kg", "0.90718474"},
      {"1 oz", "g", "28.349523125"},
      {"16 oz", "lb", "1"},
      {"1 t", "kg", "1000"},
      {"0.1 kg", "g", "100"},
      {"500 mg", "g", "0.5"},
      {"2,5 Tonnen", "kg", "2500"},
      {"10 stone", "kg", "63.5029318"},
      {"1 in", "cm", "2.54"},
      {"15.6 inch", "cm", "39.624"},
      {"6 feet", "m", "1.8288"},
      {"1 mile", "km", "1.609344"},
      {"100 yards", "m", "91.44"},
      {"180 cm", "m", "1.8"},
      {"1,80 m", "cm", "180"},
      {"1m80", "cm", "180"},
      {"3 Zoll", "mm", "76.2"},
      {"5 pieds", "m", "1.524"},
      {"10 km", "m", "10000"},
      {"2 ha", "m²", "20000"},
      {"100 sq ft", "m²", "9.290304"},
      {"1 acre", "m2", "4046.8564224"},
      {"85 qm", "m²", "85"},
      {"85 m2", "m²", "85"},
      {"85 mètres carrés", "m²", "85"},
      {"75 cl", "l", "0.75"},
      {"0,75 l", "ml", "750"},
      {"1 gallon", "l", "3.785411784"},
      {"12 fl oz", "ml", "354.88235475"},
      {"1 m³", "l", "1000"},
      {"1998 ccm", "l", "1.998"},
      {"33cl", "ml", "330"},
      {"90 min", "h", "1.5"},
      {"1.5 h", "min", "90"},
      {"2 days", "h", "48"},
      {"2 Wochen", "days", "14"},
      {"1 h 30 min", "min", "90"},
      {"1h30", "min", "90"},
      {"1h30min", "h", "1.5"},
      {"1:30 h", "min", "90"},
      {"1 Std. 30 Min.", "min", "90"},
      {"1 heure 30", "min", "90"},
      {"1 hour and 30 minutes", "min", "90"},
      {"1 hr 5 min 30 s", "s", "3930"},
      {"an hour and a half", "min", "90"},
      {"une heure et demie", "min", "90"},
      {"1/3 h", "min", "20"},
      {"2 years", "months", "24"},
      {"18 Monate", "years", "1.5"},
      {"1 year 6 months", "months", "18"},
      {"5 ft 11 in", "cm", "180.34"},
      {"5'11\"", "cm", "180.34"},
      {"5’11”", "in", "71"},
      {"5 ft 11", "in", "71"},
      {"6'", "ft", "6"},
      {"2 lb 3 oz", "oz", "35"},
      {"2 lb 3 oz", "lb", "2.1875"},
      {"1 kg 350 g", "g", "1350"},
      {"100 PS", "kW", "73.549875"},
      {"150 hp", "W", "111854.98073734053"},
      {"2 kW", "W", "2000"},
      {"110 ch", "PS", "110"},
      {"1 kWh", "kJ", "3600"},
      {"100 kcal", "kJ", "418.4"},
      {"500 Wh", "kWh", "0.5"},
      {"1 TB", "GB", "1000"},
      {"512 MB", "GB", "0.512"},
      {"1 GiB", "MiB", "1024"},
      {"16 Go", "GB", "16"},
      {"512 mb", "MB", "512"},
      {"1 Gbit/s", "Mbit/s", "1000"},
      {"100 Mbps", "Mbit/s", "100"},
      {"1 MB/s", "Mbit/s", "8"},
      {"98.6 °F", "°C", "37"},
      {"100°C", "°F", "212"},
      {"20 °C", "K", "293.15"},
      {"-40 F", "°C", "-40"},
      {"20°", "°C", "20"},
      {"20 Grad", "°C", "20"},
      {"20 degrees Celsius", "°C", "20"},
      {"300 K", "°C", "26.85"},
      {"100 km/h", "mph", "62.1371192237334"},
      {"60 mph", "km/h", "96.56064"},
      {"10 m/s", "km/h", "36"},
      {"20 %", "%", "20"},
      {"20", "%", "20"},
      {"5 ‰", "%", "0.5"},
      {"19 Prozent", "percent", "19"},
      {"230 V", "V", "230"},
      {"1.5 kV", "V", "1500"},
      {"500 mA", "A", "0.5"},
      {"5000 mAh", "Ah", "5"},
      {"2.4 GHz", "MHz", "2400"},
      {"12 MP", "px", "12000000"},
      {"1.920 px", "px", "1920"},
      {"12 Stk.", "pieces", "12"},
      {"12 units", "pcs", "12"},
      {"$60", "USD", "60"},
      {"$60", "CAD", "60"},
      {"100 kr", "SEK", "100"},
      {"¥100", "CNY", "100"},
      {"60 pounds", "GBP", "60"},
      {"60 pounds", "lb", "60"},
      {"60 EUR per night", "EUR", "60"},
      {"60 €/Monat", "EUR", "60"},
      {"60/month", "EUR", "60"},
      {"1.234", "EUR", "1234"},
      {"1.234", "kg", "1.234"},
      {"6 ft (183 cm)", "cm", "183"},
      {"6 ft (183 cm)", "ft", "6"},
      {"1.35 kg (2.98 lb)", "g", "1350"},
      {"2 seats", "seats", "2"},
      {"2 seats", "seat", "2"},
      {"1 seat", "seats", "1"},
      {"2", "seats", "2"},
      {"120 g/km", "g/km", "120"},
      {"Weight: 1.35 kg", "g", "1350"},
      {"Weight: 12", "kg", "12"},
      {"net weight 1.35 kg", "g", "1350"},
      {"about 12", "kg", "12"},
      {"1.35 kg without battery", "kg", "1.35"},
      {"USD1,299", "USD", "1299"},
      {"7,5 l/100 km", "l/100 km", "7.5"},
      {"5.5 L/100km", "l/100 km", "5.5"},
      {"5 kg for 60 EUR", "EUR", "60"},
      {"5 kg for 60 EUR", "kg", "5"},
      {"60 EUR (incl. 19 % VAT)", "EUR", "60"},
      {"60 EUR incl. 19% VAT", "EUR", "60"},
      {"10 % of 60 EUR", "EUR", "null", "several"},
      {"12.500 km", "km", "null", "thousands"},
      {"5 l/100 km", "kWh/100 km", "null"},
      {"3 for 60 EUR", "EUR", "null", "several"},
      {"60 EUR", "USD", "null", "not exchanged"},
      {"60 EUR", "kg", "null", "currency in EUR, not a mass"},
      {"5 kg", "m", "null", "mass in kg, not a length"},
      {"2 months", "days", "null", "calendar time"},
      {"2 seats", "kg", "null", "'seats', not in 'kg'"},
      {"2 beds", "seats", "null", "'beds', not in 'seats'"},
      {"iPhone 12", "kg", "null", "names no unit"},
      {"120 g/km", "g", "null"},
      {"5 EUR/kg", "kg", "null"},
      {"60 kr", "USD", "null", "not exchanged"},
      {"500 lm", "lx", "null"},
      {"2 Pfund", "kg", "null"},
      {"3 tons", "kg", "null"},
      {"3-5 kg", "kg", "null", "range"},
      {"2 x 500 ml", "ml", "null", "product"},
  };
  for (const UnitCase& c : cases) {
    const ConvertedValue converted = ConvertValue(c.raw, NumberIn(std::string(c.wanted)));
    EXPECT_EQ(converted.value.dump(), c.json)
        << c.raw << " in " << c.wanted << ": " << converted.reason;
    EXPECT_NE(converted.reason.find(c.reason), std::string::npos) << converted.reason;
    EXPECT_EQ(converted.reason.empty(), !converted.value.is_null());
    EXPECT_EQ(converted.unit, converted.value.is_null() ? "" : c.wanted) << c.raw;
  }
}

TEST(Units, TheDocumentsDecimalMarkDecides) {
  ValueWish wish = NumberIn("km");
  wish.decimal_mark = DecimalMark::kComma;
  ExpectConversions(
      wish, {{"12.500 km", "12500", "km"}, {"1,234 km", "1.234", "km"}, {"1.5", "1.5", "km"}});
  wish.decimal_mark = DecimalMark::kPoint;
  ExpectConversions(
      wish, {{"12.500 km", "12.5", "km"}, {"1,234 km", "1234", "km"}, {"1,5", "1.5", "km"}});
}

TEST(Units, WholeNumbersInTheWantedUnit) {
  ExpectConversions(
      {ValueType::kInteger, "g", {}},
      {{"1.35 kg", "1350", "g"}, {"1 oz", "null", "whole"}, {"1.234 kg", "1234000", "g"}});
}

// Every unit is found by each of its spellings, and a value survives a way there and back.
TEST(Units, EveryRow) {
  std::set<std::string> symbols;
  for (const UnitRow& row : kUnitRows) {
    EXPECT_TRUE(symbols.insert(row.symbol).second) << row.symbol;
    const Unit* unit = FindUnit(row.symbol);
    ASSERT_NE(unit, nullptr) << row.symbol;
    EXPECT_EQ(unit->symbol, row.symbol);
    for (std::string_view list : {std::string_view(row.symbols), std::string_view(row.names)}) {
      while (!list.empty()) {
        const size_t end = std::min(list.find('|'), list.size());
        const Unit* found = FindUnit(list.substr(0, end));
        ASSERT_NE(found, nullptr) << list.substr(0, end);
        EXPECT_EQ(found->symbol, row.symbol) << list.substr(0, end);
        list.remove_prefix(std::min(end + 1, list.size()));
      }
    }
    for (const UnitRow& other : kUnitRows) {
      const Unit* to = FindUnit(other.symbol);
      if (!CanConvert(*unit, *to) || !CanConvert(*to, *unit)) continue;
      const double back =
          ToDouble(ConvertUnit(ConvertUnit(MakeDecimal(123, -1), *unit, *to), *to, *unit));
      EXPECT_NEAR(back, 12.3, 1e-12) << row.symbol << " and " << other.symbol;
    }
  }
}

TEST(Units, CaseMattersWhereItMust) {
  EXPECT_EQ(FindUnit("mW")->symbol, "mW");
  EXPECT_EQ(FindUnit("MW")->symbol, "MW");
  EXPECT_EQ(FindUnit("Mb")->symbol, "Mbit");
  EXPECT_EQ(FindUnit("KG")->symbol, "kg");
  EXPECT_EQ(FindUnit("Kilogramm")->symbol, "kg");
  EXPECT_EQ(FindUnit("Mètres")->symbol, "m");
  EXPECT_EQ(FindUnit("Fl. Oz.")->symbol, "fl oz");
  EXPECT_EQ(FindUnit("m^2")->symbol, "m²");
  EXPECT_EQ(FindUnit("to"), nullptr);
  EXPECT_EQ(FindUnit("seats"), nullptr);
  EXPECT_EQ(FindUnit(""), nullptr);
}

}  // namespace
}  // namespace banyan
