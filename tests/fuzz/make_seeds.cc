// Writes the seeds of the gguf, safetensors, config and hub targets: `make_fuzz_seeds
// tests/fuzz/seeds`. Not part of the build; run it when a format gains a field worth exploring, and
// commit the result.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace {

using banyan::testing_support::GgufWriter;
using banyan::testing_support::SafetensorsWriter;
using Shape = std::vector<std::int64_t>;

void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

GgufWriter ModelMetadata(const std::string& architecture) {
  GgufWriter writer;
  writer.String("general.architecture", architecture);
  writer.U32(architecture + ".embedding_length", 32);
  writer.U32(architecture + ".block_count", 1);
  writer.U32(architecture + ".attention.head_count", 2);
  writer.U32(architecture + ".attention.head_count_kv", 1);
  writer.U32(architecture + ".feed_forward_length", 32);
  writer.U32(architecture + ".context_length", 128);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  return writer;
}

void WriteGgufSeeds(const std::filesystem::path& directory) {
  GgufWriter vocabulary(2);
  vocabulary.String("general.architecture", "llama");
  vocabulary.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "\xe2\x96\x81"});
  vocabulary.Array<float>("tokenizer.ggml.scores", 6, std::vector<float>{0.0f, -1.0f, -2.0f});
  vocabulary.Array<std::int32_t>("tokenizer.ggml.token_type", 5,
                                 std::vector<std::int32_t>{3, 1, 1});
  vocabulary.Bool("tokenizer.ggml.add_bos_token", true);
  vocabulary.Write(directory / "vocabulary.gguf");

  GgufWriter model = ModelMetadata("llama");
  model.U32("tokenizer.ggml.eos_token_id", 2);
  model.U32("general.alignment", 32);
  const std::vector<float> values(32, 0.5f);
  model.TensorF32("token_embd.weight", Shape{1, 32}, values);
  model.TensorF32("rope_freqs.weight", Shape{8}, std::vector<float>(8, 1.0f));
  model.Tensor("blk.0.attn_q.weight", Shape{2, 32}, 8, std::vector<std::byte>(68));
  model.Tensor("blk.0.ffn_up.weight", Shape{1, 256}, 12, std::vector<std::byte>(144));
  model.Tensor("blk.0.strange", Shape{1, 256}, 99, {});
  model.Write(directory / "model.gguf");

  // A block of every quantised type, its bytes like those of a file: all different.
  GgufWriter types = ModelMetadata("llama");
  struct StoredType {
    std::uint32_t number;
    std::int64_t block;
    size_t bytes;
  };
  const StoredType stored[] = {
      {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},    {10, 256, 84},
      {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292}, {16, 256, 66},
      {17, 256, 74},  {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110}, {22, 256, 82},
      {23, 256, 136}, {29, 256, 56},  {34, 256, 54},  {35, 256, 66},  {39, 32, 17}};
  for (const StoredType& type : stored) {
    std::vector<std::byte> bytes(type.bytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(37 * i + 11);
    types.Tensor("type" + std::to_string(type.number), Shape{1, type.block}, type.number, bytes);
  }
  types.Write(directory / "types.gguf");

  GgufWriter phi3 = ModelMetadata("phi3");
  phi3.U32("phi3.rope.dimension_count", 4);
  phi3.U32("phi3.attention.sliding_window", 16);
  phi3.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  phi3.TensorF32("rope_factors_long.weight", Shape{2}, std::vector<float>{1.0f, 2.0f});
  phi3.TensorF32("rope_factors_short.weight", Shape{2}, std::vector<float>{1.0f, 1.0f});
  phi3.Write(directory / "phi3.gguf");

  GgufWriter experts = ModelMetadata("qwen3moe");
  experts.U32("qwen3moe.expert_count", 4);
  experts.U32("qwen3moe.expert_used_count", 2);
  experts.U32("qwen3moe.expert_feed_forward_length", 32);
  experts.Bool("qwen3moe.expert_weights_norm", true);
  experts.TensorF32("token_embd.weight", Shape{1, 32}, values);
  experts.TensorF32("blk.0.ffn_gate_inp.weight", Shape{4, 8}, values);
  experts.Tensor("blk.0.ffn_up_exps.weight", Shape{4, 1, 32}, 39, std::vector<std::byte>(68));
  experts.Write(directory / "experts.gguf");
  GgufWriter gemma3 = ModelMetadata("gemma3");
  gemma3.U32("gemma3.attention.sliding_window", 16);
  gemma3.Array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7,
                             std::vector<std::uint8_t>{1});
  gemma3.F32("gemma3.rope.freq_base_swa", 10000.0f);
  gemma3.F32("gemma3.final_logit_softcapping", 30.0f);
  gemma3.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  gemma3.Write(directory / "gemma3.gguf");

  GgufWriter granite = ModelMetadata("granite");
  granite.F32("granite.embedding_scale", 12.0f);
  granite.F32("granite.residual_scale", 0.22f);
  granite.F32("granite.logit_scale", 8.0f);
  granite.F32("granite.attention.scale", 0.0625f);
  granite.Bool("granite.rope.scaling.finetuned", false);
  granite.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  granite.Write(directory / "granite.gguf");

  GgufWriter nested;
  nested.Scalar<double>("f64", 12, 0.5);
  nested.Scalar<std::int64_t>("i64", 11, -1);
  nested.Raw("nested", 9,
             std::string("\x09\0\0\0\x01\0\0\0\0\0\0\0"
                         "\0\0\0\0\x02\0\0\0\0\0\0\0"
                         "ab",
                         26));
  nested.Write(directory / "nested.gguf");
}

