// The producer warps of wide units (attention_wide.cu) and what a block has in shared memory: one
// warp opens tasks, one copies pages of keys and values, two copy queries (and turn 8-bit codes
// into operands). They run ahead of the two groups that compute, as far as the rings reach.
//
// Full barriers say that a place of a ring may be read, empty ones that it may be filled again;
// these are waited for one phase behind, since fresh ones count as empty.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"

namespace banyan::cuda {

inline constexpr int kWideGroups = kWideRows / 64;
inline constexpr int kWideConsumers = kWideGroups * 128;
inline constexpr int kWideConsumerWarps = kWideConsumers / 32;
inline constexpr int kWideStages = 2;

// A unit for one KV head, with some cut to attend to.
struct WideTask {
  WorkUnit unit;
  int kv_head;            // -1: there are no more
  int rows;               // packed rows
  CutRange cuts, whole;   // UnitView::Cuts, WholeCuts
  int offset[kWideRows];  // UnitView::Offset of the packed rows, there when `rows_full` says so
};

// Codes: the scales of a cut. Both groups weigh a cut by them before those of the next come.
struct alignas(16) WideScales {
  float key[kCutKeys], value[kCutKeys];  // read in pairs, as the next is
  // For rows that see all of the cut: each `value` in units of the largest, and that one.
  float ratio[kCutKeys];
  float unit;
  float largest[kWideGroups];  // of the pages of each warp that copies them
};
struct NoScales {};

template <typename Kind, int Dim>
struct WideShared {
  static constexpr int kTasks = Kind::kInt8 ? 2 : 4;
  // Of a page's values, with their flags. Codes need none.
  static constexpr int kValueSlot = Kind::kInt8 ? kPageBytes<Dim> : kFlaggedPageBytes<Dim>;
  // Of one task: those of the next follow when the last scores are there. Tiles of 8 rows x 8
  // values.
  alignas(128) std::byte query[kWideRows * Dim * 2];
  alignas(128) std::byte key[kWideStages][kPagesPerCut * kPageBytes<Dim>];
  alignas(128) std::byte value[kWideStages][kPagesPerCut][kValueSlot];
  // The running partial of the task's groups but the last, every thread's own values; by warp, tile
  // of 8 values and lane. At the task's end each warp stages its partials here.
  float4 kv_chunk[kWideConsumerWarps][Dim / 8][32];
  WideTask task[kTasks];
  [[no_unique_address]] std::conditional_t<Kind::kInt8, WideScales, NoScales> scales;
  std::uint64_t task_full[kTasks], task_empty[kTasks], rows_full[kTasks];
  std::uint64_t query_full[kWideGroups][1], query_empty[kWideGroups][1];  // each group has its half
  std::uint64_t key_full[kWideStages], key_empty[kWideStages];
  std::uint64_t value_full[kWideStages], value_empty[kWideStages];
  // Codes: they are there, but no operands yet; and the scales of a cut.
  std::uint64_t key_codes[kWideStages], value_codes[kWideStages];
  std::uint64_t scale_full[1], scale_empty[1];
};
static_assert(sizeof(WideShared<KvKind<__half, false>, 128>) <= kMostSharedBytes);
static_assert(sizeof(WideShared<KvKind<__half, true>, 128>) <= kMostSharedBytes);

#ifdef BANYAN_SM90A

// Places of a ring for things that are numbered from 0: where thing `n` lies, and the parity of the
// phase that its barriers are in. The number of places is a power of two.
template <int Places>
__device__ int PlaceOf(unsigned n) {
  static_assert((Places & (Places - 1)) == 0);
  return static_cast<int>(n % Places);
}
template <int Places>
__device__ unsigned ParityOf(unsigned n) {
  return n / Places % 2;
}

// Until thing `n` is there, or until its place is free for it.
template <int Places>
__device__ void WaitFull(std::uint64_t (&barriers)[Places], unsigned n) {
  Wait(barriers[PlaceOf<Places>(n)], ParityOf<Places>(n));
}
template <int Places>
__device__ void WaitEmpty(std::uint64_t (&barriers)[Places], unsigned n) {
  Wait(barriers[PlaceOf<Places>(n)], ParityOf<Places>(n) ^ 1);
}

// By one thread, before the others begin.
template <typename Kind, int Dim>
__device__ void InitBarriers(WideShared<Kind, Dim>& shared) {
  for (int i = 0; i < WideShared<Kind, Dim>::kTasks; ++i) {
    InitBarrier(shared.task_full[i], 1);
    InitBarrier(shared.rows_full[i], 1);
    InitBarrier(shared.task_empty[i], kWideConsumerWarps + 3);  // and the other producer warps
  }
  for (int i = 0; i < kWideGroups; ++i) {
    InitBarrier(shared.query_full[i][0], 1);
    InitBarrier(shared.query_empty[i][0], kWideConsumerWarps / kWideGroups);
  }
  constexpr int kLoaders = Kind::kInt8 ? kWideGroups : 1;  // of operands
  for (int i = 0; i < kWideStages; ++i) {
    InitBarrier(shared.key_full[i], kLoaders);
    InitBarrier(shared.key_empty[i], kWideConsumerWarps);
    InitBarrier(shared.value_full[i], kLoaders);
    InitBarrier(shared.value_empty[i], kWideConsumerWarps);
    InitBarrier(shared.key_codes[i], 1);
    InitBarrier(shared.value_codes[i], 1);
  }
  InitBarrier(shared.scale_full[0], kLoaders);
  InitBarrier(shared.scale_empty[0], kWideConsumerWarps);
  PublishBarriers();
}
// For thing `n`: one arrival for the warp, after all that its lanes did.
template <int Places>
__device__ void ArriveAsWarp(std::uint64_t (&barriers)[Places], unsigned n) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) Arrive(barriers[PlaceOf<Places>(n)]);
}

