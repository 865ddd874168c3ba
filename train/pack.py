"""Encoded samples packed into rows of fixed length, as numpy arrays ready for the trainer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Callable

import numpy as np

from train.encode import Encoded, encode
from train.lexicon import TRAIN, Lexicon
from train.mixture import make_sample
from train.sample import Extraction, Sample
from train.tokenizer import Tokenizer

ROW = 4096
PREDICTED = (
    1280  # positions per row whose logits are computed: all answers (rarely more), then a draw of text positions
)


@dataclass
class Rows:
    """[rows, length]: ids, pos, doc, branch, step. [rows, length × PREDICTED / ROW, or as asked]: at (index in the
    row), label, weight. `doc` numbers the samples of a row; padding is one more of them."""

    ids: np.ndarray
    pos: np.ndarray
    doc: np.ndarray
    branch: np.ndarray
    step: np.ndarray
    at: np.ndarray
    label: np.ndarray
    weight: np.ndarray

    ARRAYS = ("ids", "pos", "doc", "branch", "step", "at", "label", "weight")


def empty_rows(count: int, length: int, predicted: int = 0) -> Rows:
    wide = lambda dtype, fill=0: np.full((count, length), fill, dtype)
    narrow = lambda dtype, fill=0: np.full((count, predicted or length * PREDICTED // ROW), fill, dtype)
    return Rows(
        wide(np.int32),
        wide(np.int16),
        wide(np.uint8, 255),
        wide(np.uint8),
        wide(np.uint8),
        narrow(np.int16),
        narrow(np.int32),
        narrow(np.float16),
    )


def _fill_row(rows: Rows, r: int, samples: list[Encoded], rng: random.Random) -> None:
    at, label, weight, cursor = [], [], [], 0
    for number, e in enumerate(samples):
        n = len(e.ids)
        span = slice(cursor, cursor + n)
        rows.ids[r, span], rows.pos[r, span], rows.branch[r, span], rows.step[r, span] = e.ids, e.pos, e.branch, e.step
        rows.doc[r, span] = number
        picked = [i for i in range(n) if e.label[i] >= 0]
        at += [cursor + i for i in picked]
        label += [e.label[i] for i in picked]
        weight += [e.weight[i] for i in picked]
        cursor += n
    rows.pos[r, cursor:] = np.arange(rows.pos.shape[1] - cursor)
    a, l, w = np.array(at), np.array(label), np.array(weight)
    order = np.argsort(
        np.where(w > 0.05, 0.0, 1.0) + np.random.default_rng(rng.getrandbits(32)).random(len(w)) * 0.5, kind="stable"
    )[: rows.at.shape[1]]
    k = len(order)
    rows.at[r, :k], rows.label[r, :k], rows.weight[r, :k] = a[order], l[order], w[order]


def pack_rows(
    tok: Tokenizer,
    count: int,
    seed: int,
    progress: float,
    split: str = TRAIN,
    length: int = ROW,
    draw: Callable[[Lexicon, float], Sample | Extraction] = make_sample,
    encoder: Callable[[Tokenizer, object, Lexicon], Encoded | None] = encode,
    predicted: int = 0,
) -> Rows:
    """`count` rows from the mixture at `progress`; a pure function of its arguments. A sample is never cut; one that
    the encoder does not lay out (None) is left out. `predicted`: labels of a row, 0: the usual share."""
    rng = random.Random(f"{split} {seed}")
    lex = Lexicon(rng, split)
    rows, waiting = empty_rows(count, length, predicted), []
    for r in range(count):
        chosen, room = [], length
        while room > 40:
            while len(waiting) < 12:
                e = encoder(tok, draw(lex, progress), lex)
                if e and len(e.ids) <= length and max(e.pos) < ROW:
                    waiting.append(e)
            fitting = [i for i, e in enumerate(waiting) if len(e.ids) <= room]
            if not fitting or len(chosen) == 250:
                break
            pick = fitting[0] if not chosen else max(fitting, key=lambda i: len(waiting[i].ids))
            chosen.append(waiting.pop(pick))
            room -= len(chosen[-1].ids)
        _fill_row(rows, r, chosen, rng)
    return rows
