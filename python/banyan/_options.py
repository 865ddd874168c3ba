"""Options by their types. Names and meaning are the command line's, with underscores; `_option_table` explains each.

`ask`, `extract` and `rag` take them as keywords or, to be kept and given again, in one object:

>>> careful = banyan.AskOptions(copy=True, too_long="split")
>>> banyan.ask(pages, "Who signed it?", options=careful, max_new=20)
"""
from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, Tuple, TypedDict, Union

from ._errors import Error

Path = Union[str, "os.PathLike[str]"]

# Values that are names; a test compares them with what the library takes.
Chat = Literal["auto", "on", "off"]
Choices = Literal["score", "letter"]
ChoiceScore = Literal["sum", "mean", "prior"]
TooLong = Literal["fail", "truncate", "split"]
TooLongOfRag = Literal["fail", "truncate"]
Values = Literal["skeleton", "isolated", "sequential"]
Fuse = Literal["values", "tokens"]
Experts = Literal["documents", "examples"]
Method = Literal["experts", "concat", "top1", "map-reduce", "kv-concat"]
Relevance = Literal["auto", "given", "bm25", "equal", "dense", "sparse", "multi-vector", "rerank"]
Candidates = Literal["auto", "bm25", "dense", "sparse"]
Rule = Literal["max", "mixture", "product"]
Scores = Literal["normalised", "raw"]
AbstentionScope = Literal["first", "answer"]
InputFormat = Literal["jsonl", "json", "csv", "tsv", "text", "html", "pdf"]
OutputFormat = Literal["jsonl", "csv", "tsv", "md"]
Strategy = Literal["auto", "tree", "stacked", "paged", "flat", "sequential", "no-attention"]
Device = Literal["cpu", "reference", "cuda"]
Precision = Literal["f32", "mixed", "w8a8"]
KvType = Literal["f16", "bf16", "q8", "f32"]
KeepWeights = Literal["auto", "converted", "compact"]
Vectors = Literal["exact", "flat", "ivf", "hnsw"]
Task = Literal["ask", "extract", "rag"]


class InputOptions(TypedDict, total=False):
    """What is read."""

    fields: Union[Mapping[str, str], None]
    limit: Union[int, None]
    shard: Tuple[int, int]
    input_format: Union[InputFormat, None]
    delimiter: Union[str, None]
    encoding: Union[str, None]
    strict: bool


class OutputOptions(TypedDict, total=False):
    """What is written."""

    overwrite: bool
    resume: bool
    retry_errors: bool
    ordered: bool
    max_errors: Union[int, None]
    checkpoint: Union[float, None]
    output_format: Union[OutputFormat, None]
    columns: Sequence[str]
    csv_safe: bool


class SamplingOptions(TypedDict, total=False):
    """How tokens are chosen."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int


class AskOptions(InputOptions, OutputOptions, SamplingOptions, total=False):
    """Of `ask`."""

    instruction: Union[str, None]
    template: Union[str, None]
    few_shot: Union[Path, Sequence[Mapping[str, Any]], None]
    chat: Chat
    thinking: bool
    too_long: TooLong
    part_tokens: int
    reduce: bool
    max_new: int
    stop: Union[str, Sequence[str]]
    copy: Union[bool, None]
    regex: Union[str, None]
    json_schema: Union[str, Mapping[str, Any], None]
    min_confidence: float
    samples: int
    vote: bool
    choices: Choices
    choice_score: ChoiceScore
    logprobs: bool
    top_logprobs: int
    token_ids: bool


class ExtractOptions(InputOptions, OutputOptions, total=False):
    """Of `extract`."""

    category: Union[str, None]
    instruction: Union[str, None]
    template: Union[str, None]
    few_shot: Union[Path, Sequence[Mapping[str, Any]], None]
    chat: Chat
    values: Values
    stack: int
    fuse: Fuse
    gaps: bool
    max_new: int
    too_long: TooLong
    copy: bool
    min_confidence: float
    flat: bool


class RagOptions(InputOptions, OutputOptions, total=False):
    """Of `rag`."""

    index: Any  # an Index, or its folder
    top: int
    candidates: Candidates
    candidate_count: int
    encoder: Any  # an Encoder, or a model's path or name
    reranker: Any  # likewise
    relevance: Relevance
    min_relevance: float
    method: Method
    experts: Experts
    examples: Union[Path, Sequence[Mapping[str, str]], None]
    examples_per_expert: int
    rule: Rule
    gamma: Union[float, None]
    beta: Union[Literal["expert"], str, float]
    scores: Scores
    plausibility: float
    abstention: float
    abstention_scope: AbstentionScope
    together: int
    ape_temperature: float
    ape_scale: float
    copy: bool
    verify: bool
    instruction: Union[str, None]
    map_instruction: Union[str, None]
    chat: Chat
    max_new: int
    stop: Union[str, Sequence[str]]
    too_long: TooLongOfRag
    trace: bool


class EngineOptions(TypedDict, total=False):
    """How the engine works; answers are the same, but for `kv_bits`."""

    strategy: Strategy
    share_levels: int
    contexts_per_stack: int
    questions_per_stack: int
    stacks: int
    private_stacks: bool
    batch_rows: int
    mixed_rows: int
    max_streams: int
    max_waiting: int
    kv_memory: Union[str, int]  # bytes, or such as "2G"
    steps_ahead: int
    measure_costs: bool
    replay: bool
    one_by_one: bool
    kv_store: Union[str, "os.PathLike[str]"]  # a folder of keys and values on disk (docs/kv-store.md)
    kv_save: bool  # documents of this job are kept there
    kv_bits: int  # 8: what the store has in 8 bits; answers are approximate


def native_engine_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """As the library takes them: paths as texts. What is not known is refused there."""
    if options is not None and not isinstance(options, Mapping):
        raise Error(f"engine: expected a dict of EngineOptions, found {type(options).__name__}")
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value
            for name, value in (options or {}).items()}
