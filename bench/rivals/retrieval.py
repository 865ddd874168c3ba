"""An index of many passages: making it, its size, and searching it, beside bm25s and FAISS used from Python, in one
run.

    VENV/bin/python bench/rivals/retrieval.py FILE … [--passages 100000] [--queries 1000] [--top 10] [--encoder MODEL]
        [--banyan PROGRAM]

FILE: JSONL (`.gz`, `.xz` too) whose rows have `text` or `context`, and where they have `question` or `questions` these
are asked; or text (`.txt`, `.txt.gz`). Texts are cut into passages of 60 words, a new one every 30. VENV has bm25s, and
for --encoder faiss-cpu and numpy.

Words: `banyan rag index` (reading the file and writing the index included) and `banyan rag search` (printing rows
included, opening the index not) against `bm25s.tokenize`, `BM25.index`, `save` and `retrieve`, one query at a time and
all of them at once, on one thread. `agree`: the share of Banyan's best passages that are among bm25s's; the two divide
words differently. Vectors (--encoder): search alone, over vectors that Banyan made: exact, IVF and HNSW of both, of
Banyan's time what the same questions take over an index of one passage is taken off; `agree` is then the share of the
exact neighbours that each search finds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator

WORDS, STRIDE = 60, 30


def open_text(path: Path):
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    return opener(path, "rt", encoding="utf-8")


def texts_of(path: Path, questions: list[str]) -> Iterator[str]:
    with open_text(path) as file:
        if ".txt" in path.suffixes:
            yield file.read()
            return
        for line in file:
            row = json.loads(line)
            asked = row.get("questions") or ([row["question"]] if "question" in row else [])
            questions += [q if isinstance(q, str) else q.get("question", q.get("text", "")) for q in asked]
            yield row.get("context") or row.get("text") or ""


def corpus(files: list[Path], most: int) -> tuple[list[str], list[str]]:
    """(passages, questions), no passage twice"""
    passages, questions = {}, []
    for path in files:
        for text in texts_of(path, questions):
            words = text.split()
            for begin in range(0, max(1, len(words) - WORDS // 2), STRIDE):
                passages.setdefault(" ".join(words[begin : begin + WORDS]))
    found = [p for p in passages if p]
    random.Random(1).shuffle(found)
    unique = sorted({q for q in questions if q})
    random.Random(2).shuffle(unique)
    return found[:most], unique


def timed(work: Callable):
    began = time.perf_counter()
    made = work()
    return time.perf_counter() - began, made


def bytes_of(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def agreement(ours: list[list[int]], theirs: list[list[int]]) -> float:
    """The share of ours that theirs have."""
    both = sum(len(set(a) & set(b)) for a, b in zip(ours, theirs))
    return both / max(sum(map(len, ours)), 1)


def row(name: str, seconds: float, size: int, each: float, batch: float | None, queries: int, agree: str) -> str:
    at_once = "" if batch is None else f"{queries / batch:,.0f}"
    return f"| {name} | {seconds:.1f} | {size / 1e6:.1f} | {each / queries * 1e3:.3f} | {at_once} | {agree} |"


def index_of(a, folder: Path, source: Path, *options: str) -> float:
    return timed(lambda: subprocess.run([a.banyan, "rag", "index", folder, source, "--quiet", *options], check=True))[0]


def search(a, folder: Path, asked: Path, *options: str) -> tuple[float, list[list[int]]]:
    """(seconds of the program for all questions, the passages of each)"""
    command = [a.banyan, "rag", "search", asked, "--index", folder, "--top", str(a.top), "--threads", "1", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = float(re.search(r"in ([0-9.]+) s", done.stderr.splitlines()[-1])[1])
    return seconds, [[int(p["source"]) for p in json.loads(line)["passages"]] for line in done.stdout.splitlines()]


def words_table(a, folder: Path, source: Path, asked: Path, passages: list[str], queries: list[str]) -> list[str]:
    import bm25s

    made = index_of(a, folder / "words", source)
    each, found = search(a, folder / "words", asked, "--by", "bm25")
    model = bm25s.BM25()
    their_made, _ = timed(
        lambda: (
            model.index(bm25s.tokenize(passages, show_progress=False), show_progress=False),
            model.save(folder / "bm25s"),
        )
    )
    ask = lambda some, threads: model.retrieve(
        bm25s.tokenize(some, show_progress=False), k=a.top, show_progress=False, n_threads=threads
    )[0]
    their_each, theirs = timed(lambda: [[int(n) for n in ask([q], 0)[0]] for q in queries])
    their_batch, _ = timed(lambda: ask(queries, 1))
    return [
        row(
            "`banyan rag index`, `rag search`",
            made,
            bytes_of(folder / "words"),
            each,
            None,
            len(queries),
            f"{agreement(found, theirs):.2f}",
        ),
        row(
            f"bm25s {bm25s.__version__}",
            their_made,
            bytes_of(folder / "bm25s"),
            their_each,
            their_batch,
            len(queries),
            "",
        ),
    ]


def vectors_table(a, folder: Path, source: Path, asked: Path, queries: list[str]) -> list[str]:
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(1)
    one = folder / "one.jsonl"
    one.write_text(json.dumps({"id": "0", "text": "one passage"}) + "\n", encoding="utf-8")
    with_encoder = ["--encoder", a.encoder]
    index_of(a, folder / "one", one, *with_encoder)
    asking, _ = search(a, folder / "one", asked)
    rows, exact = [], None
    for kind in ("exact", "ivf", "hnsw"):
        place = folder / f"vectors-{kind}"
        if exact is not None:  # the vectors are taken over
            shutil.copytree(folder / "vectors-exact", place)
        try:
            made = index_of(
                a, place, source, *with_encoder, "--vectors", kind, *(["--device", a.device] if a.device else [])
            )
        except subprocess.CalledProcessError:
            continue  # built without libfaiss
        each, found = search(a, place, asked)
        exact = exact or found
        rows.append(
            row(
                f"Banyan, {kind}",
                made,
                bytes_of(place),
                max(each - asking, 0.0),
                None,
                len(queries),
                f"{agreement(exact, found):.2f}",
            )
        )
    embed = lambda texts, to: subprocess.run(
        [a.banyan, "embed", "-m", a.encoder, texts, "-o", to, *(["--device", a.device] if a.device else [])],
        check=True,
        capture_output=True,
    )
    embed(source, folder / "passages.npy")
    vectors = np.load(folder / "passages.npy").astype(np.float32)
    as_texts = folder / "asked.jsonl"
    as_texts.write_text(
        "".join(json.dumps({"id": n, "text": q}) + "\n" for n, q in enumerate(queries)), encoding="utf-8"
    )
    embed(as_texts, folder / "asked.npy")
    asked_vectors = np.load(folder / "asked.npy").astype(np.float32)
    width, lists = vectors.shape[1], max(1, int(4 * len(vectors) ** 0.5))
    for name, theirs in (
        ("flat", faiss.IndexFlatIP(width)),
        ("ivf", faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, lists, faiss.METRIC_INNER_PRODUCT)),
        ("hnsw", faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)),
    ):
        made, _ = timed(lambda: ((theirs.train(vectors) if name == "ivf" else None), theirs.add(vectors)))
        if name == "ivf":
            theirs.nprobe = max(16, lists // 4)
        if name == "hnsw":
            theirs.hnsw.efSearch = 64
        each, found = timed(lambda: [theirs.search(q[None], a.top)[1][0].tolist() for q in asked_vectors])
        batch, _ = timed(lambda: theirs.search(asked_vectors, a.top))
        size = len(faiss.serialize_index(theirs))
        rows.append(
            row(
                f"FAISS {faiss.__version__}, {name}, vectors given",
                made,
                size,
                each,
                batch,
                len(queries),
                f"{agreement(exact, found):.2f}",
            )
        )
    return rows


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", type=Path, nargs="+")
    p.add_argument("--passages", type=int, default=100_000)
    p.add_argument("--queries", type=int, default=1000)
    p.add_argument("--top", type=int, default=10)
    p.add_argument("--encoder", help="a sentence encoder; without it words alone")
    p.add_argument("--device", default="", help="what computes the vectors of passages")
    p.add_argument("--banyan", default="build/release/banyan")
    a = p.parse_args()
    passages, questions = corpus(a.files, a.passages)
    queries = questions[: a.queries]
    if not queries:
        raise SystemExit("retrieval.py: none of the files has questions")
    print(f"{len(passages)} passages of up to {WORDS} words, {len(queries)} questions, the best {a.top}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "passages.jsonl"
        source.write_text(
            "".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(passages)),
            encoding="utf-8",
        )
        asked = folder / "questions.jsonl"
        asked.write_text(
            "".join(json.dumps({"id": n, "question": q}) + "\n" for n, q in enumerate(queries)), encoding="utf-8"
        )
        print("| | made, s | size, MB | a query, ms | queries/s at once | agree |\n|---|---|---|---|---|---|")
        for line in words_table(a, folder, source, asked, passages, queries):
            print(line, flush=True)
        if a.encoder:
            for line in vectors_table(a, folder, source, asked, queries):
                print(line, flush=True)


if __name__ == "__main__":
    main()
