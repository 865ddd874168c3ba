// 8-bit codes as operands of wide units: two of the warps that feed a block turn them into half
// precision where they lie, and pass their scales on. Codes are exact there; scales go to the
// scores and, in units of the largest that a row sees, to the weights (softmax.cuh), as in the
// kernel of 64-row units and with its bits.
//
// Of a cut come the keys, the values and then the scales of both, which take the place of those of
// the cut before it.
#pragma once

#include "kernels/cuda/attention/wide_feed.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

// One of the two warps. It also brings the queries of one group, as BringQueries does for 16 bits.
template <typename Kind, int Dim>
class CodeBringer {
 public:
  using Shared = WideShared<Kind, Dim>;

  __device__ CodeBringer(const AttentionCall& call, Shared& shared, int number)
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
        BringKeys(cut, shared_.key[at], key_scale);
        if (begin == cuts.begin) {
          if (n > 0) AwaitQueries();
          ArriveAsWarp(shared_.query_full[number_], n);
        }
        BringValues(cut, shared_.value[at], value_scale);
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

  __device__ void BringKeys(unsigned cut, std::byte* keys, float (&scale)[kPages]) {
    WaitFull(shared_.key_codes, cut);
#pragma unroll
    for (int i = 0; i < kPages; ++i) scale[i] = Unpack(keys + Page(i) * kPageBytes<Dim>);
    PublishToMatrixUnits();
    ArriveAsWarp(shared_.key_full, cut);
  }
  __device__ void BringValues(unsigned cut, std::byte (&values)[kPagesPerCut][Shared::kValueSlot],
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
