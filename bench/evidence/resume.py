"""A run that was ended is taken up: its sweeps with the rounds that they have, and its tables. And what a run lacks is
taken of another one of the same commit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.evidence.figures import Figure
from bench.evidence.runner import Outcome, Sweep
from bench.evidence.verdicts import Results, Table

SAME = ("commit", "program", "machine", "GPU")  # conditions that must be equal


def sweep_of(sweep: Sweep, of: dict) -> Outcome:
    values = {series: {float(x): by for x, by in points.items()} for series, points in of["values"].items()}
    longest = of["seconds"] / of["rounds"] if of["rounds"] else 0.0
    return Outcome(sweep, values, of["commands"], of["rounds"], of["seconds"], longest, short=of["left_out"])


def table_of(name: str, of: dict) -> Table:
    figures = {key: Figure(**figure) for key, figure in of["figures"].items()}
    words = of["title"], of["head"], of["rows"], of["note"], of["commands"]
    return Table(name, *words, figures, of["facts"], of["data"])


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
        if of["commands"] == results.planned.get(name) and of["rounds"] > 0 and not of["failures"]:
            results.sweeps[name] = sweep_of(by_name[name], of)
    for name, of in run["tables"].items():
        if of["commands"] == results.planned.get(name) and not of["left_out"]:
            results.tables[name] = table_of(name, of)
    for name in ("date", "load before"):
        known[name] = run["conditions"][name]
    known["taken up"] = f"{int(run['conditions'].get('taken up', '0').split()[0]) + 1} times"
    return run["minutes"]


def take_beside(file: Path, known: dict[str, str], results: Results) -> None:
    """Parts that this run has not, of a run of the same commit on another machine or at another size; each says so."""
    run = json.loads(file.read_text(encoding="utf-8"))
    theirs = run["conditions"]
    if theirs["commit"] != known["commit"]:
        print(f"{file}: not taken, it is of commit {theirs['commit']}, and not {known['commit']}", file=sys.stderr)
        return
    machine = theirs["machine"] if theirs["GPU"] == "none" or run["size"] != "gpu" else theirs["GPU"]
    whose = f" Of another run: size {run['size']}, {machine}, {theirs['date']}."
    for name, of in run["sweeps"].items():
        if of["rounds"] > 0 and not of["failures"] and name not in results.sweeps:
            sweep = Sweep(name, of["title"], of["x"], [], of["note"] + whose, log_x=False)
            results.sweeps[name] = sweep_of(sweep, of)
    for name, of in run["tables"].items():
        if not of["left_out"] and (name not in results.tables or results.tables[name].left_out):
            results.tables[name] = table_of(name, dict(of, note=of["note"] + whose))
