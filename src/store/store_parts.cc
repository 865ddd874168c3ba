// KvStore::Parts: looking blocks up, the thread that writes, the folder and its index.
#include "store/store_parts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "program/message_text.h"
#include "store/segment_file.h"

namespace banyan {
namespace {

// Of all runs that wait to be written; beyond it Save blocks.
constexpr std::int64_t kMostWaitingBytes = std::int64_t{512} << 20;

// The path that a segment's file must have, given any path with its name.
std::string FileOfSegmentNamed(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  return fmt::format("segments/{}/{}", name.substr(0, 2), name);
}

namespace fs = std::filesystem;

// Of its blocks, then of its state.
std::vector<Digest> NamesIn(const SavedRun& run) {
  std::vector<Digest> names = BlockNames(run.header.place, run.header.tokens);
  if (!run.state.empty()) names.push_back(StateName(names.back()));
  return names;
}

std::vector<fs::path> FilesUnder(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code none;
    if (fs::is_regular_file(it->symlink_status(none))) files.push_back(it->path());
  }
  return files;
}

}  // namespace

std::int64_t NowMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string FileOfSegment(const Digest& name, KvType type) {
  constexpr const char* kEndings[] = {"f32", "f16", "bf16", "q8"};
  const std::string hex = ToHex(name);
  return fmt::format("segments/{}/{}.{}.kv", hex.substr(0, 2), hex,
                     kEndings[static_cast<int>(type)]);
}

// Runs with a state may begin like others, and end elsewhere.
std::string FileOfSegment(const SegmentHeader& header) {
  return FileOfSegment(header.state ? header.state->name : header.blocks.front().name, header.type);
}

std::string IdOfFile(const std::string& file) {
  constexpr size_t kShown = 16;
  return std::filesystem::path(file).filename().string().substr(0, kShown);
}

KvStore::Parts::Parts(const KvStoreOptions& wanted)
    : options(wanted), folder(wanted.directory), opened(NowMilliseconds()) {
  if (options.bits != 0 && options.bits != 8) {
    Throw(ErrorKind::kUsage, "--kv-bits: expected 8, found {}", options.bits);
  }
  try {
    LockForWriting();
    OpenIndex();
    if (writing) thread_ = std::thread([this] { WriteRuns(); });
  } catch (...) {
    if (lock_fd >= 0) ::close(lock_fd);
    throw;
  }
}

KvStore::Parts::~Parts() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (!used_.empty() && reading) {
    try {  // the times of use only order evictions: losing them in a read-only store is harmless
      reading->Touch({used_.begin(), used_.end()}, NowMilliseconds());
    } catch (const Error&) {
    }
  }
  writing.reset();
  reading.reset();
  if (lock_fd >= 0) ::close(lock_fd);
}

std::optional<BlockPlace> KvStore::Parts::Find(const Digest& name, KvType type) {
  try {
    std::optional<BlockPlace> place = reading->Find(name, type);
    if (!place || place->file != FileOfSegmentNamed(place->file)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return damaged_.contains(place->segment) ? std::nullopt : place;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void KvStore::Parts::NoteUse(std::int64_t segment) {
  const std::lock_guard lock(mutex_);
  used_.insert(segment);
}

void KvStore::Parts::NoteDamage(std::int64_t segment) {
  {
    const std::lock_guard lock(mutex_);
    if (!damaged_.insert(segment).second || !writing) return;
  }
  try {  // so that the recomputed segment can be saved again
    for (const IndexedSegment& listed : writing->List()) {
      if (listed.number == segment) Discard(listed);
    }
  } catch (const Error&) {
  }
}

std::int64_t KvStore::Parts::damaged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(damaged_.size());
}

bool KvStore::Parts::Has(const Digest& name, KvType type) {
  {
    const std::lock_guard lock(mutex_);
    if (on_their_way_.contains({name, type})) return true;
  }
  return Find(name, type).has_value();
}

void KvStore::Parts::Save(SavedRun run) {
  if (!saving()) return;
  const KvType type = StoredType(run.header.type);
  const auto bytes = static_cast<std::int64_t>(run.bytes.size() + run.state.size());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return failed || waiting_bytes_ == 0 || waiting_bytes_ + bytes <= kMostWaitingBytes;
  });
  if (failed) return;
  for (const Digest& name : NamesIn(run)) on_their_way_.emplace(name, type);
  waiting_bytes_ += bytes;
  runs_.push_back(std::move(run));
  changed_.notify_all();
}

