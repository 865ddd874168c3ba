// The text of config.json, also taken as generation_config.json; then the rotary table.
#include <cstddef>
#include <cstdint>
#include <string>

#include "banyan/error.h"
#include "model/config.h"
#include "model/rope.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const banyan::ModelConfig config = banyan::ConfigFromHuggingFace(text, text, "fuzz");
    banyan::MakeRopeTable(config.rope, config.context_length);
  } catch (const banyan::Error&) {
  }
  return 0;
}
