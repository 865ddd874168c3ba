// For the operation tests: runs RotateAndStore and Attend of one step over a Tree. Tests only.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/operation_fixture.h"
#include "kernels/plan_fixture.h"

namespace banyan::optest {

enum class QkNorm { kNone, kPerHead, kWhole };

struct AttentionSetup {
  int heads = 1, kv_heads = 1, head_dim = 16;
  int rotary_dim = 16;
  int window = 0;
  QkNorm norm = QkNorm::kNone;
  float rope_scale = 1.0f;
  float query_beta = 0.0f;
  int query_interval = 0;
  bool sinks = false;

  AttentionShape Shape() const {
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    return {heads, kv_heads, head_dim, window, scale, rotary_dim > 0 ? 1 : kNoRope};
  }
  std::int64_t columns() const { return std::int64_t{heads + 2 * kv_heads} * head_dim; }
  std::string Text() const {
    return testing::PrintToString(std::vector<int>{heads, kv_heads, head_dim, rotary_dim, window}) +
           " heads, kv heads, head_dim, rotary, window";
  }
};

struct AttentionResult {
  HostMatrix given;  // before RotateAndStore
  HostMatrix qkv;    // afterwards
  HostMatrix out;
};

// One memory of two layers, of which the second is used.
class AttentionRun {
 public:
  // Pages hold `stale_value` before anything is stored.
  AttentionRun(Kernels& kernels, const AttentionSetup& setup, int pages, float stale_value = kNaN)
      : kernels_(kernels), setup_(setup), shape_(setup.Shape()) {
    std::vector<float> frequency;
    for (int i = 0; i < setup.rotary_dim / 2; ++i) {
      frequency.push_back(
          static_cast<float>(std::pow(10000.0, -2.0 * i / static_cast<double>(setup.rotary_dim))));
    }
    // The rope that is used stands behind another one, which must not matter.
    const RopeTable other{{3.0f}, 5.0f};
    const RopeTable used{frequency, setup.rope_scale, setup.query_beta, setup.query_interval};
    kernels.SetRopes(std::vector<RopeTable>{other, used});
    kv_ = kernels.NewKvMemory({2, setup.kv_heads, setup.head_dim}, pages);
    const bool whole = setup.norm == QkNorm::kWhole;
    if (setup.norm != QkNorm::kNone) {
      const int query = whole ? setup.heads * setup.head_dim : setup.head_dim;
      const int key = whole ? setup.kv_heads * setup.head_dim : setup.head_dim;
      query_norm_ = kernels.LoadVector(RandomMatrix(1, query, 101).values);
      key_norm_ = kernels.LoadVector(RandomMatrix(1, key, 102).values);
    }
    if (setup.sinks) {
      sinks_ = kernels.LoadVector(RandomMatrix(1, setup.heads, 103).values);
      shape_.sinks = sinks_.get();
    }
    norm_ = {query_norm_.get(), key_norm_.get(), whole, 1e-6f};
    // Whatever pages held before must not matter.
    KeyBatch stale;
    for (int slot = 0; slot < pages * kPageTokens; ++slot) {
      stale.batch.tokens.push_back(0);
      stale.batch.positions.push_back(0);
      stale.batch.slots.push_back(slot);
    }
    Store(stale.batch, ConstantMatrix(stale.batch.rows(), setup.columns(), stale_value));
  }

  // K and V of these rows into their slots.
  void Store(const Batch& batch, const HostMatrix& contents) {
    const auto step = kernels_.Upload(batch, EmptyPlan(batch.rows()));
    Tensor qkv = Fill(kernels_, contents);
    kernels_.RotateAndStore(*step, 1, shape_, norm_, qkv, *kv_);
  }

  void Copy(std::span<const PageCopy> copies) { kernels_.CopyPages(copies, *kv_); }

  AttentionResult Step(const Batch& batch, const AttentionPlan& plan, const HostMatrix& contents) {
    const auto step = kernels_.Upload(batch, plan);
    Tensor qkv = Fill(kernels_, contents);
    HostMatrix given = Read(kernels_, qkv);
    kernels_.RotateAndStore(*step, 1, shape_, norm_, qkv, *kv_);
    Tensor out = Poisoned(kernels_, batch.rows(), std::int64_t{setup_.heads} * setup_.head_dim);
    kernels_.Attend(*step, 1, shape_, qkv, *kv_, out);
    return {std::move(given), Read(kernels_, qkv), Read(kernels_, out)};
  }

 private:
  Kernels& kernels_;
  AttentionSetup setup_;
  AttentionShape shape_;
  std::shared_ptr<KvMemory> kv_;
  std::shared_ptr<const Vector> query_norm_, key_norm_, sinks_;
  QkNormWeights norm_;
};

inline HostMatrix Select(const HostMatrix& contents, const std::vector<int>& rows) {
  HostMatrix selected{static_cast<std::int64_t>(rows.size()), contents.columns, {}};
  for (const int row : rows) {
    const std::span<const float> source = contents.Row(row);
    selected.values.insert(selected.values.end(), source.begin(), source.end());
  }
  return selected;
}

// contents [keys, qkv columns]: what each key of the tree feeds.
inline AttentionResult RunAttention(Kernels& kernels, const AttentionSetup& setup, const Tree& tree,
                                    const HostMatrix& contents, const PlanChoice& choice) {
  AttentionRun run(kernels, setup, tree.page_count);
  const KeyBatch all = AllKeys(tree);
  run.Store(all.batch, Select(contents, all.keys));
  const KeyBatch rows = StepRows(tree);
  return run.Step(rows.batch, BuildTestPlan(tree, choice), Select(contents, rows.keys));
}

}  // namespace banyan::optest
