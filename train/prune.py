"""The start of the second edition: SmolLM2-135M with its reading adapter, cut to twelve layers, narrower feed-forward parts and a vocabulary of 8192.

    python3 -m train.prune --model SMOLLM2.gguf --adapter models/smollm2-reader --examples FILE.jsonl.gz --out train/runs/pruned

Layers are kept whole: first and last ones, and the middle sparsely (of a few choices the one that leaves the least loss on
text before training). Of the feed-forward units those are kept that write most into the stream on training texts. A new token's embedding is the row of the same string where the old vocabulary has it, else the mean of its parts.
"""
from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from train import safetensors, weights
from train.base_model import transformers_tensors
from train.gemma import ARCHITECTURE, load_gemma
from train.gguf import read_metadata
from train.model import Config, Decoder, dense_mask, matrix_shapes, norm_shapes, rms_norm
from train.sample import DEFAULT_INSTRUCTION
from train.tokenizer import SPECIALS, Tokenizer, load_tokenizer

LAYERS = [0, 1, 2, 4, 7, 10, 13, 16, 20, 24, 27, 29]
HIDDEN = 896
SPACE = "\u0120"
_NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
          "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}


def adapter_terms(folder: Path) -> dict[str, np.ndarray]:
    """What an adapter adds to each matrix, scale · B A, under Transformers' names."""
    c = json.loads((folder / "adapter_config.json").read_text())
    scale = c["lora_alpha"] / (c["r"] ** 0.5 if c.get("use_rslora") else c["r"])
    lora = safetensors.read(folder / "adapter_model.safetensors")
    return {name.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight"): scale * lora[name.replace("lora_A", "lora_B")] @ a
            for name, a in lora.items() if ".lora_A." in name}


@torch.no_grad()
def merge_adapter_into(model: Decoder, folder: Path) -> None:
    for name, term in adapter_terms(folder).items():
        _, _, layer, part = name.removesuffix(".weight").split(".", 3)
        ours = next(o for o, theirs in _NAMES.items() if theirs == part)
        getattr(model, ours)[int(layer)] += torch.from_numpy(term).to(model.embedding.device)


def load_large(path: Path, adapter: Path | None, context: int = 4096) -> Decoder:
    """A `llama` or `gemma3` GGUF as our network, all of it."""
    if read_metadata(path)["general.architecture"] == ARCHITECTURE:
        if adapter:
            raise ValueError("adapters are merged into llama models only")
        return load_gemma(path, context)
    c, tensors = transformers_tensors(path)
    config = Config(vocab=c["vocab_size"], dim=c["hidden_size"], layers=c["num_hidden_layers"], heads=c["num_attention_heads"], kv_heads=c["num_key_value_heads"],
                    head_dim=c["head_dim"], hidden=c["intermediate_size"], rope_theta=c["rope_theta"], eps=c["rms_norm_eps"], context=context, qk_norm=False)
    model = Decoder(config)
    with torch.no_grad():
        model.embedding.copy_(torch.from_numpy(np.array(tensors["model.embed_tokens.weight"])))
        model.final_norm.copy_(torch.from_numpy(np.array(tensors["model.norm.weight"])))
        for ours, theirs in _NAMES.items():
            for i in range(config.layers):
                getattr(model, ours)[i] = torch.from_numpy(np.array(tensors[f"model.layers.{i}.{theirs}.weight"]))
    if adapter:
        merge_adapter_into(model, adapter)
    return model


def embedding_rows(new: Tokenizer, old: Tokenizer, rows: np.ndarray) -> np.ndarray:
    """A whole word without its space takes the mean with the word that has one: behind a space of its own it stands for that, too."""
    out = np.empty((len(new.tokens), rows.shape[1]), np.float32)
    for i, token in enumerate(new.tokens):
        if token in old.ids and i < len(SPECIALS):
            out[i] = rows[old.ids[token]]
        elif token in old.ids:
            spaced = old.ids.get(SPACE + token) if token.isalpha() and len(token) > 2 else None
            out[i] = rows[old.ids[token]] if spaced is None else (rows[old.ids[token]] + rows[spaced]) / 2
        elif token.isalpha() and SPACE + token in old.ids:
            out[i] = rows[old.ids[SPACE + token]]
        else:
            parts = [old.ids[c] for c in old.parts(token) if c in old.ids]
            out[i] = rows[parts].mean(0) if parts else rows.mean(0)
    return out


