// Wide units on Hopper: 128 packed rows, two warpgroups of 64, over the keys of one KV head. Two
// more warps bring units, pages and queries ahead of the two groups, which take turns at the matrix
// units: while one computes weights, the other multiplies.
//
// Scores: chains over the head in steps of 16. Values: chains over the cut's keys in steps of 16,
// from zero; then merged into the unit's running partial. Both are bit for bit what the chains of
// mma.sync in the other kernels give. Blocks stay and take unit after unit from a counter.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/for_head_dim.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/kv_tiles.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/unit.cuh"

namespace banyan::cuda {

inline constexpr int kWideGroups = kWideRows / 64;
inline constexpr int kWideConsumers = kWideGroups * 128;
inline constexpr int kWideThreads = kWideConsumers + 128;
inline constexpr int kWideConsumerWarps = kWideConsumers / 32;
inline constexpr int kWideStages = 2;
// All warps start with a third of a quarter of the registers; then the group that feeds gives most
// of its share to the others. 2 * 224 + 56 = 3 * 168.
inline constexpr int kFeederRegisters = 56, kConsumerRegisters = 224;

template <int Dim>
struct WideShared {
  struct Task {
    WorkUnit unit;
    int kv_head;  // -1: there are no more
  };
  alignas(128) std::byte query[2][kWideRows * Dim * 2];  // tiles of 8 rows x 8 values
  alignas(128) std::byte key[kWideStages][kPagesPerCut * kPageBytes<Dim>];
  alignas(128) std::byte value[kWideStages][kPagesPerCut][kFlaggedPageBytes<Dim>];
  Task task[2];
  std::uint64_t task_full[2], task_empty[2];
  std::uint64_t query_full[2], query_empty[2];
  std::uint64_t key_full[kWideStages], key_empty[kWideStages];
  std::uint64_t value_full[kWideStages], value_empty[kWideStages];
};

#ifdef BANYAN_SM90A

// A place in a ring of buffers, and the parity of its barriers' phase.
template <int Stages>
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;
  __device__ void Advance() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ inline int DrawTask(const AttentionCall& call) {
  int drawn = 0;
  if (threadIdx.x % 32 == 0) drawn = static_cast<int>(gridDim.x) + atomicAdd(&call.next_unit[0], 1);
  return __shfl_sync(0xffffffffu, drawn, 0);
}

// The warp that feeds the others. Empty barriers are waited for one phase behind: fresh ones count
// as empty.
template <int Dim>
__device__ void FeedWideUnits(const AttentionCall& call, WideShared<Dim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int tasks = call.units.counts[0] * call.shape.kv_heads;
  RingPlace<2> place;
  RingPlace<kWideStages> stage;
  // The first task by the block's place, later ones from the counter.
  for (int index = static_cast<int>(blockIdx.x);; index = DrawTask(call)) {
    const bool more = index < tasks;
    const WorkUnit* unit = call.units.many_rows + (more ? index / call.shape.kv_heads : 0);
    const int kv_head = more ? index % call.shape.kv_heads : -1;
    typename WideShared<Dim>::Task& task = shared.task[place.stage];
    Wait(shared.task_empty[place.stage], place.parity ^ 1);
    if (lane == 0) {
      if (more) task.unit = *unit;
      task.kv_head = kv_head;
      Arrive(shared.task_full[place.stage]);
    }
    __syncwarp();
    place.Advance();
    if (!more) return;

    const UnitView view(call, task.unit, kv_head);
    for (int begin = view.NextCut(view.key_begin()); begin < view.key_end();
         begin = view.NextCut(begin + kCutKeys)) {
      const int pages = view.Pages(begin);
      const std::byte* block =
          lane < pages ? view.Block(view.Page(begin + lane * kPageTokens)) : nullptr;
      Wait(shared.key_empty[stage.stage], stage.parity ^ 1);
      if (lane == 0) ArriveExpecting(shared.key_full[stage.stage], pages * kPageBytes<Dim>);
      __syncwarp();
      if (lane < pages) {
        CopyBulk(shared.key[stage.stage] + lane * kPageBytes<Dim>, block, kPageBytes<Dim>,
                 shared.key_full[stage.stage]);
      }
      Wait(shared.value_empty[stage.stage], stage.parity ^ 1);
      if (lane == 0) {
        ArriveExpecting(shared.value_full[stage.stage], pages * kFlaggedPageBytes<Dim>);
      }
      __syncwarp();
      if (lane < pages) {
        CopyBulk(shared.value[stage.stage][lane], block + call.kv.layout.value_offset,
                 kFlaggedPageBytes<Dim>, shared.value_full[stage.stage]);
      }
      stage.Advance();
    }
  }
}

// The warp that brings a task's queries while the others are still at the task before.
template <int Dim>
__device__ void FeedQueries(const AttentionCall& call, WideShared<Dim>& shared) {
  constexpr int kChunks = Dim / 8;  // of 16 bytes
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (RingPlace<2> place;; place.Advance()) {
    Wait(shared.task_full[place.stage], place.parity);
    const typename WideShared<Dim>::Task& task = shared.task[place.stage];
    if (task.kv_head < 0) return;
    const UnitView unit(call, task.unit, task.kv_head);
    Wait(shared.query_empty[place.stage], place.parity ^ 1);
    const int rows = min(kWideRows, unit.rows_left());
    // Two lanes a row, each every other chunk. Rows that are not there take another one's values:
    // nobody reads what becomes of them.
#pragma unroll 2
    for (int row = lane / 2; row < (rows + 15) / 16 * 16; row += 16) {
      const std::byte* source = unit.ScaledQuery(min(row, rows - 1));
#pragma unroll
      for (int chunk = lane % 2; chunk < kChunks; chunk += 2) {
        CopyAsync(shared.query[place.stage] + TileOffset(row, chunk * 8, Dim) * 2,
                  source + chunk * 16, true);
      }
    }
    CommitCopies();
    WaitForCopies<0>();
    PublishToMatrixUnits();
    Arrive(shared.task_empty[place.stage]);
    __syncwarp();
    if (lane == 0) Arrive(shared.query_full[place.stage]);
  }
}

// One of the eight warps that compute.
template <typename Element, int Dim>
class WideConsumer {
 public:
  using Shared = WideShared<Dim>;
  __device__ WideConsumer(const AttentionCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        group_(static_cast<int>(threadIdx.x) / 128),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    for (;;) {
      Wait(shared_.task_full[task_.stage], task_.parity);
      const typename Shared::Task& task = shared_.task[task_.stage];
      if (task.kv_head < 0) return;
      Take(UnitView(call_, task.unit, task.kv_head));
      Arrive(shared_.task_empty[task_.stage]);
      task_.Advance();
    }
  }

