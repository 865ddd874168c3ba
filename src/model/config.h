// What a model is, as data: every difference between the supported families is a field here, so
// that there is one forward pass. Read from a Hugging Face config.json (old and Transformers-5
// style) or from GGUF metadata; families.cc holds what each family's files leave unsaid.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "banyan/types.h"
#include "base/error.h"
#include "formats/gguf.h"
#include "kernels/experts.h"
#include "kernels/kernels.h"

namespace banyan {

enum class NormPlacement {
  kBefore,  // x + f(norm(x)): Llama and most others
  kAfter,   // x + norm(f(x)): OLMo-2 and OLMo-3
  kAround,  // x + norm(f(norm(x))): Gemma 3
};

enum class QkNorm {
  kNone,
  kPerHead,  // RMS norm over each head's values: Qwen3, Gemma 3
  kWhole,    // RMS norm over all heads' values together: OLMo-2 and OLMo-3
};

enum class RopeKind { kPlain, kLinear, kLlama3, kYarn, kLongRope, kProportional };

struct RopeConfig {
  RopeKind kind = RopeKind::kPlain;
  double theta = 10000.0;
  int rotary_dim = 0;                         // leading values of a head that are rotated; even
  int rotated_pairs = 0;                      // proportional: of the head's, the first ones
  double factor = 1.0;                        // linear, Llama-3, YaRN, proportional
  double low_freq_factor = 1.0;               // Llama-3
  double high_freq_factor = 4.0;              // Llama-3
  int original_context = 0;                   // Llama-3, YaRN, LongRoPE; tokens
  double beta_fast = 32.0, beta_slow = 1.0;   // YaRN
  bool truncate = true;                       // YaRN: correction range rounded to whole dimensions
  std::optional<double> attention_factor{};   // YaRN, LongRoPE: given outright
  double mscale = 0.0, mscale_all_dim = 0.0;  // YaRN; 0 = not given
  std::vector<double> short_factor{}, long_factor{};  // LongRoPE, [rotary_dim/2]
  // Queries are multiplied by 1 + query_beta ln(1 + floor(position / original_context)):
  // Ministral 3.
  double query_beta = 0.0;
  // Plain: each inverse frequency is divided by its entry. How GGUF carries Llama-3 scaling, as the
  // tensor rope_freqs.weight. Empty, or [rotary_dim/2].
  std::vector<double> frequency_divisors{};
};

// What differs between a model's layers.
struct LayerAttention {
  int window = 0;  // the query at position p sees the keys at p - window + 1 … p; 0: all up to p
  int rope = 0;    // of ModelConfig::ropes; kNoRope: queries and keys are not rotated
  int kv_heads = 0, head_dim = 0;  // where they are not ModelConfig's; 0: they are
  int keys_of = -1;                // the earlier layer whose keys and values it reads; -1: its own
  bool keys_are_values = false;    // as they are before norm and rotation: no product of their own
  bool operator==(const LayerAttention&) const = default;
};

// Layers that keep a state instead of keys (kernels/states.h).
struct StatesConfig {
  std::vector<bool> layers;  // [layers] which ones; empty: none
  StateShape shape;          // of each
  bool convolution_bias = false;
  bool product_bias = false;  // of the products before and after
  float least_step = 0.0f, most_step = std::numeric_limits<float>::infinity();  // kMamba2
  // Rows of keys, queries, values and gates stand together for every key head: Qwen3-Next.
  bool by_key_head = false;

  bool any() const { return !layers.empty(); }
};

// What stands beside the experts of a layer.
enum class BlockBeside {
  kNone,
  kNormed,  // a block and the experts, each with norms of its own; the router has a norm and scales
            // of shares: Gemma 4
  kGated,   // a block times logistic(w x): Qwen3.5
  kPlain,   // a block: Granite 4
};

// Layers whose feed-forward block is a mixture of experts.
struct ExpertsConfig {
  int count = 0;       // 0: there is no such layer
  int inner_size = 0;  // of each expert
  ExpertRule rule;
  bool bias = false;  // of the router and of experts' products
  // Stacked tensors of safetensors are [experts, columns, rows], with alternating rows of gate and
  // up.
  bool in_pairs = false;
  BlockBeside beside = BlockBeside::kNone;  // of FfnSize
  bool choice_biases = false;               // ExpertNumbers::choice_biases
  std::vector<bool> layers;  // [layers] which ones; the others have a block of ffn_size

