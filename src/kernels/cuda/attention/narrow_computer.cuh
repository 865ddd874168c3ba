// The warps of a team of narrow units that compute, from what the feeder loads
// (narrow_feeder.cuh): three of them, one cut at a time.
//
//   scores   each warp up to three pages: keys on the 16-row side of the matrix instruction, rows
//            on the 8-column side, so that one row with a few heads wastes little
//   weights  each warp a pair of rows; a fourth pair comes after the first
//   values   each warp a third of the head
//
// Sums run over the same values in the same order as in the other kernels (softmax.cuh). 8-bit
// codes become operands in registers; their scales go to the scores and to the weights.
#pragma once

#include "kernels/cuda/attention/narrow_feeder.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

// Scores are written again after all have weighed, weights after all have added values: two of
// these in a cut are enough.
__device__ inline void SyncComputing() {
  SyncSome(1 + static_cast<int>(threadIdx.x) / kTeamThreads, kNarrowComputing);
}

template <typename Element>
__device__ inline Element Rounded(float x) {
  if constexpr (std::is_same_v<Element, __half>) {
    return __float2half_rn(x);
  } else {
    return __float2bfloat16_rn(x);
  }
}

template <typename Kind, int Dim>
class NarrowComputer {
 public:
  using Element = typename Kind::Element;
  using Shared = NarrowShared<Kind, Dim>;

