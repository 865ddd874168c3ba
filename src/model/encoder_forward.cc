#include "model/encoder_forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  shape_.rope = kNoRope;  // positions are in the embeddings: nothing turns
}

// A row sees the keys of its span up to its own position. The rows of a text of n tokens stand at
// n - 1, n, …, 2 n - 2, so every one of them sees all n keys, which stand at 0 … n - 1.
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

}  // namespace banyan
