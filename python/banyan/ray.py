"""Jobs on many machines, with Ray.

>>> import banyan.ray
>>> banyan.ray.ask("documents.parquet", "answers.parquet", questions="Who signed it?", folder="/shared/job-17")

The input is cut into blocks of about equal numbers of tokens; all questions of a document are in one block, so that what
they share is computed once. Every worker loads the model once and answers block after block. The folder, which all
workers must see, holds the state: after a crash of workers, the driver or the whole cluster the same call goes on where
the job stopped. No row is lost and none comes twice; the rows are those of one machine, bit for bit, in the input's
order, when the processors are of one kind.

In the middle of a pipeline, `ask_dataset` and its like turn a Ray Dataset of documents into one of answers, without a
folder.
"""
from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Callable, Mapping, Sequence, Union

from . import _native
from ._ask import ask_task
from ._block_job import BlockWorker, check_job_output, check_resume, plan, write_output
from ._columns import InputColumns, template_names
from ._embed import Encoder
from ._errors import Error
from ._examples import Questions, Schema, question_list
from ._extract import extract_task
from ._index import Index
from ._model import NO_ADAPTER, named_model
from ._names import canonical_fields, check_engine, check_names, native_names, own_options
from ._options import EngineOptions, Path, native_engine_options
from ._rag import rag_task
from ._ray_dataset import ask_dataset, extract_dataset, rag_dataset
from ._ray_pool import WorkerPool, Workers, as_kinds, backend_of, count_workers
from ._storage import plain_name
from ._tables import Data, as_table

__all__ = ["Summary", "Workers", "ask", "ask_dataset", "extract", "extract_dataset", "rag", "rag_dataset"]

_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".pq")
_MODEL_OPTIONS = ("device", "precision", "kv_type", "threads", "adapter", "adapters", "fast", "keep_weights", "yarn_factor")


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
    blocks_by_kind: dict[str, int]  # how many blocks each kind of worker answered

    def dataset(self) -> Any:
        """The output as a Ray Dataset, to go on with."""
        import ray.data
        ending = os.path.splitext(plain_name(self.output))[1]
        if ending in (".parquet", ".pq"):
            return ray.data.read_parquet(self.output)
        if ending in (".csv", ".tsv"):
            from pyarrow.csv import ParseOptions
            return ray.data.read_csv(self.output, parse_options=ParseOptions(delimiter="\t" if ending == ".tsv" else ","))
        return ray.data.read_json(self.output)


@dataclasses.dataclass
class Cluster:
    """Where a job runs, and how."""

    folder: Path
    workers: Union[int, Workers, Sequence[Workers], None]
    cpus_per_worker: float
    gpus_per_worker: float
    block_tokens: int | None
    overwrite: bool
    resume: bool
    progress: Callable[[int, int], object] | None


def _batches(dataset: Any) -> Any:
    """A Dataset as Arrow batches, so that its columns keep their types."""
    import pyarrow
    schema = getattr(dataset.schema(), "base_schema", None)
    if not isinstance(schema, pyarrow.Schema):  # rows of no table, or none at all
        return dataset.iter_rows()
    tables = (table.cast(schema) for table in dataset.iter_batches(batch_format="pyarrow"))
    return pyarrow.RecordBatchReader.from_batches(schema, (batch for table in tables for batch in table.to_batches()))


def run(task: str, data: Data, output: Path, options: Mapping[str, Any], cluster: Cluster, *, model: Path | None,
        model_options: Mapping[str, Any] | None, common: Sequence[Any], fields: Mapping[str, str] | str | None,
        engine: EngineOptions | None) -> Summary:
    """Plans the job, or finds it planned; answers what is left; joins the rows."""
    # Before workers are started.
    check_engine(engine)
    if cluster.resume:
        check_resume(cluster.folder)
    names = canonical_fields(task, fields) or {}
    loaded_with = dict(model_options or {})
    check_names(loaded_with, _MODEL_OPTIONS, "option", "model_options: ")
    kinds = as_kinds(cluster.workers, cluster.cpus_per_worker, cluster.gpus_per_worker)
    import ray
    import ray.data
    start = time.monotonic()
    target = os.fspath(output)
    if not plain_name(target).endswith(_ENDINGS):
        raise Error(f"{target}: expected .jsonl, .csv, .tsv or .parquet")
    is_dataset = isinstance(data, ray.data.Dataset)
    source: Any = data
    check_job_output(cluster.folder, data, target, cluster.overwrite)
    if not ray.is_initialized():
        ray.init()
    counts = count_workers(kinds, [node["Resources"] for node in ray.nodes() if node["Alive"]])
    flat = list(dict(_native.flat_columns(options["schema"]))) if options.get("flat") else []
    asked_of_all = any(options.get(name) for name in ("questions", "questions_text"))
    columns = InputColumns(task, names, flat=flat, needed=template_names(options), asked_of_all=asked_of_all)
    name, adapter = named_model(model, loaded_with.get("adapter"), task)
    loaded_with["adapter"] = adapter or NO_ADAPTER  # workers look for none
    devices = sorted({backend_of(loaded_with.get("device") or kind.its_device) for kind in kinds})
    rows = _batches(source) if is_dataset else as_table(data, task, names)
    job = plan(task, rows, cluster.folder, options, model=name,
               model_options={**loaded_with, "device": "+".join(devices)}, engine=engine, common=common, columns=columns,
               workers=sum(counts), block_tokens=cluster.block_tokens)
    manifest = job.manifest()
    assert manifest is not None
    total = len(manifest["blocks"])
    todo = [number for number in range(total) if not job.is_done(number)]
    todo.sort(key=lambda number: -manifest["blocks"][number]["tokens"])  # the largest must not come last
    done = total - len(todo)

    def started(kind: Workers) -> Any:
        loading = {"model": name, "threads": kind.threads or max(1, int(kind.cpus)), "device": kind.its_device, **loaded_with}
        placed = ray.remote(BlockWorker).options(num_cpus=kind.cpus, num_gpus=kind.gpus, resources=dict(kind.resources))
        return placed.remote(str(job.path), loading, task, dict(options), native_engine_options(engine), names, kind.name)

    def finished(_: int) -> None:
        nonlocal done
        done += 1
        if cluster.progress is not None:
            cluster.progress(done, total)
    if todo:
        WorkerPool(kinds, counts, started).run(todo, finished)
    facts = write_output(job, target, columns)
    return Summary(output=target, blocks_this_run=len(todo), seconds=time.monotonic() - start, **facts)


