"""A GGUF file of the `gemma3` architecture as the network of `train.model`, with the weights that the engine computes with.

The file's norm weights have Gemma's 1 added already. Queries and keys are in halves, as Transformers has them. Window pattern, the windows' RoPE base and the
embedding's factor are in no key of the file: they are the family's (`src/model/families.cc`).
"""
from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from train.gguf import read_gguf
from train.model import Config, Decoder

ARCHITECTURE = "gemma3"
FULL_EVERY, WINDOW_THETA = 6, 10_000.0
_NAMES = {"attn_norm": "attn_norm", "attn_post_norm": "post_attention_norm", "ffn_norm": "ffn_norm", "ffn_post_norm": "post_ffw_norm", "q_norm": "attn_q_norm",
          "k_norm": "attn_k_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


def config_of(metadata: dict, context: int) -> Config:
    get = lambda key: metadata[f"{ARCHITECTURE}.{key}"]
    if get("attention.value_length") != get("attention.key_length"):
        raise ValueError("keys and values of different length")
    return Config(vocab=len(metadata["tokenizer.ggml.tokens"]), dim=get("embedding_length"), layers=get("block_count"), heads=get("attention.head_count"),
                  kv_heads=get("attention.head_count_kv"), head_dim=get("attention.key_length"), hidden=get("feed_forward_length"), rope_theta=get("rope.freq_base"),
                  eps=get("attention.layer_norm_rms_epsilon"), context=context, qk_norm=True, gemma=True, window=get("attention.sliding_window"), full_every=FULL_EVERY,
                  window_theta=WINDOW_THETA)


def load_gemma(path: Path, context: int = 4096) -> Decoder:
    metadata, tensors = read_gguf(path)
    if "output.weight" in tensors:
        raise ValueError(f"{path}: expected tied embeddings")
    config = config_of(metadata, context)
    model = Decoder(config)
    with torch.no_grad():
        model.embedding.copy_(torch.from_numpy(np.array(tensors["token_embd.weight"])))
        model.final_norm.copy_(torch.from_numpy(np.array(tensors["output_norm.weight"])))
        for ours, theirs in _NAMES.items():
            for i in range(config.layers):
                getattr(model, ours)[i] = torch.from_numpy(np.array(tensors[f"blk.{i}.{theirs}.weight"]))
    return model
