// What a block of 64-row units (attention_mixed.cuh) has in shared memory, and how queries, keys
// and values come there. Keys and values of 16 bits come by copies that the caller commits and
// waits for; 8-bit codes are unpacked at once.
#pragma once

#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"

namespace banyan::cuda {

inline constexpr int kBlockWarps = kBlockRows / 16;
inline constexpr int kBlockThreads = kBlockWarps * 32;

// Rows of shared memory are 16 bytes longer than the head, so that the eight rows of a tile lie in
// different banks.
template <typename Element, int Dim>
struct UnitShared {
  Element query[kBlockRows][Dim + 8];
  Element key[kCutKeys][Dim + 8];
  Element value[kCutKeys][Dim + 8];
  float key_scale[kCutKeys], value_scale[kCutKeys];  // codes only
  unsigned unruly[kBlockWarps];                      // a bit per key of the cut
};

// A base of the unit's task, not a member of it: the machine code is then that of one class.
template <typename Kind, int Dim>
class UnitFeed {
 protected:
  using Element = typename Kind::Element;
  using Shared = UnitShared<Element, Dim>;

  __device__ UnitFeed(const AttentionCall& call, const UnitView& unit, Shared& shared)
      : call_(call),
        unit_(unit),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void LoadQueries() {
    // Scores in units of log2, so that weights are powers of two.
    const float scale = unit_.ScoreScale();
    for (int i = warp_; i < kBlockRows; i += kBlockWarps) {
      const bool present = i < unit_.rows_left();
      const float* query = present ? unit_.Query(i) : nullptr;
      for (int d = 2 * lane_; d < Dim; d += 64) {
        const bool low = present && d < call_.shape.head_dim;
        const bool high = present && d + 1 < call_.shape.head_dim;
        const std::uint32_t pair =
            PackPair(low ? __fmul_rn(query[d], scale) : 0.0f,
                     high ? __fmul_rn(query[d + 1], scale) : 0.0f, Element{});
        *reinterpret_cast<std::uint32_t*>(&shared_.query[i][d]) = pair;
      }
    }
  }

  // Of the cut that begins with key `begin`.
  __device__ void LoadKeys(int begin) {
    if constexpr (Kind::kCodes) {
      LoadCodes(begin, 0, &shared_.key[0][0], shared_.key_scale);
    } else {
      LoadElements(begin, 0, &shared_.key[0][0]);
    }
  }

  // Also finds this thread's `unruly_`.
  __device__ void LoadValues(int begin) {
    if constexpr (Kind::kCodes) {
      LoadCodes(begin, call_.kv.layout.value_offset, &shared_.value[0][0], shared_.value_scale);
    } else {
      LoadElements(begin, call_.kv.layout.value_offset, &shared_.value[0][0]);
      const int key = begin + static_cast<int>(threadIdx.x);
      unruly_ = 0;
      if (key < unit_.HighKey(begin)) {
        const std::byte* block = unit_.BlockOfKey(key);
        unruly_ = static_cast<int>(block[call_.kv.layout.flag_offset + key % kPageTokens]);
      }
    }
  }

  const AttentionCall& call_;
  const UnitView& unit_;
  Shared& shared_;
  const int warp_, lane_;
  int unruly_ = 0;  // key threadIdx.x of the cut is marked

 private:
  __device__ void LoadElements(int begin, int offset, Element* target) {
    constexpr int kChunks = Dim / 8;  // of 16 bytes in a head
    const int high = unit_.HighKey(begin);
    const int count = unit_.Pages(begin) * 16 * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) {
      const int key = i / kChunks, chunk = i % kChunks;
      const std::byte* block = unit_.BlockOfKey(begin + key);
      const std::byte* source = block + offset + TileOffset(key % kPageTokens, chunk * 8, Dim) * 2;
      CopyAsync(target + key * (Dim + 8) + chunk * 8, source, begin + key < high);
    }
  }

  // Codes are exact in 16 bits; their scales go to the scores and to the weights.
  __device__ void LoadCodes(int begin, int offset, Element* target, float* scales) {
    constexpr int kChunks = Dim / 16;  // of 16 codes in a head
    const int high = unit_.HighKey(begin);
    const int count = unit_.Pages(begin) * 16 * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) {
      const int key = i / kChunks, chunk = i % kChunks;
      uint4 codes = make_uint4(0, 0, 0, 0);
      if (begin + key < high) {
        const std::byte* block = unit_.BlockOfKey(begin + key);
        codes = *reinterpret_cast<const uint4*>(block + offset +
                                                CodeOffset(key % kPageTokens, chunk * 16, Dim));
      }
      uint4 first, second;
      UnpackRow(codes, first, second);
      auto* out = reinterpret_cast<uint4*>(target + key * (Dim + 8) + chunk * 16);
      out[0] = first;
      out[1] = second;
    }
    const int key = begin + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kCutKeys) {
      float scale = 0.0f;
      if (key < high) {
        const std::byte* block = unit_.BlockOfKey(key);
        const std::byte* scales = block + offset + call_.kv.layout.scale_offset;
        scale = reinterpret_cast<const float*>(scales)[key % kPageTokens];
      }
      scales[threadIdx.x] = scale;
    }
  }
};

}  // namespace banyan::cuda
