// The short convolution of layers that keep states, and copies of states (device_states.h).
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/states/device_states.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 128;

// Where the rows of a channel come from: those before the run from the window that it begins with.
struct ChannelInputs {
  const ConvolutionLaunch& call;
  const StateRun& run;
  const float* window;  // null: nothing came before
  int channel;

  __device__ float At(std::int32_t row) const {
    if (row < run.row_begin) {
      const int index = row - run.row_begin + call.taps - 1;
      return window == nullptr ? 0.0f : window[std::int64_t{index} * call.channels + channel];
    }
    const float* const x = call.x + row * call.x_stride + channel;
    const float value = x[call.first_column];
    return call.gate_in < 0 ? value : __fmul_rn(value, x[call.gate_in]);
  }
};

// The window after the run. All of the old one is read before any of the new one is written: they
// may be the same.
template <int kMost>
__device__ void LeaveWindow(const ChannelInputs& inputs, float* window) {
  const ConvolutionLaunch& call = inputs.call;
  const int before = call.taps - 1;
  float values[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (i < before) values[i] = inputs.At(inputs.run.row_end - before + i);
  }
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (i < before) window[std::int64_t{i} * call.channels + inputs.channel] = values[i];
  }
}

// A block takes kThreads channels of a piece, a thread one of them. kMost: at least as many as
// taps. Of a run, its first piece alone touches the window.
template <int kMost>
__global__ void __launch_bounds__(kThreads)
    ConvolveKernel(const __grid_constant__ ConvolutionLaunch call, const StateRun* runs,
                   const StatePiece* pieces) {
  LetNextKernelStart();
  const int channel = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  WaitForEarlierKernels();
  if (channel >= call.channels) return;
  const StatePiece piece = pieces[blockIdx.x];
  const StateRun run = runs[piece.run];
  const float* const window =
      run.from < 0 ? nullptr : call.states.windows + run.from * call.states.windows_stride;
  const ChannelInputs inputs{call, run, window, channel};
  // The newest tap is the last of each; the first ones are not used when there are fewer taps.
  const int unused = kMost - call.taps;
  float taps[kMost], values[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const bool used = i >= unused;
    taps[i] = used ? call.weights[std::int64_t{i - unused} * call.channels + channel] : 0.0f;
    values[i] = used && i + 1 < kMost ? inputs.At(piece.row_begin - kMost + 1 + i) : 0.0f;
  }
  if (piece.row_begin == run.row_begin) {
    LeaveWindow<kMost>(inputs, call.states.windows + run.to * call.states.windows_stride);
  }
  const float bias = call.bias == nullptr ? 0.0f : call.bias[channel];
  for (std::int32_t r = piece.row_begin; r < piece.row_end; ++r) {
    values[kMost - 1] = inputs.At(r);
    float sum = bias;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i >= unused) sum = fmaf(taps[i], values[i], sum);
    }
    if (call.silu) sum = sum / __fadd_rn(1.0f, expf(-sum));
    if (call.gate_out >= 0) {
      sum = __fmul_rn(sum, call.x[r * call.x_stride + call.gate_out + channel]);
    }
    const std::int64_t at = r * call.out_stride + channel;
    if (call.out.bf16 != nullptr) {
      call.out.bf16[at] = __float2bfloat16_rn(sum);
    } else {
      call.out.float32[at] = sum;
    }
#pragma unroll
    for (int i = 0; i + 1 < kMost; ++i) values[i] = values[i + 1];
  }
}

// --- Copies --------------------------------------------------------------------------------------
constexpr int kCopyThreads = 256, kMostCopies = 256, kFloatsOfBlock = 16384;

struct CopyList {
  StateCopy copy[kMostCopies];
};

template <typename T>
__global__ void __launch_bounds__(kCopyThreads)
    CopyStatesKernel(const __grid_constant__ CopyList list, T* first, std::int64_t slot) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  constexpr std::int64_t kOfBlock = kFloatsOfBlock * sizeof(float) / sizeof(T);
  const StateCopy copy = list.copy[blockIdx.y];
  const std::int64_t begin = blockIdx.x * kOfBlock;
  const std::int64_t end = begin + kOfBlock < slot ? begin + kOfBlock : slot;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kCopyThreads) {
    first[copy.to * slot + i] = first[copy.from * slot + i];
  }
}

}  // namespace

void ConvolveRuns(cudaStream_t stream, const RunsOnDevice& runs, const ConvolutionLaunch& call) {
  constexpr int kUsual = 4;
  const auto blocks = static_cast<unsigned>((call.channels + kThreads - 1) / kThreads);
  for (const StateWave& wave : runs.waves) {
    const auto pieces = static_cast<unsigned>(wave.piece_end - wave.piece_begin);
    LaunchEarly(stream, {dim3(pieces, blocks), kThreads}, "convolution",
                call.taps <= kUsual ? ConvolveKernel<kUsual> : ConvolveKernel<kMostTaps>, call,
                runs.runs, runs.pieces + wave.piece_begin);
  }
}

void CopyStatesOnDevice(cudaStream_t stream, std::span<const StateCopy> copies, float* first,
                        std::int64_t slot_floats) {
  if (slot_floats == 0) return;
  const auto across = static_cast<unsigned>((slot_floats + kFloatsOfBlock - 1) / kFloatsOfBlock);
  const bool fours = slot_floats % 4 == 0 && reinterpret_cast<std::uintptr_t>(first) % 16 == 0;
  while (!copies.empty()) {
    const auto count = copies.size() < kMostCopies ? copies.size() : std::size_t{kMostCopies};
    CopyList list{};
    for (std::size_t i = 0; i < count; ++i) list.copy[i] = copies[i];
    const LaunchShape shape{dim3(across, static_cast<unsigned>(count)), kCopyThreads};
    if (fours) {
      LaunchEarly(stream, shape, "copies of states", CopyStatesKernel<float4>, list,
                  reinterpret_cast<float4*>(first), slot_floats / 4);
    } else {
      LaunchEarly(stream, shape, "copies of states", CopyStatesKernel<float>, list, first,
                  slot_floats);
    }
    copies = copies.subspan(count);
  }
}

}  // namespace banyan::cuda
