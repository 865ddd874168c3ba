// cuda_times: microseconds of each matrix product and row kernel of a decoder layer on this GPU,
// beside what bytes and operations allow. A tool for whoever works on these kernels; not part of
// the library, prints to stdout.
//
// Each figure is the mean over a CUDA graph of launches that go round enough copies of the weights
// to leave none of them in the L2 cache; activations stay there, as in a forward pass.
//   cuda_times [--fast] [--sweep | --step | --sustained] [ROWS...]
//   cuda_times --coded [ROWS...]      the products in 8 bits, by every kernel and tile
//   cuda_times --compact [ROWS...]    the products with quantised weights kept as stored, by type
//   cuda_times --experts [ROWS...]    the experts of a layer of the qwen3-30b-a3b shape
//   cuda_times --states     a layer that keeps a state, of three models
//   cuda_times --decisions MODEL... > FILE      the table of decisions about products that ships
//                           for this device; without a model those of all that it knows
//   cuda_times --check      compares our kernels for few and for many rows with the plain chain on
//                           ugly shapes
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda_times_experts.h"
#include "cuda_times_layer.h"
#include "cuda_times_products.h"
#include "cuda_times_states.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_trial.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kMostStepRows = 1024;  // with logits

// The number of products whose bits differ, in this and the next.
int CheckManyRows() {
  const auto device = std::make_shared<Device>();
  int checked = 0, wrong = 0;
  for (const auto& [gated, inner] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 64},
                                                          {96, 192},
                                                          {104, 256},
                                                          {200, 320},
                                                          {1000, 1088},
                                                          {3072, 1024},
                                                          {9728, 2560},
                                                          {12288, 4096}}) {
    const DeviceMatrix w = RandomBf16(device, 2 * gated, inner, 5);
    const std::int64_t most = gated > 4000 ? 900 : 5000;  // several tiles for a block either way
    ProductTrial trial(device, w, ProductForm::kSwiGlu, most);
    for (const std::int64_t rows : {1L, 63L, 64L, 129L, 192L, 255L, 256L, 257L, 600L, 900L, most}) {
      for (const bool fresh : {false, true}) {
        if (!ManyRowsCanServe(trial.OperandsFor(rows))) continue;
        ++checked;
        const bool same = trial.HasOurBits(
            [&](ProductOperands operands) {
              operands.w_is_fresh = fresh;
              MultiplyManyRows(device->stream, operands);
              return true;
            },
            rows);
        if (same) continue;
        ++wrong;
        fmt::print("differs: SwiGLU {} x {}, {} rows\n", gated, inner, rows);
      }
    }
  }
  fmt::print("many rows: {} products compared, {} differ\n", checked, wrong);
  return wrong;
}

int CheckFewRows() {
  const auto device = std::make_shared<Device>();
  int checked = 0, wrong = 0;
  for (const auto& [outputs, inner] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{16, 64},
                                                          {48, 272},
                                                          {48, 320},
                                                          {512, 1088},
                                                          {1024, 12288},
                                                          {4096, 4096},
                                                          {6160, 4112},
                                                          {6160, 4160}}) {
    const DeviceMatrix w = RandomBf16(device, outputs, inner, 5);
    for (const auto form :
         {ProductForm::kFloat32, ProductForm::kAdd, ProductForm::kBias, ProductForm::kBf16}) {
      ProductTrial trial(device, w, form, kMostFewRows);
      for (std::int64_t rows = 1; rows <= kMostFewRows; ++rows) {
        for (const RingSize ring : kRingSizes) {
          if (!FewRowsCanServe(trial.OperandsFor(rows).shape)) continue;
          ++checked;
          const bool same = trial.HasOurBits(
              [&](const ProductOperands& operands) {
                MultiplyFewRows(device->stream, operands, ring);
                return true;
              },
              rows);
          if (same) continue;
          ++wrong;
          fmt::print("differs: {} x {}, {} rows, form {}, ring {}\n", outputs, inner, rows,
                     static_cast<int>(form), static_cast<int>(ring));
        }
      }
    }
  }
  fmt::print("few rows: {} products compared, {} differ\n", checked, wrong);
  return wrong;
}

int PrintDecisions(std::vector<std::string> models) {
  if (models.empty()) {
    for (const ModelShape& model : kModelShapes) models.push_back(model.name);
  }
  DecisionTimes times;
  for (const std::string& model : models) {
    if (times.Decide(model)) continue;
    fmt::print(stderr, "cuda_times: no shape of the name {}\n", model);
    return 1;
  }
  times.DecideRates();
  times.Print();
  return 0;
}

int Main(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "--decisions") == 0) {
    return PrintDecisions({argv + 2, argv + argc});
  }
  if (argc == 2 && std::strcmp(argv[1], "--check") == 0) {
    const int wrong = CheckManyRows() + CheckFewRows();
    return wrong == 0 ? 0 : 1;
  }
  if (argc == 2 && std::strcmp(argv[1], "--states") == 0) {
    ReportStateTimes();
    return 0;
  }
  bool fast = false, sweep = false, step = false, sustained = false, coded = false, experts = false;
  bool compact = false;
  std::vector<std::int64_t> rows;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--fast") == 0) {
      fast = true;
    } else if (std::strcmp(argv[i], "--sweep") == 0) {
      sweep = true;
    } else if (std::strcmp(argv[i], "--coded") == 0) {
      coded = true;
    } else if (std::strcmp(argv[i], "--compact") == 0) {
      compact = true;
    } else if (std::strcmp(argv[i], "--experts") == 0) {
      experts = true;
    } else if (std::strcmp(argv[i], "--step") == 0) {
      step = true;
    } else if (std::strcmp(argv[i], "--sustained") == 0) {
      sustained = true;
    } else {
      rows.push_back(std::max(1L, std::min(4096L, std::strtol(argv[i], nullptr, 10))));
    }
  }
  if (compact) {
    QuantisedTimes(rows.empty() ? std::vector<std::int64_t>{1, 8, 32} : rows).Report();
    return 0;
  }
  if (rows.empty()) rows = {1, 16, 64, 256, 1024};
  if (coded) {
    Int8Times times(*std::max_element(rows.begin(), rows.end()));
    for (const std::int64_t count : rows) times.Report(count);
    return 0;
  }
  if (experts) {
    ExpertTimes times(*std::max_element(rows.begin(), rows.end()));
    times.Report("bf16", {}, rows);
    times.Report("int8", {true}, rows);
    times.Report("q8_0", {false, QuantisedForm::kQ8_0}, rows);
    times.Report("q4_k", {false, QuantisedForm::kQ4_K}, rows);
    times.Report("mxfp4", {false, QuantisedForm::kMXFP4}, rows);
    return 0;
  }
  if (step) {
    StepTimes times(fast, std::min(*std::max_element(rows.begin(), rows.end()), kMostStepRows));
    for (const std::int64_t count : rows) times.Breakdown(std::min(count, kMostStepRows));
    return 0;
  }
  LayerTimes times(fast, *std::max_element(rows.begin(), rows.end()));
  fmt::print("{}, qwen3-8b shape, limits at {:.1f} TB/s and {:.0f} TFLOP/s{}\n",
             times.device().name, kBytesPerSecond * 1e-12, kFlops * 1e-12, fast ? ", --fast" : "");
  if (sweep) fmt::print(" rows       qkv         o   gate_up      down  (us)\n");
  for (const std::int64_t count : rows) {
    if (sustained) {
      times.OverTime(count);
    } else if (sweep) {
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
