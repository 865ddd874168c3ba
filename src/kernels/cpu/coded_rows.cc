#include "kernels/cpu/coded_rows.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {
namespace {

// Blocks of 32 values that a thread makes codes of at once: a few microseconds.
constexpr int kBlocksTogether = 256;

}  // namespace

void CodedMemory::Reserve(size_t row_blocks) {
  if (scales_.size() >= row_blocks) return;
  codes_.resize(row_blocks * kBlockColumns);
  for (auto& sums : sums_) sums.resize(row_blocks);
  for (auto& starts : starts_) starts.resize(row_blocks);
  scales_.resize(row_blocks);  // the last: it says that the others are there
}

CodedBlocks CodedMemory::From(std::int64_t row_blocks) {
  CodedBlocks from{codes_.data() + row_blocks * kBlockColumns, scales_.data() + row_blocks, {}, {}};
  for (int i = 0; i < 3; ++i) {
    from.sums[i] = sums_[i].data() + row_blocks;
    from.starts[i] = starts_[i].data() + row_blocks;
  }
  return from;
}

CodedRows CodedMemory::Code(const float* x, std::int64_t x_stride, int rows, std::int64_t columns,
                            const CpuPath& path, ThreadPool& pool) {
  const RowRange all{0, rows};
  return CodeRanges(x, x_stride, std::span(&all, 1), columns, path, pool);
}

CodedRows CodedMemory::CodeRanges(const float* x, std::int64_t x_stride,
                                  std::span<const RowRange> ranges, std::int64_t columns,
                                  const CpuPath& path, ThreadPool& pool) {
  BANYAN_CHECK(columns % kBlockColumns == 0);
  const int blocks = static_cast<int>(columns / kBlockColumns);
  const int rows = ranges.empty() ? 0 : ranges.back().end;
  Reserve(static_cast<size_t>(rows) * static_cast<size_t>(blocks));
  const int together = path.integer.rows_together;
  groups_.clear();
  int largest = 1;  // group
  for (const RowRange& range : ranges) {
    for (int row = range.begin; row < range.end; row += together) {
      groups_.push_back({row, std::min(row + together, range.end)});
      largest = std::max(largest, groups_.back().end - row);
    }
  }
  const int part = std::max(1, kBlocksTogether / largest);  // blocks of a group
  const int parts = (blocks + part - 1) / part;
  pool.ForEach(static_cast<std::int64_t>(groups_.size()) * parts, [&](std::int64_t i, int) {
    const RowRange& group = groups_[static_cast<size_t>(i / parts)];
    const int block = static_cast<int>(i % parts) * part;
    const int count = group.end - group.begin;
    path.vector.code_rows(x + group.begin * x_stride + block * kBlockColumns, x_stride, count,
                          std::min(part, blocks - block), path.integer.start_unit,
                          From(std::int64_t{group.begin} * blocks + std::int64_t{block} * count));
  });
  CodedRows coded{codes_.data(), scales_.data(), {}, {}};
  for (int i = 0; i < 3; ++i) {
    coded.sums[i] = sums_[i].data();
    coded.starts[i] = starts_[i].data();
  }
  return coded;
}

}  // namespace banyan
