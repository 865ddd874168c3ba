// Texts for encoders: from words to the tokens that a model's makers feed it, and which model it
// is.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/encoder.h"

namespace banyan {

// A text with its special tokens; a longer one than `most` tokens (0: the encoder's usual length)
// ends there, its last special token aside, and says so in `truncated` (may be null). Throws
// kUnsupported without a tokenizer.
std::vector<TokenId> EncoderTokens(const Encoder& encoder, std::string_view text, int most = 0,
                                   bool* truncated = nullptr);
// A query and a document as one text for Encoder::Rerank; the document ends where the length does.
// Throws kLimit when the query alone is too long.
std::vector<TokenId> RerankerTokens(const Encoder& reranker, std::string_view query,
                                    std::string_view document);

// A hash of weights, configuration and tokenizer of a model's files: vectors of models with
// different ones are not comparable. Throws as Encoder::Load does when there are no such files.
std::string EncoderFingerprint(const std::string& model);

// An encoder with what it was made of.
struct NamedEncoder {
  std::shared_ptr<Encoder> encoder;  // null: none
  std::string name;                  // as it was asked for
  std::string fingerprint;

  explicit operator bool() const { return encoder != nullptr; }
  Encoder* operator->() const { return encoder.get(); }
};

}  // namespace banyan
