// What cuda_times measures by default and with --step: the products and row kernels of a decoder
// layer of the qwen3-8b shape, and where the time of a decode step without attention goes.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda_times_fixture.h"
#include "kernels/cuda/choices/choices.h"
#include "kernels/cuda/device/timing.h"
#include "kernels/cuda/pages/kv_pages.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/rows/rope_store.h"
#include "kernels/cuda/rows/row_kernels.h"

namespace banyan::cuda {

constexpr std::int64_t kHidden = 4096, kQkv = 6144, kFfn = 12288, kVocabulary = 151936;
constexpr int kLayers = 36, kLeastCopies = 3;

struct Weights {
  std::string name;
  ProductForm form;
  std::vector<DeviceMatrix> copies;
};

class LayerTimes : protected TimedDevice {
 public:
  LayerTimes(bool fast, std::int64_t most_rows, int copies = kLeastCopies)
      : products_(device_, {fast, {}, Deciding::kByMeasuring}), copies_(copies) {
    Add("qkv", kQkv, kHidden, ProductForm::kFloat32, copies);
    Add("o", kHidden, kHidden, ProductForm::kAdd, copies);
    Add("gate_up", 2 * kFfn, kHidden, ProductForm::kSwiGlu, copies);
    Add("down", kHidden, kFfn, ProductForm::kAdd, copies);
    Add("logits", kVocabulary, kHidden, ProductForm::kFloat32, 1);
    residual_ = Zeros(most_rows * kHidden * 4);
    bf16_ = Zeros(most_rows * kFfn * 2);
    inner_ = Zeros(most_rows * kFfn * 2);
    gated_ = Zeros(most_rows * kFfn * 2);
    float32_ = Zeros(most_rows * 2 * kFfn * 4);
    logits_ = Zeros(std::min<std::int64_t>(most_rows, 1024) * kVocabulary * 4);
    norm_ = Zeros(kHidden * 4);
    FillRandom(device_->stream, most_rows * kFfn, 3, bf16_.As<__nv_bfloat16>());
  }

  void Report(std::int64_t rows) {
    fmt::print("rows {}\n", rows);
    double products = 0.0;
    for (const Weights& weights : weights_) {
      if (weights.name == "logits" && rows > 1024) continue;
      const double us = ProductMicroseconds(weights, rows, Chosen());
      products += us * (weights.name == "logits" ? 1 : kLayers);
      const DeviceMatrix& w = weights.copies.front();
      PrintLine(weights.name, us, ProductBytes(weights, rows), ProductFlops(w, rows),
                products_.Serving(w, rows, weights.form));
    }
    if (rows <= kMostFewRows) ReportFewRows(rows);
    for (const auto& [name, bytes, launch] : RowKernels(rows)) {
      const double us = Microseconds(20, [&](int) { launch(); });
      PrintLine(name, us, bytes, 0.0, "");
    }
    const double layer = LayerMicroseconds(rows, Chosen());
    fmt::print(
        "  products of {} layers and logits {:.3f} ms; layer without attention {:.1f} us, "
        "{} of them {:.3f} ms\n",
        kLayers, products * 1e-3, layer, kLayers, layer * kLayers * 1e-3);
    const Products::Census& c = products_.census();
    fmt::print("  decisions {}, ways timed {}, compared {}, admitted {}, plain {}, {:.2f} s\n\n",
               c.decisions, c.candidates, c.compared, c.admitted, c.plain, c.seconds);
    std::fflush(stdout);
  }

