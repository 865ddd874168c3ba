// What options say as text, and what becomes of it.
#pragma once

#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/job.h"
#include "banyan/option_names.h"

namespace banyan::app {

// Throws kNotFound naming the option.
std::string ReadOptionFile(const std::string& path, const char* option);
// "@FILE" is the text of a file; anything else is the text itself.
std::string TextOrFile(const std::string& value, const char* option);
// "2/8". Throws kUsage.
void ParseShardOption(const std::string& text, JobOptions& job);
// "text=body", OURS one of `known`. Throws kUsage.
void ParseFieldOptions(const std::vector<std::string>& fields,
                       const std::vector<std::string>& known, JobOptions& job);

}  // namespace banyan::app
