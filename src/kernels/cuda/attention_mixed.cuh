// Attention over 16-bit and 8-bit KV with the matrix instruction. A block takes a work unit: four
// warps of 16 packed rows share the keys and values of one cut at a time in shared memory.
//
//   scores   Q [16, dim] x K^T [dim, 128]: a chain over dim per score
//   weights  2^(score - max), rounded to 16 bits
//   values   weights [16, 128] x V [128, dim]: a chain over the cut's keys per value, from zero
//   merge    into the unit's running partial, in registers
//
// A cut's arithmetic is the same whatever the unit's other rows see: keys that nobody sees are left
// out, which adds zeros to no sum; keys that this row does not see weigh zero. Zero times a value
// that is not finite (or so large that its exponent could shift a sum) would not be zero: such
// values, marked when they were stored, count as zero in the product, and the rows that see them
// get NaN.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/partial.cuh"

namespace banyan::cuda {

// Element: what the matrix instruction multiplies. Codes: pages hold 8-bit codes with scales.
template <typename ElementType, bool Codes>
struct KvKind {
  using Element = ElementType;
  static constexpr bool kCodes = Codes;
};

inline constexpr int kUnitWarps = kUnitRows / 16;
inline constexpr int kUnitThreads = kUnitWarps * 32;
inline constexpr int kTilesPerCut = kCutKeys / 16;

// Rows of shared memory are 16 bytes longer than the head, so that the eight rows of a tile lie in
// different banks.
template <typename Element, int Dim>
struct UnitShared {
  Element query[kUnitRows][Dim + 8];
  Element key[kCutKeys][Dim + 8];
  Element value[kCutKeys][Dim + 8];
  float key_scale[kCutKeys], value_scale[kCutKeys];  // codes only
  unsigned unruly[kUnitWarps];                       // a bit per key of the cut
  int max_offset[kUnitWarps], min_offset[kUnitWarps];
};

template <typename Kind, int Dim>
class UnitTask {
 public:
  using Element = typename Kind::Element;
  using Shared = UnitShared<Element, Dim>;
  static constexpr int kDimsPerPass = Dim % 64 == 0 ? 64 : 32;

  __device__ UnitTask(const AttentionCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        kv_head_(static_cast<int>(blockIdx.x) % call.shape.kv_heads),
        unit_(call.units[static_cast<int>(blockIdx.x) / call.shape.kv_heads]),
        item_(unit_.item),
        span_(unit_.span),
        ratio_(call.shape.heads / call.shape.kv_heads),
        packed_rows_((item_.row_end - item_.row_begin) * ratio_),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    FindOffsets();
    int begin = NextCut(item_.key_begin);
    if (begin < item_.key_end) {
      LoadKeys(begin);
      CommitCopies();
      LoadValues(begin);
      CommitCopies();
    }
    LoadQueries();
    while (begin < item_.key_end) {
      const int next = NextCut(begin + kCutKeys);
      WaitForCopies<1>();
      __syncthreads();
      Score(begin);
      __syncthreads();
      if (next < item_.key_end) LoadKeys(next);
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
      if (next < item_.key_end) LoadValues(next);
      CommitCopies();
      begin = next;
    }
    Store();
  }

 private:
  // The lane's two rows are packed rows first + g and first + g + 8 of its warp.
  __device__ int PackedRow(int half) const {
    return unit_.first_packed_row + warp_ * 16 + lane_ / 4 + 8 * half;
  }

  __device__ void LoadQueries() {
    // Scores in units of log2, so that weights are powers of two.
    const float scale = call_.shape.scale * kLog2E;
    for (int i = warp_; i < kUnitRows; i += kUnitWarps) {
      const int packed = unit_.first_packed_row + i;
      const bool present = packed < packed_rows_;
      const std::int64_t row = item_.row_begin + packed / ratio_;
      const std::int64_t head = kv_head_ * ratio_ + packed % ratio_;
      const float* query = call_.query + row * call_.query_stride + head * call_.shape.head_dim;
      for (int d = 2 * lane_; d < Dim; d += 64) {
        const bool low = present && d < call_.shape.head_dim;
        const bool high = present && d + 1 < call_.shape.head_dim;
        const std::uint32_t pair =
            PackPair(low ? query[d] * scale : 0.0f, high ? query[d + 1] * scale : 0.0f, Element{});
        *reinterpret_cast<std::uint32_t*>(&shared_.query[i][d]) = pair;
      }
    }
  }

