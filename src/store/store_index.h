// The index of a KV store: which block lies where, in an SQLite file. Everything in it can be made
// anew from the segments' headers, but for pins and times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/segment_file.h"

struct sqlite3;
struct sqlite3_stmt;

namespace banyan {

struct BlockPlace {
  std::int64_t segment = 0;
  std::string file;  // relative to the store
  StoredBlock block;
};

struct IndexedSegment {
  std::int64_t number = 0;
  std::string file, label, model;
  Digest root{};
  KvType type = KvType::kF32;
  bool exact = true;
  double key_loss = 0.0, value_loss = 0.0;
  std::int64_t tokens = 0, first_position = 0, bytes = 0;
  std::int64_t created = 0, used = 0;  // milliseconds since 1970
  bool pinned = false;
};

// One connection; calls from several threads wait for one another. Throws kIo with SQLite's own
// words, kFormat when the file is damaged or of another version.
class StoreIndex {
 public:
  enum class Mode { kRead, kWrite };
  StoreIndex(const std::string& path, Mode mode);
  ~StoreIndex();

  std::optional<BlockPlace> Find(const Digest& name, KvType type);
  void Insert(const SegmentHeader& header, const std::string& file, std::int64_t now);
  void Remove(std::int64_t segment);
  void Touch(const std::vector<std::int64_t>& segments, std::int64_t now);
  void SetPinned(std::int64_t segment, bool pinned);
  std::vector<IndexedSegment> List();
  // Unpinned, made until then, least recently used first.
  std::vector<IndexedSegment> Evictable(std::int64_t created);
  std::int64_t TotalBytes();
  std::int64_t limit();
  void SetLimit(std::int64_t bytes);

 private:
  class Statement;
  void Open(const std::string& name, Mode mode, int flags);
  void Close();
  void Run(const char* sql);
  std::vector<IndexedSegment> Select(const char* more, std::int64_t bound);

  std::mutex mutex_;
  std::string path_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* find_ = nullptr;
};

}  // namespace banyan
