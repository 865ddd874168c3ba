// Attention over 16-bit and 8-bit KV with the matrix instruction that every device has. A block
// takes units of 64 packed rows: four warps of 16 share the keys and values of one cut at a time in
// shared memory. 16-bit keys and values come by asynchronous copies; 8-bit codes are unpacked at
// once.
//
//   scores   Q [16, dim] x K^T [dim, 128]: a chain over dim per score
//   weights  2^(score - max), rounded to 16 bits
//   values   weights [16, 128] x V [128, dim]: a chain over the cut's keys per value, from zero
//   merge    into the group's running partial, in registers; at its end into that of the unit's
//            groups so far, which waits in memory
//
// A cut's arithmetic is the same whatever the unit's other rows see: keys that no row sees are left
// out, which adds zeros to no sum; keys that this row does not see weigh zero. Zero times a value
// that is not finite (or so large that its exponent could shift a sum) would not be zero: such
// values, marked when they were stored, count as zero in the product, and the rows that see them
// get NaN.
#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"

namespace banyan::cuda {
namespace {

constexpr int kBlockWarps = kBlockRows / 16;
constexpr int kBlockThreads = kBlockWarps * 32;

// Of a longer head, keys come in pieces, and a task has some of the values. The bits are the same
// in pieces of any size.
constexpr int kMostTogether = 256;
// Shared memory that a block can have from sm_80 on (of 8.6, 8.9 and 12.0; others have more).
constexpr int kLeastMostShared = 99 << 10;

// Rows of shared memory are 16 bytes longer than the head, so that the eight rows of a tile lie in
// different banks.
template <typename Element, int Dim, int Piece>
struct UnitShared {
  Element query[kBlockRows][Dim + 8];
  Element key[kCutKeys][Piece + 8];
  Element value[kCutKeys][Piece + 8];
  float key_scale[kCutKeys], value_scale[kCutKeys];  // codes only
  unsigned unruly[kBlockWarps];                      // a bit per key of the cut
};

template <typename Kind, int Dim, int Piece>
class UnitTask {
 public:
  using Element = typename Kind::Element;
  using Shared = UnitShared<Element, Dim, Piece>;
  static constexpr int kDimsPerPass = Piece % 64 == 0 ? 64 : Piece % 32 == 0 ? 32 : 16;
  // Of the head in shared memory: some of its keys' values, and the task's own values.
  static constexpr int kPiece = Piece, kPieces = Dim / kPiece;

  // `part` of kPieces: which values are the task's.
  __device__ UnitTask(const AttentionCall& call, const UnitView& unit, int part, Shared& shared)
      : call_(call),
        unit_(unit),
        first_value_(part * kPiece),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    FindOffsets();
    int begin = unit_.NextCut(unit_.key_begin());
    if (begin < unit_.key_end()) {
      LoadKeys(begin, 0);
      CommitCopies();
      LoadValues(begin);
      CommitCopies();
    }
    LoadQueries();
    while (begin < unit_.key_end()) {
      const int next = unit_.NextCut(begin + kCutKeys);
      WaitForCopies<1>();
      __syncthreads();
      Score(begin, 0);
      __syncthreads();
#pragma unroll 1
      for (int piece = 1; piece < kPieces; ++piece) {
        LoadKeys(begin, piece);
        CommitCopies();
        WaitForCopies<0>();
        __syncthreads();
        Score(begin, piece);
        __syncthreads();
      }
      if constexpr (Kind::kInt8) ScaleScores();
      if constexpr (Kind::kInt8) __syncthreads();
      if (next < unit_.key_end()) LoadKeys(next, 0);
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
  // --- Loads ------------------------------------------------------------------------------------
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
  __device__ void LoadKeys(int begin, int piece) {
    if constexpr (Kind::kInt8) {
      LoadCodes(begin, 0, piece * kPiece, &shared_.key[0][0], shared_.key_scale);
    } else {
      LoadElements(begin, 0, piece * kPiece, &shared_.key[0][0]);
    }
  }

  // Also finds this thread's `unruly_`.
  __device__ void LoadValues(int begin) {
    if constexpr (Kind::kInt8) {
      LoadCodes(begin, call_.kv.layout.value_offset, first_value_, &shared_.value[0][0],
                shared_.value_scale);
    } else {
      LoadElements(begin, call_.kv.layout.value_offset, first_value_, &shared_.value[0][0]);
      const int key = begin + static_cast<int>(threadIdx.x);
      unruly_ = 0;
      if (key < unit_.HighKey(begin)) {
        const std::byte* block = unit_.BlockOfKey(key);
        unruly_ = static_cast<int>(block[call_.kv.layout.flag_offset + key % kPageTokens]);
      }
    }
  }

  // kPiece values of each head from `first` on.
  __device__ void LoadElements(int begin, int offset, int first, Element* target) {
    constexpr int kChunks = kPiece / 8;  // of 16 bytes
    const int high = unit_.HighKey(begin);
    const int count = unit_.Pages(begin) * 16 * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) {
      const int key = i / kChunks, chunk = i % kChunks;
      const std::byte* block = unit_.BlockOfKey(begin + key);
      const std::byte* source =
          block + offset + TileOffset(key % kPageTokens, first + chunk * 8, Dim) * 2;
      CopyAsync(target + key * (kPiece + 8) + chunk * 8, source, begin + key < high);
    }
  }

