// Narrow units on Hopper: up to 8 packed rows with the keys of one KV head. What counts is the
// stream of bytes: a block of four warps holds one cut, whose pages (keys, values and flags lie
// together) come by one bulk copy each, and three blocks on a multiprocessor take turns at waiting
// and computing. The next cut's pages are known before the present one is done.
//
//   scores   each warp two pages: keys on the 16-row side of the matrix instruction, rows on the
//            8-column side, so that one row with a few heads wastes little
//   weights  each warp two rows
//   values   each warp a quarter of the head
//
// Sums run over the same values in the same order as in the other kernels (softmax.cuh).
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/for_head_dim.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/kv_tiles.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/unit.cuh"

namespace banyan::cuda {

inline constexpr int kNarrowWarps = 4;
inline constexpr int kNarrowThreads = kNarrowWarps * 32;
inline constexpr int kNarrowBlocks = 3;  // on a multiprocessor

template <int Dim>
struct NarrowShared {
  // Keys, values and flags of a page.
  static constexpr int kBytes = kPageBytes<Dim> + kFlaggedPageBytes<Dim>;
  struct Task {
    WorkUnit unit;
    int kv_head;
  };
  struct Cut {
    int task;  // which of the three; -1: there are no more
    int begin, pages;
  };
  alignas(128) std::byte page[kPagesPerCut][kBytes];
  alignas(128) std::byte weight[kScoreTiles * kTileBytes];  // tiles of 8 rows x 8 keys
  float score[kNarrowRows][kCutKeys + 4];
  MergeFactors factors[kNarrowRows];
  Task task[3];  // the one before, which a warp may still be storing, the one at hand, the next
  Cut cut[2];    // the one at hand and the next
  std::uint64_t full;
};

#ifdef BANYAN_SM90A

template <typename Element, int Dim>
class NarrowBlock {
 public:
  using Shared = NarrowShared<Dim>;
  using Cut = typename Shared::Cut;

  __device__ NarrowBlock(const AttentionCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        tasks_(call.units.counts[1] * call.shape.kv_heads) {}

  __device__ void Run() {
    if (static_cast<int>(blockIdx.x) >= tasks_) return;
    if (warp_ == 0) {
      coming_ = static_cast<int>(blockIdx.x);
      LoadComing();
      Draw();
      OpenComing(0, 0);
      CopyPages(shared_.cut[0].pages);
    }
    __syncthreads();
    Start(0);
    for (int at = 0;; at ^= 1) {
      const Cut cut = shared_.cut[at];
      if (warp_ == 0) FindNext(cut, at ^ 1);
      if (cut.pages > 0) {
        Wait(shared_.full, parity_);
        parity_ ^= 1;
        AttendCut(View(cut.task), cut);
      }
      __syncthreads();  // the pages are free, and the next cut is known
      const Cut next = shared_.cut[at ^ 1];
      if (warp_ == 0 && next.task >= 0) CopyPages(next.pages);
      if (next.task == cut.task) continue;
      Store(View(cut.task));
      if (next.task < 0) return;
      Start(next.task);
    }
  }

 private:
  __device__ UnitView View(int task) const {
    return UnitView(call_, shared_.task[task].unit, shared_.task[task].kv_head);
  }

  // --- The order of work, by warp 0 --------------------------------------------------------------
  // Task numbers: the first by the block's place, later ones from the counter, drawn two ahead.
  __device__ void Draw() {
    if (lane_ == 0) drawn_ = static_cast<int>(gridDim.x) + atomicAdd(&call_.next_unit[1], 1);
  }
  // Asks for the unit of the coming task.
  __device__ void LoadComing() {
    if (coming_ >= tasks_ || lane_ >= 3) return;
    coming_unit_ =
        reinterpret_cast<const int4*>(call_.units.few_rows + coming_ / call_.shape.kv_heads)[lane_];
  }
  // The coming task takes place `task`, and its first cut place `at`; the task after it becomes the
  // coming one. The cut may be empty: rows that see nothing still leave a partial.
  __device__ void OpenComing(int task, int at) {
    if (lane_ < 3) reinterpret_cast<int4*>(&shared_.task[task].unit)[lane_] = coming_unit_;
    if (lane_ == 0) shared_.task[task].kv_head = coming_ % call_.shape.kv_heads;
    __syncwarp();
    coming_ = __shfl_sync(0xffffffffu, drawn_, 0);
    LoadComing();
    Draw();
    const UnitView unit = View(task);
    SetCut(unit, task, unit.NextCut(unit.key_begin()), at);
  }
  __device__ void SetCut(const UnitView& unit, int task, int begin, int at) {
    const int pages = begin < unit.key_end() ? unit.Pages(begin) : 0;
    if (lane_ == 0) shared_.cut[at] = {task, begin, pages};
    if (lane_ < pages) block_ = unit.Block(unit.Page(begin + lane_ * kPageTokens));
    __syncwarp();
  }
  __device__ void FindNext(const Cut& cut, int at) {
    const UnitView unit = View(cut.task);
    const int begin = unit.NextCut(cut.begin + kCutKeys);
    if (begin < unit.key_end()) {
      SetCut(unit, cut.task, begin, at);
    } else if (coming_ < tasks_) {
      OpenComing((cut.task + 1) % 3, at);
    } else if (lane_ == 0) {
      shared_.cut[at] = {-1, 0, 0};
    }
  }
  __device__ void CopyPages(int pages) {
    if (pages == 0) return;
    if (lane_ == 0) ArriveExpecting(shared_.full, pages * Shared::kBytes);
    __syncwarp();
    if (lane_ < pages) CopyBulk(shared_.page[lane_], block_, Shared::kBytes, shared_.full);
  }

  // --- The arithmetic ----------------------------------------------------------------------------
  // Weights: the row that the lane works at, together with 15 others; it has keys of one class
  // modulo 8 in one half of the cut.
  __device__ int WeightRow() const { return 2 * warp_ + lane_ / 16; }
  // Scores and values: the lane's two rows.
  __device__ int PackedRow(int i) const { return 2 * (lane_ % 4) + i; }
  // Values of a head come in tiles of 16; the warp has tiles warp_ and warp_ + 4.
  __device__ int ValueTile(int j) const { return warp_ + kNarrowWarps * j; }

  __device__ void Start(int task) {
    const UnitView unit = View(task);
    // Of every 16 values, lane l has those of row l / 4 at 2 (l % 4) and 8 further on. Rows that
    // are not there load another one's values: nobody reads what becomes of them.
    const std::byte* query = unit.ScaledQuery(min(lane_ / 4, unit.rows_left() - 1));
#pragma unroll
    for (int k = 0; k < Dim / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        query_[k][i] =
            *reinterpret_cast<const std::uint32_t*>(query + k * 32 + i * 16 + 4 * (lane_ % 4));
      }
    }
    offset_ = unit.Offset(WeightRow());
    row_ = RunningRow();
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[j][i] = 0.0f;
    }
  }

