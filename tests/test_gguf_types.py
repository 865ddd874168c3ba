#!/usr/bin/env python3
"""Every quantised type of src/tensor against gguf-py's dequantisation of the same pseudo-random blocks.

Computes the rows of kExpected in src/tensor/quantization_test.cc with the PyPI package `gguf` and compares them;
--print writes them, for a new type. Without the package it says so and does nothing.
Usage: test_gguf_types.py [--print]
"""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src/tensor/quantization_test.cc"
# (byte within a block, bits that stay, bits that are set): scales are made finite and of ordinary size.
HALF_AT = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
           "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64]}
TAMED = {"IQ1_M": [(55, 0x8F, 0x20)], "MXFP4": [(0, 0x07, 0x78)]}


def blocks_of(name: str, seed: int, count: int, size: int) -> bytearray:
    data = bytearray()
    for _ in range(count * size):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        data.append(seed >> 24)
    tamed = TAMED.get(name, [(at + 1, 0x83, 0x20) for at in HALF_AT.get(name, [0])])
    for block in range(count):
        for at, stays, is_set in tamed:
            data[block * size + at] = (data[block * size + at] & stays) | is_set
    return data


def fnv(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main() -> int:
    try:
        import gguf
        import numpy
    except ImportError:
        print("gguf_types: skipped, the package gguf is not installed")
        return 0
    rows = re.findall(r"\{DType::k(\w+),\s*(\d+)u,\s*(\d+),\s*0x([0-9a-f]+)ull,\s*\{([^}]*)\}\}", SOURCE.read_text())
    wrong = 0 if rows else 1
    for name, seed, count, expected_hash, some in rows:
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        data = numpy.frombuffer(bytes(blocks_of(name, int(seed), int(count), size)), dtype=numpy.uint8)
        values = gguf.quants.dequantize(data.reshape(1, -1), kind).astype(numpy.float32).reshape(-1)
        found_hash = fnv(values.tobytes())
        found = [float(values[i]).hex() + "f" for i in (0, 1, 17, -1)]
        if "--print" in sys.argv:
            print(f"    {{DType::k{name}, {seed}u, {count}, 0x{found_hash:016x}ull, {{{', '.join(found)}}}}},")
        listed = [float.fromhex(text.strip().rstrip("f")) for text in some.split(",")]
        if int(expected_hash, 16) != found_hash or listed != [float(values[i]) for i in (0, 1, 17, -1)]:
            wrong += 1
            print(f"FAIL {name}: gguf-py gives the hash 0x{found_hash:016x}", file=sys.stderr)
    print(f"gguf_types: {len(rows)} types, {wrong} wrong", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
