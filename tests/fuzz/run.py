#!/usr/bin/env python3
"""Runs the libFuzzer programs of `make fuzz`, several at once, and prints a table of them. New inputs stay beside the
build; seeds in the repository are read only. With a budget, targets that have not reached their executions go on in
further runs, also beside one another, as long as processors are free: what all runs executed is summed.

usage: tests/fuzz/run.py [--jobs 1] [--runs 10000000] [--seconds 60] [--budget 540] [--build build/fuzz] [NAME…]
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
DICTIONARIES = {"json": "json", "jsonl": "json", "card": "json", "config": "json", "serve": "schema", "extract": "schema",
                "schema": "schema", "http": "http", "html": "html", "adapter": "json", "safetensors": "json",
                "tokenizer": "json"}
# Without the copies of stack frames, which every exception sweeps, parsers that refuse much run half as fast again.
SANITIZER = "allocator_may_return_null=1:detect_leaks=1:detect_stack_use_after_return=0:quarantine_size_mb=16"
SHORTEST_SECONDS = 5  # of a further run: most of a shorter one would be reading the corpus


@dataclasses.dataclass
class Target:
    """One program and what its runs came to."""
    name: str
    program: pathlib.Path
    corpus: pathlib.Path
    given_seconds: int = 0  # to all runs, also those under way
    under_way: int = 0
    executions: int = 0
    seconds: float = 0.0  # of all runs that ended, one after another
    edges: int = 0
    findings: list = dataclasses.field(default_factory=list)
    shown: bool = False

    def show(self):
        numbers = (self.executions, round(self.executions / max(self.seconds, 1e-9)), self.edges, len(list(self.corpus.iterdir())))
        print(f"| {self.name} | {' | '.join(f'{number:,}' for number in numbers)} | {'; '.join(self.findings) or 'none'} |", flush=True)
        self.shown = True


def run_once(target, runs, seconds, options):
    """One run of a program: (what it said, its exit status, the seconds it took)."""
    command = [target.program, f"-runs={runs}", f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=3000",
               "-print_final_stats=1", f"-artifact_prefix={options.build}/{target.name}-", target.corpus,
               HERE / "seeds" / target.name]
    if target.name in DICTIONARIES:
        command.append(f"-dict={HERE / 'dictionaries' / DICTIONARIES[target.name]}.dict")
    environment = {"ASAN_OPTIONS": SANITIZER, **os.environ, "TMPDIR": options.scratch}
    began = time.monotonic()
    ended = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           errors="replace", env=environment)
    return ended.stderr, ended.returncode, time.monotonic() - began


def count(target, said, status, seconds):
    """Adds a run that ended to its target."""
    def last(pattern):
        found = re.findall(pattern, said)
        return int(found[-1]) if found else 0
    target.executions += last(r"number_of_executed_units: *(\d+)") or last(r"\n#(\d+)")
    target.edges = max(target.edges, last(r"cov: (\d+)"))
    target.seconds += seconds
    found = re.search(r"^(SUMMARY: .*)$", said, re.MULTILINE)
    if found or status != 0:
        target.findings.append(found.group(1) if found else f"ended with {status}")


class Schedule:
    """Which target runs next: one that has had the least time, of those that have something to do."""

    def __init__(self, targets, options):
        self.targets, self.options = targets, options
        self.lock = threading.Lock()
        self.end = time.monotonic() + options.budget if options.budget else None

    def seconds_left(self):
        return self.options.seconds if self.end is None else min(self.options.seconds, int(self.end - time.monotonic()))

    def waits(self, target):
        if target.given_seconds == 0:
            return True
        return (self.end is not None and not target.findings and target.executions < self.options.runs
                and self.seconds_left() >= SHORTEST_SECONDS)

    def take(self):
        """(target, its executions to come, its seconds), or None: nothing is left."""
        with self.lock:
            waiting = [target for target in self.targets if self.waits(target)]
            if not waiting:
                return None
            target = min(waiting, key=lambda each: (each.given_seconds, each.executions))
            seconds = max(1, self.seconds_left())
            target.given_seconds += seconds
            target.under_way += 1
            return target, self.options.runs - target.executions, seconds

    def work(self):
        while (taken := self.take()) is not None:
            target = taken[0]
            said, status, seconds = run_once(*taken, self.options)
            with self.lock:
                count(target, said, status, seconds)
                with open(self.options.build / f"{target.name}.log", "a", encoding="utf-8") as log:
                    log.write(said)
                target.under_way -= 1
                if target.under_way == 0 and not self.waits(target):
                    target.show()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1, help="programs at once")
    parser.add_argument("--runs", type=int, default=10_000_000, help="executions of a target")
    parser.add_argument("--seconds", type=int, default=60, help="of one run of a program")
    parser.add_argument("--budget", type=int, help="seconds of the whole; without it every program runs once")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "fuzz")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.build = options.build.resolve()
    programs = {path.name[:-5]: path for path in sorted(options.build.glob("*_fuzz"))}
    targets = [Target(name, programs[name], options.build / "corpus" / name) for name in options.names or programs]
    for target in targets:
        target.corpus.mkdir(parents=True, exist_ok=True)
        (options.build / f"{target.name}.log").unlink(missing_ok=True)
    print("| target | executions | a second | edges | corpus | findings |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # some targets write a file at every execution
    with tempfile.TemporaryDirectory(prefix="banyan-fuzz-", dir=memory) as options.scratch:
        schedule = Schedule(targets, options)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for worker in [pool.submit(schedule.work) for _ in range(options.jobs)]:
                worker.result()
    for target in targets:
        if not target.shown:
            target.show()
    sys.exit(1 if any(target.findings for target in targets) else 0)


if __name__ == "__main__":
    main()