  // What the lane's rows see, and the extremes of the warp and the block.
  __device__ void FindOffsets() {
    int most = -1, least = 0x7fffffff;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int packed = PackedRow(half);
      offset_[half] = -1;  // sees nothing
      if (packed >= packed_rows_) continue;
      offset_[half] = call_.positions[item_.row_begin + packed / ratio_] - span_.first_position;
      most = max(most, offset_[half]);
      least = min(least, offset_[half]);
    }
    warp_max_offset_ = __reduce_max_sync(0xffffffffu, most);
    const int warp_min = __reduce_min_sync(0xffffffffu, least);
    if (lane_ == 0) {
      shared_.max_offset[warp_] = warp_max_offset_;
      shared_.min_offset[warp_] = warp_min;
    }
    __syncthreads();
    max_offset_ = shared_.max_offset[0];
    min_offset_ = shared_.min_offset[0];
#pragma unroll
    for (int w = 1; w < kUnitWarps; ++w) {
      max_offset_ = max(max_offset_, shared_.max_offset[w]);
      min_offset_ = min(min_offset_, shared_.min_offset[w]);
    }
  }

  __device__ int CutEnd(int begin) const { return min(begin + kCutKeys, item_.key_end); }
  // Keys of the cut that some row of the block may see, [begin, …).
  __device__ int HighKey(int begin) const { return min(CutEnd(begin), max_offset_ + 1); }
  // Tiles of 16 keys that hold what the rows up to `offset` see.
  __device__ int TilesUpTo(int begin, int offset) const {
    return max(0, min(CutEnd(begin), offset + 1) - begin + 15) / 16;
  }

  // The first cut from `begin` on that some row of the block sees; key_end or later: none.
  __device__ int NextCut(int begin) const {
    if (call_.shape.window > 0) {
      const int first = min_offset_ - call_.shape.window + 1;
      while (begin + kCutKeys <= first && begin < item_.key_end) begin += kCutKeys;
    }
    return begin > max_offset_ ? item_.key_end : begin;
  }

  __device__ void LoadKeys(int begin) {
    if constexpr (Kind::kCodes) {
      LoadCodes(begin, 0, &shared_.key[0][0], shared_.key_scale);
    } else {
      LoadElements(begin, 0, &shared_.key[0][0]);
    }
  }

  __device__ void LoadValues(int begin) {
    if constexpr (Kind::kCodes) {
      LoadCodes(begin, call_.kv.layout.value_offset, &shared_.value[0][0], shared_.value_scale);
    } else {
      LoadElements(begin, call_.kv.layout.value_offset, &shared_.value[0][0]);
      const int key = begin + static_cast<int>(threadIdx.x);
      unruly_ = 0;
      if (key < HighKey(begin)) {
        const std::byte* block = BlockOfKey(call_, span_, kv_head_, key);
        unruly_ = static_cast<int>(block[call_.kv.layout.flag_offset + key % kPageTokens]);
      }
    }
  }

