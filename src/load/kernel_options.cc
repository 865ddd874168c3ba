#include "load/kernel_options.h"

#include <map>

#include "base/error.h"
#include "load/device_list.h"

namespace banyan {
namespace {

Precision ParsePrecision(const std::string& name) {
  if (name == "f32") return Precision::kF32;
  if (name == "mixed" || name == "w8a8") return Precision::kMixed;
  Throw(ErrorKind::kUsage, "--precision: expected f32, mixed or w8a8, found '{}'", name);
}

KvType ParseKvType(const std::string& name, Precision precision) {
  if (name.empty()) return precision == Precision::kF32 ? KvType::kF32 : KvType::kF16;
  const std::map<std::string, KvType> types = {
      {"f32", KvType::kF32}, {"f16", KvType::kF16}, {"bf16", KvType::kBF16}, {"q8", KvType::kQ8}};
  const auto it = types.find(name);
  if (it == types.end()) {
    Throw(ErrorKind::kUsage, "--kv-type: expected f16, bf16, q8 or f32, found '{}'", name);
  }
  if (precision == Precision::kF32 && it->second != KvType::kF32) {
    Throw(ErrorKind::kUsage, "--kv-type {} needs --precision mixed", name);
  }
  return it->second;
}

WeightResidency ParseWeights(const std::string& name) {
  if (name == "auto") return WeightResidency::kAuto;
  if (name == "converted") return WeightResidency::kConverted;
  if (name == "compact") return WeightResidency::kCompact;
  Throw(ErrorKind::kUsage, "--keep-weights: expected auto, converted or compact, found '{}'", name);
}

}  // namespace

const char* KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kBF16:
      return "bf16";
    case KvType::kQ8:
      return "q8";
  }
  return "?";
}

KernelOptions KernelOptionsOf(const LoadOptions& options) {
  KernelOptions kernel_options;
  kernel_options.precision = ParsePrecision(options.precision);
  kernel_options.kv_type = ParseKvType(options.kv_type, kernel_options.precision);
  kernel_options.threads = options.threads;
  kernel_options.fast = options.fast && BackendOf(options.device) == "cuda" &&
                        kernel_options.precision == Precision::kMixed;
  kernel_options.weights = ParseWeights(options.weights);
  kernel_options.eight_bit_products = options.precision == "w8a8";
  kernel_options.shards = options.tensor_parallel;
  if (kernel_options.fast && options.tensor_parallel > 1) {
    Throw(ErrorKind::kUsage,
          "--fast with --tensor-parallel {}: expected one of them, because products that --fast "
          "chooses may depend on the number of shards",
          options.tensor_parallel);
  }
  return kernel_options;
}

}  // namespace banyan