 private:
  // Of the unit: the lane's two rows.
  __device__ int PackedRow(int half) const { return warp_ * 16 + lane_ / 4 + 8 * half; }

  __device__ void Take(const UnitView& unit) {
    // A group without rows only follows the ring.
    const bool idle = unit.rows_left() <= group_ * 64;
    if (!idle) {
      Wait(shared_.query_full[task_.stage], task_.parity);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        offset_[half] = unit.Offset(PackedRow(half));
        rows_[half] = RunningRow();
      }
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total_[n][i] = 0.0f;
      }
    }
    for (int begin = unit.NextCut(unit.key_begin()); begin < unit.key_end();
         begin = unit.NextCut(begin + kCutKeys)) {
      if (idle) {
        FollowCut();
      } else {
        AttendCut(unit, begin);
      }
      stage_.Advance();
    }
    Release(shared_.query_empty[task_.stage]);
    if (!idle) Store(unit);
  }

  __device__ void Release(std::uint64_t& barrier) const {
    __syncwarp();
    if (lane_ == 0) Arrive(barrier);
  }

  __device__ void FollowCut() {
    Wait(shared_.key_full[stage_.stage], stage_.parity);
    Release(shared_.key_empty[stage_.stage]);
    Wait(shared_.value_full[stage_.stage], stage_.parity);
    AnyUnruly();
    if (unruly_) HideUnrulyValues();
    Release(shared_.value_empty[stage_.stage]);
  }

  __device__ void AttendCut(const UnitView& unit, int begin) {
    Wait(shared_.key_full[stage_.stage], stage_.parity);
    float score[kScoreTiles][4];
    Score(score);
    Release(shared_.key_empty[stage_.stage]);
    std::uint32_t weight[kPagesPerCut][4];
    if (unit.AllSeen(begin)) {
      WeighRows<Element>(
          score, [](int, int) { return true; }, weight, rows_);
    } else {
      const VisibleKeys seen[2] = {unit.Seen(offset_[0], begin), unit.Seen(offset_[1], begin)};
      const auto visible = [&seen](int half, int key) {
        return key >= seen[half].first && key < seen[half].last;
      };
      WeighRows<Element>(score, visible, weight, rows_);
    }
    Wait(shared_.value_full[stage_.stage], stage_.parity);
    AnyUnruly();
    if (unruly_) {
      HideUnrulyValues();
      BreakRowsThatSeeThem(unit, begin);
    }
    AddValues(weight);
    Release(shared_.value_empty[stage_.stage]);
  }

  __device__ void Score(float (&score)[kScoreTiles][4]) const {
    constexpr int kAcrossRows = Dim / 8 * kTileBytes;
    const std::byte* queries = shared_.query[task_.stage] + group_ * 64 * Dim * 2;
    const std::uint64_t query = TileOperand(queries, kTileBytes, kAcrossRows);
    const std::uint64_t key = TileOperand(shared_.key[stage_.stage], kTileBytes, kAcrossRows);
    Pin(score);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < Dim / 16; ++k) {
      constexpr std::uint64_t kStep = 2 * kTileBytes / 16;
      ScoreProduct(score, query + k * kStep, key + k * kStep, k > 0, Element{});
    }
    CommitProducts();
    WaitForProducts();
    Pin(score);
  }

  // Pages that the cut does not fill hold an earlier cut's values, or zeros: they weigh zero, and
  // none of them is unruly.
  __device__ void AddValues(const std::uint32_t (&weight)[kPagesPerCut][4]) {
    float sum[Dim / 8][4];
    Pin(sum);
    FenceProducts();
#pragma unroll
    for (int page = 0; page < kPagesPerCut; ++page) {
      const std::uint64_t value =
          TileOperand(shared_.value[stage_.stage][page], Dim / 8 * kTileBytes, kTileBytes);
      ValueProduct(sum, weight[page], value, page > 0, Element{});
    }
    CommitProducts();
    WaitForProducts();
    Pin(sum);
    MergeTiles(rows_, sum, 0, total_);
  }

  // --- Values that must not meet rows which do not see them (kv_pages.h) -----------------------
  // Whether some token of the cut's pages is marked; the same for every warp.
  __device__ void AnyUnruly() {
    const int page = lane_ / 4;
    const std::byte* flags = shared_.value[stage_.stage][page] + kPageBytes<Dim>;
    std::uint32_t word = 0;
    word = *reinterpret_cast<const std::uint32_t*>(flags + lane_ % 4 * 4);
    unruly_ = __any_sync(0xffffffffu, word != 0);
  }

  // Each of the eight warps clears the marked tokens of a page. The flags stay.
  __device__ void HideUnrulyValues() {
    std::byte* page = shared_.value[stage_.stage][warp_];
    if (lane_ < kPageTokens && page[kPageBytes<Dim> + lane_] != std::byte{0}) {
      ClearToken<Dim>(page, lane_);
    }
    PublishToMatrixUnits();
    SyncSome(1, kWideConsumers);
  }

  __device__ void BreakRowsThatSeeThem(const UnitView& unit, int begin) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const VisibleKeys seen = unit.Seen(offset_[half], begin);
      for (int key = seen.first; key < seen.last; ++key) {
        const std::byte* page = shared_.value[stage_.stage][key / kPageTokens];
        if (page[kPageBytes<Dim> + key % kPageTokens] != std::byte{0}) rows_[half].sum = NAN;
      }
    }
  }

  __device__ void Store(const UnitView& unit) const {
    const int dim = call_.shape.head_dim;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = unit.Partial(PackedRow(half));
      if (at < 0) continue;
      if (lane_ % 4 == 0) {
        call_.partials.max[at] = rows_[half].max;
        call_.partials.sum[at] = rows_[half].sum;
      }
      float* value = call_.partials.value + at * dim;
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
        const int d = n * 8 + 2 * (lane_ % 4);
        if (d + 1 < dim && dim % 2 == 0) {
          *reinterpret_cast<float2*>(value + d) =
              make_float2(total_[n][2 * half], total_[n][2 * half + 1]);
        } else {
          if (d < dim) value[d] = total_[n][2 * half];
          if (d + 1 < dim) value[d + 1] = total_[n][2 * half + 1];
        }
      }
    }
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int group_, warp_, lane_;
  RingPlace<2> task_;
  RingPlace<kWideStages> stage_;
  bool unruly_ = false;
  int offset_[2];
  RunningRow rows_[2];
  float total_[Dim / 8][4];
};

