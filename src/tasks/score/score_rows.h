// Rows of a job, or right answers, as the scores of `banyan eval` read them.
#pragma once

#include <map>
#include <string>

#include "base/json.h"

namespace banyan {

// The rows of a JSONL file by the JSON of their ids; the last one of an id counts. Throws kInput
// with file and line for a line that is no row.
std::map<std::string, Json> RowsById(const std::string& file);

// The rows of `ask`, by KeyOfAnswer; error rows of a whole record are under its id and null.
std::map<std::string, Json> RowsByAnswer(const std::string& file);
std::string KeyOfAnswer(const Json& id, const Json& question_id);

}  // namespace banyan
