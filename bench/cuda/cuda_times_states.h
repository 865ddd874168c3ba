// cuda_times --states: the convolution and the scan of one layer that keeps a state, beside the
// time that reading and writing the states once takes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_times_fixture.h"
#include "kernels/cuda/states/device_states.h"

namespace banyan::cuda {

class StateTimes : TimedDevice {
 public:
  static constexpr int kMostRuns = 256, kMostRows = 4096;

  StateTimes(const char* name, const StateShape& shape)
      : name_(name),
        shape_(shape),
        states_(device_, shape, 1, kMostRuns),
        inputs_(Zeros(std::int64_t{4} * kMostRows * Width())),
        mixed_(Zeros(std::int64_t{4} * kMostRows * shape.channels)),
        out_(Zeros(std::int64_t{4} * kMostRows * shape.values())),
        weights_(Zeros(std::int64_t{4} * kMostTaps * shape.channels)) {
    Check(cudaMemsetAsync(const_cast<void*>(states_.data()), 0,
                          static_cast<size_t>(shape.bytes() * kMostRuns), device_->stream),
          "clear");
  }

  void Report() {
    fmt::print("\n{}: a state of {:.2f} MB\n runs  rows of each  convolution     scan    limit\n",
               name_, static_cast<double>(shape_.bytes()) * 1e-6);
    for (const int runs : {1, 8, 32, 256}) Report(runs, 1);
    for (const int rows : {16, 256, 2048}) Report(1, rows);
    Report(16, 256);
  }

 private:
  std::int64_t Width() const { return (shape_.channels + 2 * shape_.heads + 15) / 16 * 16; }

  void Report(int runs, int rows) {
    std::vector<StateRun> all;
    for (int i = 0; i < runs; ++i) all.push_back({i * rows, (i + 1) * rows, i, i});
    const StateWaves waves = WavesOf(all);
    const auto upload = [&](const auto& values) {
      const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(values[0]));
      DeviceMemory memory(device_, bytes, "runs");
      memory.CopyFromHost(values.data(), bytes);
      return memory;
    };
    const DeviceMemory run_memory = upload(waves.runs), piece_memory = upload(waves.pieces);
    const RunsOnDevice on_device{run_memory.As<StateRun>(), piece_memory.As<StatePiece>(),
                                 waves.waves};
    ConvolutionLaunch convolution;
    convolution.states = states_.Layer(0);
    convolution.channels = shape_.channels;
    convolution.taps = shape_.taps;
    convolution.x = inputs_.As<float>();
    convolution.x_stride = Width();
    convolution.weights = weights_.As<float>();
    convolution.silu = true;
    convolution.out = {mixed_.As<float>(), nullptr};
    convolution.out_stride = shape_.channels;
    const double convolving =
        Microseconds(20, [&](int) { ConvolveRuns(device_->stream, on_device, convolution); });
    ScanLaunch scan = shape_.heads == 0 ? ScanLaunch() : ScanLaunchOf(ShapeOnly());
    scan.states = states_.Layer(0);
    scan.mixed = mixed_.As<float>();
    scan.mixed_stride = shape_.channels;
    scan.inputs = inputs_.As<float>();
    scan.inputs_stride = Width();
    scan.rates = scan.step_bias = weights_.As<float>();
    scan.out = out_.As<float>();
    scan.out_stride = shape_.values();
    const double scanning = shape_.heads == 0 ? 0.0 : Microseconds(20, [&](int) {
      ScanRuns(device_->stream, on_device, scan);
    });
    const double limit = 2.0 * static_cast<double>(shape_.bytes()) * runs / kBytesPerSecond * 1e6;
    fmt::print("{:5} {:14} {:9.1f} us {:6.1f} us {:6.1f} us\n", runs, rows, convolving, scanning,
               limit);
    std::fflush(stdout);
  }

  ScanCall ShapeOnly() const {
    static const Tensor none;
    static const Vector empty;
    ScanCall call{
        .shape = shape_, .mixed = none, .inputs = none, .rates = empty, .step_bias = empty};
    call.step_column = shape_.channels;
    call.strength_column = shape_.channels + shape_.heads;
    return call;
  }

  const char* const name_;
  const StateShape shape_;
  DeviceStates states_;
  DeviceMemory inputs_, mixed_, out_, weights_;
};

inline void ReportStateTimes() {
  StateTimes("qwen3.5-9b", {StateRule::kDelta, 8192, 4, 32, 16, 128, 128}).Report();
  StateTimes("granite-4-h-small", {StateRule::kMamba2, 8448, 4, 128, 1, 128, 64}).Report();
  StateTimes("lfm2-1.2b", {StateRule::kConvolution, 2048, 3}).Report();
}

}  // namespace banyan::cuda
