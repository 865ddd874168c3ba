"""GGUF version 3: metadata, tensor table, aligned data. Writes float32, Q8_0 and Q4_0; reads F16, Q4_1, Q5_0, Q4_K and
Q6_K too."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ALIGNMENT = 32
F32, F16, Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K = 0, 1, 2, 3, 6, 8, 12, 14  # tensor types
_U32, _I32, _FLOAT, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9  # value types


@dataclass(frozen=True)
class U32:
    """A metadata integer; plain Python ints are refused, because GGUF readers look at the stored width."""

    value: int


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(v: object) -> bytes:
    if isinstance(v, bool):
        return struct.pack("<IB", _BOOL, v)
    if isinstance(v, U32):
        return struct.pack("<II", _U32, v.value)
    if isinstance(v, float):
        return struct.pack("<If", _FLOAT, v)
    if isinstance(v, str):
        return struct.pack("<I", _STRING) + _string(v)
    if isinstance(v, list) and all(isinstance(x, str) for x in v):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(v)) + b"".join(map(_string, v))
    if isinstance(v, list) and all(isinstance(x, int) for x in v):
        return struct.pack("<IIQ", _ARRAY, _I32, len(v)) + np.array(v, "<i4").tobytes()
    if isinstance(v, list) and all(isinstance(x, float) for x in v):
        return struct.pack("<IIQ", _ARRAY, _FLOAT, len(v)) + np.array(v, "<f4").tobytes()
    raise TypeError(f"no GGUF type for {type(v).__name__}")


def quantize_q8_0(x: np.ndarray) -> bytes:
    """[rows, columns] → blocks of 32 along a row: float16 scale, 32 signed bytes. Columns must be a multiple of 32."""
    if x.shape[-1] % 32:
        raise ValueError(f"Q8_0 needs rows of a multiple of 32, found {x.shape[-1]}")
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1) / 127.0).astype(np.float16)
    inverse = np.divide(1.0, scale.astype(np.float32), out=np.zeros(len(scale), np.float32), where=scale != 0)
    out = np.empty(len(blocks), np.dtype([("scale", "<f2"), ("q", "i1", 32)]))
    out["scale"], out["q"] = scale, np.clip(np.rint(blocks * inverse[:, None]), -127, 127)
    return out.tobytes()


def quantize_q4_0(x: np.ndarray) -> bytes:
    """Blocks of 32 along a row: float16 scale, the largest value / -8; codes 0 … 15 stand for -8 … 7 scales, as
    `dequantize_q4` lays them out."""
    if x.shape[-1] % 32:
        raise ValueError(f"Q4_0 needs rows of a multiple of 32, found {x.shape[-1]}")
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    scale = (largest / -8).astype(np.float16)
    wide = scale.astype(np.float32)
    codes = np.divide(blocks, wide, out=np.zeros_like(blocks), where=wide != 0)
    codes = (np.clip(np.rint(codes), -8, 7) + 8).astype(np.uint8)
    out = np.empty(len(blocks), np.dtype([("scale", "<f2"), ("q", "u1", 16)]))
    out["scale"], out["q"] = scale[:, 0], codes[:, :16] | codes[:, 16:] << 4
    return out.tobytes()


def dequantize_q8_0(raw: bytes, shape: tuple[int, ...]) -> np.ndarray:
    blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("q", "i1", 32)]))
    return (blocks["q"].astype(np.float32) * blocks["scale"].astype(np.float32)[:, None]).reshape(shape)


def dequantize_q4(raw: bytes, shape: tuple[int, ...], has_minimum: bool) -> np.ndarray:
    """Blocks of 32: float16 scale, with Q4_1 a float16 minimum, 16 bytes: values 0 … 15 in the low halves, 16 … 31 in
    the high."""
    fields = [("scale", "<f2")] + ([("minimum", "<f2")] if has_minimum else []) + [("q", "u1", 16)]
    blocks = np.frombuffer(raw, np.dtype(fields))
    codes = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype(np.float32)
    scale = blocks["scale"].astype(np.float32)[:, None]
    values = codes * scale + blocks["minimum"].astype(np.float32)[:, None] if has_minimum else (codes - 8) * scale
    return values.reshape(shape)


def dequantize_q5_0(raw: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """As Q4_0, with a fifth bit of every value in 32 bits before the halves: codes 0 … 31 stand for -16 … 15 scales."""
    blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("high", "<u4"), ("q", "u1", 16)]))
    low = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1)
    high = (blocks["high"][:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(np.uint8)
    return (((low | high << 4).astype(np.float32) - 16) * blocks["scale"].astype(np.float32)[:, None]).reshape(shape)


def dequantize_q4_k(raw: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Blocks of 256: float16 scale and minimum, eight pairs of six bits (scale, minimum of 32 values each) in 12 bytes,
    128 bytes of codes.

    The pairs: bytes 0 … 3 have the scales 0 … 3, bytes 4 … 7 the minima 0 … 3, each in its low six bits; byte 8 + i has
    the low four bits of scale and minimum 4 + i, whose high two bits are the high two of bytes i and 4 + i. Codes: 32
    bytes for 64 values, the first 32 in the low halves.
    """
    blocks = np.frombuffer(
        raw, np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("six", "u1", 12), ("q", "u1", (4, 32))])
    )
    a, b, c = blocks["six"][:, :4], blocks["six"][:, 4:8], blocks["six"][:, 8:]
    scales = (
        np.concatenate([a & 63, (c & 15) | (a >> 6) << 4], axis=1).astype(np.float32)
        * blocks["scale"].astype(np.float32)[:, None]
    )
    minima = (
        np.concatenate([b & 63, (c >> 4) | (b >> 6) << 4], axis=1).astype(np.float32)
        * blocks["minimum"].astype(np.float32)[:, None]
    )
    codes = np.stack([blocks["q"] & 15, blocks["q"] >> 4], axis=2).reshape(-1, 8, 32).astype(np.float32)
    return (codes * scales[:, :, None] - minima[:, :, None]).reshape(shape)


