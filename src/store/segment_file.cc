#include "store/segment_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"

namespace banyan {
namespace {

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void MakePrivateFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  const int reason = errno;
  struct stat status {};
  if (reason == EEXIST && ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
  Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", folder,
        reason == EEXIST ? "a link or a file stands there" : std::strerror(reason));
}

void WriteSegmentFile(const std::string& path, SegmentHeader& header,
                      std::span<const std::byte> bytes) {
  PlaceBlocks(header);
  const std::vector<Digest> names = BlockNames(header.place, header.tokens);
  std::span<const std::byte> rest = bytes;
  for (size_t i = 0; i < header.blocks.size(); ++i) {
    StoredBlock& block = header.blocks[i];
    block.name = names[i];
    block.checksum = BlockChecksum(names[i], rest.first(static_cast<size_t>(block.bytes)));
    rest = rest.subspan(static_cast<size_t>(block.bytes));
  }
  BANYAN_CHECK(rest.empty());
  // Documents can be reconstructed from the contents: only the owner may read them.
  AtomicFile file(path, path + ".new", 0600);
  const std::string head = WriteHeader(header);
  file.Write(head);
  auto at = static_cast<std::int64_t>(head.size());
  for (const StoredBlock& block : header.blocks) {
    file.Write(std::string(static_cast<size_t>(block.offset - at), '\0'));
    file.Write(AsText(bytes.first(static_cast<size_t>(block.bytes))));
    bytes = bytes.subspan(static_cast<size_t>(block.bytes));
    at = block.offset + block.bytes;
  }
  file.Commit();
}

std::int64_t ReadAt(int fd, std::int64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(fd, out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

std::optional<SegmentFile> SegmentFile::Open(const std::string& path) {
  // A pipe that somebody put there would be waited for.
  const int fd = OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  SegmentFile file(fd, path);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return file;
}

SegmentFile::~SegmentFile() {
  if (fd_ >= 0) ::close(fd_);
}
SegmentFile::SegmentFile(SegmentFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
SegmentFile& SegmentFile::operator=(SegmentFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

SegmentHeader SegmentFile::Header() const {
  std::vector<std::byte> bytes(kFixedHeaderBytes);
  const auto read = [&] {
    const std::int64_t count = ReadAt(fd_, 0, bytes);
    if (count < 0) Throw(ErrorKind::kIo, "{}: cannot read: {}", path_, std::strerror(errno));
    bytes.resize(static_cast<size_t>(count));
  };
  read();
  bytes.resize(HeaderLength(bytes, path_));
  read();
  return ReadHeader(bytes, path_);
}

bool SegmentFile::Read(const StoredBlock& block, std::span<std::byte> out) const {
  BANYAN_CHECK(static_cast<std::int64_t>(out.size()) == block.bytes);
  if (ReadAt(fd_, block.offset, out) != block.bytes) return false;
  return BlockChecksum(block.name, out) == block.checksum;
}

void SegmentFile::Expect(std::int64_t offset, std::int64_t bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace banyan