def ask(data: Data, output: Path, questions: Questions = None, *, folder: Path,
        model: Path | None = None, model_options: Mapping[str, Any] | None = None,
        workers: int | Workers | Sequence[Workers] | None = None, cpus_per_worker: float = 1, gpus_per_worker: float = 0,
        block_tokens: int | None = None, overwrite: bool = False, resume: bool = False, fields: Mapping[str, str] | str | None = None,
        engine: EngineOptions | None = None, progress: Callable[[int, int], object] | None = None,
        **options: Any) -> Summary:
    """`banyan.ask` on a Ray cluster.

    `data` may be a Ray Dataset too. `folder` is the job's, on a file system that all workers see. `options` are those
    of `banyan.ask` (max_new, instruction, temperature …), `model_options` those of `banyan.Model` (adapter, precision
    …). `workers` (None: as many as the cluster has room for) have `cpus_per_worker` and `gpus_per_worker` each; with
    GPUs the device is cuda. Workers of several kinds are a list of `Workers`. A block has about `block_tokens` tokens to
    compute (None: so many that every worker gets some dozens of blocks). An output that is there is kept unless
    `overwrite`, or unless this folder's job wrote it. A folder that has the job goes on with it; with `resume` it must
    have one. `progress` hears how many blocks are done, of how many.
    """
    task = ask_task(questions, own_options("ask", options))
    return run("ask", data, output, task,
               Cluster(folder, workers, cpus_per_worker, gpus_per_worker, block_tokens, overwrite, resume, progress), model=model,
               model_options=model_options, common=question_list(questions), fields=fields, engine=engine)


def extract(data: Data, output: Path, schema: Schema, *, folder: Path, model: Path | None = None,
            model_options: Mapping[str, Any] | None = None, workers: int | Workers | Sequence[Workers] | None = None,
            cpus_per_worker: float = 1, gpus_per_worker: float = 0, block_tokens: int | None = None,
            overwrite: bool = False, resume: bool = False, fields: Mapping[str, str] | str | None = None, engine: EngineOptions | None = None,
            progress: Callable[[int, int], object] | None = None, **options: Any) -> Summary:
    """`banyan.extract` on a Ray cluster; the parameters are those of `ask`."""
    task = native_names("extract", extract_task(schema, own_options("extract", options)))
    return run("extract", data, output, task,
               Cluster(folder, workers, cpus_per_worker, gpus_per_worker, block_tokens, overwrite, resume, progress), model=model,
               model_options=model_options, common=[], fields=fields, engine=engine)


def rag(data: Data, output: Path, *, folder: Path, model: Path | None = None,
        model_options: Mapping[str, Any] | None = None, workers: int | Workers | Sequence[Workers] | None = None,
        cpus_per_worker: float = 1, gpus_per_worker: float = 0, block_tokens: int | None = None, overwrite: bool = False,
        resume: bool = False, fields: Mapping[str, str] | str | None = None, engine: EngineOptions | None = None,
        progress: Callable[[int, int], object] | None = None, **options: Any) -> Summary:
    """`banyan.rag` on a Ray cluster; the parameters are those of `ask`. An index must be seen by all workers, and each
    of them loads encoder and reranker, if any, once."""
    named = {name: value.path if isinstance(value, (Encoder, Index)) else os.fspath(value) if isinstance(value, os.PathLike)
             else value for name, value in own_options("rag", options).items()}
    return run("rag", data, output, rag_task(named),
               Cluster(folder, workers, cpus_per_worker, gpus_per_worker, block_tokens, overwrite, resume, progress), model=model,
               model_options=model_options, common=[], fields=fields, engine=engine)
