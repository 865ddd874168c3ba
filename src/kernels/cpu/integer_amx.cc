// Integer products for AMX: sixteen rows meet sixteen outputs in one instruction. A panel's bytes
// stand as its tiles want them (four columns of an output together), and so do the rows' codes.
// Fewer rows go the way of AVX-512 VNNI.
#define BANYAN_SIMD_TARGET integer_amx
#include "kernels/cpu/integer_kernels.h"
#include "kernels/cpu/simd.h"

namespace banyan::integer_avx512vnni {
const IntegerKernels& Table();
}

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kTileRows = 16;
constexpr int kRowChunk = 96;     // whose codes stay in cache while the panels pass by
constexpr int kFewestInTile = 4;  // rows that are worth a tile with others computed again
constexpr int kPanelBlockBytes = kTile * kBlockColumns;

// What the compiler has in mind to store there is stored: tile instructions do not tell it what
// they read.
inline void StoreAll(const void* memory) { asm volatile("" ::"r"(memory) : "memory"); }

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

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
  StoreAll(&shapes);
  _tile_loadconfig(&shapes);
}

// Sixteen rows and one panel. Groups go in pairs of tiles, so that one is scaled while the next is
// multiplied.
template <int kGroup>
void RowsOfPanel(const IntegerProduct& p, int first_row, int panel) {
  constexpr int kGroupsOfBlock = kBlockColumns / kGroup;
  const int groups = p.columns / kGroup, blocks = p.columns / kBlockColumns;
  const std::uint8_t* weights = p.panels + panel * p.panel_stride;
  const std::int64_t first_scale = static_cast<std::int64_t>(panel) * groups * kTile;
  const std::int8_t* x = p.x.codes + static_cast<std::int64_t>(first_row) * p.columns;
  const float* x_scales = p.x.scales + static_cast<std::int64_t>(first_row) * blocks;
  const std::int32_t* x_sums = p.x.sums + static_cast<std::int64_t>(first_row) * blocks * 2;
  alignas(64) std::int32_t sums[2][kTileRows][kTile];
  const auto multiply = [&](int g) {
    if (g % 2 == 0) {
      _tile_zero(0);
      _tile_loadd(2, x + g * kGroup, p.columns);
      _tile_loadd(4, weights + g * kGroup * kTile, kTile * 4);
      _tile_dpbssd(0, 2, 4);
      _tile_stored(0, sums[0], kTile * 4);
    } else {
      _tile_zero(1);
      _tile_loadd(3, x + g * kGroup, p.columns);
      _tile_loadd(5, weights + g * kGroup * kTile, kTile * 4);
      _tile_dpbssd(1, 3, 5);
      _tile_stored(1, sums[1], kTile * 4);
    }
  };
  Vec total[kTileRows];
  BANYAN_UNROLL
  for (int r = 0; r < kTileRows; ++r) total[r] = Vec{};
  multiply(0);
  for (int g = 0; g < groups; ++g) {
    if (g + 1 < groups) multiply(g + 1);
    const int block = g / kGroupsOfBlock;
    const Vec scale = Load(p.scales + first_scale + static_cast<std::int64_t>(g) * kTile);
    const auto& group_sums = sums[g % 2];
    BANYAN_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const Vec sum = (Vec)_mm512_cvtepi32_ps(_mm512_load_si512(group_sums[r]));
      total[r] = Fma(sum, scale * Broadcast(x_scales[r * blocks + block]), total[r]);
    }
    if (p.minima == nullptr) continue;
    const Vec minimum = -Load(p.minima + first_scale + static_cast<std::int64_t>(g) * kTile);
    BANYAN_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const std::int32_t* halves = x_sums + (r * blocks + block) * 2;
      const std::int32_t codes =
          kGroup == kBlockColumns ? halves[0] + halves[1] : halves[g % kGroupsOfBlock];
      const float x_sum = static_cast<float>(codes) * x_scales[r * blocks + block];
      total[r] = Fma(minimum, Broadcast(x_sum), total[r]);
    }
  }
  float* out = p.out + first_row * p.out_stride + static_cast<std::int64_t>(panel) * kTile;
  BANYAN_UNROLL
  for (int r = 0; r < kTileRows; ++r) Store(out + r * p.out_stride, total[r]);
}

