#include "kernels/cpu/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/read_rate.h"

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
    pool.ForEach(pool.size(), [&](std::int64_t i, int) {
      PanelProduct product;
      product.x = x.data();
      product.x_stride = kInner;
      product.rows = kRows;
      product.inner = kInner;
      product.panels = panels.data();
      product.panel_stride = kInner * kPanelWidth;
      product.panel_count = kPanels;
      product.out = out[static_cast<size_t>(i)].data();
      product.out_stride = kPanels * kPanelWidth;
      for (int repeat = 0; repeat < kRepeats; ++repeat) vector.product_f32(product);
    });
  });
  return 2.0 * kRows * kInner * kPanels * kPanelWidth * kRepeats * pool.size() / seconds;
}

double MeasureCodeFlops(const CpuPath& path, ThreadPool& pool) {
  constexpr int kRows = 48, kColumns = 512, kPanels = 4, kRepeats = 16;
  const size_t workers = static_cast<size_t>(pool.size());
  const std::vector<float> x(kRows * kColumns, 0.5f);
  CodedMemory memory;
  const CodedRows coded = memory.Code(x.data(), kColumns, kRows, kColumns, path, pool);
  const std::vector<std::uint8_t> panels(kPanels * kColumns * kPanelWidth, 5);
  const std::vector<float> panel_scales(panels.size() / kBlockColumns, 0.25f);
  std::vector<std::vector<float>> out(workers, std::vector<float>(kRows * kPanels * kPanelWidth));
  const double seconds = BestSeconds(5, [&] {
    pool.ForEach(pool.size(), [&](std::int64_t i, int) {
      IntegerProduct product;
      product.x = coded;
      product.rows = kRows;
      product.columns = kColumns;
      product.panels = panels.data();
      product.panel_stride = kColumns * kPanelWidth;
      product.panel_count = kPanels;
      product.scales = panel_scales.data();
      product.out = out[static_cast<size_t>(i)].data();
      product.out_stride = kPanels * kPanelWidth;
      for (int repeat = 0; repeat < kRepeats; ++repeat) path.integer.product(product);
    });
  });
  return 2.0 * kRows * kColumns * kPanels * kPanelWidth * kRepeats * pool.size() / seconds;
}

}  // namespace

MachineRates MeasureCpuRates(const CpuPath& path, bool codes,
                             std::span<const std::span<const std::byte>> weights,
                             ThreadPool& pool) {
  const double flops = codes ? MeasureCodeFlops(path, pool) : MeasureFlops(path.vector, pool);
  return {flops, MeasureReadRate(weights, pool)};
}

}  // namespace banyan
