"""What a run says about a claim: a figure with its spread, and one of four verdicts.

A verdict is worked out from the figures alone. `reproduced`: the claimed effect is there, as large as claimed, beyond
the spread. `not reproduced`: it is smaller, or within the spread, or it was measured once or by calculation, which the
verdict says in brackets. `contradicted`: the opposite is there, beyond the spread. `cannot be run here`: with the
reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable

from bench.evidence.figures import Figure, figure_of, ratio, significant
from bench.evidence.runner import Outcome

REPRODUCED, NOT_REPRODUCED, CONTRADICTED, CANNOT = (
    "reproduced",
    "not reproduced",
    "contradicted",
    "cannot be run here",
)
NO_FIGURE = "no figure in this run"
FEWEST = 10  # questions that an interval says something about


@dataclass(frozen=True)
class Found:
    """Our figure in words, and the verdict with what is in brackets behind it."""

    text: str
    verdict: str
    why: str = ""

    @property
    def told(self) -> str:
        return self.verdict + (f" ({self.why})" if self.why else "")


@dataclass
class Table:
    name: str
    title: str
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    commands: list[str] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)  # for the papers' rows
    facts: dict[str, str] = field(default_factory=dict)
    data: object = None
    left_out: str = ""


@dataclass
class Results:
    sweeps: dict[str, Outcome]
    tables: dict[str, Table]
    planned: dict[str, list[str]] = field(default_factory=dict)  # commands of every part of this size

    def points(self, sweep: str, series: str, measure: str) -> dict[float, Figure]:
        """By x."""
        values = self.sweeps[sweep].values.get(series, {}) if sweep in self.sweeps else {}
        return {x: found for x, by in sorted(values.items()) if (found := figure_of(by, measure))}

    def table(self, name: str) -> Table | None:
        """None where it was left out."""
        found = self.tables.get(name)
        return found if found and found.rows else None


def judged(text: str, figures: Iterable[Figure], holds: bool, opposite: bool, why: str = "") -> Found:
    """`holds` and `opposite` are beyond the spread; nothing is claimed of one run, or of what was calculated."""
    figures = list(figures)
    if any(f.estimated for f in figures):
        return Found(text, NOT_REPRODUCED, "by calculation from a part of the streams, so no claim")
    if any(f.runs < 2 for f in figures):
        return Found(text, NOT_REPRODUCED, "one run, so no claim")
    if holds:
        return Found(text, REPRODUCED)
    if opposite:
        return Found(text, CONTRADICTED, why)
    return Found(text, NOT_REPRODUCED, why or "within the spread")


def ratios(r: Results, sweep: str, ours: str, rivals: list[str], measure: str, times: bool) -> dict[float, tuple]:
    """x → (how many times as good as the best rival, ours, the rival's, its name). `times`: less is better. Points of
    which all was run, or, where there is none, all."""
    mine = r.points(sweep, ours, measure)
    out = {}
    for x, figure_here in mine.items():
        others = {name: f for name in rivals if (f := r.points(sweep, name, measure).get(x)) and f.median > 0}
        if not others or figure_here.median <= 0:
            continue
        best = (min if times else max)(others, key=lambda name: others[name].median)
        pair = (others[best], figure_here) if times else (figure_here, others[best])
        out[x] = (ratio(*pair), figure_here, others[best], best)
    whole = {x: found for x, found in out.items() if not found[0].estimated}
    return whole or out


def up_to(
    r: Results,
    sweep: str,
    ours: str,
    rivals: list[str],
    measure: str,
    claimed: float,
    times: bool = False,
    at: float | None = None,
) -> Found | None:
    """`claimed` times as good as the best of the rivals, at the point where it is most, or `at` one."""
    found = ratios(r, sweep, ours, rivals, measure, times)
    found = {x: points for x, points in found.items() if at in (None, x)}
    if not found:
        return None
    x = max(found, key=lambda at: found[at][0].median)
    gain, mine, other, name = found[x]
    text = (
        f"{'at most at' if at is None else 'at'} {significant(x, 5)}: {ours} {mine.text()}, {name}"
        f" {other.text()} {measure}: {gain.text()} times"
    )
    return judged_gain(text, gain, claimed)


def judged_gain(text: str, gain: Figure, claimed: float) -> Found:
    """`gain`: how many times as good."""
    short = gain.least > 1 and gain.median < claimed
    why = f"{significant(gain.median)} of {significant(claimed)} times" if short else ""
    return judged(text, [gain], gain.least >= claimed, gain.most < 1, why)


def everywhere(r: Results, sweep: str, ours: str, rivals: list[str], measure: str) -> Found | None:
    """Better than the best rival at every point; one point where it is worse contradicts."""
    found = ratios(r, sweep, ours, rivals, measure, False)
    if not found:
        return None
    gains = [gain for gain, *_ in found.values()]
    text = "; ".join(
        f"at {significant(x, 5)}: {ours} {mine.text()}, {name} {other.text()} {measure}: {gain.text()} times"
        for x, (gain, mine, other, name) in found.items()
    )
    return judged(text, gains, all(g.least > 1 for g in gains), any(g.most < 1 for g in gains))


def grows(
    r: Results, sweep: str, ours: str, rivals: list[str], measure: str, times: bool = False, shrinks: bool = False
) -> Found | None:
    """The gain over the best rival, from the least to the greatest x."""
    found = ratios(r, sweep, ours, rivals, measure, times)
    if len(found) < 2:
        return None
    first, last = min(found), max(found)
    a, b = found[first][0], found[last][0]
    text = (
        f"{ours} over the best of {', '.join(rivals)}: {a.text()} times at {significant(first, 5)}, {b.text()} at"
        f" {significant(last, 5)}"
    )
    more, less = b.least > a.most, b.most < a.least
    return judged(text, [a, b], less if shrinks else more, more if shrinks else less)


def falls(r: Results, sweep: str, series: str, measure: str, most: float = 0.0, least: float = 0.0) -> Found | None:
    """From the least to the greatest x, of which one is 16 times the other: at most `most`, or at least `least`, of
    what it was."""
    points = r.points(sweep, series, measure)
    if len(points) < 2:
        return None
    first, last = min(points), max(points)
    left = ratio(points[last], points[first])
    lost = lambda share: f"{'−' if share < 1 else '+'}{abs(100 * (1 - share)):.0f} %"
    text = (
        f"{series}: {points[first].text()} → {points[last].text()} {measure} from {significant(first, 5)} to"
        f" {significant(last, 5)}: {lost(left.median)} ({lost(left.most)} to {lost(left.least)})"
    )
    holds = left.median >= 1 - most if most else left.median <= 1 - least
    within = left.least < (1 - (most or least)) < left.most
    if last < 16 * first:
        return Found(text, NOT_REPRODUCED, f"only {last / first:g} times the tokens")
    return judged(
        text, [left], holds and not within, False, "within the spread" if within else f"{lost(left.median)} here"
    )


def grows_less(r: Results, sweep: str, series: str, measure: str) -> Found | None:
    """A time that grows by less than x does."""
    points = r.points(sweep, series, measure)
    if len(points) < 2:
        return None
    first, last = min(points), max(points)
    grown = ratio(points[last], points[first])
    text = (
        f"{series}: {points[first].text()} → {points[last].text()} {measure} from {significant(first, 5)} to"
        f" {significant(last, 5)}: {grown.text()} times"
    )
    return judged(text, [grown], grown.most < last / first, grown.least >= last / first)


def peak(r: Results, sweep: str, series: str, measure: str, name: str) -> Found | None:
    """The best x is neither the least nor the greatest."""
    points = r.points(sweep, series, measure)
    if len(points) < 3:
        return None
    best = max(points, key=lambda x: points[x].median)
    ends = [points[min(points)], points[max(points)]]
    text = f"best at {name} = {best:g}: {points[best].text()} {measure}; at the ends {ends[0].text()}, {ends[1].text()}"
    inside = best not in (min(points), max(points))
    apart = [points[best].least > end.most for end in ends]
    why = "the best is at an end" if not inside else "within the spread"
    return judged(text, [points[best], *ends], inside and all(apart), not inside and any(apart), why)


def fact(r: Results, table: str, names: list[str], verdict: str = "") -> Found | None:
    """Facts of a quality table. The verdict is the table's own, under the name `verdict`."""
    found = r.table(table)
    if found is None:
        return None
    known = [name for name in names if found.facts.get(name)]
    told = "; ".join(f"{name}: {found.facts[name]}" if len(names) > 1 else found.facts[name] for name in known)
    kind, _, why = found.facts.get(verdict, NOT_REPRODUCED).partition(": ")
    return Found(told, kind, why) if told else None


def better(ours: dict, theirs: dict, key: str, strictly: bool = True) -> str:
    """Verdict of “ours is better”, or without `strictly` “as good or better”, by intervals: `key` is a share,
    `key_interval` holds 95 % of its resamples, and `questions` says of how many."""
    few = min(s.get("questions", FEWEST) for s in (ours, theirs))
    if few < FEWEST:
        return f"{NOT_REPRODUCED}: {few} question{'' if few == 1 else 's'}, so no claim"
    a, b = ours[key + "_interval"], theirs[key + "_interval"]
    percent = (
        lambda s: f"{100 * s[key]:.0f} % ({100 * s[key + '_interval'][0]:.0f} to {100 * s[key + '_interval'][1]:.0f})"
    )
    if a[1] < b[0]:
        return f"{CONTRADICTED}: {percent(ours)} against {percent(theirs)}"
    if a[0] > b[1] or (not strictly and ours[key] >= theirs[key]):
        return REPRODUCED
    return f"{NOT_REPRODUCED}: the intervals overlap, {percent(ours)} against {percent(theirs)}"


def worst(verdicts: list[str]) -> str:
    """Of several sets: one that contradicts counts before one that does not reproduce, and that before all others."""
    order = (CONTRADICTED, NOT_REPRODUCED, CANNOT, REPRODUCED)
    return min(verdicts, key=lambda verdict: order.index(verdict.partition(": ")[0]))
