"""Scores of single answers: the only implementation in Python, for training and for rows that are scored one by one.

`banyan eval` has exact match, F1, sub-span match and calibration error in C++ (src/tasks/score). Both pass
tests/score_cases.json, and tests/test_metrics.py compares them, so that neither can change alone. Exact match and F1
are those of SQuAD's script. ROUGE-L, which the program does not have, is that of the package rouge-score without its
stemmer. Extracted values are scored by the program (`Engine.score_values`).
"""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from typing import Iterable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower case, punctuation, articles and extra white space gone (the SQuAD rule)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: list[str]) -> bool:
    """Against the best of the gold answers; no gold answer means the question is unanswerable: the word `null`."""
    return any(normalize(answer) == normalize(g) for g in gold or ["null"])


def token_f1(answer: str, gold: list[str]) -> float:
    best = 0.0
    for g in gold or ["null"]:
        a, b = normalize(answer).split(), normalize(g).split()
        common = sum((Counter(a) & Counter(b)).values())
        best = max(best, 2 * common / (len(a) + len(b)) if common else float(a == b))
    return best


def _rouge_tokens(text: str) -> list[str]:
    """Lower case; whatever is no ASCII letter or digit separates."""
    return re.findall(r"[a-z0-9]+", text.lower())


def _longest_common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for word in a:
        before = 0
        for n, other in enumerate(b, 1):
            before, row[n] = row[n], before + 1 if word == other else max(row[n], row[n - 1])
    return row[-1]


def rouge_l(answer: str, gold: list[str]) -> float:
    """F of the longest common subsequence, with the best of the gold answers; 0 where a text has no token."""
    best = 0.0
    for g in gold or ["null"]:
        a, b = _rouge_tokens(answer), _rouge_tokens(g)
        common = _longest_common(a, b)
        best = max(best, 2 * common / (len(a) + len(b)) if common else 0.0)
    return best


def code_similarity(answer: str, gold: list[str]) -> float:
    """LongBench's measure of a completed line of code: characters in common in order, twice their number over both
    lengths, of the first line that is no fence or comment; with the best of the gold answers."""
    lines = answer.lstrip("\n").split("\n")
    line = next((one for one in lines if not any(mark in one for mark in ("`", "#", "//"))), "")
    return max(
        (2 * _longest_common(list(line), list(g)) / (len(line) + len(g)) if line or g else 1.0 for g in gold),
        default=0.0,
    )


def contains(text: str, part: str) -> bool:
    """Whether the words of `part` stand in a row in `text`, both normalised: "art" is not in "Bart"."""
    words = normalize(part)
    return bool(words) and f" {words} " in f" {normalize(text)} "


def sub_span(answer: str, gold: list[str]) -> bool:
    """Whether the answer contains a gold answer as whole words."""
    return any(contains(answer, g) for g in gold or ["null"])


def items_found(answer: str, items: Sequence[Sequence[str]]) -> float:
    """The share of `items` that the answer contains, each by one of its names: recall where several things are
    wanted."""
    return sum(any(contains(answer, name) for name in names) for names in items) / len(items)


def calibration_error(points: Iterable[tuple[float, bool]], bins: int = 10) -> float | None:
    """Mean distance of confidence and share of right answers, over bins of equal count. None without points."""
    ordered = sorted(points, key=lambda point: point[0])
    if not ordered:
        return None
    error, wanted = 0.0, min(len(ordered), bins)
    for n in range(wanted):
        part = ordered[n * len(ordered) // wanted : (n + 1) * len(ordered) // wanted]
        error += abs(sum(c for c, _ in part) - sum(right for _, right in part))
    return error / len(ordered)


def interval(groups: Sequence[Sequence[float]], draws: int = 1000, seed: int = 1) -> list[float] | None:
    """95 % of the means of `draws` draws of groups with replacement: scores on one text are not independent."""
    rng, sums, means = random.Random(seed), [(len(group), sum(group)) for group in groups], []
    for _ in range(draws if sums else 0):
        drawn = rng.choices(sums, k=len(sums))
        if count := sum(n for n, _ in drawn):
            means.append(sum(total for _, total in drawn) / count)
    means.sort()
    return [means[int(0.025 * len(means))], means[int(0.975 * len(means))]] if means else None


def right_answers(question: dict) -> list[str]:
    """What may be answered: `answers`, or of a question with `choices` the texts of the right ones.

    The right one of choices is `right`, its number, or a text among `answers`, or a letter there (A is the first) that
    is no choice's text.
    """
    choices = question.get("choices")
    if not choices:
        return question["answers"]
    if "right" in question:
        return [choices[question["right"]]]
    texts = {normalize(c): c for c in choices}
    return [texts.get(normalize(a)) or _lettered(a, choices) or a for a in question["answers"]]


def _lettered(answer: str, choices: list[str]) -> str | None:
    letter = re.fullmatch(r"\(?([A-Za-z])[).:]?", answer.strip())
    place = ord(letter[1].upper()) - ord("A") if letter else len(choices)
    return choices[place] if place < len(choices) else None


def chosen_text(question: dict, answer: str) -> str:
    """The answer as a text to compare with `right_answers`: a letter of choices is the text it stands for."""
    choices = question.get("choices")
    if not choices or normalize(answer) in map(normalize, choices):
        return answer
    return _lettered(answer, choices) or answer
