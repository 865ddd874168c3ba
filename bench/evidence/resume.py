"""A run that was ended is taken up: its sweeps with the rounds that they have, and its tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.evidence.figures import Figure
from bench.evidence.runner import Outcome, Sweep
from bench.evidence.verdicts import Results, Table

SAME = ("commit", "program", "machine", "GPU")  # conditions that must be equal


def take_up(file: Path, known: dict[str, str], size: str, sweeps: list[Sweep], results: Results) -> float:
    """Fills `results` with what `file` has of the same commands, and returns the minutes that this took. Conditions
    keep the date and load of the first run. What was left out, or failed, is run again."""
    if not file.is_file():
        return 0.0
    run = json.loads(file.read_text(encoding="utf-8"))
    other = [name for name in SAME if run["conditions"].get(name) != known[name]]
    if run["size"] != size:
        other.insert(0, "size")
    if known["commit"].endswith("with changes") or known["commit"] == "unknown":
        other.append("commit, which nobody can know again")
    if other:
        print(f"{file}: not taken up, it has another {', '.join(other)}", file=sys.stderr)
        return 0.0
    by_name = {sweep.name: sweep for sweep in sweeps}
    for name, of in run["sweeps"].items():
        if of["commands"] != results.planned.get(name) or of["rounds"] == 0 or of["failures"]:
            continue
        values = {series: {float(x): by for x, by in points.items()} for series, points in of["values"].items()}
        results.sweeps[name] = Outcome(
            by_name[name],
            values,
            of["commands"],
            of["rounds"],
            of["seconds"],
            of["seconds"] / of["rounds"],
            short=of["left_out"],
        )
    for name, of in run["tables"].items():
        if of["left_out"] or of["commands"] != results.planned.get(name):
            continue
        results.tables[name] = Table(
            name,
            of["title"],
            of["head"],
            of["rows"],
            of["note"],
            of["commands"],
            {key: Figure(**figure) for key, figure in of["figures"].items()},
            of["facts"],
            of["data"],
        )
    for name in ("date", "load before"):
        known[name] = run["conditions"][name]
    known["taken up"] = f"{int(run['conditions'].get('taken up', '0').split()[0]) + 1} times"
    return run["minutes"]
