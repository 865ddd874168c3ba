"""ask, extract and rag: the jobs of the command line, from Python."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
from typing import Any, Iterator, Mapping, Sequence

from . import _native
from ._embed import Encoder, Index, opened_encoder
from ._model import Model
from ._options import EngineOptions, native_engine_options
from ._rows import Data, Folder, Rows
from ._run import (LoadedModel, Path, Progress, Question, examples_text, json_text, native_job, question_options, run_job,
                   text_list)


def ask_task(questions: Question | Sequence[Question] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job of questions as the library takes them."""
    task = {**options, **question_options(questions)}
    for name, reader in (("stop", text_list), ("json_schema", json_text), ("few_shot", examples_text)):
        if task.get(name) is not None:
            task[name] = reader(task[name])
    return task


def ask(data: Data, questions: Question | Sequence[Question] | None = None, *,
        model: Model | Path | None = None, output: Path | None = None,
        instruction: str | None = None, template: str | None = None,
        few_shot: str | Sequence[Mapping[str, Any]] | None = None, chat: str = "auto", thinking: bool = False,
        max_new: int = 64, stop: str | Sequence[str] = (), copy: bool | None = None, regex: str | None = None,
        json_schema: str | Mapping[str, Any] | None = None, temperature: float = 0.0, top_k: int = 0,
        top_p: float = 1.0, min_p: float = 0.0, repetition_penalty: float = 1.0, seed: int = 0, samples: int = 1,
        vote: bool = False, choices: str = "score", choice_score: str = "sum", too_long: str = "fail",
        part_tokens: int = 0, reduce: bool = False, min_confidence: float = 0.0, logprobs: bool = False,
        top_logprobs: int = 0, token_ids: bool = False,
        fields: Mapping[str, str] | None = None, input_format: str | None = None, delimiter: str | None = None,
        limit: int | None = None, shard: tuple[int, int] = (1, 1), max_errors: int | None = None,
        ordered: bool = True, resume: bool = False, retry_errors: bool = False, overwrite: bool = False,
        checkpoint: float | None = None, output_format: str | None = None, columns: Sequence[str] = (),
        csv_safe: bool = False, engine: EngineOptions | None = None, progress: Progress | None = None) -> Rows:
    """Asks questions about documents, as ``banyan ask`` does.

    `data` is a file, a list of files (text, HTML, PDF, JSONL, CSV, Parquet), a list of dicts, a pandas DataFrame or
    an Arrow table. A row has ``context`` and may have ``id``, ``question`` or ``questions``, ``choices`` and
    ``instruction``; other fields are carried into the answers' rows. `questions` are asked of every document: texts,
    or dicts with ``question``, ``id``, ``choices``.

    The result has a row for every answer, in the input's order; a row that cannot be answered has ``error``. With
    `output` (.jsonl, .csv, .tsv, .md, packed or not, or .parquet) the rows are in that file too, and a job that was
    interrupted goes on with `resume`. `fields` says what the input calls a field: ``{"context": "body"}``. `shard`
    is (i, n): every n-th document from the i-th on. `copy`: answers are copied from the context, word for word, or
    null; None: where the model's card says that it copies. `min_confidence`: answers that are right with less than
    this probability become null, with a model whose card tells it. `engine` has the engine's options
    (`EngineOptions`: strategy, kv_memory, kv_store …), `progress` is called
    with a dict a few times a second. The other parameters are the command line's options.

    >>> banyan.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?")[0]["answer"]
    'Anna'
    """
    task = ask_task(questions, {
        "instruction": instruction, "template": template, "few_shot": few_shot, "chat": chat, "thinking": thinking,
        "max_new": max_new, "stop": stop, "copy": copy, "min_confidence": min_confidence, "regex": regex,
        "json_schema": json_schema, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "repetition_penalty": repetition_penalty, "seed": seed, "samples": samples, "vote": vote, "choices": choices,
        "choice_score": choice_score, "too_long": too_long, "part_tokens": part_tokens, "reduce": reduce,
        "logprobs": logprobs, "top_logprobs": top_logprobs, "token_ids": token_ids})
    job: dict[str, Any] = {
        "fields": None if fields is None else dict(fields), "input_format": input_format, "delimiter": delimiter,
        "limit": limit, "shard": shard, "max_errors": max_errors, "ordered": ordered, "resume": resume,
        "retry_errors": retry_errors, "overwrite": overwrite, "checkpoint": checkpoint, "output_format": output_format,
        "columns": list(columns), "csv_safe": csv_safe}
    return run_job(_native.run_ask, data, task, model, output, job, engine, progress)


