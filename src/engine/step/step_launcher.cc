#include "engine/step/step_launcher.h"

#include <utility>

#include "base/error.h"

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
  sizes.layers = config.layers - StateLayersBefore(config, config.layers);  // with attention
  sizes.heads = config.heads;
  sizes.head_dim = config.head_dim;
  const KvShape shape = KvShapeOf(config);
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

StepLauncher::StepLauncher(const EngineOptions& options, const Model::Parts& model,
                           const Parts& parts)
    : strategy_(options.strategy),
      replay_(options.replay),
      kernels_(*model.kernels),
      engine_memory_(parts.engine_memory),
      running_(parts.running),
      memory_(parts.memory),
      in_flight_(parts.in_flight),
      sampling_(model.text),
      roofline_(model) {}

void StepLauncher::Launch(const Scheduler& scheduler, StepPlan& plan) {
  BANYAN_CHECK(in_flight_.size() <= 1);
  LaunchedStep step = in_flight_.New();
  step.decode_only = scheduler.decision().prefill.empty();
  sampling_.Clear();
  for (const StreamId id : running_.order()) {
    Stream& stream = running_.at(id);
    if (!plan.FindLogits(stream, logits_)) continue;
    sampling_.Add(stream, logits_);
    step.readers.push_back(id);
    step.rows.push_back(logits_.front());
    step.branches.push_back(static_cast<int>(logits_.size()));
  }
  step.owner_choices = sampling_.AddOwners();
  step.take_at_once = sampling_.take_at_once();

  ForwardPass& model = *engine_memory_.forward;
  ForwardOptions forward;
  forward.skip_attention = strategy_ == Strategy::kNoAttention;
  forward.replay = replay_;
  forward.earlier = in_flight_.latest_choices();
  forward.only_choices =
      model.can_only_choose() && sampling_.panels().empty() && !sampling_.want_logits();
  FillTails(scheduler);
  step.logits = model.Run(plan.batch(), plan.attention(), *engine_memory_.kv, forward);
  if (forward.only_choices) {
    model.Choose(sampling_.rows(), step.choices);
  } else {
    kernels_.Choose(step.logits, sampling_.rows(), {sampling_.panels(), forward.earlier},
                    step.choices);
  }

  for (size_t i = 0; i < step.readers.size(); ++i) {
    Stream& stream = running_.at(step.readers[i]);
    ++stream.tokens_in_flight;
    stream.choice = static_cast<std::int32_t>(i);
  }
  for (const NodeRows& node : plan.rows()) {
    memory_.MarkFilled(node.node, node.first_key + node.count);
  }
  Count(scheduler.decision(), plan);
  in_flight_.Add(std::move(step));
}

// Tails that begin with their prompt's last segment get copies of its keys and values before their
// first row.
void StepLauncher::FillTails(const Scheduler& scheduler) {
  tails_.clear();
  for (const StreamId id : scheduler.decision().extend) {
    for (const Branch& branch : running_.at(id).branches) tails_.push_back(branch);
  }
  for (const StreamId id : running_.order()) {  // those that were preempted
    const Stream& stream = running_.at(id);
    if (stream.decodes()) continue;
    for (const Branch& branch : stream.branches) {
      if (scheduler.Touches(branch.tail)) tails_.push_back(branch);
    }
  }
  memory_.FillTails(tails_);
}

void StepLauncher::Count(const StepDecision& decision, StepPlan& plan) {
  roofline_.Add(plan.Count(), static_cast<int>(plan.batch().logit_rows.size()),
                decision.prefill.empty(), roofline_.sizes().layers * plan.AttentionSeconds());
  if (plan.reads_apart()) ++steps_apart_;
  ++steps_;
  decode_rows_ += decision.extend_rows;
  for (const NodeRows& row : plan.rows().subspan(decision.prefill.size())) {
    if (!row.logits) ++recomputed_tokens_;  // of a skeleton's value
  }
  for (const NodeRows& part : decision.prefill) {
    const bool answer = memory_.forest().at(part.node).growing;
    (answer ? recomputed_tokens_ : prefilled_tokens_) += part.count;
  }
}

void StepLauncher::Report(Receipt& receipt) const {
  receipt.steps = steps_;
  receipt.steps_apart = steps_apart_;
  receipt.decode_rows = decode_rows_;
  receipt.prefilled_tokens = prefilled_tokens_;
  receipt.recomputed_tokens = recomputed_tokens_;
}

}  // namespace banyan
