// The matrices of layers that keep states: the gated delta rule and Mamba-2 (kernels/states.h),
// token by token in float32.
//
// A block takes four tiles of 16 values of a head's matrix for one run, a warp one of them: it
// keeps the tile in registers from the run's first row to its last. What rows bring (keys, queries,
// values, factors) comes by way of shared memory, some rows at a time, while the rows before them
// are computed; keys and queries are made of length 1 there.
//
// Lane l holds values 4 (l % 4) + … of kKeys keys. A sum over keys is, in this order: a chain of
// fused multiply-adds over the lane's keys from zero, then lanes l and l ^ 4, then ^ 8, then ^ 16.
// So a state's bits are those of its path, however it is cut.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/warp.cuh"
#include "kernels/cuda/states/device_states.h"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
// Rows whose vectors are in shared memory at a time; of a step with one row a run, that one.
constexpr int kRowsOfMany = 8, kRowsOfOne = 1;
// Rows whose factors are there: lanes compute them side by side.
constexpr int FactorRows(int rows) { return rows == 1 ? 1 : 32; }
static_assert(FactorRows(kRowsOfMany) % kRowsOfMany == 0);
constexpr int kKeyLanes = 8;  // lanes that share a value's keys
constexpr int kLaneValues = 4;
static_assert(kKeyLanes * kStateTile == 32 * kLaneValues);
constexpr double kSoftplusIsLinear = 20.0;  // from here on, as Transformers has it

__device__ float SumOverKeys(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 4);
  x += __shfl_xor_sync(0xffffffffu, x, 8);
  return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

struct Factors {
  float decay, strength;  // of the matrix, of the value
};

// As TokenFactors of the host (kernels/host_states.h).
template <bool kDelta>
__device__ Factors FactorsOf(const ScanLaunch& call, int head, std::int32_t row) {
  const float* const inputs = call.inputs + row * call.inputs_stride + head;
  double length = __fadd_rn(inputs[call.step_column], call.step_bias[head]);
  if (length <= kSoftplusIsLinear) length = log1p(exp(length));
  if (!kDelta) {
    length = fmin(fmax(length, static_cast<double>(call.least_step)),
                  static_cast<double>(call.most_step));
  }
  Factors factors;
  factors.decay = static_cast<float>(exp(call.rates[head] * length));
  factors.strength = static_cast<float>(
      kDelta ? 1.0 / (1.0 + exp(-static_cast<double>(inputs[call.strength_column]))) : length);
  return factors;
}

// Where a head's vectors stand in a row of ScanLaunch::mixed.
struct HeadColumns {
  __device__ HeadColumns(const ScanLaunch& call, int head) {
    const StateShape& shape = call.shape;
    const int key_head =
        shape.tiled ? head % shape.key_heads : head / (shape.heads / shape.key_heads);
    key = call.key_column + key_head * shape.key_dim;
    query = call.query_column + key_head * shape.key_dim;
    value = call.value_column + head * shape.value_dim;
  }
  int key, query, value;
};

// Some rows of a run as the block's warps read them; zeros behind the end of a vector.
template <int kKeys, int kRows>
struct RowsAhead {
  static constexpr int kKeyRoom = kKeyLanes * kKeys, kValueRoom = kWarps * kStateTile;
  static constexpr int kFactorRows = FactorRows(kRows);
  alignas(16) float vectors[kRows][2][kKeyRoom];  // key, query
  alignas(16) float values[kRows][kValueRoom];
  Factors factors[kFactorRows];
};

// What a thread brings of them.
template <int kKeys, int kRows>
struct ThreadRows {
  using Rows = RowsAhead<kKeys, kRows>;
  static constexpr int kAllVectors = 2 * kRows * Rows::kKeyRoom;
  static constexpr int kAllValues = kRows * Rows::kValueRoom;
  static constexpr int kOfVectors = (kAllVectors + kThreads - 1) / kThreads;
  static constexpr int kOfValues = (kAllValues + kThreads - 1) / kThreads;

  float vectors[kOfVectors], values[kOfValues];
  bool brings_factors = false;
  Factors factors = {};

  // Rows of the run from `first` on; values from `first_value` on.
  template <bool kDelta>
  __device__ void Load(const ScanLaunch& call, int head, int first_value, const StateRun& run,
                       std::int32_t first) {
    const std::int32_t end = run.row_end;
    const int me = static_cast<int>(threadIdx.x);
    const HeadColumns columns(call, head);
#pragma unroll
    for (int i = 0; i < kOfVectors; ++i) {
      const int at = me + kThreads * i, key = at % Rows::kKeyRoom, of = at / Rows::kKeyRoom;
      const std::int32_t row = first + of / 2;
      const int column = of % 2 == 0 ? columns.key : columns.query;
      const bool there = row < end && key < call.shape.key_dim;
      vectors[i] = there ? call.mixed[row * call.mixed_stride + column + key] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kOfValues; ++i) {
      const int at = me + kThreads * i, value = first_value + at % Rows::kValueRoom;
      const std::int32_t row = first + at / Rows::kValueRoom;
      const bool there = row < end && value < call.shape.value_dim;
      values[i] = there ? call.mixed[row * call.mixed_stride + columns.value + value] : 0.0f;
    }
    const int number = FactorOf();
    brings_factors = number >= 0 && number < Rows::kFactorRows &&
                     (first - run.row_begin) % Rows::kFactorRows == 0;
    if (brings_factors && first + number < end) {
      factors = FactorsOf<kDelta>(call, head, first + number);
    }
  }

