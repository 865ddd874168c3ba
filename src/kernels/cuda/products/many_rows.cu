#include "kernels/cuda/products/many_rows.h"

#include <algorithm>

#include "kernels/cuda/products/many_rows_feed.cuh"
#include "kernels/cuda/products/many_rows_store.cuh"

namespace banyan::cuda {
namespace many_rows {
namespace {

#ifdef BANYAN_SM90A
#define BANYAN_CLUSTER __cluster_dims__(kCluster, 1, 1)

template <int kSlabs>
using Sums = float[kSlabs][2 * kPairs / 8][4];

// Tells both blocks that this warp has read the stage.
__device__ inline void GiveBack(const Ring& ring, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) ArriveAt(ring.empty[stage], lane);
}

// Adds the products of the group's slabs of a tile to the sums.
template <int kSlabs>
__device__ void MultiplySlabs(const Ring& ring, int chunks, int group, Place& place,
                              Sums<kSlabs>& sums) {
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const SwizzledOperand x(ring.X(place.stage) + group * kSlabBytes);
    const SwizzledOperand w(ring.W(place.stage));
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kBoxColumns; k += 16) {
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        Product(sums[i], x.At(i * kGroups * kSlabBytes + k * 2), w.At(k * 2));
      }
    }
    CommitProducts();
    WaitForProductsBut<1>();
    if (chunk > 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance();
  }
  WaitForProducts();
#pragma unroll
  for (int i = 0; i < kSlabs; ++i) Pin(sums[i]);
  GiveBack(ring, before);
}

template <int kSlabs>
__device__ void MultiplyTile(const Call& call, const Ring& ring, const Tiles& tiles, int group,
                             Place& place) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  Sums<kSlabs> sums = {};
  MultiplySlabs<kSlabs>(ring, call.inner / kBoxColumns, group, place, sums);
#pragma unroll
  for (int i = 0; i < kSlabs; ++i) {
    const int slab = group + i * kGroups;
    StoreSlab(call, sums[i], tiles.row() + slab * kSlabRows + warp * 16, tiles.column());
  }
}

__device__ void MultiplyAll(const Call& call, const Ring& ring, int group) {
  Place place;
  for (Tiles tiles(call); tiles.More(); tiles.Next()) {
    const int slabs = (tiles.slabs() - group + kGroups - 1) / kGroups;
    if (slabs == 2) {
      MultiplyTile<2>(call, ring, tiles, group, place);
    } else if (slabs == 1) {
      MultiplyTile<1>(call, ring, tiles, group, place);
    } else {
      for (int chunk = 0; chunk < call.inner / kBoxColumns; ++chunk, place.Advance()) {
        Wait(ring.full[place.stage], place.parity);
        GiveBack(ring, place.stage);
      }
    }
  }
}

#else
#define BANYAN_CLUSTER  // the compiler knows no clusters for other devices
#endif                  // BANYAN_SM90A

__global__ void BANYAN_CLUSTER __launch_bounds__(kThreads, 1)
    ManyRowsKernel(const __grid_constant__ Call call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t full[kStages], empty[kStages];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment,
                  full, empty};
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == kGroups * 128) {
    FetchMap(call.w);
    FetchMap(call.x);
    for (int stage = 0; stage < kStages; ++stage) {
      InitBarrier(full[stage], 1);
      InitBarrier(empty[stage], kCluster * kGroups * 4);
    }
    PublishBarriers();
  }
  SyncCluster();
  if (group == kGroups) {
    GiveRegisters<40>();
    if (threadIdx.x == kGroups * 128) Fill(call, ring);
    __syncwarp();
  } else {
    TakeRegisters<232>();
    WaitForEarlierKernels();
    MultiplyAll(call, ring, group);
  }
  LetNextKernelStart();  // of the feeding group at once: all blocks have their places by then
  SyncCluster();         // the other block's copies and arrivals come here
#endif
}

}  // namespace
}  // namespace many_rows

bool ManyRowsCanServe(const ProductOperands& operands) {
  static const bool hopper = [] {
    int device = 0, major = 0;
    Check(cudaGetDevice(&device), "current device");
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    return major == 9 && StartsEarly(reinterpret_cast<const void*>(many_rows::ManyRowsKernel)) &&
           HasTensorMaps();
  }();
  const ProductShape& shape = operands.shape;
  return hopper && operands.form == ProductForm::kSwiGlu && shape.rows >= 1 &&
         shape.inner % kBoxColumns == 0 && shape.gated % 8 == 0 && shape.out_stride % 8 == 0;
}

void MultiplyManyRows(cudaStream_t stream, const ProductOperands& operands) {
  using namespace many_rows;
  RaiseSharedMemory<ManyRowsKernel>(kSharedBytes);
  const ProductShape& shape = operands.shape;
  Call call{};
  call.x = MapOfMatrix(operands.x, shape.rows, shape.inner, kSlabRows, 1);
  call.w = MapOfMatrix(operands.w, shape.outputs, shape.inner, kPairs, 1);
  call.out = static_cast<__nv_bfloat16*>(operands.out);
  call.rows = static_cast<int>(shape.rows);
  call.outputs = static_cast<int>(shape.gated);
  call.inner = static_cast<int>(shape.inner);
  call.out_stride = static_cast<int>(shape.out_stride);
  call.w_is_fresh = operands.w_is_fresh;
  call.row_tiles = (call.rows + kTileRows - 1) / kTileRows;
  call.column_clusters = (call.outputs + kCluster * kPairs - 1) / (kCluster * kPairs);
  const int clusters =
      std::min(call.row_tiles * call.column_clusters, Multiprocessors() / kCluster);
  const LaunchShape launch{dim3(static_cast<unsigned>(clusters * kCluster)), kThreads,
                           static_cast<size_t>(kSharedBytes)};
  LaunchEarly(stream, launch, "product and SwiGLU", ManyRowsKernel, call);
}

}  // namespace banyan::cuda
