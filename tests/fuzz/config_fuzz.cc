// The text of config.json, also taken as generation_config.json, then the rotary table; and the
// same of an encoder, alone and as what says how to pool and which modules there are.
#include <cstddef>
#include <cstdint>
#include <string>

#include "banyan/error.h"
#include "model/config.h"
#include "model/encoder_config.h"
#include "model/rope.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const banyan::ModelConfig config = banyan::ConfigFromHuggingFace(text, text, "fuzz");
    for (const banyan::RopeConfig& rope : config.ropes) {
      banyan::MakeRopeTable(rope, config.context_length);
    }
  } catch (const banyan::Error&) {
  }
  for (const std::string& pooling : {std::string(), text}) {
    try {
      banyan::EncoderConfigFromHuggingFace(text, pooling, "fuzz");
    } catch (const banyan::Error&) {
    }
  }
  try {
    banyan::CheckSentenceModules(text, "fuzz");
  } catch (const banyan::Error&) {
  }
  try {
    banyan::ReadTextLimit(text, "fuzz");
  } catch (const banyan::Error&) {
  }
  return 0;
}
