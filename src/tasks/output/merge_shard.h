// One shard of a job: what its output and its journal say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "tasks/output/journal.h"

namespace banyan {

struct Shard {
  std::string path;
  int number = 0, count = 0;  // i/n
  JournalContents journal;
  std::string before_records;  // what a table begins with, unpacked

  const Key128& input() const { return journal.commits.back().input; }  // REQUIRES: complete
  std::int64_t rows() const;
  std::int64_t error_rows() const;
  std::string answers_hash() const;
};

// Reads the journal and compares the output with it. Throws kNotFound, kFormat, kUsage.
Shard ReadShard(const std::string& path);

// Sorted by number. Throws kUsage unless they are parts of one job and all of it: each of 1 … n
// once, equal parameters and models, no record twice, as many records as every n-th of one input
// gives.
void CheckShards(std::vector<Shard>& shards);

// The counts of the shards' receipts together, as JSON. Throws kNotFound, kFormat, and kUsage when
// a receipt is of none of the shards, or a shard has none.
std::string SumReceipts(const std::vector<std::string>& receipts, const std::vector<Shard>& shards);

}  // namespace banyan
