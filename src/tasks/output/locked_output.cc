// Locking and replacing the output file; its records read in any order.
#include "tasks/output/locked_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "base/atomic_file.h"
#include "base/byte_source.h"
#include "base/error.h"
#include "base/files.h"

namespace banyan {
namespace {

constexpr const char* kReplacement = ".replacement";
constexpr const char* kUnpacked = ".unpacked";

[[noreturn]] void CannotReplace(const std::string& output) {
  Throw(ErrorKind::kIo, "{}: cannot write it anew without its error rows: {}", output,
        std::strerror(errno));
}

// The rows of an output's records, read in any order.
class StoredRecords {
 public:
  // REQUIRES: the output is what the journal says. A packed one is unpacked into `scratch`, a name
  // of our own; the file has no name any more when the constructor returns. Throws kIo, kFormat.
  StoredRecords(const std::string& output, Packing packing, const JournalContents& journal,
                const std::string& scratch);
  ~StoredRecords();
  StoredRecords(const StoredRecords&) = delete;
  StoredRecords& operator=(const StoredRecords&) = delete;

  const std::string& BeforeRecords() const { return before_records_; }  // a table's header
  // The rows of the journal's record; valid until the next call.
  const std::string& Read(size_t record);

 private:
  void Unpack(const std::string& scratch);
  const std::string& ReadAt(std::int64_t begin, std::int64_t bytes);

  std::string output_;
  int fd_ = -1;
  std::vector<std::int64_t> begins_;  // of records, and where the last ends
  std::string before_records_, rows_;
};

StoredRecords::StoredRecords(const std::string& output, Packing packing,
                             const JournalContents& journal, const std::string& scratch)
    : output_(output) {
  std::int64_t begin = journal.raw_bytes();
  for (const JournalRecord& record : journal.records) begin -= record.bytes;
  if (begin < 0) Throw(ErrorKind::kFormat, "{}.journal: its counts do not fit", output);
  const std::int64_t before = begin;
  begins_.reserve(journal.records.size() + 1);
  for (const JournalRecord& record : journal.records) {
    begins_.push_back(begin);
    begin += record.bytes;
  }
  begins_.push_back(begin);
  if (packing == Packing::kNone) {
    fd_ = OpenFile(output, O_RDONLY);
    if (fd_ < 0) Throw(ErrorKind::kIo, "{}: cannot open: {}", output, std::strerror(errno));
  } else {
    Unpack(scratch);
  }
  before_records_ = ReadAt(0, before);
}

StoredRecords::~StoredRecords() {
  if (fd_ >= 0) ::close(fd_);
}

void StoredRecords::Unpack(const std::string& scratch) {
  ::unlink(scratch.c_str());
  fd_ = OpenFile(scratch, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd_ < 0) Throw(ErrorKind::kIo, "{}: cannot write: {}", scratch, std::strerror(errno));
  ::unlink(scratch.c_str());
  const std::unique_ptr<ByteSource> packed = OpenByteSource(output_);
  std::vector<char> buffer(1 << 16);
  for (std::int64_t left = begins_.back(); left > 0;) {
    const auto wanted = static_cast<size_t>(std::min<std::int64_t>(left, 1 << 16));
    const size_t got = packed->Read(std::span(buffer.data(), wanted));
    if (got == 0) break;  // ReadAt says what is missing
    WriteAll(fd_, {buffer.data(), got}, scratch);
    left -= static_cast<std::int64_t>(got);
  }
}

const std::string& StoredRecords::Read(size_t record) {
  return ReadAt(begins_[record], begins_[record + 1] - begins_[record]);
}

const std::string& StoredRecords::ReadAt(std::int64_t begin, std::int64_t bytes) {
  rows_.resize(static_cast<size_t>(bytes));
  for (size_t at = 0; at < rows_.size();) {
    const ssize_t got = ::pread(fd_, rows_.data() + at, rows_.size() - at,
                                static_cast<off_t>(begin) + static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      Throw(ErrorKind::kFormat, "{}: shorter than its journal says: it was changed", output_);
    }
    at += static_cast<size_t>(got);
  }
  return rows_;
}

}  // namespace

// The lock is on the output file itself. Another job may put a new file in its place between our
// opening and our locking: then the lock is on a file that is gone, and we look again.
LockedOutput::LockedOutput(std::string path, Packing packing)
    : path_(std::move(path)), packing_(packing) {
  while (true) {
    lock_ = OpenFile(path_, O_WRONLY | O_CREAT, 0644);
    if (lock_ < 0) {
      Throw(ErrorKind::kIo, "{}: cannot open the output: {}", path_, std::strerror(errno));
    }
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(lock_);
      Throw(ErrorKind::kUsage, "{}: another job is writing this output", path_);
    }
    if (StillThere()) break;
    ::close(lock_);
  }
  std::error_code none;
  const std::filesystem::path real = std::filesystem::canonical(path_, none);
  real_path_ = none ? path_ : real.string();
}

LockedOutput::~LockedOutput() {
  if (lock_ >= 0) ::close(lock_);
}

mode_t LockedOutput::journal_mode() const {
  struct stat status {};
  return ::fstat(lock_, &status) == 0 ? status.st_mode & 0666 : 0600;
}

bool LockedOutput::StillThere() const { return IdentityOf(path_) == IdentityOf(lock_); }

// The journal decides which of the two files counts: once it names the replacement, the old output
// is history.
LockedOutput::Replaced LockedOutput::ReplaceBy(const JournalContents& journal,
                                               const std::vector<size_t>& records,
                                               JournalWriter& writer) {
  const std::string name = real_path_ + kReplacement;
  ForgetReplacement();
  const std::unique_ptr<OutputFile> replacement = OutputFile::Create(name, packing_);
  StoredRecords stored(path_, packing_, journal, real_path_ + kUnpacked);
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
  writer.Rewrite(pointing);
  PutReplacementInPlace();
  return {std::move(kept), std::make_unique<OutputFile>(path_, packing_, replacement->content())};
}

// The new file gets the permissions, the owner and the lock before it gets the name.
void LockedOutput::PutReplacementInPlace() {
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
    CannotReplace(path_);
  }
  ::close(lock_);
  lock_ = fd;
}

JournalContents LockedOutput::FinishReplacing(JournalWriter& writer) {
  JournalContents journal = ReadJournal(path_ + ".journal");
  if (journal.usable() && journal.header.contains("replacement")) {
    PutReplacementInPlace();
    journal.header.erase("replacement");
    writer.Rewrite(journal);
  }
  ForgetReplacement();
  return journal;
}

void LockedOutput::ForgetReplacement() const { ::unlink((real_path_ + kReplacement).c_str()); }

}  // namespace banyan
