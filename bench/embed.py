"""Embeddings per second of `banyan embed` and of sentence-transformers, in one run on the same texts and threads:

    python3 -m bench.embed --model FOLDER [--texts FILE.jsonl] [--count 512] [--threads 2] [--repeat 3] [--python VENV/bin/python]

FOLDER is a sentence-transformers model such as all-MiniLM-L6-v2. The texts are passages of three lengths, or the field `text`
of FILE. Each side reads the texts, tokenises and embeds them; loading the model is not counted (Banyan: the time of an empty
input is taken off). The vectors must agree, else the run fails. --python has the package sentence-transformers.
"""
from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THEIRS = """
import json, sys, time
import torch
torch.set_num_threads(int(sys.argv[3]))
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
model.max_seq_length = int(sys.argv[5])
texts = [json.loads(line)["text"] for line in open(sys.argv[2], encoding="utf-8")]
model.encode(texts[:32], batch_size=32)
seconds = []
for _ in range(int(sys.argv[4])):
    began = time.perf_counter()
    vectors = model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
    seconds.append(time.perf_counter() - began)
print(json.dumps({"seconds": seconds, "vectors": vectors[:16].tolist()}))
"""


def make_texts(count: int) -> list[str]:
    """Sentences, paragraphs and passages of common words, about a third each."""
    rng = random.Random(1)
    words = "the a of in to and harbour ferry leaves old town market people river bridge winter morning stone light small house".split()
    return [" ".join(rng.choice(words) for _ in range(rng.choice((12, 60, 180)))) for _ in range(count)]


def time_banyan(banyan: str, model: str, source: Path, most: int, threads: int) -> tuple[float, list[dict]]:
    command = [banyan, "embed", "-m", model, str(source), "--threads", str(threads), "--max-tokens", str(most)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--texts", type=Path)
    p.add_argument("--count", type=int, default=512)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--max-tokens", type=int, default=256)
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--python", default=sys.executable)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, empty = Path(folder, "in.jsonl"), Path(folder, "none.jsonl")
        texts = [json.loads(line)["text"] for line in a.texts.open(encoding="utf-8")][:a.count] if a.texts else make_texts(a.count)
        source.write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts)))
        empty.write_text("")
        ours, load = [], []
        for _ in range(a.repeat):
            load.append(time_banyan(a.banyan, a.model, empty, a.max_tokens, a.threads)[0])
            seconds, rows = time_banyan(a.banyan, a.model, source, a.max_tokens, a.threads)
            ours.append(seconds - min(load))
        done = subprocess.run([a.python, "-c", THEIRS, a.model, str(source), str(a.threads), str(a.repeat), str(a.max_tokens)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"sentence-transformers failed:\n{done.stderr[-1500:]}")
        theirs = json.loads(done.stdout.splitlines()[-1])
    largest = max(abs(x - y) for row, other in zip(rows, theirs["vectors"]) for x, y in zip(row["dense"], other, strict=True))
    if not largest <= 1e-3:
        sys.exit(f"the vectors differ by {largest:.1e}")
    mine, other = len(texts) / min(ours), len(texts) / min(theirs["seconds"])
    print(f"{len(texts)} texts, {sum(len(t.split()) for t in texts) / len(texts):.0f} words on average, {a.threads} threads, best of {a.repeat}; "
          f"vectors agree within {largest:.1e}")
    print(f"banyan                {mine:8.1f} texts/s\nsentence-transformers {other:8.1f} texts/s\nratio                 {mine / other:8.2f}")


if __name__ == "__main__":
    main()
