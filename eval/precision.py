"""Quality of precisions against float32, on real text through the engine:

    python3 -m eval.precision --banyan build/release/banyan -m MODEL [--text FILE ...] [--positions 120] \\
        f32 mixed reference:w8a8 cuda:w8a8:bf16

A setting is [DEVICE:]PRECISION[:KV]; the first is what the others are compared with. Of each position (a prefix of the
text and the token that follows it) every setting gives the logits. The table has, against the first setting: how often the best
token is the same, the mean KL divergence in bits, the rms error of the logits as a share of their spread; and each
setting's own perplexity.
"""
from __future__ import annotations

import argparse
import json
import math
import pathlib
from dataclasses import dataclass

import numpy as np

from eval.banyan import Engine

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass
class Setting:
    device: str
    precision: str
    kv_type: str

    @staticmethod
    def parse(text: str) -> Setting:
        parts = text.split(":")
        if parts[0] in ("cpu", "cuda", "reference"):
            device, parts = parts[0], parts[1:]
        else:
            device = "cpu"
        if not parts or len(parts) > 2:
            raise SystemExit(f"setting '{text}': expected [DEVICE:]PRECISION[:KV]")
        return Setting(device, parts[0], parts[1] if len(parts) == 2 else "")

    @property
    def name(self) -> str:
        return f"{self.device} {self.precision}" + (f", kv {self.kv_type}" if self.kv_type else "")

    @property
    def options(self) -> tuple[str, ...]:
        return ("--device", self.device, "--precision", self.precision, *(("--kv-type", self.kv_type) if self.kv_type else ()))


def positions(tokens: list[list[int]], count: int, longest: int) -> list[tuple[list[int], int]]:
    """(prefix, the token that follows), spread evenly over the texts and over prefixes of 16 to `longest` tokens."""
    places: list[tuple[list[int], int]] = []
    each = max(1, math.ceil(count / len(tokens)))
    for text in tokens:
        starts = np.linspace(0, max(0, len(text) - longest - 1), each).astype(int)
        for i, start in enumerate(starts):
            length = 16 + (longest - 16) * (i + 1) // each
            if start + length < len(text):
                places.append((text[start:start + length], text[start + length]))
    return places[:count]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def compare(found: np.ndarray, expected: np.ndarray, following: np.ndarray) -> dict[str, float]:
    """Figures of logits [positions, vocabulary] against expected ones."""
    p, q = log_softmax(expected), log_softmax(found)
    centred = [x - x.mean(axis=1, keepdims=True) for x in (found, expected)]
    error = np.sqrt(((centred[0] - centred[1]) ** 2).mean())
    return {"top1": float((found.argmax(1) == expected.argmax(1)).mean()),
            "kl_bits": float((np.exp(p) * (p - q)).sum(1).mean() / math.log(2)),
            "logit_error": float(error), "relative": float(error / centred[1].std()),
            "perplexity": float(np.exp(-q[np.arange(len(following)), following].mean()))}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--banyan", default=str(ROOT / "build/release/banyan"))
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--text", nargs="+", default=[str(ROOT / "README.md")] + sorted(str(f) for f in (ROOT / "docs").glob("*.md"))[:7])
    p.add_argument("--positions", type=int, default=120)
    p.add_argument("--longest", type=int, default=96, help="tokens of a prefix")
    p.add_argument("--json", help="also write the figures to this file")
    p.add_argument("settings", nargs="+")
    a = p.parse_args()
    settings = [Setting.parse(s) for s in a.settings]
    tokens = Engine(a.banyan, a.model).tokenize([pathlib.Path(f).read_text() for f in a.text])
    places = positions(tokens, a.positions, a.longest)
    following = np.array([token for _, token in places])
    print(f"{pathlib.Path(a.model).name}: {len(places)} positions of {len(tokens)} texts")
    print("| setting | same best token | KL, bits | logits' rms error | of their spread | perplexity |\n|---|---|---|---|---|---|")
    rows, expected = [], None
    for setting in settings:
        answers = Engine(a.banyan, a.model, setting.options).ids([{"kind": "logits", "ids": prefix} for prefix, _ in places])
        logits = np.array([r["last_logits"] for r in answers], dtype=np.float64)
        expected = logits if expected is None else expected
        row = compare(logits, expected, following)
        rows.append({"setting": setting.name, **row})
        print(f"| {setting.name} | {row['top1']:.1%} | {row['kl_bits']:.5f} | {row['logit_error']:.4f} | {row['relative']:.2%} | "
              f"{row['perplexity']:.3f} |", flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"model": pathlib.Path(a.model).name, "positions": len(places), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
