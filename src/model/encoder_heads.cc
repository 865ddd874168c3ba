#include "model/encoder_heads.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

// To length 1; a vector of zeros stays one.
void Normalize(std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : values) value = static_cast<float>(value / length);
}

}  // namespace

EncoderHeads::EncoderHeads(const EncoderConfig& config, const EncoderWeights& weights,
                           Kernels& kernels, std::vector<TokenId> special_ids)
    : config_(config), weights_(weights), kernels_(kernels), special_ids_(std::move(special_ids)) {}

bool EncoderHeads::GivesSparse(const EmbedOptions& options) const {
  return options.sparse && weights_.sparse.matrix != nullptr;
}

bool EncoderHeads::GivesColbert(const EmbedOptions& options) const {
  return options.colbert && weights_.colbert.matrix != nullptr;
}

WantedRows EncoderHeads::RowsFor(const EmbedOptions& options) const {
  const bool all =
      config_.pooling == Pooling::kMean || GivesSparse(options) || GivesColbert(options);
  return all ? WantedRows::kAll : WantedRows::kFirst;
}

std::vector<Embedding> EncoderHeads::Embed(const Tensor& rows, std::span<const TokenList> texts,
                                           const EmbedOptions& options) {
  const bool all = RowsFor(options) == WantedRows::kAll;
  const bool sparse = GivesSparse(options), colbert = GivesColbert(options);
  const HostRows last = Download(rows);
  const HostRows weights = sparse ? Download(Apply(weights_.sparse, rows)) : HostRows{};
  const HostRows vectors = colbert ? Download(Apply(weights_.colbert, rows)) : HostRows{};
  std::vector<Embedding> results(texts.size());
  std::int64_t first = 0;
  for (size_t t = 0; t < texts.size(); ++t) {
    const auto length = static_cast<std::int64_t>(texts[t].size());
    Embedding& result = results[t];
    result.dense = Pooled(last, first, config_.pooling == Pooling::kMean ? length : 1);
    std::map<TokenId, float> heaviest;
    for (std::int64_t i = 0; i < length && sparse; ++i) {
      const TokenId token = texts[t][static_cast<size_t>(i)];
      const float weight = weights.Row(first + i).front();
      if (!(weight > 0.0f) || std::ranges::binary_search(special_ids_, token)) continue;
      float& most = heaviest[token];
      most = std::max(most, weight);
    }
    result.sparse.assign(heaviest.begin(), heaviest.end());
    for (std::int64_t i = 1; i < length && colbert; ++i) {
      const std::span<const float> vector = vectors.Row(first + i);
      Normalize(result.colbert.emplace_back(vector.begin(), vector.end()));
    }
    first += all ? length : 1;
  }
  return results;
}

std::vector<float> EncoderHeads::Rerank(const Tensor& rows) {
  Tensor inner = Apply(weights_.classifier_inner, rows);
  kernels_.Activate(Activation::kTanh, inner);
  return Download(Apply(weights_.classifier, inner)).values;
}

// The mean of `count` rows, to length 1.
std::vector<float> EncoderHeads::Pooled(const HostRows& rows, std::int64_t first,
                                        std::int64_t count) {
  std::vector<double> sum(static_cast<size_t>(rows.columns), 0.0);
  for (std::int64_t row = first; row < first + count; ++row) {
    const std::span<const float> values = rows.Row(row);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  std::vector<float> mean(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    mean[i] = static_cast<float>(sum[i] / static_cast<double>(count));
  }
  Normalize(mean);
  return mean;
}

EncoderHeads::HostRows EncoderHeads::Download(const Tensor& rows) {
  HostRows result{rows.columns, std::vector<float>(static_cast<size_t>(rows.rows * rows.columns))};
  kernels_.Download(rows, 0, result.values);
  return result;
}

Tensor EncoderHeads::Apply(const LinearWeights& linear, const Tensor& rows) {
  BANYAN_CHECK(linear.matrix != nullptr);
  Tensor out = kernels_.NewTensor(rows.rows, linear.matrix->rows);
  kernels_.MatMul(rows, *linear.matrix, linear.bias.get(), out);
  return out;
}

}  // namespace banyan
