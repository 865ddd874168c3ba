"""Worker processes that generate and pack rows ahead of the trainer, in a fixed order.

Shard i is a pure function of (seed, i), made by worker i mod workers and handed over as a file in a memory folder. The
trainer takes shards strictly in order, so a run does not depend on how fast the workers are.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import shutil
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator

from train.lexicon import TRAIN, Lexicon
from train.mixture import make_sample
from train.pack import ROW, Rows, pack_rows
from train.sample import Extraction, Sample
from train.tokenizer import load_tokenizer

Draw = Callable[[Lexicon, float], Sample | Extraction]
AHEAD = 48  # shards that may wait; 48 × 16 rows × 4096 tokens × 12 bytes = 38 MB


def _work(
    worker: int,
    workers: int,
    shards: int,
    rows: int,
    seed: int,
    span: tuple[float, float],
    tokenizer: str,
    folder: str,
    taken,
    draw: Draw,
    length: int,
    packing: dict,
) -> None:
    tok = load_tokenizer(Path(tokenizer))
    for i in range(worker, shards, workers):
        while i >= taken.value + AHEAD:
            time.sleep(0.01)
        progress = span[0] + (span[1] - span[0]) * i / shards
        made = pack_rows(tok, rows, seed * 1_000_003 + i, progress, TRAIN, length, draw, **packing)
        part = Path(folder, f"{i}.part")
        part.write_bytes(pickle.dumps(made, protocol=5))
        part.rename(Path(folder, f"{i}.rows"))


def feed(
    shards: int,
    rows: int,
    seed: int,
    span: tuple[float, float],
    tokenizer: Path,
    workers: int,
    draw: Draw = make_sample,
    length: int = ROW,
    **packing,
) -> Iterator[Rows]:
    """`shards` batches of `rows` rows of what `draw` makes; progress runs over `span` from the first to the last.
    `packing`: further arguments of `pack_rows`."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    context = mp.get_context("spawn")  # the trainer holds a GPU context, which must not be forked
    taken = context.Value("i", 0)
    crew = [
        context.Process(
            target=_work,
            daemon=True,
            args=(w, workers, shards, rows, seed, span, str(tokenizer), folder, taken, draw, length, packing),
        )
        for w in range(workers)
    ]
    try:
        for p in crew:
            p.start()
        for i in range(shards):
            path = Path(folder, f"{i}.rows")
            while not path.exists():
                if not any(p.is_alive() for p in crew) and not path.exists():
                    raise RuntimeError(f"the generator ended before shard {i} of {shards}")
                time.sleep(0.002)
            rows_made = pickle.loads(path.read_bytes())
            path.unlink()
            taken.value = i + 1
            yield rows_made
    finally:
        for p in crew:
            p.terminate()
        for p in crew:
            p.join()
        shutil.rmtree(folder, ignore_errors=True)
