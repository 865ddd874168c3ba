"""Two states of one adapter, weighed: `python3 -m train.adapter_mean EARLIER LATER --share 0.75 --out FOLDER`.

For a training that goes on from an adapter (`skeleton_lora --begin-with`): each factor becomes `(1 - share) * earlier +
share * later`. The states lie in one valley, so the state between them forgets less of what the earlier one knew. The
rest of FOLDER (configuration, card) is LATER's. Choose the share on documents to tune on.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from train.safetensors import read, write_bf16

WEIGHTS = "adapter_model.safetensors"


def between(earlier: Path, later: Path, share: float, out: Path) -> None:
    a, b = read(earlier / WEIGHTS), read(later / WEIGHTS)
    if {n: x.shape for n, x in a.items()} != {n: x.shape for n, x in b.items()}:
        raise SystemExit(f"{earlier} and {later}: expected tensors of the same names and shapes, found others")
    shutil.copytree(later, out, dirs_exist_ok=True)
    write_bf16(out / WEIGHTS, {n: (1.0 - share) * a[n] + share * b[n] for n in sorted(a)})


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("earlier", type=Path)
    p.add_argument("later", type=Path)
    p.add_argument("--share", type=float, default=0.75, help="of the later one")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    between(a.earlier, a.later, a.share, a.out)


if __name__ == "__main__":
    main()