// Where the rows of a task stand. All is loaded before anything is stored: loads that wait for one
// another cost most of a block's start.
__device__ inline void LoadRows(const AttentionCall& call, const UnitView& unit, WideTask& task) {
  constexpr int kPerLane = kWideRows / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, rows = task.rows;
  int position[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    position[i] = call.positions[unit.Row(min(lane + 32 * i, rows - 1))];
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int row = lane + 32 * i;
    task.offset[row] = row < rows ? position[i] - task.unit.first_position : -1;
  }
}

// Asks for the queries of `Rounds` times 16 packed rows from `first` on, by one warp. Rows that are
// not there take another row's values; their results are not read.
template <int Dim, int Rounds>
__device__ void AskForQueries(const UnitView& unit, const WideTask& task, int first,
                              std::byte* query) {
  constexpr int kChunks = Dim / 8;  // of 16 bytes: two lanes a row, each every other chunk
  const int lane = static_cast<int>(threadIdx.x) % 32, rows = task.rows;
  const std::byte* source[Rounds];
#pragma unroll
  for (int i = 0; i < Rounds; ++i) {
    source[i] = unit.ScaledQuery(min(first + 16 * i + lane / 2, rows - 1)) + lane % 2 * 16;
  }
#pragma unroll
  for (int i = 0; i < Rounds; ++i) {
    if (first + 16 * i >= rows) break;
    const int row = first + 16 * i + lane / 2;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk += 2) {
      CopyAsync(query + TileOffset(row, (chunk + lane % 2) * 8, Dim) * 2, source[i] + chunk * 16,
                true);
    }
  }
  CommitCopies();
}
__device__ inline void AwaitQueries() {
  WaitForCopies<0>();
  PublishToMatrixUnits();
}

