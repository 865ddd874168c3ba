"""Figures of repeated runs: the median with its spread, and when two of them differ.

The spread of a figure is its greatest run minus its least. Two figures are called different only if their medians are
further apart than either spread. One run has no spread, and nothing is said about its difference to anything.
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

    @property
    def spread(self) -> float:
        return self.most - self.least

    def text(self, digits: int = 3) -> str:
        """Such as "0.512 (0.498 to 0.530)"; one run has no spread."""
        if self.runs < 2:
            return significant(self.median, digits)
        return (
            f"{significant(self.median, digits)} ({significant(self.least, digits)} to"
            f" {significant(self.most, digits)})"
        )


def figure(values: list[float]) -> Figure:
    if not values:
        raise ValueError("a figure needs one run or more")
    return Figure(statistics.median(values), min(values), max(values), len(values))


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


def fit_two_costs(first: list[float], second: list[float], seconds: list[float]) -> tuple[float, float]:
    """The a, b >= 0 that make a · first + b · second closest to `seconds`, relative to each: least squares of the
    relative errors."""
    rows = [(x / s, y / s) for x, y, s in zip(first, second, seconds) if s > 0]
    xx, yy, xy = sum(x * x for x, _ in rows), sum(y * y for _, y in rows), sum(x * y for x, y in rows)
    x1, y1 = sum(x for x, _ in rows), sum(y for _, y in rows)
    determinant = xx * yy - xy * xy
    if determinant > 1e-12 * max(xx * yy, 1e-300):
        a, b = (x1 * yy - y1 * xy) / determinant, (y1 * xx - x1 * xy) / determinant
        if a >= 0 and b >= 0:
            return a, b
    # One of them is 0: the better of the two.
    alone = [(x1 / xx if xx else 0.0, 0.0), (0.0, y1 / yy if yy else 0.0)]
    return min(alone, key=lambda ab: sum((ab[0] * x + ab[1] * y - 1) ** 2 for x, y in rows))