#endif  // BANYAN_SM90A

template <typename Element, int Dim>
__global__ void __launch_bounds__(kWideThreads, 1)
    AttendWideKernel(const __grid_constant__ AttentionCall call) {
#ifdef BANYAN_SM90A
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<WideShared<Dim>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      InitBarrier(shared.task_full[i], 1);
      InitBarrier(shared.task_empty[i], kWideConsumers + 32);  // whoever reads the task
      InitBarrier(shared.query_full[i], 1);
      InitBarrier(shared.query_empty[i], kWideConsumerWarps);
    }
    for (int i = 0; i < kWideStages; ++i) {
      InitBarrier(shared.key_full[i], 1);
      InitBarrier(shared.key_empty[i], kWideConsumerWarps);
      InitBarrier(shared.value_full[i], 1);
      InitBarrier(shared.value_empty[i], kWideConsumerWarps);
    }
    PublishBarriers();
  }
  // Values and flags that were never copied must read as zero.
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(sizeof(shared.value) / 16);
       i += kWideThreads) {
    reinterpret_cast<uint4*>(shared.value)[i] = make_uint4(0, 0, 0, 0);
  }
  PublishToMatrixUnits();
  __syncthreads();
  if (threadIdx.x >= kWideConsumers) {
    GiveRegisters<kFeederRegisters>();
    const int feeder = static_cast<int>(threadIdx.x) / 32 - kWideConsumerWarps;
    if (feeder == 0) FeedWideUnits<Dim>(call, shared);
    if (feeder == 1) FeedQueries<Dim>(call, shared);
  } else {
    TakeRegisters<kConsumerRegisters>();
    WideConsumer<Element, Dim>(call, shared).Run();
  }
#endif
}

template <typename Element, int Dim>
void LaunchWide(cudaStream_t stream, int blocks, const AttentionCall& call) {
  constexpr int kBytes = static_cast<int>(sizeof(WideShared<Dim>));
  static const cudaError_t raised = cudaFuncSetAttribute(
      AttendWideKernel<Element, Dim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  Check(raised, "shared memory of attention");
  AttendWideKernel<Element, Dim>
      <<<static_cast<unsigned>(blocks), kWideThreads, kBytes, stream>>>(call);
  CheckLaunch("attention of wide units");
}

template <typename Element>
void AttendWide(cudaStream_t stream, int blocks, const AttentionCall& call) {
  ForHeadDim<32, 64, 80, 96, 128>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchWide<Element, decltype(dim)::value>(stream, blocks, call);
  });
}

}  // namespace banyan::cuda
