// What can be said against a job before anything is read or loaded: its options, whether its inputs
// can be read and its output written, and whether it would write over what it reads. Also the rows
// and texts of its inputs alone (program/job.h).
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/byte_source.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "program/fresh_file.h"
#include "program/job.h"
#include "program/message_text.h"
#include "tasks/input/input.h"
#include "tasks/input/input_files.h"
#include "tasks/job/job.h"
#include "tasks/output/journal.h"
#include "tasks/output/output_check.h"
#include "tasks/output/row_format.h"

namespace banyan {

namespace {

namespace fs = std::filesystem;

// What every page that a command writes has in its head.
constexpr std::string_view kPageMark = "<meta name=\"generator\" content=\"banyan\">";

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

// A receipt of this output, or a page of ours: a resumed job may replace it.
bool IsOwnSideOutput(const std::string& path, const std::string& output) {
  constexpr std::streamsize kMostBytes = 1 << 20;
  std::string text(kMostBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.find(kPageMark) != std::string::npos) return true;
  const Json receipt = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return receipt.is_object() && receipt.contains("answers_hash") &&
         receipt.value("output", Json()) == output;
}

// The output and what is written beside it: nothing that is there is replaced unasked. A finished
// output may be this job's own, which leaves all of its files as they are: that turns out later.
void GuardOutputs(const JobOptions& options,
                  const std::vector<std::pair<std::string, std::string>>& side_outputs) {
  for (const auto& [option, path] : side_outputs) CheckWritable(path, option);
  if (options.overwrite) return;
  bool finished = false;
  if (!WhatIsThere(options.output).empty()) {
    const JournalContents journal = ReadJournal(options.output + ".journal");
    if (!journal.usable()) RefuseUnknownOutput(options.output, journal);
    finished = journal.complete();
  }
  for (const auto& [option, path] : side_outputs) {
    const bool goes_on = options.resume && IsOwnSideOutput(path, options.output);
    if (!goes_on && !(finished && !options.resume)) GuardOutput(path, option, false);
  }
}

void CheckWrittenFiles(const JobOptions& options, const std::vector<std::string>& inputs) {
  std::vector<NamedFile> read, written = {{"the output", options.output}};
  for (const std::string& file : inputs) read.push_back({"the input", file});
  for (const auto& [what, path] : options.other_files) read.push_back({what, path});
  if (options.output != "-") {
    written.push_back({"the output's journal", options.output + ".journal"});
  }
  auto side_outputs = options.side_outputs;
  if (!options.receipt.empty()) side_outputs.emplace_back("--receipt", options.receipt);
  for (const auto& [option, path] : side_outputs) {
    const std::string what = option == "--receipt" ? "the receipt" : option;
    for (const NamedFile& file : written) {
      if (SameFile(path, file.path)) {
        Throw(ErrorKind::kUsage, "{}: is both {} and {}", path, what, file.what);
      }
    }
    written.push_back({what, path});
  }
  for (const NamedFile& out : written) {
    const auto identity = PlainIdentity(out.path, STDOUT_FILENO);
    for (const NamedFile& in : read) {
      if (identity && identity == PlainIdentity(in.path, STDIN_FILENO)) {
        Throw(ErrorKind::kUsage, "{}: is both {} and {}", in.path, in.what, out.what);
      }
    }
  }
  GuardOutputs(options, side_outputs);
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
  // A plain file has a journal beside it; devices and pipes have none.
  const bool exists = fs::exists(output, none);
  const bool plain = !exists || fs::is_regular_file(output, none);
  if ((exists && ::access(output.c_str(), W_OK) != 0) ||
      (plain && ::access(folder.c_str(), W_OK) != 0)) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: permission denied", options.output);
  }
  if (options.resume && !options.overwrite && !exists) {
    Throw(ErrorKind::kUsage,
          "{}: there is nothing to go on with: no such file; without --resume the job begins",
          options.output);
  }
}

// A plain file that begins like no row. What comes through a pipe cannot be looked at twice.
bool LooksLikeDocument(const std::string& file,
                       const std::vector<std::vector<std::string>>& needed) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return false;
  try {
    HeadSource source(OpenByteSource(file));
    constexpr size_t kHeadBytes = 4096;
    const auto enough = [](std::string_view head) { return head.size() >= kHeadBytes; };
    return IsDocument(InputKindOfBytes(source.Head(kHeadBytes, enough), needed));
  } catch (const Error&) {
    return false;  // its row will say what is wrong
  }
}

