// The journal beside a job's output: which records are done, and what the output was then.
//
// Format (little-endian): "BANYANJ2", u32 length and text of a JSON header, u32 check of it; then
// entries of 64 bytes. A kRecord entry names a record whose rows were appended to the output, and
// has a hash of them; a kCommit entry says that the output was on the disk, that long and with that
// content, after all entries before it. Only entries with a commit after them count. An entry's
// check is of all entries before it too: one that is torn, changed or in another's place ends what
// can be read.
//
// The guarantee: a commit is written after the output's bytes are on the disk. So a record that
// counts has its rows in the first `length` bytes, and what lies beyond belongs to none that does.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json.h"

namespace banyan {

using Key128 = std::array<std::uint64_t, 2>;

// Of all parts, each with its length, so that "ab","c" is not "a","bc".
Key128 KeyOf(std::initializer_list<std::string_view> parts);
void AddTo(Key128& sum, const Key128& key);  // 128 bits, modulo 2^128

// A set of 128-bit hashes, 16 bytes an entry: it remembers the records of a job.
class KeySet {
 public:
  // False when the key was there already.
  bool Insert(const Key128& key);
  bool Contains(const Key128& key) const;
  std::int64_t size() const { return size_; }

 private:
  static constexpr Key128 kEmpty = {0, 0};
  size_t Find(const Key128& key) const;  // its slot, or the free one where it belongs
  void Grow();

  std::vector<Key128> slots_;  // a power of two; {0, 0} is free
  std::int64_t size_ = 0;
};

struct JournalRecord {
  Key128 key{};
  std::int64_t bytes = 0;  // of its rows, unpacked
  std::int32_t rows = 0, error_rows = 0;
  Key128 hash{};              // its share of the answers' hash
  std::uint64_t content = 0;  // of its rows' bytes, see RowsContent
};
std::uint64_t RowsContent(std::string_view rows);

struct JournalCommit {
  std::int64_t length = 0;     // of the output file
  std::int64_t raw_bytes = 0;  // the same unpacked
  bool complete = false;       // every record of the input was done
  ContentKey content{};        // hash of the output file
  size_t records = 0;          // how many came before it
  Key128 input{};              // of a complete one: hash of all rows of the input, in their order
};

struct JournalContents {
  bool exists = false;
  std::string problem;  // why nothing of it can be used; empty: something can
  Json header;
  std::vector<JournalRecord> records;  // in the order of their rows in the output
  std::vector<JournalCommit> commits;  // the last is after all records; may be empty
  bool damaged = false;                // more entries followed, which cannot be trusted

  bool usable() const { return exists && problem.empty(); }
  bool complete() const { return !damaged && !commits.empty() && commits.back().complete; }
  std::int64_t raw_bytes() const { return commits.empty() ? 0 : commits.back().raw_bytes; }
};

// Everything that counts. Throws kIo when there is a journal that cannot be read.
JournalContents ReadJournal(const std::string& path);

class JournalWriter {
 public:
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // The journal's files get the permissions `mode`.
  explicit JournalWriter(std::string path, mode_t mode = 0644)
      : path_(std::move(path)), mode_(mode) {}
  // Replaces header, records and commits: writes another file, syncs it and renames it.
  void Rewrite(const JournalContents& contents);
  void Add(const JournalRecord& record);     // kept until the next commit
  void Commit(const JournalCommit& commit);  // REQUIRES: the output is synced. On disk on return.
  // Whether the name still means the file that is written to.
  bool StillThere() const;

 private:
  std::string path_;
  mode_t mode_;
  int fd_ = -1;
  std::uint64_t chain_ = 0;  // stands for all entries so far
  std::string pending_;
};

}  // namespace banyan
