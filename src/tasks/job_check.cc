// What can be said against a job before anything is read or loaded: its options, whether its inputs
// can be read and its output written, and whether it would write over what it reads.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/error.h"
#include "base/file_identity.h"
#include "base/head_source.h"
#include "base/json.h"
#include "tasks/input.h"
#include "tasks/input_files.h"
#include "tasks/row_format.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

struct NamedFile {
  std::string what, path;
};

bool IsRegular(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// Of a plain file, whatever name or stream it comes by; nothing for pipes, devices and new files.
std::optional<FileIdentity> PlainIdentity(const std::string& path, int stream) {
  if (path == "-") return IsRegular(stream) ? IdentityOf(stream) : std::nullopt;
  std::error_code none;
  return fs::is_regular_file(path, none) ? IdentityOf(path) : std::nullopt;
}

bool SameFile(const std::string& a, const std::string& b) {
  const auto identity = PlainIdentity(a, STDOUT_FILENO);
  if (identity) return identity == PlainIdentity(b, STDOUT_FILENO);
  std::error_code none;  // neither need be there yet
  return a != "-" && b != "-" && !fs::exists(a, none) &&
         fs::weakly_canonical(a, none) == fs::weakly_canonical(b, none);
}

// A file that a job may write anew: an earlier receipt, or nothing.
bool IsReceipt(const std::string& path) {
  constexpr std::streamsize kMostBytes = 1 << 20;
  std::string text(kMostBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty()) return true;
  const Json receipt = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return receipt.is_object() && receipt.contains("answers_hash");
}

void CheckWrittenFiles(const JobOptions& options, const std::vector<std::string>& inputs) {
  std::vector<NamedFile> read, written = {{"the output", options.output}};
  for (const std::string& file : inputs) read.push_back({"the input", file});
  for (const auto& [what, path] : options.other_files) read.push_back({what, path});
  if (options.output != "-") {
    written.push_back({"the output's journal", options.output + ".journal"});
  }
  if (!options.receipt.empty()) {
    for (const NamedFile& file : written) {
      if (SameFile(options.receipt, file.path)) {
        Throw(ErrorKind::kUsage, "{}: is both the receipt and {}", options.receipt, file.what);
      }
    }
    if (PlainIdentity(options.receipt, STDOUT_FILENO) && !options.overwrite &&
        !IsReceipt(options.receipt)) {
      Throw(ErrorKind::kUsage,
            "{}: is there and no receipt; give --receipt another name, or --overwrite",
            options.receipt);
    }
    written.push_back({"the receipt", options.receipt});
  }
  for (const NamedFile& out : written) {
    const auto identity = PlainIdentity(out.path, STDOUT_FILENO);
    for (const NamedFile& in : read) {
      if (identity && identity == PlainIdentity(in.path, STDIN_FILENO)) {
        Throw(ErrorKind::kUsage, "{}: is both {} and {}", in.path, in.what, out.what);
      }
    }
  }
}

void CheckOutputFile(const JobOptions& options) {
  const fs::path output(options.output);
  const fs::path folder = output.parent_path().empty() ? "." : output.parent_path();
  std::error_code none;
  if (fs::is_directory(output, none)) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: it is a directory", options.output);
  }
  if (!fs::is_directory(folder, none)) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: no such directory", options.output);
  }
  const bool exists = fs::exists(output, none);
  if (::access(exists ? output.c_str() : folder.c_str(), W_OK) != 0 ||
      ::access(folder.c_str(), W_OK) != 0) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: permission denied", options.output);
  }
}

// A plain file that begins like no row. What comes through a pipe cannot be looked at twice.
bool LooksLikeDocument(const std::string& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return false;
  try {
    HeadSource source(OpenByteSource(file));
    constexpr size_t kHeadBytes = 4096;
    const auto enough = [](std::string_view head) { return head.size() >= kHeadBytes; };
    return InputKindOfBytes(source.Head(kHeadBytes, enough)) != InputKind::kJsonLines;
  } catch (const Error&) {
    return false;  // its row will say what is wrong
  }
}

}  // namespace

bool AllAreDocuments(const JobOptions& options) {
  for (const std::string& file : ExpandInputs(options.inputs, options.output)) {
    const auto given = InputKindNamed(options.input_format);
    const auto kind = given ? given : InputKindOfFile(file);
    if (kind ? !IsDocument(*kind) : !LooksLikeDocument(file)) return false;
  }
  return true;
}

void CheckJob(const JobOptions& options) {
  if (options.inputs.empty()) Throw(ErrorKind::kUsage, "expected an input file, or - for stdin");
  if (!options.input_format.empty() && !InputKindNamed(options.input_format)) {
    Throw(ErrorKind::kUsage,
          "--input-format: expected jsonl, csv, tsv, text, html or pdf; found '{}'",
          options.input_format);
  }
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    Throw(ErrorKind::kUsage, "--shard: expected i/n with 1 <= i <= n, found {}/{}", options.shard,
          options.shards);
  }
  const std::vector<std::string> files = ExpandInputs(options.inputs, options.output);
  for (const std::string& file : files) {
    if (options.input_format.empty()) RefuseForeignFormat(file);
    if (file != "-" && ::access(file.c_str(), R_OK) != 0) {
      Throw(ErrorKind::kIo, "{}: cannot open the input: permission denied", file);
    }
  }
  CheckWrittenFiles(options, files);
  OutputFormatOf(options);  // or it throws
  CheckHeaders(
      {files, options.input_format, options.fields, options.delimiter, options.needed_columns, {}});
  if (options.output == "-") {
    if (options.resume) Throw(ErrorKind::kUsage, "--resume needs an output file (-o FILE)");
    return;
  }
  if (options.retry_errors && !options.resume) {
    Throw(ErrorKind::kUsage, "--retry-errors needs --resume");
  }
  CheckOutputFile(options);
}

}  // namespace banyan
