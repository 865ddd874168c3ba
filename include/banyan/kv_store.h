// Stores keys and values of prompts on disk, so that a document is computed once and loaded the
// next time. An engine with a store (EngineOptions::kv_store) loads prefixes of its prompts instead
// of computing them. Answers are the same bit for bit, unless the store uses 8 bits. Damaged data,
// and data computed under other conditions, is not found and is recomputed. docs/kv-store.md has
// guarantees and the file format.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace banyan {

class Model;

struct KvStoreOptions {
  enum class Access {
    kRead,
    kWrite,        // throws when another process writes
    kWriteIfFree,  // reads only, when another process writes
  };
  std::string directory;
  Access access = Access::kRead;
  // 0: the engine's own bits. 8: 8-bit codes with a scale for each token and head, about half of 16
  // bits; answers over them are approximate. Each finds only its own kind.
  int bits = 0;
  // New limit of the bytes of all segments; -1: unchanged. A new store gets half of the free space
  // of its disk.
  std::int64_t limit = -1;
};

// A run of tokens whose keys and values lie in one file.
struct StoredSegment {
  std::string id;     // hexadecimal digits; commands take any beginning that is unique
  std::string label;  // where it comes from: a document's id, "instruction"
  std::string model;  // the model's weights, as a hash
  std::string type;   // "f16", "q8"
  bool exact = true;
  double key_loss = 0.0, value_loss = 0.0;  // of one that is not: root mean square, relative
  std::int64_t tokens = 0, first_position = 0, bytes = 0;
  std::int64_t created = 0, used = 0;  // seconds since 1970
  bool pinned = false;                 // never evicted
};

struct KvStoreTotals {
  std::int64_t segments = 0, tokens = 0, bytes = 0, limit = 0;
};

// The result of checking or cleaning a store.
struct KvStoreCheck {
  std::int64_t segments = 0, bytes = 0;  // that are whole
  std::vector<std::string> damaged;      // file and reason
  std::int64_t removed = 0, adopted = 0, freed_bytes = 0;
};

// Threads: engines may load and save, and any thread may ask what there is (totals, List, Describe,
// Export) and call Finish, all at the same time. Verify, Remove, Pin and Collect are for one thread
// at a time, while no engine saves. A thread of the store's own writes the files.
//
// Processes: any number may read a store, one at a time may write it.
//
// Lifetime: held by std::shared_ptr. Engines keep their store alive. The destructor writes what was
// saved, as Finish does, without its errors.
class KvStore {
 public:
  // Opening for writing creates the store if necessary and repairs it: files that a killed process
  // left half-written are removed, complete files are added to the index, and a missing or damaged
  // index is rebuilt from the files. Throws kNotFound when there is no store to read, kIo,
  // kUnsupported in a build without SQLite.
  static std::shared_ptr<KvStore> Open(const KvStoreOptions& options);
  ~KvStore();

  bool writable() const;
  int bits() const;  // as it was opened: 0 or 8
  KvStoreTotals totals() const;
  std::vector<StoredSegment> List() const;  // least recently used first
  // Everything about one segment, as JSON. Throws kNotFound, kInput when the id is not unique.
  std::string Describe(const std::string& id) const;
  // Reads everything; hears bytes done of all. `remove`: damaged segments go.
  KvStoreCheck Verify(bool remove, const std::function<void(std::int64_t, std::int64_t)>& progress);
  void Remove(const std::string& id);
  void Pin(const std::string& id, bool pinned);
  // Removes unusable segments, then the least recently used ones until the limit holds.
  KvStoreCheck Collect();
  // Keys and values of every layer as safetensors, [tokens, kv_heads, head_dim].
  void Export(const std::string& id, const std::string& path) const;

  // Waits until all saved data is on disk. Throws the first error of saving, once.
  void Finish();

  struct Parts;  // for the engine
  Parts& parts() const { return *parts_; }

 private:
  explicit KvStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace banyan
