// The allowed value that a mention names. The rules are in convert.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "values/convert.h"

namespace banyan {

// For kEnum.
ConvertedValue ConvertEnum(std::string_view raw, const ValueWish& wish);

// The allowed values that the text names only to deny them ("not green", "ohne Balkon"): each of
// their mentions has a negation among the three words before it in its sentence.
std::vector<std::string> DeniedValues(std::string_view text,
                                      const std::vector<std::string>& allowed);

}  // namespace banyan
