// How a command reads its input: the same options for every command that reads rows or documents.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "banyan/job.h"

namespace banyan::app {

struct InputWords {
  std::vector<std::string> fields;  // "context=body", "mails/*.csv:context=text"

  // --input-format, --field, --delimiter, --encoding and --strict. `example` is a field that the
  // command has, as --field takes it.
  void AddTo(CLI::App& command, JobOptions& job, const std::string& example);
  // --limit, --shard and --max-errors.
  void AddRecordsTo(CLI::App& command, JobOptions& job);
  // -o and all that says how rows are written.
  void AddOutputTo(CLI::App& command, JobOptions& job);
  // OURS must be one of `known`, or another name of one (JobOptions::fields has ours). Throws
  // kUsage.
  void Resolve(const std::vector<std::string>& known, JobOptions& job) const;
};

}  // namespace banyan::app
