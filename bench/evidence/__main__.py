"""Measures, and writes evidence.html, evidence.json and claims.md: every claim of the papers with its verdict.

    python3 -m bench.evidence [--size small] [--out build/evidence] [--minutes 25] [--resume] [--plan]
        [--real MODEL --real-adapter DIR] [--only NAME …] [-- --threads 2]

`make evidence` runs it at size `small` on the CPU, `make evidence-gpu` at size `gpu` with `-- --device cuda`. Use a
quiet machine: the page states the load before the run. A part that the time does not allow is left out, and the page
says so. Files are written after every round of a sweep and every table; `--resume` goes on from there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from bench.evidence.page import as_json, claims_markdown, make_page
from bench.evidence.parts import OF_THE_CPU, planned_commands, planned_tables, quality_parts, stack_costs
from bench.evidence.predict import plan_text
from bench.evidence.resume import take_beside, take_up
from bench.evidence.runner import Clock, Failed, Runner, conditions, load_text
from bench.evidence.sets import write_sets
from bench.evidence.sizes import SIZES
from bench.evidence.sweeps import make_sweeps
from bench.evidence.verdicts import Results, Table
from eval import form
from eval.data import default_folder
from eval.seqbatch import arguments


def default_book() -> str:
    """War and Peace where the data is; else documents are generated."""
    book = (default_folder() or Path()) / "war_and_peace.txt.gz"
    return str(book) if book.is_file() else ""


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", choices=SIZES, default="small")
    p.add_argument("--out", type=Path, default=Path("build/evidence"))
    p.add_argument(
        "--minutes",
        type=float,
        default=25.0,
        help="for everything; a part that has begun then is ended, and what is left is left out",
    )
    p.add_argument("--resume", action="store_true", help="keep what --out has of the same commit, machine and size")
    p.add_argument(
        "--beside", type=Path, help="evidence.json of another run of this commit, for the parts that this one lacks"
    )
    p.add_argument("--plan", action="store_true", help="measure nothing: parts, commands and predicted minutes")
    p.add_argument("--only", nargs="+", default=[], help="names of sweeps and quality parts")
    p.add_argument(
        "--real", default="", help="a model for one more quality table, such as a GGUF of SmolLM2-135M-Instruct"
    )
    p.add_argument("--real-adapter", default="", help="its adapter")
    p.add_argument(
        "--extractor",
        dest="extractors",
        action="append",
        default=[],
        metavar="MODEL[=ADAPTER]",
        help="a model that extracts, without and with its adapter; may be repeated",
    )
    p.add_argument("--judge", default="", help="a model that judges extracted values (eval.judge)")
    p.add_argument("--book", default=default_book(), help="a long text that facts are planted in, .txt or .txt.gz")
    p.add_argument("--encoder", default="", help="relevance of documents by this encoder; else by BM25")
    p.add_argument("--reranker", default="", help="fused with the encoder's relevance")
    p.add_argument("--data", type=Path, default=default_folder(), help="folder of published data sets")
    p.add_argument("--price", type=float, default=0.1, help="of an hour of this machine, in any currency")
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--commit", default="", help="of a copy of the tree without git, built without it")
    p.add_argument("--banyan", default="build/release/banyan")
    a = arguments(p)
    a.banyan, a.sets = str(Path(a.banyan).resolve()), a.out / "sets"
    return a


def make_tables(a: argparse.Namespace, parts: dict[str, Callable[[], Table]], known: dict[str, Table], clock: Clock):
    """Each as soon as it is measured; what `known` has stays."""
    for name, make in parts.items():
        if name in known:
            continue
        if clock.left() <= 0:
            yield Table(name, name, left_out="not run: the time was over")
            continue
        try:
            table = make()
        except (Failed, form.WrongUse, SystemExit) as failed:  # the page says what failed
            table = Table(name, name, left_out=str(failed))
        print(f"{name}: {clock.left():.0f} s left {table.left_out}", file=sys.stderr, flush=True)
        yield table


def main() -> int:
    a = options()
    size, clock = SIZES[a.size], Clock(a.minutes)
    sweeps = [s for s in make_sweeps(size, a.options) if s.cells]
    parts = quality_parts(a, size)
    if a.plan:
        text, wrong = plan_text(a.banyan, sweeps, planned_tables(a, size), size.rounds)
        print(text)
        return 1 if wrong else 0
    known = conditions(a.banyan)
    if a.commit and known["commit"] == "unknown":
        known["commit"] = a.commit
    flags = "python3 -m bench.evidence " + shlex.join(
        arg if not Path(arg).is_absolute() else Path(arg).name for arg in sys.argv[1:]
    )
    results, earlier = Results({}, {}, planned_commands(a, size)), 0.0
    a.out.mkdir(parents=True, exist_ok=True)
    if a.resume:
        earlier = take_up(a.out / "evidence.json", known, size.name, sweeps, results)

    def write() -> float:
        """What there is: a run that is ended keeps it. Returns the minutes that were taken."""
        took = earlier + a.minutes - clock.left() / 60
        known["load after"] = load_text()
        pages = {
            "evidence.html": make_page(size, known, flags.strip(), results, took),
            "claims.md": claims_markdown(size, known, flags.strip(), results),
            "evidence.json": json.dumps(
                as_json(size, known, flags.strip(), results, took), indent=1, ensure_ascii=False
            )
            + "\n",
        }
        for name, text in pages.items():
            whole = a.out / f"{name}.part"  # a run that is ended while it writes keeps the file before
            whole.write_text(text, encoding="utf-8")
            whole.replace(a.out / name)
        return took

    runner = Runner(a.banyan, clock, rounds=size.rounds, keep=write)
    todo = [s for s in sweeps if not a.only or s.name in a.only]
    for n, sweep in enumerate(todo):
        outcome = results.sweeps.setdefault(sweep.name, runner.new(sweep))
        left = clock.left() - a.minutes * 60 * (1 - size.sweeps_share)
        runner.go_on(outcome, max(0.0, left) / (len(todo) - n))
        write()
    runner.close()
    if "stacks" in results.sweeps:
        results.tables["stack_costs"] = stack_costs(results)
    left = OF_THE_CPU if a.size == "gpu" else ()
    parts = {name: make for name, make in parts.items() if name in a.only or (not a.only and name not in left)}
    if parts:
        write_sets(a.sets, a.size)
    for table in make_tables(a, parts, results.tables, clock):
        results.tables[table.name] = table
        write()
    # What nobody else took goes to the sweeps that had too little, first to those with the fewest rounds.
    for outcome in sorted(results.sweeps.values(), key=lambda o: o.rounds):
        runner.go_on(outcome, clock.left())
    runner.close()
    if a.beside:
        take_beside(a.beside, known, results)
    took = write()
    print(f"{a.out / 'evidence.html'} after {took:.1f} minutes")
    # Tables may lack what there was no time for; a command that failed is an error.
    failed = [text for o in results.sweeps.values() for text in o.failures.values()] + [
        t.left_out for t in results.tables.values() if "exit status" in t.left_out
    ]
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
