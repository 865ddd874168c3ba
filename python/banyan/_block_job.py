"""A job in blocks: planned, answered block after block by whoever comes, written as one output. `banyan.ray` has the
workers."""
from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import tempfile
from typing import Any, Callable, Mapping, Sequence

from . import _native
from ._errors import Error
from ._job_folder import JobFolder, write_file
from ._jobs import rag_models
from ._model import Model, find_model
from ._plan import Cost, plan_blocks
from ._records import read_records
from ._rows import Data, as_paths, is_parquet, write_parquet

_TASKS: dict[str, tuple[Callable[..., str], str]] = {
    "ask": (_native.run_ask, "context"), "extract": (_native.run_extract, "text"), "rag": (_native.run_rag, "question")}


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
        if task == "rag":  # loaded once, for as long as the worker lives
            self._retrieval = rag_models(self.options, self.model.threads)
            self.options = self._retrieval.__enter__()

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


def write_output(folder: JobFolder, output: str) -> dict[str, Any]:
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
         workers: int = 1, block_tokens: int | None = None) -> JobFolder:
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
