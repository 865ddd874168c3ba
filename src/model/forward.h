// The network, once for all families and backends: a batch of rows in, logits out. It knows no tree
// and no scheduler: it sees a Batch, a plan and KV memory.
#pragma once

#include "kernels/kernels.h"
#include "model/config.h"
#include "model/weights.h"

namespace banyan {

struct ForwardOptions {
  bool skip_attention = false;  // zeros instead: wrong answers, for the throughput ceiling alone
  const PendingChoices* earlier = nullptr;  // whose tokens the batch names; see Kernels::Upload
  bool replay = true;                       // steps may be recorded and replayed
};

class ForwardPass {
 public:
  // Holds activations for at most `max_rows` rows and logits for `max_logit_rows`. The references
  // must outlive it. Sets the kernels' rotation table.
  ForwardPass(const ModelConfig& config, const ModelWeights& weights, Kernels& kernels,
              int max_rows, int max_logit_rows);

  // Computes the batch, storing K and V in the rows' slots. Returns logits [logit_rows, vocab],
  // valid until the next Run.
  Tensor Run(const Batch& batch, const AttentionPlan& plan, KvMemory& kv,
             const ForwardOptions& options = {});

  // Makes the kernels' decisions for products of `rows` rows, and of `logit_rows` for the logits,
  // ahead of time: see Kernels::PrepareProduct.
  void Prepare(std::int64_t rows, std::int64_t logit_rows);

  int max_rows() const { return max_rows_; }

 private:
  void Compute(const StepInputs& step, KvMemory& kv, bool skip_attention);
  void Attention(int layer, const StepInputs& step, KvMemory& kv, bool skip, Tensor& x);
  void FeedForward(int layer, Tensor& x);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Kernels& kernels_;
  int max_rows_;
  std::unique_ptr<Recorder> recorder_;
  Tensor x_;         // [rows, hidden] the residual stream
  Tensor normed_;    // [rows, hidden]
  Tensor qkv_;       // [rows, (heads + 2 kv_heads) * head_dim]
  Tensor attended_;  // [rows, heads * head_dim]
  Tensor delta_;     // [rows, hidden] what a block adds
  Tensor gate_up_;   // [rows, 2 * ffn]
  Tensor inner_;     // [rows, ffn]
  Tensor chosen_;    // [logit rows, hidden]
  Tensor logits_;    // [logit rows, vocab]
};

}  // namespace banyan
