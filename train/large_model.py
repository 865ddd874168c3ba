"""A `llama` GGUF file as the network of `train.model`, and adapters merged into it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from train import safetensors
from train.base_model import transformers_tensors
from train.model import Config, Decoder

TRANSFORMERS_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def adapter_terms(folder: Path) -> dict[str, np.ndarray]:
    """What an adapter adds to each matrix, scale · B A, under Transformers' names."""
    c = json.loads((folder / "adapter_config.json").read_text())
    scale = c["lora_alpha"] / (c["r"] ** 0.5 if c.get("use_rslora") else c["r"])
    lora = safetensors.read(folder / "adapter_model.safetensors")
    return {
        name.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight"): scale
        * lora[name.replace("lora_A", "lora_B")]
        @ a
        for name, a in lora.items()
        if ".lora_A." in name
    }


@torch.no_grad()
def merge_adapter_into(model: Decoder, folder: Path) -> None:
    for name, term in adapter_terms(folder).items():
        _, _, layer, part = name.removesuffix(".weight").split(".", 3)
        ours = next(o for o, theirs in TRANSFORMERS_NAMES.items() if theirs == part)
        getattr(model, ours)[int(layer)] += torch.from_numpy(term).to(model.embedding.device)


def load_large(path: Path, adapter: Path | None, context: int = 4096) -> Decoder:
    """A `llama` GGUF file as `train.model.Decoder`, with an adapter merged into its matrices."""
    c, tensors = transformers_tensors(path)
    config = Config(
        vocab=c["vocab_size"],
        dim=c["hidden_size"],
        layers=c["num_hidden_layers"],
        heads=c["num_attention_heads"],
        kv_heads=c["num_key_value_heads"],
        head_dim=c["head_dim"],
        hidden=c["intermediate_size"],
        rope_theta=c["rope_theta"],
        eps=c["rms_norm_eps"],
        context=context,
    )
    model = Decoder(config)
    with torch.no_grad():
        model.embedding.copy_(torch.from_numpy(np.array(tensors["model.embed_tokens.weight"])))
        model.final_norm.copy_(torch.from_numpy(np.array(tensors["model.norm.weight"])))
        for ours, theirs in TRANSFORMERS_NAMES.items():
            for i in range(config.layers):
                getattr(model, ours)[i] = torch.from_numpy(np.array(tensors[f"model.layers.{i}.{theirs}.weight"]))
    if adapter:
        merge_adapter_into(model, adapter)
    return model