// One of the two warps that copy queries, those of one group. The warps that compute copy the
// queries of the first task themselves: everything waits for those, and it is faster.
template <typename Kind, int Dim>
__device__ void LoadGroupQueries(const AttentionCall& call, WideShared<Kind, Dim>& shared,
                                 int group) {
  WaitForEarlierKernels();
  for (unsigned n = 0;; ++n) {
    WaitFull(shared.task_full, n);
    const WideTask& task = shared.task[PlaceOf<WideShared<Kind, Dim>::kTasks>(n)];
    if (task.kv_head < 0) return;
    WaitEmpty(shared.query_empty[group], n);
    if (n > 0) {
      AskForQueries<Dim, kWideRows / 32>(UnitView(call, task.unit, task.kv_head), task, group * 64,
                                         shared.query);
      AwaitQueries();
    }
    ArriveAsWarp(shared.query_full[group], n);
    ArriveAsWarp(shared.task_empty, n);
  }
}

// Partials of a unit without keys that any row sees.
__device__ inline void StoreEmpty(const AttentionCall& call, const UnitView& unit) {
  const int lane = static_cast<int>(threadIdx.x) % 32, dim = call.shape.head_dim;
  for (int row = 0; row < min(kWideRows, unit.rows_left()); ++row) {
    const std::int64_t at = unit.Partial(row);
    if (at < 0) continue;
    if (call.finishes) {
      const std::int64_t first = unit.Row(row) * call.out_stride + unit.Head(row) * dim;
      for (int d = lane; d < dim; d += 32) {
        if (call.out.bf16 != nullptr) {
          call.out.bf16[first + d] = __nv_bfloat16(0.0f);
        } else {
          call.out.float32[first + d] = 0.0f;
        }
      }
      continue;
    }
    call.partials.max[at] = -INFINITY;
    call.partials.sum[at] = 0.0f;
    for (int d = lane; d < dim; d += 32) call.partials.value[at * dim + d] = 0.0f;
  }
  __syncwarp();  // before the next unit takes the place of this one
}

// By each block when it has drawn its last: where no merge follows, the last of them leaves the
// counters as it found them.
__device__ inline void ResetCounters(const AttentionCall& call, int blocks) {
  WaitForEarlierKernels();
  if (threadIdx.x % 32 != 0 || atomicAdd(&call.next_unit[1], 1) != blocks - 1) return;
  call.next_unit[0] = call.next_unit[1] = 0;
}

// The warp that opens tasks: the first by the block's place, later ones from the counter.
template <typename Kind, int Dim>
__device__ void OpenTasks(const AttentionCall& call, WideShared<Kind, Dim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32, kv_heads = call.shape.kv_heads;
  const int tasks = call.units.counts->wide * kv_heads, given = call.units.counts->wide_blocks;
  int index = static_cast<int>(blockIdx.x);
  const auto piece_of_unit = [&] {
    return reinterpret_cast<const int4*>(call.units.many_rows + index / kv_heads)[lane % 3];
  };
  int4 piece = {};
  if (index < tasks) piece = piece_of_unit();
  for (unsigned n = 0;;) {
    const bool more = index < tasks;
    WideTask& task = shared.task[PlaceOf<WideShared<Kind, Dim>::kTasks>(n)];
    WaitEmpty(shared.task_empty, n);
    if (lane < 3) reinterpret_cast<int4*>(&task.unit)[lane] = piece;
    if (lane == 0) task.kv_head = more ? index % kv_heads : -1;
    __syncwarp();
    const UnitView unit(call, task.unit, task.kv_head);
    const CutRange cuts = more ? unit.Cuts() : CutRange();
    if (lane == 0 && more) {
      task.rows = min(kWideRows, unit.rows_left());
      task.cuts = cuts;
      task.whole = unit.WholeCuts();
    }
    if (!more || cuts.begin < cuts.end) ArriveAsWarp(shared.task_full, n);
    if (!more) {
      if (call.finishes) ResetCounters(call, given);
      return;
    }
    WaitForEarlierKernels();
    int next = 0;
    if (lane == 0) next = given + atomicAdd(&call.next_unit[0], 1);
    if (cuts.begin < cuts.end) {
      LoadRows(call, unit, task);
      ArriveAsWarp(shared.rows_full, n);
      ++n;
    } else {
      StoreEmpty(call, unit);
    }
    index = __shfl_sync(0xffffffffu, next, 0);
    if (index < tasks) piece = piece_of_unit();
  }
}

