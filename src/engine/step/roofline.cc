#include "engine/step/roofline.h"

namespace banyan {
namespace {

double Elements(const Matrix& matrix) {
  return static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
}

// Weights of the feed-forward part that a row is multiplied by.
double ElementsOfFfn(const LayerWeights& layer, const ModelConfig& config) {
  if (layer.experts == nullptr) return Elements(*layer.gate_up) + Elements(*layer.down);
  const ExpertWeights& expert = layer.experts->experts.front();
  return Elements(*layer.router) +
         config.experts.rule.chosen * (Elements(*expert.gate_up) + Elements(*expert.down));
}

}  // namespace

ModelSizes SizesOf(const Model::Parts& model) {
  const ModelConfig& config = model.config;
  const double vocabulary = static_cast<double>(config.vocab_size) * config.hidden_size;
  const bool tied = model.weights.logits == model.weights.embedding;
  ModelSizes sizes;
  const LayerWeights& last = model.weights.layers.back();
  const double last_after_attention = Elements(*last.output) + ElementsOfFfn(last, config);
  sizes.logit_parameters = vocabulary + last_after_attention;
  sizes.row_parameters = static_cast<double>(model.weights.parameters) -
                         static_cast<double>(model.weights.resting_parameters) -
                         vocabulary * (tied ? 1.0 : 2.0) - last_after_attention;
  // Of an untied embedding only the rows of the batch are read.
  sizes.weight_bytes = static_cast<double>(model.weights.bytes) -
                       static_cast<double>(model.weights.resting_bytes) -
                       (tied ? 0.0 : static_cast<double>(model.weights.embedding->bytes));
  sizes.layers = config.layers;
  sizes.heads = config.heads;
  sizes.head_dim = config.head_dim;
  const KvShape shape{config.layers, config.kv_heads, config.head_dim};
  sizes.kv_bytes_per_key =
      static_cast<double>(model.kernels->KvPageBytes(shape)) / static_cast<double>(kPageTokens);
  return sizes;
}

void Roofline::Add(const PlanStatistics& plan, int logit_rows, bool decode_only,
                   double attention_seconds) {
  attention_seconds_ += attention_seconds;
  (decode_only ? decode_ : prefill_) += CostOf(sizes_, LeastWorkOf(plan, logit_rows));
}

double Roofline::Seconds(const MachineRates& rates) const {
  if (rates.flops_per_second <= 0.0 || rates.bytes_per_second <= 0.0) return 0.0;
  return LimitSeconds(prefill_, rates) + LimitSeconds(decode_, rates);
}

double Roofline::PredictedSeconds(const MachineRates& rates) const {
  if (rates.flops_per_second <= 0.0 || rates.bytes_per_second <= 0.0) return 0.0;
  const auto products = [&](const StepCost& phase) {
    return LimitSeconds({.matrix_flops = phase.matrix_flops, .weight_bytes = phase.weight_bytes},
                        rates);
  };
  return products(prefill_) + products(decode_) + attention_seconds_;
}

double Roofline::DecodeSeconds(const MachineRates& rates) const {
  if (rates.flops_per_second <= 0.0 || rates.bytes_per_second <= 0.0) return 0.0;
  return LimitSeconds(decode_, rates);
}

}  // namespace banyan
