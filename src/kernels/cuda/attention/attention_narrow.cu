// Narrow units on Hopper: up to 8 packed rows with the keys of one KV head. What counts is the
// stream of bytes: in each of a block's teams one warp draws units and copies their pages
// (narrow_feeder.cuh), and the others compute (narrow_computer.cuh) while the next cuts and units
// are in flight.
#include "kernels/cuda/attention/narrow_computer.cuh"
#include "kernels/cuda/attention/narrow_feeder.cuh"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"

namespace banyan::cuda {
namespace {

// After wide units, which have waited for earlier kernels before they let this one start, it need
// not wait for them; but it ends after them, so that a kernel that waits for this one has waited
// for both.
template <typename Kind, int Dim>
__global__ void __launch_bounds__(kNarrowThreads, 1)
    AttendNarrowKernel(const __grid_constant__ AttentionCall call, bool after_wide) {
#ifdef BANYAN_SM90A
  extern __shared__ __align__(128) std::byte memory[];
  LetNextKernelStart();
  const int thread = static_cast<int>(threadIdx.x) % kTeamThreads;
  auto& shared = reinterpret_cast<NarrowShared<Kind, Dim>*>(memory)[threadIdx.x / kTeamThreads];
  if (thread < NarrowShared<Kind, Dim>::kPlaces) {
    InitBarrier(shared.full[thread], 1);
    InitBarrier(shared.empty[thread], kNarrowWarps);
    PublishBarriers();
  }
  if (thread == 0) InitBarrier(shared.query_full, 32);
  if (thread < kNarrowTasks) {
    InitBarrier(shared.task_full[thread], 1);
    InitBarrier(shared.task_empty[thread], kNarrowWarps);
    PublishBarriers();
  }
  __syncthreads();
  if (thread >= kNarrowComputing) {
    NarrowFeeder<Kind, Dim>(call, shared, after_wide).Run();
  } else {
    if (!after_wide) WaitForEarlierKernels();
    NarrowComputer<Kind, Dim>(call, shared).Run();
  }
  WaitForEarlierKernels();
#endif
}

template <typename Kind, int Dim>
void LaunchNarrow(cudaStream_t stream, int blocks, const AttentionCall& call, bool after_wide) {
  static_assert(sizeof(NarrowShared<Kind, Dim>) <= kMostTeamBytes);
  constexpr int kBytes = kNarrowTeams * static_cast<int>(sizeof(NarrowShared<Kind, Dim>));
  RaiseSharedMemory<AttendNarrowKernel<Kind, Dim>>(kBytes);
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), kNarrowThreads, kBytes};
  LaunchEarly(stream, shape, "attention of narrow units", AttendNarrowKernel<Kind, Dim>, call,
              after_wide);
}

template <typename Kind>
void AttendKind(cudaStream_t stream, int blocks, const AttentionCall& call, bool after_wide) {
  ForHeadDim<32, 64, 80, 96, 128>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchNarrow<Kind, decltype(dim)::value>(stream, blocks, call, after_wide);
  });
}

}  // namespace

void AttendNarrow(cudaStream_t stream, int blocks, KvType type, const AttentionCall& call,
                  bool after_wide) {
  if (type == KvType::kQ8)
    return AttendKind<KvKind<__half, true>>(stream, blocks, call, after_wide);
  if (type == KvType::kF16)
    return AttendKind<KvKind<__half, false>>(stream, blocks, call, after_wide);
  AttendKind<KvKind<__nv_bfloat16, false>>(stream, blocks, call, after_wide);
}

}  // namespace banyan::cuda