def show_prompts(data: Data, questions: Question | Sequence[Question] | None = None, *,
                 model: Model | Path | None = None, fields: Mapping[str, str] | None = None, limit: int | None = None,
                 **options: Any) -> str:
    """What the model would read of the first record, or of the first `limit` ones, as ``ask --show-prompt`` prints
    it. `options` are those of `ask` that say something of prompts: instruction, template, few_shot, chat …"""
    job = {"fields": None if fields is None else dict(fields), "limit": limit}
    with Folder() as folder, LoadedModel(model) as loaded:
        return _native.show_prompts(loaded._native, ask_task(questions, options),
                                    native_job(job, folder.inputs(data)))


def estimate(data: Data, questions: Question | Sequence[Question] | None = None, *,
             model: Model | Path | None = None, fields: Mapping[str, str] | None = None, limit: int | None = None,
             engine: EngineOptions | None = None, **options: Any) -> dict[str, Any]:
    """What `ask` would do and about how long it would take, as ``ask --dry-run`` says it: the input is read, and its
    first records are answered to measure the machine."""
    job = {"fields": None if fields is None else dict(fields), "limit": limit}
    with Folder() as folder, LoadedModel(model) as loaded:
        found: dict[str, Any] = json.loads(_native.estimate_ask(
            loaded._native, native_engine_options(engine), ask_task(questions, options),
            native_job(job, folder.inputs(data))))
        return found