  __device__ void LoadElements(int begin, int offset, Element* target) {
    constexpr int kChunks = Dim / 8;  // of 16 bytes in a head
    const int high = HighKey(begin);
    const int count = TilesUpTo(begin, max_offset_) * 16 * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kUnitThreads) {
      const int key = i / kChunks, chunk = i % kChunks;
      const std::byte* block = BlockOfKey(call_, span_, kv_head_, begin + key);
      const std::byte* source =
          block + offset +
          ((key % kPageTokens) * Dim + chunk * 8) * static_cast<int>(sizeof(Element));
      CopyAsync(target + key * (Dim + 8) + chunk * 8, source, begin + key < high);
    }
  }

  // Codes are exact in 16 bits; their scales go to the scores and to the weights.
  __device__ void LoadCodes(int begin, int offset, Element* target, float* scales) {
    constexpr int kChunks = Dim / 16;  // of 16 codes in a head
    const int high = HighKey(begin);
    const int count = TilesUpTo(begin, max_offset_) * 16 * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kUnitThreads) {
      const int key = i / kChunks, chunk = i % kChunks;
      int4 codes = make_int4(0, 0, 0, 0);
      if (begin + key < high) {
        const std::byte* block = BlockOfKey(call_, span_, kv_head_, begin + key);
        codes =
            *reinterpret_cast<const int4*>(block + offset + (key % kPageTokens) * Dim + chunk * 16);
      }
      const int words[4] = {codes.x, codes.y, codes.z, codes.w};
      auto* out = reinterpret_cast<std::uint32_t*>(target + key * (Dim + 8) + chunk * 16);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const auto code = [&](int byte) {
          return static_cast<float>(static_cast<std::int8_t>(words[w] >> (8 * byte)));
        };
        out[2 * w] = PackPair(code(0), code(1), Element{});
        out[2 * w + 1] = PackPair(code(2), code(3), Element{});
      }
    }
    const int key = begin + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kCutKeys) {
      float scale = 0.0f;
      if (key < high) {
        const std::byte* block = BlockOfKey(call_, span_, kv_head_, key);
        const auto* stored = reinterpret_cast<const float*>(block + call_.kv.layout.scale_offset);
        scale = stored[(offset == 0 ? 0 : kPageTokens) + key % kPageTokens];
      }
      scales[threadIdx.x] = scale;
    }
  }

  __device__ void Score(int begin) {
    const int tiles = TilesUpTo(begin, warp_max_offset_);
#pragma unroll
    for (int n = 0; n < 2 * kTilesPerCut; ++n) {
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
      for (int j = 0; j < kTilesPerCut; ++j) {
        if (j >= tiles) break;
        std::uint32_t b[4];
        LoadTiles(b, key + j * 16 * (Dim + 8) + k);
        Mma(score_[2 * j], a, b[0], b[1], Element{});
        Mma(score_[2 * j + 1], a, b[2], b[3], Element{});
      }
    }
    if constexpr (Kind::kCodes) {
#pragma unroll
      for (int n = 0; n < 2 * kTilesPerCut; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) score_[n][i] *= shared_.key_scale[KeyOf(n, i)];
      }
    }
  }

  // Key of the cut that value i of score tile n belongs to.
  __device__ int KeyOf(int n, int i) const { return n * 8 + 2 * (lane_ % 4) + i % 2; }

  // Scores → weights in 16 bits, and the cut's maximum and sum merged into the running ones.
  __device__ void Weigh(int begin) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const VisibleKeys span_keys =
          KeysSeen(offset_[half], call_.shape.window, begin, CutEnd(begin));
      const VisibleKeys seen = {span_keys.first - begin, span_keys.last - begin};
      seen_[half] = seen;
      const auto visible = [&](int key) { return key >= seen.first && key < seen.last; };
      float largest = -INFINITY, largest_scale = 0.0f;
#pragma unroll
      for (int n = 0; n < 2 * kTilesPerCut; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = KeyOf(n, i);
          if (!visible(key)) continue;
          largest = fmaxf(largest, score_[n][2 * half + i]);
          if constexpr (Kind::kCodes) {
            largest_scale = fmaxf(largest_scale, shared_.value_scale[key]);
          }
        }
      }
      largest = QuadMax(largest);
      float inverse_unit = 0.0f;
      if constexpr (Kind::kCodes) {
        // Weights take the scales of the values with them, in units of the largest one that this
        // row sees, so that 16 bits hold them.
        value_unit_[half] = QuadMax(largest_scale);
        inverse_unit = value_unit_[half] > 0x1p-100f ? 1.0f / value_unit_[half] : 0.0f;
      }
      float sum = 0.0f;
