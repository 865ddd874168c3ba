// Types whose codes name entries of a book: the IQ types, ternary ones, and four-bit floats.
//
// A book of an IQ type is a set of points of a small lattice: each of the 8 (or 4) values of a
// point is one of few levels, and blocks name a point by its rank in the set, ordered by the number
// whose digits are the levels, first value least significant.
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "base/error.h"
#include "tensor/block_codes.h"
#include "tensor/quantization.h"

namespace banyan {

namespace {

// Bit b of word w: whether the lattice's point number 64 w + b is in the set.

constexpr std::array<std::uint64_t, 103> kPointsIQ2_XXS = {{
    0x4141441055141555, 0x0000100044140400, 0x0040001400400400, 0x1050000004000000,
    0x4004140100114140, 0x0500001000400450, 0x0001000050000010, 0x4004144100004000,
    0x0400000400001414, 0x0000000000040000, 0x0000000000100400, 0x0010100414000000,
    0x1001040011040040, 0x0000000100404000, 0x0000000004010000, 0x0000400440041000,
    0x0000100000000004, 0x1000400000001000, 0x0000000000000000, 0x0040000004000105,
    0x0000000000110000, 0x0000000001000000, 0x0414000000000040, 0x0000050100010000,
    0x0000001010000000, 0x0000000000500000, 0x0000414000000000, 0x0040000000004001,
    0x0000004000040000, 0x0000000000000000, 0x0000040040000040, 0x0000000004000000,
    0x0000000000000000, 0x0000000001000000, 0x0110104144105000, 0x0000400010000414,
    0x0040400000440400, 0x4000000100404000, 0x0010000000010010, 0x0000001004000010,
    0x0000000100000000, 0x0414000000000000, 0x0000000000011000, 0x0401100000000004,
    0x0004000000000000, 0x0050441000040000, 0x0100000104000000, 0x0000000000040000,
    0x0000000000000001, 0x0000000000000040, 0x0001000001400000, 0x0400000000000000,
    0x0000000100000000, 0x0400000004100400, 0x0040000000000000, 0x0004000000000000,
    0x0000000000000000, 0x0001000001000041, 0x0040000000004000, 0x0000400000000000,
    0x0011000000001000, 0x0000000000000000, 0x0400000000001400, 0x0000000000000000,
    0x0000000000000000, 0x0000000000000001, 0x0000000000000000, 0x0000000000000000,
    0x0004000041400000, 0x0040040000004000, 0x0000000000000004, 0x0000000000000004,
    0x0040001000441400, 0x0400000004000000, 0x0004000010000000, 0x4000000001000040,
    0x0000000000000000, 0x0000000000010000, 0x0000010000000000, 0x0104000000000000,
    0x0100000000000410, 0x0040000000004000, 0x0001000000000000, 0x0040000400000000,
    0x0000000000000001, 0x0000000001000000, 0x0000000000000000, 0x0000000000000000,
    0x0100000000001000, 0x0000000000000000, 0x0000000000000000, 0x0000100000000400,
    0x0000000100000004, 0x0000040000000000, 0x0000000000000000, 0x0000000000000400,
    0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000040000,
    0x0000000000000004, 0x0000000000000000, 0x0000000000000000,
}};

constexpr std::array<std::uint64_t, 103> kPointsIQ2_XS = {{
    0x1541455551555555, 0x4145505555540145, 0x4010515400010510, 0x5550000101000441,
    0x0004140115154145, 0x0404010500414550, 0x0005100041400000, 0x1105554000004000,
    0x0540400010010414, 0x0010400000040001, 0x0000000104000100, 0x4550515554011000,
    0x1051540001054041, 0x5000500100004140, 0x0000010000400011, 0x1001450041455000,
    0x0100004140000004, 0x0400400000000000, 0x0000000000010000, 0x0400004004000505,
    0x0000000000110000, 0x0000000000000004, 0x5555000000000040, 0x0400010000414010,
    0x0010001040001050, 0x0000010000100000, 0x4000414400000400, 0x0040000000000001,
    0x1000000010040000, 0x0000000001000100, 0x0000040141100000, 0x0000000400100001,
    0x0000010010000000, 0x0144000000001001, 0x1105554145555000, 0x0500414550000414,
    0x0141404000440001, 0x4000000000000140, 0x0010000414014515, 0x0000041001050001,
    0x4000010100400000, 0x0414000000000010, 0x0000000101011000, 0x0040004100001004,
    0x0000000000400000, 0x1041455000000000, 0x4140000004000105, 0x0000000000050004,
    0x0000001000000040, 0x0004040105400000, 0x0000410100004010, 0x0000001040000000,
    0x0000100000001000, 0x0000404000400404, 0x0140100000010000, 0x0000000000000000,
    0x4000004000000000, 0x0100101001000041, 0x0000000000005000, 0x0010000000000000,
    0x4001000100000004, 0x0000000000000000, 0x0000000110000400, 0x0000000000001000,
    0x0000001000000000, 0x0000000001000000, 0x0000000000000400, 0x0010100000000400,
    0x0415010515400000, 0x0001155000005000, 0x0100000000041004, 0x0001400000000400,
    0x0040001000541441, 0x0100000004000040, 0x0400004000000000, 0x1000000100000000,
    0x0014010000040004, 0x0000000000040400, 0x0004000000000000, 0x0105100404100000,
    0x0000010001000400, 0x0001000000100001, 0x0400000000000000, 0x0000004400004000,
    0x0000000000001041, 0x0014000000001000, 0x0000000100000000, 0x0400000000000000,
    0x0000000400000000, 0x0000000000000100, 0x0000001000000010, 0x0000000404014500,
    0x4000000000010000, 0x0001144000000010, 0x0004000100000010, 0x4000000000400000,
    0x0000000000000000, 0x0000000000000000, 0x0040000400004000, 0x1040000000000045,
    0x0500000000000004, 0x0000050000000000, 0x0000000100010000,
}};

constexpr std::array<std::uint64_t, 103> kPointsIQ2_S = {{
    0x1555455551555555, 0x5545505155551105, 0x5010515414150514, 0x5550101111000455,
    0x5145541555555545, 0x5414555514555550, 0x1451000455401051, 0x1155154000105004,
    0x0540010110515555, 0x0040401051440455, 0x0000100510140100, 0x4551515554004000,
    0x5555541451151555, 0x5000145505155545, 0x0414000504414114, 0x1455551455455000,
    0x5505155540105154, 0x0514400010500414, 0x4000001000041401, 0x0140105154045155,
    0x0010500414550000, 0x1000041004000010, 0x5154000000000400, 0x0011010405415115,
    0x1401050540415054, 0x0104510010100004, 0x0514554400050000, 0x1440001050041455,
    0x0000110004140105, 0x0004000400010500, 0x1050001411000000, 0x0004150000400000,
    0x0000100000000000, 0x0140040000004004, 0x1555554555555000, 0x5505554550514414,
    0x1541401051541455, 0x4000005004145104, 0x4550515554555555, 0x1051541455550041,
    0x5004145500004150, 0x5514100000400010, 0x0001040041455051, 0x0100004140105154,
    0x0000400010500040, 0x1555455000000000, 0x5540005154145555, 0x0010500414550515,
    0x1400041401051440, 0x5154145555000000, 0x0414550000414010, 0x1400000040001050,
    0x0000000000110004, 0x0040414010515400, 0x0040001050000001, 0x1000100000000000,
    0x4400004000000000, 0x1040041451051545, 0x0004140105154000, 0x0400010400100010,
    0x1451010000000100, 0x0000004000105004, 0x0010001010000414, 0x0000000000040004,
    0x0000105000100000, 0x0010010000100000, 0x0000000000004000, 0x0000000400000000,
    0x5414114515404000, 0x1455450001411011, 0x1140004140005154, 0x0000000010500015,
    0x0041455011555400, 0x4140105154000105, 0x0010500001010000, 0x1000000000000050,
    0x0000000105000141, 0x4000010000014040, 0x0004000000000000, 0x5545010000400500,
    0x0000414010515410, 0x0000101050001411, 0x0000100004140000, 0x4010515440000000,
    0x1050004001000041, 0x1100000000004000, 0x0010001000000010, 0x0001100041400000,
    0x0000005000000000, 0x0000000000001100, 0x0040000000000000, 0x0000105410111100,
    0x0010000001040000, 0x4004100000000400, 0x5100014400000014, 0x0100000000400010,
    0x0000000010001040, 0x0000000000000000, 0x0040000000000004, 0x0100000000000040,
    0x0400004000000000, 0x0000011401400000, 0x0000000100001000,
}};

constexpr std::array<std::uint64_t, 64> kPointsIQ3_XXS = {{
    0x2800000402058a15, 0x010010020522050a, 0x200082008a050215, 0x0100000000200582,
    0x2800801080000800, 0x0000040004000082, 0x0010000020000000, 0x0002000800005100,
    0x00000180150a050a, 0x0000000000050205, 0x040000000102050a, 0x0040004002010005,
    0x0000010000000022, 0x0200004000110000, 0x0000000000000020, 0x0000000100040000,
    0x0000000402450a05, 0x018800000102052a, 0x0000200180058205, 0x1100000000001102,
    0x0000080020000000, 0x1000000200800008, 0x0000000000000000, 0x000000200000400a,
    0x04200100000a0502, 0x0000005002010005, 0x040004000020010a, 0x0000000008000200,
    0x0400008001000000, 0x0000200000040041, 0x0008000040001000, 0x0001000008000000,
    0x00008800a0008010, 0x1000000000000000, 0x0041000180010000, 0x0000002000000080,
    0x0010020000000010, 0x0100000800200000, 0x0000000000000000, 0x0000000001000520,
    0x0100000200000400, 0x0000200000400041, 0x0400000004001000, 0x0000080000000004,
    0x0400000000880100, 0x0000000002000004, 0x0000010000000000, 0x0000000400100000,
    0x0010005000100000, 0x0002000000020000, 0x0010000000008000, 0x0000000041000000,
    0x0000001000000000, 0x0000040000000020, 0x0000000008000000, 0x0000000000020008,
    0x00000400040001a8, 0x0000000100400000, 0x0000042000000400, 0x0001000008002001,
    0x0000000200020000, 0x0000000000100005, 0x0000000001000000, 0x0000000000000000,
}};

constexpr std::array<std::uint64_t, 64> kPointsIQ3_S = {{
    0x92050aa5082357a7, 0x0422001022892317, 0x09000aa4112249a3, 0x228005104a052208,
    0x0100020904128801, 0x084000a208450014, 0x0200040002000a40, 0x0000110008450015,
    0x040250005205ab17, 0x410005020902114b, 0x040120090411a401, 0x0104000211820992,
    0x000011440a001428, 0x0000020005020902, 0x0000005000910000, 0x010400022002050a,
    0x2980052a058a55ab, 0x0000020412248905, 0x12008802810a0092, 0x004001040a140225,
    0x2400000224090082, 0x0100080180040210, 0x0002200000020085, 0x0000010801400220,
    0x020802942a04aa04, 0x44010001000a102a, 0x0000010014010401, 0x0800208a018a1102,
    0x0011040002044208, 0x0800401004200502, 0x0000000200004000, 0x000000002005000a,
    0x0100010204910411, 0x0000220821040a84, 0x010480010802210a, 0x0000000022050a10,
    0x0200000180100005, 0x00040000000200a0, 0x0001000010000800, 0x0000020801002100,
    0x1040049100041104, 0x040000000402042a, 0x0000080041080201, 0x0820021000800184,
    0x0000004004010012, 0x00000a0000400400, 0x0000000400000000, 0x0000000000040014,
    0x000100000a002a00, 0x0010000000810001, 0x0104200410000400, 0x0000000100021001,
    0x0004000800200000, 0x0001000010000009, 0x0000000100000020, 0x0000000000000a00,
    0x0004100140050091, 0x0000002800100204, 0x0000020001024112, 0x0000080024000004,
    0x0000010000010822, 0x0000000400040000, 0x0000000002000004, 0x0000000000000001,
}};

constexpr std::array<std::uint64_t, 103> kPointsIQ1 = {{
    0x514202a085142555, 0xa28a2086a8314508, 0x14508514202a081a, 0xa005152545442082,
    0x8208001888208202, 0x0aaabb88a02a03a0, 0xaa0a0022000baa90, 0x4508514008a0828c,
    0x0851421450808821, 0x2a8008a09808308a, 0x4248208514214508, 0x20a0c22c01450855,
    0xa2aaa8242a00268a, 0x0028280808afe208, 0xa82028aa284202a0, 0xa8bab9089b0a2080,
    0x3aaaaea289aeca20, 0xb80e82bbbaeaeb7c, 0x2202920ed3caba22, 0x820aba8aa8202200,
    0x3ba2e04a2a000802, 0x81408100a22b2022, 0x8514012208288aaa, 0x5421450920821550,
    0x203aa8230208a085, 0xa208514254208284, 0x082a021450950820, 0x200248a08082a8b8,
    0xab2802a268a28208, 0x083082082085082a, 0xa085142145004045, 0x8229014500514200,
    0x1430a1082a828a00, 0x2145082882145005, 0x2aaa200202208514, 0xa828ae8ab1122000,
    0x0a820070a8aaa1ba, 0x8200840222280208, 0xaa2ab0eaa0804800, 0xa7daea22ba8b20c2,
    0xaa2ab092a86e8b8b, 0x48202a0c448a8b72, 0x20aa082a8a284084, 0xa09aafa222a2ccc8,
    0xa82a00020002a8e8, 0xa2a28ba080200088, 0xba0a328280a0ba28, 0x2ba0a2ebfebab8be,
    0x00a2ea280a8a08a2, 0xdeeaa4fa0c0232a1, 0xeb7ebe8d2ea82bef, 0xdeba7de6bf7ff7fa,
    0x12fa26bfff27fb69, 0x0ebeaa10228ae1e9, 0xae820ba8b208aa84, 0x62048083e924baff,
    0x002ba40aa8f2682c, 0x0012aae208082a02, 0x82c920a60a2a8202, 0x8c00a20028829089,
    0x6c00080882001380, 0x8abea602bbaaaa8a, 0xd02e976b8002caa0, 0xdeaa2e108210e9b2,
    0x820a0004a5d11528, 0x20a1010820828a00, 0xa0843222ba39aa82, 0x0262a28a00188009,
    0xac21450051441481, 0x20aa085142145082, 0x45082a120a87aa28, 0x08514208a0051421,
    0x22a240a002200145, 0x8a6a08a208008800, 0x0a200080aaaab86e, 0x5044082122c8e282,
    0x8515208a09514214, 0x2a2aaa080a861450, 0x21450851420a0080, 0xe2085142145000a8,
    0x082a82180a828820, 0x0a028bb08aaaa2aa, 0x0aaa80822820aa2a, 0x220288a900280828,
    0xba8a08b8280bbea0, 0xaef8a4baffaeb24b, 0x30a0b668285220aa, 0x6a220828020a80e6,
    0x2baaaa020a208062, 0x0808a2a0a9a2eaaa, 0x0e8200228aa02010, 0x400aa08514214500,
    0x4a0006a921450851, 0x440d1000a50802aa, 0x0514214508288214, 0x0020f2ac82820800,
    0x20ba0a280aaa0000, 0x280948820002a2ea, 0x0051454b110014e9, 0x5142145002a80145,
    0x400a288808248808, 0x02a0051401450008, 0x0000000145085140,
}};

std::vector<std::int8_t> PointsOf(std::span<const std::uint64_t> set,
                                  std::span<const std::int8_t> levels, size_t values_of_point,
                                  size_t points) {
  std::vector<std::int8_t> table;
  table.reserve(points * values_of_point);
  for (size_t number = 0; number < set.size() * 64; ++number) {
    if ((set[number / 64] >> (number % 64) & 1) == 0) continue;
    size_t digits = number;
    for (size_t i = 0; i < values_of_point; ++i, digits /= levels.size()) {
      table.push_back(levels[digits % levels.size()]);
    }
  }
  BANYAN_CHECK(table.size() == points * values_of_point);
  return table;
}

constexpr std::array<std::int8_t, 3> kLevelsIQ2 = {8, 25, 43};
constexpr std::array<std::int8_t, 8> kLevelsIQ3_XXS = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<std::int8_t, 8> kLevelsIQ3_S = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr std::array<std::int8_t, 3> kLevelsIQ1 = {-1, 0, 1};

// Tables of [points][values of a point], made of the sets at the first call:
// [256][8], levels 8, 25, 43
const std::int8_t* GridOfIQ2_XXS() {
  static const auto table = PointsOf(kPointsIQ2_XXS, kLevelsIQ2, 8, 256);
  return table.data();
}

// [512][8], the same levels
const std::int8_t* GridOfIQ2_XS() {
  static const auto table = PointsOf(kPointsIQ2_XS, kLevelsIQ2, 8, 512);
  return table.data();
}

// [1024][8], the same levels
const std::int8_t* GridOfIQ2_S() {
  static const auto table = PointsOf(kPointsIQ2_S, kLevelsIQ2, 8, 1024);
  return table.data();
}

// [256][4], levels 4, 12, … 52, 62
const std::int8_t* GridOfIQ3_XXS() {
  static const auto table = PointsOf(kPointsIQ3_XXS, kLevelsIQ3_XXS, 4, 256);
  return table.data();
}

// [512][4], levels 1, 3, … 15
const std::int8_t* GridOfIQ3_S() {
  static const auto table = PointsOf(kPointsIQ3_S, kLevelsIQ3_S, 4, 512);
  return table.data();
}

// [2048][8], levels -1, 0, 1; of IQ1_S and IQ1_M
const std::int8_t* GridOfIQ1() {
  static const auto table = PointsOf(kPointsIQ1, kLevelsIQ1, 8, 2048);
  return table.data();
}

constexpr std::array<std::int8_t, 16> kBookIQ4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};
// Four-bit floats {sign, 2 bits of exponent, 1 of mantissa}, times two.
constexpr std::array<std::int8_t, 16> kBookFP4 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                  0, -1, -2, -3, -4, -6, -8, -12};

