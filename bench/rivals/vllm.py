#!/usr/bin/env python3
"""Banyan and vLLM on one GPU in one run: the four jobs and the decode rates, one table with ratios.

  bench/rivals/vllm.py --banyan build/cuda/banyan                        # the Qwen3-8B shape, 8 jobs, about 6 minutes
  bench/rivals/vllm.py --shape qwen3-30b-a3b --jobs "shared --streams 1,32,256 --prefix 2048" \\
      --ours 'bf16=' --ours '8 bits=--weights q8_0 --keep-weights compact'

--ours NAME=OPTIONS and --theirs NAME=JSON (options of vllm.LLM) may come several times; a column each. Several settings
of vLLM with one NAME are a sweep: the best of them counts, job by job. The last column is our best over vLLM's best.
Both sides get the same token counts, fixed answer lengths and an empty cache at the start of a run. Of --repeat runs,
the median counts for Banyan, after one that does not count, and the fastest for vLLM (--their-repeat). What does not
run is – with its reason below the table. Needs vLLM in this Python (or --python with it).

--together: all programs make their models at once, then measure in turns, each alone on the GPU. Their memory must fit
beside each other (--kv-memory, kv_cache_memory_bytes); with --late, Banyan's settings load one by one. With --turn
FILE, several vllm.py do so: each measures when none of them loads or measures.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Iterator

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
from bench.rivals import turns  # noqa: E402

JOBS = [
    "squad2",
    "narrativeqa",
    "race",
    "longhealth",
    "shared --streams 1,32,256 --prefix 2048",
    "shared --streams 256 --prefix 16384",
]
OURS = ["bf16=--precision mixed"]
THEIRS = [
    "bf16={}",
    'bf16={"max_num_batched_tokens": 16384, "max_num_seqs": 1024}',
    'fp8={"quantization": "fp8"}',
    'fp8={"quantization": "fp8", "max_num_batched_tokens": 16384, "max_num_seqs": 1024}',
]


def fail(message: str):
    sys.exit(f"vllm.py: {message}")


def is_decode(job: dict) -> bool:
    return len(job["branches"]) == 2


def job_count(command: str) -> int:
    """How many figures a benchmark gives: a grid of streams and prefixes has a row for each."""
    words, count = shlex.split(command), 1
    for option in ("--streams", "--prefix"):
        if option in words[:-1]:
            count *= len(words[words.index(option) + 1].split(","))
    return count


def our_rate(job: dict) -> float:
    return job["strategies"][0]["decode_tokens_per_second" if is_decode(job) else "questions_per_second"]


class Program:
    """A program that prints lines of JSON between words of its own. It ends at the deadline, if there is one."""

    def __init__(self, command: list[str], deadline: float | None):
        self.begun = time.monotonic()
        # The last words tell why a program ended.
        self.log = tempfile.TemporaryFile("a+", errors="replace")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self.late = False
        self.timer = None
        if deadline is not None:
            self.timer = threading.Timer(max(0.0, deadline - self.begun), self._stop)
            self.timer.daemon = True
            self.timer.start()

    def _stop(self) -> None:
        self.late = True
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def write(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def answers(self) -> Iterator[dict]:
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found

    def why(self) -> str:
        """Why it gave no answer."""
        if self.late:
            return f"out of time after {time.monotonic() - self.begun:.0f} s"
        self.log.seek(0)
        words = [line.strip() for line in self.log if line.strip()]
        return words[-1][:200] if words else f"ended with {self.process.wait()}"

    def close(self) -> int:
        """Its exit status."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        self.kill()
        if self.timer is not None:
            self.timer.cancel()
        return self.process.wait()


