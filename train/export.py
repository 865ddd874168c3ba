"""The network of `train.model` as a GGUF file of the architecture `llama`, whose Q and K rows stand in pairs."""

from __future__ import annotations

import numpy as np

from train.base_model import rows_by_pairs
from train.gguf import Q4_0, Q8_0, U32
from train.tokenizer import CHAT_TEMPLATE, SPECIALS, Tokenizer

NAME = "banyan-reader-34m"
DESCRIPTION = "Reads short answers and attributes out of a text. Cut from SmolLM2-135M-Instruct and trained on."
_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}  # ours → GGUF


def tensor_shapes(c: dict) -> dict[str, tuple[int, ...]]:
    """Name → shape for a configuration dictionary (the fields of `train.model.Config`)."""
    l, d, f, q, kv = c["layers"], c["dim"], c["hidden"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    return {
        "embedding": (c["vocab"], d),
        "q": (l, q, d),
        "k": (l, kv, d),
        "v": (l, kv, d),
        "o": (l, d, q),
        "gate": (l, f, d),
        "up": (l, f, d),
        "down": (l, d, f),
        "attn_norm": (l, d),
        "ffn_norm": (l, d),
        "final_norm": (d,),
    }


def gguf_tensors(c: dict, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """No `output.weight`: the embedding is tied, and readers fall back to it."""
    out = {"token_embd.weight": w["embedding"], "output_norm.weight": w["final_norm"]}
    for i in range(c["layers"]):
        layer = {ours: w[ours][i] for ours in _LAYER}
        layer |= {n: rows_by_pairs(layer[n], c["head_dim"]) for n in ("q", "k")}
        out |= {f"blk.{i}.{_LAYER[ours]}.weight": x for ours, x in layer.items()}
    return out


def gguf_metadata(
    c: dict, tok: Tokenizer, kind: int = Q8_0, name: str = NAME, description: str = DESCRIPTION
) -> dict[str, object]:
    count = sum(int(np.prod(s)) for s in tensor_shapes(c).values())
    return {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": name,
        "general.size_label": f"{count / 1e6:.0f}M",
        "general.license": "apache-2.0",
        "general.description": description,
        "general.file_type": U32({Q8_0: 7, Q4_0: 2}[kind]),
        "general.quantization_version": U32(2),
        "general.alignment": U32(32),
        "llama.block_count": U32(c["layers"]),
        "llama.context_length": U32(c["context"]),
        "llama.embedding_length": U32(c["dim"]),
        "llama.feed_forward_length": U32(c["hidden"]),
        "llama.attention.head_count": U32(c["heads"]),
        "llama.attention.head_count_kv": U32(c["kv_heads"]),
        "llama.attention.key_length": U32(c["head_dim"]),
        "llama.attention.value_length": U32(c["head_dim"]),
        "llama.rope.freq_base": float(c["rope_theta"]),
        "llama.rope.dimension_count": U32(c["head_dim"]),
        "llama.attention.layer_norm_rms_epsilon": float(c["eps"]),
        "llama.vocab_size": U32(c["vocab"]),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tok.tokens,
        "tokenizer.ggml.token_type": [3 if t in SPECIALS else 1 for t in tok.tokens],
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in tok.merges],
        "tokenizer.ggml.bos_token_id": U32(tok.end_of_text),
        "tokenizer.ggml.eos_token_id": U32(tok.im_end),
        "tokenizer.ggml.padding_token_id": U32(tok.end_of_text),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