def extract_task(schema: str | Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an extraction as the library takes them."""
    return {**options, "schema": json_text(schema), "few_shot": examples_text(options.get("few_shot"))}


def extract(data: Data, schema: str | Mapping[str, Any], *, model: Model | Path | None = None,
            output: Path | None = None, category: str | None = None, instruction: str | None = None,
            template: str | None = None, few_shot: str | Sequence[Mapping[str, Any]] | None = None,
            chat: str = "auto", values: str = "skeleton", stack: int = 1, fuse: str = "values", gaps: bool = True,
            max_tokens: int = 0, too_long: str = "split", copy: bool = True, min_confidence: float = 0.0,
            flat: bool = False,
            fields: Mapping[str, str] | None = None, input_format: str | None = None, limit: int | None = None,
            shard: tuple[int, int] = (1, 1),
            max_errors: int | None = None, ordered: bool = True, resume: bool = False, retry_errors: bool = False,
            overwrite: bool = False, checkpoint: float | None = None, output_format: str | None = None,
            columns: Sequence[str] = (), engine: EngineOptions | None = None,
            progress: Progress | None = None) -> Rows:
    """Attribute values out of documents, as ``banyan extract`` does: all at once, each turned into its type.

    A row has ``text``, or ``documents`` (texts, or dicts with ``id`` and ``text``) where several documents speak of
    one thing, and may have ``id`` and ``category``; `fuse` says how such documents become one row. `schema` is a dict
    or JSON text (docs/extract.md), such as
    ``{"attributes": [{"name": "brand"}, {"name": "weight", "type": "number", "unit": "kg"}]}``.
    """
    task = extract_task(schema, {
        "category": category, "instruction": instruction, "template": template, "few_shot": few_shot, "chat": chat,
        "values": values, "stack": stack, "fuse": fuse, "gaps": gaps, "max_tokens": max_tokens, "too_long": too_long,
        "copy": copy, "min_confidence": min_confidence, "flat": flat})
    job: dict[str, Any] = {
        "fields": None if fields is None else dict(fields), "input_format": input_format, "limit": limit,
        "shard": shard, "max_errors": max_errors, "ordered": ordered, "resume": resume,
        "retry_errors": retry_errors, "overwrite": overwrite, "checkpoint": checkpoint, "output_format": output_format,
        "columns": list(columns)}
    return run_job(_native.run_extract, data, task, model, output, job, engine, progress)


def example_pairs(examples: Path | Sequence[Mapping[str, str]] | None) -> list[tuple[str, str]]:
    """Questions with their answers: rows, or a JSONL file of them."""
    if examples is None:
        return []
    rows: Sequence[Mapping[str, str]]
    if isinstance(examples, (str, os.PathLike)):
        rows = [json.loads(line) for line in pathlib.Path(examples).read_text("utf-8").splitlines() if line.strip()]
    else:
        rows = examples
    return [(row["question"], row["answer"]) for row in rows]


def rag_task(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of questions over documents as the library takes them, models and index by their names or open."""
    return {**options, "examples": example_pairs(options.get("examples")), "stop": text_list(options.get("stop") or ())}


@contextlib.contextmanager
def rag_models(task: Mapping[str, Any], threads: int) -> Iterator[dict[str, Any]]:
    """The task with index opened and models of retrieval loaded, for as long as they are needed."""
    opened = {name: value for name, value in task.items() if name not in ("encoder", "reranker")}
    index = task.get("index")
    if index is not None:
        opened["index"] = (index if isinstance(index, Index) else Index(index))._native
    with contextlib.ExitStack() as stack:
        encoder = task.get("encoder") or _native.wanted_encoder(opened) or None
        for name, wanted in (("encoder", encoder), ("reranker", task.get("reranker"))):
            if wanted is not None:
                opened[name] = stack.enter_context(opened_encoder(wanted, threads))._native
        yield opened


def rag(data: Data, *, index: Index | Path | None = None, model: Model | Path | None = None,
        output: Path | None = None, method: str = "experts", relevance: str = "auto", min_relevance: float = 0.0,
        top: int = 16, candidates: str = "auto", candidate_count: int = 0, encoder: Encoder | Path | None = None,
        reranker: Encoder | Path | None = None, experts: str = "documents",
        examples: Path | Sequence[Mapping[str, str]] | None = None, examples_per_expert: int = 1,
        rule: str = "max", gamma: float | None = None, beta: str | float = "expert", scores: str = "normalised",
        plausibility: float = 0.1, abstention: float = 0.5, abstention_scope: str = "first",
        ape_temperature: float = 1.0, ape_scale: float = 1.0, copy: bool = False, verify: bool = False,
        instruction: str | None = None, map_instruction: str | None = None, chat: str = "auto", max_new: int = 64, stop: str | Sequence[str] = (),
        too_long: str = "fail", trace: bool = True, fields: Mapping[str, str] | None = None,
        limit: int | None = None, shard: tuple[int, int] = (1, 1), max_errors: int | None = None,
        ordered: bool = True, resume: bool = False, retry_errors: bool = False, overwrite: bool = False,
        engine: EngineOptions | None = None, progress: Progress | None = None) -> Rows:
    """Questions over retrieved documents, as ``banyan rag`` does: every document an expert, one answer.

    A row has ``question`` and may have ``id`` and ``documents`` (dicts with ``id``, ``text``, ``title``, ``score``);
    a row without documents is asked of the `index`, an `Index` or a folder that `Index.build` or ``banyan rag index``
    made. An index with vectors is searched with the encoder that made it, unless another one is given. `encoder` and
    `reranker` are an `Encoder`, or a model that is loaded for the call.
    """
    job: dict[str, Any] = {
        "fields": None if fields is None else dict(fields), "limit": limit, "shard": shard,
        "max_errors": max_errors, "ordered": ordered, "resume": resume, "retry_errors": retry_errors,
        "overwrite": overwrite}
    wanted = rag_task({
        "index": index, "method": method, "relevance": relevance, "min_relevance": min_relevance, "top": top,
        "candidates": candidates, "candidate_count": candidate_count, "encoder": encoder, "reranker": reranker,
        "experts": experts, "examples": examples, "examples_per_expert": examples_per_expert,
        "rule": rule, "gamma": gamma, "beta": beta, "scores": scores, "plausibility": plausibility,
        "abstention": abstention, "abstention_scope": abstention_scope, "ape_temperature": ape_temperature,
        "ape_scale": ape_scale, "copy": copy, "verify": verify, "instruction": instruction, "map_instruction": map_instruction,
        "chat": chat, "max_new": max_new, "stop": stop, "too_long": too_long, "trace": trace})
    with rag_models(wanted, model.threads if isinstance(model, Model) else 0) as task:
        return run_job(_native.run_rag, data, task, model, output, job, engine, progress)
