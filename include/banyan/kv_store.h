// Keys and values of prompts kept on disk, so that a document that was computed once is read the
// next time. An engine with a store (EngineOptions::kv_store) loads what its prompts begin with
// instead of computing it; answers are the same bit for bit, unless the store keeps 8 bits. What is
// damaged or was made otherwise is not found, and computed. docs/kv-store.md has promises and
// files.
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
  // Bytes of all segments together, to be kept from now on; -1: as it is. A new store gets half of
  // what is free on its disk.
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

// What looking after a store found and did.
struct KvStoreCheck {
  std::int64_t segments = 0, bytes = 0;  // that are whole
  std::vector<std::string> damaged;      // file and reason
  std::int64_t removed = 0, adopted = 0, freed_bytes = 0;
};

class KvStore {
 public:
  // A store that is opened for writing is made if need be, and put in order: what a process that
  // was killed left half-written is removed, what it had not entered yet is entered, an index that
  // is no index is made anew from the files. Throws kNotFound when there is nothing to read, kIo,
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
  // Removes what nobody can use, and the least recently used until the limit holds.
  KvStoreCheck Collect();
  // Keys and values of every layer as safetensors, [tokens, kv_heads, head_dim].
  void Export(const std::string& id, const std::string& path) const;

  // Waits until everything that engines saved is on the disk. Throws what went wrong, once.
  void Finish();

  struct Parts;  // for the engine
  Parts& parts() const { return *parts_; }

 private:
  explicit KvStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Seconds for all segments of a model: read as plain files from their beginning to their end, and
// read, checked and put into KV memory; after the system was asked to forget them, and right after
// that.
struct StoreReadTimes {
  std::int64_t bytes = 0;
  double plain_cold = 0.0, load_cold = 0.0, plain_warm = 0.0, load_warm = 0.0;
};
// Throws kNotFound when the store has nothing of the model.
StoreReadTimes MeasureStoreRead(const Model& model, KvStore& store);

}  // namespace banyan
