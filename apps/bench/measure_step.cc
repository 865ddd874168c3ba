// One step taken apart: each operation timed alone, and the whole.
#include "measure_step.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "engine/request/strategy.h"
#include "load/model_parts.h"
#include "measure_attention.h"
#include "model/forward.h"
#include "plan/build.h"
#include "plan/cost.h"

namespace banyan {
namespace {

constexpr int kPrefixRowsAtOnce = 512;  // of the prefix, when its keys are stored

// The step as the engine would plan it: one shared node, and one for each stream.
struct StepLayout {
  std::vector<PlanNode> nodes;
  std::vector<std::vector<std::int32_t>> pages;
  Batch prefix, step;
  int page_count = 0;
};

// A node of `before` tokens, whose keys are stored already, and `rows` that the step computes.
void AddNode(const PlanNode& above, int before, int rows, TokenId vocabulary, StepLayout& layout) {
  PlanNode node = above;
  node.length = before + rows;
  node.stack = static_cast<std::int32_t>(layout.nodes.size());
  node.row_begin = layout.step.rows();
  std::vector<std::int32_t>& pages = layout.pages.emplace_back();
  for (int key = 0; key < node.length; ++key) {
    if (key % kPageTokens == 0) pages.push_back(layout.page_count++);
    const std::int32_t slot = pages.back() * kPageTokens + key % kPageTokens;
    Batch& batch = key < before ? layout.prefix : layout.step;
    batch.tokens.push_back(static_cast<TokenId>(static_cast<std::uint32_t>(slot) * 2654435761u %
                                                static_cast<std::uint32_t>(vocabulary)));
    batch.positions.push_back(node.first_position + key);
    batch.slots.push_back(slot);
  }
  node.row_end = layout.step.rows();
  layout.nodes.push_back(node);
}

StepLayout MakeLayout(const StepTask& task, TokenId vocabulary) {
  StepLayout layout;
  PlanNode place;  // what AddNode does not set
  place.parent = -1;
  place.first_position = 0;
  const bool shared = task.shared && task.prefix > 0;
  if (shared) {
    AddNode(place, task.prefix, 0, vocabulary, layout);
    place.parent = 0;
    place.first_position = task.prefix;
  }
  for (int stream = 0; stream < task.streams; ++stream) {
    AddNode(place, shared ? 0 : task.prefix, task.rows, vocabulary, layout);
    layout.step.logit_rows.push_back(layout.step.rows() - 1);
  }
  for (size_t n = 0; n < layout.nodes.size(); ++n) layout.nodes[n].pages = layout.pages[n];
  return layout;
}

}  // namespace

struct StepBench::State {
  std::shared_ptr<Model> model;
  int runs = 1;

  const ModelConfig& config() const { return model->parts().config; }
  Kernels& kernels() const { return *model->parts().kernels; }
  const ModelWeights& weights() const { return model->parts().weights; }

  AttentionShape ShapeOf(int layer) const {
    AttentionShape shape = ShapeOfLayer(config(), layer);
    shape.sinks = weights().layers[static_cast<size_t>(layer)].sinks.get();
    return shape;
  }
  // The norms of a layer, before and after its blocks.
  void RunNorms(const LayerWeights& w, const Tensor& x, Tensor& out) const {
    for (const VectorRef& norm : {w.attention_norm, w.attended_norm, w.ffn_norm, w.fed_norm}) {
      if (norm) kernels().RmsNorm(x, *norm, config().rms_eps, out);
    }
  }
  QkNormWeights NormOf(const LayerWeights& w) const {
    return {w.query_norm.get(), w.key_norm.get(), w.value_norm.get(),
            config().qk_norm == QkNorm::kWhole, config().rms_eps};
  }

  // K and V of the prefix in every layer, of plausible size: products of embedded tokens.
  void StorePrefix(const Batch& prefix, KvMemory& kv) const {
    const std::int64_t columns = weights().layers.front().qkv->rows;
    for (int begin = 0; begin < prefix.rows(); begin += kPrefixRowsAtOnce) {
      const Batch batch = RowsFrom(prefix, begin, kPrefixRowsAtOnce);
      const auto step = kernels().Upload(batch, PlanWithoutReading(batch));
      Tensor x = kernels().NewTensor(batch.rows(), config().hidden_size);
      Tensor qkv = kernels().NewTensor(batch.rows(), columns);
      kernels().Embed(*step, *weights().embedding, x);
      for (int layer = 0; layer < config().layers; ++layer) {
        const LayerWeights& w = weights().layers[static_cast<size_t>(layer)];
        RunNorms(w, x, x);
        kernels().MatMul(x, *w.qkv, w.qkv_bias.get(), qkv);
        kernels().RotateAndStore(*step, layer, ShapeOf(layer), NormOf(w), qkv, kv);
      }
    }
  }