  // Only the products, in microseconds, one line a row count.
  void Sweep(std::int64_t rows) {
    std::string line = fmt::format("{:5}", rows);
    for (const Weights& weights : weights_) {
      if (weights.name == "logits") continue;
      line += fmt::format("  {:8.1f}", ProductMicroseconds(weights, rows, Chosen()));
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  // The products in a burst, and over a quarter of a second after another eighth: what they take
  // when the clock has come down to what power allows.
  void OverTime(std::int64_t rows) {
    fmt::print("rows {}: microseconds in a burst and over time\n", rows);
    for (const Weights& weights : weights_) {
      if (weights.name == "logits") continue;
      const double burst = ProductMicroseconds(weights, rows, Chosen());
      constexpr int kCount = 48, kLaunches = 4;
      LaunchGraph graph(*device_, [&] {
        for (int i = 0; i < kCount; ++i) MultiplyCopy(weights, rows, i, Chosen());
      });
      for (double seconds = 0.0; seconds < 0.125;) seconds += graph.Seconds(kLaunches);
      double seconds = 0.0;
      int launches = 0;
      for (; seconds < 0.25; launches += kLaunches) seconds += graph.Seconds(kLaunches);
      fmt::print("  {:10} {:9.1f} {:9.1f}\n", weights.name, burst,
                 seconds * 1e6 / (launches * kCount));
    }
    std::fflush(stdout);
  }

  const Device& device() const { return *device_; }

 protected:
  // Runs a product of `rows` rows.
  using Candidate = std::function<void(const __nv_bfloat16* x, std::int64_t rows,
                                       const DeviceMatrix& w, const Products::Target& target)>;
  Candidate Chosen() {
    return [this](const auto* x, std::int64_t rows, const DeviceMatrix& w,
                  const Products::Target& target) { products_.Multiply(x, rows, w, target); };
  }
  Candidate FewRows(RingSize ring) {
    return [this, ring](const auto* x, std::int64_t rows, const DeviceMatrix& w,
                        const Products::Target& target) {
      ProductOperands operands = OperandsOf(x, rows, w, target.form);
      operands.out = target.out;
      operands.bias = target.bias;
      operands.scratch = target.scratch;
      if (target.form != ProductForm::kSwiGlu) {
        return MultiplyFewRows(device_->stream, operands, ring);
      }
      MultiplyFewRows(device_->stream, GateAndUp(operands), ring);
      ApplySwiGlu(device_->stream, operands);
    };
  }

  // Our kernel for few rows, chosen or not, and the time that the bytes of the weights take alone.
  void ReportFewRows(std::int64_t rows) {
    for (const RingSize ring : kRingSizes) {
      if (!FewRowsCanServe({rows, kHidden, kHidden, kHidden})) continue;
      std::string line = fmt::format("few rows, {}:", kRingNames[static_cast<int>(ring)]);
      for (const Weights& weights : weights_) {
        line += fmt::format("  {} {:.2f}", weights.name,
                            ProductMicroseconds(weights, rows, FewRows(ring)));
      }
      fmt::print("  {}  layer {:.2f} us\n", line, LayerMicroseconds(rows, FewRows(ring)));
    }
    std::string line = "reading alone: ";
    for (const Weights& weights : weights_) {
      const size_t copies = weights.copies.size();
      const double us = Microseconds(copies == 1 ? 4 : 24, [&](int i) {
        const DeviceMemory& w = weights.copies[static_cast<size_t>(i) % copies].memory;
        ReadThrough(device_->stream, w.As<void>(), w.bytes());
      });
      line += fmt::format("  {} {:.2f}", weights.name, us);
    }
    fmt::print("  {} us\n", line);
  }

  struct RowKernel {
    std::string name;
    double bytes;
    std::function<void()> launch;
  };

  void Add(const char* name, std::int64_t outputs, std::int64_t inner, ProductForm form,
           int copies) {
    Weights weights{name, form, {}};
    for (int i = 0; i < copies; ++i) {
      weights.copies.push_back(
          RandomBf16(device_, outputs, inner, static_cast<std::uint32_t>(7 + i)));
    }
    weights_.push_back(std::move(weights));
  }

  static double ProductBytes(const Weights& weights, std::int64_t rows) {
    const DeviceMatrix& w = weights.copies.front();
    const double out = static_cast<double>(ElementBytes(weights.form)) *
                       (weights.form == ProductForm::kAdd ? 2.0 : 1.0);
    return 2.0 * static_cast<double>(w.padded_rows * w.stride) +
           static_cast<double>(rows) * (2.0 * static_cast<double>(w.stride) +
                                        out * static_cast<double>(OutputStride(w, weights.form)));
  }
  static double ProductFlops(const DeviceMatrix& w, std::int64_t rows) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(w.padded_rows * w.stride);
  }

  static void PrintLine(const std::string& name, double us, double bytes, double flops,
                        const std::string& note) {
    const double limit = std::max(bytes / kBytesPerSecond, flops / kFlops) * 1e6;
    fmt::print("  {:10} {:9.2f} us  limit {:8.2f}  {:4.0f} %  {:5.2f} TB/s  {:5.0f} TFLOP/s  {}\n",
               name, us, limit, 100.0 * limit / us, bytes / us * 1e-6, flops / us * 1e-6, note);
  }

  void* OutOf(const Weights& weights) {
    if (weights.name == "logits") return logits_.As<void>();
    if (weights.form == ProductForm::kSwiGlu) return gated_.As<void>();
    return weights.form == ProductForm::kAdd ? residual_.As<void>() : float32_.As<void>();
  }

  // The product with the next copy of its weights.
  void MultiplyCopy(const Weights& weights, std::int64_t rows, int turn,
                    const Candidate& candidate) {
    candidate(bf16_.As<__nv_bfloat16>(), rows,
              weights.copies[static_cast<size_t>(turn) % weights.copies.size()],
              {weights.form, OutOf(weights), nullptr, float32_.As<__nv_bfloat16>()});
  }
  double ProductMicroseconds(const Weights& weights, std::int64_t rows,
                             const Candidate& candidate) {
    return Microseconds(weights.copies.size() == 1 ? 4 : 24,
                        [&](int i) { MultiplyCopy(weights, rows, i, candidate); });
  }

  std::vector<RowKernel> RowKernels(std::int64_t rows) {
    const auto r = static_cast<double>(rows);
    const RowLayout hidden{rows, kHidden, kHidden}, ffn{rows, kFfn, kFfn};
    const cudaStream_t s = device_->stream;
    return {
        {"norm", r * kHidden * 6.0,
         [=, this] {
           RmsNormRows(s, residual_.As<float>(), norm_.As<float>(), 1e-6f, hidden,
                       {nullptr, inner_.As<__nv_bfloat16>()});
         }},
        {"swiglu", r * kFfn * 6.0,
         [=, this] {
           SwiGluRows(s, float32_.As<__nv_bfloat16>(), 2 * kFfn, ffn, inner_.As<__nv_bfloat16>());
         }},
        {"add", r * kHidden * 12.0,
         [=, this] { AddRows(s, float32_.As<float>(), nullptr, hidden, residual_.As<float>()); }},
        {"to bf16", r * kHidden * 6.0,
         [=, this] { RowsToBf16(s, float32_.As<float>(), hidden, inner_.As<__nv_bfloat16>()); }},
    };
  }

  double LayerMicroseconds(std::int64_t rows, const Candidate& candidate) {
    return Microseconds(copies_ * 4, [&](int i) { Layer(rows, i, candidate, {}); });
  }

  // Row kernels beside a layer's products, and what else comes before the output product.
  struct Between {
    bool norms = true;
    std::function<void()> attention = [] {};
  };

  // Everything of a layer, attention as given.
  void Layer(std::int64_t rows, int index, const Candidate& candidate, const Between& between) {
    const cudaStream_t s = device_->stream;
    const RowLayout hidden{rows, kHidden, kHidden};
    auto* x = residual_.As<float>();
    auto* normed = inner_.As<__nv_bfloat16>();
    const auto multiply = [&](size_t which, const __nv_bfloat16* from, void* out) {
      const Weights& weights = weights_[which];
      candidate(from, rows,
                weights.copies[static_cast<size_t>(index) % static_cast<size_t>(copies_)],
                {weights.form, out, nullptr, float32_.As<__nv_bfloat16>()});
    };
    const auto norm = [&] {
      if (!between.norms) return;
      RmsNormRows(s, x, norm_.As<float>(), 1e-6f, hidden, {nullptr, normed});
    };
    norm();
    multiply(0, normed, float32_.As<void>());
    between.attention();
    multiply(1, bf16_.As<__nv_bfloat16>(), x);
    norm();
    multiply(2, normed, gated_.As<void>());
    multiply(3, gated_.As<__nv_bfloat16>(), x);
  }

  Products products_;
  int copies_;  // of each product's weights but the logits'
  std::vector<Weights> weights_;
  DeviceMemory residual_, bf16_, inner_, gated_, float32_, logits_, norm_;
};

// cuda_times --step: where the time of a decode step without attention goes, by leaving kernels out
// of a CUDA graph of all layers. A kernel's price there includes what it costs its neighbours:
// gaps, and what it drives out of the caches.
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
