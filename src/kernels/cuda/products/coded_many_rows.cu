// Products of codes in tiles of 64 and 128 rows, and which tile serves.
#include "kernels/cuda/products/coded_many_rows.cuh"

#include <limits>

namespace banyan::cuda {
namespace coded_many {

void MultiplyTiles1(cudaStream_t stream, const CodedOperands& operands) {
  LaunchTile<Tile<1, 64>>(stream, operands);
}

void MultiplyTiles2(cudaStream_t stream, const CodedOperands& operands, int width) {
  if (width == 64) return LaunchTile<Tile<2, 64>>(stream, operands);
  LaunchTile<Tile<2, 128>>(stream, operands);
}

namespace {

// Cycles of a multiprocessor, as far as the bounds tell: matrix units (4096 products a cycle), the
// way from the L2 cache (48 bytes), memory (about 26 of each multiprocessor), and for each tile its
// start and its end. Fitted to times of an H200; a cycle stands for 0.74 ns.
double CyclesOf(const CodedOperands& operands, const CodedTile& tile, int multiprocessors) {
  constexpr double kFeed = 48.0, kMemory = 26.0, kStore = 28.0, kStart = 3000.0, kTurn = 600.0;
  const ProductShape& shape = operands.shape;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool gated = operands.form == ProductForm::kSwiGlu;
  const std::int64_t columns = gated ? shape.gated : shape.outputs;
  const std::int64_t row_tiles = up(shape.rows, tile.slabs * kSlabRows);
  const std::int64_t clusters = up(columns, kCluster * (gated ? tile.width / 2 : tile.width));
  const auto waves = static_cast<double>(up(row_tiles * clusters, multiprocessors / kCluster));
  const auto slabs =
      static_cast<double>(std::min<std::int64_t>(tile.slabs, up(shape.rows, kSlabRows)));
  const auto width = static_cast<double>(tile.width), all = static_cast<double>(multiprocessors);
  const auto chunks = static_cast<double>(shape.inner) / kCodeBoxColumns;
  const double products = slabs * width * 2.0;
  const double fed = (slabs * kSlabRows / kCluster + width) * kCodeBoxColumns;
  const double element = gated ? 1.0 : operands.form == ProductForm::kAdd ? 8.0 : 4.0;
  const double end = kStart + slabs * kSlabRows * width * element / kStore;
  const double multiplied = chunks * std::max(products, fed / kFeed);
  const double from_memory = static_cast<double>(shape.outputs * shape.inner) / (kMemory * all);
  const double all_tiles =
      tile.in_turns ? waves * (multiplied + kTurn) + end : waves * (multiplied + end);
  return std::max(all_tiles, from_memory);
}

}  // namespace
}  // namespace coded_many

bool CodedManyRowsCanServe(const CodedOperands& operands) {
  static const bool hopper = [] {
    int device = 0, major = 0;
    Check(cudaGetDevice(&device), "current device");
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    const auto kernel = coded_many::CodedManyKernel<coded_many::Tile<1, 64>, false>;
    return major == 9 && StartsEarly(reinterpret_cast<const void*>(kernel)) && HasTensorMaps();
  }();
  const ProductShape& shape = operands.shape;
  const bool gates_fit = operands.form != ProductForm::kSwiGlu || shape.gated % 2 == 0;
  return hopper && shape.rows >= 1 && gates_fit;
}

CodedTile CodedTileFor(const CodedOperands& operands, int multiprocessors) {
  CodedTile best;
  double least = std::numeric_limits<double>::infinity();
  for (const CodedTile& tile : kCodedTiles) {
    if (!tile.Serves(operands.form)) continue;
    const double cycles = coded_many::CyclesOf(operands, tile, multiprocessors);
    if (cycles >= least) continue;
    least = cycles;
    best = tile;
  }
  return best;
}

void MultiplyCodedManyRows(cudaStream_t stream, const CodedOperands& operands, CodedTile tile) {
  if (tile.in_turns) return coded_many::MultiplyTilesInTurns(stream, operands);
  if (tile.slabs == 1) return coded_many::MultiplyTiles1(stream, operands);
  if (tile.slabs == 2) return coded_many::MultiplyTiles2(stream, operands, tile.width);
  coded_many::MultiplyTiles4(stream, operands);
}

}  // namespace banyan::cuda