void WriteSafetensorsSeeds(const std::filesystem::path& directory) {
  SafetensorsWriter writer;
  writer.TensorF32("a", Shape{2, 2}, std::vector<float>{1.0f, 2.0f, 3.0f, 4.0f});
  writer.Tensor("b", "BF16", Shape{3}, std::vector<std::byte>(6));
  writer.Tensor("c", "I64", Shape{1}, std::vector<std::byte>(8));
  writer.Tensor("d", "F16", Shape{0, 4}, {});
  writer.Tensor("mlp.experts.down_proj_blocks", "U8", Shape{1, 1, 1, 16},
                std::vector<std::byte>(16));
  writer.Tensor("mlp.experts.down_proj_scales", "U8", Shape{1, 1, 1}, std::vector<std::byte>(1));
  writer.Write(directory / "small.safetensors");
  SafetensorsWriter().Write(directory / "empty.safetensors");
}

void WriteScalesSeeds(const std::filesystem::path& directory) {
  SafetensorsWriter writer;
  const std::vector<std::byte> codes(6, std::byte{0x38});
  writer.Tensor("a.weight", "F8_E4M3", Shape{2, 3}, codes);
  writer.TensorF32("a.weight_scale", Shape{2, 1}, std::vector<float>{1.0f, 2.0f});
  writer.Tensor("b.weight", "I8", Shape{3, 2}, codes);
  writer.TensorF32("b.weight_scale", Shape{}, std::vector<float>{0.5f});
  writer.Tensor("c.weight", "F8_E4M3", Shape{3, 2}, codes);
  writer.TensorF32("c.weight_scale_inv", Shape{2, 1}, std::vector<float>{1.0f, 2.0f});
  writer.Write(directory / "codes.safetensors");
}

