// The journal beside a job's output: which records are done, and how long the output was then.
//
// Format (little-endian): "BANYANJ1", u32 length and text of a JSON header, u32 check of it; then
// entries of 56 bytes. A kRecord entry names a record whose rows were appended to the output; a
// kCommit entry says that the output was on the disk, that long, after all entries before it. Only
// entries with a commit after them count; a check in every entry finds torn ones.
//
// The guarantee: a commit is written after the output's bytes are on the disk. So a record that
// counts has its rows in the first `length` bytes, and what lies beyond belongs to none that does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "tasks/key_set.h"

namespace banyan {

struct JournalRecord {
  Key128 key{};
  std::int64_t bytes = 0;  // of its rows, unpacked
  std::int32_t rows = 0, error_rows = 0;
  Key128 hash{};  // its share of the answers' hash
};

struct JournalCommit {
  std::int64_t length = 0;     // of the output file
  std::int64_t raw_bytes = 0;  // the same unpacked
  bool complete = false;       // every record of the input was done
};

struct JournalContents {
  bool exists = false;
  Json header;
  std::vector<JournalRecord> records;  // in the order of their rows in the output
  JournalCommit last;
};

// What of a journal counts when the output has `output_length` bytes: the last commit that the
// output still holds. Throws kFormat when it is no journal; a torn end is left out.
JournalContents ReadJournal(const std::string& path, std::int64_t output_length);

class JournalWriter {
 public:
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  explicit JournalWriter(std::string path) : path_(std::move(path)) {}
  // Writes header, records and commit anew: to another name, synced, then in the old one's place.
  void Rewrite(const Json& header, const std::vector<JournalRecord>& records,
               const JournalCommit& commit);
  void Add(const JournalRecord& record);     // kept until the next commit
  void Commit(const JournalCommit& commit);  // REQUIRES: the output is synced. On disk on return.

 private:
  std::string path_;
  int fd_ = -1;
  std::string pending_;
};

}  // namespace banyan
