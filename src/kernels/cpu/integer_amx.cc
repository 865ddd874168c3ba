// Integer products for AMX: sixteen rows meet sixteen outputs in one instruction. A panel's bytes
// stand as its tiles want them (four columns of an output together), and so do the rows' codes.
// Few rows go the way of AVX-512 VNNI.
#define BANYAN_SIMD_TARGET integer_amx
#include "kernels/cpu/integer_kernels.h"
#include "kernels/cpu/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 7;  // that are too few for a tile
constexpr int kStoredBias = 0;

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/integer_avx512vnni.inc"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

// What the compiler has in mind to store in memory is stored: tile instructions do not tell it what
// they read.
inline void StoreAll() { asm volatile("" ::: "memory"); }

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

constexpr int kTileRows = 16;

// Tiles 0 and 1: sums [16 rows, 16 outputs]; 2 and 3: codes [16 rows, group]; 4 and 5: weights
// [group / 4, 16 outputs of 4 columns].
void ShapeTiles(int group) {
  TileShapes shapes;
  for (int t = 0; t < 2; ++t) {
    shapes.row_bytes[t] = shapes.row_bytes[4 + t] = kTile * 4;
    shapes.row_bytes[2 + t] = static_cast<std::uint16_t>(group);
    shapes.rows[t] = shapes.rows[2 + t] = kTileRows;
    shapes.rows[4 + t] = static_cast<std::uint8_t>(group / 4);
  }
  StoreAll();
  _tile_loadconfig(&shapes);
}

// One group of rows and one panel of bytes. Where the group is smaller than a tile, the tile's last
// rows are what follows in memory, and nobody reads their sums. Groups of columns go in pairs of
// tiles, so that one is scaled while the next is multiplied.
template <typename Form>
void RowsOfPanel(const IntegerProduct& p, int first_row, int rows, int panel) {
  constexpr int kGroup = Form::kGroup, kGroupsOfBlock = kBlockColumns / kGroup;
  const int groups = p.columns / kGroup;
  const std::uint8_t* weights = p.panels + panel * p.panel_stride;
  const std::int64_t first_scale = static_cast<std::int64_t>(panel) * groups * kTile;
  const CodedRows x = p.x.From(static_cast<std::int64_t>(first_row) * (p.columns / kBlockColumns));
  const std::int64_t block_bytes = static_cast<std::int64_t>(rows) * kBlockColumns;
  const auto codes = [&](int g) {
    return x.codes + g / kGroupsOfBlock * block_bytes + g % kGroupsOfBlock * kGroup;
  };
  alignas(64) std::int32_t sums[2][kTileRows][kTile];
  const auto multiply = [&](int g) {
    if (g % 2 == 0) {
      _tile_zero(0);
      _tile_loadd(2, codes(g), kBlockColumns);
      _tile_loadd(4, weights + g * kGroup * kTile, kTile * 4);
      _tile_dpbssd(0, 2, 4);
      _tile_stored(0, sums[0], kTile * 4);
    } else {
      _tile_zero(1);
      _tile_loadd(3, codes(g), kBlockColumns);
      _tile_loadd(5, weights + g * kGroup * kTile, kTile * 4);
      _tile_dpbssd(1, 3, 5);
      _tile_stored(1, sums[1], kTile * 4);
    }
  };
  Vec total[kTileRows];
  BANYAN_UNROLL
  for (int r = 0; r < kTileRows; ++r) total[r] = Vec{};
  StoreAll();
  multiply(0);
  for (int g = 0; g < groups; ++g) {
    if (g + 1 < groups) multiply(g + 1);
    const int first = g / kGroupsOfBlock * rows;  // row of the group in this block
    const Vec scale = Load(p.scales + first_scale + static_cast<std::int64_t>(g) * kTile);
    const auto& group_sums = sums[g % 2];
    BANYAN_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const Vec sum = (Vec)_mm512_cvtepi32_ps(_mm512_load_si512(group_sums[r]));
      total[r] = Fma(sum, scale * Broadcast(x.scales[first + r]), total[r]);
    }
    if constexpr (Form::kMinima) {
      const Vec minimum = -Load(p.minima + first_scale + static_cast<std::int64_t>(g) * kTile);
      const int which = kGroupsOfBlock == 1 ? 0 : 1 + g % kGroupsOfBlock;
      BANYAN_UNROLL
      for (int r = 0; r < kTileRows; ++r) {
        total[r] = Fma(minimum, Broadcast(x.sums[which][first + r]), total[r]);
      }
    }
  }
  float* out = p.out + first_row * p.out_stride + static_cast<std::int64_t>(panel) * kTile;
  BANYAN_UNROLL
  for (int r = 0; r < kTileRows; ++r) {
    if (r < rows) Store(out + r * p.out_stride, total[r]);
  }
}

struct TileRows {
  static constexpr int kTogether = kTileRows;
  template <typename Form>
  static void Multiply(const IntegerProduct& p, int first_row, int rows, int panel, Ahead ahead) {
    if constexpr (!Form::kNibbles) {
      if (rows > kMaxRows) return RowsOfPanel<Form>(p, first_row, rows, panel);
    }
    IntegerRows<kMaxRows, Form>(p, first_row, rows, panel, ahead);
  }
};
// What tiles would have to multiply is never in nibbles.
static_assert(kRowsToUnpack == kMaxRows + 1);

void Product(const IntegerProduct& p) {
  if (p.rows > kMaxRows) ShapeTiles(p.group);
  ProductOfCodes<TileRows>(p);
  if (p.rows > kMaxRows) _tile_release();
}

}  // namespace

const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {4, kStoredBias, kStartUnit, kTileRows, 1, Product};
  return table;
}

}  // namespace banyan::BANYAN_SIMD_TARGET