@torch.no_grad()
def unit_weight(model: Decoder, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """([layers, hidden] mean size of what each feed-forward unit adds to the stream, [layers] how far a layer turns the stream: 1 - cosine)"""
    c, device = model.c, model.embedding.device
    x = F.embedding(ids, model.embedding)
    pos = torch.arange(ids.shape[1], device=device)[None].expand_as(ids)
    zero = torch.zeros_like(ids)
    mask, cos, sin = dense_mask(zero, zero, zero), model.cos[pos][:, :, None], model.sin[pos][:, :, None]
    names = [n for n in (*matrix_shapes(c), *norm_shapes(c)) if n != "final_norm"]
    units, turns = [], []
    for i in range(c.layers):
        w = {n: getattr(model, n)[i] for n in names}
        full = model.block(x, w, cos, sin, mask, c, model.attend)
        half = model.block(x, {**w, "down": torch.zeros_like(w["down"])}, cos, sin, mask, c, model.attend)
        h = rms_norm(half, w["ffn_norm"], c.eps)
        acts = F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"])
        units.append(acts.abs().mean((0, 1)) * w["down"].norm(dim=0))
        turns.append(1 - F.cosine_similarity(x, full, dim=-1)[:, 1:].mean())
        x = full
    return torch.stack(units), torch.stack(turns)


def cut(large: Decoder, units: torch.Tensor, layers: list[int], hidden: int, embedding: np.ndarray) -> dict[str, np.ndarray]:
    """The tensors that are left: `layers` of all, and of their feed-forward parts the `hidden` units of greatest weight."""
    at = lambda name: getattr(large, name).detach().cpu().numpy()
    out = {n: at(n)[layers] for n in (*matrix_shapes(large.c), *norm_shapes(large.c)) if n != "final_norm"}
    keep = [np.sort(np.argsort(-units[i].cpu().numpy(), kind="stable")[:hidden]) for i in layers]
    for name in ("gate", "up"):
        out[name] = np.stack([x[k] for x, k in zip(out[name], keep)])
    out["down"] = np.stack([x[:, k] for x, k in zip(out["down"], keep)])
    return out | {"final_norm": at("final_norm"), "embedding": embedding}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--adapter", type=Path, default=Path("models/smollm2-reader"))
    p.add_argument("--examples", type=Path, required=True)
    p.add_argument("--tokenizer", type=Path, default=Path("train/tokenizer8k"))
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--texts", type=int, default=32)
    p.add_argument("--length", type=int, default=320, help="tokens of a text that are read")
    p.add_argument("--layers", type=int, nargs="*", default=LAYERS)
    p.add_argument("--hidden", type=int, default=HIDDEN)
    a = p.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    old, new = load_tokenizer(a.model), Tokenizer.load(a.tokenizer)
    large = load_large(a.model, a.adapter).to(device)
    rows: list[list[int]] = []
    with gzip.open(a.examples, "rt", encoding="utf-8") as f:
        for n, e in enumerate(map(json.loads, f)):
            ids = old.encode(f"system\n{DEFAULT_INSTRUCTION}\nuser\n{e['context']}\n\nQuestion: {e['question']}\nassistant\n{e['answer']}")
            if n % 97 == 0 and e["split"] == "train" and len(ids) >= a.length and len(rows) < a.texts:
                rows.append(ids[-a.length:])
    units, turns = unit_weight(large, torch.tensor(rows, device=device))
    print("turn of each layer:", " ".join(f"{t:.3f}" for t in turns.tolist()), flush=True)
    c = large.c.as_dict() | dict(vocab=len(new.tokens), layers=len(a.layers), hidden=a.hidden)
    tensors = cut(large, units, a.layers, a.hidden, embedding_rows(new, old, large.embedding.detach().cpu().numpy()))
    weights.save(a.out, c, dict(progress=0.0, log=[]), tensors)
    print(f"{sum(x.size for x in tensors.values())} parameters in {a.out}", flush=True)


if __name__ == "__main__":
    main()
