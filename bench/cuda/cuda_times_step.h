// What cuda_times --step measures: where the time of a decode step without attention goes, by
// leaving kernels out of a CUDA graph of all layers. A kernel's price there includes what it costs
// its neighbours: gaps, and what it drives out of the caches.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cuda_times_layer.h"
#include "kernels/cuda/choices/choices.h"
#include "kernels/cuda/pages/kv_pages.h"
#include "kernels/cuda/rows/rotate_store.h"

namespace banyan::cuda {

class StepTimes : public LayerTimes {
 public:
  // As many copies of the weights as a model has layers, so that addresses are as far apart.
  StepTimes(bool fast, std::int64_t most_rows)
      : LayerTimes(fast, most_rows, kLayers),
        kv_(device_, {1, kKvHeads, kHeadDim}, static_cast<int>(most_rows), KvType::kF16),
        chooser_(device_) {
    queries_ = Zeros(most_rows * kHidden * 2);
    angles_ = Zeros(most_rows * kHeadDim * 4);
    std::vector<std::int32_t> slots;
    for (std::int64_t r = 0; r < most_rows; ++r) {
      slots.push_back(static_cast<std::int32_t>(r * kPageTokens));
    }
    slots_ = Zeros(most_rows * 4);
    slots_.CopyFromHost(slots.data(), most_rows * 4);
    // Ordinary magnitudes all over: zeros would need less power and run faster.
    FillRandom(device_->stream, most_rows * kHidden * 2, 21, residual_.As<__nv_bfloat16>());
    FillRandom(device_->stream, kHidden * 2, 22, norm_.As<__nv_bfloat16>());
    FillRandom(device_->stream, most_rows * kFfn, 23, inner_.As<__nv_bfloat16>());
    device_->Synchronize();
  }

  void Breakdown(std::int64_t rows) {
    fmt::print("rows {}: microseconds a layer, {} layers in one graph\n", rows, kLayers);
    double alone = 0.0;
    for (const Weights& weights : weights_) {
      if (weights.name != "logits") alone += ProductMicroseconds(weights, rows, Chosen());
    }
    fmt::print("  products, each over and over     {:8.2f}\n", alone);
    Parts parts;
    double before = alone;
    const auto report = [&](const char* name) {
      const double us = StepMicroseconds(rows, parts) / kLayers;
      fmt::print("  {:32} {:8.2f}  {:+.2f}\n", name, us, us - before);
      std::fflush(stdout);
      before = us;
    };
    report("products in their order");
    parts.norms = true;
    report("and norms");
    parts.rotation = true;
    report("and rotation and store");
    Sustained(rows, parts);
    parts.cleared = true;
    report("and zeros for attention");
    FillRandom(device_->stream, rows * kHidden, 24, bf16_.As<__nv_bfloat16>());  // not all alike
    const double logits = ProductMicroseconds(weights_.back(), rows, Chosen());
    fmt::print("  a step: logits {:.1f} us, choice of tokens {:.1f} us\n", logits,
               ChoiceMicroseconds(rows));
    std::fflush(stdout);
  }

 private:
  static constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 128;

  struct Parts {
    bool norms = false, rotation = false, cleared = false;
  };

  void LayerOf(std::int64_t rows, int index, const Parts& parts) {
    const auto attention = [&] {
      if (parts.rotation) Rotate(rows);
      if (!parts.cleared) return;
      Check(cudaMemsetAsync(bf16_.As<void>(), 0, static_cast<size_t>(rows * kHidden * 2),
                            device_->stream),
            "clear");
    };
    Layer(rows, index, Chosen(), {parts.norms, attention});
  }

  void Rotate(std::int64_t rows) {
    RotateCall call;
    call.rows = static_cast<int>(rows);
    call.heads = kHeads;
    call.pairs = kHeadDim / 2;
    call.cosine = angles_.As<float>();
    call.sine = angles_.As<float>();
    call.slots = slots_.As<std::int32_t>();
    call.query_norm = norm_.As<float>();
    call.key_norm = norm_.As<float>();
    call.eps = 1e-6f;
    call.qkv = float32_.As<float>();
    call.stride = kQkv;
    call.kv = kv_.Layer(0);
    call.type = KvType::kF16;
    call.scaled_query = queries_.As<void>();
    RotateAndStoreRows(device_->stream, call);
  }

  double StepMicroseconds(std::int64_t rows, const Parts& parts) {
    return Microseconds(1, [&](int) {
      for (int layer = 0; layer < kLayers; ++layer) LayerOf(rows, layer, parts);
    });
  }

  // The same graph for a second: whether the clock stays.
  void Sustained(std::int64_t rows, const Parts& parts) {
    LaunchGraph graph(*device_, [&] {
      for (int layer = 0; layer < kLayers; ++layer) LayerOf(rows, layer, parts);
    });
    std::string line;
    for (int part = 0; part < 8; ++part) {
      constexpr int kRuns = 20;
      line += fmt::format(" {:.2f}", graph.Seconds(kRuns) * 1e6 / kRuns / kLayers);
    }
    fmt::print("  the same, 8 times 20 steps      {}\n", line);
  }

  double ChoiceMicroseconds(std::int64_t rows) {
    std::vector<SamplingRow> requests(static_cast<size_t>(rows));
    for (size_t i = 0; i < requests.size(); ++i) requests[i].row = static_cast<std::int32_t>(i);
    const DeviceLogits logits{logits_.As<float>(), kVocabulary, static_cast<int>(kVocabulary)};
    constexpr int kRuns = 10;
    double seconds = 0.0;
    for (const bool warm : {false, true}) {  // the first time allocates
      device_->Synchronize();
      std::vector<std::unique_ptr<DeviceChoices>> made;
      Event start, end;
      made.push_back(chooser_.Begin(logits, requests));  // the host is a call ahead of the device
      start.Record(device_->stream);
      for (int run = 0; run < kRuns; ++run) made.push_back(chooser_.Begin(logits, requests));
      end.Record(device_->stream);
      if (warm) seconds = end.SecondsSince(start);
    }
    return seconds * 1e6 / kRuns;
  }

  KvPages kv_;
  TokenChooser chooser_;
  DeviceMemory queries_, angles_, slots_;
};

}  // namespace banyan::cuda
