"""The sweeps: what is varied, at which sizes, and what is read from the figures of `banyan bench`.

Weights: those of the shipped model at size `small`, random at `tiny` and `gpu`; tokens are random everywhere, so these
runs measure speed and memory and nothing else. Answers have a fixed length. All strategies of one command give the same
answers bit for bit, which the command checks.
"""

from __future__ import annotations

from bench.evidence.readers import of_attention, of_extract, of_gain, of_work
from bench.evidence.rivals import budget, document, experts, hydragen, prompt_shapes, relay, rivals, stack_batch
from bench.evidence.runner import Cell, Sweep
from bench.evidence.sizes import Size

WITHOUT_CLAIM = ("questions", "reuse", "grid", "documents")  # they come last: what the time allows


def make_sweeps(size: Size, options: list[str]) -> list[Sweep]:
    """In the order in which they are run: what must not be left out comes first."""

    def tree(literal: str, strategies: str, *more: str, new: int = size.new) -> list[str]:
        return [
            "tree",
            literal,
            *size.model,
            "--strategies",
            strategies,
            "--max-new",
            str(new),
            "--flat-tokens",
            str(size.flat_tokens),
            *more,
            *options,
        ]

    every = "auto,paged,stacked,flat,no-attention"
    usual = "auto,paged,flat,no-attention"
    most = size.streams[-1] if size.streams[-1] <= 64 or size.name == "gpu" else 32
    answers = max(2, min(16, size.flat_tokens // (size.contexts[-2] + 16)))  # flat runs all of them
    decoded = size.new * (1 if size.name == "gpu" else 2)  # where decode rates are read
    sweeps = [
        Sweep(
            "questions",
            "Questions on one context",
            "questions on each of 2 documents",
            [
                Cell(q, tree(f"2 documents x {q} questions | 32, {size.document}, 16 tokens", every), of_work())
                for q in size.questions
            ],
            "The first question on a document pays for it; the others share it.",
        ),
        Sweep(
            "context",
            "Length of the shared context",
            "shared tokens",
            [Cell(c, tree(f"{most} questions | {c}, 16 tokens", usual, new=decoded), of_work()) for c in ends(size)],
            f"{most} streams. Decode rates: steps that only extend answers.",
        ),
        Sweep(
            "streams",
            "Streams on one context",
            "streams",
            [
                Cell(s, tree(f"{s} questions | {size.contexts[-2]}, 16 tokens", usual, new=decoded), of_work())
                for s in size.streams
            ],
            f"{size.contexts[-2]} shared tokens, 16 of each stream's own.",
        ),
        Sweep(
            "reuse",
            "Share of the prompt that is shared",
            "% of the prompt's tokens that all streams share",
            [
                Cell(r, tree(reuse_forest(8 if size.name != "gpu" else 16, size.document, r), usual), of_work())
                for r in ((0, 99) if size.name == "gpu" else (0, 25, 50, 75, 90, 99))
            ],
            "Prompts of one length. At 0 nothing is shared, and nobody can win.",
            log_x=False,
        ),
        parallel_prompting(size, tree),
        rivals(size, tree),
        levels(size, tree),
        Sweep(
            "own",
            "Length of what is a stream's own",
            "own prompt tokens of each of 16 streams",
            [Cell(o, tree(f"16 questions | {size.contexts[-2]}, {o} tokens", usual), of_work()) for o in size.own],
            f"{size.contexts[-2]} shared tokens. The more is a stream's own, the less sharing saves.",
        ),
        Sweep(
            "lengths",
            "Length of answers",
            f"new tokens of each of {answers} answers",
            [
                Cell(a, tree(f"{answers} questions | {size.contexts[-2]}, 16 tokens", usual, new=a), of_work())
                for a in size.answers
            ],
            "What is written is each answer's own.",
        ),
        grid(size, tree),
        Sweep(
            "documents",
            "Documents at a fixed number of questions",
            f"documents that {size.together} questions are about",
            [
                Cell(
                    d,
                    tree(f"{d} documents x {size.together // d} questions | 32, {size.document}, 16 tokens", usual),
                    of_work(),
                )
                for d in (1, 4, 8, 16, 32)
                if d in ((1, 8, 32) if size.name == "gpu" else (1, 4, 16)) and d <= size.together
            ],
            "As many documents as questions: only the instruction is shared.",
        ),
        stacks(size, tree),
        Sweep(
            "values",
            "Attribute values at once",
            "attributes of a document",
            [
                Cell(
                    a,
                    [
                        "extract",
                        *size.model,
                        "--documents",
                        "6",
                        "--attributes",
                        str(a),
                        "--lengths",
                        "64,128,4",
                        "--value-lengths",
                        "1,8",
                        *options,
                    ],
                    of_extract,
                )
                for a in size.attributes
            ],
            "6 documents of 128 tokens, values of 1 to 8 tokens; stacked: all of them in a prompt.",
        ),
        stack_batch(size, options),
        relay(size, options),
        document(size, options),
        hydragen(size, options),
        prompt_shapes(size, options),
        budget(size, options),
        *experts(size, options),
        Sweep(
            "attention",
            "Attention alone",
            "shared tokens",
            [
                Cell(
                    c,
                    [
                        "attention",
                        f"{most} streams | {c}, 64 tokens",
                        "--heads",
                        "9" if size.name != "gpu" else "32",
                        "--kv-heads",
                        "3" if size.name != "gpu" else "8",
                        "--head-dim",
                        "64" if size.name != "gpu" else "128",
                        *(["--runs", "3"] if size.name != "gpu" else []),
                        *options,
                    ],
                    of_attention,
                )
                for c in ends(size)
            ],
            f"One layer, {most} rows, caches emptied before each run.",
        ),
        Sweep(
            "jobs",
            "Jobs of data sets, as token counts",
            "job",
            [
                Cell(
                    n,
                    [
                        name,
                        *size.model,
                        "--documents",
                        str(count),
                        "--strategies",
                        every,
                        "--flat-tokens",
                        str(size.flat_tokens_of_jobs or size.flat_tokens),
                        *options,
                    ],
                    of_work(),
                )
                for n, (name, count) in enumerate(size.jobs)
            ],
            "; ".join(f"{n}: {name}, {count} documents" for n, (name, count) in enumerate(size.jobs)),
            log_x=False,
        ),
    ]
    return sorted(sweeps, key=lambda sweep: sweep.name in WITHOUT_CLAIM)


def ends(size: Size) -> tuple[int, ...]:
    """Lengths of a shared context; on a GPU, whose time is short, the least and the greatest."""
    return (size.contexts[0], size.contexts[-1]) if size.name == "gpu" else size.contexts


def reuse_forest(streams: int, prompt: int, percent: int) -> str:
    """Prompts of `prompt` tokens of which so many percent are shared, and one at least is not."""
    shared = min(prompt * percent // 100, prompt - 1)
    return (
        f"{streams} streams | {prompt} tokens"
        if shared == 0
        else f"{streams} streams | {shared}, {prompt - shared} tokens"
    )


def parallel_prompting(size: Size, tree) -> Sweep:
    """P questions in a prompt with its own copy of the document, B = N / P prompts at once; beside it the same with the
    document stored once."""
    n, cells = size.together, []
    for p in (p for p in (1, 2, 4, 8, 16, 32, 64) if p <= n and (size.name != "gpu" or p not in (2, 32))):
        literal, more = f"{n} questions | {size.document}, 16 tokens", [
            "--questions-per-stack",
            str(p),
            "--stacks",
            str(n // p),
        ]
        cells.append(
            Cell(p, tree(literal, "stacked", *more, "--private-stacks"), of_work({"stacked": "a copy for each prompt"}))
        )
        cells.append(Cell(p, tree(literal, "stacked", *more), of_work({"stacked": "stored once"})))
    return Sweep(
        "prompts",
        "Questions in a prompt, prompts in a batch",
        f"P questions in a prompt (B = {n} / P prompts)",
        cells,
        "Parallel Prompting: every prompt computes and stores its own copy of the document. Time and memory fall as P"
        " grows.",
    )


def levels(size: Size, tree) -> Sweep:
    """Examples, then problems, then samples of each: one level shared against all of them."""
    problems, examples = size.problems
    cells = []
    for samples in size.samples:
        literal = f"{problems} problems x {samples} samples | {examples}, 128, 1 tokens"
        cells.append(
            Cell(samples, tree(literal, "tree,flat"), of_work({"tree": "both levels shared", "flat": "nothing shared"}))
        )
        cells.append(
            Cell(samples, tree(literal, "tree", "--share-levels", "1"), of_work({"tree": "examples shared alone"}))
        )
    return Sweep(
        "levels",
        "One shared level or two",
        f"samples of each of {problems} problems",
        cells,
        f"{examples} tokens of examples, problems of 128. With one level a problem is computed, stored and read for"
        " every sample.",
    )


def grid(size: Size, tree) -> Sweep:
    """Prefix × suffix: what sharing gains at every pair of lengths."""
    streams = 8 if size.name != "gpu" else 32
    cells = [
        Cell(c, tree(f"{streams} questions | {c}, {o} tokens", "auto,flat"), of_gain(f"{o} own tokens"))
        for o in size.own
        for c in ends(size)
    ]
    return Sweep(
        "grid",
        "Prefix × suffix",
        "shared tokens",
        cells,
        f"{streams} streams. The gain grows with what is shared and falls with what is a stream's own.",
    )


def stacks(size: Size, tree) -> Sweep:
    """Contexts in a stack × stacks at once, each context with its questions."""
    documents, questions, tokens = 8, 4, size.document // 4
    cells = [
        Cell(
            c,
            tree(
                f"{documents} documents x {questions} questions | 32, {tokens}, 16 tokens",
                "stacked",
                "--contexts-per-stack",
                str(c),
                "--stacks",
                str(b),
            ),
            of_work({"stacked": f"{b} at once"}),
        )
        for b in (1, 2, 8)
        for c in (1, 2, 4, 8)
        if c * b <= documents
    ]
    return Sweep(
        "stacks",
        "Contexts in a prompt × prompts at once",
        "contexts in a prompt",
        cells,
        f"{documents} documents of {tokens} tokens, {questions} questions each. A prompt multiplies all its rows with"
        " all its keys.",
    )
