// cuda_times --decisions: the table of decisions about products that ships for this device
// (src/kernels/cuda/products/decisions), measured for the shapes of known models.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/products/products.h"

namespace banyan::cuda {

struct ModelShape {
  const char* name;
  std::int64_t hidden, heads, kv_heads, head_dim, ffn, vocabulary;
};
// As the shapes of `banyan bench --shape` (src/load/model_shapes.cc), and the model that ships.
constexpr ModelShape kModelShapes[] = {
    {"banyan-reader-34m", 576, 9, 3, 64, 896, 8192},
    {"smollm2-135m", 576, 9, 3, 64, 1536, 49152},
    {"qwen3-0.6b", 1024, 16, 8, 128, 3072, 151936},
    {"qwen3-1.7b", 2048, 16, 8, 128, 6144, 151936},
    {"qwen3-4b", 2560, 32, 8, 128, 9728, 151936},
    {"qwen3-8b", 4096, 32, 8, 128, 12288, 151936},
    {"llama-3.1-8b", 4096, 32, 8, 128, 14336, 128256},
    {"qwen3-14b", 5120, 40, 8, 128, 17408, 151936},
    {"qwen3-32b", 5120, 64, 8, 128, 25600, 151936},
};

class DecisionTimes {
 public:
  DecisionTimes()
      : device_(std::make_shared<Device>()),
        products_(device_, {false, {}, Deciding::kByMeasuring}) {}

  // False: no such model.
  bool Decide(const std::string& model) {
    for (const ModelShape& m : kModelShapes) {
      if (model != m.name) continue;
      const std::int64_t attention = m.heads * m.head_dim;
      DecideProduct(attention + 2 * m.kv_heads * m.head_dim, m.hidden, ProductForm::kFloat32);
      DecideProduct(m.hidden, attention, ProductForm::kAdd);
      DecideProduct(2 * m.ffn, m.hidden, ProductForm::kSwiGlu);
      DecideProduct(m.hidden, m.ffn, ProductForm::kAdd);
      DecideProduct(m.vocabulary, m.hidden, ProductForm::kFloat32);
      const Products::Census& c = products_.census();
      fmt::print(stderr, "{}: {} decisions so far, {:.1f} s\n", m.name, c.decisions, c.seconds);
      return true;
    }
    return false;
  }
  // What the rates of the device are measured by (device_rates.h).
  void DecideRates() { Decide(4096, 4096, ProductForm::kFloat32, {4096}); }

  void Print() const { fmt::print("{}", products_.Table()); }

 private:
  void DecideProduct(std::int64_t outputs, std::int64_t inner, ProductForm form) {
    std::vector<std::int64_t> rows = {4,   8,   16,  32,  64,   96,   128,  192,
                                      256, 384, 512, 768, 1024, 1536, 2048, 4096};
    if (outputs > 32768 && form == ProductForm::kFloat32) rows.resize(13);  // logits of few rows
    Decide(outputs, inner, form, rows);
  }
  void Decide(std::int64_t outputs, std::int64_t inner, ProductForm form,
              const std::vector<std::int64_t>& row_counts) {
    if (!done_.insert({outputs, inner, form}).second) return;
    DeviceMatrix w;
    w.rows = w.padded_rows = outputs;
    w.columns = w.stride = inner;
    w.form = WeightForm::kBF16;
    w.memory = DeviceMemory(device_, outputs * inner * 2, "weights");
    FillRandom(device_->stream, outputs * inner, 7, w.memory.As<__nv_bfloat16>());
    for (const std::int64_t rows : row_counts) products_.Serving(w, rows, form);
  }

  std::shared_ptr<const Device> device_;
  Products products_;
  std::set<std::tuple<std::int64_t, std::int64_t, ProductForm>> done_;
};

}  // namespace banyan::cuda
