#include "engine/core.h"

#include <algorithm>
#include <utility>

namespace banyan {
namespace {

// Rows of a step in which streams write and prompts are computed, by default. On a device (an H200
// with an 8B model) steps of 2048 rows take half the time of full ones and lose 2 % of throughput;
// 1024 rows would take a quarter and lose 3 %. `bench arrival` measures it.
constexpr int kHostMixedRows = 256, kDeviceMixedRows = 2048;

// A step ahead costs a row for every stream that stops, which only pays where the host would
// otherwise keep a device waiting.
size_t StepsAhead(const EngineOptions& options, const Kernels& kernels) {
  if (options.steps_ahead < 0) return kernels.asynchronous() ? 1 : 0;
  return static_cast<size_t>(std::min(options.steps_ahead, 1));
}

int MixedRows(const EngineOptions& options, const Kernels& kernels, int batch_rows) {
  if (options.mixed_rows < 0) return batch_rows;
  if (options.mixed_rows > 0) return std::min(options.mixed_rows, batch_rows);
  return std::min(kernels.asynchronous() ? kDeviceMixedRows : kHostMixedRows, batch_rows);
}

StepComposer::Limits LimitsFor(const EngineOptions& options, const Kernels& kernels,
                               const EngineMemory& memory) {
  return {memory.logit_rows, MixedRows(options, kernels, memory.batch_rows),
          options.mixed_rows >= 0};
}

// Costs are measured before KV takes the memory.
EngineMemory MemoryAfterCosts(const EngineOptions& options, Model::Parts& model) {
  model.Costs(options.measure_costs);
  return AllocateMemory(options, model);
}

}  // namespace

EngineCore::EngineCore(std::shared_ptr<Model> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      memory_(MemoryAfterCosts(options, model_->parts())),
      steps_ahead_(StepsAhead(options, *model_->parts().kernels)),
      streams_(model_->parts(), *memory_.kv, options),
      admission_(options, memory_.max_streams, {streams_, under_way_, deliveries_}),
      skeletons_(admission_.running(), streams_),
      row_limit_(memory_.batch_rows),
      composer_(LimitsFor(options, *model_->parts().kernels, memory_), admission_, streams_,
                skeletons_),
      plan_(options, model_->parts(), {admission_.running(), streams_, skeletons_}),
      launcher_(options, model_->parts(), {memory_, admission_.running(), streams_, under_way_}),
      taker_(model_->parts(), {streams_, under_way_, admission_, deliveries_}) {}

Receipt EngineCore::MakeReceipt() {
  Receipt receipt = times_;
  deliveries_.Report(receipt);
  streams_.Report(receipt);
  launcher_.Report(receipt);
  taker_.Report(receipt);
  receipt.preempted = admission_.preempted();
  receipt.refused_steps = row_limit_.refusals();
  const MachineRates& rates = model_->parts().Rates();
  receipt.limit_seconds = launcher_.limit().Seconds(rates);
  receipt.predicted_seconds = launcher_.limit().PredictedSeconds(rates);
  receipt.decode_limit_seconds = launcher_.limit().DecodeSeconds(rates);
  return receipt;
}

}  // namespace banyan
