#include <cmath>
#include <utility>

#include "base/error.h"
#include "text/tokenizer_gguf.h"
#include "text/utf8.h"

namespace banyan {

std::string GgufKey(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

GgufTokens ReadGgufTokens(const GgufFile& file) {
  const auto texts = file.FindStringArray(GgufKey("tokens"));
  if (!texts || texts->empty()) {
    Throw(ErrorKind::kFormat, "{}: {} is missing: the file has no vocabulary", file.path(),
          GgufKey("tokens"));
  }
  GgufTokens tokens;
  const size_t count = texts->size();
  tokens.texts.reserve(count);
  for (const std::string_view text : *texts) {
    tokens.texts.emplace_back();
    AppendLossyUtf8(text, tokens.texts.back());
  }
  tokens.types.assign(count, GgufTokenType::kNormal);
  if (const auto types = file.FindIntArray(GgufKey("token_type"))) {
    if (types->size() < count) {
      Throw(ErrorKind::kFormat, "{}: {} has {} entries for {} tokens", file.path(),
            GgufKey("token_type"), types->size(), count);
    }
    for (size_t i = 0; i < count; ++i) tokens.types[i] = static_cast<GgufTokenType>((*types)[i]);
  }
  if (auto scores = file.FindFloatArray(GgufKey("scores"))) {
    if (scores->size() < count) {
      Throw(ErrorKind::kFormat, "{}: {} has {} entries for {} tokens", file.path(),
            GgufKey("scores"), scores->size(), count);
    }
    scores->resize(count);
    for (const float score : *scores) {
      if (!std::isfinite(score)) {
        Throw(ErrorKind::kFormat, "{}: {} has a value that is not finite", file.path(),
              GgufKey("scores"));
      }
    }
    tokens.scores = *std::move(scores);
  }
  return tokens;
}

}  // namespace banyan
