// The page that shows what was extracted, without its data: extract_report.html, .css and .js,
// which the build embeds. A list of any length holds only the entries that are in sight; all text
// goes into text nodes.
#pragma once

#include <string_view>

namespace banyan {

// HTML before and after the data, which is JSON without '<'.
std::string_view ReportPageBegin();
std::string_view ReportPageEnd();

}  // namespace banyan
