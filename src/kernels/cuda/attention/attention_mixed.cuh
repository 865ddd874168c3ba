// Attention over 16-bit and 8-bit KV with the matrix instruction that every device has. A block
// takes units of 64 packed rows: four warps of 16 share the keys and values of one cut at a time in
// shared memory (mixed_feed.cuh).
//
//   scores   Q [16, dim] x K^T [dim, 128]: a chain over dim per score
//   weights  2^(score - max), rounded to 16 bits
//   values   weights [16, 128] x V [128, dim]: a chain over the cut's keys per value, from zero
//   merge    into the group's running partial, in registers; at its end into that of the unit's
//            groups so far, which waits in memory
//
// A cut's arithmetic is the same whatever the unit's other rows see: keys that nobody sees are left
// out, which adds zeros to no sum; keys that this row does not see weigh zero. Zero times a value
// that is not finite (or so large that its exponent could shift a sum) would not be zero: such
// values, marked when they were stored, count as zero in the product, and the rows that see them
// get NaN.
#pragma once

#include "kernels/cuda/attention/mixed_feed.cuh"
#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/for_head_dim.h"

namespace banyan::cuda {

template <typename Kind, int Dim>
class UnitTask : private UnitFeed<Kind, Dim> {
  using Feed = UnitFeed<Kind, Dim>;
  using Feed::call_, Feed::unit_, Feed::shared_, Feed::warp_, Feed::lane_, Feed::unruly_;
  using Feed::LoadQueries, Feed::LoadKeys, Feed::LoadValues;

 public:
  using Element = typename Feed::Element;
  using Shared = typename Feed::Shared;
  static constexpr int kDimsPerPass = Dim % 64 == 0 ? 64 : Dim % 32 == 0 ? 32 : 16;

  __device__ UnitTask(const AttentionCall& call, const UnitView& unit, Shared& shared)
      : Feed(call, unit, shared) {}

  __device__ void Run() {
    FindOffsets();
    int begin = unit_.NextCut(unit_.key_begin());
    if (begin < unit_.key_end()) {
      LoadKeys(begin);
      CommitCopies();
      LoadValues(begin);
      CommitCopies();
    }
    LoadQueries();
    while (begin < unit_.key_end()) {
      const int next = unit_.NextCut(begin + kCutKeys);
      WaitForCopies<1>();
      __syncthreads();
      Score(begin);
      __syncthreads();
      if (next < unit_.key_end()) LoadKeys(next);
      CommitCopies();
      Weigh(begin);
      WaitForCopies<1>();
      const bool unruly = __syncthreads_or(unruly_) != 0;
      if (unruly) {
        HideUnrulyValues();
        BreakRowsThatSeeUnrulyValues();
      }
      AddValues(begin);
      __syncthreads();
      if (next < unit_.key_end()) LoadValues(next);
      CommitCopies();
      begin = next;
      if (begin < unit_.key_end() && unit_.OpensLaterGroup(begin)) StoreGroup();
    }
    StoreGroup();
  }

 private:
  // Of the unit: the lane's two rows.
  __device__ int PackedRow(int half) const { return warp_ * 16 + lane_ / 4 + 8 * half; }

  __device__ void FindOffsets() {
#pragma unroll
    for (int half = 0; half < 2; ++half) offset_[half] = unit_.Offset(PackedRow(half));
    warp_highest_ = __reduce_max_sync(0xffffffffu, max(offset_[0], offset_[1]));
  }

  // Pages that hold what the warp's rows see of the cut.
  __device__ int WarpPages(int begin) const {
    return max(0, min(unit_.CutEnd(begin), warp_highest_ + 1) - begin + 15) / 16;
  }

