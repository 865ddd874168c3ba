"""Keeps evaluation texts out of training: by a hash of the whole text, and by sequences of 13 words."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

WORDS = 13


def normal(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def whole(words: list[str]) -> bytes:
    return hashlib.sha256(" ".join(words).encode()).digest()[:12]


def grams(words: list[str]) -> set[int]:
    return {hash(tuple(words[n : n + WORDS])) for n in range(len(words) - WORDS + 1)}


def texts_in(value) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from texts_in(v)
    elif isinstance(value, list):
        for v in value:
            yield from texts_in(v)


def texts_of_file(path: Path) -> Iterable[str]:
    """Every text of a JSONL or plain file, compressed or not."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as f:
        if ".jsonl" not in path.name:
            yield f.read()
            return
        for line in f:
            yield from texts_in(json.loads(line))


class Excluded:
    """What the folders of evaluation files hold. `least`: texts of fewer words are compared by nothing (names,
    answers)."""

    def __init__(self, folders: list[Path], least: int = 4):
        self.whole, self.grams, self.least = set(), set(), least
        for folder in folders:
            for path in sorted(folder.glob("*")):
                if ".jsonl" not in path.name and ".txt" not in path.name:
                    continue
                for text in texts_of_file(path):
                    words = normal(text)
                    if len(words) >= least:
                        self.whole.add(whole(words))
                        self.grams |= grams(words)

    def __contains__(self, text: str) -> bool:
        words = normal(text)
        return len(words) >= self.least and (whole(words) in self.whole or not self.grams.isdisjoint(grams(words)))
