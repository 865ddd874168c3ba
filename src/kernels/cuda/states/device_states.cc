// Where states lie on the device (device_states.h).
#include "kernels/cuda/states/device_states.h"

#include "base/error.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {
namespace {

std::int64_t WindowFloats(const StateShape& shape) {
  return std::int64_t{shape.taps - 1} * shape.channels;
}

}  // namespace

DeviceStates::DeviceStates(const std::shared_ptr<const Device>& device, const StateShape& shape,
                           int layers, int slot_count)
    : shape_(shape),
      layers_(layers),
      matrices_(shape.floats() - WindowFloats(shape)),
      window_(WindowFloats(shape)) {
  if (shape.heads > 0 && shape.key_dim > kMostKeyDim) {
    Throw(ErrorKind::kUnsupported,
          "device cuda: matrices of states for keys of {} values: expected at most {}",
          shape.key_dim, kMostKeyDim);
  }
  BANYAN_CHECK(shape.taps <= kMostTaps);
  slots = slot_count;
  memory_ = DeviceMemory(device, shape.bytes() * layers * slots, "states");
}

StateView DeviceStates::Layer(int layer) const {
  BANYAN_CHECK(layer >= 0 && layer < layers_);
  float* const windows = memory_.As<float>() + matrices_ * layers_ * slots;
  return {memory_.As<float>() + matrices_ * layer, windows + window_ * layer, matrices_ * layers_,
          window_ * layers_};
}

void DeviceStates::Copy(cudaStream_t stream, std::span<const StateCopy> copies) {
  for (const StateCopy& copy : copies) {
    BANYAN_CHECK(copy.from >= 0 && copy.from < slots && copy.to >= 0 && copy.to < slots);
  }
  const StateView first = Layer(0);
  CopyStatesOnDevice(stream, copies, first.matrices, first.matrices_stride);
  CopyStatesOnDevice(stream, copies, first.windows, first.windows_stride);
}

std::array<DeviceStates::Part, 2> DeviceStates::PartsOf(std::int32_t slot,
                                                        std::size_t bytes) const {
  BANYAN_CHECK(slot >= 0 && slot < slots);
  BANYAN_CHECK(bytes == static_cast<std::size_t>(shape_.bytes()) * static_cast<size_t>(layers_));
  const StateView first = Layer(0);
  return {Part{first.windows + slot * first.windows_stride, window_, 0},
          Part{first.matrices + slot * first.matrices_stride, matrices_, window_}};
}

void DeviceStates::Read(cudaStream_t stream, std::int32_t slot, std::span<std::byte> bytes) const {
  for (const Part& part : PartsOf(slot, bytes.size())) {
    if (part.floats == 0) continue;
    const std::size_t width = static_cast<std::size_t>(part.floats) * sizeof(float);
    Check(cudaMemcpy2DAsync(bytes.data() + part.offset * sizeof(float),
                            static_cast<std::size_t>(shape_.bytes()), part.on_device, width, width,
                            static_cast<std::size_t>(layers_), cudaMemcpyDeviceToHost, stream),
          "copy of a state to the host");
  }
}

void DeviceStates::Write(cudaStream_t stream, std::span<const std::byte> bytes, std::int32_t slot) {
  for (const Part& part : PartsOf(slot, bytes.size())) {
    if (part.floats == 0) continue;
    const std::size_t width = static_cast<std::size_t>(part.floats) * sizeof(float);
    Check(cudaMemcpy2DAsync(part.on_device, width, bytes.data() + part.offset * sizeof(float),
                            static_cast<std::size_t>(shape_.bytes()), width,
                            static_cast<std::size_t>(layers_), cudaMemcpyHostToDevice, stream),
          "copy of a state to the device");
  }
}

ConvolutionLaunch ConvolutionLaunchOf(const ConvolutionCall& call) {
  ConvolutionLaunch launch;
  launch.channels = call.shape.channels;
  launch.taps = call.shape.taps;
  launch.x = Float32(call.x);
  launch.x_stride = Stride(call.x.columns);
  launch.weights = Values(&call.taps);
  launch.bias = Values(call.bias);
  launch.first_column = call.first_column;
  launch.gate_in = call.gate_in;
  launch.gate_out = call.gate_out;
  launch.silu = call.silu;
  return launch;
}

ScanLaunch ScanLaunchOf(const ScanCall& call) {
  const StateShape& shape = call.shape;
  ScanLaunch launch;
  launch.shape = shape;
  const bool delta = shape.rule == StateRule::kDelta;
  const int keys = shape.key_heads * shape.key_dim;
  launch.key_column = delta ? keys : shape.values();
  launch.query_column = delta ? 0 : shape.values() + keys;
  launch.value_column = delta ? 2 * keys : 0;
  launch.step_column = call.step_column;
  launch.strength_column = call.strength_column;
  launch.least_step = call.least_step;
  launch.most_step = call.most_step;
  return launch;
}

}  // namespace banyan::cuda
