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
#include "kernels/cuda/products/coded_products.h"

namespace banyan::cuda {

class CodedTimes : TimedDevice {
 public:
  explicit CodedTimes(std::int64_t most_rows) {
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
    for (const CodedWeights& weights : weights_) {
      const RowCodes x = CodesOf(x_, rows, weights.copies[0]->columns);
      CodeRows(device_->stream, bf16_.As<__nv_bfloat16>(),
               {rows, weights.copies[0]->columns, weights.copies[0]->columns}, CodeReader::kWaits,
               x);
      const double chosen = Chosen(weights, rows, x);
      all += chosen;
      const DeviceMatrix& w = *weights.copies[0];
      const double bytes = static_cast<double>(w.padded_rows * w.stride);
      const double limit =
          std::max(bytes / kBytesPerSecond, 2.0 * bytes * static_cast<double>(rows) / kCodedRate);
      fmt::print("  {:8} {:8.2f} us  limit {:8.2f} |{}\n", weights.name, chosen, limit * 1e6,
                 Ways(weights, rows, x));
      std::fflush(stdout);
    }
    fmt::print("  products of a layer {:.1f} us |{}\n", all, RowKernels(rows));
    std::fflush(stdout);
  }

 private:
  static constexpr double kCodedRate = 1600e12;
  static constexpr int kCopies = 5;

  struct CodedWeights {
    std::string name;
    ProductForm form;
    std::vector<std::shared_ptr<const DeviceMatrix>> copies;
  };

  void Add(const char* name, std::int64_t outputs, std::int64_t inner, ProductForm form) {
    CodedWeights weights{name, form, {}};
    DeviceMatrix w;
    w.rows = w.padded_rows = outputs;
    w.columns = w.stride = inner;
    w.form = WeightForm::kBF16;
    w.memory = DeviceMemory(device_, outputs * inner * 2, "weights");
    for (int i = 0; i < kCopies; ++i) {
      FillRandom(device_->stream, outputs * inner, static_cast<std::uint32_t>(7 + i),
                 w.memory.As<__nv_bfloat16>());
      weights.copies.push_back(CodeMatrix(device_, w));
    }
    weights_.push_back(std::move(weights));
  }

  static RowCodes CodesOf(const DeviceMemory& memory, std::int64_t rows, std::int64_t columns) {
    auto* codes = memory.As<std::int8_t>();
    return {codes, reinterpret_cast<float*>(codes + rows * CodeStride(columns))};
  }

  void* OutOf(const CodedWeights& weights) const {
    if (weights.form == ProductForm::kSwiGlu) return gated_.As<void>();
    return weights.form == ProductForm::kAdd ? residual_.As<void>() : out_.As<void>();
  }
  const DeviceMatrix& Turn(const CodedWeights& weights, int i) const {
    return *weights.copies[static_cast<size_t>(i) % weights.copies.size()];
  }

  double Chosen(const CodedWeights& weights, std::int64_t rows, const RowCodes& x) {
    const RowCodes codes = CodesOf(codes_, rows, kFfn);
    return Microseconds([&](int i) {
      MultiplyCoded(*device_, x, rows, Turn(weights, i),
                    {weights.form, OutOf(weights), nullptr, bf16_.As<__nv_bfloat16>(),
                     weights.form == ProductForm::kSwiGlu ? codes : RowCodes{}});
    });
  }

  std::string Ways(const CodedWeights& weights, std::int64_t rows, const RowCodes& x) {
    std::string line;
    const auto operands = [&](int i) {
      CodedOperands made = CodedOperandsOf(x, rows, Turn(weights, i), weights.form);
      made.out = OutOf(weights);
      return made;
    };
    if (CodedFewRowsCanServe(operands(0))) {
      for (const RingSize ring : kRingSizes) {
        line += fmt::format(
            "  {} {:.1f}", kRingNames[static_cast<int>(ring)],
            Microseconds([&](int i) { MultiplyCodedFewRows(device_->stream, operands(i), ring); }));
      }
    }
    if (!CodedManyRowsCanServe(operands(0))) return line;
    const CodedTile chosen = CodedTileFor(operands(0), device_->multiprocessors);
    for (const CodedTile& tile : kCodedTiles) {
      if (rows > 64 && tile.slabs == 1) continue;
      if (!tile.Serves(weights.form)) continue;
      line += fmt::format("  {}{}x{}{} {:.1f}", tile == chosen ? "*" : "", tile.slabs * 64,
                          tile.width, tile.in_turns ? " in turns" : "", Microseconds([&](int i) {
                            MultiplyCodedManyRows(device_->stream, operands(i), tile);
                          }));
    }
    return line;
  }

  std::string RowKernels(std::int64_t rows) {
    const RowCodes codes = CodesOf(codes_, rows, kFfn);
    const cudaStream_t s = device_->stream;
    auto* narrow = bf16_.As<__nv_bfloat16>();
    const double norm = Microseconds([&](int) {
      RmsNormRows(s, residual_.As<float>(), norm_.As<float>(), 1e-6f, {rows, kHidden, kHidden},
                  {nullptr, narrow, codes});
    });
    const double hidden = Microseconds([&](int) {
      CodeRows(s, narrow, {rows, kHidden, kHidden}, CodeReader::kWaits, codes);
    });
    const double ffn = Microseconds([&](int) {
      CodeRows(s, narrow, {rows, kFfn, kFfn}, CodeReader::kWaits, codes);
    });
    const double swiglu = Microseconds([&](int) {
      SwiGluAndCodeRows(s, narrow, 2 * kFfn, {rows, kFfn, kFfn}, gated_.As<__nv_bfloat16>(), codes);
    });
    return fmt::format(
        "  norm and codes {:.1f}  codes of 4096 {:.1f}, of 12288 {:.1f}, SwiGLU and codes {:.1f}",
        norm, hidden, ffn, swiglu);
  }

  double Microseconds(const std::function<void(int)>& body) const {
    return TimedDevice::Microseconds(20, body);
  }

  std::vector<CodedWeights> weights_;
  DeviceMemory bf16_, x_, codes_, out_, gated_, residual_, norm_;
};

}  // namespace banyan::cuda
