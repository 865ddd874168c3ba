// What can be said against a job before anything is read or loaded: its options, whether its inputs
// can be read and its output written.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/error.h"
#include "tasks/input.h"

namespace banyan {

void CheckJob(const JobOptions& options) {
  if (options.inputs.empty()) Throw(ErrorKind::kUsage, "expected an input file, or - for stdin");
  for (const std::string* format : {&options.input_format, &options.output_format}) {
    if (!format->empty() && *format != "jsonl" && *format != "csv") {
      Throw(ErrorKind::kUsage, "format: expected jsonl or csv, found '{}'", *format);
    }
  }
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    Throw(ErrorKind::kUsage, "--shard: expected i/n with 1 <= i <= n, found {}/{}", options.shard,
          options.shards);
  }
  const std::vector<std::string> files = ExpandInputs(options.inputs);
  for (const std::string& file : files) {
    if (file != "-" && ::access(file.c_str(), R_OK) != 0) {
      Throw(ErrorKind::kIo, "{}: cannot open the input: permission denied", file);
    }
    std::error_code none;
    if (options.output != "-" && std::filesystem::equivalent(file, options.output, none)) {
      Throw(ErrorKind::kUsage, "{}: is both input and output", file);
    }
  }
  if (options.output == "-") {
    if (options.resume) Throw(ErrorKind::kUsage, "--resume needs an output file (-o FILE)");
    return;
  }
  if (options.retry_errors && !options.resume) {
    Throw(ErrorKind::kUsage, "--retry-errors needs --resume");
  }
  const std::filesystem::path output(options.output);
  const std::filesystem::path folder = output.parent_path().empty() ? "." : output.parent_path();
  std::error_code none;
  if (std::filesystem::is_directory(output, none)) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: it is a directory", options.output);
  }
  if (!std::filesystem::is_directory(folder, none)) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: no such directory", options.output);
  }
  const bool exists = std::filesystem::exists(output, none);
  if (::access(exists ? output.c_str() : folder.c_str(), W_OK) != 0 ||
      ::access(folder.c_str(), W_OK) != 0) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: permission denied", options.output);
  }
}

}  // namespace banyan
