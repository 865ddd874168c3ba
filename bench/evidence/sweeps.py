"""The sweeps: what is varied, at which sizes, and what is read from the figures of `banyan bench`.

Weights: those of the shipped model at size `small`, random at `tiny` and `gpu`; tokens are random everywhere, so these
runs measure speed and memory and nothing else. Answers have a fixed length. All strategies of one command give the same
answers bit for bit, which the command checks.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.evidence.runner import Cell, Sweep

SHIPPED = "models/banyan-reader-34m.gguf"
RATE, DECODE, MEMORY, SECONDS, FIRST = "questions/s", "decode tok/s", "KV MiB", "s", "s to the first token"


@dataclass(frozen=True)
class Size:
    name: str
    model: tuple[str, ...]  # options that choose the model; the device comes with the options of all commands
    what: str
    new: int  # tokens of an answer
    document: int
    questions: tuple[int, ...]  # per context
    contexts: tuple[int, ...]  # tokens of the shared prefix
    streams: tuple[int, ...]
    own: tuple[int, ...]  # tokens of a stream's own prompt
    answers: tuple[int, ...]  # tokens
    together: int  # questions of P x B
    problems: tuple[int, int]  # problems, tokens of the examples before them
    samples: tuple[int, ...]
    experts: tuple[int, int, tuple[int, ...]]  # tokens of a document, new tokens, numbers of documents
    attributes: tuple[int, ...]
    jobs: tuple[tuple[str, int], ...]  # name, documents
    flat_tokens: int = 3000
    rounds: int = 3


TINY = Size(
    "tiny",
    ("--shape", "tiny"),
    "random weights at a tiny shape: a test of the page, not a measurement",
    4,
    64,
    (1, 4),
    (32, 128),
    (1, 8),
    (4, 64),
    (2, 8),
    4,
    (2, 32),
    (2, 4),
    (32, 4, (1, 4)),
    (2, 4),
    (("squad2", 1),),
    rounds=2,
)
SMALL = Size(
    "small",
    ("-m", SHIPPED),
    "the shipped model: 34 M parameters, 12 layers, Q4_0",
    16,
    256,
    (1, 4, 16, 48),
    (128, 512, 2048),
    (1, 8, 32),
    (16, 128, 256),
    (4, 16, 64),
    16,
    (4, 256),
    (1, 4, 16),
    (256, 8, (1, 4, 12)),
    (4, 16),
    (("squad2", 3), ("race", 3)),
    flat_tokens=1500,
)
GPU = Size(
    "gpu",
    ("--shape", "qwen3-8b", "--random"),
    "random weights at the Qwen3-8B shape, bf16",
    64,
    2048,
    (1, 4, 16, 64, 256),
    (1024, 2048, 4096, 8192, 16384),
    (1, 32, 256, 1024),
    (16, 256, 1024),
    (8, 32, 128, 512),
    256,
    (120, 2048),
    (8, 32, 128),
    (2048, 32, (1, 4, 16, 32)),
    (4, 16),
    (("squad2", 128), ("narrativeqa", 40), ("race", 288), ("longhealth", 8)),
    flat_tokens=60000,
)
SIZES = {size.name: size for size in (TINY, SMALL, GPU)}


def of_work(names: dict[str, str] | None = None):
    """Reads `bench tree` and the named jobs: strategies, or those of `names` under the names there. Flat may have run
    only its first streams: rates are of those, memory is of all."""

    def read(json: object) -> dict[str, dict[str, float]]:
        found = {}
        for s in json["strategies"]:
            if names is not None and s["strategy"] not in names:
                continue
            whole = json["streams"] / s["streams"]
            measures = {
                RATE: s["questions_per_second"],
                SECONDS: s["seconds"] * whole,
                MEMORY: s["kv_bytes_peak"] * whole / 2**20,
                "rows": (s["prefilled_tokens"] + s["generated_tokens"]) * whole,
            }
            if s["decode_tokens_per_second"] > 0:
                measures[DECODE] = s["decode_tokens_per_second"]
            found[names[s["strategy"]] if names else s["strategy"]] = measures
        return found

    return read


def of_extract(json: object) -> dict[str, dict[str, float]]:
    return {m["values"]: {"documents/s": m["documents_per_second"], "steps": m["steps"]} for m in json["modes"]}


def of_rag(json: object) -> dict[str, dict[str, float]]:
    names = ("experts, documents in memory", "experts, documents computed", "one prompt")
    return {
        name: {FIRST: json[name]["first_token_seconds"], SECONDS: json[name]["seconds"]}
        for name in names
        if name in json
    }


def of_attention(json: object) -> dict[str, dict[str, float]]:
    return {name: {"µs": times["median_us"]} for name, times in json[0]["strategies"].items()}


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
            [
                Cell(c, tree(f"{most} questions | {c}, 16 tokens", usual, new=size.new * 2), of_work())
                for c in size.contexts
            ],
            f"{most} streams. Decode rates: steps that only extend answers.",
        ),
        Sweep(
            "streams",
            "Streams on one context",
            "streams",
            [
                Cell(s, tree(f"{s} questions | {size.contexts[-2]}, 16 tokens", usual, new=size.new * 2), of_work())
                for s in size.streams
            ],
            f"{size.contexts[-2]} shared tokens, 16 of each stream's own.",
        ),
        Sweep(
            "reuse",
            "Share of the prompt that is shared",
            "% of the prompt's tokens that all streams share",
            [
                Cell(r, tree(reuse_forest(8 if size.name != "gpu" else 64, size.document, r), usual), of_work())
                for r in (0, 25, 50, 75, 90, 99)
            ],
            "Prompts of one length. At 0 nothing is shared, and nobody can win.",
            log_x=False,
        ),
        parallel_prompting(size, tree),
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
            "new tokens of each of 16 answers",
            [
                Cell(a, tree(f"16 questions | {size.contexts[-2]}, 16 tokens", usual, new=a), of_work())
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
                for d in (1, 2, 4, 8, 16, 32, 64, 128, 256)
                if d <= size.together and size.together % d == 0 and (size.name == "gpu" or d in (1, 4, 16))
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
                        "4",
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
            "4 documents of 128 tokens, values of 1 to 8 tokens; stacked: 6 documents in a prompt at most.",
        ),
        Sweep(
            "experts",
            "Documents as experts",
            f"documents of {size.experts[0]} tokens",
            [
                Cell(
                    n,
                    [
                        "rag",
                        *size.model,
                        "--documents",
                        str(n),
                        "--document-tokens",
                        str(size.experts[0]),
                        "--max-new",
                        str(size.experts[1]),
                        *options,
                    ],
                    of_rag,
                )
                for n in size.experts[2]
            ],
            f"One question, {size.experts[1]} new tokens. In memory: the documents' keys are there from an earlier"
            " question.",
        ),
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
                for c in size.contexts
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
                        str(size.flat_tokens),
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
    return sweeps


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
    for p in (p for p in (1, 2, 4, 8, 16, 32, 64, 128, 256) if p <= n):
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


GAIN = "auto over flat, times"


def of_gain(name: str):
    """The rate of auto over that of flat in one command, as a series of its own."""

    def read(json: object) -> dict[str, dict[str, float]]:
        rates = {s["strategy"]: s["questions_per_second"] for s in json["strategies"]}
        return {name: {GAIN: rates["auto"] / rates["flat"]}}

    return read


def grid(size: Size, tree) -> Sweep:
    """Prefix × suffix: what sharing gains at every pair of lengths."""
    streams = 8 if size.name != "gpu" else 64
    cells = [
        Cell(c, tree(f"{streams} questions | {c}, {o} tokens", "auto,flat"), of_gain(f"{o} own tokens"))
        for o in size.own
        for c in size.contexts
    ]
    return Sweep(
        "grid",
        "Prefix × suffix",
        "shared tokens",
        cells,
        f"{streams} streams. The gain grows with what is shared and falls with what is a stream's own.",
    )


def stacks(size: Size, tree) -> Sweep:
    """C contexts in a stack, each with P questions, B stacks at once."""
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
                str(documents // c),
            ),
            of_work({"stacked": "stacked"}),
        )
        for c in (1, 2, 4, 8)
    ]
    return Sweep(
        "stacks",
        "Contexts in a stack",
        f"C contexts in a stack (B = {documents} / C stacks)",
        cells,
        f"{documents} documents of {tokens} tokens, {questions} questions each. A stack multiplies all its rows with"
        " all its keys.",
    )


def stack_work(p: int, c: int, x: int, new: int, contexts: int, questions: int) -> tuple[float, float]:
    """Rows, and rows times keys, of one stack: the two terms of its cost."""
    header, streams = p + contexts * (c + questions * x), contexts * questions
    rows, products = float(header), float(header * header)
    for step in range(1, new):
        rows += streams
        products += streams * (header + step * streams)
    return rows, products
