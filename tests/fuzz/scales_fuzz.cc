// A safetensors file in memory whose codes are looked up with their scales, of all kinds.
#include <cstddef>
#include <cstdint>

#include "banyan/error.h"
#include "formats/safetensors.h"
#include "model/weight_scales.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  static banyan::ThreadPool pool(1);
  const banyan::WeightScales all[] = {
      {"compressed-tensors", {"weight_scale"}, true, true, 0, 0},
      {"fp8", {"weight_scale_inv", "weight_scale"}, false, true, 2, 2}};
  for (const banyan::WeightScales& scales : all) {
    try {
      banyan::TensorStore store =
          banyan::ReadSafetensors({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
      banyan::FindScales(scales, store);
      for (const std::string& name : store.Quantized()) {
        banyan::ApplyScales(store.GetQuantized(name), store, scales, banyan::Precision::kMixed,
                            pool);
      }
    } catch (const banyan::Error&) {
    }
  }
  return 0;
}
