// cuda_times: microseconds of each matrix product and row kernel of a decoder layer on this GPU,
// beside what bytes and operations allow. A tool for whoever works on these kernels; not part of
// the library, prints to stdout.
//
// Each figure is the mean over a CUDA graph of launches that go round enough copies of the weights
// to leave none of them in the L2 cache; activations stay there, as in a forward pass.
//   cuda_times [--fast] [--sweep] [ROWS...]
//   cuda_times --check      compares our kernels for few rows with the plain chain on ugly shapes
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/row_kernels.h"

namespace banyan::cuda {
namespace {

constexpr double kBytesPerSecond = 4.8e12, kFlops = 800e12;  // what the limits are reckoned with
constexpr std::int64_t kHidden = 4096, kQkv = 6144, kFfn = 12288, kVocabulary = 151936;
constexpr int kLayers = 36, kLayerCopies = 3;

struct Weights {
  std::string name;
  ProductForm form;
  std::vector<DeviceMatrix> copies;
};

class Times {
 public:
  Times(bool fast, std::int64_t most_rows)
      : device_(std::make_shared<Device>()), products_(device_, {fast, {}}) {
    Add("qkv", kQkv, kHidden, ProductForm::kWide, kLayerCopies);
    Add("o", kHidden, kHidden, ProductForm::kAdd, kLayerCopies);
    Add("gate_up", 2 * kFfn, kHidden, ProductForm::kNarrow, kLayerCopies);
    Add("down", kHidden, kFfn, ProductForm::kAdd, kLayerCopies);
    Add("logits", kVocabulary, kHidden, ProductForm::kWide, 1);
    residual_ = Zeros(most_rows * kHidden * 4);
    narrow_ = Zeros(most_rows * kFfn * 2);
    inner_ = Zeros(most_rows * kFfn * 2);
    wide_ = Zeros(most_rows * 2 * kFfn * 4);
    logits_ = Zeros(std::min<std::int64_t>(most_rows, 1024) * kVocabulary * 4);
    norm_ = Zeros(kHidden * 4);
    FillRandom(device_->stream, most_rows * kFfn, 3, narrow_.As<__nv_bfloat16>());
  }