// The warp that copies pages. Codes come to the end of the places that their operands take.
template <typename Kind, int Dim>
__device__ void LoadPages(const AttentionCall& call, WideShared<Kind, Dim>& shared) {
  constexpr int kCodesAt = Kind::kInt8 ? kPageBytes<Dim> - kScaledCodeBytes<Dim> : 0;
  constexpr int kKeys = kKeyBytes<Kind, Dim>, kValues = kValueBytes<Kind, Dim>;
  auto& key_there = Kind::kInt8 ? shared.key_codes : shared.key_full;
  auto& value_there = Kind::kInt8 ? shared.value_codes : shared.value_full;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned cut = 0;
  for (unsigned n = 0;; ++n) {
    WaitFull(shared.task_full, n);
    const WideTask& task = shared.task[PlaceOf<WideShared<Kind, Dim>::kTasks>(n)];
    if (task.kv_head < 0) return;
    const UnitView unit(call, task.unit, task.kv_head);
    const CutRange cuts = task.cuts;
    for (int begin = cuts.begin; begin < cuts.end; begin += kCutKeys, ++cut) {
      const int at = PlaceOf<kWideStages>(cut);
      // Where the cut has fewer pages its last one comes again: every place is written.
      const int page = min(lane, unit.Pages(begin) - 1);
      const std::byte* block =
          lane < kPagesPerCut ? unit.Block(unit.Page(begin + page * kPageTokens)) : nullptr;
      if (cut == 0) WaitForEarlierKernels();
      WaitEmpty(shared.key_empty, cut);
      if (lane == 0) ArriveExpecting(key_there[at], kPagesPerCut * kKeys);
      __syncwarp();
      if (lane < kPagesPerCut) {
        CopyBulk(shared.key[at] + lane * kPageBytes<Dim> + kCodesAt, block, kKeys, key_there[at]);
      }
      WaitEmpty(shared.value_empty, cut);
      if (lane == 0) ArriveExpecting(value_there[at], kPagesPerCut * kValues);
      __syncwarp();
      if (lane < kPagesPerCut) {
        CopyBulk(shared.value[at][lane] + kCodesAt, block + call.kv.layout.value_offset, kValues,
                 value_there[at]);
      }
    }
    ArriveAsWarp(shared.task_empty, n);
  }
}

// --- 8-bit codes as operands --------------------------------------------------------------------
// Two of the producer warps
// turn codes into half precision in place and pass their scales on. Codes are exact there. Scales
// go to the scores and, in units of the largest that a row sees, to the weights (softmax.cuh), as
// in attention_blocks.cu and with its bits.
//
// Of a cut come the keys, the values and then the scales of both, which replace those of the cut
// before it. This warp also copies the queries of one group, as LoadGroupQueries does for 16 bits.
template <typename Kind, int Dim>
class CodeLoader {
 public:
  using Shared = WideShared<Kind, Dim>;

