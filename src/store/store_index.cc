#include "store/store_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files.h"

#ifdef BANYAN_WITH_SQLITE
#include <sqlite3.h>

namespace banyan {
namespace {

constexpr int kIndexVersion = 1;
constexpr int kBusyMilliseconds = 10'000;
constexpr int kMostValueBytes = 1 << 20;  // of a label, a name or a row

constexpr const char* kIndexSchema = R"(
  CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS segment (
    number INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT UNIQUE NOT NULL, label TEXT, model TEXT, root BLOB,
    type INTEGER, exact INTEGER, key_loss REAL, value_loss REAL, tokens INTEGER,
    first_position INTEGER, bytes INTEGER, created INTEGER, used INTEGER, pinned INTEGER);
  CREATE TABLE IF NOT EXISTS block (
    name BLOB, type INTEGER, segment INTEGER NOT NULL, tokens INTEGER, offset INTEGER,
    bytes INTEGER, checksum BLOB, PRIMARY KEY (name, type)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS block_of_segment ON block (segment);)";

[[noreturn]] void ThrowOf(sqlite3* database, const std::string& path) {
  const int code = sqlite3_errcode(database);
  // A bit that changed in the schema's text makes tables and columns that are not there.
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR ||
                       code == SQLITE_SCHEMA || code == SQLITE_MISMATCH ||
                       code == SQLITE_CONSTRAINT || code == SQLITE_FORMAT ||
                       code == SQLITE_TOOBIG || code == SQLITE_RANGE;
  Throw(damaged ? ErrorKind::kFormat : ErrorKind::kIo, "{}: {}", path, sqlite3_errmsg(database));
}

template <typename Bytes>
void CopyBlob(sqlite3_stmt* statement, int column, Bytes& bytes) {
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
  if (size == sizeof(bytes)) std::memcpy(&bytes, sqlite3_column_blob(statement, column), size);
}

}  // namespace

// A statement in use; bound by position, read by column.
class StoreIndex::Statement {
 public:
  Statement(StoreIndex& index, const char* sql) : index_(index), owned_(true) {
    if (sqlite3_prepare_v2(index.database_, sql, -1, &statement_, nullptr) != SQLITE_OK) {
      ThrowOf(index.database_, index.path_);
    }
  }
  Statement(StoreIndex& index, sqlite3_stmt* prepared) : index_(index), statement_(prepared) {}
  ~Statement() {
    if (owned_) {
      sqlite3_finalize(statement_);
    } else {
      sqlite3_reset(statement_);
    }
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(std::int64_t value) {
    return Check(sqlite3_bind_int64(statement_, ++at_, value));
  }
  Statement& BindReal(double value) { return Check(sqlite3_bind_double(statement_, ++at_, value)); }
  Statement& Bind(const std::string& text) {
    return Check(sqlite3_bind_text(statement_, ++at_, text.data(), static_cast<int>(text.size()),
                                   SQLITE_TRANSIENT));
  }
  template <typename Bytes>
  Statement& BindBlob(const Bytes& bytes) {
    return Check(sqlite3_bind_blob(statement_, ++at_, &bytes, sizeof(bytes), SQLITE_TRANSIENT));
  }
  // False: there are no more rows.
  bool Next() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) ThrowOf(index_.database_, index_.path_);
    return false;
  }
  std::int64_t Number(int column) { return sqlite3_column_int64(statement_, column); }
  double Real(int column) { return sqlite3_column_double(statement_, column); }
  std::string Text(int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? "" : text;
  }
  sqlite3_stmt* get() { return statement_; }

 private:
  Statement& Check(int code) {
    if (code != SQLITE_OK) ThrowOf(index_.database_, index_.path_);
    return *this;
  }
  StoreIndex& index_;
  sqlite3_stmt* statement_ = nullptr;
  bool owned_ = false;
  int at_ = 0;
};

namespace {

// What stands for the path in an URI.
std::string UriOf(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02X}", static_cast<int>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

// A plain file or nothing may stand there; a new file is readable by its owner alone.
void PrepareFile(const std::string& path, bool write) {
  struct stat status {};
  const bool there = ::lstat(path.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) {
    Throw(ErrorKind::kIo, "{}: expected a file, found a link or a folder", path);
  }
  if (there || !write) return;
  const int fd = OpenFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd >= 0) ::close(fd);
}

}  // namespace

StoreIndex::StoreIndex(const std::string& path, Mode mode) : path_(path) {
  PrepareFile(path, mode == Mode::kWrite);
  try {
    // Readers also want to write: their marks in the shared memory of the log.
    Open(path, mode, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX);
  } catch (const Error& error) {
    Close();
    if (mode == Mode::kWrite || error.kind() != ErrorKind::kIo) throw;
    // The folder is read-only, so the file does not change.
    try {
      Open(UriOf(path), mode, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI);
    } catch (...) {
      Close();
      throw;
    }
  }
}

