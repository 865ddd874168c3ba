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

import csv
import dataclasses
import io
import json
import os
import pathlib
import tempfile
import time
from typing import Any, Callable, Mapping, Sequence

from . import _native
from ._blocks import Cost, JobFolder, plan_blocks, read_records, write_file
from ._errors import Error
from ._jobs import Question, examples_text, json_text, question_options, text_list
from ._model import Model, find_model
from ._rows import Data, as_paths, is_parquet, write_parquet

_TASKS: dict[str, tuple[Callable[..., str], str]] = {
    "ask": (_native.run_ask, "context"), "extract": (_native.run_extract, "text"), "rag": (_native.run_rag, "question")}


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


class BlockWorker:
    """What a worker of the pool is: a model, and the blocks that it answers one after another."""

    def __init__(self, folder: str, model: Mapping[str, Any], task: str, options: Mapping[str, Any],
                 engine: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        self.folder = JobFolder(folder)
        self.task, self.options, self.engine, self.fields = task, dict(options), dict(engine), dict(fields)
        manifest = self.folder.manifest()
        if manifest is None:
            raise Error(f"{folder}: the job's manifest is not there; all workers must see the folder", "not_found")
        self.blocks = manifest["blocks"]
        self.model = Model(**model)
        self._check_model()

    def _check_model(self) -> None:
        """All workers, in all runs, must have the same model."""
        path = self.folder.path / "model.json"
        mine: dict[str, Any] = {"fingerprint": self.model.fingerprint, "identity": self.model.identity}
        if not path.exists():
            write_file(path, json.dumps(mine).encode())
        first = json.loads(path.read_text())
        if first["fingerprint"] != mine["fingerprint"]:
            names = [name for name in first["identity"] if first["identity"][name] != mine["identity"].get(name)]
            raise Error(f"{self.folder.path}: its rows were made with another model; different: {', '.join(names)}")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        numbers = [int(number) for number in batch["block"]]
        for number in numbers:
            if not self.folder.is_done(number):  # a worker that died may have finished it
                self.answer(number)
        return {"block": batch["block"]}

    def answer(self, number: int) -> None:
        block = self.blocks[number]
        options = dict(self.options)
        if block["own_questions"]:
            options.pop("questions", None), options.pop("questions_text", None)
        with tempfile.TemporaryDirectory(prefix="banyan-block-") as folder:
            output = pathlib.Path(folder) / "rows.jsonl"
            job = {"inputs": [str(self.folder.block(number))], "output": str(output), "ordered": True,
                   "fields": self.fields}
            receipt = json.loads(_TASKS[self.task][0](self.model._native, self.engine, options, job, None, None))
            rows = output.read_bytes().splitlines()
        facts = {name: receipt[name] for name in ("prompt_tokens", "prefilled_tokens", "generated_tokens", "error_rows")}
        self.folder.write_part(number, block["lines"], rows, {**facts, "seconds": receipt["seconds"]["total"]})


def _token_counter(path: str) -> Callable[[str], int] | None:
    """Counts the tokens of texts without loading the weights."""
    tokenizer = _native.Tokenizer(_native.path_of_model(path))
    return lambda text: len(tokenizer.encode(text, False, False))


def _input_facts(data: Data) -> list[list[Any]]:
    paths = as_paths(data)
    return [] if paths is None else [[path, os.path.getsize(path)] for path in paths if os.path.exists(path)]


def _write_output(folder: JobFolder, output: str) -> dict[str, Any]:
    """All rows in the output's format, whole or not at all."""
    if output.endswith((".jsonl", ".ndjson", ".json")):
        part = pathlib.Path(f"{output}.{os.getpid()}.part")
        with open(part, "wb") as file:
            facts = folder.join(file.write)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, output)
        return facts
    rows: list[dict[str, Any]] = []
    facts = folder.join(lambda text: rows.extend(json.loads(line) for line in text.splitlines()))
    if is_parquet(output):
        write_parquet(rows, output)
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if output.endswith(".tsv") else ",", lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow(["" if row.get(name) is None else row[name] if isinstance(row[name], str)
                             else json.dumps(row[name], ensure_ascii=False) for name in names])
        write_file(pathlib.Path(output), text.getvalue().encode("utf-8", "surrogatepass"))
    return facts


def plan(task: str, data: Data, folder: str | os.PathLike[str], options: Mapping[str, Any], *, model: str,
         model_options: Mapping[str, Any], common: Sequence[Any] = (), fields: Mapping[str, str] | None = None,
         workers: int = 1, block_tokens: int = 200_000) -> JobFolder:
    """Cuts the input into blocks, unless the folder has them already; another job's folder is refused."""
    job = JobFolder(folder)
    # Threads and the like change no answer; what does is checked by the model's fingerprint.
    facts = {"task": task, "options": dict(options), "fields": dict(fields or {}), "input": _input_facts(data),
             "precision": model_options.get("precision", "mixed")}
    facts = json.loads(json.dumps(facts))
    found = job.manifest()
    if found is not None:
        differences = [name for name in facts if found["job"].get(name) != facts[name]]
        if differences:
            raise Error(f"{job.path}: holds another job; different: {', '.join(differences)}. Give another folder, or "
                        "remove it to begin anew")
        return job
    document_field = _TASKS[task][1]
    names = dict(fields or {})
    cost = Cost(_token_counter(find_model(model)), common, int(options.get("max_new") or 64))
    records = read_records(data, names, document_field)
    blocks, count = plan_blocks(records, cost, common, names.get(document_field, document_field), block_tokens, workers)
    job.create(facts, blocks, count)
    return job