  __device__ NarrowComputer(const AttentionCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x) % kTeamThreads / 32),
        lane_(threadIdx.x % 32),
        careful_(!Kind::kInt8 && *call.kv.any_flag != 0) {}

  __device__ void Run() {
    NarrowPlace<kNarrowTasks> place;
    if (warp_ == kNarrowWarps - 1) AskForQueries(place);
    for (;;) {
      Wait(shared_.task_full[place.at], place.parity);
      const NarrowTask& task = shared_.task[place.at];
      if (task.kv_head < 0) return;
      const NarrowPlace<kNarrowTasks> next = place.After(1);
      Attend(task, next);
      Store(task);
      __syncwarp();
      if (lane_ == 0) Arrive(shared_.task_empty[place.at]);
      place = next;
    }
  }

 private:
  // Shares of a warp: pairs of rows, tiles of 16 values of a head.
  static constexpr int kPairs = (kNarrowRows / 2 + kNarrowWarps - 1) / kNarrowWarps;
  static constexpr int kTiles = (Dim / 16 + kNarrowWarps - 1) / kNarrowWarps;
  struct Row {
    float max, sum;
  };

  __device__ int LaneOver(unsigned divisor) const { return static_cast<int>(lane_ / divisor); }
  __device__ int LaneModulo(unsigned divisor) const { return static_cast<int>(lane_ % divisor); }
  // What follows from the lane is computed again from here on: registers are scarce, and the
  // compiler would keep dozens of such numbers over the loops.
  __device__ void ForgetLane() { asm volatile("" : "+r"(lane_)); }

  // Pages of a cut, pairs of rows and tiles of 16 values of a head are dealt out alike: share j of
  // the warp.
  __device__ int Share(int j) const { return warp_ + kNarrowWarps * j; }
  // Weights: of a pair of rows, the one that the lane works at, together with 15 others; it has
  // keys of one class modulo 8 in one half of the cut.
  __device__ int WeightRow(int pair) const { return 2 * pair + LaneOver(16); }
  // Scores and values: the lane's two rows.
  __device__ int PackedRow(int i) const { return 2 * LaneModulo(4) + i; }

  // Of the task in this place, by one warp. What was there before has been read.
  __device__ void AskForQueries(const NarrowPlace<kNarrowTasks>& place) {
    ForgetLane();
    Wait(shared_.task_full[place.at], place.parity);
    const NarrowTask& task = shared_.task[place.at];
    if (task.kv_head < 0) return;
    constexpr unsigned kParts = Dim / 8;  // of a row, 16 bytes each
    const auto* queries = static_cast<const std::byte*>(call_.scaled_query);
#pragma unroll 1
    for (int i = 0; i < kNarrowRows * static_cast<int>(kParts); i += 32) {
      const unsigned n = static_cast<unsigned>(i) + lane_, row = n / kParts, part = n % kParts;
      if (row >= kNarrowRows) break;
      const std::int64_t at = static_cast<std::int64_t>(task.query[row]) * (Dim * 2);
      CopyAsync(shared_.query[row] + part * 16, queries + at + part * 16, true);
    }
    ArriveAfterCopies(shared_.query_full);
  }

  // The queries of the next task are asked for as soon as those of this one are done with.
  __device__ void Attend(const NarrowTask& task, const NarrowPlace<kNarrowTasks>& next) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) row_[j] = {-INFINITY, 0.0f};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[j][i] = 0.0f;
    }
    const UnitView unit(call_, task.unit, task.kv_head);
    const CutRange cuts = unit.Cuts();
    Wait(shared_.query_full, query_parity_);
    query_parity_ ^= 1;
    if (cuts.begin >= cuts.end) {  // rows that see nothing still leave a partial
      SyncComputing();
      if (warp_ == kNarrowWarps - 1) AskForQueries(next);
    }
    for (int begin = cuts.begin; begin < cuts.end; begin += kCutKeys) {
      const int pages = unit.Pages(begin);
      Score(pages);
      SyncComputing();
      if (warp_ == kNarrowWarps - 1 && begin + kCutKeys >= cuts.end) AskForQueries(next);
      const bool unruly = careful_ && AnyUnruly(pages);
      if constexpr (Kind::kInt8) WaitForValues(pages);  // for their scales
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        if (2 * Share(j) >= task.rows) continue;
        const VisibleKeys seen = unit.Seen(task.offset[WeightRow(Share(j))], begin);
        Weigh(WeightRow(Share(j)), seen, row_[j]);
        if (unruly) BreakRow(seen, row_[j]);
      }
      if (unruly) HideUnrulyValues(pages);
      SyncComputing();
      AddValues(pages);
    }
  }

  // --- Scores -----------------------------------------------------------------------------------
  __device__ void Score(int pages) {
    ForgetLane();
    static_assert(kPagesPerCut <= 3 * kNarrowWarps);
    const int count = (pages - warp_ + kNarrowWarps - 1) / kNarrowWarps;
    if (count >= 3) {
      ScorePages<3>();
    } else if (count == 2) {
      ScorePages<2>();
    } else if (count == 1) {
      ScorePages<1>();
    }
    place_ = place_.After(pages);
  }
  // The warp's first pages of the cut, side by side: each is a chain of products that wait for one
  // another.
  template <int Count>
  __device__ void ScorePages() {
    const int tile = LaneOver(8);
    constexpr int kTilesInHalf = Kind::kInt8 ? Dim / 16 : Dim / 8;
    const int from = ((tile % 2) * kTilesInHalf + tile / 2) * kTileBytes + LaneModulo(8) * 16;
    const std::byte* query = shared_.query[LaneModulo(8)] + tile * 16;
    const std::byte* keys[Count];
    float score[Count][4] = {};
#pragma unroll
    for (int j = 0; j < Count; ++j) {
      const NarrowPlace<Shared::kPlaces> place = place_.After(Share(j));
      Wait(shared_.full[place.at], place.parity);
      keys[j] = shared_.place[place.at] + from;
    }
    std::uint32_t b[4];
    [[maybe_unused]] std::uint32_t codes[Count][4];
#pragma unroll
    for (int k = 0; k < Dim / 16; ++k) {
      // Of every 16 values, lane l has those of row l / 4 at 2 (l % 4) and 8 further on. One load
      // brings two times 16.
      std::uint32_t a[Count][4];
      if (k % 2 == 0) LoadTiles(b, query + k * 32);
#pragma unroll
      for (int j = 0; j < Count; ++j) {
        if constexpr (Kind::kInt8) {
          // As with the queries: of every token two tiles, and in each what two pairs are made of.
          if (k % 2 == 0) LoadTiles(codes[j], keys[j] + k * kTileBytes);
          UnpackCodes<0, 1, 2, 3>(codes[j][k % 2 * 2], a[j][0], a[j][2]);
          UnpackCodes<0, 1, 2, 3>(codes[j][k % 2 * 2 + 1], a[j][1], a[j][3]);
        } else {
          LoadTiles(a[j], keys[j] + k * 2 * kTileBytes);
        }
      }
#pragma unroll
      for (int j = 0; j < Count; ++j) {
        Mma(score[j], a[j], b[k % 2 * 2], b[k % 2 * 2 + 1], Element{});
      }
    }
    if constexpr (Kind::kInt8) ScaleScores(keys, from, score);
    __syncwarp();
    // Value i is key lane / 4 + 8 (i / 2) of the page for row i % 2 of the lane's two.
#pragma unroll
    for (int j = 0; j < Count; ++j) {
      const int page = Share(j);
      if (lane_ == 0) ArriveForAll(shared_.empty[place_.After(page).at], kNarrowWarps);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared_.score[PackedRow(i % 2)][page * 16 + 8 * (i / 2) + LaneOver(4)] = score[j][i];
      }
    }
  }

  // By the scales of the keys, which follow the codes.
  template <int Count>
  __device__ void ScaleScores(const std::byte* const (&keys)[Count], int from,
                              float (&score)[Count][4]) const {
#pragma unroll
    for (int j = 0; j < Count; ++j) {
      const auto* scales = reinterpret_cast<const float*>(keys[j] - from + kCodeBytes<Dim>);
#pragma unroll
      for (int i = 0; i < 4; ++i) score[j][i] *= scales[8 * (i / 2) + LaneOver(4)];
    }
  }

  // --- Weights ----------------------------------------------------------------------------------
  __device__ void Weigh(int row, const VisibleKeys& seen, Row& running) {
    ForgetLane();
    constexpr int kHalf = kScoreTiles / 2;
    const int first_tile = LaneOver(8) % 2 * kHalf, key_class = LaneModulo(8);
    const int first_key = first_tile * 8 + key_class;
    const int from = seen.first - first_key, to = seen.last - first_key;
    const float* score = shared_.score[row] + first_key;
    std::byte* weight = shared_.weight + first_tile * kTileBytes + row * 16 + key_class * 2;
    float value[kHalf], largest = -INFINITY;
    // Codes: the scales of the values, and the largest of them that this row sees.
    [[maybe_unused]] float scale[kHalf], unit = 0.0f;
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const bool visible = n * 8 >= from && n * 8 < to;
      value[n] = visible ? score[n * 8] : -INFINITY;
      if (visible) largest = fmaxf(largest, value[n]);
      if constexpr (Kind::kInt8) {
        scale[n] = visible ? ValueScale(first_tile / 2 + n / 2, n % 2 * 8 + key_class) : 0.0f;
        unit = fmaxf(unit, scale[n]);
      }
    }
