"""Measures, and writes evidence.html, evidence.json and claims.md: every claim of the papers with its verdict.

    python3 -m bench.evidence [--size small] [--out build/evidence] [--minutes 25] [--real MODEL --real-adapter DIR]
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

from bench.evidence import documents, quality
from bench.evidence.page import as_json, claims_markdown, make_page
from bench.evidence.planning import planning
from bench.evidence.runner import ROOT, Clock, Failed, Runner, conditions, load_text
from bench.evidence.readers import PREDICTED, SECONDS
from bench.evidence.sizes import SHIPPED, SIZES, Size
from bench.evidence.sweeps import make_sweeps
from bench.evidence.verdicts import Results, Table
from eval.data import default_folder

# Of the time: sweeps, then quality. A sweep gets its part of what is left for those to come.
SWEEPS_SHARE = 0.5


def stack_costs(results: Results) -> Table:
    """What the program predicts for contexts in a prompt and prompts at once, beside measured times: nothing is fitted
    to them."""
    out = Table(
        "stack_costs",
        "Contexts in a prompt: predicted and measured",
        ["contexts in a prompt", "prompts", "predicted at least, s", "measured, s", "measured / predicted"],
    )
    sweep = "stacks"
    found = {
        (c, name): (predicted, r)
        for name in (results.sweeps[sweep].values if sweep in results.sweeps else {})
        for c, r in results.points(sweep, name, SECONDS).items()
        if (predicted := results.points(sweep, name, PREDICTED).get(c)) and predicted.median > 0
    }
    if len(found) < 3:
        out.left_out = "fewer than three points were measured"
        return out
    for (c, name), (predicted, measured) in sorted(found.items()):
        times = measured.median / predicted.median
        out.rows.append([f"{c:g}", name, f"{predicted.median:.4f}", measured.text(), f"{times:.1f}"])
    chosen, best = (min(found, key=lambda key: found[key][which].median) for which in (0, 1))
    told = lambda key: f"{key[0]:g} contexts in a prompt, {key[1]}"
    lost = found[chosen][1].median / found[best][1].median
    out.facts["choice"] = (
        f"the program's prediction chooses {told(chosen)}, which takes {lost:.2f} times as long as the best measured"
        f" ({told(best)})"
    )
    out.note = (
        "Predicted: the least time for the bytes and operations at the machine's measured rates, as `--explain` counts"
        f" them. {out.facts['choice'][0].upper()}{out.facts['choice'][1:]}."
    )
    out.commands = list(results.sweeps[sweep].commands)
    return out


def quality_tables(a: argparse.Namespace, size: Size, clock: Clock) -> Iterator[Table]:
    """Each as soon as it is measured."""
    shipped = argparse.Namespace(
        banyan=a.banyan,
        model=SHIPPED,
        adapter="",
        options=a.options,
        price=a.price,
        draws=a.draws,
        max_new=30,
        book=a.book,
        encoder=a.encoder,
        reranker=a.reranker,
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
        "choices": lambda: quality.answers(
            argparse.Namespace(**dict(vars(shipped), max_new=1)),
            "Choices: quality beside speed, the shipped model",
            "choices",
            samples / "everyday-choice.jsonl",
            1 if tiny else 0,
            [],
            1 if tiny else 2,
        ),
        "planted": lambda: quality.long_document(
            shipped, 300 if tiny else 2000, [2, 4] if tiny else [8, 64, 256], 1 if tiny else 2
        ),
        "extraction": lambda: quality.values(shipped, 1 if tiny else 12, 1 if tiny else 2),
        "drafts": lambda: quality.drafts(shipped, 1 if tiny else 8, 1 if tiny else 4, 1 if tiny else 3),
        "rag": lambda: documents.ways(shipped, 1 if tiny else 20, 4 if tiny else 6, 1),
        "rag_parameters": lambda: documents.parameters(shipped, 1 if tiny else 12, 4, size.name == "gpu"),
        "examples": lambda: documents.examples(shipped, samples / "examples.jsonl", 1 if tiny else 0),
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
            yield Table(name, name, left_out="not run: the time was over")
            continue
        try:
            table = make()
        except (Failed, SystemExit) as failed:  # the page says what failed
            table = Table(name, name, left_out=str(failed))
        print(f"{name}: {clock.left():.0f} s left {table.left_out}", file=sys.stderr, flush=True)
        yield table


def default_book() -> str:
    """War and Peace where the data is; else documents are generated."""
    book = (default_folder() or Path()) / "war_and_peace.txt.gz"
    return str(book) if book.is_file() else ""


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", choices=SIZES, default="small")
    p.add_argument("--out", type=Path, default=Path("build/evidence"))
    p.add_argument(
        "--minutes",
        type=float,
        default=25.0,
        help="for everything; a part that has begun then is ended, and what is left is left out",
    )
    p.add_argument("--only", nargs="+", default=[], help="names of sweeps and quality parts")
    p.add_argument(
        "--real", default="", help="a model for one more quality table, such as a GGUF of SmolLM2-135M-Instruct"
    )
    p.add_argument("--real-adapter", default="", help="its adapter")
    p.add_argument("--book", default=default_book(), help="a long text that facts are planted in, .txt or .txt.gz")
    p.add_argument("--encoder", default="", help="relevance of documents by this encoder; else by BM25")
    p.add_argument("--reranker", default="", help="fused with the encoder's relevance")
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
        (a.out / "claims.md").write_text(claims_markdown(size, known, flags.strip(), results), encoding="utf-8")
        (a.out / "evidence.json").write_text(
            json.dumps(as_json(size, known, flags.strip(), results, took), indent=1, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
        return took

    todo = [s for s in make_sweeps(size, a.options) if s.cells and (not a.only or s.name in a.only)]
    for n, sweep in enumerate(todo):
        left = clock.left() - a.minutes * 60 * (1 - SWEEPS_SHARE)
        results.sweeps[sweep.name] = runner.run(sweep, max(0.0, left) / (len(todo) - n))
        write()
    if "stacks" in results.sweeps:
        results.tables["stack_costs"] = stack_costs(results)
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
