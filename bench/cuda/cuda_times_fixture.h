// What the measurements of cuda_times have in common: a device, random weights in bf16 and
// quantised, and the mean time of a call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/cuda/device/timing.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

constexpr double kBytesPerSecond = 4.8e12, kFlops = 800e12;  // what the limits are reckoned with

inline double BitsOf(QuantisedForm form) {  // of a weight
  QuantisedRows part;
  part.form = form;
  part.rows = part.padded_rows = 16;
  part.columns = 256;
  return static_cast<double>(CodeBytes(part) + RecordsBytes(part)) * 8 / (16 * 256);
}

// Of body(i): mean over a graph of `count` calls, best of four runs of the graph. One call before
// it decides and allocates.
inline double MicrosecondsOfCall(const Device& device, int count,
                                 const std::function<void(int)>& body) {
  body(0);
  device.Synchronize();
  LaunchGraph graph(device, [&] {
    for (int i = 0; i < count; ++i) body(i);
  });
  graph.Seconds(1);
  double best = 1e30;
  for (int run = 0; run < 4; ++run) best = std::min(best, graph.Seconds(1));
  return best * 1e6 / count;
}

// bf16, the outputs padded to 16.
inline DeviceMatrix RandomBf16(const std::shared_ptr<const Device>& device, std::int64_t outputs,
                               std::int64_t inner, std::uint32_t seed) {
  DeviceMatrix w;
  w.rows = outputs;
  w.padded_rows = (outputs + 15) / 16 * 16;
  w.columns = w.stride = inner;
  w.form = WeightForm::kBF16;
  w.memory = DeviceMemory(device, w.padded_rows * inner * 2, "weights");
  FillRandom(device->stream, w.padded_rows * inner, seed, w.memory.As<__nv_bfloat16>());
  return w;
}

class TimedDevice {
 protected:
  DeviceMemory Zeros(std::int64_t bytes) const {
    DeviceMemory memory(device_, bytes, "a measurement");
    memory.Zero();
    return memory;
  }
  DeviceMemory RandomRows(std::int64_t count, std::uint32_t seed) const {  // bf16
    DeviceMemory memory(device_, count * 2, "a measurement");
    FillRandom(device_->stream, count, seed, memory.As<__nv_bfloat16>());
    return memory;
  }

  // Random codes; scales are of ordinary size in every form. REQUIRES: whole tiles.
  std::shared_ptr<DeviceMatrix> RandomQuantised(QuantisedForm form, std::int64_t rows,
                                                std::int64_t columns, std::uint32_t seed) const {
    auto matrix = std::make_shared<DeviceMatrix>();
    matrix->rows = matrix->padded_rows = rows;
    matrix->columns = matrix->stride = columns;
    matrix->form = WeightForm::kQuantised;
    QuantisedRows part;
    part.form = form;
    part.rows = part.padded_rows = rows;
    part.columns = columns;
    matrix->memory = DeviceMemory(device_, CodeBytes(part) + RecordsBytes(part), "weights");
    part.codes = matrix->memory.As<std::uint8_t>();
    part.records = part.codes + CodeBytes(part);
    FillRandom(device_->stream, CodeBytes(part) / 2, seed, matrix->memory.As<__nv_bfloat16>());
    Check(cudaMemsetAsync(part.records, 0x22, static_cast<size_t>(RecordsBytes(part)),
                          device_->stream),
          "records");
    matrix->quantised = {part};
    return matrix;
  }

  double Microseconds(int count, const std::function<void(int)>& body) const {
    return MicrosecondsOfCall(*device_, count, body);
  }

  std::shared_ptr<const Device> device_ = std::make_shared<Device>();
};

}  // namespace banyan::cuda
