"""Sweeps beside the papers' rivals and at their shapes: RelayAttention, stacks × batches, Hydragen's models, one memory
for all ways, long answers of experts.
"""

from __future__ import annotations

from bench.evidence.readers import RELAY, of_extract, of_grid, of_rag, of_work
from bench.evidence.runner import Cell, Sweep
from bench.evidence.sizes import Size


def rivals(size: Size, tree) -> Sweep:
    """The questions of `prompts` by other ways: the prefix stored once and read for every question, read once for all,
    and with a system prompt that alone is shared."""
    n, system = size.together, min(32, size.document // 2)
    shared, relayed = f"{n} questions | {size.document}, 16 tokens", (
        f"1 documents x {n} questions | {system}, {size.document - system}, 16 tokens"
    )
    return Sweep(
        "rivals",
        "As many questions by other ways",
        "questions on a document",
        [
            Cell(n, tree(shared, "paged,tree"), of_work()),
            Cell(n, tree(relayed, "tree", "--share-levels", "1"), of_work({"tree": RELAY})),
        ],
        f"The questions of the sweep before. {RELAY}: {system} of the document's tokens are a system prompt, and nothing"
        " else is shared.",
        log_x=False,
    )


def relay(size: Size, options: list[str]) -> Sweep:
    """RelayAttention's setting at the shapes of Parallel Prompting: documents of their own after one system prompt."""
    shape = {"tiny": "tiny", "small": "llama-160m", "gpu": "sheared-llama-1.3b"}[size.name]
    tokens = min(size.document, 128) if size.name != "gpu" else 512
    cells = []
    for q in size.questions[:2] if size.name != "gpu" else size.questions[:4]:
        literal = f"2 documents x {q} questions | 64, {tokens}, 16 tokens"
        command = ["tree", literal, "--shape", shape, "--max-new", str(min(size.new, 8)), "--strategies"]
        cells.append(Cell(q, [*command, "stacked,tree,paged", *options], of_work()))
        cells.append(Cell(q, [*command, "tree", "--share-levels", "1", *options], of_work({"tree": RELAY})))
    return Sweep(
        "relay",
        "A system prompt alone, or all that is shared",
        "questions on each of 2 documents",
        cells,
        f"Random weights at the {shape} shape. {RELAY}: the 64 tokens of the system prompt are read once for all, and"
        f" every question has its own copy of its document of {tokens} tokens.",
    )


def stack_batch(size: Size, options: list[str]) -> Sweep:
    """Documents in a prompt × prompts at once."""
    documents, attributes = (4, 2) if size.name == "tiny" else (12, 4) if size.name == "small" else (12, 16)
    lengths = "64,128,4" if size.name != "gpu" else "200,256,5"
    command = ["extract", *size.model, "--documents", str(documents), "--attributes", str(attributes)]
    batches = (1, 2) if size.name == "tiny" else (1, 2) if size.name == "small" else (1, 4, 16)
    return Sweep(
        "stack_batch",
        "Documents in a prompt × prompts at once",
        "prompts at once",
        [
            Cell(
                b,
                [
                    *command,
                    "--lengths",
                    lengths,
                    "--value-lengths",
                    "1,8",
                    "--stack",
                    "2,6",
                    "--batch",
                    str(b),
                    *options,
                ],
                of_extract,
            )
            for b in batches
        ],
        f"{documents} documents, {attributes} attributes. A batch ends before the next begins. Sequential: one document"
        " in a prompt.",
    )


def hydragen(size: Size, options: list[str]) -> Sweep:
    """Its shapes on a GPU; without one there is nothing to run. Reading every stream's keys is the rival."""
    streams = {"codellama-7b": 1024, "codellama-13b": 256, "codellama-34b": 256, "yi-6b": 512}
    fixed = ["--strategies", "auto,paged,no-attention", "--max-new", "8", *options]
    cells = [
        Cell(
            n,
            ["hydragen", "--shape", shape, "--streams", str(streams[shape]), "--prefix", str(prefix), *fixed],
            of_grid,
        )
        for n, (shape, prefix) in enumerate((shape, prefix) for shape in streams for prefix in (1024, 16384))
    ]
    return Sweep(
        "hydragen",
        "Hydragen's shapes",
        "shape and shared tokens",
        cells if size.name == "gpu" else [],
        "; ".join(f"{c.x}: {c.command[2]}, {c.command[4]} streams on {c.command[6]} tokens" for c in cells),
        log_x=False,
    )


def document(size: Size, options: list[str]) -> Sweep:
    """More and more questions on one long document; on a GPU as long as Hydragen's, at the Yi-6B shape."""
    model = ("--shape", "yi-6b", "--random") if size.name == "gpu" else size.model
    tokens = 19947 if size.name == "gpu" else size.contexts[-1] - 64
    counts = (64, 1024) if size.name == "gpu" else (2, 8) if size.name == "tiny" else (4, 16, 64)
    command = [*model, "--strategies", "auto,paged", "--max-new", str(min(size.new, 8)), *options]
    return Sweep(
        "document",
        "Questions on one long document",
        "questions",
        [Cell(q, ["tree", f"{q} questions | {tokens}, 16 tokens", *command], of_work()) for q in counts],
        f"A document of {tokens} tokens.",
    )


def prompt_shapes(size: Size, options: list[str]) -> Sweep:
    """Questions in a prompt at the shapes of Parallel Prompting, with its small models."""
    shapes = {"tiny": ("tiny",), "small": ("llama-160m",), "gpu": ("llama-160m", "sheared-llama-1.3b")}[size.name]
    n, tokens = {"tiny": (4, 32), "small": (8, 96), "gpu": (64, 1024)}[size.name]
    literal, new = f"{n} questions | {tokens}, 16 tokens", str(min(size.new, 8))
    cells = [
        Cell(
            p,
            ["tree", literal, "--shape", shape, "--strategies", "stacked", "--max-new", new, "--private-stacks"]
            + ["--questions-per-stack", str(p), "--stacks", str(n // p), *options],
            of_work({"stacked": shape}),
        )
        for shape in shapes
        for p in (1, 2, 4, 8, 16, 32, 64)
        if p <= n and (size.name != "gpu" or p in (1, 4, 16, 64))
    ]
    return Sweep(
        "prompt_shapes",
        "Questions in a prompt, by the shape of the model",
        f"P questions in a prompt (B = {n} / P prompts)",
        cells,
        f"{n} questions on a document of {tokens} tokens, every prompt with its own copy of it. Random weights.",
    )


def budget(size: Size, options: list[str]) -> Sweep:
    """Samples of one problem under one limit of memory for keys and values: more of them fit where they share."""
    samples, shared, megabytes = {"tiny": (4, 64, (1,)), "small": (16, 512, (16, 32)), "gpu": (64, 2048, (2048, 8192))}[
        size.name
    ]
    literal = f"{samples} samples | {shared}, 16 tokens"
    return Sweep(
        "budget",
        "As many samples at once as fit into memory",
        "MiB for keys and values",
        [
            Cell(
                memory,
                ["tree", literal, *size.model, "--strategies", "auto,flat", "--flat-tokens", "0"]
                + ["--max-new", str(size.new), "--kv-memory", f"{memory}M", *options],
                of_work(),
            )
            for memory in megabytes
        ],
        f"{samples} samples on {shared} tokens. Flat keeps a copy of the prompt for every sample; the others wait.",
    )


def experts(size: Size, options: list[str]) -> list[Sweep]:
    """Documents as experts: the wait for the first token, and for a long answer."""
    tokens, new, counts = size.experts
    model = ("--shape", "yi-6b", "--random") if size.name == "gpu" else size.model  # 64 documents fit its context
    documents, long = {"tiny": (2, 8), "small": (8, 64), "gpu": (32, 512)}[size.name]
    command = lambda n, most: ["rag", *model, "--documents", str(n), "--document-tokens", str(tokens)] + [
        "--max-new",
        str(most),
        *options,
    ]
    memory = "In memory: the documents' keys are there from an earlier question."
    return [
        Sweep(
            "experts",
            "Documents as experts",
            f"documents of {tokens} tokens",
            [Cell(n, command(n, new), of_rag) for n in counts],
            f"One question, {new} new tokens. {memory}",
        ),
        Sweep(
            "long_answer",
            "Documents as experts, a long answer",
            f"documents of {tokens} tokens",
            [Cell(documents, command(documents, long), of_rag)],
            f"One question, {long} new tokens. {memory}",
            log_x=False,
        ),
    ]
