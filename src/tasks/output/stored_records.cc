#include "tasks/output/stored_records.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/byte_source.h"
#include "base/error.h"
#include "base/file_identity.h"

namespace banyan {

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

}  // namespace banyan
