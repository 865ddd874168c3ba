"""Values of held-out documents as the model writes them by itself: scores by type and source, and what a calibration is
fitted on.

All values of a document are written together, greedily and without a constraint, each token by a pass over the whole
row: slow, and the same arithmetic as training. `right` is the whole value, null or not. F1 is strict: a null counts as
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from train.extract_records import TYPES
from train.skeleton_rows import IGNORED, Documents, Row

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
_LIST = re.compile(r'\[\s*(?:"(?:[^"\\]|\\.)*"\s*,?\s*)*\]', re.S)
_BARE = re.compile(r"(?:null|true|false)|[^\s,}\]]+(?=[\s,}\]])")


def byte_of_character() -> dict[str, int]:
    """The letters that byte-level BPE writes for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(rest)}


class Vocabulary:
    def __init__(self, tokens: list[str]):
        letters = byte_of_character()
        self.bytes = [bytes(letters[c] for c in t) if all(c in letters for c in t) else t.encode() for t in tokens]
        self.null = tokens.index("Ġnull") if "Ġnull" in tokens else -1

    def text(self, ids) -> str:
        return b"".join(self.bytes[int(t)] for t in ids).decode("utf-8", "replace")


def value_in(text: str):
    """The JSON value that a text begins with, or `...` while it is not whole."""
    text = text.lstrip()
    found = (_STRING if text.startswith('"') else _LIST if text.startswith("[") else _BARE).match(text)
    if not found:
        return ...
    try:
        return json.loads(found[0])
    except ValueError:
        return found[0]


@dataclass
class Written:
    """A slot: what was to be written, what was, and the log-probability of each token."""

    source: str
    type: str
    wanted: object
    made: object
    logprobs: list[float] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return self.made == self.wanted and type(self.made) is type(self.wanted)


def partial_row(documents: Documents, n: int, values: list[list[int]], done: list[bool]) -> tuple[Row, list[int]]:
    """The document with what is written of its values, and for each slot the index of the token that predicts its
    next."""
    prompt = documents.part("prompt", n)
    ids, pos, step, at, size = [prompt], [np.arange(len(prompt))], [np.zeros(len(prompt), np.int64)], [], len(prompt)
    for s, value, over in zip(range(*documents.data["slots"][n : n + 2]), values, done):
        template = documents.part("template", s)
        fed = np.array(value[:-1] if over else value, np.int64)
        here = len(template) + len(fed)
        ids.append(np.concatenate([template, fed]))
        pos.append(int(documents.data["position"][s]) + np.arange(here))
        step.append(np.maximum(np.arange(here) - len(template) + 1, 0))
        size += here
        at.append(size - 1)
    ids, pos, step = map(np.concatenate, (ids, pos, step))
    return Row(ids, pos, step, np.full(len(ids), IGNORED), np.full(len(ids), -1)), at


def write_values(
    documents: Documents, chosen: list[int], vocabulary: Vocabulary, next_logprobs: Callable, most: int = 64
) -> list[Written]:
    """`next_logprobs(rows, places)`: for each (row, index) the likeliest token and its log-probability."""
    values = {n: [[] for _ in range(*documents.data["slots"][n : n + 2])] for n in chosen}
    logprobs = {n: [[] for _ in v] for n, v in values.items()}
    done = {n: [False] * len(v) for n, v in values.items()}
    for _ in range(most):
        open_ones = [n for n in chosen if not all(done[n])]
        if not open_ones:
            break
        rows, places, slots = [], [], []
        for k, n in enumerate(open_ones):
            row, at = partial_row(documents, n, values[n], done[n])
            rows.append(row)
            for s, over in enumerate(done[n]):
                if not over:
                    places.append((k, at[s]))
                    slots.append((n, s))
        for (n, s), (token, logprob) in zip(slots, next_logprobs(rows, places)):
            values[n][s].append(token)
            logprobs[n][s].append(logprob)
            done[n][s] = value_in(vocabulary.text(values[n][s])) is not ...
    out = []
    for n in chosen:
        for k, s in enumerate(range(*documents.data["slots"][n : n + 2])):
            if documents.data["kept"][s]:
                wanted, made = (value_in(vocabulary.text(v)) for v in (documents.part("value", s), values[n][k]))
                out.append(Written(documents.source(n), TYPES[documents.slot_type(s)], wanted, made, logprobs[n][k]))
    return out


def summary(slots: list[Written]) -> dict:
    right = sum(w.right for w in slots)
    told = [w for w in slots if w.made is not None]
    true = [w for w in slots if w.wanted is not None]
    both = sum(w.right for w in true)
    nulls, given_null = [w for w in slots if w.wanted is None], [w for w in slots if w.made is None]
    share = lambda a, b: round(a / b, 4) if b else None
    p, r = both / max(len(told), 1), both / max(len(true), 1)
    return dict(
        slots=len(slots),
        right=share(right, len(slots)),
        all_null=share(len(nulls), len(slots)),
        f1=round(2 * p * r / max(p + r, 1e-9), 4),
        right_of_values=share(both, len(true)),
        null_precision=share(sum(w.right for w in given_null), len(given_null)),
        null_recall=share(sum(w.right for w in nulls), len(nulls)),
    )


def group(source: str) -> str:
    return ("everyday" if source.startswith("everyday/") else source.split(" ")[0]) + (
        " stack" if source.endswith("stack") else " items" if source.endswith("items") else ""
    )


def scores(slots: list[Written]) -> dict:
    out = dict(all=summary(slots))
    of = lambda key: {k: summary([w for w in slots if key(w) == k]) for k in sorted({key(w) for w in slots})}
    return out | dict(
        by_source=of(lambda w: group(w.source)),
        everyday_by_type=of_type([w for w in slots if w.source.startswith("everyday/")]),
    )


def of_type(slots: list[Written]) -> dict:
    return {t: summary([w for w in slots if w.type == t]) for t in TYPES if any(w.type == t for w in slots)}


def calibration_row(w: Written) -> dict:
    return dict(
        type=w.type,
        source=group(w.source),
        mean=round(float(np.mean(w.logprobs)), 5),
        sum=round(float(np.sum(w.logprobs)), 5),
        first=round(w.logprobs[0], 5),
        tokens=len(w.logprobs),
        null=w.made is None,
        right=w.right,
    )