  __device__ void Store(Rows& rows) const {
    const int me = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kOfVectors; ++i) {
      const int at = me + kThreads * i;
      if (at < kAllVectors) (&rows.vectors[0][0][0])[at] = vectors[i];
    }
#pragma unroll
    for (int i = 0; i < kOfValues; ++i) {
      const int at = me + kThreads * i;
      if (at < kAllValues) (&rows.values[0][0])[at] = values[i];
    }
    if (brings_factors) rows.factors[FactorOf()] = factors;
  }

 private:
  // The last warp brings factors: it has no vector of a single row.
  __device__ static int FactorOf() { return static_cast<int>(threadIdx.x) - (kThreads - 32); }
};

// Of length 1, and queries divided by the root of their size. A warp takes a vector.
template <int kKeys, int kRows>
__device__ void Normalize(int key_dim, RowsAhead<kKeys, kRows>& rows) {
  constexpr int kRoom = RowsAhead<kKeys, kRows>::kKeyRoom, kEach = (kRoom + 31) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const float root = 1.0f / sqrtf(static_cast<float>(key_dim));
  for (int of = warp; of < 2 * kRows; of += kWarps) {
    float* const vector = rows.vectors[of / 2][of % 2];
    float x[kEach], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      x[i] = lane + 32 * i < kRoom ? vector[lane + 32 * i] : 0.0f;
      sum = fmaf(x[i], x[i], sum);
    }
    const float length = of % 2 == 0 ? 1.0f : root;
    const float scale = length / sqrtf(__fadd_rn(WarpSum(sum), kKeyNormEps));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i < kRoom) vector[lane + 32 * i] = __fmul_rn(x[i], scale);
    }
  }
}

// A warp's tile.
template <int kKeys, bool kDelta>
class TileScan {
 public:
  static constexpr int kTogether = kKeys < 4 ? kKeys : 4;  // neighbours among a lane's keys

  __device__ TileScan(const ScanLaunch& call, int head, int tile)
      : call_(call),
        lane_(static_cast<int>(threadIdx.x) % 32),
        present_(tile < Tiles(call.shape)),
        first_value_(tile * kStateTile + kLaneValues * (lane_ % 4)),
        matrix_((std::int64_t{head} * Tiles(call.shape) + tile) * call.shape.key_dim * kStateTile +
                kLaneValues * (lane_ % 4)),
        out_column_(head * call.shape.value_dim + first_value_),
        skip_(call.skip == nullptr ? 0.0f : call.skip[head]) {}

  __host__ __device__ static int Tiles(const StateShape& shape) {
    return (shape.value_dim + kStateTile - 1) / kStateTile;
  }

  __device__ void Load(std::int32_t slot) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (present_ && slot >= 0 && Key(i) < call_.shape.key_dim) {
        four = *reinterpret_cast<const float4*>(Matrix(slot) + Key(i) * kStateTile);
      }
      state_[i][0] = four.x, state_[i][1] = four.y, state_[i][2] = four.z, state_[i][3] = four.w;
    }
  }

  __device__ void Store(std::int32_t slot) const {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      if (!present_ || Key(i) >= call_.shape.key_dim) continue;
      *reinterpret_cast<float4*>(Matrix(slot) + Key(i) * kStateTile) =
          make_float4(state_[i][0], state_[i][1], state_[i][2], state_[i][3]);
    }
  }

  // Row `number` of the run.
  template <int kRows>
  __device__ void Advance(const RowsAhead<kKeys, kRows>& rows, int number, std::int32_t row) {
    const int index = number % kRows;
    const Factors factors = rows.factors[number % RowsAhead<kKeys, kRows>::kFactorRows];
    const int tile = static_cast<int>(threadIdx.x) / 32;
    const float4 four = *reinterpret_cast<const float4*>(
        &rows.values[index][tile * kStateTile + kLaneValues * (lane_ % 4)]);
    const float value[kLaneValues] = {four.x, four.y, four.z, four.w};
    float key[kKeys], there[kLaneValues] = {};
    LoadVector(rows.vectors[index][0], key);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
#pragma unroll
      for (int v = 0; v < kLaneValues; ++v) {
        state_[i][v] = __fmul_rn(state_[i][v], factors.decay);
        if constexpr (kDelta) there[v] = fmaf(state_[i][v], key[i], there[v]);
      }
    }
    float added[kLaneValues], sums[kLaneValues] = {}, query[kKeys];
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) {
      const float next = kDelta ? __fsub_rn(value[v], SumOverKeys(there[v])) : value[v];
      added[v] = __fmul_rn(factors.strength, next);
    }
    LoadVector(rows.vectors[index][1], query);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
