// Records with error rows that are tried again: the output without them takes the old one's place.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/byte_source.h"
#include "base/error.h"
#include "base/file_identity.h"
#include "tasks/output.h"

namespace banyan {
namespace {

constexpr const char* kReplacement = ".replacement";

[[noreturn]] void CannotReplace(const std::string& output) {
  Throw(ErrorKind::kIo, "{}: cannot write it anew without its error rows: {}", output,
        std::strerror(errno));
}

}  // namespace

// Copies the output without the records that have error rows. The journal decides which of the two
// files counts: once it names the replacement, the old output is history.
JournalContents JobOutput::DropErrors(JournalContents journal) {
  const bool any = std::ranges::any_of(
      journal.records, [](const JournalRecord& record) { return record.error_rows > 0; });
  if (!any) return journal;
  const std::string& output = options_.output;
  std::int64_t before_records = journal.raw_bytes();
  for (const JournalRecord& record : journal.records) before_records -= record.bytes;
  const std::unique_ptr<ByteSource> old = OpenByteSource(output);
  const std::string name = real_path_ + kReplacement;
  ForgetReplacement();
  const std::unique_ptr<OutputFile> replacement = OutputFile::Create(name, packing_);
  const auto copy = [&](std::int64_t bytes, bool keep) {
    std::vector<char> buffer(1 << 16);
    while (bytes > 0) {
      const auto wanted = static_cast<size_t>(std::min<std::int64_t>(bytes, 1 << 16));
      const size_t got = old->Read(std::span(buffer.data(), wanted));
      if (got == 0) {
        Throw(ErrorKind::kFormat, "{}: shorter than its journal says: it was changed", output);
      }
      if (keep) replacement->Append({buffer.data(), got});
      bytes -= static_cast<std::int64_t>(got);
    }
  };
  JournalContents kept;
  kept.exists = true;
  kept.header = journal.header;
  std::int64_t raw_bytes = before_records;
  copy(before_records, true);
  for (const JournalRecord& record : journal.records) {
    copy(record.bytes, record.error_rows == 0);
    if (record.error_rows > 0) continue;
    kept.records.push_back(record);
    raw_bytes += record.bytes;
  }
  const std::int64_t length = replacement->Checkpoint();
  kept.commits.push_back(
      {length, raw_bytes, false, replacement->content().Value(), kept.records.size()});
  JournalContents pointing = kept;
  pointing.header["replacement"] = true;
  journal_->Rewrite(pointing);
  PutReplacementInPlace();
  file_ = std::make_unique<OutputFile>(output, packing_, replacement->content());
  return kept;
}

// The new file gets the permissions, the owner and the lock before it gets the name.
void JobOutput::PutReplacementInPlace() {
  const std::string name = real_path_ + kReplacement;
  const int fd = OpenFile(name, O_RDWR | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) return;  // the renaming below had happened already
  struct stat status {};
  const bool ready =
      fd >= 0 && ::fstat(lock_, &status) == 0 && ::fchown(fd, status.st_uid, status.st_gid) == 0 &&
      ::fchmod(fd, status.st_mode & 07777) == 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      ::rename(name.c_str(), real_path_.c_str()) == 0;
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
