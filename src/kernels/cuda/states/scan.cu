// The matrices of layers that keep states: the gated delta rule and Mamba-2 (kernels/states.h),
// token by token in float32.
//
// A warp takes 16 values (a tile) of a head's matrix for one run and keeps them in registers from
// its first row to its last. Lane l holds values 4 (l % 4) + … of the keys l / 4 + 8 i. A sum over
// keys is, in this order: a chain of fused multiply-adds over i from zero, then lanes l and l ^ 4,
// then ^ 8, then ^ 16. So a state's bits are those of its path, however it is cut.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/states/device_states.h"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4;
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
  float decay = 0.0f, strength = 0.0f;  // of the matrix, of the value
};

// As TokenFactors of the host (kernels/host_states.h).
__device__ Factors FactorsOf(const ScanLaunch& call, int head, std::int32_t row) {
  const float* const inputs = call.inputs + row * call.inputs_stride + head;
  double length = __fadd_rn(inputs[call.step_column], call.step_bias[head]);
  if (length <= kSoftplusIsLinear) length = log1p(exp(length));
  if (call.shape.rule == StateRule::kMamba2) {
    length = fmin(fmax(length, static_cast<double>(call.least_step)),
                  static_cast<double>(call.most_step));
  }
  Factors factors;
  factors.decay = static_cast<float>(exp(call.rates[head] * length));
  factors.strength =
      static_cast<float>(call.shape.rule == StateRule::kDelta
                             ? 1.0 / (1.0 + exp(-static_cast<double>(inputs[call.strength_column])))
                             : length);
  return factors;
}

// What a lane needs of a row.
template <int kKeys>
struct RowPart {
  float key[kKeys], query[kKeys], value[kLaneValues];
};

template <int kKeys>
class TileScan {
 public:
  __device__ TileScan(const ScanLaunch& call, int head, int tile)
      : call_(call),
        head_(head),
        key_lane_(static_cast<int>(threadIdx.x) % 32 / 4),
        first_value_(tile * kStateTile + kLaneValues * (static_cast<int>(threadIdx.x) % 4)),
        matrix_((std::int64_t{head} * Tiles(call) + tile) * call.shape.key_dim * kStateTile +
                kLaneValues * (static_cast<int>(threadIdx.x) % 4)) {
    const StateShape& shape = call.shape;
    const int key_head =
        shape.tiled ? head % shape.key_heads : head / (shape.heads / shape.key_heads);
    key_column_ = call.key_column + key_head * call.shape.key_dim;
    query_column_ = call.query_column + key_head * call.shape.key_dim;
    value_column_ = call.value_column + head * call.shape.value_dim;
    if (call.skip != nullptr) skip_ = call.skip[head];
    root_ = 1.0f / sqrtf(static_cast<float>(call.shape.key_dim));
  }

  __host__ __device__ static int Tiles(const ScanLaunch& call) {
    return (call.shape.value_dim + kStateTile - 1) / kStateTile;
  }