// Eight values of a book, bit i of `signs` set where value i is negative.
void PutSigned(const std::int8_t* values, unsigned signs, std::int8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = Code((signs >> i & 1) != 0 ? -values[i] : values[i]);
}

// Two points of four values each.
void PutSignedPair(const std::int8_t* first, const std::int8_t* second, unsigned signs,
                   std::int8_t* codes) {
  for (int i = 0; i < 4; ++i) {
    codes[i] = Code((signs >> i & 1) != 0 ? -first[i] : first[i]);
    codes[4 + i] = Code((signs >> (4 + i) & 1) != 0 ? -second[i] : second[i]);
  }
}

// Seven signs; the eighth makes the number of negative ones even.
unsigned EvenSigns(unsigned seven) {
  return seven | (static_cast<unsigned>(std::popcount(seven)) & 1) << 7;
}

// Group g of a list of four-bit numbers, low half first.
int HalfByte(BlockBytes p, int g) { return (p[g / 2] >> (4 * (g % 2))) & 15; }

// half scale, 16 bytes of indices
void DecodeIQ4_NL(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = kBookIQ4[static_cast<size_t>(Nibble(block + 2, i))];
  }
}

// half scale, 8 × 2 high bits and 8 × 4 low bits of scales + 32, 8 × 16 bytes of indices
void DecodeIQ4_XS(BlockBytes block, const BlockCodes& out) {
  const float scale = HalfAt(block);
  const int high = PairAt(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int s = HalfByte(block + 4, g) | ((high >> (2 * g)) & 3) << 4;
    out.scales[g] = scale * static_cast<float>(s - 32);
    for (int i = 0; i < 32; ++i) {
      out.codes[32 * g + i] = kBookIQ4[static_cast<size_t>(Nibble(block + 8 + 16 * g, i))];
    }
  }
}

