// Texts that a model copied from a document → typed values, by fixed rules. Nothing is guessed: a
// text that the rules do not cover, or that has two readings, is null with a reason.
//
// All types: ends are trimmed; white space of every kind, dashes, apostrophes, quotation marks
// and full-width digits count as their ASCII relatives; ill-formed UTF-8 counts as U+FFFD. A
// mention of more than 4096 bytes is null (kText has no limit). Words are understood in English,
// German and French, without regard to case and accents.
//
// Text: trimmed, runs of white space as one space; null when nothing is left.
//
// Numbers
// - Separators of thousands are space (also U+00A0, U+2009, U+202F), apostrophe, point or comma,
//   in groups of three (or as in India: 12,34,567). With both point and comma, the last is the
//   decimal mark: 1,234.56 and 1.234,56. A mark that occurs more than once separates thousands.
// - A single comma or point is the decimal mark (1,5; 0,234; 1234,567), unless exactly three
//   digits follow it and one to three, the first not 0, before it. Then, in this order: an
//   integer is wanted: it separates thousands (1.234 is 1234), unless a magnitude follows;
//   `decimal_mark` is known: it decides; a comma separates thousands (1,234 is 1234), but is
//   decimal before a German or French magnitude (1,234 Mrd.); a point is decimal before a
//   magnitude; it separates thousands when the unit, read or wanted, is a currency, pieces or
//   pixels (1.234 EUR is 1234); otherwise it is decimal (1.234 kg), and null when the last digit
//   is 0 (12.500 km may be 12.5 or 12 500).
// - Signs + and -, "minus", "moins"; brackets around an amount with a currency, cents or
//   separators mean minus: (1,234.00). Other brackets around a lone number are null, and so is "-
//   5" (a bullet?).
// - "60,-" and "60.--" have no cents. Exponents: 1.5e3, 1.5 x 10^3, 1,5·10³.
// - Fractions: ½, 2½, 1/2, 1 1/2, with 2, 3, 4, 8, 16, 32 or 64 below. 4/5 and 8/10 may be
//   ratings: null.
// - Words: zero to 999 999, a dozen, half a dozen, half an hour, anderthalb, two and a half. "a",
//   "ein", "un" count as 1 in front of a known unit or alone. Ordinals: 3rd, 3., 3e, 1er, first
//   to twelfth.
// - Magnitudes: k (60k, 60 k€, TEUR), M and b after a number without a space or with a currency,
//   hundred, thousand, Tsd., million, Mio., billion (10^9), Mrd., milliards, Billionen (10^12),
//   trillion.
// - Approximations and inclusive bounds give their number: about, ca., ~, environ, from, ab, up
//   to, bis zu, max., at least, 18+. Exclusive bounds (<, >, less than, über, plus de) and
//   tolerances (±) are null.
// - Ranges (3-5), products (2 x 500 ml), versions (1.2.3) and two different numbers are null. The
//   same quantity twice is one: "two (2)", "6 ft (183 cm)" (within 2 %; the one in the wanted
//   unit is taken). Where a unit is wanted, quantities in known units of other dimensions do not
//   count ("5 kg for 60 EUR"); shares do, unless they are in brackets or after "incl." ("60 EUR
//   (incl. 19 % VAT)", but not "10 % of 60 EUR").
// - Words before a label's colon, and other words, may stand before the number, unless a unit is
//   wanted and none is written ("iPhone 12" is no mass), or the digits have plain spaces ("Pixel
//   12 128 GB").
// - Results are exact decimals, printed as the nearest double; whole numbers within 64 bits are
//   integers. Whole numbers of more digits than a double keeps are null. kInteger: 2.0 is 2, 2.5
//   is null.
//
// Units (unit_table.h)
// - Known units convert within their dimension, exactly: 1.35 kg wanted in g is 1350. Other
//   dimensions are null. Currencies never convert; "$" is USD unless another dollar is wanted,
//   "kr" fits every crown, "¥" is JPY unless CNY is wanted, "pound" is a mass unless GBP is
//   wanted.
// - A bare number has the wanted unit. Without a wanted unit, `unit` is the symbol of a known
//   unit ("kg" for "Kilogramm"), or up to three words after the number as they are written ("2
//   double beds").
// - A wanted unit that is not in the table must be written as it is wanted (singular or plural)
//   or not at all.
// - "per month" or "/month" after a currency is dropped when the currency is wanted and kept in
//   `unit` when nothing is ("EUR/mo"); after other units it is part of the unit.
// - Parts add up in the largest unit: 1 h 30 min, 1h30, 1:30 h, 5'11", 5 ft 11, 2 lb 3 oz, 1m80,
//   2€50.
//
// Dates → "YYYY-MM-DD", for days that exist
// - 2024-05-31, 2024/5/31, 20240531, 31.05.2024, 31/5/24, 31-05-2024, 31 05 2024, 31 May 2024,
//   May 31st, 2024, 31. Mai 2024, 1er mars 2024, 31-May-24, 2024 May 31; months may be
//   abbreviated.
// - Of two numbers with / or - between them, that above 12 is the day; otherwise the first is the
//   day, or the month if `month_first`. Between points the day is first unless only the second
//   can be the day.
// - Two digits are a year from 1970 to 2069. Weekdays, other words, times of day and zones beside
//   the date are dropped. Two dates, other numbers, no day, "before", "after" and relative words:
//   null.
// - "23 May", "May 23rd" and "23.5." are of the wish's `year`; null when it is not known.
//
// Booleans: words of yes and no (included, erlaubt, inclus, ✓; excluded, verboten, interdit, ✗),
// also beside other words ("breakfast included"). A negation (no, not, non-, without, nicht,
// kein, ohne, sans, pas) negates the next three words, and says no by itself
// ("non-refundable", "no pets"). Yes and no together, double negations, conditions ("on request",
// "optional") and texts of more than 12 words are null, and so is a word that is neither
// ("refundable").
//
// Enums: the one allowed value that equals the mention; if none does, ignoring case, accents,
// punctuation, hyphens; if none does, ignoring spaces; if none does, ignoring simple plurals; if
// none does, the one that occurs in the mention as whole words (within "forest-green": "green";
// the longer of "dark green" and "green"); if none does, the one that contains the mention. Two
// values by the same rule are null, and so is a mention that denies its value ("not green").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "program/json_library.h"

