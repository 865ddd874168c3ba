// What the columns of a job's rows are called: for callers that put tables of their own beside
// them.
#pragma once

#include <string>
#include <vector>

#include "banyan/extract.h"

namespace banyan {

// The names under which rows of a task ("ask", "extract", "rag") have these fields of the input:
// "input_" stands before a name of the task's results, or of `more` results that the job has. Two
// fields never get one name.
std::vector<std::string> CarriedFieldNames(const std::string& task,
                                           const std::vector<std::string>& fields,
                                           const std::vector<std::string>& more);

// A field of flat rows, which have one for every attribute.
struct FlatColumn {
  std::string name;
  ValueKind kind = ValueKind::kText;  // kSchema: any JSON
};
// Of all categories, in their order.
std::vector<FlatColumn> FlatColumns(const ExtractSchema& schema);

}  // namespace banyan
