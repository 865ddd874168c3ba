"""Which documents of the question files are held out from training, and where an answer stands in a text.

Everything is split by document: of squad2 one article (Huguenot) was trained on and the two others (Normans, Scottish
Parliament) are held out; of other files a document is held out whose id hashes to 0 of 8.
"""

from __future__ import annotations

import collections
import hashlib
import random
import re

from train.cloze import sentences

CONTEXT_FILES = ("squad2", "drop", "covidqa", "fairytaleqa", "narrativeqa")
DOCUMENT_FILES = ("hotpotqa", "musique", "2wikimultihopqa")
SQUAD_TRAINS = "squad2-Huguenot-"
LONGEST_ANSWER = 14  # words
LONGEST_TEXT = 420  # words of a context; longer ones are cut to a stretch around the answer
NULL = "null"


def is_held(source: str, document: str) -> bool:
    if source == "squad2":
        return not document.startswith(SQUAD_TRAINS)
    return hashlib.sha256(document.encode()).digest()[0] % 8 == 0


def find_answer(context: str, answers: list[str]) -> tuple[int, str] | None:
    """Where an answer stands, and as it is spelled there: the most frequent, then the shortest."""
    count = collections.Counter(a.strip(" .,;") for a in answers)
    for answer in sorted(count, key=lambda a: (-count[a], len(a))):
        if not answer or len(answer.split()) > LONGEST_ANSWER:
            continue
        m = re.search(r"(?<!\w)" + re.escape(answer) + r"(?!\w)", context, re.I)
        if m:
            return m.start(), m.group()
    return None


def stretch(rng: random.Random, context: str, at: int) -> str:
    """About LONGEST_TEXT words or fewer around place `at`, cut at sentences."""
    if len(context.split()) <= LONGEST_TEXT:
        return context
    parts, place, home = sentences(context), 0, 0
    for n, s in enumerate(parts):
        found = context.find(s, place)
        if found < 0:
            continue
        place = found
        if found <= at:
            home = n
    want, first, last = rng.randint(80, LONGEST_TEXT), home, home
    while sum(len(s.split()) for s in parts[first : last + 1]) < want and (first > 0 or last + 1 < len(parts)):
        if first > 0 and (rng.random() < 0.5 or last + 1 == len(parts)):
            first -= 1
        elif last + 1 < len(parts):
            last += 1
    return " ".join(parts[first : last + 1])
