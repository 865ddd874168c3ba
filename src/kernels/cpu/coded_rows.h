// Rows of activations as codes, in memory that lives from product to product.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_path.h"

namespace banyan {

// Rows [begin, end).
struct RowRange {
  int begin = 0, end = 0;
};

class CodedMemory {
 public:
  // Codes of `rows` rows in groups of path.integer.rows_together. REQUIRES: columns % 32 == 0. What
  // is returned holds until the next call.
  CodedRows Code(const float* x, std::int64_t x_stride, int rows, std::int64_t columns,
                 const CpuPath& path, ThreadPool& pool);
  // The same for ranges one after the other from row 0 on: groups begin anew with each, so that
  // the codes of a range are those of its rows alone, from begin * columns / 32 blocks on.
  CodedRows CodeRanges(const float* x, std::int64_t x_stride, std::span<const RowRange> ranges,
                       std::int64_t columns, const CpuPath& path, ThreadPool& pool);

 private:
  void Reserve(size_t row_blocks);
  CodedBlocks From(std::int64_t row_blocks);

  std::vector<std::int8_t> codes_;
  std::vector<float> scales_, sums_[3];
  std::vector<std::int32_t> starts_[3];
  std::vector<RowRange> groups_;
};

}  // namespace banyan
