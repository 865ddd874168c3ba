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
from ._tables import Data

_ESTIMATES = {"ask": _native.estimate_ask, "extract": _native.estimate_extract, "rag": _native.estimate_rag}


def show_prompts(data: Data, questions: Questions = None, *,
                 model: Model | Path | None = None, **options: Any) -> str:
    """What the model would read of the first record, or of the first `limit` ones, as ``ask --show-prompt`` prints
    it. `options` are those of `ask`: fields, instruction, template, few_shot, chat …

    >>> "Who steers the ferry?" in banyan.show_prompts([{"context": "Anna steers the ferry."}], "Who steers the ferry?")
    True
    """
    call = ask_call(data, questions, model=model, **options)
    with Folder() as folder, models.use(model) as loaded, call.native_task() as task:
        inputs = folder.inputs(call.data, call.columns(), call.job["limit"] or 1)
        return _native.show_prompts(loaded._native, task, {**native_job(call.job, inputs), "input_names": folder.names})


def _call(task: str, data: Data, questions: Any, schema: Any, options: dict[str, Any]) -> JobCall:
    check_names([task], _ESTIMATES, "task", "task: ")
    if schema is not None and task != "extract":
        raise Error("schema: expected with task='extract'")
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
    with the machine's `price_per_hour`, ``price``. `task="extract"` takes a `schema`. `options` are those of the task.
    Of rag's methods with several stages the first one is counted.

    >>> banyan.estimate([{"context": "Anna steers the ferry."}], "Who steers the ferry?")["rows"]
    1
    """
    call = _call(task, data, questions, schema, {**options, "model": model, "engine": engine})
    check_engine(engine)
    if price_per_hour is not None and not price_per_hour >= 0:
        raise Error(f"price_per_hour: expected a number from 0 on, found {price_per_hour}")
    with Folder() as folder, models.use(model, task) as loaded, call.native_task() as native:
        inputs = folder.inputs(call.data, call.columns(), call.job["limit"])
        found: dict[str, Any] = json.loads(_ESTIMATES[task](
            loaded._native, native_engine_options(engine), native,
            {**native_job(call.job, inputs), "input_names": folder.names}))
    found["memory_bytes"] = found["weight_bytes"] + found["kv_bytes"]
    if price_per_hour is not None:
        found["price"] = found["expected_seconds"] / 3600.0 * price_per_hour
    return found
