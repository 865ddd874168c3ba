// A safetensors file in memory.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/error.h"
#include "formats/safetensors.h"
#include "tensor/quantization.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  try {
    const banyan::TensorStore store =
        banyan::ReadSafetensors({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    for (const std::string& name : store.Names()) {
      const banyan::HostTensor& tensor = store.GetAnyShape(name);
      std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
      banyan::Dequantize(tensor.dtype, tensor.bytes, values);
    }
  } catch (const banyan::Error&) {
  }
  return 0;
}
