// How a job finds its output: begun by nobody, in another's hands, finished, left half done, or
// not what it was. Trying error rows again is output_retry.cc.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file_identity.h"
#include "program/plural.h"
#include "tasks/output/output.h"

namespace banyan {

// On the output file itself. Another job may put a new file in its place between our opening and
// our locking: then the lock is on a file that is gone, and we look again.
void JobOutput::Lock() {
  const std::string& output = options_.output;
  while (true) {
    lock_ = OpenFile(output, O_WRONLY | O_CREAT, 0644);
    if (lock_ < 0) {
      Throw(ErrorKind::kIo, "{}: cannot open the output: {}", output, std::strerror(errno));
    }
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      Throw(ErrorKind::kUsage, "{}: another job is writing this output", output);
    }
    if (IdentityOf(output) == IdentityOf(lock_)) break;
    ::close(lock_);
  }
  std::error_code none;
  const std::filesystem::path real = std::filesystem::canonical(output, none);
  real_path_ = none ? output : real.string();
}

void JobOutput::Open() {
  const std::string& output = options_.output;
  if (options_.overwrite && !options_.resume) {
    ForgetReplacement();
    return Begin();
  }
  const JournalContents journal = FinishReplacing();
  std::error_code none;
  const bool has_rows = std::filesystem::file_size(output, none) > 0;
  if (!journal.usable()) {
    if (has_rows && !options_.overwrite) RefuseUnknownOutput(output, journal);
    return Begin();
  }
  const OutputCheck check = CheckOutput(output, packing_, format_.Header(), journal);
  const std::string differences = DifferencesTo(journal.header);
  if (options_.resume) {
    if (!differences.empty()) {
      Throw(ErrorKind::kUsage,
            "{}: cannot resume, because its rows were made with other parameters:{}\nGive the same "
            "ones, or another output.",
            output, differences);
    }
    if (!options_.overwrite) CheckUnchanged(journal, check);
    return Resume(journal, check);
  }
  if (!has_rows) return Begin();
  CheckUnchanged(journal, check);
  if (!journal.complete() || check.records < journal.records.size()) {
    Throw(ErrorKind::kUsage,
          "{}: holds an unfinished job of {} records; go on with --resume, or begin anew with "
          "--overwrite",
          output, check.records);
  }
  if (check.kept_bytes() < check.length) {
    Throw(ErrorKind::kUsage,
          "{}: the last {} bytes are not its job's own; give another output, or begin anew with "
          "--overwrite",
          output, check.length - check.kept_bytes());
  }
  TakeUp(journal);
  if (!differences.empty()) {
    Throw(ErrorKind::kUsage,
          "{}: holds the {} of a finished job, which was another one:{}\nGive another output (-o), "
          "or replace it with --overwrite.",
          output, Plural(rows_, "row"), differences);
  }
  finished_ = true;
}

void JobOutput::CheckSameInput(const InputRow* row, std::int64_t missing) const {
  std::string found;
  if (row != nullptr) {
    found = fmt::format("this input has {}{}, which that job did not read (--resume would add it)",
                        row->file, row->line > 0 ? fmt::format(", line {}", row->line) : "");
  } else if (missing > 0) {
    found = fmt::format("{} of it {} not in this input{}", Plural(missing, "record"),
                        missing == 1 ? "is" : "are",
                        options_.limit >= 0 ? fmt::format(" (--limit {})", options_.limit) : "");
  } else {
    return;
  }
  Throw(ErrorKind::kUsage,
        "{}: holds the {} of a finished job, and {}.\nGive another output (-o), or replace it with "
        "--overwrite.",
        options_.output, Plural(rows_, "row"), found);
}

// What earlier runs did counts.
void JobOutput::TakeUp(const JournalContents& journal) {
  for (const JournalRecord& record : journal.records) done_.Insert(record.key);
  Count(journal);
}

// What the output has now.
void JobOutput::Count(const JournalContents& journal) {
  rows_ = error_rows_ = 0;
  hash_ = {};
  for (const JournalRecord& record : journal.records) {
    rows_ += record.rows;
    error_rows_ += record.error_rows;
    AddTo(hash_, record.hash);
  }
  raw_bytes_ = journal.raw_bytes();
}

// Refuses an output that somebody edited, and a journal of which nothing is left though it had
// more.
void JobOutput::CheckUnchanged(const JournalContents& journal, const OutputCheck& check) const {
  const bool unknown =
      journal.damaged && journal.records.empty() && check.length > check.kept_bytes();
  if (!check.changed && !unknown) return;
  Throw(ErrorKind::kUsage,
        "{}: {} from byte {} on, after {} rows. To keep it as it is, give another output; to keep "
        "these {} rows and write the rest again, add --resume --overwrite; to begin anew, "
        "--overwrite alone",
        options_.output,
        check.changed ? "was changed since it was written: it is not what its journal says"
                      : "its journal is damaged and counts nothing",
        check.kept_bytes(), check.rows, check.rows);
}

void JobOutput::Resume(JournalContents journal, const OutputCheck& check) {
  if (check.length > check.kept_bytes() && options_.notice) {
    options_.notice(
        fmt::format("{}: cut {} bytes at its end, which its journal does not count: rows that were "
                    "being written when the job stopped, or not its own",
                    options_.output, check.length - check.kept_bytes()));
  }
  file_ = std::make_unique<OutputFile>(options_.output, packing_, check.kept);
  journal.header = header_;
  if (check.records < journal.records.size() || journal.commits.empty()) {
    journal.records.resize(check.records);
    std::erase_if(journal.commits,
                  [&](const JournalCommit& commit) { return commit.length >= check.kept_bytes(); });
    journal.commits.push_back(
        {check.kept_bytes(), check.raw_bytes, false, check.kept.Value(), check.records, {}});
  }
  for (JournalCommit& commit : journal.commits) commit.complete = false;
  if (options_.retry_errors) journal = DropErrors(std::move(journal));
  TakeUp(journal);
  journal_->Rewrite(journal);
  WriteTableHeader();
}

// A line for each parameter that was another one; empty: it is the same job.
std::string JobOutput::DifferencesTo(const Json& before) const {
  std::string differences;
  const auto differs = [&](const std::string& name, const Json& was, const Json& is) {
    const auto shown = [](const Json& value) {
      std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (text.size() > 120) text = text.substr(0, 120) + "…";
      return text;
    };
    differences += fmt::format("\n  {}: was {}, is {}", name, shown(was), shown(is));
  };
  for (const char* name : {"version", "task"}) {
    const Json was = before.value(name, Json());
    if (was != header_.at(name)) differs(name, was, header_.at(name));
  }
  for (const auto& [group, prefix] : {std::pair("model", "model's "), {"parameters", ""}}) {
    const Json was = before.value(group, Json::object());
    const Json& is = header_.at(group);
    for (const auto& [name, value] : is.items()) {
      const Json old = was.value(name, Json());
      if (old != value) differs(prefix + name, old, value);
    }
    for (const auto& [name, value] : was.items()) {
      if (!is.contains(name)) differs(prefix + name, value, Json());
    }
  }
  return differences;
}

}  // namespace banyan
