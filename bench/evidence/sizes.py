"""How large the sweeps are: tiny for tests, small for a CPU, and for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

SHIPPED = "models/banyan-reader-34m.gguf"


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
    flat_tokens: int = 3000  # flat runs its first streams, of so many prompt tokens; fewer than all are marked
    flat_tokens_of_jobs: int = 0  # 0: as many
    rounds: int = 3
    sweeps_share: float = 0.5  # of the time; the rest is for quality. A sweep gets its part of what is left


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
    (("squad2", 2), ("race", 2)),
    flat_tokens=5000,
)
GPU = Size(
    "gpu",
    ("--shape", "qwen3-8b", "--random"),
    "random weights at the Qwen3-8B shape, bf16",
    16,
    2048,
    (1, 16, 128),
    (1024, 4096, 16384),
    (1, 32, 256, 1024),
    (16, 1024),
    (8, 64, 256),
    32,
    (12, 2048),
    (128,),
    (2048, 32, (16, 64)),
    (4, 16),
    (("squad2", 64), ("narrativeqa", 2), ("race", 64), ("longhealth", 1)),
    flat_tokens=30000,
    flat_tokens_of_jobs=240000,  # all of them
    rounds=2,
    sweeps_share=0.75,
)
SIZES = {size.name: size for size in (TINY, SMALL, GPU)}
