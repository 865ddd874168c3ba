// Rows of activations as codes, in memory that lives from product to product.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_path.h"

namespace banyan {

class CodedMemory {
 public:
  // Codes of `rows` rows in groups of path.integer.rows_together. REQUIRES: columns % 32 == 0. What
  // is returned holds until the next call.
  CodedRows Code(const float* x, std::int64_t x_stride, int rows, std::int64_t columns,
                 const CpuPath& path, ThreadPool& pool);

 private:
  void Reserve(size_t row_blocks);
  CodedBlocks From(std::int64_t row_blocks);

  std::vector<std::int8_t> codes_;
  std::vector<float> scales_, sums_[3];
  std::vector<std::int32_t> starts_[3];
};

}  // namespace banyan
