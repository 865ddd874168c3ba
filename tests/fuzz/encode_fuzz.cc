// Any bytes as a text, for each kind of tokenizer (the small ones of tests/data/tokenizers). Plain
// text must not make control tokens, and streaming must equal decoding.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "text/tokenizer/tokenizer.h"

namespace {

const std::vector<std::shared_ptr<const banyan::Tokenizer>>& Tokenizers() {
  static const auto tokenizers = [] {
    const auto folder = std::filesystem::path(BANYAN_SOURCE_DIR) / "tests/data/tokenizers";
    std::vector<std::shared_ptr<const banyan::Tokenizer>> list;
    for (const char* name : {"byte_level_bpe", "sentencepiece_bpe", "unigram", "wordpiece"}) {
      list.push_back(banyan::Tokenizer::Load(folder / (std::string(name) + ".json")));
    }
    return list;
  }();
  return tokenizers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : Tokenizers()) {
    try {
      const std::vector<banyan::TokenId> ids = tokenizer->Encode(text);
      const std::string whole = tokenizer->Decode(ids);
      banyan::StreamDecoder stream(tokenizer);
      std::string streamed;
      for (const banyan::TokenId id : ids) streamed += stream.Push(id);
      streamed += stream.Finish();
      if (streamed != whole) __builtin_trap();
      for (const banyan::TokenId id : tokenizer->Encode(text, {.parse_special = false})) {
        if (tokenizer->IsSpecial(id) && id != tokenizer->special_tokens().unk) __builtin_trap();
      }
    } catch (const banyan::Error&) {
    }
  }
  return 0;
}
