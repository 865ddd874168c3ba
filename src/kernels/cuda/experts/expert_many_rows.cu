// Products of experts that many rows chose, of bf16 and of int8 weights.
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/experts/expert_many_rows.cuh"

namespace banyan::cuda {
namespace expert_many {
namespace {

// A box of each of four slabs: of bf16 where sums are float, or of int8.
template <typename SumType>
struct PlainSlabs {
  using Sum = SumType;
  static constexpr int kMostRows = kManyExpertRows;
  static constexpr int kSlabBytes = kSlabRows * kRowBytes;
  static constexpr int kBytes = kGroups * kSlabs * kSlabBytes;

#ifdef BANYAN_SM90A
  __device__ static int BytesOf(const Call& /*call*/, int /*chunk*/) { return kBytes; }
  __device__ static void Copy(const Call& call, const Item& item, int chunk, unsigned char* to,
                              std::uint64_t& barrier, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane >= kGroups * kSlabs) return;
    const int group = lane / kSlabs, slab = lane % kSlabs;
    const CUtensorMap* maps = call.up != nullptr && slab == 1 ? call.up_maps : call.maps;
    CopyBoxes(to + lane * kSlabBytes, maps[item.tile.expert], item.FirstRow(call, group, slab),
              chunk, barrier, policy);
  }
  // Leaves its own products under way.
  template <int kTiles>
  __device__ static void Multiply(const unsigned char* x_bytes, const unsigned char* w_bytes,
                                  int group, Sums<Sum, kTiles>& sums) {
    const SwizzledOperand x(x_bytes), w(w_bytes + group * kSlabs * kSlabBytes);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kRowBytes; k += 32) {  // an instruction of either type
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        Wgmma(sums[slab], w.At(slab * kSlabBytes + k), x.At(k));
      }
    }
    CommitProducts();
    WaitForProductsBut<1>();
  }
#endif
};

}  // namespace
}  // namespace expert_many

int MostRowsOfExpertTile(const ExpertPart& part) {
  const int box_columns = part.form == ExpertForm::kInt8 ? kInt8BoxColumns : kBoxColumns;
  if (!HasHopperKernels() || part.form == ExpertForm::kF32 || part.stride % box_columns != 0)
    return 0;
  return part.form == ExpertForm::kQuantised ? kQuantisedExpertRows : kManyExpertRows;
}

void MultiplyManyExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                            const ExpertProduct& product, ExpertStart start) {
  if (product.part.form == ExpertForm::kQuantised) {
    return MultiplyManyQuantisedExpertRows(stream, routes, product, start);
  }
  using namespace expert_many;
  if (product.part.form == ExpertForm::kInt8) {
    return Launch<PlainSlabs<std::int32_t>>(stream, routes, product, start);
  }
  Launch<PlainSlabs<float>>(stream, routes, product, start);
}

}  // namespace banyan::cuda
