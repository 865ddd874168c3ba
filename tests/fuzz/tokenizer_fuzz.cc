// The text of a tokenizer.json, also taken as tokenizer_config.json. What loads must encode, decode
// and stream a fixed text without harm.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "text/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string json(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = banyan::Tokenizer::FromHuggingFaceText(json, json, "fuzz");
    for (const bool parse_special : {true, false}) {
      const std::vector<banyan::TokenId> ids = tokenizer->Encode(
          "the Hello\xC3\xA9 <s>\n 12\xFF", {.add_special = true, .parse_special = parse_special});
      const std::string whole = tokenizer->Decode(ids);
      banyan::StreamDecoder stream(tokenizer);
      std::string streamed;
      for (const banyan::TokenId id : ids) streamed += stream.Push(id);
      streamed += stream.Finish();
      if (streamed != whole) __builtin_trap();
    }
  } catch (const banyan::Error&) {
  }
  return 0;
}
