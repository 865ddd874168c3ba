// The texts of files, one after another, for commands that need nothing else of a row.
#pragma once

#include <functional>
#include <string>

#include "banyan/error.h"
#include "banyan/job.h"

namespace banyan {

struct TextRow {
  std::string id = "null";  // as JSON: the row's own, else its line, or a document's file name
  std::string text;
  std::string problem;  // why there is no text, with file and line; empty: there is one
  ErrorKind kind = ErrorKind::kInput;  // of the problem
};

// Of `job`, what says where rows come from counts (inputs, their format and fields, limit, strict).
// A document is a text; of rows it is the field "text". Throws as CheckJob, and at the first
// problem when the job is strict.
void ForEachText(const JobOptions& job, const std::function<void(const TextRow&)>& take);

}  // namespace banyan
