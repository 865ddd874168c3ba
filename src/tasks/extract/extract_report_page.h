// The page that shows what was extracted, without its data.
#pragma once

#include <string_view>

namespace banyan {

// HTML before and after the data, which is JSON without '<'.
std::string_view ReportPageBegin();
std::string_view ReportPageEnd();

}  // namespace banyan
