#include "tensor/dtype.h"

#include <array>

#include "base/error.h"
#include "tensor/host_tensor.h"

namespace banyan {

const DTypeTraits& TraitsOf(DType type) {
  static constexpr std::array<DTypeTraits, 14> kTraits = {{
      {"F32", 1, 4},
      {"F16", 1, 2},
      {"BF16", 1, 2},
      {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},
      {"Q5_0", 32, 22},
      {"Q5_1", 32, 24},
      {"Q8_0", 32, 34},
      {"Q2_K", 256, 84},
      {"Q3_K", 256, 110},
      {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},
      {"Q6_K", 256, 210},
      {"IQ4_NL", 32, 18},
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
