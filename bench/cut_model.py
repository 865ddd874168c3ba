"""A model without some of its layers: a draft model of the same vocabulary, where there is no smaller one.

    python3 -m bench.cut_model MODEL.gguf OUT.gguf --layers 0,1,10,11

Nothing is trained, so what it guesses is worse than what a draft model of that size could: it shows what guesses cost,
and is a lower bound of what they give.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from train.gguf import Q4_0, U32, read_gguf, write_gguf

_LAYER = re.compile(r"blk\.(\d+)\.(.*)")


def cut(source: Path, target: Path, layers: list[int]) -> None:
    metadata, tensors = read_gguf(source)
    family = metadata["general.architecture"]
    count = metadata[f"{family}.block_count"]
    if not layers or min(layers) < 0 or max(layers) >= count:
        raise ValueError(f"layers: expected numbers from 0 to {count - 1}, found {layers}")
    kept = {}
    for name, tensor in tensors.items():
        inside = _LAYER.fullmatch(name)
        if inside is None:
            kept[name] = tensor
        elif int(inside[1]) in layers:
            kept[f"blk.{layers.index(int(inside[1]))}.{inside[2]}"] = tensor
    # Whole numbers of the head are 32 bits wide wherever this project writes them.
    head = {k: U32(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in metadata.items()}
    write_gguf(target, dict(head, **{f"{family}.block_count": U32(len(layers))}), kept, Q4_0)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--layers", required=True, help="numbers from 0, in their order")
    a = p.parse_args()
    cut(a.model, a.out, [int(n) for n in a.layers.split(",")])


if __name__ == "__main__":
    main()