  __device__ void AttendCut(const UnitView& unit, const Cut& cut) {
    Score(cut.pages);
    const bool unruly = __syncthreads_or(Marked(cut.pages)) != 0;
    Weigh(unit, cut.begin);
    if (unruly) HideUnrulyValues(unit, cut);
    __syncthreads();
    AddValues(cut.pages);
  }

  __device__ void Score(int pages) {
    const int page = 2 * warp_;
    if (page >= pages) return;
    const int tile = lane_ / 8;
    const int from = ((tile % 2) * (Dim / 8) + tile / 2) * kTileBytes + lane_ % 8 * 16;
    const std::byte* first = shared_.page[page] + from;
    const std::byte* second = shared_.page[min(page + 1, pages - 1)] + from;
    float score[2][4] = {};
#pragma unroll
    for (int k = 0; k < Dim / 16; ++k) {
      std::uint32_t a[4], b[4];
      LoadTiles(a, first + k * 2 * kTileBytes);
      LoadTiles(b, second + k * 2 * kTileBytes);
      Mma(score[0], a, query_[k][0], query_[k][1], Element{});
      Mma(score[1], b, query_[k][0], query_[k][1], Element{});
    }
    // Value i is key lane / 4 + 8 (i / 2) of the page for row i % 2 of the lane's two.
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared_.score[PackedRow(i % 2)][(page + j) * 16 + 8 * (i / 2) + lane_ / 4] = score[j][i];
      }
    }
  }

  __device__ void Weigh(const UnitView& unit, int begin) {
    constexpr int kTiles = kScoreTiles / 2;
    const int row = WeightRow(), first_tile = lane_ / 8 % 2 * kTiles, key_class = lane_ % 8;
    const VisibleKeys seen = unit.Seen(offset_, begin);
    float value[kTiles], largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int key = (first_tile + n) * 8 + key_class;
      const bool visible = key >= seen.first && key < seen.last;
      value[n] = visible ? shared_.score[row][key] : -INFINITY;
      if (visible) largest = fmaxf(largest, value[n]);
    }
#pragma unroll
    for (int step = 1; step < 16; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    }
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int key = (first_tile + n) * 8 + key_class;
      const bool visible = key >= seen.first && key < seen.last;
      value[n] = visible ? Exp2(value[n] - largest) : 0.0f;
      sum += value[n];
      *reinterpret_cast<Element*>(shared_.weight + (first_tile + n) * kTileBytes + row * 16 +
                                  key_class * 2) = Rounded(value[n]);
    }
    // The chain of the second half goes on where that of the first ended.
    float chain = __shfl_xor_sync(0xffffffffu, sum, 8);
    if (first_tile > 0) {
      sum = chain;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) sum += value[n];
    }
    chain = __shfl_xor_sync(0xffffffffu, sum, 8);
    if (first_tile == 0) sum = chain;
