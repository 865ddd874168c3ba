"""Measures, and writes evidence.html and evidence.json.

    python3 -m bench.evidence [--size small] [--out build/evidence] [--minutes 20] [--real MODEL --real-adapter DIR]
        [--only NAME …] [-- --threads 2]

`make evidence` runs it at size `small` on the CPU, `make evidence-gpu` at size `gpu` with `-- --device cuda`. Use a
quiet machine: the page states the load before the run. A part that the time does not allow is left out, and the page
says so.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.evidence import quality
from bench.evidence.figures import figure, fit_two_costs
from bench.evidence.page import as_json, make_page
from bench.evidence.papers import Results
from bench.evidence.planning import planning
from bench.evidence.runner import ROOT, Clock, Failed, Runner, conditions, load_text
from bench.evidence.sweeps import SECONDS, SHIPPED, SIZES, Size, make_sweeps, stack_work

# Of the time: sweeps, then quality. A sweep gets its part of what is left for those to come.
SWEEPS_SHARE = 0.5


def stack_costs(results: Results, size: Size) -> quality.Table:
    """The cost model of stacks beside the measured times."""
    out = quality.Table(
        "stack_costs",
        "Stacks: a cost model beside measured times",
        ["C", "B", "rows", "rows × keys", "predicted, s", "measured, s", "error"],
    )
    measured = (
        {x: figure(m[SECONDS]) for x, m in results.sweeps["stacks"].values.get("stacked", {}).items() if m.get(SECONDS)}
        if "stacks" in results.sweeps
        else {}
    )
    if len(measured) < 3:
        out.left_out = "fewer than three points were measured"
        return out
    documents, questions = 8, 4
    work = {}
    for c in measured:
        rows, products = stack_work(32, size.document // 4, 16, size.new, int(c), questions)
        work[c] = (rows * documents / c, products * documents / c)
    xs = sorted(measured)
    a, b = fit_two_costs([work[c][0] for c in xs], [work[c][1] for c in xs], [measured[c].median for c in xs])
    worst = 0.0
    for c in xs:
        predicted = a * work[c][0] + b * work[c][1]
        error = predicted / measured[c].median - 1
        worst = max(worst, abs(error))
        out.rows.append(
            [
                f"{c:g}",
                f"{documents / c:g}",
                f"{work[c][0]:.0f}",
                f"{work[c][1]:.0f}",
                f"{predicted:.3f}",
                measured[c].text(),
                f"{100 * error:+.0f} %",
            ]
        )
    out.note = (
        f"seconds = a · rows + b · rows × keys, with a = {a * 1e6:.3g} µs and b = {b * 1e9:.3g} ns fitted to these"
        f" {len(xs)} points."
    )
    out.facts["error"] = (
        f"a model of rows and rows × keys predicts {len(xs)} sizes of stacks within {100 * worst:.0f} %"
    )
    return out


def quality_tables(a: argparse.Namespace, size: Size, clock: Clock) -> Iterator[quality.Table]:
    """Each as soon as it is measured."""
    shipped = argparse.Namespace(
        banyan=a.banyan, model=SHIPPED, adapter="", options=a.options, price=a.price, draws=a.draws
    )
    tiny = size.name == "tiny"
    samples = ROOT / "eval" / "samples"
    grid = ("tiny", 4, 0.1) if tiny else ("qwen3-8b-thin", 50, 1.5) if size.name == "gpu" else ("smollm2-thin", 50, 1.5)
    parts = {
        "planning": lambda: planning(shipped, *grid),
        "answers": lambda: quality.answers(
            shipped,
            "Answers: quality beside speed, the shipped model",
            "answers",
            samples / "natural.jsonl",
            1 if tiny else 0,
            [4, 8],
            1 if tiny else 2,
        ),
        "planted": lambda: quality.long_document(
            shipped, 300 if tiny else 2000, [2, 4] if tiny else [8, 64, 256], 1 if tiny else 2
        ),
        "extraction": lambda: quality.values(shipped, 1 if tiny else 12, 1 if tiny else 2),
        "drafts": lambda: quality.drafts(shipped, 1 if tiny else 8, 1 if tiny else 4, 1 if tiny else 3),
        "rag": lambda: quality.experts(shipped, 1 if tiny else 6, 4 if tiny else 8, 1 if tiny else 2),
        "rag_parameters": lambda: quality.rag_parameters(shipped, 1 if tiny else 8, 4 if tiny else 8),
    }
    if a.real:
        real = argparse.Namespace(**dict(vars(shipped), model=a.real, adapter=a.real_adapter))
        parts["real"] = lambda: quality.answers(
            real,
            "Answers: quality beside speed,"
            f" {Path(a.real).stem}{' with ' + Path(a.real_adapter).name if a.real_adapter else ''}",
            "real",
            samples / "natural.jsonl",
            1 if tiny else 0,
            [4, 8],
            1,
        )
    for name, make in parts.items():
        if a.only and name not in a.only:
            continue
        if clock.left() <= 0:
            yield quality.Table(name, name, left_out="not run: the time was over")
            continue
        try:
            table = make()
        except (Failed, SystemExit) as failed:  # the page says what failed
            table = quality.Table(name, name, left_out=str(failed))
        print(f"{name}: {clock.left():.0f} s left {table.left_out}", file=sys.stderr, flush=True)
        yield table


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", choices=SIZES, default="small")
    p.add_argument("--out", type=Path, default=Path("build/evidence"))
    p.add_argument(
        "--minutes",
        type=float,
        default=17.0,
        help="for everything; a part that has begun then is ended, and what is left is left out",
    )
    p.add_argument("--only", nargs="+", default=[], help="names of sweeps and quality parts")
    p.add_argument(
        "--real", default="", help="a model for one more quality table, such as a GGUF of SmolLM2-135M-Instruct"
    )
    p.add_argument("--real-adapter", default="", help="its adapter")
    p.add_argument("--price", type=float, default=0.1, help="of an hour of this machine, in any currency")
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("options", nargs="*", help="options for every command of banyan, after --")
    a = p.parse_args()
    size, clock = SIZES[a.size], Clock(a.minutes)
    a.banyan = str(Path(a.banyan).resolve())
    known = conditions(a.banyan)
    flags = "python3 -m bench.evidence " + shlex.join(
        arg if not Path(arg).is_absolute() else Path(arg).name for arg in sys.argv[1:]
    )
    runner = Runner(a.banyan, clock, rounds=size.rounds)
    results = Results({}, {})
    a.out.mkdir(parents=True, exist_ok=True)

    def write() -> float:
        """What there is: a run that is ended keeps it. Returns the minutes that were taken."""
        took = a.minutes - clock.left() / 60
        known["load after"] = load_text()
        (a.out / "evidence.html").write_text(make_page(size, known, flags.strip(), results, took), encoding="utf-8")
        (a.out / "evidence.json").write_text(
            json.dumps(as_json(size, known, flags.strip(), results, took), indent=1, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
        return took

    todo = [s for s in make_sweeps(size, a.options) if not a.only or s.name in a.only]
    for n, sweep in enumerate(todo):
        left = clock.left() - a.minutes * 60 * (1 - SWEEPS_SHARE)
        results.sweeps[sweep.name] = runner.run(sweep, max(0.0, left) / (len(todo) - n))
        write()
    if "stacks" in results.sweeps:
        results.tables["stack_costs"] = stack_costs(results, size)
    for table in quality_tables(a, size, clock):
        results.tables[table.name] = table
        write()
    # What nobody else took goes to the sweeps that had too little, first to those with the fewest rounds.
    for outcome in sorted(results.sweeps.values(), key=lambda o: o.rounds):
        runner.go_on(outcome, clock.left())
    took = write()
    print(f"{a.out / 'evidence.html'} after {took:.1f} minutes")
    # Tables may lack what there was no time for; a command that failed is an error.
    failed = [o.left_out for o in results.sweeps.values() if "exit status" in o.left_out] + [
        t.left_out for t in results.tables.values() if "exit status" in t.left_out
    ]
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
