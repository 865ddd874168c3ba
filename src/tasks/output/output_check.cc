#include "tasks/output/output_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "program/fresh_file.h"

namespace banyan {
namespace {

// A file read from its beginning, in pieces that are hashed.
class HashedReading {
 public:
  explicit HashedReading(const std::string& path)
      : path_(path), fd_(OpenFile(path, O_RDONLY)), buffer_(1 << 20) {
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
      Throw(ErrorKind::kIo, "{}: cannot read the output: {}", path_, std::strerror(errno));
    }
    length_ = status.st_size;
  }
  ~HashedReading() { ::close(fd_); }
  HashedReading(const HashedReading&) = delete;
  HashedReading& operator=(const HashedReading&) = delete;

  std::int64_t length() const { return length_; }
  std::int64_t left() const { return length_ - at_; }

  // The next bytes into both hashes. False when the file ends before.
  bool Take(std::int64_t bytes, ContentHash& all, ContentHash& part) {
    while (bytes > 0) {
      const auto wanted =
          static_cast<size_t>(std::min(bytes, static_cast<std::int64_t>(buffer_.size())));
      const ssize_t got = ::read(fd_, buffer_.data(), wanted);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Throw(ErrorKind::kIo, "{}: cannot read: {}", path_, std::strerror(errno));
      if (got == 0) return false;
      const std::string_view text(buffer_.data(), static_cast<size_t>(got));
      all.Add(text);
      part.Add(text);
      at_ += got;
      bytes -= got;
    }
    return true;
  }

 private:
  const std::string& path_;
  int fd_;
  std::vector<char> buffer_;
  std::int64_t length_ = 0, at_ = 0;
};

void CheckRecords(HashedReading& file, const std::string& before, const JournalContents& journal,
                  OutputCheck& check) {
  // The next piece: false ends the comparison.
  const auto holds = [&](std::int64_t bytes, std::uint64_t content) {
    ContentHash all = check.kept, part;
    if (bytes < 0 || file.left() < bytes || !file.Take(bytes, all, part)) return false;
    check.changed = part.Value()[0] != content;
    if (check.changed) return false;
    check.kept = all;
    check.raw_bytes += bytes;
    return true;
  };
  // A table without its header has no records; rows of records may be none.
  if (journal.raw_bytes() == 0 && !before.empty()) return;
  if (!holds(static_cast<std::int64_t>(before.size()), RowsContent(before))) return;
  for (const JournalRecord& record : journal.records) {
    if (!holds(record.bytes, record.content)) return;
    ++check.records;
    check.rows += record.rows;
  }
}

void CheckCommits(HashedReading& file, const JournalContents& journal, OutputCheck& check) {
  ContentHash all = check.kept;
  for (const JournalCommit& commit : journal.commits) {
    const std::int64_t bytes = commit.length - static_cast<std::int64_t>(all.bytes());
    ContentHash part;
    if (bytes < 0 || file.left() < bytes || !file.Take(bytes, all, part)) return;
    check.changed = all.Value() != commit.content;
    if (check.changed) return;
    check.kept = all;
    check.raw_bytes = commit.raw_bytes;
    for (; check.records < commit.records; ++check.records) {
      check.rows += journal.records[check.records].rows;
    }
  }
}

}  // namespace

void RefuseUnknownOutput(const std::string& path, const JournalContents& journal) {
  Throw(ErrorKind::kUsage,
        "{}: is there already ({}), and its journal ({}.journal) cannot say what it holds: {}. To "
        "keep it, give another output (-o), or put the journal back; to replace it, add "
        "--overwrite",
        path, WhatIsThere(path), path, journal.exists ? journal.problem : "there is none");
}

OutputCheck CheckOutput(const std::string& path, Packing packing, const std::string& before_records,
                        const JournalContents& journal) {
  OutputCheck check;
  HashedReading file(path);
  check.length = file.length();
  if (packing == Packing::kNone) {
    CheckRecords(file, before_records, journal, check);
  } else {
    CheckCommits(file, journal, check);
  }
  return check;
}

}  // namespace banyan