def run(task: str, data: Data, output: str | os.PathLike[str], folder: str | os.PathLike[str],
        options: Mapping[str, Any], *, model: str | os.PathLike[str] | None, model_options: Mapping[str, Any],
        common: Sequence[Any], fields: Mapping[str, str] | None, engine: Mapping[str, Any] | None, workers: int | None,
        cpus_per_worker: float, gpus_per_worker: float, block_tokens: int,
        progress: Callable[[int, int], object] | None) -> Summary:
    """Plans the job, or finds it planned; answers what is left; joins the rows."""
    import ray
    import ray.data
    start = time.monotonic()
    target = os.fspath(output)
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
                                   "engine": dict(engine or {}), "fields": dict(fields or {})})
        done = total - len(todo)
        for _ in answered.iter_rows():
            done += 1
            if progress is not None:
                progress(done, total)
    facts = _write_output(job, target)
    return Summary(output=target, blocks_this_run=len(todo), seconds=time.monotonic() - start, **facts)


def ask(data: Data, output: str | os.PathLike[str], questions: Question | Sequence[Question] | None = None, *,
        folder: str | os.PathLike[str], model: str | os.PathLike[str] | None = None,
        model_options: Mapping[str, Any] | None = None, workers: int | None = None, cpus_per_worker: float = 1,
        gpus_per_worker: float = 0, block_tokens: int = 200_000, fields: Mapping[str, str] | None = None,
        engine: Mapping[str, Any] | None = None, progress: Callable[[int, int], object] | None = None,
        **options: Any) -> Summary:
    """`banyan.ask` on a Ray cluster.

    `data` may be a Ray Dataset too. `folder` is the job's, on a file system that all workers see. `options` are those
    of `banyan.ask` (max_new, instruction, temperature …), `model_options` those of `banyan.Model` (adapter, precision
    …). `workers` (None: as many as the cluster has room for) have `cpus_per_worker` and `gpus_per_worker` each; with
    GPUs the device is cuda. A block has about `block_tokens` tokens to compute. `progress` hears how many blocks are
    done, of how many.
    """
    listed = [] if questions is None else [questions] if isinstance(questions, (str, Mapping)) else list(questions)
    task = {**options, **question_options(questions)}
    for name, reader in (("stop", text_list), ("json_schema", json_text), ("few_shot", examples_text)):
        if task.get(name) is not None:
            task[name] = reader(task[name])
    return run("ask", data, output, folder, task, model=model, model_options=model_options or {}, common=listed,
               fields=fields, engine=engine, workers=workers, cpus_per_worker=cpus_per_worker,
               gpus_per_worker=gpus_per_worker, block_tokens=block_tokens, progress=progress)


def extract(data: Data, output: str | os.PathLike[str], schema: str | Mapping[str, Any], *,
            folder: str | os.PathLike[str], model: str | os.PathLike[str] | None = None,
            model_options: Mapping[str, Any] | None = None, workers: int | None = None, cpus_per_worker: float = 1,
            gpus_per_worker: float = 0, block_tokens: int = 200_000, fields: Mapping[str, str] | None = None,
            engine: Mapping[str, Any] | None = None, progress: Callable[[int, int], object] | None = None,
            **options: Any) -> Summary:
    """`banyan.extract` on a Ray cluster; the parameters are those of `ask`."""
    return run("extract", data, output, folder, {**options, "schema": json_text(schema)}, model=model,
               model_options=model_options or {}, common=[], fields=fields, engine=engine, workers=workers,
               cpus_per_worker=cpus_per_worker, gpus_per_worker=gpus_per_worker, block_tokens=block_tokens,
               progress=progress)


def rag(data: Data, output: str | os.PathLike[str], *, folder: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None, model_options: Mapping[str, Any] | None = None,
        workers: int | None = None, cpus_per_worker: float = 1, gpus_per_worker: float = 0,
        block_tokens: int = 200_000, fields: Mapping[str, str] | None = None,
        engine: Mapping[str, Any] | None = None, progress: Callable[[int, int], object] | None = None,
        **options: Any) -> Summary:
    """`banyan.rag` on a Ray cluster; the parameters are those of `ask`. An index must be seen by all workers."""
    return run("rag", data, output, folder, options, model=model, model_options=model_options or {}, common=[],
               fields=fields, engine=engine, workers=workers, cpus_per_worker=cpus_per_worker,
               gpus_per_worker=gpus_per_worker, block_tokens=block_tokens, progress=progress)
