"""Runs commands in turns within a time, and notes what was run where.

Cells of a sweep take turns: every round runs each once, so that a change of the machine's speed meets all of them. A
round begins only if there is time for it, by what the rounds before took; what was left out is said.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Clock:
    """What is left of the time for everything."""

    minutes: float
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        return self.minutes * 60 - (time.monotonic() - self.began)


@dataclass
class Cell:
    """One command of a sweep. `read` takes what it wrote as JSON, and gives series → measure → value."""

    x: float
    command: list[str]  # without the program and --json
    read: Callable[[object], dict[str, dict[str, float]]]


@dataclass
class Sweep:
    name: str
    title: str
    x_label: str
    cells: list[Cell]
    note: str = ""
    log_x: bool = True


@dataclass
class Outcome:
    """series → x → measure → values of the rounds; and the commands that gave them."""

    sweep: Sweep
    values: dict[str, dict[float, dict[str, list[float]]]] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    rounds: int = 0
    seconds: float = 0.0
    longest: float = 0.0  # seconds of a round
    failed: bool = False
    left_out: str = ""  # why there are fewer rounds, or none


class Failed(Exception):
    pass


@dataclass
class Runner:
    banyan: str
    clock: Clock
    rounds: int = 3
    log: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)

    def bench(self, command: list[str]) -> object:
        """The JSON of one `banyan bench …`."""
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "figures.json")
            done = subprocess.run(
                [self.banyan, "bench", *command, "--json", str(target)], capture_output=True, text=True, cwd=ROOT
            )
            if done.returncode != 0 or not target.exists():
                raise Failed(f"{self.shown(command)}: exit status {done.returncode}: {done.stderr.strip()[-600:]}")
            return json.loads(target.read_text())

    def shown(self, command: list[str]) -> str:
        return "banyan bench " + shlex.join(command)

    def run(self, sweep: Sweep, share: float) -> Outcome:
        """Rounds of all cells, in turns, in at most about `share` seconds, or what the clock has left. The first round
        is whole, or nothing is."""
        outcome = Outcome(sweep, commands=[self.shown(c.command) for c in sweep.cells])
        self.go_on(outcome, share)
        return outcome

    def go_on(self, outcome: Outcome, share: float) -> None:
        """More rounds of a sweep that lacks some, within `share` seconds. One whose command failed stays as it is."""
        if outcome.failed or outcome.rounds >= self.rounds:
            return
        until, before = time.monotonic() + share, outcome.rounds
        while outcome.rounds < self.rounds:
            left = self.clock.left()
            if outcome.rounds == 0:
                if left <= 0:
                    outcome.left_out = "not run: the time was over"
                    break
            elif outcome.longest > min(until - time.monotonic(), left):
                outcome.left_out = f"{outcome.rounds} of {self.rounds} rounds: no time for more"
                break
            if not self.round_of(outcome):
                break
        else:
            outcome.left_out = ""
        if outcome.rounds != before or outcome.rounds == 0:
            self.log(f"{outcome.sweep.name}: {outcome.rounds} rounds in {outcome.seconds:.1f} s {outcome.left_out}")

    def round_of(self, outcome: Outcome) -> bool:
        """Every cell once; false: a command failed, and the outcome says which."""
        began = time.monotonic()
        for cell in outcome.sweep.cells:
            try:
                found = cell.read(self.bench(cell.command))
            except Failed as failed:
                outcome.left_out, outcome.failed = str(failed), True
                self.log(f"  {failed}")
                break
            for series, measures in found.items():
                by_measure = outcome.values.setdefault(series, {}).setdefault(cell.x, {})
                for measure, value in measures.items():
                    by_measure.setdefault(measure, []).append(value)
        else:
            outcome.rounds += 1
        took = time.monotonic() - began
        outcome.seconds += took
        outcome.longest = max(outcome.longest, took)
        return not outcome.failed


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).strip().split("\n")[0] if done.returncode == 0 else ""


def processor() -> str:
    """Its name, or on Arm what implements it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(tuple(part.strip() for part in line.split(":", 1)) for line in lines if ":" in line)
    if "model name" in fields:
        return fields["model name"]
    arm = {
        ("0x41", "0xd0c"): "Neoverse-N1",
        ("0x41", "0xd40"): "Neoverse-V1",
        ("0x41", "0xd49"): "Neoverse-N2",
        ("0x41", "0xd4f"): "Neoverse-V2",
    }
    known = (fields.get("CPU implementer", ""), fields.get("CPU part", ""))
    return arm.get(known, f"Arm implementer {known[0]}, part {known[1]}" if known[0] else platform.machine())


def load_text() -> str:
    load = os.getloadavg()
    return f"{load[0]:.2f} running processes (1 min), {load[1]:.2f} (5 min)"


def conditions(banyan: str) -> dict[str, str]:
    """What the figures depend on."""
    changed = _first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": (
            (_first_line(["git", "rev-parse", "--short=12", "HEAD"]) or "unknown")
            + (" with changes" if changed else "")
        ),
        "program": _first_line([banyan, "--version"]),
        "compiler": _first_line(["c++", "--version"]),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.machine()}",
        "system": f"{platform.system()} {platform.release()}",
        "GPU": (
            _first_line(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"])
            or "none"
        ),
        "Python": platform.python_version(),
        "load before": load_text(),
    }
