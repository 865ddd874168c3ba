// A tokenizer in GGUF metadata (tokenizer.ggml.*): the vocabulary as listed (gguf_tokens.cc), and
// the model that a file names, built from it (gguf_models.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace banyan {

std::string GgufKey(std::string_view name);  // "tokenizer.ggml." before it

enum class GgufTokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// The vocabulary as the file lists it, before any model is built from it.
struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<GgufTokenType> types;
  std::vector<float> scores;  // empty when the file has none
};

// Throws kFormat when there is no vocabulary, or when types or scores do not fit to it.
GgufTokens ReadGgufTokens(const GgufFile& file);

// Fills the stages, model, kind and pre_name; parts.unk has been read before. `model` is
// tokenizer.ggml.model: an unknown one is refused (kUnsupported). Word pieces are respelled in
// `tokens`.
void BuildGgufModel(const GgufFile& file, const std::string& model, GgufTokens& tokens,
                    TokenizerParts& parts);

}  // namespace banyan
