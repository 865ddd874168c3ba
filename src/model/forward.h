// The decoder's network, once for all families and backends: a batch of rows in, logits out. It
// knows no tree and no scheduler, only a Batch, a plan and KV memory.
#pragma once

#include <string>

#include "kernels/kernels.h"
#include "model/config.h"
#include "model/weights.h"

namespace banyan {

struct ForwardOptions {
  bool skip_attention = false;  // zeros instead: wrong answers, for the throughput ceiling alone
  const PendingChoices* earlier = nullptr;  // whose tokens the batch feeds; see Kernels::Upload
  bool replay = true;                       // steps may be recorded and replayed
  // Run skips the product of the logits, as nothing reads them; Choose follows.
  bool only_choices = false;
};

// Memory that experts need for a step's rows: the router's scores [rows, experts], then the tensors
// of ExpertScratch for `chunk` rows at a time. Empty without experts.
TensorGroup ExpertTensorsFor(const ModelConfig& config, std::int64_t rows, std::int64_t chunk);
// Rows that go through experts at a time: on a device, enough for its products of many rows.
std::int64_t ExpertStretch(const Kernels& kernels);

// How the rows of a layer attend, without sinks.
AttentionShape ShapeOfLayer(const ModelConfig& config, int layer);

class ForwardPass {
 public:
  // Holds activations for at most `max_rows` rows and logits for `max_logit_rows`. The references
  // must outlive it. Sets the kernels' rotation tables.
  ForwardPass(const ModelConfig& config, const ModelWeights& weights, Kernels& kernels,
              int max_rows, int max_logit_rows);

  // Computes the batch, storing K and V in the rows' slots. Returns logits [logit_rows, vocab],
  // valid until the next Run.
  Tensor Run(const Batch& batch, const AttentionPlan& plan, KvMemory& kv,
             const ForwardOptions& options = {});

  // After a Run with only_choices: one choice per request, as of Kernels::Choose without panels.
  void Choose(std::span<const SamplingRow> requests, std::unique_ptr<PendingChoices>& choices);

  // Whether only_choices saves memory; never where adapters add to the logits.
  bool can_only_choose() const;

  int max_rows() const { return max_rows_; }

