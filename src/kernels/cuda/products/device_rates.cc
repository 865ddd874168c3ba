// Measured rates of the device: operations and bytes a second.
#include "kernels/cuda/products/device_rates.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/products/int8_products.h"

namespace banyan::cuda {
namespace {

template <typename Body>
double BestSeconds(const Device& device, int runs, const Body& body) {
  double best = 1e30;
  Event start, end;
  for (int run = 0; run < runs; ++run) {
    start.Record(device.stream);
    body();
    end.Record(device.stream);
    best = std::min(best, end.SecondsSince(start));
  }
  return best;
}

double MeasureFlops(const std::shared_ptr<const Device>& device, Products* products) {
  const std::int64_t side = products != nullptr ? 4096 : 2048;
  const std::int64_t element = products != nullptr ? 2 : 4;
  DeviceMatrix w;
  w.rows = w.columns = w.padded_rows = w.stride = side;
  w.memory = DeviceMemory(device, side * side * element, "a measurement");
  const DeviceMemory x(device, side * side * element, "a measurement");
  const DeviceMemory out(device, side * side * 4, "a measurement");
  // As float32 the bits are whatever two bf16 values make: of ordinary size as well.
  FillRandom(device->stream, side * side * element / 2, 3, w.memory.As<__nv_bfloat16>());
  FillRandom(device->stream, side * side * element / 2, 4, x.As<__nv_bfloat16>());
  const auto multiply = [&] {
    if (products != nullptr) {
      products->Multiply(x.As<__nv_bfloat16>(), side, w,
                         {ProductForm::kFloat32, out.As<void>(), nullptr});
    } else {
      MultiplyF32(device->stream, x.As<float>(), w.memory.As<float>(), {side, side, side, side},
                  ProductForm::kFloat32, out.As<float>());
    }
  };
  multiply();
  const double flops = 2.0 * static_cast<double>(side * side * side);
  return flops / BestSeconds(*device, 5, multiply);
}

double MeasureInt8Flops(const std::shared_ptr<const Device>& device) {
  constexpr std::int64_t kSide = 4096;
  DeviceMatrix w;
  w.rows = w.columns = w.padded_rows = w.stride = kSide;
  w.form = WeightForm::kBF16;
  w.memory = DeviceMemory(device, kSide * kSide * 2, "a measurement");
  FillRandom(device->stream, kSide * kSide, 3, w.memory.As<__nv_bfloat16>());
  const auto w8 = QuantizeMatrix(device, w);
  const DeviceMemory out(device, kSide * kSide * 4, "a measurement");
  const Int8Rows x{w8->memory.As<std::int8_t>(), w8->scales};
  const auto multiply = [&] {
    MultiplyInt8(*device, x, kSide, *w8, {ProductForm::kFloat32, out.As<void>()});
  };
  multiply();
  return 2.0 * static_cast<double>(kSide * kSide * kSide) / BestSeconds(*device, 5, multiply);
}

double MeasureBandwidth(const std::shared_ptr<const Device>& device) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  const DeviceMemory from(device, kBytes, "a measurement"), to(device, kBytes, "a measurement");
  const double seconds = BestSeconds(*device, 4, [&] {
    Check(cudaMemcpyAsync(to.As<void>(), from.As<void>(), kBytes, cudaMemcpyDeviceToDevice,
                          device->stream),
          "copy on the device");
  });
  return 2.0 * static_cast<double>(kBytes) / seconds;
}

}  // namespace

MachineRates MeasureDeviceRates(const std::shared_ptr<const Device>& device, Products* products,
                                bool int8) {
  try {
    const double flops = int8 ? MeasureInt8Flops(device) : MeasureFlops(device, products);
    return {flops, MeasureBandwidth(device)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
    return {};
  }
}

}  // namespace banyan::cuda