void WriteConfigSeeds(const std::filesystem::path& directory) {
  const auto config = [](const std::string& family, const std::string& more) {
    return R"({"model_type": ")" + family +
           R"(", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
 "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "hidden_act": "silu",
 "bos_token_id": 1, "eos_token_id": [2, 3], "tie_word_embeddings": true, )" +
           more + "}\n";
  };
  WriteText(directory / "llama3.json",
            config("llama", R"("attention_bias": false, "mlp_bias": false, "head_dim": 16,
 "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
 "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024})"));
  WriteText(directory / "qwen2.json",
            config("qwen2", R"("use_sliding_window": true, "sliding_window": 8,
 "max_window_layers": 2, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0,
 "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 0.7, "mscale_all_dim": 1.0,
 "truncate": false, "original_max_position_embeddings": 1024})"));
  WriteText(directory / "qwen3.json",
            config("qwen3", R"("head_dim": 32, "sliding_window": 8, "use_sliding_window": true,
 "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])"));
  WriteText(
      directory / "gemma3.json",
      config("gemma3_text", R"("head_dim": 32, "sliding_window": 8, "query_pre_attn_scalar": 24,
 "sliding_window_pattern": 2, "rope_local_base_freq": 10000.0, "final_logit_softcapping": 30.0,
 "hidden_activation": "gelu_pytorch_tanh", "use_bidirectional_attention": false,
 "rope_scaling": {"rope_type": "linear", "factor": 8.0})"));
  WriteText(directory / "gemma3-parts.json", R"({"model_type": "gemma3", "text_config":
 {"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 8,
 "vocab_size": 9, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
 "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"], "rope_parameters":
 {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
 "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}})");
  WriteText(directory / "smollm3.json",
            config("smollm3", R"("no_rope_layers": [1, 0, 1, 0], "no_rope_layer_interval": 2,
 "use_sliding_window": true, "sliding_window": 8)"));
  WriteText(directory / "granite.json",
            config("granite", R"("embedding_multiplier": 12.0, "attention_multiplier": 0.0625,
 "residual_multiplier": 0.22, "logits_scaling": 8.0)"));
  WriteText(directory / "granite4.json",
            config("granitemoehybrid", R"("num_local_experts": 0, "shared_intermediate_size": 32,
 "position_embedding_type": "rope", "layer_types": ["attention", "attention", "attention",
 "attention"])"));
  WriteText(directory / "lfm2.json",
            config("lfm2", R"("conv_L_cache": 3, "block_ff_dim": 96, "block_multiple_of": 32,
 "block_ffn_dim_multiplier": 1.0, "full_attn_idxs": [1, 3], "norm_eps": 1e-05)"));
  WriteText(directory / "qwen3_5_moe.json",
            config("qwen3_5_moe_text", R"("head_dim": 32, "num_experts": 8,
 "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 48,
 "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
 "linear_value_head_dim": 24, "linear_conv_kernel_dim": 4, "full_attention_interval": 2)"));
  WriteText(directory / "granite4_h.json",
            config("granitemoehybrid", R"("num_local_experts": 4, "num_experts_per_tok": 2,
 "shared_intermediate_size": 32, "layer_types": ["mamba", "mamba", "attention", "mamba"],
 "mamba_n_heads": 8, "mamba_d_head": "auto", "mamba_n_groups": 2, "mamba_d_state": 16,
 "mamba_proj_bias": true, "time_step_limit": [0.0, {"__float__": "Infinity"}])"));
  WriteText(directory / "ministral3.json",
            config("ministral3", R"("head_dim": 16, "rope_parameters": {"rope_type": "yarn",
 "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 64, "mscale": 1.0,
 "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1})"));
  WriteText(directory / "mistral.json", config("mistral", R"("sliding_window": null)"));
  WriteText(directory / "phi3.json",
            config("phi3", R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope",
 "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4]},
 "original_max_position_embeddings": 1024)"));
  WriteText(directory / "qwen3_moe.json",
            config("qwen3_moe", R"("num_experts": 8, "num_experts_per_tok": 2,
 "moe_intermediate_size": 48, "norm_topk_prob": true, "decoder_sparse_step": 2,
 "mlp_only_layers": [3])"));
  WriteText(directory / "gpt_oss.json",
            config("gpt_oss", R"("num_local_experts": 8, "num_experts_per_tok": 2,
 "sliding_window": 16, "swiglu_limit": 7.0, "swiglu_alpha": 1.702, "attention_bias": true,
 "quantization_config": {"quant_method": "mxfp4"}, "layer_types": ["sliding_attention",
 "full_attention", "sliding_attention", "full_attention"])"));
  WriteText(directory / "compressed.json",
            config("llama", R"("quantization_config": {"quant_method": "compressed-tensors",
 "format": "float-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {
 "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "block",
 "block_structure": [128, 128], "symmetric": true}}}})"));
  WriteText(directory / "fp8.json",
            config("qwen3", R"("quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
 "activation_scheme": "dynamic", "weight_block_size": [128, 128],
 "modules_to_not_convert": ["lm_head"]})"));
  WriteText(directory / "olmo2.json", config("olmo2", R"("rope_theta": 500000.0)"));
}

void WriteHubSeeds(const std::filesystem::path& directory) {
  const std::string commit(40, 'c'), hash(40, 'b'), sha256(64, 'a');
  const auto list = [&](const std::string& files, const std::string& more) {
    return R"({"id": "a/b", "sha": ")" + commit + R"(", "gated": false, "cardData": {"license":
 "apache-2.0"}, "tags": ["license:mit"], )" +
           more + R"("siblings": [)" + files + "]}";
  };
  const auto small = [&](const std::string& path) {
    return R"({"rfilename": ")" + path + R"(", "size": 9, "blobId": ")" + hash + R"("})";
  };
  const auto large = [&](const std::string& path, const std::string& bytes) {
    return R"({"rfilename": ")" + path + R"(", "size": )" + bytes + R"(, "lfs": {"sha256": ")" +
           sha256 + R"(", "size": )" + bytes + R"(, "pointerSize": 133}})";
  };
  WriteText(directory / "gguf.json",
            list(small("README.md") + "," + large("m-Q4_K_M.gguf", "2500000000") + "," +
                     large("m-UD-Q8_0-00001-of-00002.gguf", "4000") + "," +
                     large("m-UD-Q8_0-00002-of-00002.gguf", "4000"),
                 ""));
  WriteText(directory / "safetensors.json",
            list(small("config.json") + "," + small("model.safetensors.index.json") + "," +
                     large("model-00001-of-00001.safetensors", "70"),
                 R"("weight_map": {"a": "model-00001-of-00001.safetensors"}, )"));
  WriteText(directory / "adapter.json",
            list(small("adapter_config.json") + "," + large("adapter_model.safetensors", "70"),
                 R"("private": true, )"));
  WriteText(directory / "path.json", list(small("../up.gguf"), ""));
  WriteText(directory / "name", "hf:Qwen/Qwen3-4B-GGUF@refs/pr/1:Q4_K_M");
  WriteText(directory / "file", "a/b@v1/Q4/m-00001-of-00002.gguf");
}

void WriteManifestSeeds(const std::filesystem::path& directory) {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const auto layer = [&](const std::string& kind) {
    return R"({"mediaType": "application/vnd.ollama.image.)" + kind + R"(", "digest": ")" + digest +
           R"(", "size": 4})";
  };
  WriteText(directory / "model.json",
            R"({"schemaVersion": 2, "layers": [)" + layer("license") + "," + layer("model") + "]}");
  WriteText(directory / "adapter.json",
            R"({"layers": [)" + layer("model") + "," + layer("adapter") + "]}");
  WriteText(directory / "up.json",
            R"({"layers": [{"mediaType": "application/vnd.ollama.image.model",
 "digest": "sha256:../../x"}]})");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  for (const char* name : {"gguf", "safetensors", "scales", "config", "hublist", "manifest"}) {
    std::filesystem::create_directories(root / name);
  }
  WriteGgufSeeds(root / "gguf");
  WriteSafetensorsSeeds(root / "safetensors");
  WriteScalesSeeds(root / "scales");
  WriteConfigSeeds(root / "config");
  WriteHubSeeds(root / "hublist");
  WriteManifestSeeds(root / "manifest");
  return 0;
}
