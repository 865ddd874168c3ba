"""The quality tables of a size: what each is made of, and its commands, which are known before anything is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from bench.evidence import documents, quality, values
from bench.evidence.planning import planning
from bench.evidence.readers import PREDICTED, SECONDS
from bench.evidence.runner import ROOT, Runner
from bench.evidence.sets import counts_of
from bench.evidence.sizes import SHIPPED, Size
from bench.evidence.sweeps import make_sweeps
from bench.evidence.verdicts import Results, Table
from eval.published import LIMITS


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


def quality_parts(a: argparse.Namespace, size: Size, plan: bool = False) -> dict[str, Callable[[], Table]]:
    """By name. With `plan` a table has its commands and nothing else."""
    given = dict(vars(a), model=SHIPPED, adapter="", max_new=30, plan=plan)
    shipped = argparse.Namespace(**given)
    tiny, gpu = size.name == "tiny", size.name == "gpu"
    samples = ROOT / "eval" / "samples"
    grid = ("tiny", 4, 0.1) if tiny else ("qwen3-8b-thin", 25, 0.5) if gpu else ("smollm2-thin", 50, 1.5)
    few = 1 if tiny else 0
    twice = 1 if tiny else 2
    parts = {
        "planning": lambda: planning(shipped, *grid),
        "answers": lambda: quality.answers(
            shipped,
            "Answers: quality beside speed, the shipped model",
            "answers",
            samples / "natural.jsonl",
            few,
            [4, 8],
            twice,
        ),
        "choices": lambda: quality.answers(
            argparse.Namespace(**dict(given, max_new=1)),
            "Choices: quality beside speed, the shipped model",
            "choices",
            samples / "everyday-choice.jsonl",
            few,
            [],
            twice,
        ),
        "planted": lambda: quality.long_document(
            shipped, 300 if tiny else 2000, [2, 4] if tiny else [8, 64, 256], twice
        ),
        "extraction": lambda: values.values(shipped, twice, 2 if tiny else 0),
        "extractors": lambda: values.extractors(shipped),
        "judge": lambda: values.judgement(shipped, 2 if tiny else 0),
        "drafts": lambda: quality.drafts(shipped, 1 if tiny else 3),
        "rag": lambda: documents.ways(shipped, counts_of(size.name).questions, published=size.name == "small"),
        "rag_parameters": lambda: documents.parameters(shipped),
        "examples": lambda: documents.examples(shipped, samples / "examples.jsonl", few),
    }
    if a.real:
        real = argparse.Namespace(**dict(given, model=a.real, adapter=a.real_adapter))
        called = f", {Path(a.real).stem}{' with ' + Path(a.real_adapter).name if a.real_adapter else ''}"
        natural = samples / "natural.jsonl"
        title = f"quality beside speed{called}"
        parts["real"] = lambda: quality.answers(real, f"Answers: {title}", "real", natural, few, [4, 8], 1)
        parts["real_rag"] = lambda: documents.ways(real, counts_of(size.name).questions, not tiny, "real_rag", called)
        parts["code"] = lambda: documents.code(real, 2 if tiny else 24)
        summaries = a.data / "narrativeqa.jsonl" if a.data else Path()
        if summaries.is_file() and not tiny:
            long = argparse.Namespace(**dict(vars(real), max_new=LIMITS["narrativeqa"]))
            name = "narrativeqa"
            parts[name] = lambda: quality.answers(long, f"NarrativeQA: {title}", name, summaries, 2, [], 1)
    return parts


# A GPU's time is for speeds: these tables are of the CPU's run, unless they are asked for.
OF_THE_CPU = ("choices", "rag_parameters", "examples", "real_rag", "code", "narrativeqa")


def planned_tables(a: argparse.Namespace, size: Size) -> dict[str, Table]:
    return {name: make() for name, make in quality_parts(a, size, plan=True).items()}


def planned_commands(a: argparse.Namespace, size: Size) -> dict[str, list[str]]:
    """Of every sweep and table."""
    shown = Runner.shown
    return {s.name: [shown(c.command) for c in s.cells] for s in make_sweeps(size, a.options) if s.cells} | {
        name: table.commands for name, table in planned_tables(a, size).items()
    }
