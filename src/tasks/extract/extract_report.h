// The page that shows what was extracted, without its data: extract_report.html, .css and .js,
// which the build embeds. A list of any length holds only the entries that are in sight; all text
// goes into text nodes.
#pragma once

#include <string_view>

#include "banyan/job.h"

namespace banyan {

// HTML before and after the data, which is JSON without '<'.
std::string_view ReportPageBegin();
std::string_view ReportPageEnd();

// A report is made of the output, read again: that must be a JSONL file. Throws kUsage.
void CheckReported(const JobOptions& job);

}  // namespace banyan
