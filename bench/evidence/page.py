"""The page: one file of HTML without anything from elsewhere, light and dark, and the JSON beside it."""

from __future__ import annotations

import html
import re
from dataclasses import asdict

from bench.evidence.figures import Figure, figure_of, significant
from bench.evidence.papers import CLAIMS, command_of, found_of, part_of
from bench.evidence.runner import Outcome
from bench.evidence.svg import Series, bar_plot, line_plot
from bench.evidence.readers import DECODE, FIRST, GAIN, MEMORY, RATE, SECONDS
from bench.evidence.sizes import Size
from bench.evidence.verdicts import CANNOT, CONTRADICTED, NO_FIGURE, NOT_REPRODUCED, REPRODUCED, Results, Table

# What a sweep's plots show: measures, one plot each, and whether their axis is logarithmic.
PLOTS = {
    "questions": [(RATE, True)],
    "context": [(DECODE, True)],
    "streams": [(DECODE, True), (MEMORY, True)],
    "reuse": [(RATE, True)],
    "prompts": [(SECONDS, False), (MEMORY, False)],
    "levels": [(SECONDS, False), (MEMORY, False)],
    "own": [(RATE, True)],
    "lengths": [(RATE, True)],
    "grid": [(GAIN, True)],
    "documents": [(RATE, True)],
    "stacks": [(RATE, False)],
    "rivals": [(SECONDS, False)],
    "relay": [(RATE, True)],
    "document": [(SECONDS, True)],
    "stack_batch": [("documents/s", False)],
    "hydragen": [(DECODE, True)],
    "values": [("documents/s", False)],
    "experts": [(FIRST, True)],
    "long_answer": [(SECONDS, False)],
    "prompt_shapes": [(RATE, True)],
    "budget": [(DECODE, True)],
    "attention": [("µs", True)],
    "jobs": [(RATE, True)],
}

FIGURE = r"~?[\d.]+( %)?( \([\d.]+ to [\d.]+\))?"  # a cell that holds a figure alone

# What the tables of the documentation show of a sweep, where it is not what is plotted.
SWEEP_TABLES = {"jobs": [RATE], "attention": ["µs"], "streams": [DECODE], "context": [DECODE]}

COLOURS = """
:root { color-scheme: light dark; --back: #ffffff; --panel: #f6f7f9; --text: #1d2430; --quiet: #5a6473;
  --rule: #d5dae2; --grid: #e4e8ee;
  --c0: #0b5fad; --c1: #b3430a; --c2: #1a7a3c; --c3: #8a2f8f; --c4: #8a6100; --c5: #10727c; --c6: #ab2248;
  --c7: #55606e; }
@media (prefers-color-scheme: dark) { :root { --back: #14181e; --panel: #1c222b; --text: #e6eaf0; --quiet: #a3adba;
  --rule: #38414d; --grid: #2a323d;
  --c0: #6fb4f2; --c1: #f2986a; --c2: #6fce8f; --c3: #dd95e0; --c4: #e0bb5b; --c5: #63cdd8; --c6: #f28aa6;
  --c7: #aeb8c4; } }
"""
PAGE = """* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 78rem; background: var(--back); color: var(--text);
  font: 15px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.6rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
p { max-width: 52rem; margin: .4rem 0; } .quiet, .note { color: var(--quiet); } .missing { color: var(--c1); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; margin: .7rem 0; }
th, td { text-align: left; vertical-align: top; padding: .32rem .7rem .32rem 0;
  border-bottom: 1px solid var(--rule); }
th { font-weight: 600; } td.figure { font-variant-numeric: tabular-nums; white-space: nowrap; }
td:first-child { min-width: 7rem; }
.papers { width: 100%; table-layout: fixed; min-width: 74rem; overflow-wrap: anywhere; }
.papers th:nth-child(1) { width: 9%; } .papers th:nth-child(2), .papers th:nth-child(3) { width: 15%; }
.papers th:nth-child(4) { width: 19%; } .papers th:nth-child(5) { width: 24%; } .papers th:nth-child(7) { width: 6%; }
a { color: var(--c0); }
code, pre { font: .82rem/1.5 ui-monospace, monospace; }
pre { background: var(--panel); padding: .7rem .9rem; overflow-x: auto; border-radius: 6px; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--quiet); }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
svg.plot { width: min(100%, 37rem); }
"""
DRAWING = (
    """svg.plot { background: var(--panel); border-radius: 6px; font: 12px system-ui, sans-serif; }
svg.plot text { fill: var(--text); }
.grid { stroke: var(--grid); } .axis, .tick { stroke: var(--quiet); fill: none; }
.line { fill: none; stroke-width: 2; } .spread { stroke-width: 1.5; opacity: .8; }
.whisker { stroke: var(--text); stroke-width: 1.5; } .open { fill: none; stroke-width: 2; }
"""
    + "".join(
        f".s{n} .line, .s{n} .spread, .s{n} .mark {{ stroke: var(--c{n}); }} .s{n} .mark, .s{n} .bar {{ fill:"
        f" var(--c{n}); }}\n"
        for n in range(8)
    )
    + ".mark .open { fill: none; }"
)
STYLE = COLOURS + PAGE + DRAWING
VARIABLES = COLOURS + DRAWING  # of a plot that stands alone


