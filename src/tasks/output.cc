// Writing rows and making them count. What was there before is in output_resume.cc, how a row looks
// in output_format.cc.
#include "tasks/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

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

JobOutput::JobOutput(const JobOptions& options, Json header)
    : options_(options), header_(std::move(header)) {
  std::string_view name = options.output;
  packing_ = PackingOf(name);
  if (packing_ != Packing::kNone) name = name.substr(0, name.rfind('.'));
  csv_ = options.output_format.empty() ? name.ends_with(".csv") : options.output_format == "csv";
  header_["parameters"]["output format"] = csv_ ? "csv" : "jsonl";
  header_["parameters"]["columns"] = options.columns;
  header_["parameters"]["ordered"] = options.ordered;
  header_["version"] = 1;
  last_flush_ = last_commit_ = Clock::now();
  std::error_code none;
  const bool device = std::filesystem::exists(options.output, none) &&
                      !std::filesystem::is_regular_file(options.output, none);
  if (options.output == "-" || device) {  // nothing can be cut or taken up again there
    if (options.resume) {
      Throw(ErrorKind::kUsage, "{}: cannot resume: it is no file", options.output);
    }
    file_ = std::make_unique<OutputFile>(options.output, packing_);
    Begin();
    return;
  }
  Lock();
  journal_ = std::make_unique<JournalWriter>(options.output + ".journal");
  Open();
}

JobOutput::~JobOutput() {
  if (lock_ >= 0) ::close(lock_);
}

// An empty journal first, then the output is emptied: never an old journal beside new rows.
void JobOutput::Begin() {
  Writing(false, [&] {
    if (has_journal()) {
      journal_->Rewrite(header_, {}, {});
      file_ = std::make_unique<OutputFile>(options_.output, packing_);
    }
    if (csv_) {
      const std::string line = CsvHeader();
      raw_bytes_ += static_cast<std::int64_t>(line.size());
      file_->Append(line);
    }
    if (has_journal()) Checkpoint(false);
  });
}

void JobOutput::Write(const Key128& key, std::span<const OutputRow> rows) {
  JournalRecord record;
  record.key = key;
  std::string text;
  for (const OutputRow& row : rows) {
    text += Format(row);
    ++record.rows;
    record.error_rows += row.error ? 1 : 0;
    AddTo(record.hash, KeyOf({row.identity}));
  }
  record.bytes = static_cast<std::int64_t>(text.size());
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

void JobOutput::Finish(bool complete) { Checkpoint(complete); }

void JobOutput::Checkpoint(bool complete) {
  Writing(has_journal(), [&] {
    const std::int64_t length = file_->Checkpoint();
    if (has_journal()) journal_->Commit({length, raw_bytes_, complete});
  });
  last_flush_ = last_commit_ = Clock::now();
  unflushed_ = uncommitted_ = false;
}

std::string JobOutput::answers_hash() const {
  return fmt::format("{:016x}{:016x}", hash_[1], hash_[0]);
}

}  // namespace banyan