// half scale, then per 32 values: four 8-bit points, {4-bit scale, 4 × 7 signs}
void DecodeIQ2_XXS(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ2_XXS();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    const BlockBytes points = block + 2 + 8 * g;
    const std::uint32_t word = WordAt(points + 4);
    out.scales[g] = scale * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      PutSigned(grid + 8 * points[k], EvenSigns((word >> (7 * k)) & 127),
                out.codes + 32 * g + 8 * k);
    }
  }
}

// half scale, 32 × {7 signs, 9-bit point}, 16 four-bit scales
void DecodeIQ2_XS(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ2_XS();
  const float scale = HalfAt(block);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = scale * (0.5f + static_cast<float>(HalfByte(block + 66, g))) * 0.25f;
  }
  for (int k = 0; k < 32; ++k) {
    const unsigned pair = PairAt(block + 2 + 2 * k);
    PutSigned(grid + 8 * (pair & 511), EvenSigns(pair >> 9), out.codes + 8 * k);
  }
}

// half scale, 32 low bytes of points, 32 bytes of signs, 32 × 2 high bits of points, 16 four-bit
// scales
void DecodeIQ2_S(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ2_S();
  const float scale = HalfAt(block);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = scale * (0.5f + static_cast<float>(HalfByte(block + 74, g))) * 0.25f;
  }
  for (int k = 0; k < 32; ++k) {
    const int point = block[2 + k] | ((block[66 + k / 4] >> (2 * (k % 4))) & 3) << 8;
    PutSigned(grid + 8 * point, block[34 + k], out.codes + 8 * k);
  }
}

