// Yes and no in a mention. The rules are in convert.h.
#pragma once

#include <string_view>

#include "values/convert.h"

namespace banyan {

// For kBoolean.
ConvertedValue ConvertBoolean(std::string_view raw);

}  // namespace banyan
