// The journal's bytes: entries, their checks, and what of a damaged file still counts.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "tasks/output/journal.h"

namespace banyan {

Key128 KeyOf(std::initializer_list<std::string_view> parts) {
  Sha256 hash;
  for (const std::string_view part : parts) {
    hash.Add(static_cast<std::uint64_t>(part.size())).Add(part);
  }
  const Digest digest = hash.Finish();
  Key128 key;
  std::memcpy(key.data(), digest.data(), sizeof(key));
  if (key == Key128{0, 0}) key[0] = 1;  // {0, 0} marks a free slot
  return key;
}

void AddTo(Key128& sum, const Key128& key) {
  sum[0] += key[0];
  sum[1] += key[1] + (sum[0] < key[0] ? 1 : 0);
}

size_t KeySet::Find(const Key128& key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = static_cast<size_t>(key[0]) & mask;
  while (slots_[slot] != kEmpty && slots_[slot] != key) slot = (slot + 1) & mask;
  return slot;
}

bool KeySet::Contains(const Key128& key) const {
  return !slots_.empty() && slots_[Find(key)] == key;
}

bool KeySet::Insert(const Key128& key) {
  if (static_cast<size_t>(size_) * 4 >= slots_.size() * 3) Grow();
  Key128& slot = slots_[Find(key)];
  if (slot == key) return false;
  slot = key;
  ++size_;
  return true;
}

void KeySet::Grow() {
  const std::vector<Key128> old = std::move(slots_);
  slots_.assign(old.empty() ? 64 : old.size() * 2, kEmpty);
  for (const Key128& key : old) {
    if (key != kEmpty) slots_[Find(key)] = key;
  }
}

namespace {

constexpr std::string_view kMagic = "BANYANJ2";
constexpr size_t kMaxHeaderBytes = 64u << 20;

enum EntryType : std::uint8_t { kRecord = 1, kCommit = 2 };

struct Entry {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;  // commit: 1 = complete
  std::uint16_t unused = 0;
  std::uint32_t check = 0;  // of all other bytes and of the entries before
  std::uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0;
};
static_assert(sizeof(Entry) == 64);

std::uint32_t CheckOf(std::string_view bytes) {
  return static_cast<std::uint32_t>(Prefix64(Sha256().Add(bytes).Finish()));
}

// The next link after `chain`; its first half is the entry's check.
std::uint64_t Link(std::uint64_t chain, Entry entry) {
  entry.check = 0;
  return Prefix64(Sha256().Add(chain).Add(std::as_bytes(std::span(&entry, 1))).Finish());
}

std::uint64_t FirstLink(std::string_view header_text) {
  return Prefix64(Sha256().Add(kMagic).Add(header_text).Finish());
}

std::string BytesOf(Entry entry, std::uint64_t& chain) {
  chain = Link(chain, entry);
  entry.check = static_cast<std::uint32_t>(chain);
  return {reinterpret_cast<const char*>(&entry), sizeof(entry)};
}

Entry EntryOf(const JournalRecord& record) {
  Entry entry;
  entry.type = kRecord;
  entry.a = record.key[0];
  entry.b = record.key[1];
  entry.c = static_cast<std::uint64_t>(record.bytes);
  entry.d = static_cast<std::uint64_t>(static_cast<std::uint32_t>(record.rows)) << 32 |
            static_cast<std::uint32_t>(record.error_rows);
  entry.e = record.hash[0];
  entry.f = record.hash[1];
  entry.g = record.content;
  return entry;
}

Entry EntryOf(const JournalCommit& commit) {
  Entry entry;
  entry.type = kCommit;
  entry.flags = commit.complete ? 1 : 0;
  entry.a = static_cast<std::uint64_t>(commit.length);
  entry.b = static_cast<std::uint64_t>(commit.raw_bytes);
  entry.c = commit.content[0];
  entry.d = commit.content[1];
  entry.e = commit.input[0];
  entry.f = commit.input[1];
  return entry;
}

JournalRecord RecordOf(const Entry& entry) {
  JournalRecord record;
  record.key = {entry.a, entry.b};
  record.bytes = static_cast<std::int64_t>(entry.c);
  record.rows = static_cast<std::int32_t>(entry.d >> 32);
  record.error_rows = static_cast<std::int32_t>(entry.d & 0xffffffffu);
  record.hash = {entry.e, entry.f};
  record.content = entry.g;
  return record;
}

std::string TextOf(const Json& header) {
  return header.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string HeaderBytes(const std::string& text) {
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
  explicit Reading(const std::string& path) : fd_(OpenFile(path, O_RDONLY)) {}
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

}  // namespace

std::uint64_t RowsContent(std::string_view rows) { return ContentHash().Add(rows).Value()[0]; }

JournalContents ReadJournal(const std::string& path) {
  JournalContents contents;
  Reading file(path);
  if (!file.open()) {
    if (errno == ENOENT) return contents;
    Throw(ErrorKind::kIo, "{}: cannot open the journal: {}", path, std::strerror(errno));
  }
  contents.exists = true;
  char magic[8];
  std::uint32_t length = 0, check = 0;
  std::string text;
  if (!file.Get(magic, sizeof(magic)) || std::string_view(magic, 8) != kMagic ||
      !file.Get(&length, sizeof(length)) || length > kMaxHeaderBytes) {
    contents.problem = "it is no journal of this version";
    return contents;
  }
  text.resize(length);
  if (!file.Get(text.data(), length) || !file.Get(&check, sizeof(check)) ||
      check != CheckOf(text)) {
    contents.problem = "its beginning is damaged";
    return contents;
  }
  contents.header = ParseJson(text, path);

  std::vector<JournalRecord> uncommitted;
  Entry entry;
  std::uint64_t chain = FirstLink(text);
  while (file.Get(&entry, sizeof(entry))) {
    chain = Link(chain, entry);
    if (entry.check != static_cast<std::uint32_t>(chain)) {
      // A torn end has nothing whole after it.
      contents.damaged = file.Get(&entry, sizeof(entry));
      break;
    }
    if (entry.type == kRecord) {
      uncommitted.push_back(RecordOf(entry));
      continue;
    }
    contents.records.insert(contents.records.end(), uncommitted.begin(), uncommitted.end());
    uncommitted.clear();
    contents.commits.push_back({static_cast<std::int64_t>(entry.a),
                                static_cast<std::int64_t>(entry.b),
                                entry.flags == 1,
                                {entry.c, entry.d},
                                contents.records.size(),
                                {entry.e, entry.f}});
  }
  return contents;
}

JournalWriter::~JournalWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void JournalWriter::Rewrite(const JournalContents& contents) {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  AtomicFile file(path_, path_ + ".new", 0600);
  file.SetMode(mode_);
  const std::string header = TextOf(contents.header);
  std::string bytes = HeaderBytes(header);
  chain_ = FirstLink(header);
  pending_.clear();
  size_t next = 0;
  for (const JournalCommit& commit : contents.commits) {
    for (; next < commit.records; ++next) bytes += BytesOf(EntryOf(contents.records[next]), chain_);
    bytes += BytesOf(EntryOf(commit), chain_);
    if (bytes.size() > (1u << 20)) {
      file.Write(bytes);
      bytes.clear();
    }
  }
  file.Write(bytes);
  file.Commit();
  fd_ = file.ReleaseDescriptor();
}

void JournalWriter::Add(const JournalRecord& record) {
  pending_ += BytesOf(EntryOf(record), chain_);
}

void JournalWriter::Commit(const JournalCommit& commit) {
  pending_ += BytesOf(EntryOf(commit), chain_);
  WriteAll(fd_, pending_, path_);
  pending_.clear();
  if (::fdatasync(fd_) != 0) CannotWrite(path_);
}

bool JournalWriter::StillThere() const { return fd_ >= 0 && IdentityOf(path_) == IdentityOf(fd_); }

}  // namespace banyan