// half scale, 64 points of four values, then per 32 values {4-bit scale, 4 × 7 signs}
void DecodeIQ3_XXS(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ3_XXS();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    const std::uint32_t word = WordAt(block + 66 + 4 * g);
    out.scales[g] = scale * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (int k = 0; k < 4; ++k) {
      const BlockBytes points = block + 2 + 8 * g + 2 * k;
      PutSignedPair(grid + 4 * points[0], grid + 4 * points[1], EvenSigns((word >> (7 * k)) & 127),
                    out.codes + 32 * g + 8 * k);
    }
  }
}

// half scale, 64 low bytes of points, 64 high bits of points, 32 bytes of signs, 8 four-bit scales
void DecodeIQ3_S(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ3_S();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    out.scales[g] = scale * static_cast<float>(1 + 2 * HalfByte(block + 106, g));
  }
  const auto point = [&](int p) {
    return grid + 4 * (block[2 + p] | ((block[66 + p / 8] >> (p % 8)) & 1) << 8);
  };
  for (int k = 0; k < 32; ++k) {
    PutSignedPair(point(2 * k), point(2 * k + 1), block[74 + k], out.codes + 8 * k);
  }
}

// Of IQ1: a point plus or minus an eighth, in eighths.
void PutEighths(const std::int8_t* values, bool below, std::int8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = Code(8 * values[i] + (below ? -1 : 1));
}