  void Report(std::int64_t rows) {
    fmt::print("rows {}\n", rows);
    double products = 0.0;
    for (const Weights& weights : weights_) {
      if (weights.name == "logits" && rows > 1024) continue;
      const double us = ProductMicroseconds(weights, rows);
      products += us * (weights.name == "logits" ? 1 : kLayers);
      const DeviceMatrix& w = weights.copies.front();
      PrintLine(weights.name, us, ProductBytes(weights, rows), ProductFlops(w, rows),
                products_.Serving(w, rows, weights.form));
    }
    for (const auto& [name, bytes, launch] : RowKernels(rows)) {
      const double us = Microseconds(20, [&](int) { launch(); });
      PrintLine(name, us, bytes, 0.0, "");
    }
    const double layer = Microseconds(kLayerCopies * 4, [&](int i) { Layer(rows, i); });
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
      line += fmt::format("  {:8.1f}", ProductMicroseconds(weights, rows));
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  const Device& device() const { return *device_; }

 private:
  struct RowKernel {
    std::string name;
    double bytes;
    std::function<void()> launch;
  };

  DeviceMemory Zeros(std::int64_t bytes) {
    DeviceMemory memory(device_, bytes, "a measurement");
    memory.Zero();
    return memory;
  }

  void Add(const char* name, std::int64_t outputs, std::int64_t inner, ProductForm form,
           int copies) {
    Weights weights{name, form, {}};
    for (int i = 0; i < copies; ++i) {
      DeviceMatrix w;
      w.rows = w.padded_rows = outputs;
      w.columns = w.stride = inner;
      w.form = WeightForm::kBF16;
      w.memory = DeviceMemory(device_, outputs * inner * 2, "weights");
      FillRandom(device_->stream, outputs * inner, static_cast<std::uint32_t>(7 + i),
                 w.memory.As<__nv_bfloat16>());
      weights.copies.push_back(std::move(w));
    }
    weights_.push_back(std::move(weights));
  }

  static double ProductBytes(const Weights& weights, std::int64_t rows) {
    const DeviceMatrix& w = weights.copies.front();
    const double out = static_cast<double>(ElementBytes(weights.form)) *
                       (weights.form == ProductForm::kAdd ? 2.0 : 1.0);
    return 2.0 * static_cast<double>(w.padded_rows * w.stride) +
           static_cast<double>(rows) *
               (2.0 * static_cast<double>(w.stride) + out * static_cast<double>(w.padded_rows));
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
    return weights.form == ProductForm::kAdd ? residual_.As<void>() : wide_.As<void>();
  }

  double ProductMicroseconds(const Weights& weights, std::int64_t rows) {
    const int copies = static_cast<int>(weights.copies.size());
    return Microseconds(4 * copies, [&](int i) {
      products_.Multiply(narrow_.As<__nv_bfloat16>(), rows,
                         weights.copies[static_cast<size_t>(i % copies)],
                         {weights.form, OutOf(weights), nullptr});
    });
  }

  std::vector<RowKernel> RowKernels(std::int64_t rows) {
    const auto r = static_cast<double>(rows);
    const RowRange hidden{rows, kHidden, kHidden}, ffn{rows, kFfn, kFfn};
    const cudaStream_t s = device_->stream;
    return {
        {"norm", r * kHidden * 6.0,
         [=, this] {
           RmsNormRows(s, residual_.As<float>(), norm_.As<float>(), 1e-6f, hidden,
                       {nullptr, inner_.As<__nv_bfloat16>()});
         }},
        {"swiglu", r * kFfn * 6.0,
         [=, this] {
           SwiGluRows(s, wide_.As<__nv_bfloat16>(), 2 * kFfn, ffn, inner_.As<__nv_bfloat16>());
         }},
        {"add", r * kHidden * 12.0,
         [=, this] { AddRows(s, wide_.As<float>(), nullptr, hidden, residual_.As<float>()); }},
        {"narrow", r * kHidden * 6.0,
         [=, this] { NarrowRows(s, wide_.As<float>(), hidden, inner_.As<__nv_bfloat16>()); }},
    };
  }

  // Everything of a layer but rotation and attention.
  void Layer(std::int64_t rows, int index) {
    const cudaStream_t s = device_->stream;
    const RowRange hidden{rows, kHidden, kHidden}, ffn{rows, kFfn, kFfn};
    auto* x = residual_.As<float>();
    auto* normed = inner_.As<__nv_bfloat16>();
    const auto multiply = [&](size_t which, const __nv_bfloat16* from, void* out) {
      const Weights& weights = weights_[which];
      products_.Multiply(from, rows, weights.copies[static_cast<size_t>(index) % kLayerCopies],
                         {weights.form, out, nullptr});
    };
    RmsNormRows(s, x, norm_.As<float>(), 1e-6f, hidden, {nullptr, normed});
    multiply(0, normed, wide_.As<void>());
    multiply(1, narrow_.As<__nv_bfloat16>(), x);
    RmsNormRows(s, x, norm_.As<float>(), 1e-6f, hidden, {nullptr, normed});
    multiply(2, normed, wide_.As<void>());
    SwiGluRows(s, wide_.As<__nv_bfloat16>(), 2 * kFfn, ffn, inner_.As<__nv_bfloat16>());
    multiply(3, inner_.As<__nv_bfloat16>(), x);
  }

  // Mean over a graph of `count` calls of body(i), best of four runs of the graph.
  double Microseconds(int count, const std::function<void(int)>& body) {
    body(0);  // decides and allocates
    device_->Synchronize();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    Check(cudaStreamBeginCapture(device_->stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < count; ++i) body(i);
    Check(cudaStreamEndCapture(device_->stream, &graph), "capture");
    Check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    Event start, end;
    double best = 1e30;
    for (int run = 0; run < 5; ++run) {
      start.Record(device_->stream);
      Check(cudaGraphLaunch(ready, device_->stream), "graph");
      end.Record(device_->stream);
      const double seconds = end.SecondsSince(start);
      if (run > 0) best = std::min(best, seconds);
    }
    Check(cudaGraphExecDestroy(ready), "graph");
    Check(cudaGraphDestroy(graph), "graph");
    return best * 1e6 / count;
  }

  std::shared_ptr<const Device> device_;
  Products products_;
  std::vector<Weights> weights_;
  DeviceMemory residual_, narrow_, inner_, wide_, logits_, norm_;
};

// The number of products whose bits differ.
int CheckFewRows() {
  const auto device = std::make_shared<Device>();
  int checked = 0, wrong = 0;
  for (const auto& [outputs, inner] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {16, 16}, {48, 272}, {512, 1040}, {1024, 12288}, {4096, 4096}, {6160, 4112}}) {
    DeviceMatrix w;
    w.rows = w.padded_rows = outputs;
    w.columns = w.stride = inner;
    w.memory = DeviceMemory(device, outputs * inner * 2, "weights");
    FillRandom(device->stream, outputs * inner, 5, w.memory.As<__nv_bfloat16>());
    for (const auto form :
         {ProductForm::kWide, ProductForm::kAdd, ProductForm::kBias, ProductForm::kNarrow}) {
      ProductTrial trial(device, w, form, kMostFewRows);
      for (std::int64_t rows = 1; rows <= kMostFewRows; ++rows) {
        for (const auto variant : {FewRowsVariant::kNarrowTiles, FewRowsVariant::kWideTiles}) {
          if (variant == FewRowsVariant::kNarrowTiles && rows > 8) continue;
          ++checked;
          const bool same = trial.HasOurBits(
              [&](const ProductOperands& operands) {
                MultiplyFewRows(device->stream, operands, variant);
                return true;
              },
              rows);
          if (same) continue;
          ++wrong;
          fmt::print("differs: {} x {}, {} rows, form {}, variant {}\n", outputs, inner, rows,
                     static_cast<int>(form), static_cast<int>(variant));
        }
      }
    }
  }
  fmt::print("few rows: {} products compared, {} differ\n", checked, wrong);
  return wrong;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--check") == 0) return CheckFewRows() == 0 ? 0 : 1;
  bool fast = false, sweep = false;
  std::vector<std::int64_t> rows;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--fast") == 0) {
      fast = true;
    } else if (std::strcmp(argv[i], "--sweep") == 0) {
      sweep = true;
    } else {
      rows.push_back(std::max(1L, std::min(4096L, std::strtol(argv[i], nullptr, 10))));
    }
  }
  if (rows.empty()) rows = {1, 16, 64, 256, 1024};
  Times times(fast, *std::max_element(rows.begin(), rows.end()));
  fmt::print("{}, qwen3-8b shape, limits at {:.1f} TB/s and {:.0f} TFLOP/s{}\n",
             times.device().name, kBytesPerSecond * 1e-12, kFlops * 1e-12, fast ? ", --fast" : "");
  if (sweep) fmt::print(" rows       qkv         o   gate_up      down  (us)\n");
  for (const std::int64_t count : rows) {
    if (sweep) {
      times.Sweep(count);
    } else {
      times.Report(count);
    }
  }
  return 0;
}

}  // namespace
}  // namespace banyan::cuda

int main(int argc, char** argv) {
  try {
    return banyan::cuda::Main(argc, argv);
  } catch (const banyan::Error& error) {
    fmt::print(stderr, "cuda_times: {}\n", error.what());
    return 1;
  }
}
