// The outputs of `--shard 1/n` … `n/n` as the output of one job: what `banyan merge` runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

struct MergeOptions {
  std::vector<std::string> shards;  // outputs, in any order; each with its journal beside it
  std::string output = "-";         // of the shards' format; .gz and .zst are packed
  // Rows in the order of the input; the shards must have been run so.
  bool ordered = false;
  bool overwrite = false;  // whatever the output holds
  // Of the shards, in any order; empty: none are joined.
  std::vector<std::string> receipts;
};

struct MergeReceipt {
  std::string task, output;
  int shards = 0;
  std::int64_t records = 0, rows = 0, error_rows = 0;
  std::string answers_hash;  // that of one job over the whole input
  std::string ToText() const;
  std::string ToJson() const;  // with the sums of the shards' receipts, where they were given

  // Of the receipts: JSON of an object; empty: none.
  std::string sums;
};

// Checks that the shards are all there, finished, as their jobs wrote them, parts of the same job
// and no record in two of them, and writes their rows and the journal that one job would have:
// --resume goes on with it. Nothing is written unless all of this holds. Throws kUsage, kNotFound,
// kFormat, kIo.
MergeReceipt MergeShards(const MergeOptions& options);

}  // namespace banyan
