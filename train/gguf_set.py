"""Sets a string in a GGUF file's metadata; tensors and all other keys stay byte for byte.

    python3 -m train.gguf_set models/banyan-reader-34m.gguf banyan.card '{"copies": true}' --out /tmp/new.gguf
    python3 -m train.gguf_set model.gguf banyan.card @banyan.json

A value that begins with @ is a file. Without --out the file is replaced. `banyan.card` must be JSON
(docs/model-card.md).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import struct
from pathlib import Path

STRING, ARRAY, U32 = 8, 9, 4
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # value type → bytes


def _after_string(data: bytes, at: int) -> int:
    return at + 8 + struct.unpack_from("<Q", data, at)[0]


def _after_value(data: bytes, kind: int, at: int) -> int:
    if kind == STRING:
        return _after_string(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    element, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if element in SIZES:
        return at + SIZES[element] * count
    for _ in range(count):
        at = _after_value(data, element, at)
    return at


def with_string(data: bytes, key: str, text: str) -> bytes:
    """The file's bytes with the key set: in its place when it is there, else after all others."""
    magic, version, tensors, keys = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"expected a GGUF file of version 2 or 3, found {magic!r}, version {version}")
    name, value = key.encode(), text.encode()
    entry = struct.pack("<Q", len(name)) + name + struct.pack("<IQ", STRING, len(value)) + value
    alignment, at, out, found = 32, 24, [], False
    for _ in range(keys):
        begin, name_end = at, _after_string(data, at)
        (kind,) = struct.unpack_from("<I", data, name_end)
        at = _after_value(data, kind, name_end + 4)
        this = data[begin + 8 : name_end]
        if this == b"general.alignment" and kind == U32:
            (alignment,) = struct.unpack_from("<I", data, name_end + 4)
        out.append(entry if this == name else data[begin:at])
        found |= this == name
    if not found:
        out.append(entry)
    table = at
    for _ in range(tensors):
        at = _after_string(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dimensions + 12
    head = struct.pack("<4sIQQ", magic, version, tensors, keys + (not found)) + b"".join(out) + data[table:at]
    return head + b"\0" * (-len(head) % alignment) + data[at + -at % alignment :]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=Path)
    p.add_argument("key")
    p.add_argument("value", help="the text, or @FILE")
    p.add_argument("--out", type=Path, help="default: the file itself")
    a = p.parse_args()
    text = Path(a.value[1:]).read_text().strip() if a.value.startswith("@") else a.value
    if a.key == "banyan.card" and not isinstance(json.loads(text), dict):
        p.error("banyan.card: expected a JSON object")
    out = a.out or a.file
    data = with_string(a.file.read_bytes(), a.key, text)
    beside = out.with_name(out.name + ".new")
    beside.write_bytes(data)
    os.replace(beside, out)
    print(hashlib.sha256(data).hexdigest(), out, len(data), "bytes")


if __name__ == "__main__":
    main()
