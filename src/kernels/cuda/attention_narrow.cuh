// Narrow units on Hopper: up to 8 packed rows with the keys of one KV head, a warp to itself. The
// keys stand on the 16-row side of the matrix instruction and the rows on the 8-column side, so
// that one row with a few heads wastes little; what counts is the stream of bytes. Each warp keeps
// a ring of pages on their way through bulk copies, the keys of a cut and then its values, and goes
// from unit to unit without a gap: the next one's index, queries and first pages come early.
//
// Sums run over the same values in the same order as in the other kernels (softmax.cuh).
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/kv_tiles.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/unit.cuh"

namespace banyan::cuda {

inline constexpr int kNarrowWarps = 6;
inline constexpr int kNarrowThreads = kNarrowWarps * 32;
// All keys of a cut on their way at a time: one block fills a multiprocessor's shared memory.
inline constexpr int kNarrowSlots = kCutKeys / kPageTokens;

template <int Dim>
struct NarrowShared {
  struct Task {
    WorkUnit unit;
    int kv_head;
  };
  alignas(128) std::byte page[kNarrowWarps][kNarrowSlots][kFlaggedPageBytes<Dim>];
  // Tiles of 8 rows x 8 values; whole fours of them are read.
  alignas(128) std::byte query[kNarrowWarps][(Dim / 8 + 3) / 4 * 4 * kTileBytes];
  std::uint64_t full[kNarrowWarps][kNarrowSlots];
  Task task[kNarrowWarps][2];  // the one at hand and the next
};

#ifdef BANYAN_SM90A

// 8 x 8 16-bit values: lane l gives row l / 4, columns 2 (l % 4) and the next; gets the transpose.
__device__ inline std::uint32_t TransposeTile(std::uint32_t pair) {
  std::uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(result) : "r"(pair));
  return result;
}

template <typename Element, int Dim>
class NarrowWarp {
 public:
  using Shared = NarrowShared<Dim>;

  __device__ NarrowWarp(const AttentionCall& call, Shared& shared)
      : call_(call),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        slots_(shared.page[warp_]),
        full_(shared.full[warp_]),
        task_(shared.task[warp_]),
        query_(shared.query[warp_]),
        tasks_(call.units.counts[1] * call.shape.kv_heads) {}

  // Cut after cut, of one task after the other; what comes next is on its way before it is needed.
  __device__ void Run() {
    int first = static_cast<int>(blockIdx.x) * kNarrowWarps + warp_;
    if (first >= tasks_) return;
    coming_ = first;
    LoadComing();
    Draw();
    Cut cut = cursor_ = OpenComing(0);
    Pump({}, kNarrowSlots);
    LoadQueries(View(0));
    StartRows();
    for (;;) {
      const Cut next = Following(cut);
      Pump(next, kNarrowSlots);
      AttendCut(cut, next);
      if (next.task != cut.task) {
        Store(View(cut.task));
        if (!next.exists) return;
        StartRows();
      }
      cut = next;
    }
  }

 private:
  // A cut of the task in one of the two places; in lane l the id of its page l.
  struct Cut {
    int task = -1;
    bool exists = false;
    int begin = 0;
    int pages = 0, page = 0;
  };

  __device__ UnitView View(int task) const {
    return UnitView(call_, task_[task].unit, task_[task].kv_head);
  }
  // Of the unit: the lane's rows in scores, weights and values. Queries are loaded by row lane / 4.
  __device__ int PackedRow(int i) const { return 2 * (lane_ % 4) + i; }

