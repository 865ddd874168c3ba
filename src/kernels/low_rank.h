// Low-rank products that stay apart from the matrix they belong to: what each variant of a model
// adds to it. Variant 0 is the model itself and adds nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/tensor.h"
#include "plan/batch.h"
#include "tensor/host_tensor.h"

namespace banyan {

// out[first_row + n] += sum_k b[n][k] * scale * sum_c a[k][c] x[c]: some of a matrix's rows.
struct LowRankPart {
  const HostTensor* a = nullptr;  // [rank, columns]
  const HostTensor* b = nullptr;  // [rows, rank]
  float scale = 0.0f;
  std::int64_t first_row = 0;
};

// What a matrix [rows, columns] gets from each variant from 1 on, in the order of addition.
struct LowRankSource {
  std::int64_t rows = 0, columns = 0;
  std::span<const std::vector<LowRankPart>> variants;
};

// The same in backend memory.
class LowRankTable {
 public:
  virtual ~LowRankTable() = default;
  std::int64_t rows = 0, columns = 0;  // of the matrix
  std::int64_t ranks = 0;              // of the largest variant, all its parts together
  std::int64_t bytes = 0;              // resident
  bool in_all = true;                  // every variant has a part
};

// A table with one matrix for each factor, as the cpu and reference backends have it.
struct LowRankFactors {
  std::shared_ptr<const Matrix> a, b;
  float scale = 0.0f;
  std::int64_t first_row = 0;
};
class FactorTable : public LowRankTable {
 public:
  std::vector<std::vector<LowRankFactors>> variants;  // from variant 1 on

  std::span<const LowRankFactors> Of(std::int32_t variant) const {
    if (variant == 0) return {};
    return variants[static_cast<size_t>(variant) - 1];
  }
};

// Which of a step's rows a tensor has: all, or those whose logits are wanted.
enum class StepRows { kAll, kLogits };

struct LowRankCall {
  const StepInputs& step;
  StepRows rows = StepRows::kAll;
  const LowRankTable& table;
  Tensor scratch;  // [rows, at least table.ranks], left undefined
};

// Rows [begin, end) of one variant, another one than 0.
struct VariantRun {
  std::int32_t variant = 0;
  std::int64_t begin = 0, end = 0;
};

// --- For backends --------------------------------------------------------------------------------
// The table's sizes. REQUIRES: shapes that fit.
void DescribeLowRank(const LowRankSource& source, LowRankTable& table);
// StepInputs::adapted and all_adapted.
void SetVariants(const Batch& batch, StepInputs& step);
// [rows], or empty: all 0.
std::vector<std::int32_t> VariantsOf(const Batch& batch, StepRows rows);
// In order of rows.
std::vector<VariantRun> RunsOfVariants(const Batch& batch, StepRows rows);

}  // namespace banyan