  __device__ CodeLoader(const AttentionCall& call, Shared& shared, int number)
      : call_(call), shared_(shared), number_(number), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    WaitForEarlierKernels();
    unsigned cut = 0;
    for (unsigned n = 0;; ++n) {
      WaitFull(shared_.task_full, n);
      const WideTask& task = shared_.task[PlaceOf<Shared::kTasks>(n)];
      if (task.kv_head < 0) return;
      const CutRange cuts = task.cuts;
      WaitEmpty(shared_.query_empty[number_], n);
      if (n > 0) {
        AskForQueries<Dim, kWideRows / 32>(UnitView(call_, task.unit, task.kv_head), task,
                                           number_ * 64, shared_.query);
      }
      for (int begin = cuts.begin; begin < cuts.end; begin += kCutKeys, ++cut) {
        const int at = PlaceOf<kWideStages>(cut);
        float key_scale[kPages], value_scale[kPages];
        LoadKeys(cut, shared_.key[at], key_scale);
        if (begin == cuts.begin) {
          if (n > 0) AwaitQueries();
          ArriveAsWarp(shared_.query_full[number_], n);
        }
        LoadValues(cut, shared_.value[at], value_scale);
        WaitEmpty(shared_.scale_empty, cut);
        PassScales(key_scale, value_scale);
        ArriveAsWarp(shared_.scale_full, cut);
      }
      ArriveAsWarp(shared_.task_empty, n);
    }
  }

 private:
  static constexpr int kPages = kPagesPerCut / kWideGroups;  // of a cut, for each warp
  static constexpr int kRows = kCodeBytes<Dim> / 16;         // of 16 codes in a page
  static constexpr int kRowsPerLane = (kRows + 31) / 32;

  __device__ int Page(int i) const { return number_ * kPages + i; }

  __device__ void LoadKeys(unsigned cut, std::byte* keys, float (&scale)[kPages]) {
    WaitFull(shared_.key_codes, cut);
#pragma unroll
    for (int i = 0; i < kPages; ++i) scale[i] = Unpack(keys + Page(i) * kPageBytes<Dim>);
    PublishToMatrixUnits();
    ArriveAsWarp(shared_.key_full, cut);
  }
  __device__ void LoadValues(unsigned cut, std::byte (&values)[kPagesPerCut][Shared::kValueSlot],
                             float (&scale)[kPages]) {
    WaitFull(shared_.value_codes, cut);
#pragma unroll
    for (int i = 0; i < kPages; ++i) scale[i] = Unpack(values[Page(i)]);
    PublishToMatrixUnits();
    ArriveAsWarp(shared_.value_full, cut);
  }

  // A page's codes to operands in the same place. Returns the scale of token `lane`, for lanes
  // below kPageTokens.
  __device__ float Unpack(std::byte* page) const {
    const std::byte* codes = page + kPageBytes<Dim> - kScaledCodeBytes<Dim>;
    uint4 row[kRowsPerLane];
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      const int r = lane_ + 32 * i;
      if (r < kRows) row[i] = *reinterpret_cast<const uint4*>(codes + r * 16);
    }
    const auto* scales = reinterpret_cast<const float*>(codes + kCodeBytes<Dim>);
    const float scale = lane_ < kPageTokens ? scales[lane_] : 0.0f;
    __syncwarp();  // all is read before anything is written over it
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      const int r = lane_ + 32 * i;
      if (r >= kRows) continue;
      uint4 first, second;
      UnpackRow(row[i], first, second);
      // A tile of codes becomes two tiles that follow one another.
      std::byte* to = page + r / 8 * (2 * kTileBytes) + r % 8 * 16;
      *reinterpret_cast<uint4*>(to) = first;
      *reinterpret_cast<uint4*>(to + kTileBytes) = second;
    }
    return scale;
  }

  __device__ void PassScales(const float (&key)[kPages], const float (&value)[kPages]) {
    WideScales& scales = shared_.scales;
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kPages; ++i) largest = fmaxf(largest, value[i]);
#pragma unroll
    for (int step = 1; step < kPageTokens; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    }
    if (lane_ == 0) scales.largest[number_] = largest;
    SyncSome(4, kWideGroups * 32);
    const float unit = fmaxf(scales.largest[0], scales.largest[1]);
    const float inverse_unit = InverseUnit(unit);
    if (lane_ == 0) scales.unit = unit;  // both write the same
    if (lane_ >= kPageTokens) return;
#pragma unroll
    for (int i = 0; i < kPages; ++i) {
      const int token = Page(i) * kPageTokens + lane_;
      scales.key[token] = key[i];
      scales.value[token] = value[i];
      scales.ratio[token] = value[i] * inverse_unit;
    }
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int number_, lane_;
};

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
