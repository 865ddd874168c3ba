"""ask, extract and rag: the jobs of the command line, from Python."""
from __future__ import annotations

import json
import logging
import os
import pathlib
from typing import Any, Callable, Mapping, Sequence, Union

from . import _native
from ._errors import Error
from ._model import Model
from ._rows import Data, Folder, Rows, as_paths, is_parquet, write_parquet

log = logging.getLogger("banyan")

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[dict[str, Any]], object]
Question = Union[str, Mapping[str, Any]]


class _Loaded:
    """A model for one call: the caller's, or one that is loaded and closed again."""

    def __init__(self, model: Model | Path | None) -> None:
        self.own = not isinstance(model, Model)
        self.model = model if isinstance(model, Model) else Model(model)

    def __enter__(self) -> Model:
        return self.model

    def __exit__(self, *_: object) -> None:
        if self.own:
            self.model.close()


def text_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def question_options(questions: Question | Sequence[Question] | None) -> dict[str, Any]:
    """Questions for every document, as the library takes them: texts, or JSONL when some have ids or choices."""
    if questions is None:
        return {}
    listed = [questions] if isinstance(questions, (str, Mapping)) else list(questions)
    if all(isinstance(question, str) for question in listed):
        return {"questions": listed}
    return {"questions_text": "".join(json.dumps(q if isinstance(q, str) else dict(q)) + "\n" for q in listed)}