  bool HasBlockBeside() const { return beside != BlockBeside::kNone; }
};

// Weights that a checkpoint stores as codes of one byte: a weight is its code times the scale of
// its matrix, of its row, or of its block of rows and columns.
struct WeightScales {
  std::string method;  // quant_method; empty: all weights are plain
  // Endings of a scales tensor's name in place of "weight"; the first that is there counts.
  std::vector<std::string> endings;
  bool per_matrix = false, per_row = false;  // which scales there may be
  int block_rows = 0, block_columns = 0;     // 0: no blocks
};

struct ModelConfig {
  std::string family;  // Family::name
  int vocab_size = 0;
  int hidden_size = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int ffn_size = 0;
  std::vector<int> ffn_sizes{};  // [layers], or empty: ffn_size in all
  int context_length = 0;        // tokens
  // Values that every layer gets of the token itself beside the residual stream; 0: none.
  int layer_input_size = 0;
  int layer_input_vocab = 0;  // rows of their embedding
  bool value_norm = false;    // RMS norm of each head's values, without weights
  bool layer_scales = false;  // every layer's result is multiplied by a number of its own
  float rms_eps = 1e-5f;
  NormPlacement norm_placement = NormPlacement::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention output projection
  bool mlp_bias = false;
  bool tied_embeddings = false;
  // The file's Q and K rows are ordered for rotating neighbouring pairs (GGUF's "llama"): row 2 i +
  // s of a head is what Hugging Face has as row s * head_dim/2 + i. The loader puts them in order.
  bool interleaved_qk_rows = false;
  // The file's norm weights are w - 1: Gemma's safetensors.
  bool norms_minus_one = false;
  Gate gate = Gate::kSilu;  // of the feed-forward block
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;  // of the scores
  float residual_scale = 1.0f;   // of what a block adds
  float logit_scale = 1.0f;
  float logit_cap = 0.0f;                 // logits become cap tanh(logits / cap); 0: they stay
  std::vector<LayerAttention> attention;  // [layers]
  std::vector<RopeConfig> ropes;          // those that layers name; at least one
  bool attention_sinks = false;           // AttentionShape::sinks in every layer
  StatesConfig states;
  // What attention gives is multiplied by logistic(W x), with rows of W beside each head's query in
  // the file: Qwen3.5.
  bool output_gate = false;
  ExpertsConfig experts;
  WeightScales scales;
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;  // any of these ends an answer

  bool HasExperts(int layer) const {
    return experts.count > 0 && experts.layers[static_cast<size_t>(layer)];
  }
  bool HasBlock(int layer) const { return !HasExperts(layer) || experts.HasBlockBeside(); }
  bool HasState(int layer) const {
    return states.any() && states.layers[static_cast<size_t>(layer)];
  }
  int FfnSize(int layer) const {
    return ffn_sizes.empty() ? ffn_size : ffn_sizes[static_cast<size_t>(layer)];
  }
  const LayerAttention& Attention(int layer) const { return attention[static_cast<size_t>(layer)]; }
  bool HasKeys(int layer) const { return Attention(layer).keys_of < 0 && !HasState(layer); }
  KvHeads KeysOf(int layer) const {
    const LayerAttention& own = Attention(layer);
    return {own.kv_heads > 0 ? own.kv_heads : kv_heads, own.head_dim > 0 ? own.head_dim : head_dim};
  }
};

// Of the layers that have keys of their own.
KvShape KvShapeOf(const ModelConfig& config);
// Where in the KV memory the keys lie that a layer reads.
int KvLayerOf(const ModelConfig& config, int layer);
// How many layers before this one keep a state; of `config.layers`: how many there are.
int StateLayersBefore(const ModelConfig& config, int layer);
// Of a path in all layers that keep one; 0: none does.
std::int64_t StateBytesOf(const ModelConfig& config);

// `text` is the content of config.json, `generation` that of generation_config.json (may be empty);
// `where` names the directory in errors. Throws kFormat on a bad or missing value,
// kUnsupported (naming the architecture and the supported ones) on an unknown family.
ModelConfig ConfigFromHuggingFace(const std::string& text, const std::string& generation,
                                  const std::string& where);
ModelConfig ConfigFromGguf(const GgufFile& gguf);

// Throws kFormat when a value is out of range or values disagree: sizes positive and below sane
// limits, kv_heads divides heads, rotary_dim even and <= head_dim, factor lists of the right
// length.
void ValidateConfig(const ModelConfig& config, const std::string& where);

// Limits of every configuration, decoder or encoder.
inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxWidth = 1 << 24;  // of a hidden vector, a vocabulary, all heads together

inline void CheckRange(int value, int low, int high, const char* what, const std::string& where) {
  if (value < low || value > high) {
    Throw(ErrorKind::kFormat, "{}: {} is {}, expected {} to {}", where, what, value, low, high);
  }
}

}  // namespace banyan