class Ours:
    """A setting of Banyan: `banyan bench lines`, so that its model is made once."""

    def __init__(self, args, name: str, options: str):
        self.name, self.options = name, options
        self.jobs: list[dict | None] = []
        self.missing: list[str] = []
        self.folder = tempfile.TemporaryDirectory()
        shape = ["--device", args.device, "--shape", args.shape, "--random", "--strategies", "auto"]
        self.words = [*shape, *shlex.split(options)]
        self.repeat = args.repeat
        self.program = Program([args.banyan, "bench", "lines"], args.deadline)
        self._ask(["shared", "--streams", "1", "--prefix", "16", "--own", "1", "--max-new", "1", "--cold"])
        self.replies = self.program.answers()

    def _ask(self, words: list[str]) -> None:
        self.program.write(json.dumps([*words, *self.words]))

    def ready(self) -> None:
        if next(self.replies, {"exit": 1})["exit"] != 0:
            self.missing.append(f"Banyan {self.name}: {self.program.why()}")

    def measure(self, jobs: list[str]) -> None:
        for number, job in enumerate(jobs):
            file = pathlib.Path(self.folder.name) / f"{number}.json"
            self._ask([*shlex.split(job), "--repeat", str(self.repeat), "--json", str(file)])
            if next(self.replies, {"exit": 1})["exit"] != 0:
                # Without a model every job has the same reason.
                self.missing = self.missing or [f"Banyan {self.name}, {job}: {self.program.why()}"]
                self.jobs += [None] * job_count(job)
                continue
            found = json.loads(file.read_text())
            self.jobs += found if isinstance(found, list) else [found]
        print(f"Banyan {self.name}: {[number_of(rate) for rate in self.rates()]}", file=sys.stderr, flush=True)

    def rates(self) -> list[float | None]:
        return [None if job is None else our_rate(job) for job in self.jobs]

    def close(self) -> None:
        self.program.close()
        self.folder.cleanup()


class Theirs:
    """A setting of vLLM, in a process of its own."""

    def __init__(self, args, name: str, options: str):
        self.name, self.options = name, options
        self.versions: dict = {}
        self.rates: list[float | None] = []
        self.experts: dict[int, float] = {}
        self.missing: list[str] = []
        self.figures = tempfile.NamedTemporaryFile("w", suffix=".json")
        command = [args.python, str(pathlib.Path(__file__).with_name("vllm_job.py")), self.figures.name, "--wait"]
        command += ["--shape", args.shape, "--llm", options or "{}", "--repeat", str(args.their_repeat or args.repeat)]
        self.program = Program(command, args.deadline)
        self.answers = self.program.answers()

    def ready(self) -> None:
        self.versions = next(self.answers, {})
        if "vllm" not in self.versions:
            self.missing.append(f"vLLM {self.name}: {self.versions.pop('error', '') or self.program.why()}")
            self.versions = {}

    def measure(self, jobs: list[dict | None]) -> None:
        """The jobs that Banyan ran: its figures say what they are."""
        self.rates = [None] * len(jobs)
        known = [index for index, job in enumerate(jobs) if job is not None]
        self.figures.write(json.dumps([jobs[index] for index in known]))
        self.figures.flush()
        self.program.write("")
        for found in self.answers if not self.missing else []:
            if "job" not in found:
                continue
            index = known.pop(0)
            if "error" in found:
                self.missing.append(f"vLLM {self.name}, {job_name(jobs[index])}: {found['error']}")
            else:
                self.rates[index] = found["rate"]
            if "experts" in found:
                self.experts[index] = found["experts"]
            if not known:
                break
        if known and not self.missing:
            self.missing.append(f"vLLM {self.name}: {self.program.why()}")
        rates = [number_of(rate) for rate in self.rates]
        print(f"vLLM {self.name} {self.options}: {rates}", file=sys.stderr, flush=True)

    def close(self) -> None:
        status = self.program.close()
        if status > 0 and not self.missing:
            self.missing.append(f"vLLM {self.name}: ended with {status}")
        self.figures.close()


def settings_of(texts: list[str], what: str) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            fail(f"--{what}: expected NAME=OPTIONS, found '{text}'")
    return [tuple(text.split("=", 1)) for text in texts]


def sweep(columns: list[tuple[str, list[float | None]]]) -> dict[str, list[float | None]]:
    """Columns of one name become one: the best rate of each job."""
    merged: dict[str, list[float | None]] = {}
    for name, rates in columns:
        before = merged.get(name, [None] * len(rates))
        merged[name] = [max((r for r in pair if r is not None), default=None) for pair in zip(before, rates)]
    return merged


def job_name(job: dict) -> str:
    return f"decode {job['streams']} × {job['lengths'][0]}, tok/s" if is_decode(job) else f"{job['work']}, questions/s"


def number_of(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:,.0f}".replace(",", " ") if rate >= 100 else f"{rate:.1f}"


def best_of(columns: list[list[float | None]], index: int) -> float:
    return max((column[index] or 0.0 for column in columns), default=0.0)


