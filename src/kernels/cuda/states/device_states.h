// States of layers on the device (kernels/states.h): where they lie, and the launchers of what
// computes them. A state is read and written once in a step, however many rows a run has.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/states.h"
#include "kernels/units/state_waves.h"

namespace banyan::cuda {

// Values of a matrix that lie together: a matrix is [value_dim / 16, key_dim, 16], with values
// rounded up, as on the host.
inline constexpr int kStateTile = 16;

// One layer of all slots, from slot to slot so many floats apart.
struct StateView {
  float* matrices = nullptr;  // [heads, matrix]
  float* windows = nullptr;   // [taps - 1, channels], oldest token first
  std::int64_t matrices_stride = 0, windows_stride = 0;
};

class DeviceStates final : public StateMemory {
 public:
  // Throws kLimit, and kUnsupported for matrices that the kernels do not take.
  DeviceStates(const std::shared_ptr<const Device>& device, const StateShape& shape, int layers,
               int slots);

  StateView Layer(int layer) const;
  void Copy(cudaStream_t stream, std::span<const StateCopy> copies);
  // A slot as HostStates has it: of every layer the window, then the matrices. Copies in the order
  // of the stream, which the caller waits for.
  void Read(cudaStream_t stream, std::int32_t slot, std::span<std::byte> bytes) const;
  void Write(cudaStream_t stream, std::span<const std::byte> bytes, std::int32_t slot);
  const void* data() const { return memory_.As<void>(); }

 private:
  struct Part {  // of a slot, in every layer
    float* on_device = nullptr;
    std::int64_t floats = 0, offset = 0;  // on the host, of a layer
  };
  std::array<Part, 2> PartsOf(std::int32_t slot, std::size_t bytes) const;

  const StateShape shape_;
  const int layers_;
  const std::int64_t matrices_, window_;  // floats of a layer
  DeviceMemory memory_;  // [slots, layers] matrices, which begin at 64 bytes; then all windows
};

// A step's runs in device memory, and on the host where waves end.
struct RunsOnDevice {
  const StateRun* runs = nullptr;
  const StatePiece* pieces = nullptr;
  std::span<const StateWave> waves;
};

// Kernels::Convolve. `x` and `out` have rows of so many elements.
struct ConvolutionLaunch {
  StateView states;
  int channels = 0, taps = 0;
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  const float* weights = nullptr;  // [taps, channels]
  const float* bias = nullptr;     // or null
  int first_column = 0, gate_in = -1, gate_out = -1;
  bool silu = false;
  RowOutput out;
  std::int64_t out_stride = 0;
};
// With all that the call says: neither states nor output.
ConvolutionLaunch ConvolutionLaunchOf(const ConvolutionCall& call);
void ConvolveRuns(cudaStream_t stream, const RunsOnDevice& runs, const ConvolutionLaunch& call);

// Kernels::Scan.
struct ScanLaunch {
  StateView states;
  StateShape shape;
  const float* mixed = nullptr;
  std::int64_t mixed_stride = 0;
  int key_column = 0, query_column = 0, value_column = 0;  // of head 0
  const float* inputs = nullptr;
  std::int64_t inputs_stride = 0;
  int step_column = 0, strength_column = 0;
  const float* rates = nullptr;
  const float* step_bias = nullptr;
  const float* skip = nullptr;  // or null
  float least_step = 0.0f, most_step = 0.0f;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
inline constexpr int kMostKeyDim = 256;
// With what the call says of shape and columns.
ScanLaunch ScanLaunchOf(const ScanCall& call);
void ScanRuns(cudaStream_t stream, const RunsOnDevice& runs, const ScanLaunch& call);

void CopyStatesOnDevice(cudaStream_t stream, std::span<const StateCopy> copies, float* first,
                        std::int64_t slot_floats);

}  // namespace banyan::cuda
