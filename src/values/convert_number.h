// The one number of a mention, in the wanted unit. The rules are in convert.h.
#pragma once

#include <string_view>

#include "values/convert.h"

namespace banyan {

// For kNumber and kInteger.
ConvertedValue ConvertNumber(std::string_view raw, const ValueWish& wish);

}  // namespace banyan
