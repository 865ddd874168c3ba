// What the file formats call a decoder's tensors.
#pragma once

namespace banyan {

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
                                                  "shared_mlp.output_linear"};

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
                                           "ffn_down"};

}  // namespace banyan