  // --- The order of work
  // --------------------------------------------------------------------------- Task numbers: the
  // first by the warp's place, later ones from the counter, drawn two ahead.
  __device__ void Draw() {
    if (lane_ == 0)
      drawn_ = static_cast<int>(gridDim.x) * kNarrowWarps + atomicAdd(&call_.next_unit[1], 1);
  }
  // Asks for the unit of the coming task.
  __device__ void LoadComing() {
    if (coming_ >= tasks_ || lane_ >= 3) return;
    coming_unit_ =
        reinterpret_cast<const int4*>(call_.units.few_rows + coming_ / call_.shape.kv_heads)[lane_];
  }
  // The coming task takes place `task`; the one after it becomes the coming one. Its first cut may
  // be empty: rows that see nothing still leave a partial.
  __device__ Cut OpenComing(int task) {
    if (coming_ >= tasks_) return {task, false, 0, 0, 0};
    __syncwarp();
    if (lane_ < 3) reinterpret_cast<int4*>(&task_[task].unit)[lane_] = coming_unit_;
    if (lane_ == 0) task_[task].kv_head = coming_ % call_.shape.kv_heads;
    __syncwarp();
    coming_ = __shfl_sync(0xffffffffu, drawn_, 0);
    LoadComing();
    Draw();
    const UnitView unit = View(task);
    return CutAt(task, unit, unit.NextCut(unit.key_begin()));
  }
  __device__ Cut CutAt(int task, const UnitView& unit, int begin) const {
    Cut cut{task, true, begin, 0, 0};
    if (begin >= unit.key_end()) return cut;
    cut.pages = unit.Pages(begin);
    if (lane_ < cut.pages) cut.page = unit.Page(begin + lane_ * kPageTokens);
    return cut;
  }
  // The next cut of the task, or the first of the next task, whose queries are then asked for.
  __device__ Cut Following(const Cut& cut) {
    const UnitView unit = View(cut.task);
    const int begin = unit.NextCut(cut.begin + kCutKeys);
    if (begin < unit.key_end()) return CutAt(cut.task, unit, begin);
    const Cut next = OpenComing(1 - cut.task);
    if (next.exists) LoadQueries(View(next.task));
    return next;
  }

  // --- The ring of pages
  // --------------------------------------------------------------------------- Asks for up to
  // `most` more pages while slots are free: the keys of the cursor's cut, then its values, then
  // those of `next`, where the cursor waits until the warp has come there too.
  __device__ void Pump(const Cut& next, int most) {
    for (int i = 0; i < most; ++i) {
      if (asked_ - used_ >= kNarrowSlots) return;
      if (cursor_page_ == 2 * cursor_.pages) {
        if (cursor_.task == next.task && cursor_.begin == next.begin) return;
        if (!next.exists) return;
        cursor_ = next;
        cursor_page_ = 0;
        if (next.pages == 0) return;
      }
      const bool values = cursor_page_ >= cursor_.pages;
      const int page = __shfl_sync(0xffffffffu, cursor_.page,
                                   values ? cursor_page_ - cursor_.pages : cursor_page_);
      if (lane_ == 0) {
        const int slot = static_cast<int>(asked_ % kNarrowSlots);
        const std::byte* block = View(cursor_.task).Block(page);
        const int bytes = values ? kFlaggedPageBytes<Dim> : kPageBytes<Dim>;
        ArriveExpecting(full_[slot], bytes);
        CopyBulk(slots_[slot], values ? block + call_.kv.layout.value_offset : block, bytes,
                 full_[slot]);
      }
      ++cursor_page_;
      ++asked_;
    }
  }
  // The page that was asked for `ahead` pages after the oldest that is not released.
  __device__ std::byte* Await(int ahead) const {
    const unsigned number = used_ + static_cast<unsigned>(ahead);
    const unsigned slot = number % kNarrowSlots;
    Wait(full_[slot], number / kNarrowSlots % 2);
    return slots_[slot];
  }
  __device__ void Release(int pages, const Cut& next) {
    __syncwarp();
    used_ += static_cast<unsigned>(pages);
    Pump(next, pages);
  }

  // --- The arithmetic
  // ------------------------------------------------------------------------------ Asks for the
  // queries and positions of a task's rows; StartRows waits for them.
  __device__ void LoadQueries(const UnitView& unit) {
    const int dim = call_.shape.head_dim;
    // Rows that are not there load another one's values: nobody reads what becomes of them.
    const float* query = unit.Query(min(lane_ / 4, unit.rows_left() - 1));
    if (dim == Dim) {
#pragma unroll
      for (int tile = 0; tile < Dim / 8; ++tile) {
        coming_query_[tile] = *reinterpret_cast<const float2*>(query + tile * 8 + 2 * (lane_ % 4));
      }
    } else {
#pragma unroll
      for (int tile = 0; tile < Dim / 8; ++tile) {
        const int d = tile * 8 + 2 * (lane_ % 4);
        coming_query_[tile].x = d < dim ? query[d] : 0.0f;
        coming_query_[tile].y = d + 1 < dim ? query[d + 1] : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) coming_offset_[i] = unit.Offset(PackedRow(i));
  }

  // Queries go to shared memory in tiles of 8 rows x 8 values.
  __device__ void StartRows() {
    const float scale = call_.shape.scale * kLog2E;
    __syncwarp();
#pragma unroll
    for (int tile = 0; tile < Dim / 8; ++tile) {
      *reinterpret_cast<std::uint32_t*>(query_ + tile * kTileBytes + lane_ * 4) =
          PackPair(__fmul_rn(coming_query_[tile].x, scale), __fmul_rn(coming_query_[tile].y, scale),
                   Element{});
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      offset_[i] = coming_offset_[i];
      rows_[i] = RunningRow();
    }
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[m][i] = 0.0f;
    }
  }

