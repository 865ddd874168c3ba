#include "load/memory_need.h"

#include "model/scaled_tensors.h"
#include "tensor/dequantize.h"

namespace banyan {
namespace {

// Few bits that stand for codes of a byte.
bool HasWideCodes(DType type) {
  switch (type) {
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
      return true;
    default:
      return false;
  }
}

// Bytes of a weight in the cpu backend's mixed form: 16 bits stay, codes of at most four bits take
// half a byte and others one, with a float32 scale (and minimum) for each group. Codes whose scales
// are a tensor of their own become 16 bits.
double PackedBytes(DType type) {
  if (type == DType::kF16 || type == DType::kBF16 || NeedsScales(type)) return 2.0;
  const QuantizedForm form = QuantizedFormOf(type);
  if (form.group == 0) return 4.0;
  const DTypeTraits& traits = TraitsOf(type);
  const double stored = static_cast<double>(traits.bytes) / traits.block;
  const double codes = stored <= 5.0 / 8.0 && !HasWideCodes(type) ? 0.5 : 1.0;
  return codes + 4.0 * (form.has_min ? 2 : 1) / form.group;
}

}  // namespace

std::int64_t ValuesIn(const HostTensor& bytes) {
  return bytes.name.ends_with("_blocks") ? 2 * static_cast<std::int64_t>(bytes.bytes.size()) : 0;
}

std::vector<MemoryNeed> MemoryNeeds(const ModelConfig& config, const TensorStore& tensors) {
  double stored = 0.0, packed = 0.0, values = 0.0;
  for (const std::string& name : tensors.Names()) {
    if (const HostTensor* bytes = tensors.FindBytes(name)) {
      const auto four_bits = static_cast<double>(ValuesIn(*bytes));
      stored += static_cast<double>(bytes->bytes.size());
      packed += four_bits * PackedBytes(DType::kMXFP4);
      values += four_bits;
      continue;
    }
    const HostTensor& tensor = tensors.GetAnyShape(name);
    const auto count = static_cast<double>(tensor.rows() * tensor.columns());
    if (IsScalesName(name)) continue;
    stored += NeedsScales(tensor.dtype) ? 2 * count : static_cast<double>(tensor.bytes.size());
    packed += count * PackedBytes(tensor.dtype);
    values += count;
  }
  const std::int64_t kv = std::int64_t{2} * config.layers * config.kv_heads * config.head_dim;
  const auto bytes = [](double count) { return static_cast<std::int64_t>(count); };
  return {{"cpu, mixed", bytes(packed), 2 * kv},
          {"cpu or cuda, f32", bytes(4 * values), 4 * kv},
          {"cuda, mixed, weights as 16 bits", bytes(2 * values), 2 * kv},
          {"cuda, mixed, weights compact", bytes(stored), 2 * kv}};
}

}  // namespace banyan