def table(names: list[str], ours: dict[str, list[float | None]], theirs: dict[str, list[float | None]]) -> str:
    """Markdown: a row per job; the fastest cell is bold; the last column is our best over their best."""
    head = ["job", *(f"Banyan {name}" for name in ours), *(f"vLLM {name}" for name in theirs), "best / best"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for index, name in enumerate(names):
        rates = [column[index] for column in (*ours.values(), *theirs.values())]
        fastest = max((rate for rate in rates if rate is not None), default=0.0)
        cells = [f"**{number_of(rate)}**" if rate == fastest else number_of(rate) for rate in rates]
        best, rival = best_of(list(ours.values()), index), best_of(list(theirs.values()), index)
        ratio = f"{best / rival:.2f}" if best and rival else "–"
        lines.append("| " + " | ".join([name, *cells, ratio]) + " |")
    return "\n".join(lines)


def experts_met(rivals: list[Theirs], jobs: list[dict]) -> list[str]:
    lines = []
    for rival in rivals:
        met = [f"{number} at {jobs[index]['streams']} streams" for index, number in rival.experts.items()]
        if met:
            lines.append(f"Different experts of a layer in a step of vLLM {rival.name}: {', '.join(met)}")
    return lines


def run(args, ours: list[Ours], theirs: list[Theirs]) -> list[dict | None]:
    """Starts the programs, all at once or one after another; returns the jobs as Banyan describes them."""
    settings = [(Ours, ours, each) for each in settings_of(args.ours or OURS, "ours")]
    settings += [(Theirs, theirs, each) for each in settings_of(args.theirs or THEIRS, "theirs")]
    jobs: list[dict | None] = [None] * sum(map(job_count, args.jobs))
    for group in [settings] if args.together else [[one] for one in settings]:
        begun: list[Ours | Theirs] = []

        def load(those: list) -> None:
            first = len(begun)
            for kind, place, (name, options) in those:
                begun.append(kind(args, name, options))
                place.append(begun[-1])
            for program in begun[first:]:
                program.ready()
                seconds = time.monotonic() - program.program.begun
                print(f"{args.shape}, {program.name}: {seconds:.0f} s to load", file=sys.stderr, flush=True)

        late = [one for one in group if args.late and one[0] is Ours]
        try:
            with turns.loading(args.turn):
                load([one for one in group if one not in late])
            with turns.measuring(args.turn):
                while begun or late:
                    if late:
                        load([late.pop(0)])
                    # Banyan's figures say what the jobs are.
                    program = next((one for one in begun if isinstance(one, Ours)), begun[0])
                    program.measure(args.jobs if isinstance(program, Ours) else jobs)
                    if isinstance(program, Ours):
                        jobs = [known or found for known, found in zip(jobs, program.jobs)]
                    begun.remove(program)
                    program.close()
        finally:
            for program in begun:
                program.program.kill()
                program.close()
    return jobs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banyan", default="build/cuda/banyan", help="the program")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="qwen3-8b")
    parser.add_argument("--jobs", action="append", help=f"banyan bench commands (default: {JOBS})")
    parser.add_argument("--ours", action="append", help=f"(default: {OURS})")
    parser.add_argument("--theirs", action="append", help=f"(default: {THEIRS})")
    parser.add_argument("--python", default=sys.executable, help="a Python that has vLLM")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--their-repeat", type=int, default=0, help="runs of vLLM (default: as --repeat)")
    parser.add_argument("--together", action="store_true", help="load all programs at once, then measure in turns")
    parser.add_argument("--late", action="store_true", help="with --together: Banyan loads in its turn")
    parser.add_argument("--turn", type=argparse.FileType("w"), metavar="FILE", help="others that name it take turns")
    parser.add_argument("--seconds", type=float, default=0.0, help="end what still runs then, with a table of the rest")
    parser.add_argument("--json", help="also write all figures to this file")
    args = parser.parse_args()
    args.jobs = args.jobs or JOBS
    args.deadline = time.monotonic() + args.seconds if args.seconds else None
    ours: list[Ours] = []
    theirs: list[Theirs] = []
    jobs = run(args, ours, theirs)
    if not any(jobs):
        fail("; ".join(reason for one in (*ours, *theirs) for reason in one.missing))
    names = [job_name(job) if job else "–" for job in jobs]
    our_columns = {one.name: one.rates() for one in ours}
    columns = [(one.name, one.rates) for one in theirs]
    their_columns = sweep(columns)
    versions = next((one.versions for one in theirs if one.versions), {})
    below = experts_met(theirs, jobs) + [f"Not run: {reason}" for one in (*ours, *theirs) for reason in one.missing]
    print(f"{args.shape}, random weights; {json.dumps(versions)}\n\n{table(names, our_columns, their_columns)}")
    print("".join(f"\n{line}" for line in below))
    if args.json:
        figures = {"jobs": names, "ours": our_columns, "theirs": their_columns, "settings": columns,
                   "versions": versions, "below": below}  # fmt: skip
        pathlib.Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