 private:
  // Of tensors that have all of a step's rows, or those with logits.
  struct LowRankRows {
    const StepInputs& step;
    StepRows rows = StepRows::kAll;
  };
  void Compute(const StepInputs& step, KvMemory& kv, const ForwardOptions& options);
  // The rows whose logits are wanted, copied to `memory`.
  Tensor LogitRows(const StepInputs& step, const Tensor& rows, const Tensor& memory);
  Tensor ProjectAndStore(int layer, const StepInputs& step, KvMemory& kv, const Tensor& x);
  Tensor Attend(int layer, const StepInputs& step, const KvMemory& kv, bool skip,
                const Tensor& qkv);
  // What the layer's state gives (StateRule), before the product that follows; changes the states.
  Tensor MixStates(int layer, const StepInputs& step, const Tensor& x, StateMemory& states,
                   bool skip);
  // `mixed` is what the convolution gave, `inputs` and `input` what it and the gates read.
  Tensor ScanHeads(int layer, const StepInputs& step, const Tensor& inputs, const Tensor& input,
                   StateMemory& states);
  // attended *= logistic(W input).
  void GateAttended(const LayerWeights& w, const StepInputs& step, const Tensor& input,
                    Tensor& attended);
  // x += experts + block, or experts + logistic(w input) block.
  void AddExpertsAndBlock(int layer, const LowRankRows& adapted, const Tensor& input, Tensor& x);
  void AddAttended(int layer, const LowRankRows& adapted, const Tensor& attended, Tensor& x);
  AttentionShape ShapeOf(int layer) const;
  void FeedForward(int layer, const LowRankRows& adapted, Tensor& x);
  // inner = gate(W_gate input) * W_up input.
  Tensor InnerOf(int layer, const LowRankRows& adapted, const Tensor& input);
  void AddExperts(const LayerWeights& w, const Tensor& input, Tensor& x);
  // x += norm(norm(block) + norm(experts)); `input` is the block's.
  void AddBoth(int layer, const LowRankRows& adapted, const Tensor& input, Tensor& x);
  // Fills layer_inputs_ of the tokens and their embeddings `x`.
  void ComputeLayerInputs(const StepInputs& step, const Tensor& x);
  // x += norm(W (gate(W_gate x) * the layer's input)); `inputs` are those of all layers.
  void AddLayerInput(int layer, const Tensor& inputs, const LowRankRows& adapted, Tensor& x);
  // x += delta, as the configuration scales and the norm (may be null) makes it.
  void AddDelta(const Vector* norm, Tensor& delta, Tensor& x);
  // A product whose result a block adds to the residual stream.
  struct AddedProduct {
    const Matrix& w;
    const Vector* bias;
    const LowRankRef& more;
    const Vector* norm;  // of the result; may be null
  };
  void AddToResidual(const AddedProduct& product, const LowRankRows& adapted, const Tensor& input,
                     Tensor& x);
  // What adapters that are kept apart add to the product of `x` that `out` has or was added to.
  void AddMore(const LowRankRef& more, const LowRankRows& adapted, const Tensor& x, Tensor& out);
  LowRankCall CallOf(const LowRankRef& more, const LowRankRows& adapted, const Tensor& x) const;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Kernels& kernels_;
  int max_rows_;
  int last_that_stores_ = 0;       // the last layer with keys or a state
  std::vector<int> kv_layers_;     // [layers] KvLayerOf
  std::vector<int> state_layers_;  // [layers] StateLayersBefore
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<StepInputs> step_;  // of the last Run; its memory is reused
  Tensor x_;                          // [rows, hidden] the residual stream
  Tensor normed_;                     // [rows, hidden]
  Tensor qkv_;                        // [rows, (heads + 2 kv_heads) * head_dim]
  Tensor attended_;                   // [rows, heads * head_dim]
  Tensor delta_;                      // [rows, hidden] what a block adds
  Tensor gate_up_;                    // [rows, 2 * ffn]
  Tensor inner_;                      // [rows, ffn]
  Tensor scores_;                     // [rows, experts] the router's
  ExpertScratch expert_scratch_;
  Tensor mixed_;   // [rows, hidden] what experts beside a block read, and their mixture
  Tensor chosen_;  // [logit rows, hidden] the residual stream of rows with logits, last layer
  Tensor chosen_attended_;  // [logit rows, heads * head_dim]
  Tensor layer_inputs_;     // [rows, layers * layer input]
  Tensor projected_;        // the same
  Tensor chosen_inputs_;    // [logit rows, layers * layer input]
  Tensor input_gates_;      // [rows, layer input]
  // Of layers that keep states, and of gates.
  Tensor state_inputs_;  // [rows, rows of StateWeights::input]
  Tensor state_mixed_;   // [rows, channels]
  Tensor state_gates_;   // [rows, values]
  Tensor output_gates_;  // [rows, heads * head_dim]
  Tensor block_gates_;   // [rows, 1]
  Tensor logits_;        // [logit rows, vocab]
  Tensor ranks_;         // [rows, weights.ranks] between the factors of low-rank products
};

// The version of the arithmetic that computes keys and values. It is part of the identity of KV on
// disk (KvIdentityOf): blocks of one version are never read by another.
//
// Raise it by one in any change after which a backend computes other bits of keys or values from
// the same model, tokens and options: another order of sums, another rounding, another form of
// weights or activations. Whatever users have stored is then computed again, once. Leave it when
// the bits stay (names, comments, speed, another compiler). golden_bits_test.cc fails when the bits
// change and this number does not.
inline constexpr int kArithmeticVersion = 2;

// What the bits depend on beside the code and the backend (Kernels::arithmetic): the processor's
// architecture and the C library, whose cosines and exponentials we use. "aarch64, glibc 2.36".
std::string ArithmeticPlatform();

}  // namespace banyan
