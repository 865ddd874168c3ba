"""Plots as SVG for a page of HTML: lines with the spread as bars, and bars. Colours come from the page's style sheet,
so that they follow light and dark.

A series has a class s0 … s7 and a mark of its own form, so that it is told apart without its colour. Every mark has a
title with its figures.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

from bench.evidence.figures import Figure, significant

WIDTH, HEIGHT = 640, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 176, 18, 46
MARKS = 8
# The same strategy looks the same in every plot; other series take their number.
KNOWN = {name: n for n, name in enumerate(("auto", "paged", "stacked", "flat", "no-attention", "tree"))}


@dataclass
class Series:
    name: str
    points: list[tuple[float, Figure]] = field(default_factory=list)  # x ascending


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at most `low` to at least `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next((m for m in (1, 2, 5, 10, 20) if (high - low) / (step * m) <= most), 50)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 where there are few of them."""
    if low <= 0:
        raise ValueError("a logarithmic axis begins above 0")
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    steps = (1,) if last - first > 3 else (1, 2, 5)
    made = [m * 10.0**n for n in range(first, last + 1) for m in steps]
    inside = [t for t in made if low <= t * 1.0000001 and t <= high * 1.0000001]
    below, above = [t for t in made if t < low], [t for t in made if t > high]
    return (
        below[-1:] * (not inside or inside[0] > low * 1.0000001)
        + inside
        + above[:1] * (not inside or inside[-1] < high / 1.0000001)
    )


def _mark(which: int, x: float, y: float) -> str:
    s = 4.2
    forms = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{s}"/>',
        f'<rect x="{x - s:.1f}" y="{y - s:.1f}" width="{2 * s}" height="{2 * s}"/>',
        f'<path d="M{x:.1f} {y - s - 1:.1f}L{x + s + 1:.1f} {y + s:.1f}H{x - s - 1:.1f}Z"/>',
        f'<path d="M{x:.1f} {y + s + 1:.1f}L{x + s + 1:.1f} {y - s:.1f}H{x - s - 1:.1f}Z"/>',
        (
            f'<path d="M{x:.1f} {y - s - 2:.1f}L{x + s + 2:.1f} {y:.1f}L{x:.1f} {y + s + 2:.1f}L{x - s - 2:.1f}'
            f' {y:.1f}Z"/>'
        ),
        (
            f'<path d="M{x - s:.1f} {y - s:.1f}L{x + s:.1f} {y + s:.1f}M{x - s:.1f} {y + s:.1f}L{x + s:.1f}'
            f' {y - s:.1f}" class="open"/>'
        ),
        f'<path d="M{x - s:.1f} {y:.1f}H{x + s:.1f}M{x:.1f} {y - s:.1f}V{y + s:.1f}" class="open"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{s}" class="open"/>',
    )
    return forms[which % MARKS]


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'


def _frame(title: str, body: list[str]) -> str:
    name = html.escape(title, quote=True)
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{name}"><title>{html.escape(title)}</title>' + "".join(body) + "</svg>"
    )