namespace banyan {

enum class ValueType { kText, kNumber, kInteger, kBoolean, kDate, kEnum };

enum class DecimalMark { kUnknown, kPoint, kComma };

// What the schema wants, and what is known of the document.
struct ValueWish {
  ValueType type = ValueType::kText;
  std::string unit;                  // kNumber, kInteger: "kg", "EUR"; empty: as written
  std::vector<std::string> allowed;  // kEnum
  bool month_first = false;          // kDate: 03/04/2024 is March 4th
  int year = 0;                      // kDate: of dates without one; 0: not known
  DecimalMark decimal_mark = DecimalMark::kUnknown;  // kNumber, kInteger: of the document
};

struct ConvertedValue {
  nlohmann::ordered_json value;  // null when the text could not be converted
  std::string unit;              // kNumber, kInteger: the unit of `value`; empty: none is known
  std::string reason;            // when `value` is null: "'ca. viel' is not a number"
};

// Never throws, whatever bytes `raw` has. Time is linear in `raw` and in `allowed`.
[[nodiscard]] ConvertedValue ConvertValue(std::string_view raw, const ValueWish& wish);

// The allowed values that the text names only to deny them ("not green", "ohne Balkon"): each of
// their mentions has a negation among the three words before it in its sentence.
std::vector<std::string> DeniedValues(std::string_view text,
                                      const std::vector<std::string>& allowed);

}  // namespace banyan
