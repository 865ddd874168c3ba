// Narrow units on Hopper: up to 8 packed rows with the keys of one KV head. What counts is the
// stream of bytes: in each of a block's teams one warp draws units and brings their pages
// (narrow_feeder.cuh), and the others compute (narrow_computer.cuh) while the next cuts and units
// are on their way.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/for_head_dim.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/narrow_computer.cuh"
#include "kernels/cuda/narrow_feeder.cuh"

namespace banyan::cuda {

template <typename Element, int Dim>
__global__ void __launch_bounds__(kNarrowThreads, 1)
    AttendNarrowKernel(const __grid_constant__ AttentionCall call) {
#ifdef BANYAN_SM90A
  extern __shared__ __align__(128) std::byte memory[];
  const int thread = static_cast<int>(threadIdx.x) % kTeamThreads;
  auto& shared = reinterpret_cast<NarrowShared<Dim>*>(memory)[threadIdx.x / kTeamThreads];
  const int tasks = call.units.counts[1] * call.shape.kv_heads;
  if (thread < NarrowShared<Dim>::kPlaces) {
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
    NarrowFeeder<Dim>(call, shared, tasks).Run();
  } else {
    NarrowComputer<Element, Dim>(call, shared).Run();
  }
#endif
}

template <typename Element, int Dim>
void LaunchNarrow(cudaStream_t stream, int blocks, const AttentionCall& call) {
  static_assert(sizeof(NarrowShared<Dim>) <= kMostTeamBytes);
  constexpr int kBytes = kNarrowTeams * static_cast<int>(sizeof(NarrowShared<Dim>));
  RaiseSharedMemory<AttendNarrowKernel<Element, Dim>>(kBytes);
  AttendNarrowKernel<Element, Dim>
      <<<static_cast<unsigned>(blocks), kNarrowThreads, kBytes, stream>>>(call);
  CheckLaunch("attention of narrow units");
}

template <typename Element>
void AttendNarrow(cudaStream_t stream, int blocks, const AttentionCall& call) {
  ForHeadDim<32, 64, 80, 96, 128>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchNarrow<Element, decltype(dim)::value>(stream, blocks, call);
  });
}

}  // namespace banyan::cuda
