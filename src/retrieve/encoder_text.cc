#include "banyan/encoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "formats/gguf.h"
#include "formats/locate.h"
#include "formats/safetensors.h"
#include "load/model_identity.h"

namespace banyan {

std::vector<TokenId> EncoderTokens(const Encoder& encoder, std::string_view text, int most,
                                   bool* truncated) {
  const std::shared_ptr<const Text> side = encoder.text();
  if (side == nullptr) {
    Throw(ErrorKind::kUnsupported, "the encoder's files have no tokenizer");
  }
  const int limit = most > 0 ? std::min(most, encoder.context_length()) : encoder.usual_length();
  std::vector<TokenId> tokens = side->Encode(text, /*add_special=*/true, /*parse_special=*/false);
  const bool too_long = tokens.size() > static_cast<size_t>(limit);
  if (truncated != nullptr) *truncated = too_long;
  if (!too_long) return tokens;
  const TokenId last = tokens.back();
  tokens.resize(static_cast<size_t>(limit));
  if (side->IsSpecial(last)) tokens.back() = last;
  return tokens;
}

// <s> query </s></s> document </s>, as RoBERTa and XLM-R join two texts.
std::vector<TokenId> RerankerTokens(const Encoder& reranker, std::string_view query,
                                    std::string_view document) {
  std::vector<TokenId> pair = EncoderTokens(reranker, query, reranker.context_length());
  const int room = reranker.usual_length() - static_cast<int>(pair.size());
  constexpr int kLeastRoom = 3;  // two special tokens and one of the document's
  if (room < kLeastRoom || pair.size() < 2) {
    Throw(ErrorKind::kLimit,
          "the question's {} tokens leave no room for a document in the reranker's {}", pair.size(),
          reranker.usual_length());
  }
  std::vector<TokenId> rest = EncoderTokens(reranker, document, room);
  const std::shared_ptr<const Text> side = reranker.text();
  if (!side->IsSpecial(pair.back()) || !side->IsSpecial(rest.front())) {
    Throw(ErrorKind::kUnsupported,
          "the reranker's tokenizer puts no separators around a text: expected one of RoBERTa's "
          "or XLM-R's");
  }
  rest.front() = pair.back();
  pair.insert(pair.end(), rest.begin(), rest.end());
  return pair;
}

std::string EncoderFingerprint(const std::string& model) {
  constexpr size_t kMaxBytes = 16u << 20;
  const ModelFiles files = LocateModel(model);
  const LoadOptions options;
  const std::vector<TokenId> none;
  Json identity;
  if (files.kind == ModelKind::kGguf) {
    const GgufFile gguf(files.weights);
    identity = IdentityOf({files, &gguf, gguf.tensors(), nullptr, nullptr, none}, options, {});
  } else {
    TensorStore store = OpenSafetensors(files.weights);
    std::error_code ignored;
    const std::filesystem::path heads = files.root / "heads.safetensors";
    if (std::filesystem::is_regular_file(heads, ignored)) store.Absorb(OpenSafetensors(heads));
    identity = IdentityOf({files, nullptr, store, nullptr, nullptr, none}, options, {});
    for (const char* name : {"1_Pooling/config.json", "sentence_bert_config.json"}) {
      const std::filesystem::path path = files.root / name;
      if (std::filesystem::is_regular_file(path, ignored)) {
        identity[name] = ReadTextFile(path, kMaxBytes);
      }
    }
  }
  for (const char* how : {"device", "precision", "kv type", "fast", "yarn factor"}) {
    identity.erase(how);
  }
  const std::string text = identity.dump(-1, ' ', false, Json::error_handler_t::replace);
  return ToHex(Sha256().Add(text).Finish());
}

}  // namespace banyan