def dequantize_q6_k(raw: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Blocks of 256: 128 bytes of low four bits, 64 of high two bits, 16 signed scales of 16 values each, float16 scale
    of these.

    A half of 128 values has 64 low and 32 high bytes: values 0 … 63 in the low halves of the low bytes, 64 … 127 in the
    high ones; value 32 g + l has bits 2 g and 2 g + 1 of high byte l. Codes 0 … 63 stand for -32 … 31."""
    blocks = np.frombuffer(
        raw, np.dtype([("low", "u1", (2, 64)), ("high", "u1", (2, 32)), ("scales", "i1", 16), ("scale", "<f2")])
    )
    low = np.concatenate([blocks["low"] & 15, blocks["low"] >> 4], axis=2).reshape(-1, 2, 4, 32)
    high = blocks["high"][:, :, None] >> np.arange(0, 8, 2, dtype=np.uint8)[None, None, :, None] & 3
    codes = (low | high << 4).astype(np.float32).reshape(-1, 16, 16) - 32
    scales = blocks["scales"].astype(np.float32) * blocks["scale"].astype(np.float32)[:, None]
    return (codes * scales[:, :, None]).reshape(shape)


# Tensor type → (values of a block, its bytes, decoder).
_DECODERS = {
    F32: (1, 4, lambda raw, shape: np.frombuffer(raw, "<f4").reshape(shape)),
    F16: (1, 2, lambda raw, shape: np.frombuffer(raw, "<f2").astype(np.float32).reshape(shape)),
    Q4_0: (32, 18, lambda raw, shape: dequantize_q4(raw, shape, False)),
    Q4_1: (32, 20, lambda raw, shape: dequantize_q4(raw, shape, True)),
    Q5_0: (32, 22, dequantize_q5_0),
    Q8_0: (32, 34, dequantize_q8_0),
    Q4_K: (256, 144, dequantize_q4_k),
    Q6_K: (256, 210, dequantize_q6_k),
}


_ENCODERS = {Q8_0: quantize_q8_0, Q4_0: quantize_q4_0}


def write_gguf(path: Path, metadata: dict[str, object], tensors: dict[str, np.ndarray], kind: int = Q8_0) -> None:
    """Matrices become `kind` (Q8_0, Q4_0), vectors stay float32. Tensors are float32 arrays, [out, in] as in
    PyTorch."""
    _write(path, len(metadata), b"".join(_string(k) + _value(v) for k, v in metadata.items()), tensors, kind)


def rewrite_gguf(source: Path, path: Path, tensors: dict[str, np.ndarray]) -> None:
    """As write_gguf, with the metadata of another file, byte for byte."""
    data = source.read_bytes()
    _write(path, struct.unpack_from("<Q", data, 16)[0], data[24 : _parse(source, data)[2]], tensors, Q8_0)


def _write(path: Path, keys: int, metadata: bytes, tensors: dict[str, np.ndarray], kind: int) -> None:
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), keys), metadata]
    body, offset = [], 0
    for name, x in tensors.items():
        raw = _ENCODERS[kind](x) if x.ndim == 2 else np.ascontiguousarray(x, "<f4").tobytes()
        dims = x.shape[::-1]  # GGUF lists the fastest dimension first
        head.append(
            _string(name)
            + struct.pack("<I", len(dims))
            + struct.pack(f"<{len(dims)}Q", *dims)
            + struct.pack("<IQ", kind if x.ndim == 2 else F32, offset)
        )
        raw += b"\0" * (-len(raw) % ALIGNMENT)
        body.append(raw)
        offset += len(raw)
    start = b"".join(head)
    path.write_bytes(start + b"\0" * (-len(start) % ALIGNMENT) + b"".join(body))


def read_gguf(path: Path) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """(metadata, float32 tensors); value and tensor types that are not named above are refused."""
    return _parse(path, path.read_bytes())[:2]


def tensor_table(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    """By name, what decodes a tensor to float32: a few at a time need little memory beside the file."""
    with path.open("rb") as f:
        return _parse(path, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), lazily=True)[1]


def read_metadata(path: Path) -> dict[str, object]:
    with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _parse(path, data, with_tensors=False)[0]


def _parse(
    path: Path, data: bytes | mmap.mmap, with_tensors: bool = True, lazily: bool = False
) -> tuple[dict[str, object], dict, int]:
    """With where the metadata ends. `lazily`: tensors are functions that decode."""
    at = 0

    def take(fmt: str):
        nonlocal at
        out = struct.unpack_from("<" + fmt, data, at)
        at += struct.calcsize("<" + fmt)
        return out if len(out) > 1 else out[0]

    def text() -> str:
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size : at].decode()

    simple = {
        _U32: lambda: take("I"),
        _I32: lambda: take("i"),
        _FLOAT: lambda: take("f"),
        _BOOL: lambda: bool(take("B")),
        _STRING: text,
    }

    def value(kind: int):
        if kind == _ARRAY:
            element, size = take("IQ")
            return [simple[element]() for _ in range(size)]
        return simple[kind]()

    if data[:4] != b"GGUF":
        raise ValueError(f"{path}: not a GGUF file")
    at = 4
    _, tensor_count, key_count = take("IQQ")
    metadata = {}
    for _ in range(key_count):
        key = text()
        metadata[key] = value(take("I"))
    metadata_end, table = at, []
    for _ in range(tensor_count if with_tensors else 0):
        name = text()
        shape = tuple(take("Q") for _ in range(take("I")))[::-1]
        table.append((name, shape, *take("IQ")))
    start = at + -at % ALIGNMENT
    tensors = {}
    for name, shape, kind, offset in table:
        if kind not in _DECODERS:
            raise ValueError(f"{path}: tensor '{name}' has type {kind}, which is not read here")
        values, size, decode = _DECODERS[kind]
        end = start + offset + int(np.prod(shape)) // values * size
        made = lambda first=start + offset, end=end, shape=shape, decode=decode: decode(data[first:end], shape)
        tensors[name] = made if lazily else made()
    return metadata, tensors, metadata_end