// A file that cannot be read is an error row of the job, unless all are so or the caller is strict.
void CheckInputs(const JobOptions& options, const std::vector<std::string>& files) {
  if (!options.encoding.empty()) CheckEncoding(options.encoding);
  const InputOptions input = InputOf(options, files);
  std::optional<RowProblem> first;
  size_t bad = 0;
  for (const std::string& file : files) {
    std::optional<RowProblem> problem = ProblemOfFile(file, input);
    bad += problem ? 1 : 0;
    if (!first) first = std::move(problem);
  }
  if (bad == 0 || (bad < files.size() && !options.strict)) return;
  if (files.size() == 1) throw Error(first->kind, first->message);
  Throw(first->kind, "{}\n{} of {} cannot be read{}", first->message, bad,
        Plural(static_cast<std::int64_t>(files.size()), "input"),
        options.strict ? "; without --strict each becomes an error row, and the job goes on" : "");
}

}  // namespace

bool AllAreDocuments(const JobOptions& options) {
  for (const std::string& file : ExpandInputs(options.inputs, options.output)) {
    const auto given = InputKindNamed(options.input_format);
    const auto kind = given ? given : InputKindOfFile(file);
    if (kind ? !IsDocument(*kind) : !LooksLikeDocument(file, {{"context", "text"}})) return false;
  }
  return true;
}

void CheckJob(const JobOptions& options) {
  if (options.inputs.empty()) Throw(ErrorKind::kUsage, "expected an input file, or - for stdin");
  if (!options.input_format.empty() && !InputKindNamed(options.input_format)) {
    Throw(ErrorKind::kUsage,
          "--input-format: expected jsonl, json, csv, tsv, text, html or pdf; found '{}'",
          options.input_format);
  }
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    Throw(ErrorKind::kUsage, "--shard: expected i/n with 1 <= i <= n, found {}/{}", options.shard,
          options.shards);
  }
  const std::vector<std::string> files = ExpandInputs(options.inputs, options.output);
  CheckInputs(options, files);
  CheckWrittenFiles(options, files);
  OutputFormatOf(options);  // or it throws
  if (options.output == "-") {
    if (options.resume) Throw(ErrorKind::kUsage, "--resume needs an output file (-o FILE)");
    return;
  }
  if (options.retry_errors && !options.resume) {
    Throw(ErrorKind::kUsage, "--retry-errors needs --resume");
  }
  CheckOutputFile(options);
}

namespace {

TextRow TextRowOf(const InputRow& row) {
  TextRow text;
  const auto id = row.value.find("id");
  if (id != row.value.end()) text.id = DumpJson(*id);
  const auto fail = [&](ErrorKind kind, const std::string& why) {
    text.kind = kind;
    const std::string where =
        row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
    text.problem = why.starts_with(row.file) ? why : fmt::format("{}: {}", where, why);
    return text;
  };
  if (row.problem) return fail(row.problem->kind, row.problem->message);
  const auto found = row.value.find("text");
  if (found == row.value.end()) return fail(ErrorKind::kInput, "expected a field 'text'");
  if (!found->is_string()) {
    return fail(ErrorKind::kInput,
                fmt::format("'text': expected a string, found {}", TypeName(*found)));
  }
  text.text = found->get<std::string>();
  return text;
}

}  // namespace

namespace {

JobOptions ReadingOnly(JobOptions job) {
  job.output = "-";
  job.receipt.clear();
  job.resume = job.retry_errors = false;
  CheckJob(job);
  return job;
}

}  // namespace

RowReader::RowReader(const JobOptions& job)
    : reader_(std::make_unique<InputReader>(InputOf(ReadingOnly(job)))) {}
RowReader::~RowReader() = default;

bool RowReader::Next(ReadRow& row) {
  InputRow read;
  if (!reader_->Next(read)) return false;
  row = {std::move(read.file), read.line, "", read.problem.has_value()};
  if (read.problem) {
    read.value[kProblemField] = {{"kind", ErrorKindName(read.problem->kind)},
                                 {"message", read.problem->message}};
  }
  row.json = DumpJson(read.value);
  return true;
}

void ForEachText(const JobOptions& job, const std::function<void(const TextRow&)>& take) {
  JobOptions inputs = job;
  inputs.document_field = "text";
  inputs.other_document_field = "context";
  inputs.needed_columns = {{"text"}};
  InputReader reader(InputOf(ReadingOnly(std::move(inputs))));
  InputRow row;
  for (std::int64_t read = 0; (job.limit < 0 || read < job.limit) && reader.Next(row); ++read) {
    const TextRow text = TextRowOf(row);
    if (job.strict && !text.problem.empty()) {
      Throw(text.kind, "{} (--strict)", text.problem);
    }
    take(text);
  }
}

}  // namespace banyan