#pragma unroll
    for (int step = 1; step < 16; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
      if constexpr (Kind::kInt8) unit = fmaxf(unit, __shfl_xor_sync(0xffffffffu, unit, step));
    }
    [[maybe_unused]] const float inverse_unit = InverseUnit(unit);
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const bool visible = n * 8 >= from && n * 8 < to;
      value[n] = visible ? Exp2(value[n] - largest) : 0.0f;
      sum += value[n];
      float weighed = value[n];
      if constexpr (Kind::kInt8) weighed = visible ? value[n] * (scale[n] * inverse_unit) : 0.0f;
      *reinterpret_cast<Element*>(weight + n * kTileBytes) = Rounded<Element>(weighed);
    }
    // The chain of the second half goes on where that of the first ended.
    float chain = __shfl_xor_sync(0xffffffffu, sum, 8);
    if (first_tile > 0) {
      sum = chain;
#pragma unroll
      for (int n = 0; n < kHalf; ++n) sum += value[n];
    }
    chain = __shfl_xor_sync(0xffffffffu, sum, 8);
    if (first_tile == 0) sum = chain;
#pragma unroll
    for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    const MergeFactors factors = PrepareMerge(running.max, running.sum, largest, sum);
    if (LaneModulo(16) == 0) shared_.factors[row] = factors;
    if constexpr (Kind::kInt8) {
      if (LaneModulo(16) == 0) shared_.value_unit[row] = unit;
    }
  }
  // Of a token of a page of the cut, while place_ is at its first values.
  __device__ float ValueScale(int page, int token) const {
    return reinterpret_cast<const float*>(Values(page) + kCodeBytes<Dim>)[token];
  }

  // --- Values -----------------------------------------------------------------------------------
  __device__ void AddValues(int pages) {
    ForgetLane();
    const int tile = LaneOver(8);
    // Of codes one tile has what two have of other values, and lanes from 16 on ask for nothing.
    const int from = Kind::kInt8
                         ? (tile % 2) * (Dim / 16) * kTileBytes + LaneModulo(8) * 16
                         : ((tile / 2) * (Dim / 8) + tile % 2) * kTileBytes + LaneModulo(8) * 16;
    float sum[kTiles][4] = {};
#pragma unroll 1
    for (int page = 0; page < pages; page += 2) {
      AddPages(shared_.weight + page * 2 * kTileBytes + LaneModulo(32) * 16, from, pages - page,
               sum);
    }
    if constexpr (Kind::kInt8) {
      const float unit[2] = {shared_.value_unit[PackedRow(0)], shared_.value_unit[PackedRow(1)]};
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[j][i] *= unit[i % 2];
      }
    }
    const MergeFactors factors[2] = {shared_.factors[PackedRow(0)], shared_.factors[PackedRow(1)]};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        total_[j][i] = MergeValue(factors[i % 2], total_[j][i], sum[j][i]);
    }
  }
  // The next two pages, or one if no more are left.
  __device__ void AddPages(const std::byte* weights, int from, int left, float (&sum)[kTiles][4]) {
    std::uint32_t weight[4], a[2][kTiles][4];
    LoadTiles(weight, weights);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i >= left) continue;
      const NarrowPlace<Shared::kPlaces> place = place_.After(i);
      Wait(shared_.full[place.at], place.parity);
      const std::byte* values = shared_.place[place.at] + from;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        if (Share(j) >= Dim / 16) continue;
        if constexpr (Kind::kInt8) {
          // Bytes are tokens 2t and 2t + 1, of each two values, which become rows g and g + 8.
          std::uint32_t codes[2];
          LoadTwoTilesTransposed(codes, values + Share(j) * kTileBytes);
          UnpackCodes<0, 2, 1, 3>(codes[0], a[i][j][0], a[i][j][1]);
          UnpackCodes<0, 2, 1, 3>(codes[1], a[i][j][2], a[i][j][3]);
        } else {
          LoadTilesTransposed(a[i][j], values + Share(j) * 2 * kTileBytes);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i >= left) continue;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        if (Share(j) >= Dim / 16) continue;
        Mma(sum[j], a[i][j], weight[2 * i], weight[2 * i + 1], Element{});
      }
    }
    __syncwarp();
    const int done = min(2, left);
    const int lane = LaneModulo(32);
    if (lane < done) Arrive(shared_.empty[place_.After(lane).at]);
    place_ = place_.After(done);
  }

  // --- Values that must not meet rows which do not see them (kv_pages.h) ------------------------
  // Whether some token of the cut's pages is marked; waits for all of its values.
  __device__ bool AnyUnruly(int pages) {
    WaitForValues(pages);
    std::uint32_t word = 0;
    const int page = LaneModulo(32) / 4;
    if (page < pages) {
      const std::byte* flags = Values(page) + kPageBytes<Dim>;
      word = *reinterpret_cast<const std::uint32_t*>(flags + LaneModulo(4) * 4);
    }
    return __any_sync(0xffffffffu, word != 0);
  }
  // Rows that see a marked token are broken and show it.
  __device__ void BreakRow(const VisibleKeys& seen, Row& running) {
#pragma unroll 1
    for (int key = seen.first; key < seen.last; ++key) {
      if (IsMarked(key)) running.sum = NAN;
    }
  }
  // Marked tokens count as zero.
  __device__ void HideUnrulyValues(int pages) {
#pragma unroll 1
    for (int key = static_cast<int>(threadIdx.x) % kTeamThreads; key < pages * kPageTokens;
         key += kNarrowComputing) {
      if (!IsMarked(key)) continue;
      ClearToken<Dim>(Values(key / kPageTokens), key % kPageTokens);
      PublishToMatrixUnits();  // before the copy engine writes here again
    }
  }
  // All of the cut.
  __device__ void WaitForValues(int pages) {
#pragma unroll 1
    for (int page = 0; page < pages; ++page) {
      const NarrowPlace<Shared::kPlaces> place = place_.After(page);
      Wait(shared_.full[place.at], place.parity);
    }
  }
  // Of a page of the cut, while place_ is at its first values.
  __device__ std::byte* Values(int page) const { return shared_.place[place_.After(page).at]; }
  __device__ bool IsMarked(int key) const {
    return Values(key / kPageTokens)[kPageBytes<Dim> + key % kPageTokens] != std::byte{0};
  }

  __device__ void Store(const NarrowTask& task) const {
    const int dim = call_.shape.head_dim;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      if (LaneModulo(16) != 0 || 2 * Share(j) >= kNarrowRows) continue;
      const int at = task.partial[WeightRow(Share(j))];
      if (at < 0) continue;
      call_.partials.max[at] = row_[j].max;
      call_.partials.sum[at] = row_[j].sum;
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int at = task.partial[PackedRow(row)];
      if (at < 0) continue;
      float* value = call_.partials.value + static_cast<std::int64_t>(at) * dim;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = Share(j) * 16 + ValueOfRow(half);
          if (d < dim) value[d] = total_[j][2 * half + row];
        }
      }
    }
  }

  // Which of a tile's 16 values of a head the lane has in row lane / 4 + 8 * half of a product.
  // Codes come in pairs, as they lie (kv_tiles.cuh).
  __device__ int ValueOfRow(int half) const {
    const int row = LaneOver(4);
    return Kind::kInt8 ? row / 2 * 2 + row % 2 * 8 + half : half * 8 + row;
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int warp_;
  unsigned lane_;
  const bool careful_;                  // look for flags
  NarrowPlace<Shared::kPlaces> place_;  // of the half page that is next

  unsigned query_parity_ = 0;

  // Of the task at hand, so far.
  Row row_[kPairs];
  float total_[kTiles][4];
};

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
