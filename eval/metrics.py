"""Answer and extraction scores as methods sections 5 and 7 define them."""
from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass

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


@dataclass
class ExtractionScore:
    """Counts per slot: correct, correct null, incorrect, missing (gold has a value, none given), hallucinated."""
    correct: int = 0
    correct_null: int = 0
    incorrect: int = 0
    missing: int = 0
    hallucinated: int = 0

    def add(self, value: str | None, gold: list[str] | None) -> None:
        """`gold` None or empty: the text does not say."""
        if not gold:
            if value is None:
                self.correct_null += 1
            else:
                self.hallucinated += 1
        elif value is None:
            self.missing += 1
        elif exact_match(value, gold):
            self.correct += 1
        else:
            self.incorrect += 1

    @property
    def slots(self) -> int:
        return self.correct + self.correct_null + self.incorrect + self.missing + self.hallucinated

    @property
    def f1(self) -> float:
        good = self.correct + self.correct_null
        if not good:
            return 0.0
        precision = good / (good + self.hallucinated + self.incorrect)
        recall = good / (good + self.missing + self.incorrect)
        return 2 * precision * recall / (precision + recall)
