#!/usr/bin/env python3
"""Layers that keep states, from safetensors in FP8 with a scale for each block: the same bits as from the values that
codes and scales stand for, or in 16 bits from these rounded to bf16, on cpu and reference. The models are those of tests/oracles/hybrids.
Usage: test_states_fp8.py BANYAN"""
import bisect
import concurrent.futures
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

BANYAN = sys.argv[1]
ORACLES = Path(__file__).resolve().parents[1] / "oracles" / "hybrids"
BLOCK = (16, 16)
RUNS = (("cpu", "f32"), ("cpu", "mixed"), ("reference", "mixed"), ("reference", "w8a8"))
# Which matrices published FP8 files have in 8 bits; routers, convolutions and gates of one row stay plain.
CODED = ("in_proj", "in_proj_qkv", "in_proj_qkvz", "in_proj_z", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj",
         "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "input_linear", "output_linear")


def e4m3(code: int) -> float:
    exponent, mantissa = code >> 3 & 15, code & 7
    return mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)


POSITIVE = [e4m3(code) for code in range(127)]  # the last code is no number


def code_of(value: float) -> int:
    at = bisect.bisect_left(POSITIVE, abs(value))
    if at == len(POSITIVE) or at > 0 and abs(value) - POSITIVE[at - 1] < POSITIVE[at] - abs(value):
        at -= 1
    return at | (128 if value < 0 else 0)


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def coded(shape: list, values: tuple) -> tuple[bytes, list, list, list]:
    """Codes, the shape of the scales, the scales, and the values that they stand for."""
    rows, columns = shape
    grid = [-(-rows // BLOCK[0]), -(-columns // BLOCK[1])]
    largest = [1e-12] * (grid[0] * grid[1])
    places = [row // BLOCK[0] * grid[1] + column // BLOCK[1] for row in range(rows) for column in range(columns)]
    for place, value in zip(places, values):
        largest[place] = max(largest[place], abs(value))
    scales = [float32(value / 448) for value in largest]
    codes = [code_of(value / scales[place]) for place, value in zip(places, values)]
    stand_for = [float32((-1 if code & 128 else 1) * POSITIVE[code & 127] * scales[place])
                 for place, code in zip(places, codes)]
    return bytes(codes), grid, scales, stand_for


def bf16(value: float) -> bytes:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16)


def write(file: Path, tensors: dict) -> None:
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make(original: Path, folder: Path) -> int:
    """Folders `codes`, with codes and scales, `values`, which they stand for, and `bf16`. How many matrices have codes."""
    data = (original / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    models, count = {"codes": {}, "values": {}, "bf16": {}}, 0
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        shape, raw = entry["shape"], data[begin:end]
        for tensors in models.values():
            tensors[name] = ("F32", shape, raw)
        if len(shape) != 2 or name.split(".")[-2] not in CODED:
            continue
        count += 1
        made, grid, scales, stand_for = coded(shape, struct.unpack(f"<{len(raw) // 4}f", raw))
        models["codes"][name] = ("F8_E4M3", shape, made)
        models["codes"][name + "_scale_inv"] = ("F32", grid, struct.pack(f"<{len(scales)}f", *scales))
        models["values"][name] = ("F32", shape, struct.pack(f"<{len(stand_for)}f", *stand_for))
        models["bf16"][name] = ("BF16", shape, b"".join(map(bf16, stand_for)))
    config = json.loads((original / "config.json").read_text())
    for kind, tensors in models.items():
        (folder / kind).mkdir()
        for file in original.glob("*.json"):
            shutil.copy(file, folder / kind)
        write(folder / kind / "model.safetensors", tensors)
    config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": list(BLOCK)}
    (folder / "codes" / "config.json").write_text(json.dumps(config))
    return count


def answers(model: Path, text: str, device: str, precision: str) -> str:
    done = subprocess.run([BANYAN, "ids", "-m", str(model), "--kv-memory", "64M", "--device", device, "--precision", precision],
                          input=text, capture_output=True, text=True, timeout=100)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-300:]}"


def compare(original: Path) -> list[str]:
    prompts = json.loads((original / "golden.json").read_text())["prompts"][:2]
    rows = [{"id": f"{kind} {i}", "kind": kind, "ids": prompt["ids"], **more} for i, prompt in enumerate(prompts)
            for kind, more in (("logits", {}), ("greedy", {"max_new": 5, "logprobs": True}))]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        count = make(original, Path(folder))
        if count < 8:
            wrong.append(f"{original.name}: {count} matrices have codes")
        for device, precision in RUNS:
            same = "values" if precision == "f32" else "bf16"
            found, expected = (answers(Path(folder, kind), text, device, precision) for kind in ("codes", same))
            if found != expected or not found.startswith("{"):
                wrong.append(f"{original.name} {device} {precision}: {found[:200]} instead of {expected[:200]}")
    return wrong


models = sorted(path.parent for path in ORACLES.glob("*/golden.json"))
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    failures = sum(pool.map(compare, models), [])
for failure in failures:
    print("FAIL", failure)
print(f"{len(models)} models in FP8, {len(failures)} differ from their values")
sys.exit(1 if failures or len(models) < 7 else 0)
