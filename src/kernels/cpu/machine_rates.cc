#include "kernels/cpu/machine_rates.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/product.h"

namespace banyan {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // that a thread takes at once
constexpr size_t kLeastPieces = 16;
constexpr std::int64_t kPiecesEach = 32;  // of one run, for every thread
constexpr int kRuns = 3;

using Bytes = std::span<const std::byte>;

// A cache line, read in the vectors of the baseline instruction set.
using Line = std::uint64_t __attribute__((vector_size(64)));

// A checksum of all bytes but the last few, so that all must be read.
std::uint64_t ReadAll(Bytes piece) {
  Line sums[2] = {};
  size_t at = 0;
  for (; at + sizeof(sums) <= piece.size(); at += sizeof(sums)) {
    Line lines[2];
    std::memcpy(lines, piece.data() + at, sizeof(lines));
    sums[0] ^= lines[0];
    sums[1] ^= lines[1];
  }
  sums[0] ^= sums[1];
  std::uint64_t all = 0;
  for (size_t i = 0; i < sizeof(Line) / sizeof(std::uint64_t); ++i) all ^= sums[0][i];
  return all;
}

std::vector<Bytes> PiecesOf(std::span<const Bytes> memory) {
  std::vector<Bytes> pieces;
  for (Bytes rest : memory) {
    while (!rest.empty()) {
      pieces.push_back(rest.first(std::min(rest.size(), kPieceBytes)));
      rest = rest.subspan(pieces.back().size());
    }
  }
  return pieces;
}

}  // namespace

double MeasureReadRate(std::span<const Bytes> memory, ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  std::vector<Bytes> pieces = PiecesOf(memory);
  size_t there = 0;
  for (const Bytes piece : pieces) there += piece.size();
  const std::vector<std::byte> more(std::max(kLeastPieces * kPieceBytes, there) - there);
  const Bytes rest(more);
  for (const Bytes piece : PiecesOf({&rest, 1})) pieces.push_back(piece);

  const std::int64_t count = kPiecesEach * pool.size();
  std::atomic<std::uint64_t> seen = 0;
  double best = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    const auto piece = [&](std::int64_t i) {
      return pieces[static_cast<size_t>(run * count + i) % pieces.size()];
    };
    const Clock::time_point start = Clock::now();
    pool.ForEach(count, [&](std::int64_t i, int) {
      seen.fetch_xor(ReadAll(piece(i)), std::memory_order_relaxed);
    });
    const std::chrono::duration<double> took = Clock::now() - start;
    double bytes = 0.0;
    for (std::int64_t i = 0; i < count; ++i) bytes += static_cast<double>(piece(i).size());
    best = std::max(best, bytes / std::max(took.count(), 1e-9));
  }
  return best;
}

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

double MeasureInt8Flops(const CpuPath& path, ThreadPool& pool) {
  constexpr int kRows = 48, kColumns = 512, kPanels = 4, kRepeats = 16;
  const size_t workers = static_cast<size_t>(pool.size());
  const std::vector<float> x(kRows * kColumns, 0.5f);
  Int8RowBuffer memory;
  const Int8Rows quantized = memory.Quantize(x.data(), kColumns, kRows, kColumns, path, pool);
  const std::vector<std::uint8_t> panels(kPanels * kColumns * kPanelWidth, 5);
  const std::vector<float> panel_scales(panels.size() / kBlockColumns, 0.25f);
  std::vector<std::vector<float>> out(workers, std::vector<float>(kRows * kPanels * kPanelWidth));
  const double seconds = BestSeconds(5, [&] {
    pool.ForEach(pool.size(), [&](std::int64_t i, int) {
      IntegerProduct product;
      product.x = quantized;
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

MachineRates MeasureCpuRates(const CpuPath& path, bool quantized,
                             std::span<const std::span<const std::byte>> weights,
                             ThreadPool& pool) {
  const double flops = quantized ? MeasureInt8Flops(path, pool) : MeasureFlops(path.vector, pool);
  return {flops, MeasureReadRate(weights, pool)};
}

}  // namespace banyan