  __device__ void Load(std::int32_t slot) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (slot >= 0 && Key(i) < call_.shape.key_dim) {
        four = *reinterpret_cast<const float4*>(Matrix(slot) + Key(i) * kStateTile);
      }
      state_[i][0] = four.x, state_[i][1] = four.y, state_[i][2] = four.z, state_[i][3] = four.w;
    }
  }

  __device__ void Store(std::int32_t slot) const {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      if (Key(i) >= call_.shape.key_dim) continue;
      *reinterpret_cast<float4*>(Matrix(slot) + Key(i) * kStateTile) =
          make_float4(state_[i][0], state_[i][1], state_[i][2], state_[i][3]);
    }
  }

  __device__ RowPart<kKeys> Fetch(std::int32_t row) const {
    const float* const mixed = call_.mixed + row * call_.mixed_stride;
    RowPart<kKeys> part;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const bool there = Key(i) < call_.shape.key_dim;
      part.key[i] = there ? mixed[key_column_ + Key(i)] : 0.0f;
      part.query[i] = there ? mixed[query_column_ + Key(i)] : 0.0f;
    }
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) {
      part.value[v] =
          first_value_ + v < call_.shape.value_dim ? mixed[value_column_ + first_value_ + v] : 0.0f;
    }
    return part;
  }

  template <bool kDelta>
  __device__ void Advance(std::int32_t row, const Factors& factors, RowPart<kKeys> part) {
    if constexpr (kDelta) {
      Normalize(1.0f, part.key);
      Normalize(root_, part.query);
    }
    float there[kLaneValues] = {};
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
#pragma unroll
      for (int v = 0; v < kLaneValues; ++v) {
        state_[i][v] = __fmul_rn(state_[i][v], factors.decay);
        if constexpr (kDelta) there[v] = fmaf(state_[i][v], part.key[i], there[v]);
      }
    }
    float added[kLaneValues], sums[kLaneValues] = {};
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) {
      float value = part.value[v];
      if constexpr (kDelta) value = __fsub_rn(value, SumOverKeys(there[v]));
      added[v] = __fmul_rn(factors.strength, value);
    }
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
#pragma unroll
      for (int v = 0; v < kLaneValues; ++v) {
        state_[i][v] = fmaf(part.key[i], added[v], state_[i][v]);
        sums[v] = fmaf(state_[i][v], part.query[i], sums[v]);
      }
    }
    float* const out = call_.out + row * call_.out_stride + head_ * call_.shape.value_dim;
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) {
      float sum = SumOverKeys(sums[v]);
      if (call_.skip != nullptr) sum = fmaf(skip_, part.value[v], sum);
      if (key_lane_ == 0 && first_value_ + v < call_.shape.value_dim) out[first_value_ + v] = sum;
    }
  }

 private:
  __device__ int Key(int i) const { return key_lane_ + kKeyLanes * i; }
  __device__ float* Matrix(std::int32_t slot) const {
    return call_.states.matrices + slot * call_.states.matrices_stride + matrix_;
  }
  // Of `length`.
  __device__ static void Normalize(float length, float (&x)[kKeys]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) sum = fmaf(x[i], x[i], sum);
    const float scale = length / sqrtf(__fadd_rn(SumOverKeys(sum), kKeyNormEps));
#pragma unroll
    for (int i = 0; i < kKeys; ++i) x[i] = __fmul_rn(x[i], scale);
  }

  const ScanLaunch& call_;
  const int head_, key_lane_, first_value_;
  const std::int64_t matrix_;  // of the lane's first values in a layer of a slot
  int key_column_, query_column_, value_column_;
  float skip_ = 0.0f, root_;
  float state_[kKeys][kLaneValues];
};

template <int kKeys, bool kDelta>
__global__ void __launch_bounds__(kWarps * 32)
    ScanKernel(const __grid_constant__ ScanLaunch call, const StateRun* runs) {
  LetNextKernelStart();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int task = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int tiles = TileScan<kKeys>::Tiles(call);
  WaitForEarlierKernels();
  if (task >= call.shape.heads * tiles) return;
  const StateRun run = runs[blockIdx.x];
  const int head = task / tiles;
  TileScan<kKeys> scan(call, head, task % tiles);
  scan.Load(run.from);
  RowPart<kKeys> next = scan.Fetch(run.row_begin);
  Factors ours;  // of row first + lane
  for (std::int32_t row = run.row_begin; row < run.row_end; ++row) {
    const int index = (row - run.row_begin) % 32;
    if (index == 0 && row + lane < run.row_end) ours = FactorsOf(call, head, row + lane);
    const Factors factors = {__shfl_sync(0xffffffffu, ours.decay, index),
                             __shfl_sync(0xffffffffu, ours.strength, index)};
    const RowPart<kKeys> part = next;
    if (row + 1 < run.row_end) next = scan.Fetch(row + 1);
    scan.template Advance<kDelta>(row, factors, part);
  }
  scan.Store(run.to);
}

template <int kKeys>
void Launch(cudaStream_t stream, const RunsOnDevice& runs, const ScanLaunch& call) {
  if (call.shape.key_dim > kKeys * kKeyLanes) {
    if constexpr (kKeys * kKeyLanes < kMostKeyDim) return Launch<2 * kKeys>(stream, runs, call);
  }
  const int tasks = call.shape.heads * TileScan<kKeys>::Tiles(call);
  const auto blocks = static_cast<unsigned>((tasks + kWarps - 1) / kWarps);
  for (const StateWave& wave : runs.waves) {
    const auto count = static_cast<unsigned>(wave.run_end - wave.run_begin);
    LaunchEarly(
        stream, {dim3(count, blocks), kWarps * 32}, "scan of states",
        call.shape.rule == StateRule::kDelta ? ScanKernel<kKeys, true> : ScanKernel<kKeys, false>,
        call, runs.runs + wave.run_begin);
  }
}

}  // namespace

void ScanRuns(cudaStream_t stream, const RunsOnDevice& runs, const ScanLaunch& call) {
  Launch<2>(stream, runs, call);
}

}  // namespace banyan::cuda
