// How many rows a step may have: as many as memory was allocated for, fewer after a backend refused
// memory for a step, and again more after it has not for a while.
#pragma once

#include <cstdint>

namespace banyan {

class StepRowLimit {
 public:
  explicit StepRowLimit(int batch_rows) : most_(batch_rows), rows_(batch_rows) {}

  int most() const { return most_; }
  int rows() const { return rows_; }  // of the next step; at least 1
  // A step of so many rows was refused memory. REQUIRES: more than one row.
  void Refused(int rows);
  void Launched();
  std::int64_t refusals() const { return refusals_; }  // so far

 private:
  const int most_;
  int rows_;
  int launched_ = 0;  // steps since the last refusal, or since more rows were tried
  std::int64_t refusals_ = 0;
};

}  // namespace banyan
