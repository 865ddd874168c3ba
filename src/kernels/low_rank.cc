#include "kernels/low_rank.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

void DescribeLowRank(const LowRankSource& source, LowRankTable& table) {
  table.rows = source.rows;
  table.columns = source.columns;
  for (const std::vector<LowRankPart>& parts : source.variants) {
    std::int64_t ranks = 0;
    for (const LowRankPart& part : parts) {
      BANYAN_CHECK(part.a->columns() == source.columns && part.b->columns() == part.a->rows());
      BANYAN_CHECK(part.first_row >= 0 && part.first_row + part.b->rows() <= source.rows);
      ranks += part.a->rows();
    }
    table.ranks = std::max(table.ranks, ranks);
    table.in_all = table.in_all && !parts.empty();
  }
}

void SetVariants(const Batch& batch, StepInputs& step) {
  step.adapted = step.all_adapted = false;  // the step may have been another one before
  if (batch.variants.empty()) return;
  BANYAN_CHECK(batch.variants.size() == batch.tokens.size());
  const auto without = std::ranges::count(batch.variants, 0);
  step.adapted = without < static_cast<std::ptrdiff_t>(batch.variants.size());
  step.all_adapted = without == 0;
}

std::vector<std::int32_t> VariantsOf(const Batch& batch, StepRows rows) {
  if (rows == StepRows::kAll) return batch.variants;
  std::vector<std::int32_t> variants;
  if (batch.variants.empty()) return variants;
  for (const std::int32_t row : batch.logit_rows) {
    variants.push_back(batch.variants[static_cast<size_t>(row)]);
  }
  return variants;
}

std::vector<VariantRun> RunsOfVariants(const Batch& batch, StepRows rows) {
  const std::vector<std::int32_t> variants = VariantsOf(batch, rows);
  std::vector<VariantRun> runs;
  for (size_t begin = 0, end = 0; begin < variants.size(); begin = end) {
    while (end < variants.size() && variants[end] == variants[begin]) ++end;
    if (variants[begin] == 0) continue;
    runs.push_back(
        {variants[begin], static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
  }
  return runs;
}

}  // namespace banyan
