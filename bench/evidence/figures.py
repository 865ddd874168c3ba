"""Figures of repeated runs: the median with its spread, and when two of them differ.

The spread of a figure is its greatest run minus its least. Two figures are called different only if their medians are
further apart than either spread. One run has no spread, and nothing is said about its difference to anything.
A figure that was calculated from a part of the work is marked with ~ wherever it is shown.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    median: float
    least: float
    most: float
    runs: int
    estimated: bool = False  # by calculation, from a part of the work

    @property
    def spread(self) -> float:
        return self.most - self.least

    def text(self, digits: int = 3) -> str:
        """Such as "0.512 (0.498 to 0.530)"; one run has no spread; "~0.5" is by calculation."""
        about = "~" if self.estimated else ""
        if self.runs < 2:
            return about + significant(self.median, digits)
        return (
            f"{about}{significant(self.median, digits)} ({significant(self.least, digits)} to"
            f" {significant(self.most, digits)})"
        )


def figure(values: list[float], estimated: bool = False) -> Figure:
    if not values:
        raise ValueError("a figure needs one run or more")
    return Figure(statistics.median(values), min(values), max(values), len(values), estimated)


RAN = "share of the streams that ran"  # a measure; where it is there, the others are by calculation


def figure_of(measures: dict[str, list[float]], name: str) -> Figure | None:
    """Of the rounds of one point; None where it was not measured."""
    return figure(measures[name], estimated=name != RAN and RAN in measures) if measures.get(name) else None


def ratio(ours: Figure, theirs: Figure) -> Figure:
    """Its spread is the widest that both spreads allow."""
    return Figure(
        ours.median / theirs.median,
        ours.least / theirs.most,
        ours.most / theirs.least,
        min(ours.runs, theirs.runs),
        ours.estimated or theirs.estimated,
    )


def significant(value: float, digits: int = 3) -> str:
    """Rounded to so many digits, without an exponent below a million; thousands stay whole."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}" if abs(value) < 1e6 else f"{value:.{digits}g}"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:.{digits + 3}f}".rstrip("0")


def differ(a: Figure, b: Figure) -> bool:
    return a.runs > 1 and b.runs > 1 and abs(a.median - b.median) > max(a.spread, b.spread)


def compare(ours: Figure, theirs: Figure) -> str:
    """How many times as much `ours` is, in words: rates are compared, so more is faster."""
    if theirs.median <= 0:
        return "nothing to compare with"
    ratio = ours.median / theirs.median
    if min(ours.runs, theirs.runs) < 2:
        return f"{significant(ratio)} × (one run: no spread, so no claim)"
    if not differ(ours, theirs):
        return f"no difference beyond the spread ({significant(ratio)} ×)"
    return f"{significant(ratio)} ×"
