"""Weights between legs and for the exporters: bf16 values in a few flat files, with the configuration beside them.

Folder: `config.json` (model configuration and training state), `weights.0.bin`, `weights.1.bin`, … of at most PART bytes that
are one stream of little-endian bf16 values, the tensors of `tensor_shapes` in order. numpy alone reads it (bf16 = the upper half of float32).
"""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

PART = 15 << 20


def tensor_shapes(c: dict) -> dict[str, tuple[int, ...]]:
    """Name → shape for a configuration dictionary (the fields of `train.model.Config`)."""
    l, d, q, kv, f, h = c["layers"], c["dim"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"], c["hidden"], c["head_dim"]
    return {"embedding": (c["vocab"], d), "q": (l, q, d), "k": (l, kv, d), "v": (l, kv, d), "o": (l, d, q), "gate": (l, f, d), "up": (l, f, d),
            "down": (l, d, f), "attn_norm": (l, d), "ffn_norm": (l, d), **({"q_norm": (l, h), "k_norm": (l, h)} if c.get("qk_norm", True) else {}), "final_norm": (d,)}


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 → bf16 bits (uint16), nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def save(folder: Path, config: dict, state: dict, tensors: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shapes = tensor_shapes(config)
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name}: expected {shape}, found {tensors[name].shape}")
    stream = np.concatenate([to_bf16(tensors[n]).ravel() for n in shapes]).tobytes()
    for old in folder.glob("weights.*.bin"):
        old.unlink()
    for n, start in enumerate(range(0, len(stream), PART)):
        (folder / f"weights.{n}.bin").write_bytes(stream[start:start + PART])
    (folder / "config.json").write_text(json.dumps(dict(model=config, state=state), indent=1) + "\n")


def load(folder: Path) -> tuple[dict, dict, dict[str, np.ndarray]]:
    """(model configuration, training state, float32 tensors)"""
    meta = json.loads((folder / "config.json").read_text())
    parts = sorted(folder.glob("weights.*.bin"), key=lambda p: int(p.name.split(".")[1]))
    stream = np.frombuffer(b"".join(p.read_bytes() for p in parts), np.uint16)
    shapes = tensor_shapes(meta["model"])
    need = sum(int(np.prod(s)) for s in shapes.values())
    if len(stream) != need:
        raise ValueError(f"{folder}: expected {need} weights, found {len(stream)}")
    out, start = {}, 0
    for name, shape in shapes.items():
        n = int(np.prod(shape))
        out[name] = from_bf16(stream[start:start + n]).reshape(shape)
        start += n
    return meta["model"], meta["state"], out
