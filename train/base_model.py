"""A GGUF file of the `llama` architecture as a Transformers model, for training adapters on the weights that the engine
has."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from train.gguf import read_gguf, rewrite_gguf

_OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_INSIDE = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def config_of(metadata: dict) -> dict:
    """Arguments of LlamaConfig."""
    if metadata["general.architecture"] != "llama":
        raise ValueError(f"expected architecture llama, found {metadata['general.architecture']}")
    get = lambda key, default=None: metadata.get(f"llama.{key}", default)
    heads = get("attention.head_count")
    return dict(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=get("embedding_length"),
        intermediate_size=get("feed_forward_length"),
        num_hidden_layers=get("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=get("attention.head_count_kv", heads),
        head_dim=get("attention.key_length", get("embedding_length") // heads),
        max_position_embeddings=get("context_length"),
        rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
        rope_theta=get("rope.freq_base", 10000.0),
        bos_token_id=metadata.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=metadata.get("tokenizer.ggml.eos_token_id"),
    )


def rows_by_halves(x: np.ndarray, head_dim: int) -> np.ndarray:
    """Q and K rows: row 2 i + s of a head in the file is row s * head_dim / 2 + i of Transformers."""
    return x.reshape(-1, head_dim // 2, 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


def rows_by_pairs(x: np.ndarray, head_dim: int) -> np.ndarray:
    """The way back."""
    return x.reshape(-1, 2, head_dim // 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


def transformers_tensors(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """(LlamaConfig arguments, float32 tensors under Transformers' names)"""
    metadata, tensors = read_gguf(path)
    config, out = config_of(metadata), {}
    for name, x in tensors.items():
        if name in _OUTSIDE:
            out[_OUTSIDE[name]] = x
            continue
        _, layer, part, _ = name.split(".")
        if part in ("attn_q", "attn_k"):
            x = rows_by_halves(x, config["head_dim"])
        out[f"model.layers.{layer}.{_INSIDE[part]}.weight"] = x
    config["tie_word_embeddings"] = "lm_head.weight" not in out
    return config, out


def write_model(source: Path, path: Path, tensors: dict[str, np.ndarray]) -> None:
    """The model of `source` with other weights, under Transformers' names: its metadata, matrices as Q8_0."""
    head_dim = config_of(read_gguf(source)[0])["head_dim"]
    names = {v: k for k, v in _OUTSIDE.items()} | {f"{v}.weight": k for k, v in _INSIDE.items()}
    out = {}
    for name in transformers_tensors(source)[1]:
        x = tensors[name]
        if not name.startswith("model.layers."):
            out[names[name]] = x
            continue
        layer, part = name.removeprefix("model.layers.").split(".", 1)
        if names[part] in ("attn_q", "attn_k"):
            x = rows_by_pairs(x, head_dim)
        out[f"blk.{layer}.{names[part]}.weight"] = x
    rewrite_gguf(source, path, out)


def load_model(path: Path, dtype):
    """A LlamaForCausalLM on the CPU."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config, tensors = transformers_tensors(path)
    theta = config.pop("rope_theta")
    try:
        made = LlamaConfig(**config, rope_parameters=dict(rope_type="default", rope_theta=theta))  # Transformers 5
        if made.rope_parameters["rope_theta"] != theta:
            raise TypeError
    except (TypeError, AttributeError, KeyError):
        made = LlamaConfig(**config, rope_theta=theta)
    made._attn_implementation = "sdpa"
    model = LlamaForCausalLM(made)
    missing, unexpected = model.load_state_dict(
        {k: torch.from_numpy(np.array(v)) for k, v in tensors.items()}, strict=False
    )
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"{path}: tensors missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.to(dtype)
