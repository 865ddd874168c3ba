// Narrow units on Hopper: up to 8 packed rows with the keys of one KV head, a warp to itself. The
// keys stand on the 16-row side of the matrix instruction and the rows on the 8-column side, so
// that one row with a few heads wastes little; what counts is the stream of bytes. Each warp keeps
// a ring of pages on their way through bulk copies, the keys of a cut and then its values.
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
  alignas(128) std::byte page[kNarrowWarps][kNarrowSlots][kFlaggedPageBytes<Dim>];
  // Tiles of 8 rows x 8 values; whole fours of them are read.
  alignas(128) std::byte query[kNarrowWarps][(Dim / 8 + 3) / 4 * 4 * kTileBytes];
  std::uint64_t full[kNarrowWarps][kNarrowSlots];
  WorkUnit unit[kNarrowWarps];
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
        unit_(shared.unit[warp_]),
        query_(shared.query[warp_]) {}

  __device__ void Run() {
    const int kv_heads = call_.shape.kv_heads;
    const int tasks = call_.units.counts[1] * kv_heads;
    int next = 0;
    if (lane_ == 0) next = atomicAdd(&call_.next_unit[1], 1);
    for (;;) {
      const int task = __shfl_sync(0xffffffffu, next, 0);
      if (task >= tasks) return;
      if (lane_ == 0) next = atomicAdd(&call_.next_unit[1], 1);
      const WorkUnit* unit = call_.units.few_rows + task / kv_heads;
      if (lane_ < 3)
        reinterpret_cast<int4*>(&unit_)[lane_] = reinterpret_cast<const int4*>(unit)[lane_];
      __syncwarp();
      Take(UnitView(call_, unit_, task % kv_heads));
      __syncwarp();
    }
  }

 private:
  // Of the unit: the lane's rows in scores, weights and values. Queries are loaded by row lane / 4.
  __device__ int PackedRow(int i) const { return 2 * (lane_ % 4) + i; }

  __device__ void Take(const UnitView& unit) {
    int begin = unit.NextCut(unit.key_begin());
    CutPages pages = FindPages(unit, begin);
#pragma unroll
    for (int i = 0; i < kNarrowSlots; ++i) Copy(unit, pages, {}, i);
    LoadQueries(unit);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      offset_[i] = unit.Offset(PackedRow(i));
      rows_[i] = RunningRow();
    }
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[m][i] = 0.0f;
    }
    while (begin < unit.key_end()) {
      const int next = unit.NextCut(begin + kCutKeys);
      const CutPages next_pages = FindPages(unit, next);
      AttendCut(unit, begin, pages, next_pages);
      begin = next;
      pages = next_pages;
    }
    Store(unit);
  }

  // --- The ring of pages -------------------------------------------------------------------------
  // Pages of a cut, and in lane l the id of page l.
  struct CutPages {
    int count = 0, id = 0;
  };
  __device__ CutPages FindPages(const UnitView& unit, int begin) const {
    CutPages pages;
    if (begin >= unit.key_end()) return pages;
    pages.count = unit.Pages(begin);
    if (lane_ < pages.count) pages.id = unit.Page(begin + lane_ * kPageTokens);
    return pages;
  }

  // Copy number i from the start of a cut: the keys of its pages, their values, and then those of
  // the cut that comes next.
  __device__ void Copy(const UnitView& unit, const CutPages& cut, const CutPages& next, int i) {
    const int slot = static_cast<int>((used_ + static_cast<unsigned>(i)) % kNarrowSlots);
    const bool later = i >= 2 * cut.count;
    if (later) i -= 2 * cut.count;
    const int count = later ? next.count : cut.count;
    const bool values = i >= count;
    const int page =
        __shfl_sync(0xffffffffu, later ? next.id : cut.id, (values ? i - count : i) % 32);
    if (lane_ == 0 && i < 2 * count) {
      const std::byte* block = unit.Block(page);
      const int bytes = values ? kFlaggedPageBytes<Dim> : kPageBytes<Dim>;
      ArriveExpecting(full_[slot], bytes);
      CopyBulk(slots_[slot], values ? block + call_.kv.layout.value_offset : block, bytes,
               full_[slot]);
    }
  }
  __device__ std::byte* Await(int i) const {
    const unsigned number = used_ + static_cast<unsigned>(i);
    const unsigned slot = number % kNarrowSlots;
    Wait(full_[slot], number / kNarrowSlots % 2);
    return slots_[slot];
  }

  // --- The arithmetic ----------------------------------------------------------------------------
  // To shared memory, in tiles of 8 rows x 8 values. Lane l takes row l / 4.
  __device__ void LoadQueries(const UnitView& unit) {
    const int dim = call_.shape.head_dim;
    // Rows that are not there load another one's values: nobody reads what becomes of them.
    const float* query = unit.Query(min(lane_ / 4, unit.rows_left() - 1));
    float2 x[Dim / 8];
    if (dim == Dim) {
#pragma unroll
      for (int tile = 0; tile < Dim / 8; ++tile) {
        x[tile] = *reinterpret_cast<const float2*>(query + tile * 8 + 2 * (lane_ % 4));
      }
    } else {
#pragma unroll
      for (int tile = 0; tile < Dim / 8; ++tile) {
        const int d = tile * 8 + 2 * (lane_ % 4);
        x[tile].x = d < dim ? query[d] : 0.0f;
        x[tile].y = d + 1 < dim ? query[d + 1] : 0.0f;
      }
    }
    const float scale = call_.shape.scale * kLog2E;
#pragma unroll
    for (int tile = 0; tile < Dim / 8; ++tile) {
      *reinterpret_cast<std::uint32_t*>(query_ + tile * kTileBytes + lane_ * 4) =
          PackPair(__fmul_rn(x[tile].x, scale), __fmul_rn(x[tile].y, scale), Element{});
    }
    __syncwarp();
  }

  // The first kNarrowSlots copies of the cut were asked for before.
  __device__ void AttendCut(const UnitView& unit, int begin, const CutPages& cut,
                            const CutPages& next) {
    const int pages = cut.count;
    float score[kPagesPerCut][4];
#pragma unroll
    for (int page = 0; page < kPagesPerCut; ++page) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[page][i] = 0.0f;
      if (page < pages) {
        ScorePage(Await(page), score[page]);
        __syncwarp();
        Copy(unit, cut, next, page + kNarrowSlots);
      }
    }
    std::uint32_t weight[kPagesPerCut][2];
    Weigh(unit, begin, score, weight);

    float sum[Dim / 16][4];
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[m][i] = 0.0f;
    }
