// A GGUF file: structure, every value by every getter, tensors, and the model configuration.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/error.h"
#include "formats/gguf.h"
#include "model/config.h"
#include "tensor/quantization.h"

namespace {

using banyan::GgufFile;

template <typename F>
void Attempt(F f) {
  try {
    f();
  } catch (const banyan::Error&) {
  }
}

void ReadTensor(const banyan::HostTensor& tensor) {
  const std::int64_t values = tensor.rows() * tensor.columns();
  if (values > 4096) return;
  std::vector<float> out(static_cast<size_t>(values));
  banyan::Dequantize(tensor.dtype, tensor.bytes, out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  Attempt([&] {
    const GgufFile file({reinterpret_cast<const std::byte*>(data), size}, "fuzz.gguf");
    for (const std::string& key : file.metadata().Keys()) {
      Attempt([&] { file.metadata().GetUint(key); });
      Attempt([&] { file.metadata().FindInt(key); });
      Attempt([&] { file.metadata().GetFloat(key); });
      Attempt([&] { file.metadata().FindBool(key); });
      Attempt([&] { file.metadata().GetString(key); });
      Attempt([&] { file.metadata().FindStringArray(key); });
      Attempt([&] { file.metadata().FindFloatArray(key); });
      Attempt([&] { file.metadata().GetIntArray(key); });
    }
    for (const std::string& name : file.tensors().Names()) {
      Attempt([&] { ReadTensor(file.tensors().GetAnyShape(name)); });
    }
    banyan::ConfigFromGguf(file);
  });
  return 0;
}
