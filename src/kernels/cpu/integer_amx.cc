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
static_assert(kTileRows <= kRowsPastEnd);
constexpr int kInFlight = 4;  // groups of columns whose sums are on their way

// Tiles 0 to 3: sums [16 rows, 16 outputs]; 4 and 5: codes [16 rows, group]; 6 and 7: weights
// [group / 4, 16 outputs of 4 columns].
void ShapeTiles(int group) {
  TileShapes shapes;
  for (int t = 0; t < 4; ++t) {
    shapes.row_bytes[t] = kTile * 4;
    shapes.rows[t] = kTileRows;
  }
  for (int t = 4; t < 6; ++t) {
    shapes.row_bytes[t] = static_cast<std::uint16_t>(group);
    shapes.rows[t] = kTileRows;
  }
  for (int t = 6; t < 8; ++t) {
    shapes.row_bytes[t] = kTile * 4;
    shapes.rows[t] = static_cast<std::uint8_t>(group / 4);
  }
  StoreAll();
  _tile_loadconfig(&shapes);
}

// One group of rows and one panel of bytes. Where the group is smaller than a tile, the tile's last
// rows are what follows in memory, and nobody reads their sums. A product takes long until its sums
// can be read, so that those of the next groups of columns are begun before.
template <typename Form>
class RowsOfPanel {
 public:
  RowsOfPanel(const IntegerProduct& p, int first_row, int rows, int panel)
      : p_(p),
        rows_(rows),
        groups_(p.columns / kGroup),
        weights_(p.panels + panel * p.panel_stride),
        first_scale_(static_cast<std::int64_t>(panel) * groups_ * kTile),
        x_(p.x.From(static_cast<std::int64_t>(first_row) * (p.columns / kBlockColumns))),
        out_(p.out + first_row * p.out_stride + static_cast<std::int64_t>(panel) * kTile) {}

  void Run() {
    Totals total;
    BANYAN_UNROLL
    for (int r = 0; r < kTileRows; ++r) total[r] = Vec{};
    StoreAll();
    Multiply<0>(0);
    Multiply<1>(1);
    Multiply<2>(2);
    for (int g = 0; g < groups_; g += kInFlight) {
      Step<0>(g, total);
      Step<1>(g + 1, total);
      Step<2>(g + 2, total);
      Step<3>(g + 3, total);
    }
    BANYAN_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      if (r < rows_) Put(p_, total[r], out_ + r * p_.out_stride);
    }
  }

 private:
  static constexpr int kGroup = Form::kGroup, kGroupsOfBlock = kBlockColumns / kGroup;

  // Not of the object, whose address the instructions know: it stays in registers.
  using Totals = Vec[kTileRows];

  template <int kSlot>
  void Step(int g, Totals& total) {
    if (g >= groups_) return;
    Multiply<(kSlot + 3) % kInFlight>(g + 3);
    Scale<kSlot>(g, total);
  }

  // The instructions name their tiles by literals.
  template <int kSlot>
  void Multiply(int g) {
    if (g >= groups_) return;
    const std::int8_t* codes =
        x_.codes + static_cast<std::int64_t>(g / kGroupsOfBlock) * rows_ * kBlockColumns +
        g % kGroupsOfBlock * kGroup;
    const std::uint8_t* weights = weights_ + g * kGroup * kTile;
    if constexpr (kSlot % 2 == 0) {
      _tile_loadd(4, codes, kBlockColumns);
      _tile_loadd(6, weights, kTile * 4);
    } else {
      _tile_loadd(5, codes, kBlockColumns);
      _tile_loadd(7, weights, kTile * 4);
    }
    if constexpr (kSlot == 0) {
      _tile_zero(0);
      _tile_dpbssd(0, 4, 6);
      _tile_stored(0, sums_[0], kTile * 4);
    } else if constexpr (kSlot == 1) {
      _tile_zero(1);
      _tile_dpbssd(1, 5, 7);
      _tile_stored(1, sums_[1], kTile * 4);
    } else if constexpr (kSlot == 2) {
      _tile_zero(2);
      _tile_dpbssd(2, 4, 6);
      _tile_stored(2, sums_[2], kTile * 4);
    } else {
      _tile_zero(3);
      _tile_dpbssd(3, 5, 7);
      _tile_stored(3, sums_[3], kTile * 4);
    }
  }

  template <int kSlot>
  void Scale(int g, Totals& total) {
    const int first = g / kGroupsOfBlock * rows_;  // row of the group in this block
    const std::int64_t at = first_scale_ + static_cast<std::int64_t>(g) * kTile;
    const Vec scale = Load(p_.scales + at);
    BANYAN_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const Vec sum = (Vec)_mm512_cvtepi32_ps(_mm512_load_si512(sums_[kSlot][r]));
      total[r] = Fma(sum, scale * Broadcast(x_.scales[first + r]), total[r]);
    }
    if constexpr (Form::kMinima) {
      const Vec minimum = -Load(p_.minima + at);
      const float* x_sums = x_.sums[kGroupsOfBlock == 1 ? 0 : 1 + g % kGroupsOfBlock] + first;
      BANYAN_UNROLL
      for (int r = 0; r < kTileRows; ++r) {
        total[r] = Fma(minimum, Broadcast(x_sums[r]), total[r]);
      }
    }
  }

  const IntegerProduct& p_;
  const int rows_, groups_;
  const std::uint8_t* const weights_;
  const std::int64_t first_scale_;
  const CodedRows x_;
  float* const out_;
  alignas(64) std::int32_t sums_[kInFlight][kTileRows][kTile];
};

struct TileRows {
  static constexpr int kTogether = kTileRows;
  template <typename Form>
  static void Multiply(const IntegerProduct& p, int first_row, int rows, int panel, Ahead ahead) {
    if constexpr (!Form::kNibbles) {
      if (rows > kMaxRows) return RowsOfPanel<Form>(p, first_row, rows, panel).Run();
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
