#include "ids/ids_texts.h"

#include <fmt/format.h>

#include "banyan/error.h"
#include "ids/ids_rows.h"

namespace banyan::app {

IdsTexts::IdsTexts(std::shared_ptr<Encoder> encoder, const EngineOptions& options)
    : encoder_(std::move(encoder)), batch_rows_(options.one_by_one ? 1 : options.batch_rows) {}

void IdsTexts::AddEmbed(size_t row, std::vector<TokenId> text) {
  if (!encoder_->embeds()) {
    throw Error(ErrorKind::kUnsupported, "the model is a reranker: it has the kind rerank alone");
  }
  Add(row, std::move(text));
}

void IdsTexts::AddRerank(size_t row, std::vector<TokenId> text) {
  if (!encoder_->reranks()) {
    throw Error(ErrorKind::kUnsupported, "the model is no reranker: it has the kind embed alone");
  }
  Add(row, std::move(text));
}

void IdsTexts::Add(size_t row, std::vector<TokenId> text) {
  encoder_->Check(text);
  waiting_tokens_ += text.size();
  rows_.push_back(row);
  texts_.push_back(std::move(text));
}

std::vector<std::pair<size_t, std::string>> IdsTexts::Take() {
  std::vector<std::pair<size_t, std::string>> results;
  if (texts_.empty()) return results;
  if (encoder_->reranks()) {
    const std::vector<float> logits = encoder_->Rerank(texts_, batch_rows_);
    for (size_t i = 0; i < logits.size(); ++i) {
      results.emplace_back(rows_[i], "\"logit\":" + FloatText(logits[i]));
    }
  } else {
    EmbedOptions options;
    options.batch_rows = batch_rows_;
    const std::vector<Embedding> embeddings = encoder_->Embed(texts_, options);
    for (size_t i = 0; i < embeddings.size(); ++i) {
      results.emplace_back(rows_[i], FieldsOf(embeddings[i]));
    }
  }
  rows_.clear();
  texts_.clear();
  waiting_tokens_ = 0;
  return results;
}

// Only what the model has.
std::string IdsTexts::FieldsOf(const Embedding& embedding) const {
  std::string text = "\"dense\":" + FloatsText(embedding.dense);
  if (encoder_->has_sparse()) {
    std::vector<std::string> weights;
    for (const auto& [token, weight] : embedding.sparse) {
      weights.push_back(fmt::format("\"{}\":{}", token, FloatText(weight)));
    }
    text += fmt::format(",\"sparse\":{{{}}}", fmt::join(weights, ","));
  }
  if (encoder_->has_colbert()) {
    std::vector<std::string> vectors;
    for (const std::vector<float>& vector : embedding.colbert) {
      vectors.push_back(FloatsText(vector));
    }
    text += fmt::format(",\"colbert\":[{}]", fmt::join(vectors, ","));
  }
  return text;
}

}  // namespace banyan::app
