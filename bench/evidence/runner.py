"""Runs commands in turns within a time, and notes what was run where.

Cells of a sweep take turns: every round runs each once, so that a change of the machine's speed meets all of them. A
round begins only if there is time for it, by what the rounds before took; what was left out is said. All commands run
in one process, which makes or loads a model once for those that share it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Callable

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
    failures: dict[str, str] = field(default_factory=dict)  # of a command
    short: str = ""  # why there are fewer rounds, or none

    @property
    def left_out(self) -> str:
        return "; ".join(filter(None, [self.short, *self.failures.values()]))


class Failed(Exception):
    pass


class Ended(Failed):
    """The time was over while it ran."""


class Benches:
    """`banyan bench lines`: benchmarks in one process, which keeps the model that the next ones need, too."""

    def __init__(self, banyan: str) -> None:
        self.banyan = banyan
        self.process: subprocess.Popen | None = None
        self.said: IO[bytes] | None = None  # what it writes to stderr

    def run(self, words: list[str], seconds: float) -> None:
        """Raises Failed with the end of what the program said, and Ended after so many seconds."""
        process = self.process or self.start()
        assert process.stdin and process.stdout and self.said
        said = self.said
        before = os.fstat(said.fileno()).st_size
        try:
            process.stdin.write(json.dumps(words).encode() + b"\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], max(seconds, 1.0))
        except OSError:
            ready = [process.stdout]  # it has ended; what it said is below
        if not ready:
            self.close()
            raise Ended("ended: the time was over")
        line = process.stdout.readline()
        status = json.loads(line)["exit"] if line else process.wait()
        text = os.pread(said.fileno(), 1 << 20, before).decode("utf-8", "replace").strip()
        if not line:
            self.close()
        if status != 0 or not line:
            raise Failed(f"exit status {status}: {text[-600:]}")

    def start(self) -> subprocess.Popen:
        self.said = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [self.banyan, "bench", "lines"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            cwd=ROOT,
            bufsize=0,
        )
        return self.process

    def close(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for file in (process.stdin, process.stdout, self.said):
            if file:
                file.close()


@dataclass
class Runner:
    banyan: str
    clock: Clock
    rounds: int = 3
    log: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    keep: Callable[[], object] = lambda: None  # called after every round
    benches: Benches | None = None

    def bench(self, command: list[str]) -> object:
        """The JSON of one `banyan bench …`."""
        self.benches = self.benches or Benches(self.banyan)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "figures.json")
            try:
                self.benches.run([*command, "--json", str(target)], self.clock.left())
            except Failed as failed:
                raise type(failed)(f"{self.shown(command)}: {failed}") from None
            return json.loads(target.read_text())

    def close(self) -> None:
        """Gives the memory of the last model back."""
        if self.benches:
            self.benches.close()

    @staticmethod
    def shown(command: list[str]) -> str:
        return "banyan bench " + shlex.join(command)

    def new(self, sweep: Sweep) -> Outcome:
        return Outcome(sweep, commands=[self.shown(c.command) for c in sweep.cells])

    def run(self, sweep: Sweep, share: float) -> Outcome:
        """Rounds of all cells, in turns, in at most about `share` seconds, or what the clock has left. A round is
        whole, but for cells that failed, or it does not count."""
        outcome = self.new(sweep)
        self.go_on(outcome, share)
        return outcome

    def go_on(self, outcome: Outcome, share: float) -> None:
        """More rounds of a sweep that lacks some, within `share` seconds, without the cells that failed."""
        if outcome.rounds >= self.rounds or len(outcome.failures) == len(outcome.sweep.cells):
            return
        until, before = time.monotonic() + share, outcome.rounds
        outcome.short = ""
        while outcome.rounds < self.rounds and len(outcome.failures) < len(outcome.sweep.cells):
            left = self.clock.left()
            if left <= 0 or (outcome.rounds > 0 and outcome.longest > min(until - time.monotonic(), left)):
                break
            if not self.round_of(outcome):
                break
            self.keep()
        if outcome.rounds == 0 and not outcome.failures:
            outcome.short = "not run: the time was over"
        elif outcome.rounds < self.rounds and len(outcome.failures) < len(outcome.sweep.cells):
            outcome.short = f"{outcome.rounds} of {self.rounds} rounds: no time for more"
        if outcome.rounds != before or outcome.rounds == 0:
            self.log(f"{outcome.sweep.name}: {outcome.rounds} rounds in {outcome.seconds:.1f} s {outcome.left_out}")

    def round_of(self, outcome: Outcome) -> bool:
        """Every cell once; false: the time was over before."""
        began = time.monotonic()
        made: list[tuple[float, dict[str, dict[str, float]]]] = []
        for cell, command in zip(outcome.sweep.cells, outcome.commands):
            if command in outcome.failures:
                continue
            try:
                made.append((cell.x, cell.read(self.bench(cell.command))))
            except Ended as ended:
                self.log(f"  {ended}")
                return False
            except Failed as failed:
                outcome.failures[command] = str(failed)
                self.log(f"  {failed}")
        for x, found in made:
            for series, measures in found.items():
                by_measure = outcome.values.setdefault(series, {}).setdefault(x, {})
                for measure, value in measures.items():
                    by_measure.setdefault(measure, []).append(value)
        outcome.rounds += 1 if made else 0
        took = time.monotonic() - began
        outcome.seconds += took
        outcome.longest = max(outcome.longest, took)
        return True


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


def of_program(banyan: str) -> str:
    """The commit that a program was built from, as it says: where there is no git, as in a copy of the tree."""
    done = subprocess.run([banyan, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"commit ([0-9a-f]{12})(\+?)", done.stdout)
    return found[1] + (" with changes" if found[2] else "") if found else ""


def load_text() -> str:
    load = os.getloadavg()
    return f"{load[0]:.2f} running processes (1 min), {load[1]:.2f} (5 min)"


def conditions(banyan: str) -> dict[str, str]:
    """What the figures depend on."""
    changed = _first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": (
            (_first_line(["git", "rev-parse", "--short=12", "HEAD"]) or of_program(banyan) or "unknown")
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
