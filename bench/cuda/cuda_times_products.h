// What cuda_times measures of products alone: quantised weights (--compact), 8 bits (--coded), and
// the table of decisions that ships (--decisions).
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_times_fixture.h"
#include "cuda_times_layer.h"
#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/products/quantised_products.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

// cuda_times --compact: the products of a decoder layer with weights that stay
// quantised, form by form, beside those with bf16 weights and what the stored bytes allow; of the
// qwen3-30b-a3b shape (without its experts: --experts) and of qwen3-8b.
class QuantisedTimes : TimedDevice {
 public:
  explicit QuantisedTimes(std::vector<std::int64_t> rows)
      : rows_(std::move(rows)),
        products_(device_, {false, {}, Deciding::kByMeasuring}),
        quantised_(device_, products_) {
    const std::int64_t most = *std::max_element(rows_.begin(), rows_.end());
    x_ = RandomRows(most * 12288, 3);
    scratch_ = RandomRows(most * 24576, 4);
    out_ = DeviceMemory(device_, most * 151936 * 4, "a measurement");
    Check(cudaMemsetAsync(out_.As<void>(), 0, static_cast<size_t>(out_.bytes()), device_->stream),
          "output");
  }

  void Report() {
    const Product products[] = {{"a3b qkv", 5120, 2048, ProductForm::kFloat32},
                                {"a3b output", 2048, 4096, ProductForm::kAdd},
                                {"a3b logits", 151936, 2048, ProductForm::kFloat32},
                                {"8b qkv", 6144, 4096, ProductForm::kFloat32},
                                {"8b output", 4096, 4096, ProductForm::kAdd},
                                {"8b gate, up", 24576, 4096, ProductForm::kSwiGlu},
                                {"8b down", 4096, 12288, ProductForm::kAdd},
                                {"8b logits", 151936, 4096, ProductForm::kFloat32}};
    std::string head = fmt::format("{:12} {:>7}", "us (limit)", "");
    for (const std::int64_t rows : rows_) {
      head += fmt::format("  {:>14}", fmt::format("{} rows", rows));
    }
    fmt::print("{}\n", head);
    for (const Product& product : products) {
      ReportForm(product, "bf16", std::nullopt);
      ReportForm(product, "q8_0", QuantisedForm::kQ8_0);
      ReportForm(product, "q6_k", QuantisedForm::kQ6_K);
      ReportForm(product, "q5_k", QuantisedForm::kQ5_K);
      ReportForm(product, "q4_k", QuantisedForm::kQ4_K);
      ReportForm(product, "q4_0", QuantisedForm::kQ4_0);
      ReportForm(product, "mxfp4", QuantisedForm::kMXFP4);
    }
  }

 private:
  struct Product {
    const char* name;
    std::int64_t outputs, inner;
    ProductForm form;
  };

