"""Questions made from plain sentences: a name, number or date becomes the question word.

"The castle was built by William in 1067." → "Who was the castle built by in 1067?" is beyond rules; "The castle was
built by whom in 1067?" and "In 1067, what was built by William?" are not. Such questions are clumsy, and teach what
matters: to find the sentence, and to copy the span of the right kind. `deny` makes the same question one that the text
does not answer, by taking the sentence out or by another name or number in the question.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])")
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = re.compile(
    rf"\b(?:\d{{1,2}} (?:{_MONTHS})(?: \d{{4}})?|(?:{_MONTHS}) \d{{1,2}}(?:, \d{{4}})?|(?:{_MONTHS}) \d{{4}})\b"
)
_YEAR = re.compile(r"\b(?:1[0-9]|20)\d{2}\b(?![,.]\d)")
_NUMBER = re.compile(r"(?<![\w.,-])\$?\d[\d,]*(?:\.\d+)?(?:%| percent| million| billion)?(?![\w-])")
_NAME = re.compile(r"\b[A-Z][\w'’-]*(?:(?: (?:of|the|de|von|van|and)){0,2} [A-Z][\w'’-]*)*")
_NO_NAME = {
    "The",
    "A",
    "An",
    "In",
    "On",
    "At",
    "It",
    "He",
    "She",
    "They",
    "This",
    "That",
    "These",
    "Those",
    "His",
    "Her",
    "Their",
    "Its",
    "As",
    "By",
    "For",
    "From",
    "When",
    "While",
    "After",
    "Before",
    "During",
    "With",
    "But",
    "And",
    "However",
    "Although",
    "There",
    "One",
    "Some",
    "Many",
    "Most",
    "Other",
    "Two",
    "Since",
    "If",
    "Then",
    "So",
    "Or",
    "Not",
    "No",
    "All",
    "Both",
    "Each",
    "To",
    "Of",
    "We",
    "I",
    "You",
    "Also",
    "Because",
    "Where",
    "Who",
    "What",
    "Which",
    "Under",
}
_PLACE_BEFORE = re.compile(r"\b(?:in|at|near|from|to|into|around)$", re.I)
_FIELD_BEFORE = re.compile(r"\b(?:by|with|against|between|for)$", re.I)


@dataclass
class Span:
    begin: int
    end: int
    kind: str  # date, year, number, name


@dataclass
class Cloze:
    sentence: str
    question: str
    answer: str
    others: list[tuple[str, str]]  # (text, kind) of the other spans that the question still has


def sentences(text: str) -> list[str]:
    return [s for line in text.split("\n") for s in _SENTENCE.split(line.strip()) if s]


def spans(sentence: str) -> list[Span]:
    out: list[Span] = []

    def free(m: re.Match) -> bool:
        return all(m.end() <= s.begin or m.start() >= s.end for s in out)

    for kind, pattern in (("date", _DATE), ("year", _YEAR), ("number", _NUMBER), ("name", _NAME)):
        for m in pattern.finditer(sentence):
            words = m.group().split()
            if kind == "name" and (
                words[0] in _NO_NAME or words[-1] in _NO_NAME or (m.start() == 0 and len(words) == 1)
            ):
                continue
            if free(m):
                out.append(Span(m.start(), m.end(), kind))
    return sorted(out, key=lambda s: s.begin)


def _question_word(rng: random.Random, kind: str, before: str, after: str) -> tuple[str, bool]:
    """(words for the span, whether a preposition before it goes away)"""
    place = bool(_PLACE_BEFORE.search(before))
    if kind in ("date", "year"):
        return (
            (rng.choice(("when", "what year" if kind == "year" else "what date")), False)
            if not place
            else (rng.choice(("what year", "which year")), False)
        )
    if kind == "number":
        return ("how many" if re.match(r"[a-z]+s\b", after.strip()) else rng.choice(("how much", "what number"))), False
    if place:
        return rng.choice((("where", True), ("what place", False), ("which place", False)))
    if _FIELD_BEFORE.search(before):
        return rng.choice((("whom", False), ("who", False), ("what", False)))
    return rng.choice(("who", "what", "which")), False


def cloze(rng: random.Random, sentence: str) -> Cloze | None:
    """A question on a span of the sentence, or None when there is none to ask for."""
    found = [s for s in spans(sentence) if s.end - s.begin <= 60]
    words = sentence.split()
    if not found or not 6 <= len(words) <= 45:
        return None
    span = rng.choice(found)
    # The clause around the span: other clauses are dropped half of the time.
    begin, end = 0, len(sentence.rstrip(" .!?\"'"))
    if rng.random() < 0.5:
        left = max(sentence.rfind(c, 0, span.begin) for c in (", ", "; "))
        right = min((i for i in (sentence.find(c, span.end) for c in (", ", "; ")) if i >= 0), default=end)
        if len(sentence[left + 1 : right].split()) >= 6:
            begin, end = left + 1, min(right, end)
    if not begin <= span.begin < span.end <= end:
        return None
    before, after = sentence[begin : span.begin].strip(), sentence[span.end : end].rstrip(" ,;:.")
    word, drop = _question_word(rng, span.kind, before, after)
    if drop:
        before = before.rsplit(" ", 1)[0] if " " in before else ""
    if before.split()[:1] and before.split()[0] in _NO_NAME:
        before = before[0].lower() + before[1:]
    style = rng.random()
    if style < 0.45 or not before:
        question = f"{before} {word}{after if after[:1] in (',', ';') else ' ' + after.strip()}"
    elif style < 0.8:
        question = f"{word} {before} {after.strip(' ,')}"
    else:
        question = f"{before}{' ' if not after or after[0].isalnum() else ''}{after}, {word}"
    question = re.sub(r"\s+", " ", question).strip(" ,;:")
    if len(question.split()) < 4:
        return None
    question = question[0].upper() + question[1:] + "?"
    answer = sentence[span.begin : span.end]
    others = [
        (sentence[s.begin : s.end], s.kind)
        for s in found
        if s is not span and sentence[s.begin : s.end] in question and sentence[s.begin : s.end] not in answer
    ]
    return Cloze(sentence, question, answer, others)


def without(text: str, sentence: str) -> str | None:
    """The text without the sentence; None when it is not there or little would be left."""
    if sentence not in text:
        return None
    rest = re.sub(r"  +", " ", text.replace(sentence, " ")).strip()
    return rest if len(rest.split()) >= 20 else None


def deny(rng: random.Random, text: str, made: Cloze, pool: dict[str, list[str]]) -> tuple[str, str] | None:
    """(text, question) that has no answer; `pool` has names, numbers, dates and years of other texts."""
    if made.others and rng.random() < 0.6:
        old, kind = rng.choice(made.others)
        here = [
            t
            for s in sentences(text)
            for t in ((s[x.begin : x.end]) for x in spans(s) if x.kind == kind)
            if t not in made.sentence
        ]
        options = here if here and rng.random() < 0.5 else [t for t in pool.get(kind, []) if t not in text]
        if options:
            return text, made.question.replace(old, rng.choice(options))
    rest = without(text, made.sentence)
    if rest is None or made.answer in rest:
        return None
    return rest, made.question
