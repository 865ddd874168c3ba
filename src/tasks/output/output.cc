// Writing rows and making them count. What was there before is in output_resume.cc, how a row looks
// in row_format.cc.
#include "tasks/output/output.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/file_identity.h"
#include "program/visible.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

// Runs what writes; a failure says that nothing that counts is lost.
template <typename Body>
void Writing(bool resumable, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    if (!resumable || e.kind() != ErrorKind::kIo) throw;
    Throw(ErrorKind::kIo, "{}\nWhat was finished is kept: mend that and go on with --resume.",
          e.what());
  }
}

}  // namespace

JobOutput::JobOutput(const JobOptions& options, TableColumns columns, Json header)
    : options_(options),
      header_(std::move(header)),
      format_(options, std::move(columns)),
      packing_(PackingOf(options.output)) {
  header_["parameters"]["output format"] = format_.name();
  header_["parameters"]["columns"] = options.columns;
  for (const InputColumn& column : format_.input_columns()) {
    header_["parameters"]["input columns"].push_back(column.shown);
  }
  if (format_.is_table()) {
    header_["parameters"]["--csv-safe"] = options.csv_safe;
    header_["parameters"]["--delimiter"] =
        options.delimiter == 0 ? std::string() : std::string(1, options.delimiter);
  }
  header_["parameters"]["ordered"] = options.ordered;
  header_["version"] = 3;  // 3: a record is known by its id and its line
  last_flush_ = last_commit_ = Clock::now();
  std::error_code none;
  const bool device = std::filesystem::exists(options.output, none) &&
                      !std::filesystem::is_regular_file(options.output, none);
  if (options.output == "-" || device) {  // nothing can be cut or taken up again there
    if (options.resume) {
      Throw(ErrorKind::kUsage, "{}: cannot resume: it is no file", options.output);
    }
    file_ = std::make_unique<OutputFile>(options.output, packing_);
    for_terminal_ = ::isatty(STDOUT_FILENO) == 1 && options.output == "-";
    Begin();
    return;
  }
  Lock();
  // Who may not read the output may not read what the journal says of it.
  struct stat status {};
  const bool known = ::fstat(lock_, &status) == 0;
  journal_ = std::make_unique<JournalWriter>(options.output + ".journal",
                                             known ? status.st_mode & 0666 : 0600);
  Open();
}

JobOutput::~JobOutput() {
  if (lock_ >= 0) ::close(lock_);
}

// An empty journal first, then the output is emptied: never an old journal beside new rows.
void JobOutput::Begin() {
  Writing(false, [&] {
    if (has_journal()) {
      JournalContents empty;
      empty.header = header_;
      empty.commits.push_back({0, 0, false, ContentHash().Value(), 0, {}});
      journal_->Rewrite(empty);
      file_ = std::make_unique<OutputFile>(options_.output, packing_);
    }
    WriteTableHeader();
    if (has_journal()) Checkpoint(false);
  });
}

// What a table begins with, unless it has begun.
void JobOutput::WriteTableHeader() {
  if (!format_.is_table() || raw_bytes_ > 0) return;
  const std::string line = format_.Header();
  raw_bytes_ += static_cast<std::int64_t>(line.size());
  file_->Append(line);
}

void JobOutput::Write(const Key128& key, std::span<const OutputRow> rows) {
  JournalRecord record;
  record.key = key;
  std::string text;
  for (const OutputRow& row : rows) {
    text += for_terminal_ ? Visible(format_.Line(row)) : format_.Line(row);
    ++record.rows;
    record.error_rows += row.error ? 1 : 0;
    AddTo(record.hash, KeyOf({row.identity}));
  }
  record.bytes = static_cast<std::int64_t>(text.size());
  record.content = RowsContent(text);
  rows_ += record.rows;
  error_rows_ += record.error_rows;
  raw_bytes_ += record.bytes;
  AddTo(hash_, record.hash);
  Writing(has_journal(), [&] { file_->Append(text); });
  if (has_journal()) journal_->Add(record);
  unflushed_ = uncommitted_ = true;
}

void JobOutput::Tick() {
  if (!unflushed_ && !uncommitted_) return;
  const Clock::time_point now = Clock::now();
  const auto passed = [&](Clock::time_point since, double seconds) {
    return std::chrono::duration<double>(now - since).count() >= seconds;
  };
  if (has_journal() && uncommitted_ && passed(last_commit_, options_.checkpoint_seconds)) {
    return Checkpoint(false);
  }
  // A flush costs a packed file some of its packing.
  constexpr double kPackedFlushSeconds = 1.0;
  const double wait = packing_ == Packing::kNone ? 0.0 : kPackedFlushSeconds;
  if (unflushed_ && passed(last_flush_, wait)) {
    Writing(has_journal(), [&] { file_->Flush(); });
    last_flush_ = now;
    unflushed_ = false;
  }
}

void JobOutput::Finish(bool complete, const Key128& input) {
  if (!finished_) Checkpoint(complete, input);
}

void JobOutput::Checkpoint(bool complete, const Key128& input) {
  Writing(has_journal(), [&] {
    const std::int64_t length = file_->Checkpoint();
    if (has_journal())
      journal_->Commit({length, raw_bytes_, complete, file_->content().Value(), 0, input});
  });
  if (has_journal()) CheckStillThere();
  last_flush_ = last_commit_ = Clock::now();
  unflushed_ = uncommitted_ = false;
}

// What is written to a file that nobody can find any more is lost.
void JobOutput::CheckStillThere() const {
  if (IdentityOf(options_.output) == IdentityOf(lock_) && journal_->StillThere()) return;
  Throw(
      ErrorKind::kIo,
      "{}: the output or its journal was removed or replaced while the job was writing it; the job "
      "stops, since its rows would be lost",
      options_.output);
}

std::string JobOutput::answers_hash() const {
  return fmt::format("{:016x}{:016x}", hash_[1], hash_[0]);
}

}  // namespace banyan
