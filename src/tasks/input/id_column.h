// Which column of a table names its rows, where nobody said so: one whose values are all there and
// all different, and whose name says id, number or key. One rule for files on the command line and
// for tables of other programs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tasks/input/input.h"

namespace banyan {

// How much a column's name sounds like that of an id: 3 most, 0 not at all.
int IdNameRank(std::string_view name);

// Hears the rows of a table one after another.
class IdColumnGuess {
 public:
  explicit IdColumnGuess(std::vector<std::string> columns);

  // REQUIRES: a value for every column, in their order.
  void Add(std::span<const std::string> values);
  // No column can be one any more: the rest need not be read.
  bool hopeless() const { return candidates_.empty(); }
  // Of the columns that are left the one whose name says most, the first among equals. Nothing of a
  // table without rows.
  std::optional<std::string> Best() const;

 private:
  struct Candidate {
    size_t column = 0;
    std::unordered_set<size_t> seen;  // hashes of the values so far
  };
  std::vector<std::string> columns_;
  std::vector<Candidate> candidates_;  // the best name first
  bool any_rows_ = false;
};

// The id column of a job whose input is one plain table (CSV or TSV, packed or not) without a
// column `id`; nothing else is guessed at, nor is a table of more than 64 MB.
std::optional<std::string> GuessIdColumn(const InputOptions& input);

}  // namespace banyan
