"""Quality of precisions against float32, on real text through the engine:

    python3 -m eval.precision --banyan build/release/banyan -m MODEL [-m MODEL ...] [--text FILE ...] \\
        [--positions 120] f32 mixed reference:w8a8 cuda:w8a8:bf16 cuda:mixed+compact

A setting is [DEVICE:]PRECISION[:KV][+compact | +converted]; the first is what the others are compared with. Of each position (a prefix of the
text and the token that follows it) every setting gives the logits. The table has, against the first setting: how often the best
token is the same, the mean KL divergence in bits, the rms error of the logits as a share of their spread; and each
setting's own perplexity.
"""
from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import pathlib
import re
import subprocess
from dataclasses import dataclass

from eval.banyan import Engine

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass
class Setting:
    device: str
    precision: str
    kv_type: str
    weights: str = ""  # how quantised ones are kept (--keep-weights)

    @staticmethod
    def parse(text: str) -> Setting:
        words, _, weights = text.partition("+")
        parts = words.split(":")
        if parts[0] in ("cpu", "cuda", "reference"):
            device, parts = parts[0], parts[1:]
        else:
            device = "cpu"
        if not parts or len(parts) > 2 or weights not in ("", "compact", "converted"):
            raise SystemExit(f"setting '{text}': expected [DEVICE:]PRECISION[:KV][+compact | +converted]")
        return Setting(device, parts[0], parts[1] if len(parts) == 2 else "", weights)

    @property
    def name(self) -> str:
        return f"{self.device} {self.precision}" + (f", kv {self.kv_type}" if self.kv_type else "") + (f", {self.weights}" if self.weights else "")

    @property
    def options(self) -> tuple[str, ...]:
        return ("--device", self.device, "--precision", self.precision, *(("--kv-type", self.kv_type) if self.kv_type else ()),
                *(("--keep-weights", self.weights) if self.weights else ()))


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


def compare_one(mine: list[float], theirs: list[float], token: int) -> tuple[int, float, float, float, float, int]:
    """Of one position: whether the best token is the same, KL divergence (nats), squares of errors, squares of spread, surprise, values.
    The mean of a position's logits says nothing: it does not count."""
    p, q = log_softmax(theirs), log_softmax(mine)
    mean, other = math.fsum(mine) / len(mine), math.fsum(theirs) / len(theirs)
    return (max(range(len(mine)), key=mine.__getitem__) == max(range(len(theirs)), key=theirs.__getitem__),
            math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)), math.fsum((a - mean - b + other) ** 2 for a, b in zip(mine, theirs)),
            math.fsum((b - other) ** 2 for b in theirs), -q[token], len(mine))


def figures(rows: list[tuple[int, float, float, float, float, int]]) -> dict[str, float]:
    same, divergence, squares, spread, surprise, values = (math.fsum(column) for column in zip(*rows))
    count = len(rows)
    return {"top1": same / count, "kl_bits": divergence / count / math.log(2), "logit_error": math.sqrt(squares / values),
            "relative": math.sqrt(squares / spread), "perplexity": math.exp(surprise / count)}


def compare(found: list[list[float]], expected: list[list[float]], following: list[int]) -> dict[str, float]:
    """Figures of logits [positions][vocabulary] against expected ones."""
    return figures([compare_one(*row) for row in zip(found, expected, following, strict=True)])


def compare_lines(row: tuple[str, str, int]) -> tuple[int, float, float, float, float, int]:
    found, expected, token = row
    return compare_one(json.loads(found)["last_logits"], json.loads(expected)["last_logits"], token)


def logits_lines(engine: Engine, prefixes: list[list[int]]) -> list[str]:
    """One line of output a prefix, in their order: of large vocabularies, reading them takes longer than computing them, so
    that several processes do it."""
    rows = "".join(json.dumps({"id": str(n), "kind": "logits", "ids": ids}) + "\n" for n, ids in enumerate(prefixes))
    done = subprocess.run([engine.binary, "ids", "-m", engine.model, *engine.options], input=rows, capture_output=True, text=True)
    lines = {}
    for line in done.stdout.splitlines():
        number = re.match(r'\{"id":"(\d+)"', line)
        if number is None or '"last_logits"' not in line:
            raise RuntimeError(f"banyan ids: {line[:300]}")
        lines[int(number.group(1))] = line
    if len(lines) != len(prefixes):
        raise RuntimeError(f"banyan ids answered {len(lines)} of {len(prefixes)} rows, exit code {done.returncode}: {done.stderr[-500:]}")
    return [lines[n] for n in range(len(prefixes))]


def measure(banyan: str, model: str, texts: list[str], settings: list[Setting], count: int, longest: int) -> dict:
    """Prints the table of one model; its figures."""
    tokens = Engine(banyan, model).tokenize(texts)
    places = positions(tokens, count, longest)
    name = pathlib.Path(model).name
    print(f"{name}: {len(places)} positions of {len(tokens)} texts")
    print("| setting | same best token | KL, bits | logits' rms error | of their spread | perplexity |\n|---|---|---|---|---|---|", flush=True)
    rows, expected = [], None
    with multiprocessing.Pool() as pool:
        for setting in settings:
            found = logits_lines(Engine(banyan, model, setting.options), [prefix for prefix, _ in places])
            expected = found if expected is None else expected
            row = figures(pool.map(compare_lines, list(zip(found, expected, (token for _, token in places))), chunksize=1))
            rows.append({"setting": setting.name, **row})
            print(f"| {setting.name} | {row['top1']:.1%} | {row['kl_bits']:.5f} | {row['logit_error']:.4f} | {row['relative']:.2%} | "
                  f"{row['perplexity']:.3f} |", flush=True)
    return {"model": name, "positions": len(places), "rows": rows}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--banyan", default=str(ROOT / "build/release/banyan"))
    p.add_argument("-m", "--model", required=True, action="append", help="may be given several times")
    p.add_argument("--text", nargs="+", default=[str(ROOT / "README.md")] + sorted(str(f) for f in (ROOT / "docs").glob("*.md"))[:7])
    p.add_argument("--positions", type=int, default=120)
    p.add_argument("--longest", type=int, default=96, help="tokens of a prefix")
    p.add_argument("--json", help="also write the figures to this file, a list with an entry for each model")
    p.add_argument("settings", nargs="+")
    a = p.parse_args()
    settings = [Setting.parse(s) for s in a.settings]
    texts = [pathlib.Path(f).read_text() for f in a.text]
    tables = [measure(a.banyan, model, texts, settings, a.positions, a.longest) for model in a.model]
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
