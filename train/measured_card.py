"""Measurements through the program → the section "Measured" of a model's card (README.md), between its two marks.

    python3 -m train.measured_card models/smollm2-reader/README.md --answers ask.json … --long long.json --choices
        test.json

`--answers`: NAME=FILE of `banyan eval ask --json`; `--long`: of `eval.long_documents --json`; `--choices`: of
`eval.choices --json`. Every number comes from these files; what is not given keeps its place: the numbers are kept in
`measured.json` beside the card, and the section is written from all of it. `train.reading_card` leaves the marks in a
new card, so that the section can be made again for a new edition.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from eval.choices import table as choice_table
from eval.long_documents import table as long_table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def answers_table(sets: dict[str, list[dict]]) -> str:
    lines = [
        "| | questions | exact | F1 | `null` to all: F1 | `null` where there is none | calibration error | errors |",
        "|---" * 8 + "|",
    ]
    for name, (null, run) in sets.items():
        span = lambda key: f"{run[key]:.3f} ({run[key + '_interval'][0]:.2f} to {run[key + '_interval'][1]:.2f})"
        unknown = (
            f"{100 * run['null_without_answer']:.0f} % of {run['without_answer']}" if run["without_answer"] else "–"
        )
        error = f"{run['calibration_error']:.3f}" if "calibration_error" in run else "–"
        lines.append(
            f"| {name} | {run['questions']} | {span('exact')} | {span('f1')} | {null['f1']:.3f} | {unknown} | {error} |"
            f" {run['errors'] + run['missing']} |"
        )
    return "\n".join(lines) + "\n"


def section(measured: dict) -> str:
    parts = [
        BEGIN,
        "## Measured through the program",
        "`banyan eval ask`, `eval.long_documents` and `eval.choices`; 95 % intervals.",
        "",
    ]
    if measured.get("answers"):
        parts += [
            "**Answers and their confidence**, on texts that training and calibration had nothing of:",
            "",
            answers_table(measured["answers"]),
        ]
    if measured.get("long"):
        parts += [
            "**Long documents**: hand-written facts in pages of other text, asked in parts (`--too-long split`):",
            "",
            long_table(measured["long"]),
        ]
    if measured.get("choices"):
        parts += [
            "**Choices**, right answers by the way in which options are compared:",
            "",
            choice_table(measured["choices"]),
        ]
    return "\n".join(parts).rstrip() + "\n" + END


def with_section(card: str, text: str) -> str:
    """In place of the old section, or before "## Training" or "## How it was trained", or at the end."""
    if BEGIN in card:
        before, rest = card.split(BEGIN, 1)
        return before + text + rest.split(END, 1)[1]
    for heading in ("\n## Training\n", "\n## How it was trained\n"):
        if heading in card:
            return card.replace(heading, "\n" + text + "\n" + heading, 1)
    return card.rstrip() + "\n\n" + text + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("card", type=Path)
    p.add_argument("--answers", nargs="*", default=[], metavar="NAME=FILE")
    p.add_argument("--long", type=Path)
    p.add_argument("--choices", type=Path)
    a = p.parse_args()
    kept = a.card.parent / "measured.json"
    measured = json.loads(kept.read_text()) if kept.exists() else {}
    for given in a.answers:
        name, file = given.split("=", 1)
        measured.setdefault("answers", {})[name] = [json.loads(line) for line in Path(file).read_text().splitlines()][
            :2
        ]
    for name, file in (("long", a.long), ("choices", a.choices)):
        if file:
            measured[name] = json.loads(file.read_text())
    kept.write_text(json.dumps(measured, indent=1) + "\n")
    a.card.write_text(with_section(a.card.read_text(), section(measured)))


if __name__ == "__main__":
    main()
