// An adapter in memory: adapter_config.json on the first line, then the safetensors file. What is
// accepted is merged into weights.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "banyan/error.h"
#include "formats/safetensors.h"
#include "model/adapter.h"
#include "model/matrix_loader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  using banyan::HostTensor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), size);
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  static banyan::ThreadPool pool(1);
  try {
    banyan::Adapter adapter(
        text.substr(0, line),
        banyan::ReadSafetensors(bytes.subspan(std::min(line + 1, size)), "fuzz"), "fuzz");
    adapter.Settings();
    const std::vector<float> values(32, 1.0f);
    const HostTensor part{"w", banyan::DType::kF32, {8, 4}, std::as_bytes(std::span(values))};
    const HostTensor* parts = &part;
    for (const char* module : {"model.layers.0.self_attn.q_proj", "model.embed_tokens"}) {
      const banyan::AdaptedRows rows{adapter.Find(module, 8, 4), 0, 8};
      if (rows.product == nullptr) continue;
      banyan::Merge(std::span(&parts, 1), {}, std::span(&rows, 1), banyan::Precision::kMixed,
                    "fuzz", pool);
    }
    adapter.CheckAllFound();
  } catch (const banyan::Error&) {
  }
  return 0;
}