def line_plot(
    title: str, x_label: str, y_label: str, series: list[Series], log_x: bool = False, log_y: bool = False
) -> str:
    """Medians joined by lines, with a bar from the least to the most run. `log_x` with an x of 0 is an error."""
    series = [s for s in series if s.points]
    if not series:
        return _frame(title, [_text(WIDTH / 2, HEIGHT / 2, "nothing was measured")])
    xs = sorted({x for s in series for x, _ in s.points})
    low, high = min(f.least for s in series for _, f in s.points), max(f.most for s in series for _, f in s.points)
    y_marks = log_ticks(low, high) if log_y and low > 0 else ticks(0 if low >= 0 else low, high)
    log_y = log_y and low > 0
    scale = math.log10 if log_y else float
    place = math.log10 if log_x else float
    x0, x1, y0, y1 = place(xs[0]), place(xs[-1]), scale(y_marks[0]), scale(y_marks[-1])
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    at_x = lambda x: LEFT + (wide / 2 if x1 == x0 else wide * (place(x) - x0) / (x1 - x0))
    at_y = lambda y: TOP + tall * (1 - (scale(y) - y0) / (y1 - y0))
    out = [
        f'<path class="grid" d="M{LEFT} {at_y(t):.1f}H{WIDTH - RIGHT}"/>'
        + _text(LEFT - 7, at_y(t) + 4, significant(t, 3), "end")
        for t in y_marks
    ]
    last = -1e9
    for x in xs:
        out.append(f'<path class="tick" d="M{at_x(x):.1f} {HEIGHT - BOTTOM}v4"/>')
        if at_x(x) - last >= 34:
            out.append(_text(at_x(x), HEIGHT - BOTTOM + 17, significant(x, 4)))
            last = at_x(x)
    out.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    out.append(_text(LEFT + wide / 2, HEIGHT - 8, x_label))
    out.append(_text(14, TOP + tall / 2, y_label, more=f' transform="rotate(-90 14 {TOP + tall / 2:.0f})"'))
    for n, s in enumerate(series):
        look = KNOWN.get(s.name, n) % MARKS
        estimated = any(f.estimated for _, f in s.points)
        path = "L".join(f"{at_x(x):.1f} {at_y(f.median):.1f}" for x, f in s.points)
        out.append(f'<g class="s{look}"><path class="line" d="M{path}"/>')
        for x, f in s.points:
            if f.runs > 1:
                out.append(f'<path class="spread" d="M{at_x(x):.1f} {at_y(f.least):.1f}V{at_y(f.most):.1f}"/>')
            said = html.escape(f"{s.name}, {significant(x, 4)}: {f.text()}")
            out.append(f'<g class="mark">{_mark(look, at_x(x), at_y(f.median))}<title>{said}</title></g>')
        out.append(
            f'<g class="mark">{_mark(look, WIDTH - RIGHT + 16, TOP + 8 + 19 * n)}</g></g>'
            + _text(WIDTH - RIGHT + 27, TOP + 12 + 19 * n, ("~" if estimated else "") + s.name, "start")
        )
    return _frame(title, out)


def bar_plot(title: str, y_label: str, bars: list[tuple[str, Figure]]) -> str:
    """One horizontal bar each, from 0, with its spread and its figure beside it."""
    if not bars:
        return _frame(title, [_text(WIDTH / 2, HEIGHT / 2, "nothing was measured")])
    names = 190
    marks = ticks(0, max(f.most for _, f in bars), 5)
    wide, tall = WIDTH - names - 120, HEIGHT - TOP - BOTTOM
    at_x = lambda v: names + wide * v / marks[-1]
    out = [
        f'<path class="grid" d="M{at_x(t):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        + _text(at_x(t), HEIGHT - BOTTOM + 17, significant(t))
        for t in marks
    ]
    step = tall / len(bars)
    for n, (name, f) in enumerate(bars):
        y, high = TOP + step * n + step * 0.18, step * 0.64
        out.append(_text(names - 8, y + high / 2 + 4, name, "end"))
        out.append(
            f'<g class="s{KNOWN.get(name, n) % MARKS}"><rect class="bar" x="{names}" y="{y:.1f}"'
            f' width="{max(0.0, at_x(f.median) - names):.1f}"'
            f' height="{high:.1f}"><title>{html.escape(f"{name}: {f.text()}")}</title></rect></g>'
        )
        if f.runs > 1:
            out.append(f'<path class="whisker" d="M{at_x(f.least):.1f} {y + high / 2:.1f}H{at_x(f.most):.1f}"/>')
        out.append(
            _text(at_x(f.most) + 7, y + high / 2 + 4, ("~" if f.estimated else "") + significant(f.median), "start")
        )
    out.append(_text(names + wide / 2, HEIGHT - 8, y_label))
    return _frame(title, out)
