// An output without some of its records, or with them in another order, takes the old one's place:
// error rows that are tried again, rows of records that are gone.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "program/message_text.h"
#include "tasks/output/output.h"
#include "tasks/output/stored_records.h"

namespace banyan {
namespace {

constexpr const char* kReplacement = ".replacement";
constexpr const char* kUnpacked = ".unpacked";

[[noreturn]] void CannotReplace(const std::string& output) {
  Throw(ErrorKind::kIo, "{}: cannot write it anew without its error rows: {}", output,
        std::strerror(errno));
}

}  // namespace

JournalContents JobOutput::DropErrors(JournalContents journal) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < journal.records.size(); ++i) {
    if (journal.records[i].error_rows == 0) kept.push_back(i);
  }
  return kept.size() == journal.records.size() ? std::move(journal) : ReplaceBy(journal, kept);
}

void JobOutput::KeepOnly(const std::vector<Key128>& wanted) {
  if (!has_journal() || finished_ || done_before() == 0) return;
  Checkpoint(false);
  const JournalContents journal = ReadJournal(options_.output + ".journal");
  std::vector<std::pair<Key128, size_t>> places;  // in the output, sorted by key
  for (size_t i = 0; i < journal.records.size(); ++i)
    places.emplace_back(journal.records[i].key, i);
  std::ranges::sort(places);
  std::vector<size_t> kept;
  for (const Key128& key : wanted) {
    const auto place = std::ranges::lower_bound(places, std::pair(key, size_t{0}));
    if (place != places.end() && place->first == key) kept.push_back(place->second);
  }
  const bool gone = kept.size() < journal.records.size();
  if (!options_.ordered) std::ranges::sort(kept);
  if (!gone && std::ranges::is_sorted(kept)) return;
  const std::int64_t rows_before = rows_, errors_before = error_rows_;
  const JournalContents replaced = ReplaceBy(journal, kept);
  Count(replaced);
  journal_->Rewrite(replaced);
  rows_removed_ = rows_before - rows_;
  error_rows_removed_ = errors_before - error_rows_;
  if (!gone || !options_.notice) return;
  options_.notice(fmt::format(
      "{}: {} of an earlier run {} removed: their records are not in this input any "
      "more, or were changed",
      options_.output, Plural(rows_removed_, "row"), rows_removed_ == 1 ? "was" : "were"));
}

// The journal decides which of the two files counts: once it names the replacement, the old output
// is history.
JournalContents JobOutput::ReplaceBy(const JournalContents& journal,
                                     const std::vector<size_t>& records) {
  const std::string name = real_path_ + kReplacement;
  ForgetReplacement();
  const std::unique_ptr<OutputFile> replacement = OutputFile::Create(name, packing_);
  StoredRecords stored(options_.output, packing_, journal, real_path_ + kUnpacked);
  JournalContents kept;
  kept.exists = true;
  kept.header = journal.header;
  replacement->Append(stored.BeforeRecords());
  auto raw_bytes = static_cast<std::int64_t>(stored.BeforeRecords().size());
  for (const size_t record : records) {
    replacement->Append(stored.Read(record));
    kept.records.push_back(journal.records[record]);
    raw_bytes += journal.records[record].bytes;
  }
  const std::int64_t length = replacement->Checkpoint();
  kept.commits.push_back(
      {length, raw_bytes, false, replacement->content().Value(), kept.records.size(), {}});
  JournalContents pointing = kept;
  pointing.header["replacement"] = true;
  journal_->Rewrite(pointing);
  PutReplacementInPlace();
  file_ = std::make_unique<OutputFile>(options_.output, packing_, replacement->content());
  return kept;
}

// The new file gets the permissions, the owner and the lock before it gets the name.
void JobOutput::PutReplacementInPlace() {
  const std::string name = real_path_ + kReplacement;
  const int fd = OpenFile(name, O_RDWR | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) return;  // the renaming below had happened already
  struct stat status {};
  const bool ready = fd >= 0 && ::fstat(lock_, &status) == 0 &&
                     ::fchown(fd, status.st_uid, status.st_gid) == 0 &&
                     ::fchmod(fd, status.st_mode & 07777) == 0 &&
                     ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ReplaceFile(name, real_path_);
  if (!ready) {
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    errno = reason;
    CannotReplace(options_.output);
  }
  ::close(lock_);
  lock_ = fd;
}

// Reads the journal, after finishing a replacement that it speaks of.
JournalContents JobOutput::FinishReplacing() {
  JournalContents journal = ReadJournal(options_.output + ".journal");
  if (journal.usable() && journal.header.contains("replacement")) {
    PutReplacementInPlace();
    journal.header.erase("replacement");
    journal_->Rewrite(journal);
  }
  ForgetReplacement();
  return journal;
}

void JobOutput::ForgetReplacement() const { ::unlink((real_path_ + kReplacement).c_str()); }

}  // namespace banyan
