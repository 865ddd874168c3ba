#include "kernels/cpu/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace banyan {
namespace {

template <typename Body>
double BestSeconds(int runs, const Body& body) {
  double best = 1e30;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

double MeasureFlops(const VectorKernels& vector, ThreadPool& pool) {
  constexpr int kRows = 48, kInner = 512, kPanels = 8, kRepeats = 8;
  const size_t workers = static_cast<size_t>(pool.size());
  const std::vector<float> x(kRows * kInner, 0.5f);
  const std::vector<float> panels(kPanels * kInner * kPanelWidth, 0.25f);
  std::vector<std::vector<float>> out(workers, std::vector<float>(kRows * kPanels * kPanelWidth));
  const double seconds = BestSeconds(5, [&] {
    pool.Run([&](int worker) {
      PanelProduct product;
      product.x = x.data();
      product.x_stride = kInner;
      product.rows = kRows;
      product.inner = kInner;
      product.panels = panels.data();
      product.panel_stride = kInner * kPanelWidth;
      product.panel_count = kPanels;
      product.out = out[static_cast<size_t>(worker)].data();
      product.out_stride = kPanels * kPanelWidth;
      for (int i = 0; i < kRepeats; ++i) vector.product_f32(product);
    });
  });
  return 2.0 * kRows * kInner * kPanels * kPanelWidth * kRepeats * pool.size() / seconds;
}

double MeasureBandwidth(const VectorKernels& vector, ThreadPool& pool) {
  constexpr std::int64_t kFloatsEach = std::int64_t{8} << 20;  // 32 MiB a thread
  std::vector<float> memory(static_cast<size_t>(kFloatsEach * pool.size()), 1.0f);
  const double seconds = BestSeconds(3, [&] {
    pool.Run(
        [&](int worker) { vector.all_finite(memory.data() + worker * kFloatsEach, kFloatsEach); });
  });
  return 4.0 * static_cast<double>(kFloatsEach) * pool.size() / seconds;
}

}  // namespace

MachineRates MeasureCpuRates(const VectorKernels& vector, ThreadPool& pool) {
  return {MeasureFlops(vector, pool), MeasureBandwidth(vector, pool)};
}

}  // namespace banyan