  // Codes are exact in 16 bits; their scales go to the scores and to the weights.
  __device__ void LoadCodes(int begin, int offset, int from, Element* target, float* scales) {
    constexpr int kChunks = kPiece / 16;  // of 16 codes
    const int high = unit_.HighKey(begin);
    const int count = unit_.Pages(begin) * 16 * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) {
      const int key = i / kChunks, chunk = i % kChunks;
      uint4 codes = make_uint4(0, 0, 0, 0);
      if (begin + key < high) {
        const std::byte* block = unit_.BlockOfKey(begin + key);
        codes = *reinterpret_cast<const uint4*>(
            block + offset + CodeOffset(key % kPageTokens, from + chunk * 16, Dim));
      }
      uint4 first, second;
      UnpackRow(codes, first, second);
      auto* out = reinterpret_cast<uint4*>(target + key * (kPiece + 8) + chunk * 16);
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

  // --- A cut ------------------------------------------------------------------------------------
  // Of the
  // unit: the lane's two rows.
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

  // Adds what a piece of the heads gives.
  __device__ void Score(int begin, int piece) {
    const int tiles = WarpPages(begin);
    if (piece == 0) {
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) score_[n][i] = 0.0f;
      }
    }
    if (tiles == 0) return;
    const int tile = lane_ / 8, row = lane_ % 8;
    const Element* query =
        &shared_.query[warp_ * 16 + (tile % 2) * 8 + row][piece * kPiece + (tile / 2) * 8];
    const Element* key = &shared_.key[(tile / 2) * 8 + row][(tile % 2) * 8];
#pragma unroll
    for (int k = 0; k < kPiece; k += 16) {
      std::uint32_t a[4];
      LoadTiles(a, query + k);
#pragma unroll
      for (int j = 0; j < kPagesPerCut; ++j) {
        if (j >= tiles) break;
        std::uint32_t b[4];
        LoadTiles(b, key + j * 16 * (kPiece + 8) + k);
        Mma(score_[2 * j], a, b[0], b[1], Element{});
        Mma(score_[2 * j + 1], a, b[2], b[3], Element{});
      }
    }
  }

  // Codes only.
  __device__ void ScaleScores() {
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score_[n][i] *= shared_.key_scale[KeyOfScore(n, i)];
    }
  }