#pragma unroll
      for (int n = 0; n < 2 * kTilesPerCut; ++n) {
        float weight[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = KeyOf(n, i);
          weight[i] = visible(key) ? exp2f(score_[n][2 * half + i] - largest) : 0.0f;
          if constexpr (Kind::kCodes) {
            sum += weight[i];
            if (visible(key)) weight[i] *= shared_.value_scale[key] * inverse_unit;
          }
        }
        const std::uint32_t pair = PackPair(weight[0], weight[1], Element{});
        weight_[n / 2][(n % 2) * 2 + half] = pair;
        if constexpr (!Kind::kCodes) {
          // The weights that are multiplied are the ones that are summed.
          const float2 rounded = UnpackPair(pair, Element{});
          sum += rounded.x;
          sum += rounded.y;
        }
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      factors_[half] = PrepareMerge(max_[half], sum_[half], largest, sum);
    }
  }

  // Over the four lanes that hold a row.
  __device__ static float QuadMax(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
  }

  __device__ void AddValues(int begin) {
    const int tiles = TilesUpTo(begin, warp_max_offset_);
    if (tiles == 0) return;
    const int tile = lane_ / 8, row = lane_ % 8;
    const Element* value = &shared_.value[(tile % 2) * 8 + row][(tile / 2) * 8];
    constexpr int kColumns = kDimsPerPass / 8;
#pragma unroll
    for (int d = 0; d < Dim; d += kDimsPerPass) {
      float sums[kColumns][4] = {};
#pragma unroll
      for (int j = 0; j < kTilesPerCut; ++j) {
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
          float& total = total_[d / 8 + n][i];
          const float value = Kind::kCodes ? sums[n][i] * value_unit_[i / 2] : sums[n][i];
          total = MergeValue(factors_[i / 2], total, value);
        }
      }
    }
  }

  // Thread i owns key i of the cut.
  __device__ void HideUnrulyValues() {
    static_assert(kUnitThreads == kCutKeys);
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
    for (int word = 0; word < kUnitWarps; ++word) {
      const unsigned marked = shared_.unruly[word];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int from = min(max(seen_[half].first - 32 * word, 0), 32);
        const int to = min(max(seen_[half].last - 32 * word, 0), 32);
        const std::uint64_t seen = (1ull << to) - (1ull << from);
        if (from < to && (marked & static_cast<unsigned>(seen)) != 0) sum_[half] = NAN;
      }
    }
  }

  __device__ void Store() const {
    const int dim = call_.shape.head_dim;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int packed = PackedRow(half);
      const int row = item_.row_begin + packed / ratio_;
      if (packed >= packed_rows_ || row < item_.reader_begin || row >= item_.reader_end) continue;
      const std::int64_t at =
          static_cast<std::int64_t>(item_.first_partial + row - item_.reader_begin) *
              call_.shape.heads +
          kv_head_ * ratio_ + packed % ratio_;
      if (lane_ % 4 == 0) {
        call_.partials.max[at] = max_[half];
        call_.partials.sum[at] = sum_[half];
      }
      if (sum_[half] == 0.0f) continue;
      float* value = call_.partials.value + at * dim;
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = n * 8 + 2 * (lane_ % 4) + i;
          if (d < dim) value[d] = total_[n][2 * half + i];
        }
      }
    }
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int kv_head_;
  const WorkUnit unit_;
  const WorkItem item_;
  const KvSpan span_;
  const int ratio_;
  const int packed_rows_;  // of the item
  const int warp_, lane_;

  int offset_[2];  // of the lane's rows, from the span's key 0
  int warp_max_offset_, max_offset_, min_offset_;
  int unruly_ = 0;                         // this thread's key of the cut is marked
  VisibleKeys seen_[2];                    // within the cut
  float score_[2 * kTilesPerCut][4];       // [key / 8]
  std::uint32_t weight_[kTilesPerCut][4];  // [key / 16]
  MergeFactors factors_[2];
  float value_unit_[2] = {1.0f, 1.0f};  // codes only
  float max_[2] = {-INFINITY, -INFINITY}, sum_[2] = {0.0f, 0.0f};
  float total_[Dim / 8][4] = {};  // the running partial
};

template <typename Kind, int Dim>
__global__ void __launch_bounds__(kUnitThreads)
    AttendUnitKernel(const __grid_constant__ AttentionCall call) {
  using Task = UnitTask<Kind, Dim>;
  extern __shared__ __align__(16) unsigned char memory[];
  Task(call, *reinterpret_cast<typename Task::Shared*>(memory)).Run();
}

template <typename Kind, int Dim>
void LaunchUnits(cudaStream_t stream, const AttentionCall& call) {
  constexpr int kBytes = static_cast<int>(sizeof(UnitShared<typename Kind::Element, Dim>));
  static const cudaError_t raised = cudaFuncSetAttribute(
      AttendUnitKernel<Kind, Dim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  Check(raised, "shared memory of attention");
  const auto blocks = static_cast<unsigned>(call.unit_count * call.shape.kv_heads);
  AttendUnitKernel<Kind, Dim><<<blocks, kUnitThreads, kBytes, stream>>>(call);
  CheckLaunch("attention");
}

template <typename Kind>
void AttendWithMatrices(cudaStream_t stream, const AttentionCall& call) {
  switch (call.kv.layout.padded_dim) {
    case 32:
      return LaunchUnits<Kind, 32>(stream, call);
    case 64:
      return LaunchUnits<Kind, 64>(stream, call);
    case 96:
      return LaunchUnits<Kind, 96>(stream, call);
    case 128:
      return LaunchUnits<Kind, 128>(stream, call);
    default:
      return LaunchUnits<Kind, 256>(stream, call);
  }
}

}  // namespace banyan::cuda
