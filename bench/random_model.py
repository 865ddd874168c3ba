#!/usr/bin/env python3
"""A Hugging Face directory at the shape of Qwen3-8B with random bf16 weights and a real tokenizer, for timing whole
jobs.

  bench/random_model.py --tokenizer path/to/qwen3 -o /tmp/random-8b
  banyan ask -m /tmp/random-8b --device cuda pages.jsonl -o answers.jsonl --max-new 4

Needs PyTorch and safetensors, 17 GB of disk, and a GPU unless one is patient. The same arguments give the same weights.
"""

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 4096, 36, 32, 8, 128, 12288, 151936
CONFIG = dict(
    architectures=["Qwen3ForCausalLM"],
    model_type="qwen3",
    hidden_size=HIDDEN,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=HEAD_DIM,
    intermediate_size=FFN,
    vocab_size=VOCAB,
    max_position_embeddings=40960,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    tie_word_embeddings=False,
    hidden_act="silu",
    torch_dtype="bfloat16",
    eos_token_id=151645,
)


def layer_shapes(layer: int) -> dict[str, tuple[int, ...]]:
    prefix = f"model.layers.{layer}."
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
        "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
        "self_attn.q_norm": (HEAD_DIM,),
        "self_attn.k_norm": (HEAD_DIM,),
        "mlp.gate_proj": (FFN, HIDDEN),
        "mlp.up_proj": (FFN, HIDDEN),
        "mlp.down_proj": (HIDDEN, FFN),
        "input_layernorm": (HIDDEN,),
        "post_attention_layernorm": (HIDDEN,),
    }
    return {f"{prefix}{name}.weight": shape for name, shape in shapes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "config.json").write_text(json.dumps(CONFIG))
    for file in options.tokenizer.glob("tokenizer*.json"):
        shutil.copy(file, options.output)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(options.seed)
    parts = {
        "embedding": {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)},
        "logits": {"lm_head.weight": (VOCAB, HIDDEN)},
    }
    parts |= {f"layer{layer}": layer_shapes(layer) for layer in range(LAYERS)}
    places = {}
    for part, shapes in parts.items():
        tensors = {}
        for name, shape in shapes.items():
            if len(shape) == 1:  # norms
                tensors[name] = torch.ones(shape, dtype=torch.bfloat16)
            else:
                values = 0.02 * torch.randn(shape, generator=generator, device=device)
                tensors[name] = values.to(torch.bfloat16).cpu()
            places[name] = f"{part}.safetensors"
        save_file(tensors, options.output / f"{part}.safetensors")
    index = {"metadata": {}, "weight_map": places}
    (options.output / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    main()
