// A GGUF file: structure, every value by every getter, tensors, and the model configuration.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/error.h"
#include "formats/gguf.h"
#include "model/config.h"
#include "tensor/dequantize.h"

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
    for (const std::string& key : file.Keys()) {
      Attempt([&] { file.GetUint(key); });
      Attempt([&] { file.GetInt(key); });
      Attempt([&] { file.GetFloat(key); });
      Attempt([&] { file.GetBool(key); });
      Attempt([&] { file.GetString(key); });
      Attempt([&] { file.GetStringArray(key); });
      Attempt([&] { file.GetFloatArray(key); });
      Attempt([&] { file.GetIntArray(key); });
    }
    for (const std::string& name : file.tensors().Names()) {
      Attempt([&] { ReadTensor(file.tensors().GetAnyShape(name)); });
    }
    banyan::ConfigFromGguf(file);
  });
  return 0;
}