KvStore::Parts::SavedTotals KvStore::Parts::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

void KvStore::Parts::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (runs_.empty() && !writes_) || failed || !writing; });
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void KvStore::Parts::WriteRuns() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !runs_.empty(); });
    if (runs_.empty()) return;
    SavedRun run = std::move(runs_.front());
    runs_.pop_front();
    writes_ = true;
    const auto bytes = static_cast<std::int64_t>(run.bytes.size() + run.state.size());
    lock.unlock();
    std::exception_ptr problem;
    try {
      WriteOne(run);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    writes_ = false;
    waiting_bytes_ -= bytes;
    if (problem) {  // what waits would fare no better
      problem_ = problem;
      failed = true;
      runs_.clear();
      waiting_bytes_ = 0;
      on_their_way_.clear();
    }
    changed_.notify_all();
  }
}

void KvStore::Parts::WriteOne(SavedRun& run) {
  SegmentHeader& header = run.header;
  RoundingLoss loss;
  const KvType own = header.type, stored = StoredType(own);
  if (stored != own) {
    const PageForm from = FormOf(header.shape, own), to = FormOf(header.shape, stored);
    std::vector<std::byte> rounded(run.bytes.size() / static_cast<size_t>(from.head_bytes) *
                                   static_cast<size_t>(to.head_bytes));
    loss = ConvertPages(from, run.bytes, to, rounded);
    run.bytes = std::move(rounded);
    header.type = stored;
    header.exact = false;
    header.key_loss = static_cast<float>(loss.OfKeys());
    header.value_loss = static_cast<float>(loss.OfValues());
  }
  const std::vector<Digest> names = NamesIn(run);
  const std::string file = FileOfSegment(run.state.empty() ? names.front() : names.back(), stored);
  MakeRoom(static_cast<std::int64_t>(run.bytes.size() + run.state.size()));
  const std::filesystem::path path = PathOf(file);
  MakePrivateFolder(path.parent_path().string());
  WriteSegmentFile(path.string(), header, run.bytes, run.state);
  writing->Insert(header, file, NowMilliseconds());
  const std::lock_guard lock(mutex_);
  for (const Digest& name : names) on_their_way_.erase({name, stored});
  ++saved_.segments;
  saved_.tokens += static_cast<std::int64_t>(header.tokens.size());
  saved_.bytes += header.file_bytes();
  saved_.loss += loss;
}

// The folder of a store: its lock, its index and its files put in order, room for more.

// Several may read while one writes.
void KvStore::Parts::LockForWriting() {
  std::error_code error;
  if (options.access == KvStoreOptions::Access::kRead) {
    if (!fs::exists(fs::path(folder) / "index.sqlite", error)) {
      Throw(ErrorKind::kNotFound, "{}: no KV store there ('banyan kv add' makes one)", folder);
    }
    return;
  }
  const std::string path = folder + "/lock";
  try {
    // Links on the way to the folder are the user's own; the folder's insides are not.
    fs::create_directories(fs::path(folder).parent_path(), error);
    if (!fs::is_directory(folder, error)) MakePrivateFolder(folder);
    MakePrivateFolder(folder + "/segments");
    lock_fd = OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (lock_fd < 0) Throw(ErrorKind::kIo, "{}: cannot open: {}", path, std::strerror(errno));
  } catch (const Error&) {  // a read-only store can still be read
    const bool readable = fs::exists(fs::path(folder) / "index.sqlite", error);
    if (options.access == KvStoreOptions::Access::kWrite || !readable) throw;
    return;
  }
  if (::flock(lock_fd, LOCK_EX | LOCK_NB) == 0) return;
  ::close(std::exchange(lock_fd, -1));
  if (options.access == KvStoreOptions::Access::kWrite) {
    Throw(ErrorKind::kIo, "{}: another process writes to this store", folder);
  }
}

