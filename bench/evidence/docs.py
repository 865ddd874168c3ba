"""Writes what a run measured into the documentation, between marks, and its charts beside it.

    python3 -m bench.evidence.docs build/evidence/evidence.json [--to docs] [--check]

docs/performance.md gets two sweeps (part `cpu`, or `gpu` from a run on a GPU), docs/results.md two quality tables;
evidence.html has all of them and the papers' claims. A part stands between `<!-- evidence: begin NAME -->` and `<!--
evidence: end NAME -->`; what is outside is written by hand. A page without the marks of `gpu` gets them after `cpu`.
`--check` writes nothing and fails where a page differs from the run.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path

from bench.evidence.figures import figure_of, significant
from bench.evidence.page import PLOTS, SWEEP_TABLES, VARIABLES
from bench.evidence.svg import Series, line_plot
from bench.evidence.sizes import SIZES
from bench.evidence.sweeps import make_sweeps

BUSY = 1.0  # processes that ran before; more than this is not a quiet machine
# What the pages show of a run; evidence.html has all of it.
SHOWN_SWEEPS = ("questions", "reuse")
SHOWN_TABLES = ("answers", "extraction")
# A chart of the documentation: file → (sweep, measure, logarithmic axes).
CHARTS = {
    "evidence-questions.svg": ("questions", "questions/s", True, True),
    "evidence-reuse.svg": ("reuse", "questions/s", False, True),
}


def replaced(page: str, name: str, text: str) -> str:
    """The page with `text` between the marks of `name`. Raises ValueError without them."""
    begin, end = f"<!-- evidence: begin {name} -->", f"<!-- evidence: end {name} -->"
    after = "<!-- evidence: end cpu -->"
    if name == "gpu" and begin not in page and page.count(after) == 1:
        page = page.replace(after, f"{after}\n\n{begin}\n{end}")
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"expected the marks of '{name}' once")
    return page[: page.index(begin) + len(begin)] + "\n" + text.strip("\n") + "\n" + page[page.index(end) :]


def wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False))


def markdown(head: list[str], rows: list[list[str]]) -> str:
    cell = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    line = lambda cells: "| " + " | ".join(map(cell, cells)) + " |"
    return "\n".join([line(head), "|---" * len(head) + "|", *map(line, rows)])


def conditions(run: dict) -> str:
    known = run["conditions"]
    where = known["GPU"] if run["size"] == "gpu" else f"{known['machine']}; {known['compiler']}"
    text = (
        f"{where}; commit {known['commit']}; {known['date']}. Load before the run: {known['load before']}; after it:"
        f" {known.get('load after', 'unknown')}. Size `{run['size']}`, {run['minutes']:.1f} minutes:"
        f" `{run['command']}`."
    )
    if run["size"] != "gpu" and float(known["load before"].split()[0]) > BUSY:
        text += (
            " **Other programs used the machine meanwhile**: rates are a part of what a quiet machine gives, and"
            " spreads are wide. Compare within one table only."
        )
    missing = [s.name for s in make_sweeps(SIZES[run["size"]], []) if s.cells and s.name not in run["sweeps"]]
    return wrapped(text + (f" Not in this run: {', '.join(missing)}." if missing else ""))


def sweep_table(sweep: dict, measure: str) -> str:
    """A line for every x, a column for every series: the median with its spread."""
    series = [name for name, points in sweep["values"].items() if any(measure in by for by in points.values())]
    xs = sorted({float(x) for name in series for x in sweep["values"][name]})
    tell = lambda name, x: (
        found.text() if (found := figure_of(sweep["values"][name].get(f"{x:g}", {}), measure)) else "–"
    )
    return markdown(
        [f"{sweep['x']}; {measure}", *series], [[significant(x, 5), *(tell(name, x) for name in series)] for x in xs]
    )


def performance(run: dict) -> str:
    out = [conditions(run), ""]
    out += [
        wrapped(
            "Cells are the median of the rounds, in brackets the least and the most. All commands of a sweep take"
            " turns. Weights are "
            + ("random, at the Qwen3-8B shape" if run["size"] == "gpu" else "the shipped model's")
            + ", tokens are random, and answers have a fixed length. "
            "`no-attention` gives wrong answers: it is the ceiling. ~ marks what was calculated from a part of the"
            " streams."
        ),
        "",
    ]
    for name, sweep in run["sweeps"].items():
        if name not in SHOWN_SWEEPS:
            continue
        measures = [
            m
            for m in SWEEP_TABLES.get(name, [m for m, _ in PLOTS.get(name, [])])
            if any(m in by for points in sweep["values"].values() for by in points.values())
        ]
        out += [
            f"### {sweep['title']}",
            wrapped(
                f"{sweep['note']} {sweep['rounds']}"
                f" round{'' if sweep['rounds'] == 1 else 's'}.{' ' + sweep['left_out'] if sweep['left_out'] else ''}"
            ),
            "",
        ]
        for measure in measures:
            out += [sweep_table(sweep, measure), ""]
    return "\n".join(out)


def results(run: dict) -> str:
    out = [conditions(run), ""]
    for name, table in run["tables"].items():
        if name not in SHOWN_TABLES:
            continue
        out += [
            f"### {table['title']}",
            wrapped(table["note"] + (" " + table["left_out"] if table["left_out"] else "")),
            "",
        ]
        if table["rows"]:
            out += [markdown(table["head"], table["rows"]), ""]
    return "\n".join(out)


def chart(run: dict, sweep_name: str, measure: str, log_x: bool, log_y: bool) -> str:
    """A picture that stands alone, light or dark as its reader has it."""
    sweep = run["sweeps"][sweep_name]
    series = [
        Series(name, sorted((float(x), figure_of(by, measure)) for x, by in points.items() if measure in by))
        for name, points in sweep["values"].items()
    ]
    plot = line_plot(
        f"{sweep['title']}: {measure}",
        sweep["x"],
        measure,
        series,
        log_x and min(x for s in series for x, _ in s.points) > 0,
        log_y,
    )
    return (
        plot.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="330" ', 1).replace(
            "</title>", f"</title><style>{VARIABLES}</style>", 1
        )
        + "\n"
    )


def pages(run: dict, folder: Path) -> dict[Path, str]:
    read = lambda name: (folder / name).read_text(encoding="utf-8")
    made = {
        folder
        / "performance.md": replaced(read("performance.md"), "gpu" if run["size"] == "gpu" else "cpu", performance(run))
    }
    if run["size"] == "gpu":
        return made
    made[folder / "results.md"] = replaced(read("results.md"), "quality", results(run))
    for file, (sweep, measure, log_x, log_y) in CHARTS.items():
        if run["sweeps"].get(sweep, {}).get("values"):
            made[folder / "images" / file] = chart(run, sweep, measure, log_x, log_y)
    return made


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", type=Path, help="evidence.json")
    p.add_argument("--to", type=Path, default=Path("docs"))
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    made = pages(json.loads(a.run.read_text(encoding="utf-8")), a.to)
    if a.check:
        other = [
            str(path) for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        print("\n".join(f"{path}: differs from {a.run}" for path in other), file=sys.stderr)
        return 1 if other else 0
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
