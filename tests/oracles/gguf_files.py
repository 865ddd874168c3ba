"""Tiny GGUF files by the package gguf: its quantisation where it has one, otherwise random blocks.

A decoder of Transformers gets the dequantised values as its weights, so that its logits are those of the file.
"""
import gguf
import numpy as np
import torch

# Architecture, class of Transformers, type of the matrices, hidden size (K-quants need rows of 256).
FILES = [("llama", "Llama", "F16", 64), ("llama", "Llama", "Q4_1", 64), ("llama", "Llama", "Q5_0", 64),
         ("llama", "Llama", "Q8_0", 64), ("llama", "Llama", "Q2_K", 256), ("llama", "Llama", "Q4_K", 256),
         ("llama", "Llama", "Q6_K", 256), ("llama", "Llama", "IQ4_XS", 256),
         ("qwen3", "Qwen3", "BF16", 64), ("qwen3", "Qwen3", "Q4_0", 64), ("qwen3", "Qwen3", "Q5_1", 64),
         ("qwen3", "Qwen3", "IQ4_NL", 64), ("qwen3", "Qwen3", "Q3_K", 256), ("qwen3", "Qwen3", "Q5_K", 256)]
# Where a random block has its float16 scale, and its float16 minimum with the factor that centres the values.
SCALES = {"Q2_K": (80, 82, 1.5), "Q3_K": (108, None, 0), "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5),
          "Q6_K": (208, None, 0), "IQ4_NL": (0, None, 0), "IQ4_XS": (0, None, 0)}
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    """model.layers.0.mlp.up_proj.weight -> blk.0.ffn_up.weight"""
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, module = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{NAMES[module]}.weight"


def random_blocks(shape, type_name, spread, source):
    """Rows of blocks [shape[0], bytes] whose values have about the standard deviation `spread`."""
    kind = gguf.GGMLQuantizationType[type_name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    at, minimum_at, centre = SCALES[type_name]
    data = source.integers(0, 256, (shape[0] * shape[1] // block, size), dtype=np.uint8)

    def set_scales(scales):
        data[:, at:at + 2] = scales.astype(np.float16)[:, None].view(np.uint8)
        if minimum_at is not None:
            data[:, minimum_at:minimum_at + 2] = (centre * scales).astype(np.float16)[:, None].view(np.uint8)

    set_scales(np.ones(len(data)))
    unit = gguf.quants.dequantize(data, kind).std()
    set_scales(source.uniform(0.7, 1.3, len(data)) * spread / unit)
    return data.reshape(shape[0], -1)


def interleave(rows, heads):
    """Rows of Q and K as GGUF files of Llama have them: the halves of every head alternate."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def straighten(rows, heads):
    """The inverse of interleave."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def write(model, architecture, type_name, path, seed):
    """Writes the file, gives the model the file's weights, and returns the types of its tensors."""
    config = model.config
    source = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    add_words(writer, config)

    types = set()
    for name, parameter in model.named_parameters():
        rows = parameter.detach().numpy()
        if rows.ndim == 1:
            writer.add_tensor(gguf_name(name), rows)
            types.add("F32")
            continue
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if architecture != "llama":
            heads = None
        chosen = type_name
        if rows.shape[1] % gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]][0]:
            chosen = "Q8_0"  # as llama.cpp does where rows are too short
        kind = gguf.GGMLQuantizationType[chosen]
        if chosen in SCALES:
            data = random_blocks(rows.shape, chosen, float(rows.std()), source)
        else:
            data = gguf.quants.quantize(interleave(rows, heads) if heads else rows, kind)
        values = gguf.quants.dequantize(data, kind).astype(np.float32).reshape(rows.shape)
        parameter.data = torch.from_numpy(np.ascontiguousarray(straighten(values, heads) if heads else values))
        writer.add_tensor(gguf_name(name), data, raw_dtype=kind)
        types.add(chosen)
    close(writer)
    return sorted(types)


def add_words(writer, config):
    """A vocabulary of the right size: three control tokens, then the first characters of the byte alphabet."""
    alphabet = [chr(n) for n in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))]
    tokens = ["<pad>", "<s>", "</s>"] + alphabet[:config.vocab_size - 4] + ["th"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
