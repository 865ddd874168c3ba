// Tensors of a file as matrices and vectors of a backend, with adapters merged into them or kept
// apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/unset_vector.h"
#include "kernels/kernels.h"
#include "model/adapter.h"
#include "model/weights.h"
#include "tensor/host_tensor.h"

namespace banyan {

// A low-rank product and the rows of the stacked matrix that it is added to.
struct AdaptedRows {
  const LowRankProduct* product = nullptr;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::shared_ptr<const void> owner = nullptr;  // of the product, where it is no adapter's own
};

struct MergedMatrix {
  HostTensor tensor;  // [all rows, columns], a view of `bytes`; moving keeps it valid
  UnsetVector<std::byte> bytes;
};

// The stacked parts in the order of `row_order` (see Kernels::LoadMatrix), each row as float32 plus
// scale * B A, which is summed in float32 from rank 0 up. Stored as float32 with precision f32 or
// when a part is; otherwise as f16, which has eight times bf16's resolution, or as bf16 where a
// value is too large for it. The bits do not depend on the pool's size. Throws kFormat naming the
// part and `where` when a value is not finite.
MergedMatrix Merge(std::span<const HostTensor* const> parts,
                   std::span<const std::int32_t> row_order, std::span<const AdaptedRows> adapted,
                   Precision precision, const std::string& where, ThreadPool& pool);

// As float32. Throws kFormat, naming the tensor, when a value is not finite.
std::vector<float> FiniteValues(const HostTensor& tensor);

// A range of rows of a stacked matrix under the name that adapters use for it. The module may have
// more rows, or its rows and columns in another order: then `taken` and `columns` say which of them
// stand here (empty: all, as they are).
struct AdaptedPlace {
  std::string module;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t module_rows = 0;  // 0: `rows`
  std::vector<std::int32_t> taken = {}, columns = {};
};
// The rows `taken` of a module, as the rows from first_row on.
AdaptedPlace TakenRows(std::string module, std::int64_t module_rows, std::int64_t first_row,
                       std::vector<std::int32_t> taken);

class MatrixLoader {
 public:
  // Counts bytes, parameters and ranks in `totals`. All references must outlive the loader.
  MatrixLoader(const TensorStore& store, Kernels& kernels, const LoadProgress& progress,
               const AdaptersToLoad& adapters, const WeightScales& scales, ModelWeights& totals);

  // The parts stacked, their rows in the order that `order` gives (empty: as they are), with the
  // adapter that is merged. `places` name the rows in that order.
  MatrixRef Matrix(const std::vector<const HostTensor*>& parts, std::span<const std::int32_t> order,
                   const std::vector<AdaptedPlace>& places);
  // The same for an embedding (Kernels::LoadTable).
  MatrixRef Table(const HostTensor& table, const std::vector<AdaptedPlace>& places);
  // The same for a matrix that is used in products only, whose outputs several devices may divide:
  // each of the blocks of rows by itself (Kernels::LoadDivided).
  MatrixRef DividedMatrix(const std::vector<const HostTensor*>& parts,
                          std::span<const std::int32_t> order,
                          const std::vector<AdaptedPlace>& places,
                          std::span<const std::int64_t> blocks = {});
  // That in the form for products (Kernels::ForProducts).
  MatrixRef ProductMatrix(const std::vector<const HostTensor*>& parts,
                          std::span<const std::int32_t> order,
                          const std::vector<AdaptedPlace>& places,
                          std::span<const std::int64_t> blocks = {});
  VectorRef Vector(const std::vector<const HostTensor*>& parts,
                   const std::vector<std::int32_t>& order = {});
  // Null when no adapter that is kept apart has a product for one of the places.
  LowRankRef Apart(const std::vector<AdaptedPlace>& places, std::int64_t columns);

  bool IsMergedInto(const std::vector<AdaptedPlace>& places, std::int64_t columns) const;
  // Throws kUnsupported when an adapter that is kept apart has a product for one of the places:
  // embeddings and experts take none beside their rows.
  void RefuseApart(const std::vector<AdaptedPlace>& places, std::int64_t columns);
  // Call it after loading. Throws when an adapter has products for modules that the model lacks.
  void Finish();

 private:
  using Load = std::function<MatrixRef(std::span<const HostTensor* const> parts,
                                       std::span<const std::int32_t> order)>;

  ThreadPool& Pool();
  MatrixRef LoadBy(const Load& load, const std::vector<const HostTensor*>& parts,
                   std::span<const std::int32_t> order, const std::vector<AdaptedPlace>& places);

  const TensorStore& store_;
  Kernels& kernels_;
  const LoadProgress& progress_;
  std::int64_t loaded_bytes_ = 0, total_bytes_ = 0;
  Adapter* merged_;  // may be null
  const std::vector<Adapter*>& apart_;
  const WeightScales& scales_;
  ModelWeights& totals_;
  std::optional<ThreadPool> pool_;  // for merging and for scales; made when it is needed
};

}  // namespace banyan
