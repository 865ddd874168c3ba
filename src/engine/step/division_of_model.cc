#include "engine/step/division_of_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/step/step_launcher.h"

namespace banyan {
namespace {

// Assumed, not measured: NVLink of a Hopper GPU, each way, and what a few launches take; between
// places in one machine, a copy through its memory.
constexpr double kDeviceLink = 450e9, kDeviceGather = 10e-6, kHostGather = 2e-6;

LinkRates LinkOf(const Model::Parts& model, const MachineRates& rates) {
  if (model.kernels->asynchronous()) return {kDeviceLink, kDeviceGather};
  return {rates.bytes_per_second / 2.0, kHostGather};
}

// What a row of a layer brings to the other shards, in bytes.
double GatheredOf(const LayerWeights& layer, double reduced) {
  const auto rows = [](const MatrixRef& matrix) {
    return matrix == nullptr ? 0.0 : static_cast<double>(matrix->rows);
  };
  double bytes = 4.0 * (rows(layer.qkv) + rows(layer.output) + rows(layer.down));
  bytes += reduced * (static_cast<double>(layer.output->columns) + rows(layer.gate_up) / 2.0);
  return bytes;
}

}  // namespace

DivisionSizes DivisionOf(const Model::Parts& model) {
  const ModelWeights& weights = model.weights;
  DivisionSizes sizes;
  sizes.model = SizesOf(model);
  sizes.kv_heads = std::max(1, model.config.kv_heads);
  const bool mixed = model.kernels->options().precision == Precision::kMixed;
  const double reduced = mixed && model.kernels->asynchronous() ? 2.0 : 4.0;
  for (const LayerWeights& layer : weights.layers) {
    sizes.gathered_bytes += GatheredOf(layer, reduced);
    sizes.gathers += 5;
    if (layer.experts == nullptr) continue;
    const auto inner =
        static_cast<double>(model.config.experts.rule.chosen * layer.experts->inner());
    sizes.gathered_bytes += reduced * inner + 4.0 * static_cast<double>(layer.experts->hidden());
  }
  sizes.gathered_logit_bytes = 4.0 * model.config.vocab_size;
  const double shards = std::max(1, model.kernels->options().shards);
  sizes.weight_bytes = std::max(1.0, static_cast<double>(weights.bytes));
  if (shards > sizes.kv_heads) sizes.model.kv_bytes_per_key /= shards;
  return sizes;
}

std::vector<DevicesPrediction> PredictDevices(const Model::Parts& model, const MachineRates& rates,
                                              const WorkAhead& work, const StepLimits& limits,
                                              int devices) {
  std::vector<DevicesPrediction> predictions;
  if (rates.flops_per_second <= 0.0 || rates.bytes_per_second <= 0.0) return predictions;
  const DivisionSizes sizes = DivisionOf(model);
  const LinkRates link = LinkOf(model, rates);
  const JobWork job{.prefill_rows = work.computed_tokens,
                    .decode_rows = work.generated_tokens,
                    .answers = work.answers,
                    .prompt_tokens = work.prompt_tokens,
                    .step_rows = static_cast<double>(limits.rows),
                    .streams = static_cast<double>(limits.streams)};
  const int documents = static_cast<int>(std::clamp(work.documents, 1.0, 1e6));
  std::set<int> counts = {1, 2, 4, 8};
  counts.insert(devices);
  for (const int count : counts) {
    DevicesPrediction& prediction = predictions.emplace_back();
    prediction.devices = count;
    prediction.weight_bytes = static_cast<std::int64_t>(sizes.weight_bytes);
    prediction.shard_bytes = prediction.weight_bytes / count;
    prediction.seconds_by_document =
        SecondsOfDivision(sizes, job, std::min(count, documents), 1, rates, link);
    if (count > 1) {
      prediction.seconds_in_shards = SecondsOfDivision(sizes, job, 1, count, rates, link);
    }
  }
  return predictions;
}

std::string DescribePredictions(const std::vector<DevicesPrediction>& predictions,
                                const Model::Parts& model, const MachineRates& rates,
                                const std::string& chosen) {
  if (predictions.empty()) return "";
  const LinkRates link = LinkOf(model, rates);
  std::string text = fmt::format(
      "devices   {}; predicted for several like it, each {:.3g} TFLOP/s and {:.3g} GB/s (measured) "
      "with links of {:.3g} GB/s (assumed)\n",
      chosen, rates.flops_per_second / 1e12, rates.bytes_per_second / 1e9,
      link.bytes_per_second / 1e9);
  text += fmt::format("{:>9}{:>22}{:>12}{:>20}{:>12}\n", "devices", "a document on each",
                      "in shards", "weights on each", "of a shard");
  for (const DevicesPrediction& p : predictions) {
    const std::int64_t mib = p.weight_bytes >> 20, shard_mib = p.shard_bytes >> 20;
    const bool one = p.devices == 1;
    text +=
        fmt::format("{:>9}{:>20.3g} s{:>12}{:>16} MiB{:>12}\n", p.devices, p.seconds_by_document,
                    one ? "-" : fmt::format("{:.3g} s", p.seconds_in_shards), mib,
                    one ? "-" : fmt::format("{} MiB", shard_mib));
  }
  return text;
}

}  // namespace banyan