// `rows` is at least kTileRows. A last tile that is not full begins earlier: its first rows are
// computed again, to the same bits.
template <int kGroup>
void RowsOfPanels(const IntegerProduct& p, int rows) {
  for (int chunk = 0; chunk < rows; chunk += kRowChunk) {
    const int end = chunk + kRowChunk < rows ? chunk + kRowChunk : rows;
    for (int panel = 0; panel < p.panel_count; ++panel) {
      for (int row = chunk; row < end; row += kTileRows) {
        RowsOfPanel<kGroup>(p, row + kTileRows <= rows ? row : rows - kTileRows, panel);
      }
    }
  }
}

void MultiplyTiles(const IntegerProduct& p, int rows) {
  return p.group == kBlockColumns ? RowsOfPanels<32>(p, rows) : RowsOfPanels<16>(p, rows);
}

// A panel of nibbles as bytes: of a block the lower halves, then the upper ones.
void UnpackNibbles(const std::uint8_t* nibbles, const IntegerProduct& p) {
  const __m512i four_bits = _mm512_set1_epi8(15);
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(p.offset));
  for (int block = 0; block < p.columns / kBlockColumns; ++block) {
    const std::uint8_t* from = nibbles + block * kPanelBlockBytes / 2;
    std::uint8_t* to = p.scratch + block * kPanelBlockBytes;
    for (int i = 0; i < kPanelBlockBytes / 2; i += 64) {
      const __m512i bytes = _mm512_loadu_si512(from + i);
      const __m512i lower = _mm512_and_si512(bytes, four_bits);
      const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), four_bits);
      _mm512_storeu_si512(to + i, _mm512_sub_epi8(lower, offset));
      _mm512_storeu_si512(to + kPanelBlockBytes / 2 + i, _mm512_sub_epi8(upper, offset));
    }
  }
}

void MultiplyNibbles(const IntegerProduct& p, int rows) {
  IntegerProduct one = p;
  one.panels = p.scratch;
  one.panel_count = 1;
  const std::int64_t scales = static_cast<std::int64_t>(p.columns / p.group) * kTile;
  for (int panel = 0; panel < p.panel_count; ++panel) {
    UnpackNibbles(p.panels + panel * p.panel_stride, p);
    StoreAll(p.scratch);
    MultiplyTiles(one, rows);
    one.scales += scales;
    if (one.minima != nullptr) one.minima += scales;
    one.out += kTile;
  }
}

void ProductOfCodes(const IntegerProduct& p) {
  const int left = p.rows % kTileRows;
  const int rows = left < kFewestInTile ? p.rows - left : p.rows;  // of tiles
  if (p.rows < kTileRows) return integer_avx512vnni::Table().product(p);
  ShapeTiles(p.group);
  if (p.nibbles) {
    MultiplyNibbles(p, rows);
  } else {
    MultiplyTiles(p, rows);
  }
  _tile_release();
  if (rows == p.rows) return;
  IntegerProduct rest = p;
  const std::int64_t values = static_cast<std::int64_t>(rows) * p.columns;
  rest.x = {p.x.codes + values, p.x.scales + values / kBlockColumns,
            p.x.sums + values / kHalfColumns};
  rest.rows = p.rows - rows;
  rest.out = p.out + rows * p.out_stride;
  integer_avx512vnni::Table().product(rest);
}

}  // namespace

const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {4, kTileRows, 1, ProductOfCodes};
  return table;
}

}  // namespace banyan::BANYAN_SIMD_TARGET