void KvStore::Parts::OpenIndex() {
  const std::string path = folder + "/index.sqlite";
  if (lock_fd < 0) {
    reading = std::make_unique<StoreIndex>(path, StoreIndex::Mode::kRead);
    return;
  }
  const auto prepare = [&] {
    writing = std::make_unique<StoreIndex>(path, StoreIndex::Mode::kWrite);
    if (writing->limit() <= 0) {
      std::error_code none;
      const fs::space_info space = fs::space(folder, none);
      const std::int64_t free = none ? 0 : static_cast<std::int64_t>(space.available);
      writing->SetLimit(std::max<std::int64_t>(free / 2, std::int64_t{1} << 20));
    }
    if (options.limit > 0) writing->SetLimit(options.limit);
    KvStoreCheck check;
    PutInOrder(check, /*remove_unreadable=*/false);
    reading = std::make_unique<StoreIndex>(path, StoreIndex::Mode::kRead);
  };
  try {
    prepare();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFormat) throw;
    reading.reset();
    writing.reset();  // no index: everything in it is in the files too
    std::error_code none;
    for (const char* ending : {"", "-wal", "-shm"}) fs::remove(path + ending, none);
    prepare();
  }
}

// Removes half-written files and entries without a file, and adds complete files that the index
// does not know. REQUIRES: the lock for writing.
void KvStore::Parts::PutInOrder(KvStoreCheck& check, bool remove_unreadable) {
  std::map<std::string, IndexedSegment> known;
  for (IndexedSegment& segment : writing->List()) known[segment.file] = std::move(segment);
  for (const fs::path& path : FilesUnder(fs::path(folder) / "segments")) {
    std::error_code none;
    const auto bytes = static_cast<std::int64_t>(fs::file_size(path, none));
    const std::string file = fs::relative(path, folder, none).generic_string();
    if (path.extension() == ".new") {
      fs::remove(path, none);
      ++check.removed;
      check.freed_bytes += bytes;
      continue;
    }
    if (path.extension() != ".kv" || known.erase(file) > 0) continue;
    try {
      const std::optional<SegmentFile> segment = SegmentFile::Open(path.string());
      if (!segment) Throw(ErrorKind::kIo, "{}: cannot open", path.string());
      const SegmentHeader header = segment->Header();
      const bool whole = header.file_bytes() <= bytes && FileOfSegment(header) == file;
      if (!whole) Throw(ErrorKind::kFormat, "{}: the file is not whole", path.string());
      writing->Insert(header, file, NowMilliseconds());
      ++check.adopted;
    } catch (const Error& error) {
      if (!remove_unreadable) continue;
      fs::remove(path, none);
      check.damaged.emplace_back(error.what());
      ++check.removed;
      check.freed_bytes += bytes;
    }
  }
  for (const auto& [file, segment] : known) {
    writing->Remove(segment.number);
    ++check.removed;
  }
}

// The entry first. A reader that still has it and finds no file computes the block.
void KvStore::Parts::Discard(const IndexedSegment& segment) {
  writing->Remove(segment.number);
  std::error_code none;
  fs::remove(PathOf(segment.file), none);
}

// Evicts the least recently used segments, but none that was saved since the store was opened: a
// job does not throw away what it has just computed.
void KvStore::Parts::MakeRoom(std::int64_t bytes) {
  const std::int64_t limit = writing->limit();
  std::int64_t total = writing->TotalBytes();
  if (total + bytes <= limit) return;
  for (const IndexedSegment& segment : writing->Evictable(opened)) {
    Discard(segment);
    total -= segment.bytes;
    if (total + bytes <= limit) return;
  }
  if (bytes > limit) {
    Throw(ErrorKind::kLimit,
          "{}: the store is full: a segment of {} is more than all that it may hold, {} (see "
          "--limit)",
          folder, SizeText(bytes), SizeText(limit));
  }
  Throw(
      ErrorKind::kLimit,
      "{}: the store is full: it holds {} of at most {}, a segment of {} is to be added, and what "
      "is there is pinned or was added just now (see --limit)",
      folder, SizeText(total), SizeText(limit), SizeText(bytes));
}

IndexedSegment KvStore::Parts::Only(const std::string& id) const {
  std::optional<IndexedSegment> found;
  for (IndexedSegment& segment : reading->List()) {
    if (id.empty() || !fs::path(segment.file).filename().string().starts_with(id)) continue;
    if (found) Throw(ErrorKind::kInput, "{}: several segments begin with '{}'", folder, id);
    found = std::move(segment);
  }
  if (!found) Throw(ErrorKind::kNotFound, "{}: no segment begins with '{}'", folder, id);
  return *found;
}

}  // namespace banyan
