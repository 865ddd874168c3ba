// A join of two tables by a statement in words. What `banyan join` runs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "banyan/encoder.h"
#include "banyan/table.h"

namespace banyan {

struct JoinOptions {
  std::string right;                 // the right table; JobOptions::inputs are the left one
  size_t candidates = 10;            // of the right table, for a row of the left one
  std::shared_ptr<Encoder> encoder;  // by whose vectors they are found; null: by shared words
};

// A filter over pairs of rows. Its statement has {left.NAME} and {right.NAME}; of every left row
// and its candidates it is asked whether it is true. Rows are pairs, with the fields left.NAME and
// right.NAME of both tables; a row that could not be read is an error row.
JobReceipt RunJoin(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                   const TableAskOptions& table, const JoinOptions& join, const JobOptions& job);

}  // namespace banyan
