"""Weights of a leg → one GGUF file, and optionally a Hugging Face directory:

    python3 -m train.export --in train/runs/model --gguf models/banyan-reader-15m.gguf [--hf train/runs/hf]
"""
from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from train import safetensors, weights
from train.gguf import U32, write_gguf
from train.tokenizer import CHAT_TEMPLATE, SPECIALS, Tokenizer

NAME = "banyan-reader-15m"
# ours → (GGUF, Hugging Face), per layer
_LAYER = {"attn_norm": ("attn_norm", "input_layernorm"), "q": ("attn_q", "self_attn.q_proj"), "k": ("attn_k", "self_attn.k_proj"), "v": ("attn_v", "self_attn.v_proj"),
          "q_norm": ("attn_q_norm", "self_attn.q_norm"), "k_norm": ("attn_k_norm", "self_attn.k_norm"), "o": ("attn_output", "self_attn.o_proj"),
          "ffn_norm": ("ffn_norm", "post_attention_layernorm"), "gate": ("ffn_gate", "mlp.gate_proj"), "up": ("ffn_up", "mlp.up_proj"), "down": ("ffn_down", "mlp.down_proj")}


def gguf_tensors(c: dict, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """No `output.weight`: the embedding is tied, and readers fall back to it."""
    out = {"token_embd.weight": w["embedding"], "output_norm.weight": w["final_norm"]}
    for i in range(c["layers"]):
        out |= {f"blk.{i}.{gguf}.weight": w[ours][i] for ours, (gguf, _) in _LAYER.items()}
    return out


def hf_tensors(c: dict, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    out = {"model.embed_tokens.weight": w["embedding"], "model.norm.weight": w["final_norm"]}
    for i in range(c["layers"]):
        out |= {f"model.layers.{i}.{hf}.weight": w[ours][i] for ours, (_, hf) in _LAYER.items()}
    return out


def gguf_metadata(c: dict, tok: Tokenizer) -> dict[str, object]:
    return {
        "general.architecture": "qwen3", "general.type": "model", "general.name": NAME, "general.size_label": "15M", "general.license": "apache-2.0",
        "general.description": "Reads short answers and attributes out of a text. Trained from scratch on generated text.",
        "general.file_type": U32(7), "general.quantization_version": U32(2), "general.alignment": U32(32),
        "qwen3.block_count": U32(c["layers"]), "qwen3.context_length": U32(c["context"]), "qwen3.embedding_length": U32(c["dim"]),
        "qwen3.feed_forward_length": U32(c["hidden"]), "qwen3.attention.head_count": U32(c["heads"]), "qwen3.attention.head_count_kv": U32(c["kv_heads"]),
        "qwen3.attention.key_length": U32(c["head_dim"]), "qwen3.attention.value_length": U32(c["head_dim"]), "qwen3.rope.freq_base": float(c["rope_theta"]),
        "qwen3.attention.layer_norm_rms_epsilon": float(c["eps"]), "qwen3.vocab_size": U32(c["vocab"]),
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tok.tokens,
        "tokenizer.ggml.token_type": [3 if t in SPECIALS else 1 for t in tok.tokens], "tokenizer.ggml.merges": [f"{a} {b}" for a, b in tok.merges],
        "tokenizer.ggml.bos_token_id": U32(tok.end_of_text), "tokenizer.ggml.eos_token_id": U32(tok.im_end), "tokenizer.ggml.padding_token_id": U32(tok.end_of_text),
        "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": False, "tokenizer.chat_template": CHAT_TEMPLATE}


def hf_config(c: dict, tok: Tokenizer) -> dict:
    return dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, attention_dropout=0.0, bos_token_id=None, eos_token_id=tok.im_end,
                pad_token_id=tok.end_of_text, head_dim=c["head_dim"], hidden_act="silu", hidden_size=c["dim"], initializer_range=0.02, intermediate_size=c["hidden"],
                max_position_embeddings=c["context"], num_attention_heads=c["heads"], num_hidden_layers=c["layers"], num_key_value_heads=c["kv_heads"],
                rms_norm_eps=c["eps"], rope_theta=c["rope_theta"], rope_scaling=None, sliding_window=None, use_sliding_window=False, tie_word_embeddings=True,
                torch_dtype="bfloat16", use_cache=True, vocab_size=c["vocab"])


def export_hf(folder: Path, c: dict, w: dict[str, np.ndarray], tokenizer: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.write_bf16(folder / "model.safetensors", hf_tensors(c, w))
    (folder / "config.json").write_text(json.dumps(hf_config(c, Tokenizer.load(tokenizer)), indent=1) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--in", dest="source", type=Path, required=True)
    p.add_argument("--gguf", type=Path)
    p.add_argument("--hf", type=Path)
    p.add_argument("--tokenizer", type=Path, default=Path("train/tokenizer"))
    a = p.parse_args()
    c, _, w = weights.load(a.source)
    if a.gguf:
        a.gguf.parent.mkdir(parents=True, exist_ok=True)
        write_gguf(a.gguf, gguf_metadata(c, Tokenizer.load(a.tokenizer)), gguf_tensors(c, w))
        print(hashlib.sha256(a.gguf.read_bytes()).hexdigest(), a.gguf, a.gguf.stat().st_size, "bytes")
    if a.hf:
        export_hf(a.hf, c, w, a.tokenizer)
        print(a.hf)


if __name__ == "__main__":
    main()
