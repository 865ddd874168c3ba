"""Quality of precisions against float32, on real text through the engine, and llama.cpp's beside them:

    python3 -m eval.precision --banyan build/release/banyan -m MODEL [-m MODEL ...] [--text FILE ...] \\
        [--positions 120] [--bos] [--threads 2] [--library libllama.so] f32 mixed mixed:q8 llama cuda:w8a8
            cuda:mixed+compact

A setting is [DEVICE:]PRECISION[:KV][+compact | +converted], or llama[:f32 | :f16 | :q8], which is llama.cpp with the
same file, the same tokens and this type of KV (bench/rivals/llama_library.py). The first is what the others are
compared with. Of each position (a prefix of the text and the token that follows it) every setting gives the logits. The
table has, against the first setting: how often the best token is the same, the mean KL divergence in bits, the rms
error of the logits, also as a share of their spread; and each setting's own perplexity.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import multiprocessing.pool
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.rivals.llama_library import KV_TYPES, Llama, find_library
from eval.banyan import Engine

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass
class Setting:
    device: str  # or llama, which has no precision of its own
    precision: str
    kv_type: str
    weights: str = ""  # how quantised ones are kept (--keep-weights)

    @staticmethod
    def parse(text: str) -> Setting:
        words, _, weights = text.partition("+")
        parts = words.split(":")
        if parts[0] == "llama":
            if len(parts) > 2 or weights or parts[-1] not in ("llama", *KV_TYPES):
                raise SystemExit(f"setting '{text}': expected llama or llama:KV, of {', '.join(KV_TYPES)}")
            return Setting("llama", "", parts[1] if len(parts) == 2 else "")
        if parts[0] in ("cpu", "cuda", "reference"):
            device, parts = parts[0], parts[1:]
        else:
            device = "cpu"
        if not parts or len(parts) > 2 or weights not in ("", "compact", "converted"):
            raise SystemExit(f"setting '{text}': expected [DEVICE:]PRECISION[:KV][+compact | +converted]")
        return Setting(device, parts[0], parts[1] if len(parts) == 2 else "", weights)

    @property
    def name(self) -> str:
        program = "llama.cpp" if self.device == "llama" else f"{self.device} {self.precision}"
        return (
            program + (f", kv {self.kv_type}" if self.kv_type else "") + (f", {self.weights}" if self.weights else "")
        )

    @property
    def options(self) -> tuple[str, ...]:
        return (
            "--device",
            self.device,
            "--precision",
            self.precision,
            *(("--kv-type", self.kv_type) if self.kv_type else ()),
            *(("--keep-weights", self.weights) if self.weights else ()),
        )


def positions(tokens: list[list[int]], count: int, longest: int) -> list[tuple[list[int], int]]:
    """(prefix, the token that follows), spread evenly over the texts and over prefixes of 16 to `longest` tokens."""
    places: list[tuple[list[int], int]] = []
    each = max(1, math.ceil(count / len(tokens)))
    for text in tokens:
        last = max(0, len(text) - longest - 1)
        for i in range(each):
            start, length = last * i // max(1, each - 1), 16 + (longest - 16) * (i + 1) // each
            if start + length < len(text):
                places.append((text[start : start + length], text[start + length]))
    return places[:count]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    return shifted - math.log(np.exp(shifted).sum())


def compare_one(mine: np.ndarray, theirs: np.ndarray, token: int) -> tuple[int, float, float, float, float, int]:
    """Of one position: whether the best token is the same, KL divergence (nats), squares of errors, squares of spread,
    surprise, values. The mean of a position's logits says nothing: it does not count."""
    mine, theirs = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
    if mine.shape != theirs.shape or not np.isfinite(mine).all():
        raise RuntimeError(f"{mine.size} logits: expected {theirs.size}, all of them finite")
    p, q = log_softmax(theirs), log_softmax(mine)
    spread = theirs - theirs.mean()
    return (
        int(mine.argmax() == theirs.argmax()),
        float((np.exp(p) * (p - q)).sum()),
        float(((mine - mine.mean() - spread) ** 2).sum()),
        float((spread**2).sum()),
        -float(q[token]),
        mine.size,
    )


def figures(rows: list[tuple[int, float, float, float, float, int]]) -> dict[str, float]:
    same, divergence, squares, spread, surprise, values = (math.fsum(column) for column in zip(*rows))
    count = len(rows)
    return {
        "top1": same / count,
        "kl_bits": divergence / count / math.log(2),
        "logit_error": math.sqrt(squares / values),
        "relative": math.sqrt(squares / spread),
        "perplexity": math.exp(surprise / count),
    }


def read_row(line: str) -> tuple[int, np.ndarray]:
    """(number, logits) of a line of `banyan ids`."""
    number = re.match(r'\{"id":"(\d+)"', line)
    if number is None or '"last_logits"' not in line:
        raise RuntimeError(f"banyan ids: {line[:300]}")
    return int(number.group(1)), np.array(json.loads(line)["last_logits"], np.float32)


