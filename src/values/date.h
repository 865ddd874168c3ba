// Calendar dates in a mention. The rules are in convert.h.
#pragma once

#include <string_view>

#include "values/convert.h"

namespace banyan {

// Whether the day exists in the Gregorian calendar (also before 1582).
bool IsDay(int year, int month, int day);

// For kDate.
ConvertedValue ConvertDate(std::string_view raw, const ValueWish& wish);

}  // namespace banyan
