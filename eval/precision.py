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
        last = max(0, len(text) - longest - 1)
        for i in range(each):
            start, length = last * i // max(1, each - 1), 16 + (longest - 16) * (i + 1) // each
            if start + length < len(text):
                places.append((text[start:start + length], text[start + length]))
    return places[:count]


def log_softmax(logits: list[float]) -> list[float]:
    largest = max(logits)
    total = math.log(math.fsum(math.exp(x - largest) for x in logits)) + largest
    return [x - total for x in logits]


def compare(found: list[list[float]], expected: list[list[float]], following: list[int]) -> dict[str, float]:
    """Figures of logits [positions][vocabulary] against expected ones. The mean of a position's logits says nothing: it does not count."""
    same, divergence, squares, spread, surprise, values = 0, 0.0, 0.0, 0.0, 0.0, 0
    for mine, theirs, token in zip(found, expected, following, strict=True):
        same += max(range(len(mine)), key=mine.__getitem__) == max(range(len(theirs)), key=theirs.__getitem__)
        p, q = log_softmax(theirs), log_softmax(mine)
        divergence += math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q))
        surprise -= q[token]
        mean, other = math.fsum(mine) / len(mine), math.fsum(theirs) / len(theirs)
        squares += math.fsum((a - mean - b + other) ** 2 for a, b in zip(mine, theirs))
        spread += math.fsum((b - other) ** 2 for b in theirs)
        values += len(mine)
    count = len(following)
    return {"top1": same / count, "kl_bits": divergence / count / math.log(2), "logit_error": math.sqrt(squares / values),
            "relative": math.sqrt(squares / spread), "perplexity": math.exp(surprise / count)}


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
    following = [token for _, token in places]
    print(f"{pathlib.Path(a.model).name}: {len(places)} positions of {len(tokens)} texts")
    print("| setting | same best token | KL, bits | logits' rms error | of their spread | perplexity |\n|---|---|---|---|---|---|")
    rows, expected = [], None
    for setting in settings:
        answers = Engine(a.banyan, a.model, setting.options).ids([{"kind": "logits", "ids": prefix} for prefix, _ in places])
        logits = [answer["last_logits"] for answer in answers]
        expected = logits if expected is None else expected
        row = compare(logits, expected, following)
        rows.append({"setting": setting.name, **row})
        print(f"| {setting.name} | {row['top1']:.1%} | {row['kl_bits']:.5f} | {row['logit_error']:.4f} | {row['relative']:.2%} | "
              f"{row['perplexity']:.3f} |", flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"model": pathlib.Path(a.model).name, "positions": len(places), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
