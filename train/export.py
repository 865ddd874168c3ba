"""Weights of a leg → one GGUF file, and optionally a Hugging Face directory:

    python3 -m train.export --in train/runs/model --gguf train/runs/banyan-reader-15m.gguf [--hf train/runs/hf]

A model with norms on queries and keys is written as `qwen3`, one without as `llama`, whose Q and K rows stand in pairs.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from train import safetensors, weights
from train.base_model import rows_by_pairs
from train.gguf import Q4_0, Q8_0, U32, write_gguf
from train.tokenizer import CHAT_TEMPLATE, SPECIALS, Tokenizer

NAME = "banyan-reader-15m"
DESCRIPTION = "Reads short answers and attributes out of a text. Trained from scratch on generated text."
# ours → (GGUF, Hugging Face), per layer
_LAYER = {"attn_norm": ("attn_norm", "input_layernorm"), "q": ("attn_q", "self_attn.q_proj"), "k": ("attn_k", "self_attn.k_proj"), "v": ("attn_v", "self_attn.v_proj"),
          "q_norm": ("attn_q_norm", "self_attn.q_norm"), "k_norm": ("attn_k_norm", "self_attn.k_norm"), "o": ("attn_output", "self_attn.o_proj"),
          "ffn_norm": ("ffn_norm", "post_attention_layernorm"), "gate": ("ffn_gate", "mlp.gate_proj"), "up": ("ffn_up", "mlp.up_proj"), "down": ("ffn_down", "mlp.down_proj")}


def gguf_tensors(c: dict, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """No `output.weight`: the embedding is tied, and readers fall back to it."""
    out = {"token_embd.weight": w["embedding"], "output_norm.weight": w["final_norm"]}
    for i in range(c["layers"]):
        layer = {ours: w[ours][i] for ours in _LAYER if ours in w}
        if not c.get("qk_norm", True):
            layer |= {n: rows_by_pairs(layer[n], c["head_dim"]) for n in ("q", "k")}
        out |= {f"blk.{i}.{_LAYER[ours][0]}.weight": x for ours, x in layer.items()}
    return out


def hf_tensors(c: dict, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    out = {"model.embed_tokens.weight": w["embedding"], "model.norm.weight": w["final_norm"]}
    for i in range(c["layers"]):
        out |= {f"model.layers.{i}.{hf}.weight": w[ours][i] for ours, (_, hf) in _LAYER.items() if ours in w}
    return out


def gguf_metadata(c: dict, tok: Tokenizer, kind: int = Q8_0, name: str = NAME, description: str = DESCRIPTION,
                  card: str = "") -> dict[str, object]:
    """`card`: what the model says about itself, as JSON (docs/model-card.md)."""
    arch = "qwen3" if c.get("qk_norm", True) else "llama"
    count = sum(int(np.prod(s)) for s in weights.tensor_shapes(c).values())
    return {
        "general.architecture": arch, "general.type": "model", "general.name": name, "general.size_label": f"{count / 1e6:.0f}M", "general.license": "apache-2.0",
        "general.description": description,
        "general.file_type": U32({Q8_0: 7, Q4_0: 2}[kind]), "general.quantization_version": U32(2), "general.alignment": U32(32),
        f"{arch}.block_count": U32(c["layers"]), f"{arch}.context_length": U32(c["context"]), f"{arch}.embedding_length": U32(c["dim"]),
        f"{arch}.feed_forward_length": U32(c["hidden"]), f"{arch}.attention.head_count": U32(c["heads"]), f"{arch}.attention.head_count_kv": U32(c["kv_heads"]),
        f"{arch}.attention.key_length": U32(c["head_dim"]), f"{arch}.attention.value_length": U32(c["head_dim"]), f"{arch}.rope.freq_base": float(c["rope_theta"]),
        **({f"{arch}.rope.dimension_count": U32(c["head_dim"])} if arch == "llama" else {}),
        f"{arch}.attention.layer_norm_rms_epsilon": float(c["eps"]), f"{arch}.vocab_size": U32(c["vocab"]),
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tok.tokens,
        "tokenizer.ggml.token_type": [3 if t in SPECIALS else 1 for t in tok.tokens], "tokenizer.ggml.merges": [f"{a} {b}" for a, b in tok.merges],
        "tokenizer.ggml.bos_token_id": U32(tok.end_of_text), "tokenizer.ggml.eos_token_id": U32(tok.im_end), "tokenizer.ggml.padding_token_id": U32(tok.end_of_text),
        "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": False, "tokenizer.chat_template": CHAT_TEMPLATE,
        **({"banyan.card": card} if card else {})}


def hf_config(c: dict, tok: Tokenizer) -> dict:
    family = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3") if c.get("qk_norm", True) else dict(architectures=["LlamaForCausalLM"], model_type="llama")
    return dict(family, attention_bias=False, attention_dropout=0.0, bos_token_id=None, eos_token_id=tok.im_end,
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
    p.add_argument("--kind", choices=("q8_0", "q4_0"), default="q8_0", help="of the GGUF's matrices")
    p.add_argument("--name", default=NAME)
    p.add_argument("--description", default=DESCRIPTION)
    p.add_argument("--card", type=Path, default=None, help="JSON of what the model says about itself (docs/model-card.md)")
    a = p.parse_args()
    card = json.dumps(json.loads(a.card.read_text())) if a.card else ""
    c, _, w = weights.load(a.source)
    if a.gguf:
        a.gguf.parent.mkdir(parents=True, exist_ok=True)
        kind = {"q8_0": Q8_0, "q4_0": Q4_0}[a.kind]
        write_gguf(a.gguf, gguf_metadata(c, Tokenizer.load(a.tokenizer), kind, a.name, a.description, card), gguf_tensors(c, w), kind)
        print(hashlib.sha256(a.gguf.read_bytes()).hexdigest(), a.gguf, a.gguf.stat().st_size, "bytes")
    if a.hf:
        export_hf(a.hf, c, w, a.tokenizer)
        if card:
            (a.hf / "banyan.json").write_text(card + "\n")
        print(a.hf)


if __name__ == "__main__":
    main()