#pragma unroll
    for (int page = 0; page < kPagesPerCut; ++page) {
      if (page < pages) {
        std::byte* values = Await(pages + page);
        HideUnrulyValues(unit, begin, page, values);
        AddPage(values, weight[page], sum);
        __syncwarp();
        Copy(unit, cut, next, pages + page + kNarrowSlots);
      }
    }
    used_ += static_cast<unsigned>(2 * pages);
#pragma unroll
    for (int m = 0; m < Dim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total_[m][i] = MergeValue(rows_[i % 2].factors, total_[m][i], sum[m][i]);
      }
    }
  }

  // score, zero before: keys lane / 4 and lane / 4 + 8 of the page for the lane's two rows each.
  __device__ void ScorePage(const std::byte* keys, float (&score)[4]) const {
    const int tile = lane_ / 8;
    const std::byte* from =
        keys + ((tile % 2) * (Dim / 8) + tile / 2) * kTileBytes + lane_ % 8 * 16;
#pragma unroll
    for (int k = 0; k < Dim / 16; k += 2) {
      std::uint32_t a[4], query[4];
      LoadTiles(query, query_ + k * 2 * kTileBytes + lane_ * 16);
      LoadTiles(a, from + k * 2 * kTileBytes);
      Mma(score, a, query[0], query[1], Element{});
      if (k + 1 == Dim / 16) break;
      LoadTiles(a, from + (k + 1) * 2 * kTileBytes);
      Mma(score, a, query[2], query[3], Element{});
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
  WorkUnit& unit_;
  std::byte* const query_;
  unsigned used_ = 0;  // slots of all cuts before: place in the ring and phase of its barrier

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