  __device__ void AttendCut(const Cut& cut, const Cut& next) {
    const UnitView unit = View(cut.task);
    float score[kPagesPerCut][4];
#pragma unroll
    for (int page = 0; page < kPagesPerCut; page += 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[page][i] = score[page + 1][i] = 0.0f;
      if (page + 1 < cut.pages) {
        const std::byte* first = Await(0);
        ScorePages(first, Await(1), score[page], score[page + 1]);
        Release(2, next);
      } else if (page < cut.pages) {
        const std::byte* only = Await(0);
        float unused[4] = {};
        ScorePages(only, only, score[page], unused);
        Release(1, next);
      }
    }
    std::uint32_t weight[kPagesPerCut][2];
    Weigh(unit, cut.begin, score, weight);

    float sum[Dim / 16][4];
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[m][i] = 0.0f;
    }
#pragma unroll
    for (int page = 0; page < kPagesPerCut; ++page) {
      if (page < cut.pages) {
        std::byte* values = Await(0);
        HideUnrulyValues(unit, cut.begin, page, values);
        AddPage(values, weight[page], sum);
        Release(1, next);
      }
    }
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total_[m][i] = MergeValue(rows_[i % 2].factors, total_[m][i], sum[m][i]);
      }
    }
  }

  // Two pages at a time, because each score is one chain. score, zero before: keys lane / 4 and
  // lane / 4 + 8 of the page for the lane's two rows each.
  __device__ void ScorePages(const std::byte* keys0, const std::byte* keys1, float (&score0)[4],
                             float (&score1)[4]) const {
    const int tile = lane_ / 8;
    const int from = ((tile % 2) * (Dim / 8) + tile / 2) * kTileBytes + lane_ % 8 * 16;
#pragma unroll
    for (int k = 0; k < Dim / 16; k += 2) {
      std::uint32_t query[4];
      LoadTiles(query, query_ + k * 2 * kTileBytes + lane_ * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (k + i == Dim / 16) break;
        std::uint32_t a[4], b[4];
        LoadTiles(a, keys0 + from + (k + i) * 2 * kTileBytes);
        LoadTiles(b, keys1 + from + (k + i) * 2 * kTileBytes);
        Mma(score0, a, query[2 * i], query[2 * i + 1], Element{});
        Mma(score1, b, query[2 * i], query[2 * i + 1], Element{});
      }
    }
  }

  __device__ void Weigh(const UnitView& unit, int begin, float (&score)[kPagesPerCut][4],
                        std::uint32_t (&weight)[kPagesPerCut][2]) {
    const bool all_seen = unit.AllSeen(begin);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const VisibleKeys seen = unit.Seen(offset_[row], begin);
      const auto visible = [&](int page, int half) {
        const int key = page * 16 + half * 8 + lane_ / 4;
        return all_seen || (key >= seen.first && key < seen.last);
      };
      float largest = -INFINITY;
#pragma unroll
      for (int page = 0; page < kPagesPerCut; ++page) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (visible(page, half)) largest = fmaxf(largest, score[page][2 * half + row]);
        }
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
      }
      float sum = 0.0f;
#pragma unroll
      for (int page = 0; page < kPagesPerCut; ++page) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& value = score[page][2 * half + row];
          value = visible(page, half) ? Exp2(value - largest) : 0.0f;
          sum += value;
        }
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      rows_[row].factors = PrepareMerge(rows_[row].max, rows_[row].sum, largest, sum);
    }