def engine_logits(
    engine: Engine, prefixes: list[list[int]], pool: multiprocessing.pool.Pool
) -> Iterator[tuple[int, np.ndarray]]:
    """(number of the prefix, its logits) as they arrive. Reading a large vocabulary takes longer than computing it:
    several processes do it while the engine computes, and nothing is held as Python numbers."""
    count = 0
    with tempfile.TemporaryFile("w+") as rows, tempfile.TemporaryFile("w+") as complaints:
        rows.writelines(
            json.dumps({"id": str(n), "kind": "logits", "ids": ids}) + "\n" for n, ids in enumerate(prefixes)
        )
        rows.seek(0)
        with subprocess.Popen(
            [engine.binary, "ids", "-m", engine.model, *engine.options],
            stdin=rows,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as program:
            for row in pool.imap(read_row, program.stdout):
                count += 1
                yield row
        complaints.seek(0)
        if count != len(prefixes) or program.returncode:
            raise RuntimeError(
                f"banyan ids answered {count} of {len(prefixes)} rows, exit code {program.returncode}:"
                f" {complaints.read()[-500:]}"
            )


def llama_logits(
    library: str, model: str, threads: int, kv_type: str, prefixes: list[list[int]]
) -> Iterator[tuple[int, np.ndarray]]:
    """The same of llama.cpp, every prefix alone from an empty context."""
    llama = Llama(library, model, threads, max(map(len, prefixes)) + 1, 1, kv_type or "f16")
    try:
        for n, prefix in enumerate(prefixes):
            llama.clear()
            yield n, llama.prompt_logits(prefix)
    finally:
        llama.close()


def measure(a: argparse.Namespace, model: str, texts: list[str], settings: list[Setting]) -> dict:
    """Prints the table of one model; its figures."""
    engine = Engine(a.banyan, model)
    tokens = engine.tokenize(texts)
    places = positions(tokens, a.positions, a.longest)
    before = engine.ids([dict(kind="tokenize", text="", add_special=True)])[0]["ids"] if a.bos else []
    prefixes = [before + prefix for prefix, _ in places]
    name = pathlib.Path(model).name
    print(f"{name}: {len(places)} positions of {len(tokens)} texts" + (f", each after {before}" if a.bos else ""))
    print(
        "| setting | same best token | KL, bits | logits' rms error | of their spread | perplexity"
        " |\n|---|---|---|---|---|---|",
        flush=True,
    )
    rows: list[dict] = []
    expected: dict[int, np.ndarray] = {}
    with multiprocessing.Pool() as pool:
        for setting in settings:
            if setting.device == "llama":
                found = llama_logits(
                    a.library or find_library(),
                    model,
                    a.threads or multiprocessing.cpu_count(),
                    setting.kv_type,
                    prefixes,
                )
            else:
                found = engine_logits(
                    Engine(a.banyan, model, (*setting.options, "--threads", str(a.threads))), prefixes, pool
                )
            compared = []
            for n, logits in found:
                if not rows:
                    expected[n] = logits
                compared.append(compare_one(logits, expected[n], places[n][1]))
            row = figures(compared)
            rows.append({"setting": setting.name, **row})
            print(
                f"| {setting.name} | {row['top1']:.1%} | {row['kl_bits']:.5f} | {row['logit_error']:.4f} |"
                f" {row['relative']:.2%} | {row['perplexity']:.3f} |",
                flush=True,
            )
    return {"model": name, "positions": len(places), "before": before, "rows": rows}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--banyan", default=str(ROOT / "build/release/banyan"))
    p.add_argument("-m", "--model", required=True, action="append", help="may be given several times")
    p.add_argument(
        "--text",
        nargs="+",
        default=[str(ROOT / "README.md")] + sorted(str(f) for f in (ROOT / "docs").glob("*.md"))[:7],
    )
    p.add_argument("--positions", type=int, default=120)
    p.add_argument("--longest", type=int, default=96, help="tokens of a prefix")
    p.add_argument(
        "--bos",
        action="store_true",
        help="every prefix follows the tokens that the model's tokenizer puts before a text",
    )
    p.add_argument("--threads", type=int, default=0, help="of every setting; 0: all cores")
    p.add_argument(
        "--library", default="", help="llama.cpp's (default: that of llama_cpp or xllamacpp, where one is installed)"
    )
    p.add_argument("--json", help="also write the figures to this file, a list with an entry for each model")
    p.add_argument("settings", nargs="+")
    a = p.parse_args()
    settings = [Setting.parse(s) for s in a.settings]
    texts = [pathlib.Path(f).read_text() for f in a.text]
    tables = [measure(a, model, texts, settings) for model in a.model]
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
