"""What a job would do, before it runs: prompts to look at, rows, tokens, seconds, memory and price."""
from __future__ import annotations

import json
from typing import Any

from . import _native
from ._ask import ask_call
from ._errors import Error
from ._examples import Questions, Schema
from ._extract import extract_call
from ._model import Model
from ._names import check_engine, check_names
from ._options import EngineOptions, Path, Task, native_engine_options
from ._rag import rag_call
from ._rows import Folder
from ._run import JobCall, native_job
from ._shared import models
from ._table import table_call
from ._tables import Data

_ESTIMATES = {"ask": _native.estimate_ask, "extract": _native.estimate_extract, "rag": _native.estimate_rag}
_OF_TABLES = ("map", "filter", "rank", "group")


def show_prompts(data: Data, questions: Questions = None, *, task: Task = "ask",
                 model: Model | Path | None = None, **options: Any) -> str:
    """What the model would read of the first record, or of the first `limit` ones, as ``ask --show-prompt`` prints
    it. `options` are those of `ask`: fields, instruction, template, few_shot, chat … With `task` "map", "filter",
    "rank" or "group", `questions` is its prompt and `options` are its own.

    >>> "Who steers the ferry?" in banyan.show_prompts([{"context": "Anna steers the ferry."}], "Who steers the ferry?")
    True
    """
    check_names([task], ("ask", *_OF_TABLES), "task", "task: ")
    call = _call(task, data, questions, None, {**options, "model": model})
    show = _native.show_prompts if task == "ask" else _native.show_table_prompts
    with Folder() as folder, models.use(model) as loaded, call.native_task() as native:
        inputs = folder.inputs(call.data, call.columns(), call.job["limit"] or 1)
        return show(loaded._native, native, {**native_job(call.job, inputs), "input_names": folder.names})


def _call(task: str, data: Data, questions: Any, schema: Any, options: dict[str, Any]) -> JobCall:
    check_names([task], [*_ESTIMATES, *_OF_TABLES], "task", "task: ")
    if schema is not None and task != "extract":
        raise Error("schema: expected with task='extract'")
    if task in _OF_TABLES:
        return table_call(task, data, questions, **options)
    if questions is not None and task != "ask":
        raise Error("questions: expected with task='ask'")
    if task == "extract":
        if schema is None:
            raise Error("task='extract': expected a schema")
        return extract_call(data, schema, **options)
    return ask_call(data, questions, **options) if task == "ask" else rag_call(data, **options)


def estimate(data: Data, questions: Questions = None, *, task: Task = "ask",
             schema: Schema | None = None, model: Model | Path | None = None,
             engine: EngineOptions | None = None, price_per_hour: float | None = None, **options: Any) -> dict[str, Any]:
    """What `ask`, or the task that is named, would do and about how long it would take, as ``--dry-run`` says it: the
    input is read, and its first records are answered to measure the machine. Nothing is written.

    Among the numbers: ``rows``, ``prompt_tokens``, ``expected_seconds``, ``memory_bytes`` (weights and KV cache) and,
    with the machine's `price_per_hour`, ``price``. `task="extract"` takes a `schema`; for "map", "filter",
    "rank" and "group" `questions` is the prompt, and ``plan`` says what the order of columns and rows shares. `options`
    are those of the task. Of rag's methods with several stages the first one is counted.

    >>> banyan.estimate([{"context": "Anna steers the ferry."}], "Who steers the ferry?")["rows"]
    1
    """
    call = _call(task, data, questions, schema, {**options, "model": model, "engine": engine})
    check_engine(engine)
    if price_per_hour is not None and not price_per_hour >= 0:
        raise Error(f"price_per_hour: expected a number from 0 on, found {price_per_hour}")
    plan = None
    with Folder() as folder, models.use(model, call.reader) as loaded, call.native_task() as native:
        inputs = folder.inputs(call.data, call.columns(), call.job["limit"])
        reads = {**native_job(call.job, inputs), "input_names": folder.names}
        if task in _ESTIMATES:
            text = _ESTIMATES[task](loaded._native, native_engine_options(engine), native, reads)
        else:
            text, plan = _native.estimate_table(loaded._native, native_engine_options(engine), native, reads)
    found: dict[str, Any] = json.loads(text)
    if plan is not None:
        found["plan"] = plan
    found["memory_bytes"] = found["weight_bytes"] + found["kv_bytes"]
    if price_per_hour is not None:
        found["price"] = found["expected_seconds"] / 3600.0 * price_per_hour
    return found