  double Least(const std::function<void()>& work) const {
    work();
    const std::vector<double> seconds = kernels().TimeRuns({runs, false}, work);
    return *std::min_element(seconds.begin(), seconds.end());
  }
};

StepBench::StepBench(std::shared_ptr<Model> model, int runs) : state_(std::make_unique<State>()) {
  if (runs < 1) Throw(ErrorKind::kUsage, "{} runs: expected at least one", runs);
  const ModelConfig& config = model->parts().config;
  if (config.states.any() || !KvShapeOf(config).by_layer.empty()) {
    Throw(ErrorKind::kUnsupported,
          "step: it takes layers that are alike apart; {}: layers {}: `banyan bench tree` measures "
          "such models",
          config.family, config.states.any() ? "keep states" : "have heads of their own");
  }
  state_->model = std::move(model);
  state_->runs = runs;
}
StepBench::~StepBench() = default;

StepReport StepBench::Measure(const StepTask& task) {
  const State& s = *state_;
  const ModelConfig& config = s.config();
  Kernels& kernels = s.kernels();
  const ModelWeights& weights = s.weights();
  if (task.streams < 1 || task.rows < 1 || task.prefix < 0 ||
      task.prefix + std::int64_t{task.rows} > config.context_length) {
    Throw(ErrorKind::kUsage,
          "{} streams of {} tokens on {}: expected at least one of each within a context of {}",
          task.streams, task.rows, task.prefix, config.context_length);
  }
  const StepLayout layout = MakeLayout(task, static_cast<TokenId>(config.vocab_size));
  const auto kv = kernels.NewKvMemory(KvShapeOf(config), layout.page_count);
  // Before the prefix: it sets the rotation.
  ForwardPass forward(config, weights, kernels, layout.step.rows(), task.streams);
  s.StorePrefix(layout.prefix, *kv);
  const AttentionPlan plan = BuildPlan(layout.nodes, layout.step.positions,
                                       PlanOptionsFor(task.strategy, s.ShapeOf(0), kernels));
  std::vector<SamplingRow> requests(static_cast<size_t>(task.streams));
  for (size_t i = 0; i < requests.size(); ++i) requests[i].row = static_cast<std::int32_t>(i);

  StepReport report;
  report.rows = layout.step.rows();
  Tensor logits;
  report.seconds = s.Least([&] {
    logits = forward.Run(layout.step, plan, *kv);
    kernels.Choose(logits, requests)->Take();
  });

  const std::int64_t rows = report.rows;
  const auto step = kernels.Upload(layout.step, plan);
  const std::int64_t heads_wide = std::int64_t{config.heads} * config.head_dim;
  Tensor x = kernels.NewTensor(rows, config.hidden_size);
  Tensor other = kernels.NewTensor(rows, config.hidden_size);
  Tensor qkv = kernels.NewTensor(rows, weights.layers.front().qkv->rows);
  Tensor attended = kernels.NewTensor(rows, heads_wide);
  Tensor gate_up = kernels.NewTensor(rows, 2 * std::int64_t{config.ffn_size});
  Tensor inner = kernels.NewTensor(rows, config.ffn_size);
  const auto add = [&](const std::string& name, double flops, double bytes,
                       const std::function<void(int layer, const LayerWeights& w)>& operation) {
    const double seconds = s.Least([&] {
      for (int layer = 0; layer < config.layers; ++layer) {
        operation(layer, weights.layers[static_cast<size_t>(layer)]);
      }
    });
    report.operations.push_back({name, seconds, flops, bytes});
  };
  const auto add_product = [&](const std::string& name, const MatrixRef LayerWeights::*matrix,
                               const std::function<void(int, const LayerWeights&)>& operation) {
    double flops = 0.0, bytes = 0.0;
    for (const LayerWeights& w : weights.layers) {
      if (w.*matrix == nullptr) continue;  // a mixture of experts
      const Matrix& m = *(w.*matrix);
      flops += 2.0 * static_cast<double>(m.rows) * static_cast<double>(m.columns * rows);
      bytes += static_cast<double>(m.bytes);
    }
    add(name, flops, bytes, operation);
  };
  kernels.Embed(*step, *weights.embedding, x);
  add("norms", 0.0, 0.0, [&](int, const LayerWeights& w) { s.RunNorms(w, x, other); });
  add_product("qkv", &LayerWeights::qkv, [&](int, const LayerWeights& w) {
    kernels.MatMul(other, *w.qkv, w.qkv_bias.get(), qkv);
  });
  add("rotate, store", 0.0, 0.0, [&](int layer, const LayerWeights& w) {
    kernels.RotateAndStore(*step, layer, s.ShapeOf(layer), s.NormOf(w), qkv, *kv);
  });
  const PlanStatistics counts = CountPlan(plan, layout.step.positions);
  const double pairs = static_cast<double>(counts.pairs_visible);
  const double page_bytes = static_cast<double>(kernels.KvPageBytes(KvShapeOf(config)));
  add("attention", 4.0 * static_cast<double>(heads_wide) * config.layers * pairs,
      page_bytes / kPageTokens * static_cast<double>(counts.keys_unique),
      [&](int layer, const LayerWeights&) {
        kernels.Attend(*step, layer, s.ShapeOf(layer), qkv, *kv, attended);
      });
  add_product("output", &LayerWeights::output, [&](int, const LayerWeights& w) {
    kernels.MatMulAdd(attended, *w.output, w.output_bias.get(), other, x);
  });
  kernels.Embed(*step, *weights.embedding, other);
  add_product("gate, up", &LayerWeights::gate_up, [&](int, const LayerWeights& w) {
    if (w.experts != nullptr) return;
    kernels.MatMulGlu(other, {*w.gate_up, w.gate_up_bias.get(), config.gate}, gate_up, inner);
  });
  add_product("down", &LayerWeights::down, [&](int, const LayerWeights& w) {
    if (w.experts != nullptr) return;
    kernels.MatMulAdd(inner, *w.down, w.down_bias.get(), other, x);
  });
  if (config.experts.count > 0) {
    const std::vector<TensorGroup> groups = {
        ExpertTensorsFor(config, rows, ExpertStretch(kernels))};
    const std::vector<Tensor> tensors = kernels.NewTensorGroups(groups)[0];
    const ExpertScratch scratch{tensors[1], tensors[2], tensors[3], tensors[4]};
    Tensor chosen = tensors[0];
    double products = 0.0, bytes = 0.0;  // that rows meet; all bytes, as many rows choose them
    for (const LayerWeights& w : weights.layers) {
      if (w.experts == nullptr) continue;
      const ExpertWeights& expert = w.experts->experts.front();
      const double count = static_cast<double>(expert.gate_up->rows * expert.gate_up->columns +
                                               expert.down->rows * expert.down->columns);
      const double met = std::min<double>(config.experts.count,
                                          static_cast<double>(rows) * config.experts.rule.chosen);
      products += count * config.experts.rule.chosen;
      bytes += met * static_cast<double>(expert.gate_up->bytes + expert.down->bytes);
    }
    add("experts", 2.0 * products * static_cast<double>(rows), bytes,
        [&](int, const LayerWeights& w) {
          if (w.experts == nullptr) return;
          kernels.MatMul(other, *w.router, w.router_bias.get(), chosen);
          kernels.MixExperts(other, {*w.experts, chosen, config.experts.rule, scratch}, x);
        });
  }
  const Tensor last = x.Prefix(task.streams);
  Tensor scores = logits;
  const double logit_products =
      static_cast<double>(weights.logits->rows) * static_cast<double>(weights.logits->columns);
  report.operations.push_back(
      {"logits", s.Least([&] { kernels.MatMul(last, *weights.logits, nullptr, scores); }),
       2.0 * logit_products * task.streams, static_cast<double>(weights.logits->bytes)});
  report.operations.push_back({"choice", s.Least([&] { kernels.Choose(scores, requests)->Take(); }),
                               0.0, 4.0 * static_cast<double>(config.vocab_size) * task.streams});
  return report;
}

}  // namespace banyan
