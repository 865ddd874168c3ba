#include "tasks/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/output_file.h"
#include "base/sha256.h"

namespace banyan {
namespace {

constexpr std::string_view kMagic = "BANYANJ1";
constexpr size_t kMaxHeaderBytes = 64u << 20;

enum EntryType : std::uint8_t { kRecord = 1, kCommit = 2 };

struct Entry {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;  // commit: 1 = complete
  std::uint16_t unused = 0;
  std::uint32_t check = 0;  // of all other bytes
  std::uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
};
static_assert(sizeof(Entry) == 56);

std::uint32_t CheckOf(std::string_view bytes) {
  return static_cast<std::uint32_t>(Prefix64(Sha256().Add(bytes).Finish()));
}

std::string BytesOf(Entry entry) {
  entry.check = 0;
  std::string bytes(reinterpret_cast<const char*>(&entry), sizeof(entry));
  const std::uint32_t check = CheckOf(bytes);
  std::memcpy(bytes.data() + offsetof(Entry, check), &check, sizeof(check));
  return bytes;
}

bool IsWhole(Entry entry) {
  const std::uint32_t check = std::exchange(entry.check, 0);
  return check == CheckOf({reinterpret_cast<const char*>(&entry), sizeof(entry)});
}

std::string BytesOf(const JournalRecord& record) {
  Entry entry;
  entry.type = kRecord;
  entry.a = record.key[0];
  entry.b = record.key[1];
  entry.c = static_cast<std::uint64_t>(record.bytes);
  entry.d = static_cast<std::uint64_t>(static_cast<std::uint32_t>(record.rows)) << 32 |
            static_cast<std::uint32_t>(record.error_rows);
  entry.e = record.hash[0];
  entry.f = record.hash[1];
  return BytesOf(entry);
}

std::string BytesOf(const JournalCommit& commit) {
  Entry entry;
  entry.type = kCommit;
  entry.flags = commit.complete ? 1 : 0;
  entry.a = static_cast<std::uint64_t>(commit.length);
  entry.b = static_cast<std::uint64_t>(commit.raw_bytes);
  return BytesOf(entry);
}

JournalRecord RecordOf(const Entry& entry) {
  JournalRecord record;
  record.key = {entry.a, entry.b};
  record.bytes = static_cast<std::int64_t>(entry.c);
  record.rows = static_cast<std::int32_t>(entry.d >> 32);
  record.error_rows = static_cast<std::int32_t>(entry.d & 0xffffffffu);
  record.hash = {entry.e, entry.f};
  return record;
}

std::string HeaderBytes(const Json& header) {
  const std::string text = header.dump();
  const auto length = static_cast<std::uint32_t>(text.size());
  const std::uint32_t check = CheckOf(text);
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(&check), sizeof(check));
  return bytes;
}

// A descriptor that closes itself, read in exact pieces.
class Reading {
 public:
  explicit Reading(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Reading() {
    if (fd_ >= 0) ::close(fd_);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  bool open() const { return fd_ >= 0; }

  // False when fewer bytes are left.
  bool Get(void* out, size_t count) {
    while (count > 0) {
      if (next_ == window_.size()) {
        window_.resize(1 << 16);
        const ssize_t got = ::read(fd_, window_.data(), window_.size());
        window_.resize(got > 0 ? static_cast<size_t>(got) : 0);
        next_ = 0;
        if (got <= 0) return false;
      }
      const size_t part = std::min(count, window_.size() - next_);
      std::memcpy(out, window_.data() + next_, part);
      next_ += part;
      count -= part;
      out = static_cast<char*>(out) + part;
    }
    return true;
  }

 private:
  int fd_;
  std::string window_;
  size_t next_ = 0;
};

[[noreturn]] void CannotWrite(const std::string& path) {
  Throw(ErrorKind::kIo, "{}: cannot write: {}", path, std::strerror(errno));
}

void SyncDirectory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

JournalContents ReadJournal(const std::string& path, std::int64_t output_length) {
  JournalContents contents;
  Reading file(path);
  if (!file.open()) {
    if (errno == ENOENT) return contents;
    Throw(ErrorKind::kIo, "{}: cannot open the journal: {}", path, std::strerror(errno));
  }
  char magic[8];
  std::uint32_t length = 0, check = 0;
  std::string text;
  if (!file.Get(magic, sizeof(magic)) || std::string_view(magic, 8) != kMagic ||
      !file.Get(&length, sizeof(length)) || length > kMaxHeaderBytes) {
    Throw(ErrorKind::kFormat, "{}: expected a Banyan journal, found something else", path);
  }
  text.resize(length);
  if (!file.Get(text.data(), length) || !file.Get(&check, sizeof(check)) ||
      check != CheckOf(text)) {
    Throw(ErrorKind::kFormat, "{}: the journal's header is damaged", path);
  }
  contents.exists = true;
  contents.header = ParseJson(text, path);

  std::vector<JournalRecord> uncommitted;
  Entry entry;
  while (file.Get(&entry, sizeof(entry)) && IsWhole(entry)) {
    if (entry.type == kRecord) {
      uncommitted.push_back(RecordOf(entry));
      continue;
    }
    const auto committed = static_cast<std::int64_t>(entry.a);
    if (committed > output_length) break;  // the output lost its end
    contents.records.insert(contents.records.end(), uncommitted.begin(), uncommitted.end());
    uncommitted.clear();
    contents.last = {committed, static_cast<std::int64_t>(entry.b), entry.flags == 1};
  }
  return contents;
}

JournalWriter::~JournalWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void JournalWriter::Rewrite(const Json& header, const std::vector<JournalRecord>& records,
                            const JournalCommit& commit) {
  const std::string name = path_ + ".new";
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) CannotWrite(name);
  std::string bytes = HeaderBytes(header);
  for (const JournalRecord& record : records) {
    bytes += BytesOf(record);
    if (bytes.size() > (1u << 20)) {
      WriteAll(fd_, bytes, name);
      bytes.clear();
    }
  }
  bytes += BytesOf(commit);
  WriteAll(fd_, bytes, name);
  if (::fdatasync(fd_) != 0 || ::rename(name.c_str(), path_.c_str()) != 0) CannotWrite(path_);
  SyncDirectory(path_);
}

void JournalWriter::Add(const JournalRecord& record) { pending_ += BytesOf(record); }

void JournalWriter::Commit(const JournalCommit& commit) {
  pending_ += BytesOf(commit);
  WriteAll(fd_, pending_, path_);
  pending_.clear();
  if (::fdatasync(fd_) != 0) CannotWrite(path_);
}

}  // namespace banyan
