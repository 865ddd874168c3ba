// The folder of a store: its lock, its index and its files put in order, room for more.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file_identity.h"
#include "program/plural.h"
#include "store/segment_file.h"
#include "store/store_parts.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

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
  } catch (const Error&) {  // a store that nobody may write to can still be read
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

// Half-written files go, whole ones that the index does not know are entered, entries without a
// file go. REQUIRES: nobody else writes.
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
      const bool whole = header.file_bytes() <= bytes &&
                         FileOfSegment(header.blocks.front().name, header.type) == file;
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

// The entry first: whoever finds it and no file computes the block anew.
void KvStore::Parts::Discard(const IndexedSegment& segment) {
  writing->Remove(segment.number);
  std::error_code none;
  fs::remove(PathOf(segment.file), none);
}

// Evicts what is used least, but nothing that was saved since the store was opened: a job does not
// throw away what it has just computed.
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