#pragma unroll
    for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    row_.factors = PrepareMerge(row_.max, row_.sum, largest, sum);
    if (lane_ % 16 == 0) shared_.factors[row] = row_.factors;
  }
  __device__ static Element Rounded(float x) {
    if constexpr (std::is_same_v<Element, __half>) {
      return __float2half_rn(x);
    } else {
      return __float2bfloat16_rn(x);
    }
  }

  __device__ void AddValues(int pages) {
    const int tile = lane_ / 8;
    float sum[2][4] = {};
#pragma unroll
    for (int page = 0; page < kPagesPerCut; page += 2) {
      if (page >= pages) continue;
      std::uint32_t weight[4];
      LoadTiles(weight, shared_.weight + page * 2 * kTileBytes + lane_ * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (page + i >= pages) continue;
        const std::byte* values = shared_.page[page + i] + kPageBytes<Dim> +
                                  ((tile / 2) * (Dim / 8) + tile % 2) * kTileBytes + lane_ % 8 * 16;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (ValueTile(j) >= Dim / 16) continue;
          std::uint32_t a[4];
          LoadTilesTransposed(a, values + ValueTile(j) * 2 * kTileBytes);
          Mma(sum[j], a, weight[2 * i], weight[2 * i + 1], Element{});
        }
      }
    }
    const MergeFactors factors[2] = {shared_.factors[PackedRow(0)], shared_.factors[PackedRow(1)]};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        total_[j][i] = MergeValue(factors[i % 2], total_[j][i], sum[j][i]);
    }
  }

  // --- Values that must not meet rows which do not see them (kv_pages.h) -------------------------
  __device__ const std::byte& Flag(int key) const {
    return shared_.page[key / kPageTokens][2 * kPageBytes<Dim> + key % kPageTokens];
  }
  // This thread's key of the cut is marked.
  __device__ bool Marked(int pages) const {
    const int key = static_cast<int>(threadIdx.x);
    return key < pages * kPageTokens && Flag(key) != std::byte{0};
  }
  // Marked tokens count as zero, and rows that see one are broken and show it.
  __device__ void HideUnrulyValues(const UnitView& unit, const Cut& cut) {
    static_assert(kNarrowThreads == kCutKeys);
    if (Marked(cut.pages)) {
      const int key = static_cast<int>(threadIdx.x);
      ClearToken<Dim>(shared_.page[key / kPageTokens] + kPageBytes<Dim>, key % kPageTokens);
      PublishToMatrixUnits();  // before the copy engine writes here again
    }
    const VisibleKeys seen = unit.Seen(offset_, cut.begin);
    for (int key = seen.first; key < seen.last; ++key) {
      if (Flag(key) != std::byte{0}) row_.sum = NAN;
    }
  }

  __device__ void Store(const UnitView& unit) const {
    const int dim = call_.shape.head_dim;
    if (lane_ % 16 == 0) {
      const std::int64_t at = unit.Partial(WeightRow());
      if (at >= 0) {
        call_.partials.max[at] = row_.max;
        call_.partials.sum[at] = row_.sum;
      }
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t at = unit.Partial(PackedRow(row));
      if (at < 0) continue;
      float* value = call_.partials.value + at * dim;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = ValueTile(j) * 16 + half * 8 + lane_ / 4;
          if (d < dim) value[d] = total_[j][2 * half + row];
        }
      }
    }
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int warp_, lane_, tasks_;
  unsigned parity_ = 0;
  // Warp 0 only: numbers of the next task and, in lane 0, of the one after it; the next cut's page.
  int coming_ = 0, drawn_ = 0;
  int4 coming_unit_ = {};
  const std::byte* block_ = nullptr;

  std::uint32_t query_[Dim / 16][2];
  int offset_;      // of WeightRow
  RunningRow row_;  // likewise
  float total_[2][4];
};

#endif  // BANYAN_SM90A

template <typename Element, int Dim>
__global__ void __launch_bounds__(kNarrowThreads, kNarrowBlocks)
    AttendNarrowKernel(const __grid_constant__ AttentionCall call) {
#ifdef BANYAN_SM90A
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<NarrowShared<Dim>*>(memory);
  if (threadIdx.x == 0) {
    InitBarrier(shared.full, 1);
    PublishBarriers();
  }
  __syncthreads();
  NarrowBlock<Element, Dim>(call, shared).Run();
#endif
}

template <typename Element, int Dim>
void LaunchNarrow(cudaStream_t stream, int blocks, const AttentionCall& call) {
  constexpr int kBytes = static_cast<int>(sizeof(NarrowShared<Dim>));
  static const cudaError_t raised = cudaFuncSetAttribute(
      AttendNarrowKernel<Element, Dim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  Check(raised, "shared memory of attention");
  AttendNarrowKernel<Element, Dim>
      <<<static_cast<unsigned>(blocks), kNarrowThreads, kBytes, stream>>>(call);
  CheckLaunch("attention of narrow units");
}

template <typename Element>
void AttendNarrow(cudaStream_t stream, int multiprocessors, const AttentionCall& call) {
  const int blocks = multiprocessors * kNarrowBlocks;
  ForHeadDim<32, 64, 80, 96, 128>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchNarrow<Element, decltype(dim)::value>(stream, blocks, call);
  });
}

}  // namespace banyan::cuda
