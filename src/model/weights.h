// A model's parameters in backend memory, named alike for all file formats. Q, K and V are one
// matrix, gate and up are one matrix: rows stacked in that order.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "formats/tensor_store.h"
#include "kernels/kernels.h"
#include "model/adapter.h"
#include "model/config.h"

namespace banyan {

using MatrixRef = std::shared_ptr<const Matrix>;
using VectorRef = std::shared_ptr<const Vector>;
// What adapters that are kept apart add to a matrix; null: nothing.
using LowRankRef = std::shared_ptr<const LowRankTable>;

// Of a layer that keeps a state: what stands in ConvolutionCall and ScanCall.
struct StateWeights {
  // [inputs, hidden]: with kConvolution gates of the input, gates of the output, the input; else
  // what the convolution reads, then the numbers of heads (steps, and with kDelta strengths).
  MatrixRef input;
  VectorRef input_bias;  // may be null
  LowRankRef input_more;
  VectorRef taps;       // [taps, channels]
  VectorRef taps_bias;  // may be null
  // Null with kConvolution.
  MatrixRef gate;       // [values, hidden]
  VectorRef gate_bias;  // may be null
  LowRankRef gate_more;
  VectorRef rates, step_bias;  // [heads]
  VectorRef skip;              // [heads] kMamba2
  VectorRef norm;              // [value_dim] of every head, or with kMamba2 [values] of all
};

struct LayerWeights {
  VectorRef attention_norm;  // [hidden] before attention; null where there is none
  VectorRef attended_norm;   // [hidden] of what attention adds; null where there is none
  std::shared_ptr<const StateWeights> state;  // instead of what follows, up to value_norm
  MatrixRef qkv;          // [(heads + 2 kv_heads) * head_dim, hidden]; without keys: of Q alone
  VectorRef qkv_bias;     // may be null
  VectorRef query_norm;   // may be null; [head_dim] or [heads * head_dim]
  VectorRef key_norm;     // may be null
  VectorRef value_norm;   // [head_dim] of ones; may be null
  MatrixRef output_gate;  // [heads * head_dim, hidden] ModelConfig::output_gate; may be null
  VectorRef output_gate_bias;  // may be null
  MatrixRef output;            // [hidden, heads * head_dim], or values of a state
  VectorRef output_bias;       // may be null
  VectorRef ffn_norm;          // [hidden] before the feed-forward block; null where there is none
  VectorRef fed_norm;          // [hidden] of what that block adds; null where there is none
  MatrixRef gate_up;           // [2 * ffn, hidden]
  VectorRef gate_up_bias;      // may be null
  MatrixRef down;              // [hidden, ffn]
  VectorRef down_bias;         // may be null
  LowRankRef qkv_more, output_gate_more, output_more, gate_up_more, down_more;
  VectorRef sinks;  // [heads] AttentionShape::sinks; null where there are none
  // Instead of gate_up and down, in layers with a mixture of experts.
  std::shared_ptr<const ExpertTable> experts;
  MatrixRef router;       // [experts, hidden]
  VectorRef router_bias;  // may be null
  MatrixRef block_gate;   // [1, hidden] of a gated block beside the experts
  // Of experts beside a block: norms of what the router and the experts read, of what the block and
  // the experts give.
  VectorRef router_norm, experts_norm, block_fed_norm, experts_fed_norm;
  // Of the layer's own input (ModelConfig::layer_input_size); else null.
  MatrixRef input_gate;        // [layer input, hidden]
  MatrixRef input_projection;  // [hidden, layer input]
  VectorRef input_norm;        // [hidden] of what it adds
  float scale = 1.0f;          // of the layer's result
};

// What the layers' own inputs are made of; all null where they have none.
struct LayerInputWeights {
  MatrixRef embedding;   // [layer input vocabulary, layers * layer input]
  MatrixRef projection;  // [layers * layer input, hidden]
  VectorRef norm;        // [layer input]
};

struct ModelWeights {
  MatrixRef embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  LayerInputWeights inputs;
  VectorRef final_norm;  // [hidden] times config.logit_scale, so that logits come out scaled
  MatrixRef logits;      // [vocab, hidden]; the embedding itself when tied
  LowRankRef logits_more;
  std::int64_t ranks = 0;       // of the largest table; 0: no adapters are kept apart
  std::int64_t bytes = 0;       // resident, each matrix once
  std::int64_t parameters = 0;  // of the matrices, each once
  // The part of these that a row does not use, because it chooses few of the experts.
  std::int64_t resting_parameters = 0, resting_bytes = 0;
};

using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

enum class TensorNaming {
  kHuggingFace,  // model.layers.0.self_attn.q_proj.weight
  kGguf,         // blk.0.attn_q.weight
};

struct AdaptersToLoad {
  // Merged into the matrices that it has products for; an embedding and its tied logits are adapted
  // apart. May be null.
  Adapter* merged = nullptr;
  std::vector<Adapter*> apart;  // variants from 1 on
};
// `progress` (may be empty) is called after every matrix with the bytes loaded and the total.
// Throws when a tensor is missing or has another shape than the configuration implies, when an
// adapter is for another model, and kUnsupported for one that cannot be kept apart.
ModelWeights LoadWeights(const ModelConfig& config, const TensorStore& store, TensorNaming naming,
                         Kernels& kernels, const LoadProgress& progress,
                         const AdaptersToLoad& adapters = {});

// --- Names of tensors in files -------------------------------------------------------------------

// Names of a layer's tensors without prefix and suffix. Families that fuse tensors in the file use
// the fused name; the loader takes whichever is there.
struct TensorNames {
  const char* layer_prefix;  // one {} for the layer
  const char* embedding;
  const char* final_norm;
  const char* logits;
  const char* norm_before_attention;
  const char* norm_before_ffn;
  const char* second_norm_before_ffn;  // of families that have norms before and after a block
  const char* norm_after_attention;
  const char* norm_after_ffn;
  const char *query, *key, *value, *fused_qkv, *output;
  const char *query_norm, *key_norm;
  const char *gate, *up, *fused_gate_up, *down;
  const char *shared_gate_up, *shared_down;  // Granite 4's block that all tokens share
  const char *beside_gate, *beside_up, *beside_down, *beside_switch;  // a block beside experts
  // Gemma 4: of the model; of a layer; a layer's, whole names.
  const char *inputs_embedding, *inputs_projection, *inputs_norm;
  const char *input_gate, *input_projection, *input_norm;
  const char *norm_before_experts, *norm_after_block, *norm_after_experts;
  const char *router_scale, *layer_scale;
};

// Files that hold a network for images too have another beginning instead of "model.", and one of
// the logits.
inline constexpr const char* kHuggingFaceRoot = "model.";
struct OtherRoot {
  const char *root, *logits;
};
inline constexpr OtherRoot kOtherRoots[] = {
    {"language_model.model.", "language_model.lm_head.weight"},
    {"model.language_model.", "lm_head.weight"},
};

inline constexpr TensorNames kHuggingFaceNames = {"model.layers.{}.",
                                                  "model.embed_tokens.weight",
                                                  "model.norm.weight",
                                                  "lm_head.weight",
                                                  "input_layernorm",
                                                  "post_attention_layernorm",
                                                  "pre_feedforward_layernorm",
                                                  "post_attention_layernorm",
                                                  "post_feedforward_layernorm",
                                                  "self_attn.q_proj",
                                                  "self_attn.k_proj",
                                                  "self_attn.v_proj",
                                                  "self_attn.qkv_proj",
                                                  "self_attn.o_proj",
                                                  "self_attn.q_norm",
                                                  "self_attn.k_norm",
                                                  "mlp.gate_proj",
                                                  "mlp.up_proj",
                                                  "mlp.gate_up_proj",
                                                  "mlp.down_proj",
                                                  "shared_mlp.input_linear",
                                                  "shared_mlp.output_linear",
                                                  "mlp.shared_expert.gate_proj",
                                                  "mlp.shared_expert.up_proj",
                                                  "mlp.shared_expert.down_proj",
                                                  "mlp.shared_expert_gate",
                                                  "model.embed_tokens_per_layer.weight",
                                                  "model.per_layer_model_projection.weight",
                                                  "model.per_layer_projection_norm.weight",
                                                  "per_layer_input_gate",
                                                  "per_layer_projection",
                                                  "post_per_layer_input_norm",
                                                  "pre_feedforward_layernorm_2",
                                                  "post_feedforward_layernorm_1",
                                                  "post_feedforward_layernorm_2",
                                                  "router.scale",
                                                  "layer_scalar"};

// LFM2 names layers' tensors otherwise.
constexpr TensorNames MakeLfm2Names() {
  TensorNames names = kHuggingFaceNames;
  names.final_norm = "model.embedding_norm.weight";
  names.norm_before_attention = "operator_norm";
  names.norm_before_ffn = "ffn_norm";
  names.output = "self_attn.out_proj";
  names.query_norm = "self_attn.q_layernorm";
  names.key_norm = "self_attn.k_layernorm";
  names.gate = "feed_forward.w1";
  names.up = "feed_forward.w3";
  names.down = "feed_forward.w2";
  return names;
}
inline constexpr TensorNames kLfm2Names = MakeLfm2Names();

// GGUF's Phi-3 stores gate and up fused under the name of up alone.
inline constexpr TensorNames kGgufNames = {"blk.{}.",
                                           "token_embd.weight",
                                           "output_norm.weight",
                                           "output.weight",
                                           "attn_norm",
                                           "ffn_norm",
                                           "ffn_norm",
                                           "post_attention_norm",
                                           "post_ffw_norm",
                                           "attn_q",
                                           "attn_k",
                                           "attn_v",
                                           "attn_qkv",
                                           "attn_output",
                                           "attn_q_norm",
                                           "attn_k_norm",
                                           "ffn_gate",
                                           "ffn_up",
                                           "ffn_up",
                                           "ffn_down",
                                           "ffn_up",
                                           "ffn_down",
                                           "ffn_gate_shexp",
                                           "ffn_up_shexp",
                                           "ffn_down_shexp",
                                           "ffn_gate_inp_shexp",
                                           "per_layer_token_embd.weight",
                                           "per_layer_model_proj.weight",
                                           "per_layer_proj_norm.weight",
                                           "inp_gate",
                                           "proj",
                                           "post_norm",
                                           "pre_ffw_norm_2",
                                           "post_ffw_norm_1",
                                           "post_ffw_norm_2",
                                           "ffn_gate_inp.scale",
                                           "layer_output_scale.weight"};

// GGUF's LFM2 names its last norm after the embedding.
constexpr TensorNames MakeGgufLfm2Names() {
  TensorNames names = kGgufNames;
  names.final_norm = "token_embd_norm.weight";
  return names;
}
inline constexpr TensorNames kGgufLfm2Names = MakeGgufLfm2Names();

}  // namespace banyan
