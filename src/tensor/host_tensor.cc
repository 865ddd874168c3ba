// Block sizes of the element types.
#include "tensor/host_tensor.h"

#include <array>

#include "base/error.h"

namespace banyan {

const DTypeTraits& TraitsOf(DType type) {
  static constexpr std::array<DTypeTraits, 28> kTraits = {{
      {"F32", 1, 4},        {"F16", 1, 2},        {"BF16", 1, 2},       {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},     {"Q5_0", 32, 22},     {"Q5_1", 32, 24},     {"Q8_0", 32, 34},
      {"Q2_K", 256, 84},    {"Q3_K", 256, 110},   {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
      {"Q6_K", 256, 210},   {"Q8_K", 256, 292},   {"IQ4_NL", 32, 18},   {"IQ1_S", 256, 50},
      {"IQ1_M", 256, 56},   {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ2_S", 256, 82},
      {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110},  {"IQ4_XS", 256, 136}, {"TQ1_0", 256, 54},
      {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},    {"F8_E4M3", 1, 1},    {"I8", 1, 1},
  }};
  return kTraits.at(static_cast<size_t>(type));
}

size_t RowBytes(DType type, std::int64_t columns) {
  const DTypeTraits& traits = TraitsOf(type);
  BANYAN_CHECK(columns >= 0 && columns % traits.block == 0);
  return static_cast<size_t>(columns / traits.block) * static_cast<size_t>(traits.bytes);
}

std::string ShapeText(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace banyan