  __device__ void Score(int begin) {
    const int tiles = WarpPages(begin);
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score_[n][i] = 0.0f;
    }
    if (tiles == 0) return;
    const int tile = lane_ / 8, row = lane_ % 8;
    const Element* query = &shared_.query[warp_ * 16 + (tile % 2) * 8 + row][(tile / 2) * 8];
    const Element* key = &shared_.key[(tile / 2) * 8 + row][(tile % 2) * 8];
#pragma unroll
    for (int k = 0; k < Dim; k += 16) {
      std::uint32_t a[4];
      LoadTiles(a, query + k);
#pragma unroll
      for (int j = 0; j < kPagesPerCut; ++j) {
        if (j >= tiles) break;
        std::uint32_t b[4];
        LoadTiles(b, key + j * 16 * (Dim + 8) + k);
        Mma(score_[2 * j], a, b[0], b[1], Element{});
        Mma(score_[2 * j + 1], a, b[2], b[3], Element{});
      }
    }
    if constexpr (Kind::kCodes) {
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) score_[n][i] *= shared_.key_scale[KeyOfScore(n, i)];
      }
    }
  }

  // Scores → weights in 16 bits, and the cut's maximum and sum merged into the running ones.
  __device__ void Weigh(int begin) {
#pragma unroll
    for (int half = 0; half < 2; ++half) seen_[half] = unit_.Seen(offset_[half], begin);
    if constexpr (Kind::kCodes) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        WeighCodes(half,
                   [seen = seen_[half]](int key) { return key >= seen.first && key < seen.last; });
      }
    } else {
      CutOfRow cut[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        HideScores(seen_[half], half, score_);
        cut[half].largest = LargestScore(score_, half);
        const bool sees = seen_[half].first < seen_[half].last;
        cut[half].sum = WeighRow(half, sees ? cut[half].largest : 0.0f, score_);
        PackRow<Element>(half, score_, weight_);
      }
      AddCut(cut, rows_);
    }
  }

  // Weights take the scales of the values with them, in units of the largest one that this row
  // sees, so that 16 bits hold them.
  template <typename Visible>
  __device__ void WeighCodes(int half, const Visible& visible) {
    float largest = -INFINITY, largest_scale = 0.0f;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = KeyOfScore(n, i);
        if (!visible(key)) continue;
        largest = fmaxf(largest, score_[n][2 * half + i]);
        largest_scale = fmaxf(largest_scale, shared_.value_scale[key]);
      }
    }
    largest = QuadMax(largest);
    value_unit_[half] = QuadMax(largest_scale);
    const float inverse_unit = InverseUnit(value_unit_[half]);
    float sums[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
      float value[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = KeyOfScore(n, i);
        value[i] = visible(key) ? Exp2(score_[n][2 * half + i] - largest) : 0.0f;
        sums[i] += value[i];
        if (visible(key)) value[i] *= shared_.value_scale[key] * inverse_unit;
      }
      weight_[n / 2][(n % 2) * 2 + half] = PackPair(value[0], value[1], Element{});
    }
    rows_[half].factors =
        PrepareMerge(rows_[half].max, rows_[half].sum, largest, QuadSum(sums[0] + sums[1]));
  }

  __device__ void AddValues(int begin) {
    const int tiles = WarpPages(begin);
    if (tiles == 0) return;
    const int tile = lane_ / 8, row = lane_ % 8;
    const Element* value = &shared_.value[(tile % 2) * 8 + row][(tile / 2) * 8];
    constexpr int kColumns = kDimsPerPass / 8;
#pragma unroll
    for (int d = 0; d < Dim; d += kDimsPerPass) {
      float sums[kColumns][4] = {};
#pragma unroll
      for (int j = 0; j < kPagesPerCut; ++j) {
        if (j >= tiles) break;
#pragma unroll
        for (int n = 0; n < kColumns; n += 2) {
          std::uint32_t b[4];
          LoadTilesTransposed(b, value + j * 16 * (Dim + 8) + d + n * 8);
          Mma(sums[n], weight_[j], b[0], b[1], Element{});
          Mma(sums[n + 1], weight_[j], b[2], b[3], Element{});
        }
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (Kind::kCodes) sums[n][i] *= value_unit_[i / 2];
        }
      }
      MergeTiles(rows_, sums, d / 8, total_);
    }
  }

  // Thread i owns key i of the cut.
  __device__ void HideUnrulyValues() {
    static_assert(kBlockThreads == kCutKeys);
    const unsigned marked = __ballot_sync(0xffffffffu, unruly_ != 0);
    if (lane_ == 0) shared_.unruly[warp_] = marked;
    if (unruly_ != 0) {
      for (int d = 0; d < Dim; ++d) shared_.value[threadIdx.x][d] = Element{};
    }
    __syncthreads();
  }

  // Rows that see a marked value are broken, and show it.
  __device__ void BreakRowsThatSeeUnrulyValues() {
#pragma unroll
    for (int word = 0; word < kBlockWarps; ++word) {
      const unsigned marked = shared_.unruly[word];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int from = min(max(seen_[half].first - 32 * word, 0), 32);
        const int to = min(max(seen_[half].last - 32 * word, 0), 32);
        const std::uint64_t seen = (1ull << to) - (1ull << from);
        if (from < to && (marked & static_cast<unsigned>(seen)) != 0) rows_[half].sum = NAN;
      }
    }
  }

  // Merges the group into the unit's groups so far, which are in memory: every lane has its own
  // values there. The next group starts from nothing.
  __device__ void StoreGroup() {
    const int dim = call_.shape.head_dim;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = unit_.Partial(PackedRow(half));
      float max = -INFINITY, sum = 0.0f;
      if (stored_ && at >= 0) {
        max = call_.partials.max[at];
        sum = call_.partials.sum[at];
      }
      __syncwarp();  // before one of the row's lanes writes them anew
      const MergeFactors factors = PrepareMerge(max, sum, rows_[half].max, rows_[half].sum);
      rows_[half] = RunningRow();
      if (at < 0) continue;
      if (lane_ % 4 == 0) {
        call_.partials.max[at] = max;
        call_.partials.sum[at] = sum;
      }
      float* value = call_.partials.value + at * dim;
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = n * 8 + 2 * (lane_ % 4) + i;
          if (d >= dim) continue;
          value[d] = MergeValue(factors, stored_ ? value[d] : 0.0f, total_[n][2 * half + i]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[n][i] = 0.0f;
    }
    stored_ = true;
  }

  int offset_[2];                          // of the lane's rows
  int warp_highest_;                       // of the warp's rows
  VisibleKeys seen_[2];                    // within the cut
  float score_[kScoreTiles][4];            // [key / 8]
  std::uint32_t weight_[kPagesPerCut][4];  // [key / 16]
  float value_unit_[2] = {1.0f, 1.0f};     // codes only
  // The running partial of the group.
  RunningRow rows_[2];
  float total_[Dim / 8][4] = {};
  bool stored_ = false;  // earlier groups of the unit are in memory
};

