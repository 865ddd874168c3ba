// Calendar dates in a mention. The rules are in convert.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "values/convert.h"

namespace banyan {

// 1 to 12 for a month's name or abbreviation in English, German or French, folded; else 0.
int MonthNamed(std::string_view folded_word);

// Whether the day exists in the Gregorian calendar (also before 1582).
bool IsDay(int year, int month, int day);

// For kDate.
ConvertedValue ConvertDate(std::string_view raw, const ValueWish& wish);

}  // namespace banyan
