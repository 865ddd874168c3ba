// What cuda_times --coded measures: the products of a decoder layer of the qwen3-8b shape in 8
// bits, by every kernel and tile that can serve, beside what serves; and the row kernels that make
// codes.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_times_layer.h"
#include "kernels/cuda/products/int8_products.h"

namespace banyan::cuda {

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
                 Ways(weights, rows, x));
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
    DeviceMatrix w;
    w.rows = w.padded_rows = outputs;
    w.columns = w.stride = inner;
    w.form = WeightForm::kBF16;
    w.memory = DeviceMemory(device_, outputs * inner * 2, "weights");
    for (int i = 0; i < kCopies; ++i) {
      FillRandom(device_->stream, outputs * inner, static_cast<std::uint32_t>(7 + i),
                 w.memory.As<__nv_bfloat16>());
      weights.copies.push_back(QuantizeMatrix(device_, w));
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

  std::string Ways(const Int8Weights& weights, std::int64_t rows, const Int8Rows& x) {
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

}  // namespace banyan::cuda
