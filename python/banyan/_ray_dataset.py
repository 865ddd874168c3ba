"""Questions in the middle of a pipeline of Ray Data: a Dataset of documents in, a Dataset of answers out, in batches.
Nothing is kept in a folder: a batch whose worker died is answered again, by Ray."""
from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

from . import _native
from ._ask import ask
from ._columns import InputColumns, template_names
from ._embed import Encoder
from ._errors import Error
from ._examples import Questions, Schema, json_text
from ._extract import extract
from ._index import Index
from ._model import NO_ADAPTER, Model, named_model
from ._names import canonical_fields, check_engine, own_options
from ._options import EngineOptions, Path
from ._rag import rag
from ._ray_pool import device_with

_CALLS: dict[str, Callable[..., Any]] = {"ask": ask, "extract": extract, "rag": rag}


class BatchWorker:
    """An actor of Ray Data: a model, and the batches that it answers one after another."""

    def __init__(self, task: str, model: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.task, self.options = task, dict(options)
        self.model = Model(**model)

    def __call__(self, batch: Any) -> Any:
        """Rows of a batch, as Arrow: the task's columns, of fixed types, then the input's."""
        named = (self.options.get("fields") or {}).get("id", "id")
        found = _CALLS[self.task](batch, model=self.model, progress=False, **self.options).to_arrow()
        if named not in batch.column_names:
            # Places in a batch say nothing of a dataset.
            import pyarrow
            nulls = pyarrow.nulls(found.num_rows, found.schema.field("id").type)
            found = found.set_column(found.column_names.index("id"), found.schema.field("id"), nulls)
        return found


def _check_columns(task: str, dataset: Any, options: Mapping[str, Any]) -> None:
    """Before there are workers, where Ray knows the columns without computing them; else the first batch says it."""
    schema = options.get("schema")
    flat = dict(_native.flat_columns(json_text(schema) or "")) if task == "extract" else {}  # refuses what is no schema
    known = dataset.schema(fetch_if_missing=False)
    if known is not None:
        InputColumns(task, options["fields"], flat=list(flat) if options.get("flat") else (), needed=template_names(options),
                     asked_of_all=bool(options.get("questions"))).check(list(known.names))


def _mapped(task: str, dataset: Any, options: Mapping[str, Any], *, model: Path | None,
            model_options: Mapping[str, Any] | None, workers: int, cpus_per_worker: float, gpus_per_worker: float,
            batch_documents: int, in_flight_bytes: int | None, engine: EngineOptions | None) -> Any:
    check_engine(engine)
    if batch_documents < 1 or workers < 1:
        raise Error(f"batch_documents, workers: expected numbers from 1 on, found {batch_documents} and {workers}")
    import ray.data
    if not isinstance(dataset, ray.data.Dataset):
        raise Error(f"expected a Ray Dataset, found {type(dataset).__name__}; banyan.ray.{task} takes other inputs")
    _check_columns(task, dataset, options)
    name, adapter = named_model(model, (model_options or {}).get("adapter"), task)
    loading = {"threads": max(1, int(cpus_per_worker)),
               "device": device_with(gpus_per_worker), **(model_options or {}), "model": name,
               "adapter": adapter or NO_ADAPTER}
    if in_flight_bytes is not None:
        execution = dataset.context.execution_options
        execution.resource_limits = execution.resource_limits.copy(object_store_memory=in_flight_bytes)
    # One batch is computed and one waits: what lies in the object store does not grow with the input.
    return dataset.map_batches(
        BatchWorker, batch_format="pyarrow", batch_size=batch_documents, zero_copy_batch=True, num_cpus=cpus_per_worker,
        num_gpus=gpus_per_worker or None,
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
        fn_constructor_kwargs={"task": task, "model": loading, "options": {**options, "engine": engine}})


def ask_dataset(dataset: Any, questions: Questions = None, *, model: Path | None = None,
                model_options: Mapping[str, Any] | None = None, workers: int = 1, cpus_per_worker: float = 1,
                gpus_per_worker: float = 0, batch_documents: int = 256, in_flight_bytes: int | None = None,
                fields: Mapping[str, str] | str | None = None, engine: EngineOptions | None = None, **options: Any) -> Any:
    """A Ray Dataset of documents as one of answers, to be used in a pipeline.

    >>> pages = ray.data.read_parquet("pages/").filter(expr="lang == 'en'")
    >>> banyan.ray.ask_dataset(pages, "Who signed it?", model="smollm2-135m-instruct", workers=8).write_parquet("answers/")

    It is lazy, as Ray's own steps are. `workers` actors load the model once and answer `batch_documents` rows at a time:
    rows with the same text share it within a batch. `in_flight_bytes` bounds what the pipeline keeps in the object store
    (None: Ray's own bound). Columns have the types of docs/python.md; a dataset without a column `id` gives null ids.
    `options` are those of `banyan.ask`.
    """
    own = {**own_options("ask", options), "fields": canonical_fields("ask", fields), "questions": questions}
    return _mapped("ask", dataset, own, model=model, model_options=model_options, workers=workers,
                   cpus_per_worker=cpus_per_worker, gpus_per_worker=gpus_per_worker, batch_documents=batch_documents,
                   in_flight_bytes=in_flight_bytes, engine=engine)


def extract_dataset(dataset: Any, schema: Schema, *, model: Path | None = None,
                    model_options: Mapping[str, Any] | None = None, workers: int = 1, cpus_per_worker: float = 1,
                    gpus_per_worker: float = 0, batch_documents: int = 256, in_flight_bytes: int | None = None,
                    fields: Mapping[str, str] | str | None = None, engine: EngineOptions | None = None,
                    **options: Any) -> Any:
    """The same of `banyan.extract`."""
    own = {**own_options("extract", options), "fields": canonical_fields("extract", fields), "schema": schema}
    return _mapped("extract", dataset, own, model=model, model_options=model_options, workers=workers,
                   cpus_per_worker=cpus_per_worker, gpus_per_worker=gpus_per_worker, batch_documents=batch_documents,
                   in_flight_bytes=in_flight_bytes, engine=engine)


def rag_dataset(dataset: Any, *, model: Path | None = None, model_options: Mapping[str, Any] | None = None,
                workers: int = 1, cpus_per_worker: float = 1, gpus_per_worker: float = 0, batch_documents: int = 256,
                in_flight_bytes: int | None = None, fields: Mapping[str, str] | str | None = None,
                engine: EngineOptions | None = None, **options: Any) -> Any:
    """The same of `banyan.rag`. An index must be seen by all workers."""
    named = {name: value.path if isinstance(value, (Encoder, Index)) else os.fspath(value) if isinstance(value, os.PathLike)
             else value for name, value in own_options("rag", options).items()}
    return _mapped("rag", dataset, {**named, "fields": canonical_fields("rag", fields)}, model=model,
                   model_options=model_options, workers=workers, cpus_per_worker=cpus_per_worker,
                   gpus_per_worker=gpus_per_worker, batch_documents=batch_documents, in_flight_bytes=in_flight_bytes,
                   engine=engine)
