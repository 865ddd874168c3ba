#include "model/encoder_forward.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

constexpr int kItemRows = 128;  // of an attention item, as the engine has it

}  // namespace

struct EncoderPass::Step {
  std::unique_ptr<StepInputs> rows;       // tokens and attention
  std::unique_ptr<StepInputs> positions;  // rows of the table of positions as tokens
};

EncoderPass::EncoderPass(const EncoderConfig& config, const EncoderWeights& weights,
                         Kernels& kernels)
    : config_(config), weights_(weights), kernels_(kernels) {
  shape_.heads = shape_.kv_heads = config.heads;
  shape_.head_dim = config.head_dim();
  shape_.scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim()));
  plan_options_.max_item_rows = kItemRows;
  plan_options_.min_items = (kernels.attention_tasks() + config.heads - 1) / config.heads;
  plan_options_.joining = kernels.JoiningFor(shape_);
  shape_.rope = kNoRope;  // positions are in the embeddings: nothing is rotated
}

// A row sees the keys of its span up to its own position. The rows of a text of n tokens get
// positions n - 1, n, …, 2 n - 2, so every row sees all n keys, which have positions 0 … n - 1.
EncoderPass::Step EncoderPass::Prepare(std::span<const TokenList> texts, WantedRows wanted) {
  Batch batch, positions;
  std::vector<PlanNode> nodes;
  std::vector<std::int32_t> pages;
  for (const TokenList text : texts) {
    const auto length = static_cast<std::int32_t>(text.size());
    BANYAN_CHECK(length > 0 && length <= config_.context_length());
    PlanNode node;
    node.row_begin = batch.rows();
    node.row_end = batch.rows() + length;
    node.length = length;
    nodes.push_back(node);
    if (wanted == WantedRows::kFirst) batch.logit_rows.push_back(batch.rows());
    const auto first_slot = static_cast<std::int32_t>(pages.size()) * kPageTokens;
    for (std::int32_t i = 0; i < length; ++i) {
      batch.tokens.push_back(text[static_cast<size_t>(i)]);
      batch.positions.push_back(length - 1 + i);
      batch.slots.push_back(first_slot + i);
      positions.tokens.push_back(config_.first_position + i);
    }
    pages.resize(pages.size() + static_cast<size_t>((length + kPageTokens - 1) / kPageTokens));
  }
  std::iota(pages.begin(), pages.end(), 0);
  size_t page = 0;
  for (PlanNode& node : nodes) {
    const auto count = static_cast<size_t>((node.length + kPageTokens - 1) / kPageTokens);
    node.pages = std::span(pages).subspan(page, count);
    page += count;
  }
  positions.positions = batch.positions;
  positions.slots = batch.slots;
  Reserve(batch.rows(), static_cast<int>(pages.size()));
  AttentionPlan nothing;
  nothing.merge_begin.assign(batch.tokens.size() + 1, 0);
  Step step;
  step.positions = kernels_.Upload(positions, nothing);
  step.rows = kernels_.Upload(batch, BuildPlan(nodes, batch.positions, plan_options_));
  return step;
}

void EncoderPass::Reserve(int rows, int pages) {
  if (x_.rows < rows) {
    const std::int64_t hidden = config_.hidden_size;
    x_ = kernels_.NewTensor(rows, hidden);
    delta_ = kernels_.NewTensor(rows, hidden);
    qkv_ = kernels_.NewTensor(rows, 3 * hidden);
    attended_ = kernels_.NewTensor(rows, hidden);
    inner_ = kernels_.NewTensor(rows, config_.ffn_size);
    chosen_ = kernels_.NewTensor(rows, hidden);
    chosen_attended_ = kernels_.NewTensor(rows, hidden);
  }
  if (kv_ == nullptr || kv_->pages < pages) {
    kv_.reset();
    kv_ = kernels_.NewKvMemory({1, config_.heads, config_.head_dim()}, pages);
  }
}

Tensor EncoderPass::Run(std::span<const TokenList> texts, WantedRows wanted) {
  const Step step = Prepare(texts, wanted);
  const int rows = step.rows->rows;
  Tensor x = x_.Prefix(rows);
  Embed(step, x);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const EncoderLayerWeights& layer = weights_.layers[i];
    Tensor qkv = qkv_.Prefix(rows), attended = attended_.Prefix(rows);
    kernels_.MatMul(x, *layer.qkv.matrix, layer.qkv.bias.get(), qkv);
    kernels_.RotateAndStore(*step.rows, 0, shape_, {}, qkv, *kv_);
    kernels_.Attend(*step.rows, 0, shape_, qkv, *kv_, attended);
    if (wanted == WantedRows::kFirst && i + 1 == weights_.layers.size()) {
      Tensor some = chosen_.Prefix(step.rows->logit_rows);
      Tensor some_attended = chosen_attended_.Prefix(step.rows->logit_rows);
      kernels_.GatherLogitRows(*step.rows, x, some);
      kernels_.GatherLogitRows(*step.rows, attended, some_attended);
      x = some;
      attended = some_attended;
    }
    Tensor delta = delta_.Prefix(x.rows);
    kernels_.MatMulAdd(attended, *layer.output.matrix, layer.output.bias.get(), delta, x);
    Norm(layer.attention_norm, x);
    FeedForward(layer, x);
  }
  return x;
}

// norm(token + position + type)
void EncoderPass::Embed(const Step& step, Tensor& x) {
  Tensor delta = delta_.Prefix(x.rows);
  kernels_.Embed(*step.rows, *weights_.tokens, x);
  kernels_.Embed(*step.positions, *weights_.positions, delta);
  kernels_.Add(delta, x);
  Norm(weights_.embedding_norm, x);
}

// x = norm(x + W_down gelu(W_up x))
void EncoderPass::FeedForward(const EncoderLayerWeights& layer, Tensor& x) {
  Tensor inner = inner_.Prefix(x.rows), delta = delta_.Prefix(x.rows);
  kernels_.MatMul(x, *layer.up.matrix, layer.up.bias.get(), inner);
  kernels_.Activate(Activation::kGelu, inner);
  kernels_.MatMulAdd(inner, *layer.down.matrix, layer.down.bias.get(), delta, x);
  Norm(layer.ffn_norm, x);
}

void EncoderPass::Norm(const NormWeights& norm, Tensor& x) {
  kernels_.LayerNorm(x, *norm.weight, *norm.bias, config_.norm_eps, x);
}

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
