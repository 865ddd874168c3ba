// The inside of banyan::KvStore: a folder with an index and segments, a lock for the process that
// writes, and a thread that does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "banyan/kv_store.h"
#include "store/segment_file.h"
#include "store/store_index.h"

namespace banyan {

// A run of whole cuts to be kept: all of the header but its blocks, and the pages' bytes, block by
// block, in the form of the header's shape and type.
// Where the model keeps states, a run may have the one after it.
struct SavedRun {
  SegmentHeader header;
  std::vector<std::byte> bytes;
  std::vector<std::byte> state;  // after the run; empty: none
};

struct KvStore::Parts {
  explicit Parts(const KvStoreOptions& options);
  ~Parts();

  // In which type blocks of an engine that keeps `own` are kept here.
  KvType StoredType(KvType own) const { return options.bits == 8 ? KvType::kQ8 : own; }

  // Where a block is; nothing when it is not there, or the index cannot be read.
  std::optional<BlockPlace> Find(const Digest& name, KvType type);
  std::string PathOf(const std::string& file) const { return folder + "/" + file; }
  // A block of the segment was used now.
  void NoteUse(std::int64_t segment);
  // The segment's bytes do not fit their checksum: Find does not find its blocks any more.
  void NoteDamage(std::int64_t segment);
  std::int64_t damaged() const;

  // Whether the block is in the store or waits to be written.
  bool Has(const Digest& name, KvType type);
  // Hands a run to the thread that writes; blocks while too much waits there already. Does nothing
  // when the store cannot be written to, or could not before.
  void Save(SavedRun run);
  bool saving() const { return writing != nullptr && !failed; }
  // What was saved so far, and what rounding lost of it.
  struct SavedTotals {
    std::int64_t segments = 0, tokens = 0, bytes = 0;
    RoundingLoss loss;
  };
  SavedTotals saved() const;
  void Finish();

  // --- The folder and its index
  void LockForWriting();
  void OpenIndex();
  void PutInOrder(KvStoreCheck& check, bool remove_unreadable);
  void Discard(const IndexedSegment& segment);
  void MakeRoom(std::int64_t bytes);
  IndexedSegment Only(const std::string& id) const;

  KvStoreOptions options;
  std::string folder;
  int lock_fd = -1;
  std::int64_t opened = 0;              // milliseconds since 1970
  std::unique_ptr<StoreIndex> reading;  // for lookups
  std::unique_ptr<StoreIndex> writing;  // null: read only
  std::atomic<bool> failed{false};

 private:
  void WriteRuns();
  void WriteOne(SavedRun& run);

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<SavedRun> runs_;
  std::int64_t waiting_bytes_ = 0;
  bool writes_ = false;  // a run is being written
  bool ending_ = false;
  std::set<std::pair<Digest, KvType>> on_their_way_;
  std::set<std::int64_t> used_, damaged_;
  SavedTotals saved_;
  std::exception_ptr problem_;
  std::thread thread_;
};

// The file of a segment, relative to the store, named after its first block or its state.
std::string FileOfSegment(const Digest& name, KvType type);
std::string FileOfSegment(const SegmentHeader& header);
// The id of the segment in `file`, as commands show it.
std::string IdOfFile(const std::string& file);
std::int64_t NowMilliseconds();

}  // namespace banyan