void StoreIndex::Open(const std::string& name, Mode mode, int flags) {
  const bool write = mode == Mode::kWrite;
  if (sqlite3_open_v2(name.c_str(), &database_, flags, nullptr) != SQLITE_OK) {
    ThrowOf(database_, path_);
  }
  sqlite3_busy_timeout(database_, kBusyMilliseconds);
  // The file is untrusted: its schema must not run code.
  for (const int computes : {SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_ENABLE_TRIGGER,
                             SQLITE_DBCONFIG_TRUSTED_SCHEMA}) {
    sqlite3_db_config(database_, computes, 0, nullptr);
  }
  sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, kMostValueBytes);
  if (write) {
    // The log is synced when it is folded in; a commit that a power cut takes away is made again
    // from the segment's header.
    Run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
  }
  int version = 0;
  {
    Statement statement(*this, "PRAGMA user_version");
    if (statement.Next()) version = static_cast<int>(statement.Number(0));
  }
  if (write && version == 0) {
    Run(kIndexSchema);
    Run(fmt::format("PRAGMA user_version = {}", kIndexVersion).c_str());
    version = kIndexVersion;
  }
  if (version != kIndexVersion) {
    Throw(ErrorKind::kFormat, "{}: version {} of a store's index: expected {}", path_, version,
          kIndexVersion);
  }
  const char* sql =
      "SELECT segment, file, block.tokens, offset, block.bytes, checksum FROM block "
      "JOIN segment ON number = segment WHERE name = ? AND block.type = ?";
  if (sqlite3_prepare_v2(database_, sql, -1, &find_, nullptr) != SQLITE_OK) {
    ThrowOf(database_, path_);
  }
}

void StoreIndex::Close() {
  sqlite3_finalize(std::exchange(find_, nullptr));
  sqlite3_close(std::exchange(database_, nullptr));
}

StoreIndex::~StoreIndex() { Close(); }

void StoreIndex::Run(const char* sql) {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    ThrowOf(database_, path_);
  }
}

std::optional<BlockPlace> StoreIndex::Find(const Digest& name, KvType type) {
  const std::lock_guard lock(mutex_);
  Statement statement(*this, find_);
  statement.BindBlob(name).Bind(static_cast<std::int64_t>(type));
  if (!statement.Next()) return std::nullopt;
  BlockPlace place;
  place.segment = statement.Number(0);
  place.file = statement.Text(1);
  place.block.name = name;
  place.block.tokens = static_cast<std::int32_t>(statement.Number(2));
  place.block.offset = statement.Number(3);
  place.block.bytes = statement.Number(4);
  CopyBlob(statement.get(), 5, place.block.checksum);
  return place;
}

