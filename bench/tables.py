#!/usr/bin/env python3
"""Prints the tables of docs/performance.md from files that `banyan bench … --json FILE` wrote.

  banyan bench squad2 --device cuda --shape qwen3-8b --random --json squad2.json
  banyan bench shared --device cuda --shape qwen3-8b --random --json shared.json
  banyan bench attention --device cuda --json attention.json
  banyan bench forest --shape smollm2-135m --json forest.json
  bench/tables.py squad2.json shared.json attention.json forest.json

Four kinds, told apart by what is in a file: jobs (squad2, narrativeqa, race, longhealth), decode steps (shared,
hydragen), attention alone, and the strategies of one forest (forest, tree). Files of one kind make one table. Every
table has its distance to the limit, the least time for the bytes and flops at the rates that the machine reached.
"""

import argparse
import json
import pathlib
import sys

JOBS = ("squad2", "narrativeqa", "race", "longhealth")
GRIDS = ("shared", "hydragen")
COMPARISON_ONLY = ("sequential", "no-attention")


class UnknownFigures(Exception):
    """A file is not of one of the four kinds."""


def number(value: float, digits: int = 1) -> str:
    """Whole from 100 on, else with some digits; what was not measured is a dash."""
    if not value:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.{digits}f}"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if part and whole else "–"


def find(cell: dict, strategy: str) -> dict | None:
    return next((s for s in cell["strategies"] if s["strategy"] == strategy), None)


def judged(names) -> str:
    """The strategy whose figures count: what a user gets (auto), else tree, else the first that answers."""
    answering = [name for name in names if name not in COMPARISON_ONLY]
    if not answering:
        raise UnknownFigures("no strategy that gives answers")
    return next((name for name in ("auto", "tree") if name in answering), answering[0])


def judged_cell(cell: dict) -> dict:
    return find(cell, judged([s["strategy"] for s in cell["strategies"]]))


def ceiling(cell: dict, key: str) -> float:
    without = find(cell, "no-attention")
    return without[key] if without else 0.0


def job_row(cell: dict) -> list[str]:
    mine = judged_cell(cell)
    rate = mine["questions_per_second"]
    instruction, document, question = cell["lengths"]
    _, documents, questions = cell["branches"]
    return [
        f"{cell['work']} {instruction}/{document}/{questions}/{question}/{cell['max_new']}",
        str(documents),
        number(rate),
        number(ceiling(cell, "questions_per_second")),
        percent(rate * cell["limit_seconds"], cell["streams"]),
    ]


def decode_row(cell: dict) -> list[str]:
    mine = judged_cell(cell)
    steps, seconds, rate = mine["decode_steps"], mine["decode_step_seconds"], mine["decode_tokens_per_second"]
    name = f"{cell['streams']} × {cell['lengths'][0]}"
    if not steps:
        return [name, "–", "–", "–", "–", "–"]
    return [
        name,
        number(rate),
        f"{rate * seconds / steps:.0f}",
        f"{1e3 * seconds / steps:.2f}",
        number(ceiling(cell, "decode_tokens_per_second")),
        percent(mine["decode_limit_seconds"], seconds),
    ]


def attention_row(cell: dict) -> list[str]:
    times = cell["strategies"]
    rival = cell.get("flashinfer_us", {"cascade": 0, "paged": 0, "parts": 0})  # known on one machine alone
    mine = times[judged(times)]["median_us"]
    paged = times["paged"]["median_us"] if "paged" in times else 0.0
    return [
        cell["work"],
        number(mine),
        number(paged),
        number(cell["limit_us"]),
        percent(cell["limit_us"], mine),
        f"≤ {cell['target_us']:g}" if cell.get("target_us") else "–",
        ", ".join(f"{rival[kind]:g}" if rival[kind] else "–" for kind in ("cascade", "paged", "parts")),
    ]


def strategy_rows(cell: dict) -> list[list[str]]:
    best, rows = ceiling(cell, "questions_per_second"), []
    for one in cell["strategies"]:
        rate = one["questions_per_second"]
        # Answers have a fixed length, and their first tokens come out of the prompt's rows.
        computed = one["prefilled_tokens"] + one["generated_tokens"] - one["streams"]
        rows.append(
            [
                one["strategy"],
                f"{one['seconds']:.2f}",
                number(rate),
                str(computed),
                percent(rate, best),
                percent(rate * cell["limit_seconds"], cell["streams"]),
            ]
        )
    return rows


def kind_of(cell: dict) -> str:
    if "limit_us" in cell:
        return "attention"
    if "strategies" in cell and cell.get("work") in JOBS:
        return "jobs"
    if "strategies" in cell and cell.get("work") in GRIDS:
        return "decode"
    if "strategies" in cell and "branches" in cell:
        return "forest"
    raise UnknownFigures("neither a job, a grid, a forest nor attention alone of `banyan bench --json`")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(line) + " |" if line[0] != "---" else "|" + "|".join(line) + "|" for line in lines
    )


def machine(cell: dict) -> str:
    text = f"{cell['backend']}, {cell['precision']}"
    if cell["flops_per_second"]:
        text += (
            f", measured {cell['flops_per_second'] * 1e-12:.3g} TFLOP/s and {cell['bytes_per_second'] * 1e-12:.3g} TB/s"
        )
    return text


def tables(cells: list[dict]) -> str:
    by_kind: dict[str, list[dict]] = {}
    for cell in cells:
        by_kind.setdefault(kind_of(cell), []).append(cell)
    parts = []
    for kind, head, row in (
        (
            "jobs",
            [
                "job: instruction/document/questions/question/answer",
                "documents",
                "questions/s",
                "without attention",
                "of the limit",
            ],
            job_row,
        ),
        (
            "decode",
            [
                "decode, streams × shared tokens",
                "tok/s",
                "rows a step",
                "ms a step",
                "without attention",
                "of the limit",
            ],
            decode_row,
        ),
        (
            "attention",
            [
                "attention alone, µs",
                "ours",
                "paged",
                "limit",
                "of the limit",
                "target",
                "FlashInfer: cascade, paged, parts",
            ],
            attention_row,
        ),
    ):
        if kind in by_kind:
            first = by_kind[kind][0]
            title = machine(first) + "\n\n" if "backend" in first else ""
            parts.append(title + markdown(head, [row(cell) for cell in by_kind[kind]]))
    for cell in by_kind.get("forest", []):
        title = (
            f"{' × '.join(map(str, cell['branches']))} nodes of {' / '.join(map(str, cell['lengths']))} tokens, "
            f"{cell['max_new']} new | {machine(cell)}\n\n"
        )
        parts.append(
            title
            + markdown(
                ["strategy", "seconds", "answers/s", "rows computed", "of the ceiling", "of the limit"],
                strategy_rows(cell),
            )
        )
    return "\n\n".join(parts)


def read(name: str) -> list[dict]:
    try:
        found = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
        cells = found if isinstance(found, list) else [found]
        for cell in cells:
            kind_of(cell)
    except (OSError, ValueError, TypeError, UnknownFigures) as error:
        raise UnknownFigures(f"{name}: {error}") from error
    return cells


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", help="files of `banyan bench … --json FILE`")
    args = parser.parse_args(arguments)
    try:
        print(tables([cell for name in args.figures for cell in read(name)]))
    except UnknownFigures as error:
        print(f"tables.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
