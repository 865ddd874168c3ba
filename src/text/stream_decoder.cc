#include "base/error.h"
#include "text/decoder.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace banyan {

struct StreamDecoder::State {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool skip_special;
  std::unique_ptr<DecoderChain> chain;
};

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : state_(std::make_unique<State>()) {
  BANYAN_CHECK(tokenizer != nullptr);
  state_->tokenizer = std::move(tokenizer);
  state_->skip_special = skip_special;
  state_->chain = std::make_unique<DecoderChain>(state_->tokenizer->parts_->decoder);
}

StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::Push(TokenId id) {
  const Tokenizer& tokenizer = *state_->tokenizer;
  if (state_->skip_special && tokenizer.IsSpecial(id)) return {};
  const std::string_view token = tokenizer.TokenText(id);
  return token.empty() ? std::string() : state_->chain->Push(std::string(token));
}

std::string StreamDecoder::Finish() {
  std::string rest = state_->chain->Finish();
  state_->chain = std::make_unique<DecoderChain>(state_->tokenizer->parts_->decoder);
  return rest;
}

}  // namespace banyan
