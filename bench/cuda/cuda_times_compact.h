// What cuda_times --compact measures: the products of a decoder layer with weights that stay
// quantised, form by form, beside those with bf16 weights and what the stored bytes allow; of the
// qwen3-30b-a3b shape (without its experts: --experts) and of qwen3-8b.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cuda_times_fixture.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/products/quantised_products.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

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

}  // namespace banyan::cuda