// half scale, 32 low bytes of points, then per 32 values {minus an eighth, 3-bit scale, 4 × 3 high
// bits of points}
void DecodeIQ1_S(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ1();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    const int pair = PairAt(block + 34 + 2 * g);
    out.scales[g] = scale * static_cast<float>(2 * ((pair >> 12) & 7) + 1) * 0.125f;
    for (int k = 0; k < 4; ++k) {
      const int point = block[2 + 4 * g + k] | ((pair >> (3 * k)) & 7) << 8;
      PutEighths(grid + 8 * point, (pair & 0x8000) != 0, out.codes + 32 * g + 8 * k);
    }
  }
}

// 32 low bytes of points, 32 × {minus an eighth, 3 high bits of a point}, 4 × {a quarter of the
// half scale, lowest first, 4 × 3-bit scale}
void DecodeIQ1_M(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ1();
  const BlockBytes scales = block + 48;
  unsigned half = 0;
  for (int i = 0; i < 4; ++i) half |= static_cast<unsigned>(PairAt(scales + 2 * i) >> 12) << 4 * i;
  const float scale = F16ToFloat(static_cast<std::uint16_t>(half));
  for (int g = 0; g < 16; ++g) {
    const int s = (PairAt(scales + 2 * (g / 4)) >> (3 * (g % 4))) & 7;
    out.scales[g] = scale * static_cast<float>(2 * s + 1) * 0.125f;
  }
  for (int k = 0; k < 32; ++k) {
    const int high = HalfByte(block + 32, k);
    PutEighths(grid + 8 * (block[k] | (high & 7) << 8), (high & 8) != 0, out.codes + 8 * k);
  }
}