def _table(name: str, head: list[str], rows: list[list[str]], kind: str = "") -> str:
    def cell(text: str) -> str:
        link = re.fullmatch(r"see (\w+)", text)
        inside = f'<a href="#{link[1]}">{link[1]}</a>' if link else html.escape(text)
        return f"<td{' class=figure' if re.fullmatch(FIGURE, text) else ''}>{inside}</td>"

    return (
        f'<div class="wide"><table class="{kind}" aria-label="{html.escape(name, quote=True)}"><thead><tr>'
        + "".join(f"<th scope=col>{html.escape(h)}</th>" for h in head)
        + "</tr></thead><tbody>"
        + "".join("<tr>" + "".join(cell(c) for c in row) + "</tr>" for row in rows)
        + "</tbody></table></div>"
    )


def _commands(commands: list[str]) -> str:
    if not commands:
        return ""
    title = f"{len(commands)} command{'s' if len(commands) > 1 else ''}"
    return f"<details><summary>{title}</summary><pre>{html.escape(chr(10).join(commands))}</pre></details>"


def _series(outcome: Outcome, measure: str) -> list[Series]:
    found = []
    for name, points in outcome.values.items():
        made = [(x, found_at) for x, m in sorted(points.items()) if (found_at := figure_of(m, measure))]
        if made:
            found.append(Series(name, made))
    return found


def sweep_section(outcome: Outcome) -> str:
    sweep = outcome.sweep
    out = [
        f'<section id="{sweep.name}"><h2>{html.escape(sweep.title)}</h2><p class="note">{html.escape(sweep.note)}'
        f" {outcome.rounds} rounds in turns, {outcome.seconds:.0f} s.</p>"
    ]
    if outcome.left_out:
        out.append(f'<p class="missing">{html.escape(outcome.left_out)}</p>')
    plots = []
    for measure, logarithmic in PLOTS.get(sweep.name, []):
        series = _series(outcome, measure)
        if not series:
            continue
        points = {x for s in series for x, _ in s.points}
        if len(points) > 1 and sweep.name not in ("jobs", "hydragen"):
            plots.append(
                line_plot(
                    f"{sweep.title}: {measure}",
                    sweep.x_label,
                    measure,
                    series,
                    sweep.log_x and min(points) > 0,
                    logarithmic,
                )
            )
        else:
            x = min(points)
            plots.append(
                bar_plot(
                    f"{sweep.title}: {measure}", measure, [(s.name, f) for s in series for at, f in s.points if at == x]
                )
            )
    out.append('<div class="plots">' + "".join(plots) + "</div>")
    measures = list(dict.fromkeys(m for points in outcome.values.values() for by in points.values() for m in by))
    rows = [
        [significant(x, 5), name] + [f.text() if (f := figure_of(by, m)) else "–" for m in measures]
        for name, points in outcome.values.items()
        for x, by in sorted(points.items())
    ]
    if rows:
        figures = _table(f"{sweep.title}: all figures", [sweep.x_label, "series", *measures], rows)
        out.append(f"<details><summary>all figures</summary>{figures}</details>")
    return "".join(out) + _commands(outcome.commands) + "</section>"


def quality_section(table: Table) -> str:
    out = f'<section id="{table.name}"><h2>{html.escape(table.title)}</h2><p class="note">{html.escape(table.note)}</p>'
    if table.left_out:
        out += f'<p class="missing">{html.escape(table.left_out)}</p>'
    if table.figures and table.name in ("answers", "extraction", "drafts"):
        unit = "questions/s" if table.name == "answers" else "documents/s"
        groups: dict[str, dict[str, Figure]] = {}  # a plot for each job or set
        for name, figure in table.figures.items():
            job, _, way = name.rpartition(": ")
            groups.setdefault(job, {})[way] = figure
        plots = [
            bar_plot(f"{table.title}: {job + ', ' if job else ''}{unit}", unit, list(bars.items()))
            for job, bars in groups.items()
        ]
        out += '<div class="plots">' + "".join(plots) + "</div>"
    return (
        out
        + (_table(table.title, table.head, table.rows) if table.rows else "")
        + _commands(table.commands)
        + "</section>"
    )


