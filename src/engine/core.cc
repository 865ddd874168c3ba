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

std::vector<Digest> RootNames(const Model::Parts& model) {
  std::vector<Digest> names;
  for (const ModelVariant& variant : model.variants) names.push_back(variant.kv_name);
  return names;
}

}  // namespace

EngineCore::EngineCore(std::shared_ptr<Model> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      kernels_(*model_->parts().kernels),
      config_(model_->parts().config),
      memory_(AllocateMemory(options, model_->parts())),
      batch_rows_(memory_.batch_rows),
      max_streams_(memory_.max_streams),
      mixed_rows_(MixedRows(options, kernels_, batch_rows_)),
      fair_(options.mixed_rows >= 0),
      steps_ahead_(StepsAhead(options, kernels_)),
      forest_(kCutKeys, RootNames(model_->parts())),
      cache_(forest_, memory_.kv->pages),
      builder_(forest_, cache_),
      step_rows_(batch_rows_),
      limit_(model_->parts()) {
  if (options.kv_store && options.strategy != Strategy::kNoAttention) {
    stored_ =
        std::make_unique<StoredKv>(options.kv_store, options.kv_save,
                                   StoredKv::Engine{model_->parts(), forest_, cache_, *memory_.kv});
  }
}

Receipt EngineCore::MakeReceipt() {
  Receipt receipt = receipt_;
  const std::int64_t page_bytes =
      kernels_.KvPageBytes({config_.layers, config_.kv_heads, config_.head_dim});
  receipt.kv_bytes_peak = page_bytes * cache_.peak_pages();
  receipt.kv_bytes_total = page_bytes * cache_.total_pages();
  receipt.kv_bytes_held = page_bytes * (cache_.total_pages() - cache_.available_pages());
  if (stored_) {
    receipt.loaded_tokens = stored_->loaded_tokens();
    receipt.saved_tokens = stored_->saved_tokens();
    receipt.damaged_segments = stored_->damaged();
  }
  const MachineRates& rates = model_->parts().Rates();
  receipt.limit_seconds = limit_.Seconds(rates);
  receipt.decode_limit_seconds = limit_.DecodeSeconds(rates);
  receipt.first_token_median = first_token_.At(0.5);
  receipt.first_token_p99 = first_token_.At(0.99);
  receipt.next_token_median = next_token_.At(0.5);
  receipt.next_token_p99 = next_token_.At(0.99);
  return receipt;
}

}  // namespace banyan