  // Scores → weights in 16 bits, and the cut's maximum and sum merged into the running ones.
  __device__ void Weigh(int begin) {
#pragma unroll
    for (int half = 0; half < 2; ++half) seen_[half] = unit_.Seen(offset_[half], begin);
    if constexpr (Kind::kInt8) {
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
    for (int d = 0; d < kPiece; d += kDimsPerPass) {
      float sums[kColumns][4] = {};
#pragma unroll
      for (int j = 0; j < kPagesPerCut; ++j) {
        if (j >= tiles) break;
#pragma unroll
        for (int n = 0; n < kColumns; n += 2) {
          std::uint32_t b[4];
          LoadTilesTransposed(b, value + j * 16 * (kPiece + 8) + d + n * 8);
          Mma(sums[n], weight_[j], b[0], b[1], Element{});
          Mma(sums[n + 1], weight_[j], b[2], b[3], Element{});
        }
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (Kind::kInt8) sums[n][i] *= value_unit_[i / 2];
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
      for (int d = 0; d < kPiece; ++d) shared_.value[threadIdx.x][d] = Element{};
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
      if constexpr (kPieces > 1) {  // other tasks write them as well
        max = stored_rows_[half].max;
        sum = stored_rows_[half].sum;
      } else if (stored_ && at >= 0) {
        max = call_.partials.max[at];
        sum = call_.partials.sum[at];
      }
      __syncwarp();  // before one of the row's lanes writes them anew
      const MergeFactors factors = PrepareMerge(max, sum, rows_[half].max, rows_[half].sum);
      rows_[half] = RunningRow();
      if constexpr (kPieces > 1) {
        stored_rows_[half].max = max;
        stored_rows_[half].sum = sum;
      }
      if (at < 0) continue;
      if (lane_ % 4 == 0 && first_value_ == 0) {
        call_.partials.max[at] = max;
        call_.partials.sum[at] = sum;
      }
      float* value = call_.partials.value + at * dim;
#pragma unroll
      for (int n = 0; n < kPiece / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = first_value_ + n * 8 + 2 * (lane_ % 4) + i;
          if (d >= dim) continue;
          value[d] = MergeValue(factors, stored_ ? value[d] : 0.0f, total_[n][2 * half + i]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kPiece / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[n][i] = 0.0f;
    }
    stored_ = true;
  }

  const AttentionCall& call_;
  const UnitView& unit_;
  const int first_value_;
  Shared& shared_;
  const int warp_, lane_;
  int unruly_ = 0;                         // key threadIdx.x of the cut is marked
  int offset_[2];                          // of the lane's rows
  int warp_highest_;                       // of the warp's rows
  VisibleKeys seen_[2];                    // within the cut
  float score_[kScoreTiles][4];            // [key / 8]
  std::uint32_t weight_[kPagesPerCut][4];  // [key / 16]
  float value_unit_[2] = {1.0f, 1.0f};     // codes only
  // The running partial of the group.
  RunningRow rows_[2];
  float total_[kPiece / 8][4] = {};
  RunningRow stored_rows_[2];  // earlier groups of the unit, where there are several pieces
  bool stored_ = false;        // earlier groups of the unit are in memory
};

template <typename Kind, int Dim, int Piece>
__global__ void __launch_bounds__(kBlockThreads)
    AttendUnitKernel(const __grid_constant__ AttentionCall call) {
  using Task = UnitTask<Kind, Dim, Piece>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename Task::Shared*>(memory);
  constexpr int kParts = Task::kPieces;
  const int tasks = call.units.counts->wide * call.shape.kv_heads;
  for (int i = static_cast<int>(blockIdx.x); i < kParts * tasks; i += static_cast<int>(gridDim.x)) {
    const UnitView unit(call, call.units.many_rows[i / kParts / call.shape.kv_heads],
                        i / kParts % call.shape.kv_heads);
    Task(call, unit, i % kParts, shared).Run();
    __syncthreads();
  }
}

template <typename Kind, int Dim, int Piece>
constexpr int kUnitBytes = static_cast<int>(sizeof(UnitShared<typename Kind::Element, Dim, Piece>));

template <typename Kind, int Dim, int Piece>
void LaunchPieces(cudaStream_t stream, int blocks, const AttentionCall& call) {
  constexpr int kBytes = kUnitBytes<Kind, Dim, Piece>;
  RaiseSharedMemory<AttendUnitKernel<Kind, Dim, Piece>>(kBytes);
  AttendUnitKernel<Kind, Dim, Piece>
      <<<static_cast<unsigned>(blocks), kBlockThreads, kBytes, stream>>>(call);
  CheckLaunch("attention");
}

template <typename Kind, int Dim>
void LaunchUnits(cudaStream_t stream, int blocks, const AttentionCall& call) {
  constexpr int kPiece = Dim < kMostTogether ? Dim : kMostTogether;
  constexpr int kBytes = kUnitBytes<Kind, Dim, kPiece>;
  if constexpr (Dim > 128) {
    constexpr int kSmall = Dim == 256 ? 64 : 32;
    static_assert(kUnitBytes<Kind, Dim, kSmall> <= kLeastMostShared);
    if (MostSharedBytes() < kBytes) return LaunchPieces<Kind, Dim, kSmall>(stream, blocks, call);
  } else {
    static_assert(kBytes <= kLeastMostShared);
  }
  LaunchPieces<Kind, Dim, kPiece>(stream, blocks, call);
}

template <typename Kind>
void AttendKind(cudaStream_t stream, int blocks, const AttentionCall& call) {
  ForHeadDim<32, 64, 80, 96, 128, 256, 512>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchUnits<Kind, decltype(dim)::value>(stream, blocks, call);
  });
}

}  // namespace

void AttendBlocks(cudaStream_t stream, int blocks, KvType type, const AttentionCall& call) {
  if (type == KvType::kQ8) return AttendKind<KvKind<__half, true>>(stream, blocks, call);
  if (type == KvType::kF16) return AttendKind<KvKind<__half, false>>(stream, blocks, call);
  AttendKind<KvKind<__nv_bfloat16, false>>(stream, blocks, call);
}

}  // namespace banyan::cuda
