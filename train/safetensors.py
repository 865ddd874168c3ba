"""Safetensors files, read and written with numpy: an 8-byte header length, a JSON header, raw little-endian data."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 → bf16 bits (uint16), nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_bf16(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, x in tensors.items():
        header[name] = dict(dtype="BF16", shape=list(x.shape), data_offsets=[offset, offset + 2 * x.size])
        offset += 2 * x.size
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"".join(to_bf16(x).tobytes() for x in tensors.values()))


def read(path: Path) -> dict[str, np.ndarray]:
    """All tensors as float32; BF16 and F32 only."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    out = {}
    for name, info in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        raw = data[8 + size + info["data_offsets"][0] : 8 + size + info["data_offsets"][1]]
        flat = (
            from_bf16(np.frombuffer(raw, np.uint16))
            if info["dtype"] == "BF16"
            else np.frombuffer(raw, {"F32": "<f4"}[info["dtype"]])
        )
        out[name] = flat.reshape(info["shape"])
    return out