void StoreIndex::Insert(const SegmentHeader& header, const std::string& file, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  Run("BEGIN IMMEDIATE");
  try {
    {
      Statement(*this,
                "DELETE FROM block WHERE segment IN (SELECT number FROM segment WHERE file = ?)")
          .Bind(file)
          .Next();
      Statement(*this, "DELETE FROM segment WHERE file = ?").Bind(file).Next();
      Statement(*this,
                "INSERT INTO segment (file, label, model, root, type, exact, key_loss, value_loss, "
                "tokens, first_position, bytes, created, used, pinned) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)")
          .Bind(file)
          .Bind(header.label)
          .Bind(ToHex(header.root).substr(0, 12))
          .BindBlob(header.root)
          .Bind(static_cast<std::int64_t>(header.type))
          .Bind(header.exact ? 1 : 0)
          .BindReal(header.key_loss)
          .BindReal(header.value_loss)
          .Bind(static_cast<std::int64_t>(header.tokens.size()))
          .Bind(header.place.first_position)
          .Bind(header.file_bytes())
          .Bind(now)
          .Bind(now)
          .Next();
    }
    const std::int64_t number = sqlite3_last_insert_rowid(database_);
    std::vector<StoredBlock> blocks = header.blocks;
    if (header.state) blocks.push_back(*header.state);
    for (const StoredBlock& block : blocks) {
      Statement(*this, "INSERT OR REPLACE INTO block VALUES (?, ?, ?, ?, ?, ?, ?)")
          .BindBlob(block.name)
          .Bind(static_cast<std::int64_t>(header.type))
          .Bind(number)
          .Bind(block.tokens)
          .Bind(block.offset)
          .Bind(block.bytes)
          .BindBlob(block.checksum)
          .Next();
    }
    Run("COMMIT");
  } catch (...) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

void StoreIndex::Remove(std::int64_t segment) {
  const std::lock_guard lock(mutex_);
  Run("BEGIN IMMEDIATE");
  try {
    Statement(*this, "DELETE FROM block WHERE segment = ?").Bind(segment).Next();
    Statement(*this, "DELETE FROM segment WHERE number = ?").Bind(segment).Next();
    Run("COMMIT");
  } catch (...) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

void StoreIndex::Touch(const std::vector<std::int64_t>& segments, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  Run("BEGIN IMMEDIATE");
  try {
    for (const std::int64_t segment : segments) {
      Statement(*this, "UPDATE segment SET used = ? WHERE number = ?")
          .Bind(now)
          .Bind(segment)
          .Next();
    }
    Run("COMMIT");
  } catch (...) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

void StoreIndex::SetPinned(std::int64_t segment, bool pinned) {
  const std::lock_guard lock(mutex_);
  Statement(*this, "UPDATE segment SET pinned = ? WHERE number = ?")
      .Bind(pinned ? 1 : 0)
      .Bind(segment)
      .Next();
}

std::vector<IndexedSegment> StoreIndex::Select(const char* more, std::int64_t bound) {
  const std::lock_guard lock(mutex_);
  const std::string sql =
      std::string(
          "SELECT number, file, label, model, root, type, exact, key_loss, value_loss, "
          "tokens, first_position, bytes, created, used, pinned FROM segment ") +
      more;
  Statement statement(*this, sql.c_str());
  statement.Bind(bound);
  std::vector<IndexedSegment> found;
  while (statement.Next()) {
    IndexedSegment& segment = found.emplace_back();
    segment.number = statement.Number(0);
    segment.file = statement.Text(1);
    segment.label = statement.Text(2);
    segment.model = statement.Text(3);
    CopyBlob(statement.get(), 4, segment.root);
    segment.type = static_cast<KvType>(statement.Number(5) & 3);
    segment.exact = statement.Number(6) != 0;
    segment.key_loss = statement.Real(7);
    segment.value_loss = statement.Real(8);
    segment.tokens = statement.Number(9);
    segment.first_position = statement.Number(10);
    segment.bytes = statement.Number(11);
    segment.created = statement.Number(12);
    segment.used = statement.Number(13);
    segment.pinned = statement.Number(14) != 0;
  }
  return found;
}

std::vector<IndexedSegment> StoreIndex::List() {
  return Select("WHERE number >= ? ORDER BY used, first_position DESC, number", 0);
}

std::vector<IndexedSegment> StoreIndex::Evictable(std::int64_t created) {
  // What is used together was touched at one time: the end of a path goes before its beginning.
  return Select("WHERE pinned = 0 AND created <= ? ORDER BY used, first_position DESC, number",
                created);
}

std::int64_t StoreIndex::TotalBytes() {
  const std::lock_guard lock(mutex_);
  Statement statement(*this, "SELECT sum(bytes) FROM segment");
  return statement.Next() ? statement.Number(0) : 0;
}

std::int64_t StoreIndex::limit() {
  const std::lock_guard lock(mutex_);
  Statement statement(*this, "SELECT value FROM setting WHERE name = 'limit'");
  return statement.Next() ? statement.Number(0) : 0;
}

void StoreIndex::SetLimit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Statement(*this, "INSERT OR REPLACE INTO setting VALUES ('limit', ?)").Bind(bytes).Next();
}

}  // namespace banyan

#else  // without SQLite there is no index, and so no store

namespace banyan {

StoreIndex::StoreIndex(const std::string&, Mode) {
  Throw(ErrorKind::kUnsupported, "this build has no KV store: it was made without libsqlite3");
}
StoreIndex::~StoreIndex() = default;
std::optional<BlockPlace> StoreIndex::Find(const Digest&, KvType) { return std::nullopt; }
void StoreIndex::Insert(const SegmentHeader&, const std::string&, std::int64_t) {}
void StoreIndex::Remove(std::int64_t) {}
void StoreIndex::Touch(const std::vector<std::int64_t>&, std::int64_t) {}
void StoreIndex::SetPinned(std::int64_t, bool) {}
std::vector<IndexedSegment> StoreIndex::List() { return {}; }
std::vector<IndexedSegment> StoreIndex::Evictable(std::int64_t) { return {}; }
std::int64_t StoreIndex::TotalBytes() { return 0; }
std::int64_t StoreIndex::limit() { return 0; }
void StoreIndex::SetLimit(std::int64_t) {}

}  // namespace banyan

#endif