#pragma unroll
    for (int page = 0; page < kPagesPerCut; ++page) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weight[page][half] =
            TransposeTile(PackPair(score[page][2 * half], score[page][2 * half + 1], Element{}));
      }
    }
  }

  // sum: values lane / 4 and lane / 4 + 8 of every 16, for the lane's two rows each.
  __device__ void AddPage(const std::byte* values, const std::uint32_t (&weight)[2],
                          float (&sum)[Dim / 16][4]) const {
    const int tile = lane_ / 8;
    const std::byte* from =
        values + ((tile / 2) * (Dim / 8) + tile % 2) * kTileBytes + lane_ % 8 * 16;
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
      std::uint32_t a[4];
      LoadTilesTransposed(a, from + m * 2 * kTileBytes);
      Mma(sum[m], a, weight[0], weight[1], Element{});
    }
  }

  // Marked tokens (kv_pages.h) count as zero, and rows that see one are broken and show it.
  __device__ void HideUnrulyValues(const UnitView& unit, int begin, int page, std::byte* values) {
    const bool marked = lane_ < kPageTokens && values[kPageBytes<Dim> + lane_] != std::byte{0};
    const unsigned tokens = __ballot_sync(0xffffffffu, marked);
    if (tokens == 0) return;
    if (marked) ClearToken<Dim>(values, lane_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const VisibleKeys seen = unit.Seen(offset_[i], begin);
      const int from = min(max(seen.first - page * kPageTokens, 0), kPageTokens);
      const int to = min(max(seen.last - page * kPageTokens, 0), kPageTokens);
      if (from < to && (tokens & ((1u << to) - (1u << from))) != 0) rows_[i].sum = NAN;
    }
    PublishToMatrixUnits();  // before the copy engine writes here again
    __syncwarp();
  }

  __device__ void Store(const UnitView& unit) const {
    const int dim = call_.shape.head_dim;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t at = unit.Partial(PackedRow(row));
      if (at < 0) continue;
      if (lane_ / 4 == 0) {
        call_.partials.max[at] = rows_[row].max;
        call_.partials.sum[at] = rows_[row].sum;
      }
      if (rows_[row].sum == 0.0f) continue;
      float* value = call_.partials.value + at * dim;
#pragma unroll
      for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = m * 16 + half * 8 + lane_ / 4;
          if (d < dim) value[d] = total_[m][2 * half + row];
        }
      }
    }
  }

  const AttentionCall& call_;
  const int warp_, lane_;
  std::byte (*const slots_)[kFlaggedPageBytes<Dim>];
  std::uint64_t* const full_;
  typename Shared::Task* const task_;  // [2]
  std::byte* const query_;
  const int tasks_;

  int coming_ = 0, drawn_ = 0;  // numbers of the next task and, in lane 0, of the one after it
  int4 coming_unit_ = {};
  float2 coming_query_[Dim / 8];
  int coming_offset_[2];

  // Pages asked for and released since the kernel began: place in the ring, phase of its barrier.
  unsigned asked_ = 0, used_ = 0;
  Cut cursor_;           // what is being asked for: the cut at hand or the next
  int cursor_page_ = 0;  // of its keys, then of its values

  int offset_[2];
  RunningRow rows_[2];
  float total_[Dim / 16][4];
};

#endif  // BANYAN_SM90A

template <typename Element, int Dim>
__global__ void __launch_bounds__(kNarrowThreads, 1)
    AttendNarrowKernel(const __grid_constant__ AttentionCall call) {
#ifdef BANYAN_SM90A
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<NarrowShared<Dim>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kNarrowWarps * kNarrowSlots; ++i) {
      InitBarrier(shared.full[i / kNarrowSlots][i % kNarrowSlots], 1);
    }
    PublishBarriers();
  }
  __syncthreads();
  NarrowWarp<Element, Dim>(call, shared).Run();
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
void AttendNarrow(cudaStream_t stream, int blocks, const AttentionCall& call) {
  switch (call.kv.layout.padded_dim) {
    case 32:
      return LaunchNarrow<Element, 32>(stream, blocks, call);
    case 64:
      return LaunchNarrow<Element, 64>(stream, blocks, call);
    case 80:
      return LaunchNarrow<Element, 80>(stream, blocks, call);
    case 96:
      return LaunchNarrow<Element, 96>(stream, blocks, call);
    default:
      return LaunchNarrow<Element, 128>(stream, blocks, call);
  }
}

}  // namespace banyan::cuda
