"""Embeddings per second of `banyan embed` and of sentence-transformers, in one run on the same texts and threads:

    python3 -m bench.embed --model FOLDER [--texts FILE.jsonl] [--count 512] [--threads 2] [--repeat 3] [--python
        VENV/bin/python]

FOLDER is a sentence-transformers model such as all-MiniLM-L6-v2. The texts are passages of three lengths, or the field
`text` of FILE. Each side reads the texts, tokenises and embeds them; loading the model is not counted (Banyan: the time
of an empty input is taken off). Runs take turns, the fastest of each side counts, by the clock and in processor time,
which means more where others use the machine, too. Float32 vectors must agree with theirs, else the run fails; of other
precisions the cosine with float32 is printed. --python has the package sentence-transformers.

--random draws new weights at the shape of FOLDER, which then needs no weights of its own: times do not depend on them.
--device cuda runs Banyan there; --alone leaves sentence-transformers out.
"""

from __future__ import annotations

import argparse
import array
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THEIRS = """
import json, sys, time
import torch
model_path, source, threads, most, device = sys.argv[1:6]
torch.set_num_threads(int(threads))
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(model_path, device=device)
model.max_seq_length = int(most)
texts = [json.loads(line)["text"] for line in open(source, encoding="utf-8")]
model.encode(texts[:32], batch_size=32, show_progress_bar=False)
print("ready", flush=True)
for _ in sys.stdin:
    began, spent = time.perf_counter(), time.process_time()
    vectors = model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
    seconds = [time.perf_counter() - began, time.process_time() - spent]
    print(json.dumps({"seconds": seconds, "vectors": vectors[:16].tolist()}), flush=True)
"""
DRAW = """
import sys, torch
from transformers import AutoConfig, AutoModel
torch.manual_seed(1)
AutoModel.from_config(AutoConfig.from_pretrained(sys.argv[1])).save_pretrained(sys.argv[1])
"""


def make_texts(count: int) -> list[str]:
    """Sentences, paragraphs and passages of common words, about a third each."""
    rng = random.Random(1)
    words = (
        "the a of in to and harbour ferry leaves old town market people river bridge winter morning stone light small"
        " house".split()
    )
    return [" ".join(rng.choice(words) for _ in range(rng.choice((12, 60, 180)))) for _ in range(count)]


def read_vectors(path: Path) -> list[array.array]:
    """Rows of a two-dimensional .npy of float32."""
    data = path.read_bytes()
    end = 10 + int.from_bytes(data[8:10], "little")
    shape = data[10:end].decode().split("'shape': (")[1].split(")")[0]
    rows, columns = (int(n) for n in shape.split(","))
    values = array.array("f", data[end:])
    return [values[r * columns : (r + 1) * columns] for r in range(rows)]


class Theirs:
    """sentence-transformers in a process of its own, which embeds all texts whenever it is told to."""

    def __init__(self, a: argparse.Namespace, model: Path, source: Path) -> None:
        command = [a.python, "-c", THEIRS, str(model), str(source), str(a.threads), str(a.max_tokens), a.device]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.line()

    def line(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            sys.exit("sentence-transformers failed")
        return line

    def run(self) -> tuple[list[float], list[list[float]]]:
        print("go", file=self.process.stdin, flush=True)
        row = json.loads(self.line())
        return row["seconds"], row["vectors"]

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def time_banyan(a: argparse.Namespace, model: Path, source: Path, precision: str, out: Path) -> list[float]:
    """Seconds by the clock, and of processors."""
    command = [
        a.banyan,
        "embed",
        "-m",
        str(model),
        str(source),
        "-o",
        str(out),
        "--overwrite",
        "--threads",
        str(a.threads),
        "--max-tokens",
        str(a.max_tokens),
        "--precision",
        precision,
        "--device",
        a.device,
    ]
    began, spent = time.perf_counter(), processor_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-1500:]}")
    return [time.perf_counter() - began, processor_seconds() - spent]


def processor_seconds() -> float:
    """Of the processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def model_folder(a: argparse.Namespace, folder: Path) -> Path:
    if not a.random:
        return a.model
    model = folder / "model"
    shutil.copytree(a.model, model, ignore=shutil.ignore_patterns("*.safetensors"))
    done = subprocess.run([a.python, "-c", DRAW, str(model)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"no random weights:\n{done.stderr[-1500:]}")
    return model


def least(times: list[list[float]]) -> list[float]:
    return [min(column) for column in zip(*times)]


def cosine(x: array.array, y: array.array) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))  # both have length 1


def compare(a: argparse.Namespace, folder: Path) -> None:
    source, empty = folder / "in.jsonl", folder / "none.jsonl"
    texts = (
        [json.loads(line)["text"] for line in a.texts.open(encoding="utf-8")][: a.count]
        if a.texts
        else make_texts(a.count)
    )
    source.write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts)))
    empty.write_text("")
    model = model_folder(a, folder)
    outputs = {precision: folder / f"{precision}.npy" for precision in a.precision}
    theirs = None if a.alone else Theirs(a, model, source)
    ours: dict[str, list[list[float]]] = {precision: [] for precision in a.precision}
    loads: dict[str, list[list[float]]] = {precision: [] for precision in a.precision}
    their_seconds, their_vectors = [], []
    for _ in range(a.repeat):
        for precision, out in outputs.items():
            loads[precision].append(time_banyan(a, model, empty, precision, folder / "none.npy"))
            ours[precision].append(time_banyan(a, model, source, precision, out))
        if theirs:
            seconds, their_vectors = theirs.run()
            their_seconds.append(seconds)
    if theirs:
        theirs.end()
    vectors = {precision: read_vectors(out) for precision, out in outputs.items()}
    words = sum(len(t.split()) for t in texts) / len(texts)
    print(f"{len(texts)} texts of {words:.0f} words on average, {a.threads} threads, {a.device}, best of {a.repeat}")
    rates = {
        f"banyan, {p}": [len(texts) / (x - y) for x, y in zip(least(ours[p]), least(loads[p]))] for p in a.precision
    }
    if theirs:
        rates["sentence-transformers"] = [len(texts) / x for x in least(their_seconds)]
    print(f"{'':24} {'texts/s':>9} {'':>7} {'per processor second':>22}")
    for name, (clock, processor) in rates.items():
        other = rates.get("sentence-transformers", (clock, processor))
        print(f"{name:24} {clock:9.1f} {clock / other[0]:6.2f}x {processor:22.1f} {processor / other[1]:6.2f}x")
    if theirs and "f32" in vectors:
        pairs = zip(vectors["f32"], their_vectors)
        largest = max(abs(x - y) for row, same in pairs for x, y in zip(row, same, strict=True))
        print(f"float32 vectors agree with theirs within {largest:.1e}")
        if not largest <= 1e-3:
            sys.exit("that is too far")
    for precision in set(a.precision) - {"f32"} if "f32" in vectors else ():
        near = [cosine(x, y) for x, y in zip(vectors[precision], vectors["f32"])]
        print(f"{precision} against f32: cosine {sum(near) / len(near):.5f} in the mean, {min(near):.5f} at least")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--random", action="store_true")
    p.add_argument("--alone", action="store_true")
    p.add_argument("--texts", type=Path)
    p.add_argument("--count", type=int, default=512)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--max-tokens", type=int, default=256)
    p.add_argument("--precision", nargs="+", default=["f32", "mixed"])
    p.add_argument("--device", default="cpu")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--python", default=sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        compare(p.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