template <typename Kind, int Dim>
__global__ void __launch_bounds__(kBlockThreads)
    AttendUnitKernel(const __grid_constant__ AttentionCall call) {
  using Task = UnitTask<Kind, Dim>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename Task::Shared*>(memory);
  const int tasks = call.units.counts->wide * call.shape.kv_heads;
  for (int i = static_cast<int>(blockIdx.x); i < tasks; i += static_cast<int>(gridDim.x)) {
    const UnitView unit(call, call.units.many_rows[i / call.shape.kv_heads],
                        i % call.shape.kv_heads);
    Task(call, unit, shared).Run();
    __syncthreads();
  }
}

template <typename Kind, int Dim>
void LaunchUnits(cudaStream_t stream, int blocks, const AttentionCall& call) {
  constexpr int kBytes = static_cast<int>(sizeof(UnitShared<typename Kind::Element, Dim>));
  static const cudaError_t raised = cudaFuncSetAttribute(
      AttendUnitKernel<Kind, Dim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  Check(raised, "shared memory of attention");
  AttendUnitKernel<Kind, Dim>
      <<<static_cast<unsigned>(blocks), kBlockThreads, kBytes, stream>>>(call);
  CheckLaunch("attention");
}

template <typename Kind>
void AttendWithMatrices(cudaStream_t stream, int blocks, const AttentionCall& call) {
  ForHeadDim<32, 64, 80, 96, 128, 256>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchUnits<Kind, decltype(dim)::value>(stream, blocks, call);
  });
}

}  // namespace banyan::cuda