CLAIM_HEAD = ["claim", "their setting", "command here", "our figure (least to most)", "verdict"]


def claim_rows(results: Results) -> list[list[str]]:
    """Paper, then the cells of CLAIM_HEAD, then the part of the page with all of the figures."""
    rows = []
    for claim in CLAIMS:
        found = found_of(claim, results)
        part = part_of(claim, results)
        command = command_of(claim, results)
        rows.append(
            [
                claim.paper,
                claim.claim,
                claim.setting,
                command,
                found.text,
                found.told,
                f"see {part}" if part in results.sweeps or part in results.tables else "–",
            ]
        )
    return rows


def counts(rows: list[list[str]]) -> str:
    """How many claims have which verdict."""
    kinds = (REPRODUCED, NOT_REPRODUCED, CONTRADICTED, CANNOT, NO_FIGURE)
    return ", ".join(f"{n} {kind}" for kind in kinds if (n := sum(row[5].startswith(kind) for row in rows)))


def claims_markdown(size: Size, conditions: dict[str, str], flags: str, results: Results) -> str:
    """The table alone, for other pages."""
    rows = claim_rows(results)
    cell = lambda text: text.replace("|", "\\|")
    lines = [
        f"# The papers' claims\n\nSize {size.name}, {size.what}. Commit {conditions.get('commit', 'unknown')}; {conditions.get('machine', '')};"
        f" {conditions.get('date', '')}; `{flags}`. {len(rows)} claims: {counts(rows)}.\n",
        "| paper | " + " | ".join(CLAIM_HEAD) + " |",
        "|---" * (1 + len(CLAIM_HEAD)) + "|",
    ]
    lines += ["| " + " | ".join(map(cell, row[:6])) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def make_page(size: Size, conditions: dict[str, str], flags: str, results: Results, minutes: float) -> str:
    rows = claim_rows(results)
    claims = _table("The papers’ claims", ["paper", *CLAIM_HEAD, "all figures"], rows, "papers")
    facts = _table(
        "Conditions",
        ["condition", "value"],
        [[k, v] for k, v in conditions.items()]
        + [["size", f"{size.name}: {size.what}"], ["command", flags], ["took", f"{minutes:.1f} minutes"]],
    )
    body = (
        "<h1>Evidence</h1><p>Every claim of the five papers that this machine can put to the test. Sweeps have random"
        " tokens and answers of fixed length, so they say nothing about quality; quality is measured with real weights"
        f" on texts. All commands of a sweep take turns, {size.rounds} rounds at most, without a warm-up; a figure is"
        " the median of the rounds, in brackets the least and the most. Two figures are called different only if their"
        " medians are further apart than either's spread. Strategies of one command give the same answers bit for bit,"
        f" or the command fails.</p>{facts}<section id=papers><h2>The papers’ claims</h2><p>{len(rows)} claims:"
        f" {counts(rows)}. Claims and settings are the papers’; command, figure and verdict are of this run, at commit"
        f" {html.escape(conditions.get('commit', 'unknown'))}. Reproduced: as large as claimed, beyond the spread. ~ is"
        " by calculation from a part of the streams. A command is the first of those that the last column leads"
        f" to.</p>{claims}</section>"
        + "".join(sweep_section(o) for o in results.sweeps.values())
        + "".join(quality_section(t) for t in results.tables.values())
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Evidence</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def as_json(size: Size, conditions: dict[str, str], flags: str, results: Results, minutes: float) -> dict:
    tell = lambda f: asdict(f) if isinstance(f, Figure) else f
    return {
        "size": size.name,
        "conditions": conditions,
        "command": flags,
        "minutes": minutes,
        "papers": [
            dict(zip(("paper", "claim", "setting", "command", "ours", "verdict", "figures"), row))
            for row in claim_rows(results)
        ],
        "sweeps": {
            name: {
                "title": o.sweep.title,
                "x": o.sweep.x_label,
                "note": o.sweep.note,
                "rounds": o.rounds,
                "seconds": o.seconds,
                "left_out": o.left_out,
                "failures": o.failures,
                "commands": o.commands,
                "values": {s: {f"{x:g}": by for x, by in points.items()} for s, points in o.values.items()},
            }
            for name, o in results.sweeps.items()
        },
        "tables": {
            name: {
                "title": t.title,
                "head": t.head,
                "rows": t.rows,
                "note": t.note,
                "commands": t.commands,
                "facts": t.facts,
                "figures": {k: tell(f) for k, f in t.figures.items()},
                "left_out": t.left_out,
                "data": t.data,
            }
            for name, t in results.tables.items()
        },
    }
