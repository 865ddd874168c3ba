// A weight matrix with the products of an adapter added, for backends to load as if a file had it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/adapter.h"
#include "tensor/host_tensor.h"

namespace banyan {

// A product and the rows of the stacked matrix that get it.
struct AdaptedRows {
  const LowRankProduct* product = nullptr;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

struct MergedMatrix {
  HostTensor tensor;  // [all rows, columns], a view of `bytes`; moving keeps it valid
  std::vector<std::byte> bytes;
};

// The stacked parts in the order of `row_order` (see Kernels::LoadMatrix), each row as float32 plus
// scale * B A, which is summed in float32 from rank 0 up. Stored as float32 with precision f32 or
// when a part is; otherwise as f16, which has eight times bf16's resolution, or as bf16 where a
// value is too large for it. The bits do not depend on the pool's size. Throws kFormat naming the
// part and `where` when a value is not finite.
MergedMatrix Merge(std::span<const HostTensor* const> parts,
                   std::span<const std::int32_t> row_order, std::span<const AdaptedRows> adapted,
                   Precision precision, const std::string& where, ThreadPool& pool);

}  // namespace banyan