// Digit `power` places below the first of a byte that holds up to five ternary digits as a fraction
// of 256, minus one.
std::int8_t Trit(std::uint8_t byte, int power) {
  constexpr std::array<int, 5> kPowers = {1, 3, 9, 27, 81};
  const int rest = (byte * kPowers[static_cast<size_t>(power)]) & 255;
  return Code(((rest * 3) >> 8) - 1);
}

// 32 bytes of five digits each (digit d of byte j is value 32 d + j), 16 bytes of five, 4 bytes of
// four, half scale
void DecodeTQ1_0(BlockBytes block, const BlockCodes& out) {
  for (int g = 0; g < 8; ++g) out.scales[g] = HalfAt(block + 52);
  for (int i = 0; i < 160; ++i) out.codes[i] = Trit(block[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out.codes[160 + i] = Trit(block[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out.codes[240 + i] = Trit(block[48 + i % 4], i / 4);
}

// 64 bytes of codes + 1, half scale
void DecodeTQ2_0(BlockBytes block, const BlockCodes& out) {
  for (int g = 0; g < 8; ++g) out.scales[g] = HalfAt(block + 64);
  for (int i = 0; i < 256; ++i) out.codes[i] = Code(TwoBits(block, i) - 1);
}

// exponent + 127, 16 bytes of four-bit floats
void DecodeMXFP4(BlockBytes block, const BlockCodes& out) {
  // Half of 2^(exponent): the book has doubles. The two smallest are subnormal.
  const std::uint32_t exponent = block[0];
  out.scales[0] =
      std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = kBookFP4[static_cast<size_t>(Nibble(block + 1, i))];
  }
}

}  // namespace

std::span<const std::int8_t> CodeBookOf(DType type) {
  switch (type) {
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return kBookIQ4;
    case DType::kMXFP4:
      return kBookFP4;
    default:
      return {};
  }
}

BlockDecoder BookDecoderOf(DType type) {
  switch (type) {
    case DType::kIQ1_S:
      return DecodeIQ1_S;
    case DType::kIQ1_M:
      return DecodeIQ1_M;
    case DType::kIQ2_XXS:
      return DecodeIQ2_XXS;
    case DType::kIQ2_XS:
      return DecodeIQ2_XS;
    case DType::kIQ2_S:
      return DecodeIQ2_S;
    case DType::kIQ3_XXS:
      return DecodeIQ3_XXS;
    case DType::kIQ3_S:
      return DecodeIQ3_S;
    case DType::kIQ4_NL:
      return DecodeIQ4_NL;
    case DType::kIQ4_XS:
      return DecodeIQ4_XS;
    case DType::kTQ1_0:
      return DecodeTQ1_0;
    case DType::kTQ2_0:
      return DecodeTQ2_0;
    case DType::kMXFP4:
      return DecodeMXFP4;
    default:
      return nullptr;
  }
}

}  // namespace banyan
