"""Jobs on many machines, with Ray Data.

>>> import banyan.ray
>>> banyan.ray.ask("documents.parquet", "answers.parquet", questions="Who signed it?", folder="/shared/job-17")

The input is cut into blocks of about equal numbers of tokens; all questions of a document are in one block, so that what
they share is computed once. Every worker loads the model once and answers block after block. The folder, which all
workers must see, holds the state: after a crash of workers, the driver or the whole cluster the same call goes on where
the job stopped. No row is lost and none comes twice; the rows are those of one machine, bit for bit, in the input's
order, when the processors are of one kind.
"""
from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Callable, Mapping, Sequence

from . import _native
from ._block_job import BlockWorker, plan, write_output
from ._embed import Encoder, Index
from ._errors import Error
from ._jobs import ask_task, extract_task, rag_task
from ._model import find_model
from ._options import EngineOptions, native_engine_options
from ._rows import Data
from ._run import Question

@dataclasses.dataclass
class Summary:
    """What a job did, all of its runs together."""

    output: str
    records: int
    rows: int
    error_rows: int
    blocks: int
    blocks_this_run: int
    prompt_tokens: int
    prefilled_tokens: int
    generated_tokens: int
    compute_seconds: float  # of all workers
    seconds: float  # of this run


def _check_names(task: str, options: Mapping[str, Any], engine: Mapping[str, Any] | None) -> None:
    """Here, before workers are started."""
    for kind, given in ((task, options), ("engine", engine or {})):
        known = _native.option_names(kind)
        for name in given:
            if name not in known:
                raise Error(f"{name}: there is no such option")


def run(task: str, data: Data, output: str | os.PathLike[str], folder: str | os.PathLike[str],
        options: Mapping[str, Any], *, model: str | os.PathLike[str] | None, model_options: Mapping[str, Any],
        common: Sequence[Any], fields: Mapping[str, str] | None, engine: EngineOptions | None, workers: int | None,
        cpus_per_worker: float, gpus_per_worker: float, block_tokens: int | None,
        progress: Callable[[int, int], object] | None) -> Summary:
    """Plans the job, or finds it planned; answers what is left; joins the rows."""
    import ray
    import ray.data
    start = time.monotonic()
    target = os.fspath(output)
    _check_names(task, options, engine)
    if not target.endswith((".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".pq")):
        raise Error(f"{target}: expected .jsonl, .csv, .tsv or .parquet")
    if not ray.is_initialized():
        ray.init()
    if workers is None:
        found = ray.cluster_resources()
        by_gpu = found.get("GPU", 0) / gpus_per_worker if gpus_per_worker else float("inf")
        workers = max(1, int(min(found.get("CPU", 1) / max(cpus_per_worker, 1e-9), by_gpu)))
    if isinstance(data, ray.data.Dataset):
        data = data.iter_rows()
    name = find_model(model)
    job = plan(task, data, folder, options, model=name, model_options=model_options, common=common, fields=fields,
               workers=workers, block_tokens=block_tokens)
    manifest = job.manifest()
    assert manifest is not None
    total = len(manifest["blocks"])
    todo = [number for number in range(total) if not job.is_done(number)]
    todo.sort(key=lambda number: -manifest["blocks"][number]["tokens"])  # the largest must not come last
    if todo:
        loading = {"model": name, "threads": max(1, int(cpus_per_worker)),
                   "device": "cuda" if gpus_per_worker else "cpu", **model_options}
        blocks = ray.data.from_items([{"block": number} for number in todo], override_num_blocks=len(todo))
        answered = blocks.map_batches(
            BlockWorker, batch_size=1, compute=ray.data.ActorPoolStrategy(size=min(workers, len(todo))),
            num_cpus=cpus_per_worker, num_gpus=gpus_per_worker or None,
            fn_constructor_kwargs={"folder": str(job.path), "model": loading, "task": task, "options": dict(options),
                                   "engine": native_engine_options(engine), "fields": dict(fields or {})})
        done = total - len(todo)
        for _ in answered.iter_rows():
            done += 1
            if progress is not None:
                progress(done, total)
    facts = write_output(job, target)
    return Summary(output=target, blocks_this_run=len(todo), seconds=time.monotonic() - start, **facts)


def ask(data: Data, output: str | os.PathLike[str], questions: Question | Sequence[Question] | None = None, *,
        folder: str | os.PathLike[str], model: str | os.PathLike[str] | None = None,
        model_options: Mapping[str, Any] | None = None, workers: int | None = None, cpus_per_worker: float = 1,
        gpus_per_worker: float = 0, block_tokens: int | None = None, fields: Mapping[str, str] | None = None,
        engine: EngineOptions | None = None, progress: Callable[[int, int], object] | None = None,
        **options: Any) -> Summary:
    """`banyan.ask` on a Ray cluster.

    `data` may be a Ray Dataset too. `folder` is the job's, on a file system that all workers see. `options` are those
    of `banyan.ask` (max_new, instruction, temperature …), `model_options` those of `banyan.Model` (adapter, precision
    …). `workers` (None: as many as the cluster has room for) have `cpus_per_worker` and `gpus_per_worker` each; with
    GPUs the device is cuda. A block has about `block_tokens` tokens to compute (None: so many that every worker gets
    some dozens of blocks). `progress` hears how many blocks are done, of how many.
    """
    listed = [] if questions is None else [questions] if isinstance(questions, (str, Mapping)) else list(questions)
    return run("ask", data, output, folder, ask_task(questions, options), model=model, model_options=model_options or {}, common=listed,
               fields=fields, engine=engine, workers=workers, cpus_per_worker=cpus_per_worker,
               gpus_per_worker=gpus_per_worker, block_tokens=block_tokens, progress=progress)


def extract(data: Data, output: str | os.PathLike[str], schema: str | Mapping[str, Any], *,
            folder: str | os.PathLike[str], model: str | os.PathLike[str] | None = None,
            model_options: Mapping[str, Any] | None = None, workers: int | None = None, cpus_per_worker: float = 1,
            gpus_per_worker: float = 0, block_tokens: int | None = None, fields: Mapping[str, str] | None = None,
            engine: EngineOptions | None = None, progress: Callable[[int, int], object] | None = None,
            **options: Any) -> Summary:
    """`banyan.extract` on a Ray cluster; the parameters are those of `ask`."""
    return run("extract", data, output, folder, extract_task(schema, options), model=model,
               model_options=model_options or {}, common=[], fields=fields, engine=engine, workers=workers,
               cpus_per_worker=cpus_per_worker, gpus_per_worker=gpus_per_worker, block_tokens=block_tokens,
               progress=progress)


def rag(data: Data, output: str | os.PathLike[str], *, folder: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None, model_options: Mapping[str, Any] | None = None,
        workers: int | None = None, cpus_per_worker: float = 1, gpus_per_worker: float = 0,
        block_tokens: int | None = None, fields: Mapping[str, str] | None = None,
        engine: EngineOptions | None = None, progress: Callable[[int, int], object] | None = None,
        **options: Any) -> Summary:
    """`banyan.rag` on a Ray cluster; the parameters are those of `ask`. An index must be seen by all workers, and each
    of them loads encoder and reranker, if any, once."""
    named = {name: value.path if isinstance(value, (Encoder, Index)) else os.fspath(value) if isinstance(value, os.PathLike)
             else value for name, value in options.items()}
    return run("rag", data, output, folder, rag_task(named), model=model, model_options=model_options or {}, common=[],
               fields=fields, engine=engine, workers=workers, cpus_per_worker=cpus_per_worker,
               gpus_per_worker=gpus_per_worker, block_tokens=block_tokens, progress=progress)