  void ReportForm(const Product& product, const char* name, std::optional<QuantisedForm> form) {
    const double bytes =
        static_cast<double>(product.outputs * product.inner) * (form ? BitsOf(*form) : 16.0) / 8;
    // More than the cache holds.
    const int copies = std::clamp(static_cast<int>(160e6 / bytes) + 1, 1, 20);
    std::vector<std::shared_ptr<DeviceMatrix>> weights;
    for (int i = 0; i < copies; ++i) {
      const auto seed = static_cast<std::uint32_t>(i + 7);
      weights.push_back(form ? RandomQuantised(*form, product.outputs, product.inner, seed)
                             : MakeRandomMatrix(device_,
                                                {product.outputs, product.inner, seed, 0.02f},
                                                WeightForm::kBF16));
    }
    std::string line = fmt::format("{:12} {:>7}", product.name, name);
    for (const std::int64_t rows : rows_) {
      const double us = Microseconds(20, [&](int i) {
        const DeviceMatrix& w = *weights[static_cast<size_t>(i % copies)];
        const Products::Target target{product.form, out_.As<void>(), nullptr,
                                      scratch_.As<__nv_bfloat16>()};
        const auto* x = x_.As<__nv_bfloat16>();
        form ? quantised_.Multiply(x, rows, w, target) : products_.Multiply(x, rows, w, target);
      });
      const double limit =
          std::max(bytes / kBytesPerSecond, 2.0 * static_cast<double>(rows) *
                                                static_cast<double>(product.outputs) *
                                                static_cast<double>(product.inner) / kFlops);
      line += fmt::format("  {:6.1f} ({:5.1f})", us, limit * 1e6);
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  std::vector<std::int64_t> rows_;
  Products products_;
  QuantisedProducts quantised_;
  DeviceMemory x_, scratch_, out_;
};

// cuda_times --coded: the products of a decoder layer of the qwen3-8b shape in 8
// bits, by every kernel and tile that can serve, beside what serves; and the row kernels that make
// codes.
class Int8Times : TimedDevice {
 public:
  explicit Int8Times(std::int64_t most_rows) {
    Add("qkv", kQkv, kHidden, ProductForm::kFloat32);
    Add("o", kHidden, kHidden, ProductForm::kAdd);
    Add("gate_up", 2 * kFfn, kHidden, ProductForm::kSwiGlu);
    Add("down", kHidden, kFfn, ProductForm::kAdd);
    bf16_ = DeviceMemory(device_, most_rows * 2 * kFfn * 2, "a measurement");
    FillRandom(device_->stream, most_rows * 2 * kFfn, 3, bf16_.As<__nv_bfloat16>());
    for (DeviceMemory* memory : {&x_, &codes_}) {
      *memory = DeviceMemory(device_, most_rows * (kFfn + 4), "a measurement");
    }
    out_ = DeviceMemory(device_, most_rows * kQkv * 4, "a measurement");
    FillRandom(device_->stream, most_rows * kQkv * 2, 4, out_.As<__nv_bfloat16>());
    gated_ = DeviceMemory(device_, most_rows * kFfn * 2, "a measurement");
    residual_ = DeviceMemory(device_, most_rows * kHidden * 4, "a measurement");
    FillRandom(device_->stream, most_rows * kHidden * 2, 5, residual_.As<__nv_bfloat16>());
    norm_ = DeviceMemory(device_, kHidden * 4, "a measurement");
    FillRandom(device_->stream, kHidden * 2, 6, norm_.As<__nv_bfloat16>());
  }

  void Report(std::int64_t rows) {
    fmt::print("rows {}\n", rows);
    double all = 0.0;
    for (const Int8Weights& weights : weights_) {
      const Int8Rows x = CodesOf(x_, rows, weights.copies[0]->columns);
      QuantizeRows(device_->stream, bf16_.As<__nv_bfloat16>(),
                   {rows, weights.copies[0]->columns, weights.copies[0]->columns},
                   CodeReader::kWaits, x);
      const double chosen = Chosen(weights, rows, x);
      all += chosen;
      const DeviceMatrix& w = *weights.copies[0];
      const double bytes = static_cast<double>(w.padded_rows * w.stride);
      const double limit =
          std::max(bytes / kBytesPerSecond, 2.0 * bytes * static_cast<double>(rows) / kInt8Rate);
      fmt::print("  {:8} {:8.2f} us  limit {:8.2f} |{}\n", weights.name, chosen, limit * 1e6,
                 Candidates(weights, rows, x));
      std::fflush(stdout);
    }
    fmt::print("  products of a layer {:.1f} us |{}\n", all, RowKernels(rows));
    std::fflush(stdout);
  }

 private:
  static constexpr double kInt8Rate = 1600e12;
  static constexpr int kCopies = 5;

  struct Int8Weights {
    std::string name;
    ProductForm form;
    std::vector<std::shared_ptr<const DeviceMatrix>> copies;
  };

  void Add(const char* name, std::int64_t outputs, std::int64_t inner, ProductForm form) {
    Int8Weights weights{name, form, {}};
    for (int i = 0; i < kCopies; ++i) {
      weights.copies.push_back(QuantizeMatrix(
          device_, RandomBf16(device_, outputs, inner, static_cast<std::uint32_t>(7 + i))));
    }
    weights_.push_back(std::move(weights));
  }

  static Int8Rows CodesOf(const DeviceMemory& memory, std::int64_t rows, std::int64_t columns) {
    auto* codes = memory.As<std::int8_t>();
    return {codes, reinterpret_cast<float*>(codes + rows * CodeStride(columns))};
  }

  void* OutOf(const Int8Weights& weights) const {
    if (weights.form == ProductForm::kSwiGlu) return gated_.As<void>();
    return weights.form == ProductForm::kAdd ? residual_.As<void>() : out_.As<void>();
  }
  const DeviceMatrix& Turn(const Int8Weights& weights, int i) const {
    return *weights.copies[static_cast<size_t>(i) % weights.copies.size()];
  }

  double Chosen(const Int8Weights& weights, std::int64_t rows, const Int8Rows& x) {
    const Int8Rows codes = CodesOf(codes_, rows, kFfn);
    return Microseconds([&](int i) {
      MultiplyInt8(*device_, x, rows, Turn(weights, i),
                   {weights.form, OutOf(weights), nullptr, bf16_.As<__nv_bfloat16>(),
                    weights.form == ProductForm::kSwiGlu ? codes : Int8Rows{}});
    });
  }

  std::string Candidates(const Int8Weights& weights, std::int64_t rows, const Int8Rows& x) {
    std::string line;
    const auto operands = [&](int i) {
      Int8Operands made = Int8OperandsOf(x, rows, Turn(weights, i), weights.form);
      made.out = OutOf(weights);
      return made;
    };
    if (Int8FewRowsCanServe(operands(0))) {
      for (const RingSize ring : kRingSizes) {
        line += fmt::format(
            "  {} {:.1f}", kRingNames[static_cast<int>(ring)],
            Microseconds([&](int i) { MultiplyInt8FewRows(device_->stream, operands(i), ring); }));
      }
    }
    if (!Int8ManyRowsCanServe(operands(0))) return line;
    const Int8Tile chosen = Int8TileFor(operands(0), device_->multiprocessors);
    for (const Int8Tile& tile : kInt8Tiles) {
      if (rows > 64 && tile.slabs == 1) continue;
      if (!tile.Serves(weights.form)) continue;
      line += fmt::format("  {}{}x{}{} {:.1f}", tile == chosen ? "*" : "", tile.slabs * 64,
                          tile.width, tile.ping_pong ? " in turns" : "", Microseconds([&](int i) {
                            MultiplyInt8ManyRows(device_->stream, operands(i), tile);
                          }));
    }
    return line;
  }

  std::string RowKernels(std::int64_t rows) {
    const Int8Rows codes = CodesOf(codes_, rows, kFfn);
    const cudaStream_t s = device_->stream;
    auto* narrow = bf16_.As<__nv_bfloat16>();
    const double norm = Microseconds([&](int) {
      RmsNormRows(s, residual_.As<float>(), norm_.As<float>(), 1e-6f, {rows, kHidden, kHidden},
                  {nullptr, narrow, codes});
    });
    const double hidden = Microseconds([&](int) {
      QuantizeRows(s, narrow, {rows, kHidden, kHidden}, CodeReader::kWaits, codes);
    });
    const double ffn = Microseconds([&](int) {
      QuantizeRows(s, narrow, {rows, kFfn, kFfn}, CodeReader::kWaits, codes);
    });
    const double swiglu = Microseconds([&](int) {
      SwiGluAndQuantizeRows(s, narrow, 2 * kFfn, {rows, kFfn, kFfn}, gated_.As<__nv_bfloat16>(),
                            codes);
    });
    return fmt::format(
        "  norm and codes {:.1f}  codes of 4096 {:.1f}, of 12288 {:.1f}, SwiGLU and codes {:.1f}",
        norm, hidden, ffn, swiglu);
  }

  double Microseconds(const std::function<void(int)>& body) const {
    return TimedDevice::Microseconds(20, body);
  }

  std::vector<Int8Weights> weights_;
  DeviceMemory bf16_, x_, codes_, out_, gated_, residual_, norm_;
};

// cuda_times --decisions: the table of decisions about products that ships for this device
// (src/kernels/cuda/products/decisions), measured for the shapes of known models.
struct ModelShape {
  const char* name;
  std::int64_t hidden, heads, kv_heads, head_dim, ffn, vocabulary;
};
// As the shapes of `banyan bench --shape` (src/load/random_model.cc), and the model that ships.
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

class DecisionTimes : TimedDevice {
 public:
  DecisionTimes() : products_(device_, {false, {}, Deciding::kByMeasuring}) {}

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
    const DeviceMatrix w = RandomBf16(device_, outputs, inner, 7);
    for (const std::int64_t rows : row_counts) products_.Serving(w, rows, form);
  }

  Products products_;
  std::set<std::tuple<std::int64_t, std::int64_t, ProductForm>> done_;
};

}  // namespace banyan::cuda