def json_text(value: str | Mapping[str, Any] | None) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def examples_text(value: str | Sequence[Mapping[str, Any]] | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "".join(json.dumps(dict(example)) + "\n" for example in value)


def run_job(run: Callable[..., str], data: Data, task: dict[str, Any], model: Model | Path | None,
            output: Path | None, job: dict[str, Any], engine: Mapping[str, Any] | None,
            progress: Progress | None) -> Rows:
    """Files in place, the job run, its rows taken."""
    target = None if output is None else os.fspath(output)
    folder = Folder()
    try:
        inputs = folder.inputs(data)
        in_memory = inputs[0] if as_paths(data) is None else None
        if target is None:
            written = str(folder.path / "out.jsonl")
        else:
            written = f"{target}.rows.jsonl" if is_parquet(target) else target
        options = {name: value for name, value in job.items() if value is not None}
        shard, shards = options.pop("shard", (1, 1))
        options.update(inputs=inputs, output=written, shard=shard, shards=shards)
        with _Loaded(model) as loaded:
            if os.path.isfile(loaded.path):  # never written to
                options["other_files"] = [("the model", loaded.path)]
            receipt = json.loads(run(loaded._native, dict(engine or {}), task, options, progress, log.info))
            receipt["model"] = loaded.path
        if receipt["end"] == "too many errors":
            raise Error(f"stopped after more than {job['max_errors']} error rows (max_errors)", "input")
        text = b""
        if target is None or is_parquet(target):
            text = pathlib.Path(written).read_bytes()
        elif pathlib.Path(written).suffix in (".jsonl", ".ndjson", ".json"):
            text = pathlib.Path(written).read_bytes()
        if in_memory is not None:  # error rows name the file that they come from
            text = text.replace(in_memory.encode(), b"rows")
        rows = Rows(text, receipt, target)
        if target is not None and is_parquet(target):
            write_parquet(rows, target)
            os.remove(written)
            os.remove(written + ".journal")
        return rows
    finally:
        folder.remove()


def ask(data: Data, questions: Question | Sequence[Question] | None = None, *,
        model: Model | Path | None = None, output: Path | None = None,
        instruction: str | None = None, template: str | None = None,
        few_shot: str | Sequence[Mapping[str, Any]] | None = None, chat: str = "auto", thinking: bool = False,
        max_new: int = 64, stop: str | Sequence[str] = (), regex: str | None = None,
        json_schema: str | Mapping[str, Any] | None = None, temperature: float = 0.0, top_k: int = 0,
        top_p: float = 1.0, min_p: float = 0.0, repetition_penalty: float = 1.0, seed: int = 0, samples: int = 1,
        vote: bool = False, choices: str = "score", choice_score: str = "mean", too_long: str = "fail",
        logprobs: bool = False, top_logprobs: int = 0, token_ids: bool = False,
        fields: Mapping[str, str] | None = None, input_format: str | None = None, limit: int | None = None,
        shard: tuple[int, int] = (1, 1), max_errors: int | None = None, ordered: bool = True, resume: bool = False,
        retry_errors: bool = False, overwrite: bool = False, columns: Sequence[str] = (),
        engine: Mapping[str, Any] | None = None, progress: Progress | None = None) -> Rows:
    """Asks questions about documents, as ``banyan ask`` does.

    `data` is a file, a list of files (text, HTML, PDF, JSONL, CSV, Parquet), a list of dicts, a pandas DataFrame or
    an Arrow table. A row has ``context`` and may have ``id``, ``question`` or ``questions``, ``choices`` and
    ``instruction``; other fields are carried into the answers' rows. `questions` are asked of every document: texts,
    or dicts with ``question``, ``id``, ``choices``.

    The result has a row for every answer, in the input's order; a row that cannot be answered has ``error``. With
    `output` (.jsonl, .csv, .tsv, .md, packed or not, or .parquet) the rows are in that file too, and a job that was
    interrupted goes on with `resume`. `fields` says what the input calls a field: ``{"context": "body"}``. `shard`
    is (i, n): every n-th document from the i-th on. `engine` has the engine's options (strategy, kv_memory …),
    `progress` is called with a dict a few times a second. The other parameters are the command line's options.

    >>> banyan.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?")[0]["answer"]
    'Anna'
    """
    task: dict[str, Any] = {
        "instruction": instruction, "template": template, "few_shot": examples_text(few_shot), "chat": chat,
        "thinking": thinking, "max_new": max_new, "stop": text_list(stop), "regex": regex,
        "json_schema": json_text(json_schema), "temperature": temperature, "top_k": top_k, "top_p": top_p,
        "min_p": min_p, "repetition_penalty": repetition_penalty, "seed": seed, "samples": samples, "vote": vote,
        "choices": choices, "choice_score": choice_score, "too_long": too_long, "logprobs": logprobs,
        "top_logprobs": top_logprobs, "token_ids": token_ids, **question_options(questions)}
    job: dict[str, Any] = {
        "fields": None if fields is None else dict(fields), "input_format": input_format, "limit": limit,
        "shard": shard, "max_errors": max_errors, "ordered": ordered, "resume": resume,
        "retry_errors": retry_errors, "overwrite": overwrite, "columns": list(columns)}
    return run_job(_native.run_ask, data, task, model, output, job, engine, progress)


def extract(data: Data, schema: str | Mapping[str, Any], *, model: Model | Path | None = None,
            output: Path | None = None, category: str | None = None, instruction: str | None = None,
            template: str | None = None, few_shot: str | Sequence[Mapping[str, Any]] | None = None,
            chat: str = "auto", values: str = "skeleton", gaps: bool = True, max_tokens: int = 0,
            too_long: str = "fail", flat: bool = False, fields: Mapping[str, str] | None = None,
            input_format: str | None = None, limit: int | None = None, shard: tuple[int, int] = (1, 1),
            max_errors: int | None = None, ordered: bool = True, resume: bool = False, retry_errors: bool = False,
            overwrite: bool = False, columns: Sequence[str] = (), engine: Mapping[str, Any] | None = None,
            progress: Progress | None = None) -> Rows:
    """Attribute values out of documents, as ``banyan extract`` does: all at once, each held to its type.

    A row has ``text`` and may have ``id`` and ``category``. `schema` is a dict or JSON text (docs/extract.md), such
    as ``{"attributes": [{"name": "brand"}, {"name": "weight", "type": "number", "unit": "kg"}]}``.
    """
    task: dict[str, Any] = {
        "schema": json_text(schema), "category": category, "instruction": instruction, "template": template,
        "few_shot": examples_text(few_shot), "chat": chat, "values": values, "gaps": gaps, "max_tokens": max_tokens,
        "too_long": too_long, "flat": flat}
    job: dict[str, Any] = {
        "fields": None if fields is None else dict(fields), "input_format": input_format, "limit": limit,
        "shard": shard, "max_errors": max_errors, "ordered": ordered, "resume": resume,
        "retry_errors": retry_errors, "overwrite": overwrite, "columns": list(columns)}
    return run_job(_native.run_extract, data, task, model, output, job, engine, progress)


def rag(data: Data, *, index: Path | None = None, model: Model | Path | None = None, output: Path | None = None,
        method: str = "experts", relevance: str = "auto", min_relevance: float = 0.0, top: int = 16,
        rule: str = "max", gamma: float = 2.5, beta: str | float = "expert", instruction: str | None = None,
        map_instruction: str | None = None, chat: str = "auto", max_new: int = 64, stop: str | Sequence[str] = (),
        too_long: str = "fail", trace: bool = True, fields: Mapping[str, str] | None = None,
        limit: int | None = None, shard: tuple[int, int] = (1, 1), max_errors: int | None = None,
        ordered: bool = True, resume: bool = False, retry_errors: bool = False, overwrite: bool = False,
        engine: Mapping[str, Any] | None = None, progress: Progress | None = None) -> Rows:
    """Questions over retrieved documents, as ``banyan rag`` does: every document an expert, one answer.

    A row has ``question`` and may have ``id`` and ``documents`` (dicts with ``id``, ``text``, ``title``, ``score``);
    a row without documents is asked of the `index`, a folder that `Index.build` or ``banyan rag index`` made.
    """
    task: dict[str, Any] = {
        "index": None if index is None else os.fspath(index), "method": method, "relevance": relevance,
        "min_relevance": min_relevance, "top": top, "rule": rule, "gamma": gamma, "beta": beta,
        "instruction": instruction, "map_instruction": map_instruction, "chat": chat, "max_new": max_new,
        "stop": text_list(stop), "too_long": too_long, "trace": trace}
    job: dict[str, Any] = {
        "fields": None if fields is None else dict(fields), "limit": limit, "shard": shard,
        "max_errors": max_errors, "ordered": ordered, "resume": resume, "retry_errors": retry_errors,
        "overwrite": overwrite}
    return run_job(_native.run_rag, data, task, model, output, job, engine, progress)
