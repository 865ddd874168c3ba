// The allowed value that a mention names. The rules are in convert.h.
#pragma once

#include <string_view>

#include "values/convert.h"

namespace banyan {

// For kEnum.
ConvertedValue ConvertEnum(std::string_view raw, const ValueWish& wish);

}  // namespace banyan