#pragma unroll
      for (int v = 0; v < kLaneValues; ++v) {
        state_[i][v] = fmaf(key[i], added[v], state_[i][v]);
        sums[v] = fmaf(state_[i][v], query[i], sums[v]);
      }
    }
    float* const out = call_.out + row * call_.out_stride + out_column_;
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) {
      float sum = SumOverKeys(sums[v]);
      if (call_.skip != nullptr) sum = fmaf(skip_, value[v], sum);
      if (lane_ < 4 && first_value_ + v < call_.shape.value_dim) out[v] = sum;
    }
  }

 private:
  // Of the lane's i-th one.
  __device__ int Key(int i) const {
    return kTogether * (lane_ / 4) + kKeyLanes * kTogether * (i / kTogether) + i % kTogether;
  }
  __device__ void LoadVector(const float* vector, float (&mine)[kKeys]) const {
#pragma unroll
    for (int i = 0; i < kKeys; i += kTogether) {
      const float* const from = vector + Key(i);
      if constexpr (kTogether == 4) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        mine[i] = four.x, mine[i + 1] = four.y, mine[i + 2] = four.z, mine[i + 3] = four.w;
      } else {
        const float2 two = *reinterpret_cast<const float2*>(from);
        mine[i] = two.x, mine[i + 1] = two.y;
      }
    }
  }
  __device__ float* Matrix(std::int32_t slot) const {
    return call_.states.matrices + slot * call_.states.matrices_stride + matrix_;
  }

  const ScanLaunch& call_;
  const int lane_;
  const bool present_;
  const int first_value_;
  const std::int64_t matrix_;  // of the lane's first values in a layer of a slot
  const int out_column_;
  const float skip_;
  float state_[kKeys][kLaneValues];
};

constexpr int BlocksBeside(int keys, int rows) { return keys > 16 ? 1 : rows == 1 ? 4 : 3; }

template <int kKeys, bool kDelta, int kRows>
__global__ void __launch_bounds__(kThreads, BlocksBeside(kKeys, kRows))
    ScanKernel(const __grid_constant__ ScanLaunch call, const StateRun* runs) {
  __shared__ RowsAhead<kKeys, kRows> rows;
  LetNextKernelStart();
  const int head = static_cast<int>(blockIdx.y), first_tile = static_cast<int>(blockIdx.z) * kWarps;
  WaitForEarlierKernels();
  const StateRun run = runs[blockIdx.x];
  TileScan<kKeys, kDelta> scan(call, head, first_tile + static_cast<int>(threadIdx.x) / 32);
  scan.Load(run.from);
  ThreadRows<kKeys, kRows> next;
  const auto load = [&](std::int32_t first) {
    next.template Load<kDelta>(call, head, first_tile * kStateTile, run, first);
  };
  load(run.row_begin);
#pragma unroll 1
  for (std::int32_t first = run.row_begin; first < run.row_end; first += kRows) {
    next.Store(rows);
    __syncthreads();
    if constexpr (kDelta) {
      Normalize(call.shape.key_dim, rows);
      __syncthreads();
    }
    if (first + kRows < run.row_end) load(first + kRows);
    const std::int32_t end = min(first + kRows, run.row_end);
#pragma unroll 1
    for (std::int32_t row = first; row < end; ++row) scan.Advance(rows, row - run.row_begin, row);
    __syncthreads();
  }
  scan.Store(run.to);
}

template <int kKeys, int kRows>
auto KernelOf(const StateShape& shape) {
  return shape.rule == StateRule::kDelta ? ScanKernel<kKeys, true, kRows>
                                         : ScanKernel<kKeys, false, kRows>;
}

template <int kKeys>
void Launch(cudaStream_t stream, const RunsOnDevice& runs, const ScanLaunch& call) {
  if (call.shape.key_dim > kKeys * kKeyLanes) {
    if constexpr (kKeys * kKeyLanes < kMostKeyDim) return Launch<2 * kKeys>(stream, runs, call);
  }
  const int tiles = TileScan<kKeys, true>::Tiles(call.shape);
  const auto heads = static_cast<unsigned>(call.shape.heads);
  const auto blocks = static_cast<unsigned>((tiles + kWarps - 1) / kWarps);
  for (const StateWave& wave : runs.waves) {
    const auto count = static_cast<unsigned>(wave.run_end - wave.run_begin);
    const auto kernel = wave.most_rows == 1 ? KernelOf<kKeys, kRowsOfOne>(call.shape)
                                            : KernelOf<kKeys, kRowsOfMany>(call.shape);
    LaunchEarly(stream, {dim3(count, heads, blocks), kThreads}, "scan of states", kernel, call,
                runs.runs + wave.run_begin);
  }
}

}  // namespace

void ScanRuns(cudaStream_t stream, const RunsOnDevice& runs, const ScanLaunch& call) {
  Launch<2>(stream, runs, call);
}

}  // namespace banyan::cuda
