// Rows of a job, or right answers, as the scores of `banyan eval` read them.
#pragma once

#include <map>
#include <string>

#include "base/json.h"

namespace banyan {

// The rows of a JSONL file by the JSON of their ids; the last one of an id counts. Throws kInput
// with file and line for a line that is no row.
std::map<std::string, Json> RowsById(const std::string& file);

}  // namespace banyan
