"""Types of the options that Python has, from the table of options (src/tasks/options/).

Written by tools/python_options.py --types; a test compares it with the library."""
import os
from typing import Any, Literal, Mapping, Sequence, Tuple, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Device = str
Precision = Literal["f32", "mixed", "w8a8"]
KvType = Literal["f16", "bf16", "q8", "f32"]
KeepWeights = Literal["auto", "converted", "compact"]


class InputRows(TypedDict, total=False):
    """What is read."""

    input_format: Union[Literal["jsonl", "json", "csv", "tsv", "text", "html", "pdf"], None]
    id_column: Union[str, None]
    delimiter: Union[str, None]
    encoding: Union[str, None]
    strict: bool
    limit: Union[int, None]
    shard: Tuple[int, int]
    max_errors: Union[int, None]


class OutputRows(TypedDict, total=False):
    """What is written."""

    output_format: Union[Literal["jsonl", "csv", "tsv", "md"], None]
    columns: Sequence[str]
    csv_safe: bool
    ordered: bool
    resume: bool
    retry_errors: bool
    overwrite: bool
    checkpoint: Union[float, None]


class AskRows(TypedDict, total=False):
    """Of `ask`."""

    instruction: Union[str, None]
    template: Union[str, None]
    few_shot: Union[Path, Sequence[Mapping[str, Any]], None]
    chat: Literal["auto", "on", "off"]
    thinking: bool
    too_long: Literal["fail", "truncate", "split"]
    part_tokens: int
    reduce: bool
    max_new: int
    stop: Union[str, Sequence[str]]
    copy: Union[bool, None]
    min_confidence: float
    regex: Union[str, None]
    json_schema: Union[str, Mapping[str, Any], None]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    samples: int
    vote: bool
    choices: Literal["auto", "score", "letter"]
    choice_score: Literal["sum", "mean", "prior"]
    logprobs: bool
    top_logprobs: int
    token_ids: bool


class ExtractRows(TypedDict, total=False):
    """Of `extract`."""

    category: Union[str, None]
    instruction: Union[str, None]
    template: Union[str, None]
    few_shot: Union[Path, Sequence[Mapping[str, Any]], None]
    chat: Literal["auto", "on", "off"]
    too_long: Literal["fail", "truncate", "split"]
    values: Literal["skeleton", "isolated", "sequential"]
    stack: int
    fuse: Literal["values", "tokens"]
    gaps: bool
    copy: bool
    min_confidence: Union[float, None]
    max_new: int
    flat: bool


class RagRows(TypedDict, total=False):
    """Of `rag`."""

    top: int
    candidates: Literal["auto", "bm25", "dense", "sparse"]
    candidate_count: int
    relevance: Literal["auto", "given", "bm25", "dense", "sparse", "multi-vector", "rerank", "equal"]
    min_relevance: float
    too_long: Literal["fail", "truncate"]
    method: Literal["experts", "concat", "top1", "map-reduce", "kv-concat"]
    experts: Literal["documents", "examples"]
    examples_per_expert: int
    beta: Union[Literal["expert", "shared"], str, float]
    gamma: Union[float, None]
    scores: Literal["normalised", "raw"]
    plausibility: float
    abstention: float
    rule: Literal["max", "mixture", "product"]
    switch: Literal["word", "token"]
    together: int
    ape_temperature: float
    ape_scale: float
    copy: Union[bool, None]
    verify: bool
    max_new: int
    stop: Union[str, Sequence[str]]
    instruction: Union[str, None]
    map_instruction: Union[str, None]
    chat: Literal["auto", "on", "off"]
    trace: bool


class TableRows(TypedDict, total=False):
    """Of `map`, `filter`, `rank`, `group` and `join`."""

    output_format: Union[Literal["jsonl", "csv", "tsv", "md"], None]
    csv_safe: bool
    resume: bool
    retry_errors: bool
    overwrite: bool
    checkpoint: Union[float, None]
    instruction: Union[str, None]
    few_shot: Union[Path, Sequence[Mapping[str, Any]], None]
    chat: Literal["auto", "on", "off"]
    thinking: bool
    too_long: Literal["fail", "truncate", "split"]
    part_tokens: int
    reduce: bool
    max_new: int
    stop: Union[str, Sequence[str]]
    copy: Union[bool, None]
    min_confidence: float
    regex: Union[str, None]
    json_schema: Union[str, Mapping[str, Any], None]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    samples: int
    vote: bool
    choice_score: Literal["sum", "mean", "prior"]
    logprobs: bool
    top_logprobs: int
    token_ids: bool
    columns: Sequence[str]
    order: Literal["given", "auto"]
    choices: Union[str, Sequence[str]]
    threshold: float
    recall: float
    precision: float
    confidence: float
    sample: int
    label: Union[str, None]
    pairwise: bool
    top: int
    all: bool


class EngineRows(TypedDict, total=False):
    """Of the engine and the KV store."""

    strategy: Literal["auto", "tree", "stacked", "paged", "flat", "sequential", "no-attention"]
    batch_rows: int
    max_streams: int
    max_waiting: int
    kv_memory: Union[str, int]
    kv_store: Path
    kv_save: bool
    kv_bits: int
