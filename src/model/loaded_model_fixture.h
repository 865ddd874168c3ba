// A model and nothing but its forward pass, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "model/forward.h"
#include "model/weight_scales.h"
#include "plan/build.h"

namespace banyan::testing_support {

// A model, in f32 if not said otherwise, and nothing but its forward pass: one prompt at a time, in
// one batch.
class LoadedModel {
 public:
  LoadedModel(const std::filesystem::path& path, const std::string& device, int threads = 1,
              Precision precision = Precision::kF32)
      : LoadedModel(path, MakeKernels(device, {precision, KvType::kF32, threads})) {}

  LoadedModel(const std::filesystem::path& path, std::unique_ptr<Kernels> kernels)
      : kernels_(std::move(kernels)) {
    if (std::filesystem::is_directory(path)) {
      config_ =
          ConfigFromHuggingFace(ReadTextFile(path / "config.json", 1u << 20), "", path.string());
      TensorStore store = OpenSafetensors({path / "model.safetensors"});
      FindScales(config_.scales, store);
      weights_ = LoadWeights(config_, store, TensorNaming::kHuggingFace, *kernels_, {});
    } else {
      const GgufFile gguf(path);
      config_ = ConfigFromGguf(gguf);
      weights_ = LoadWeights(config_, gguf.tensors(), TensorNaming::kGguf, *kernels_, {});
    }
  }

  const ModelConfig& config() const { return config_; }
  std::int64_t weight_bytes() const { return weights_.bytes; }

  std::vector<float> LastLogits(const std::vector<TokenId>& ids) {
    return LogitsOf(ids, {static_cast<int>(ids.size()) - 1}, static_cast<int>(ids.size()));
  }

  // Logits of these rows of the last step, or of each; the prompt is computed in steps of
  // `step_rows` rows.
  enum class Wanted { kInLastStep, kInEveryStep };
  std::vector<float> LogitsOf(const std::vector<TokenId>& ids,
                              const std::vector<std::int32_t>& logit_rows, int step_rows,
                              Wanted wanted_in = Wanted::kInLastStep) {
    const auto length = static_cast<int>(ids.size());
    std::vector<std::int32_t> pages(static_cast<size_t>((length + kPageTokens - 1) / kPageTokens));
    std::iota(pages.begin(), pages.end(), 0);
    const auto kv = kernels_->NewKvMemory(KvShapeOf(config_), static_cast<int>(pages.size()));
    const auto wanted = static_cast<int>(logit_rows.size());
    ForwardPass forward(config_, weights_, *kernels_, step_rows, wanted);
    std::vector<float> values;
    for (int begin = 0; begin < length; begin += step_rows) {
      const int end = std::min(length, begin + step_rows);
      Batch batch;
      batch.tokens.assign(ids.begin() + begin, ids.begin() + end);
      batch.positions.resize(batch.tokens.size());
      std::iota(batch.positions.begin(), batch.positions.end(), begin);
      batch.slots = batch.positions;
      if (end == length || wanted_in == Wanted::kInEveryStep) batch.logit_rows = logit_rows;
      PlanNode node;
      node.row_end = end - begin;
      node.length = end;
      node.pages =
          std::span(pages).first(static_cast<size_t>((end + kPageTokens - 1) / kPageTokens));
      const AttentionPlan plan = BuildPlan(std::span(&node, 1), batch.positions, {});
      const Tensor logits = forward.Run(batch, plan, *kv);
      for (std::int64_t r = 0; r < logits.rows; ++r) {
        std::vector<float> row(static_cast<size_t>(config_.vocab_size));
        kernels_->Download(logits, r, row);
        values.insert(values.end(), row.begin(), row.end());
      }
    }
    return values;
  }

 private:
  std::unique_ptr<Kernels> kernels_;
  ModelConfig config_;
  ModelWeights weights_;
};

inline double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

inline std::vector<TokenId> SomeTokens(int count, int vocab) {
  std::mt19937 random(5);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocab)));
  }
  return tokens;
}

}  // namespace banyan::testing_support
