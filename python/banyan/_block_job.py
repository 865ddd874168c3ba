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

from . import _native, _storage
from ._digest import file_digest, model_digests, write_file
from ._index import Index
from ._errors import Error, told
from ._job_folder import JobFolder
from ._model import NO_ADAPTER, Model, bring
from ._rag import rag_models
from ._plan import Cost, plan_blocks
from ._outputs import check_output
from ._reads import input_files
from ._records import InputHash, read_records, read_rows
from ._columns import InputColumns
from ._rows import write_parquet
from ._schema import Results
from ._tables import Data, is_parquet

_TASKS: dict[str, tuple[Callable[..., str], str]] = {
    "ask": (_native.run_ask, "context"), "extract": (_native.run_extract, "text"), "rag": (_native.run_rag, "question")}


class BlockWorker:
    """What a worker of the pool is: a model, and the blocks that it answers one after another."""

    def __init__(self, folder: str, model: Mapping[str, Any], task: str, options: Mapping[str, Any],
                 engine: Mapping[str, Any], fields: Mapping[str, str], kind: str = "") -> None:
        self.kind = kind  # of the worker: parts say who answered them
        self.folder = JobFolder(folder)
        self.task, self.options, self.engine = task, dict(options), dict(engine)
        self.fields = {name: name for name in fields}  # a block's rows have our names already
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
        # What one device computes is compared with what it computed; devices differ.
        path = self.folder.path / f"model-{self.model.backend.split(' x ')[-1].split()[0]}.json"
        mine: dict[str, Any] = {"fingerprint": self.model.fingerprint, "identity": self.model.identity}
        if not path.exists():
            write_file(path, json.dumps(mine).encode())
        first = json.loads(path.read_text())
        if first["fingerprint"] != mine["fingerprint"]:
            names = [name for name in first["identity"] if first["identity"][name] != mine["identity"].get(name)]
            raise Error(f"{self.folder.path}: its rows were made with another model; different: {', '.join(names)}")

    def ready(self) -> str:
        return self.kind

    def work(self, number: int) -> int:
        """Answers a block, unless a worker that died has finished it."""
        if not self.folder.is_done(number):
            self.answer(number)
        return number

    def answer(self, number: int) -> None:
        block = self.blocks[number]
        options = dict(self.options)
        if block["own_questions"]:
            options.pop("questions", None), options.pop("questions_text", None)
        with tempfile.TemporaryDirectory(prefix="banyan-block-") as folder:
            output = pathlib.Path(folder) / "rows.jsonl"
            name = str(self.folder.block(number))
            # The name is the same: what makes rows that say themselves what is wrong be understood.
            job = {"inputs": [name], "output": str(output), "ordered": True, "fields": self.fields,
                   "input_names": {name: name}}
            receipt = json.loads(_TASKS[self.task][0](self.model._native, self.engine, options, job, None, None, None))
            rows = output.read_bytes().splitlines()
        facts = {name: receipt[name] for name in ("prompt_tokens", "prefilled_tokens", "generated_tokens", "error_rows")}
        self.folder.write_part(number, self.folder.lines(number), rows,
                               {**facts, "seconds": receipt["seconds"]["total"], "kind": self.kind})


def _token_counter(path: str) -> Callable[[str], int] | None:
    """Counts the tokens of texts without loading the weights."""
    bring(path)
    tokenizer = _native.Tokenizer(_native.path_of_model(path))
    return lambda text: len(tokenizer.encode(text, False, False))


def _model_facts(model: str, model_options: Mapping[str, Any]) -> dict[str, Any]:
    """What the model is, by the content of its files; their place does not count. Raises an Error when it is not
    there. Threads and the like change no answer."""
    facts: dict[str, Any] = {"files": model_digests(model)}
    for name in ("precision", "kv_type", "fast", "yarn_factor", "device"):
        if model_options.get(name) is not None:
            facts[name] = model_options[name]
    given = {"": model_options.get("adapter"), **dict(model_options.get("adapters") or {})}
    adapters = {name: _native.path_of_adapter(os.fspath(folder)) for name, folder in given.items() if folder not in (None, NO_ADAPTER)}
    if adapters:
        facts["adapters"] = {name: sorted(file_digest(str(file)) for file in pathlib.Path(folder).iterdir()
                                          if file.is_file()) for name, folder in adapters.items()}
    return facts


def _retrieval_facts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of rag: what its index and its other models are, by their content."""
    facts: dict[str, Any] = {name: model_digests(os.fspath(options[name])) for name in ("encoder", "reranker")
                             if options.get(name) is not None}
    if options.get("index") is not None:
        index = Index(options["index"])
        index._tell()
        facts["index"] = index.fingerprint
    return facts


def _engine_facts(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Of the engine's options those that change answers."""
    facts = {name: engine[name] for name in ("kv_bits",) if engine.get(name)}
    if engine.get("strategy") in ("sequential", "no-attention"):
        facts["strategy"] = engine["strategy"]
    return facts


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def _difference(name: str, was: Any, now: Any) -> str:
    """One part of the job that is not what it was, with the members that differ."""
    if not isinstance(was, dict) or not isinstance(now, dict):
        return f"{name} (was {_shown(was)}, is {_shown(now)})"
    parts = [f"{key}: was {_shown(was.get(key))}, is {_shown(now.get(key))}"
             for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key)]
    return f"{name} ({'; '.join(parts)})"


class _Written:
    """Which output a folder's job wrote, so that only that one is written again without being asked."""

    def __init__(self, folder: JobFolder) -> None:
        self.path = folder.path / "output.json"

    @staticmethod
    def _facts(output: str) -> dict[str, Any]:
        if _storage.is_url(output):  # not read again for a hash
            return {"output": output, "bytes": _storage.size(output)}
        return {"output": os.path.realpath(output), "sha256": file_digest(output)}

    def is_ours(self, output: str) -> bool:
        try:
            return bool(json.loads(self.path.read_text()) == self._facts(output))
        except (OSError, ValueError):
            return False

    def note(self, output: str) -> None:
        write_file(self.path, json.dumps(self._facts(output)).encode())


def check_job_output(folder: str | os.PathLike[str], data: Data, output: str, overwrite: bool) -> None:
    """Before anything is planned: as `check_output`, and what this folder's job wrote may be written again."""
    check_output(output, input_files(data), overwrite=overwrite, ours=_Written(JobFolder(folder)).is_ours(output))


def check_resume(folder: str | os.PathLike[str]) -> None:
    """Of a caller who wants to go on: there is something to go on with."""
    job = JobFolder(folder)
    if job.manifest() is None:
        raise Error(f"{job.path}: there is nothing to go on with: no job was planned in this folder; without resume=True it begins")


def write_output(folder: JobFolder, output: str, columns: InputColumns | None = None) -> dict[str, Any]:
    """All rows in the output's format, whole or not at all."""
    if _storage.is_url(output):
        with tempfile.TemporaryDirectory(prefix="banyan-output-") as here:
            local = os.path.join(here, _storage.name_of(output))
            facts = _write_rows(folder, local, columns)
            _storage.put(local, output)
    else:
        facts = _write_rows(folder, output, columns)
    _Written(folder).note(output)
    return facts


def _write_rows(folder: JobFolder, output: str, columns: InputColumns | None) -> dict[str, Any]:
    if output.endswith((".jsonl", ".ndjson", ".json")):
        part = pathlib.Path(f"{output}.{os.getpid()}.part")
        with open(part, "wb") as file:
            facts = folder.join(file.write)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, output)
        return facts
    rows: list[dict[str, Any]] = []
    facts = folder.join(lambda text: rows.extend(told(json.loads(line)) for line in text.splitlines()))
    if is_parquet(output):
        manifest = folder.manifest()
        assert manifest is not None
        options = manifest["job"]["options"]
        flat = dict(_native.flat_columns(options["schema"])) if options.get("flat") else None
        asked_of_all = any(options.get(name) for name in ("questions", "questions_text"))
        write_parquet(Results(manifest["job"]["task"], rows, columns, flat, asked_of_all), output)
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
         model_options: Mapping[str, Any], engine: Mapping[str, Any] | None = None, common: Sequence[Any] = (),
         columns: InputColumns | None = None, workers: int = 1, block_tokens: int | None = None) -> JobFolder:
    """Cuts the input into blocks, unless the folder has them already; `columns` keeps what is not read. A folder whose
    job has other options, another model or an input with other content is refused, with what differs."""
    job = JobFolder(folder)
    columns = InputColumns(task) if columns is None else columns
    names = columns.fields
    facts: dict[str, Any] = {"task": task, "options": dict(options), "fields": names,
                             "model": _model_facts(model, model_options), "engine": _engine_facts(engine or {}),
                             "retrieval": _retrieval_facts(options) if task == "rag" else {}}
    facts = json.loads(json.dumps(facts))
    found = job.manifest()
    content = InputHash()
    rows = content.of(read_rows(task, data, columns, options if task == "ask" else None))
    if found is not None:
        for _ in rows:
            pass
        facts["input"] = content.facts()
        differences = [_difference(name, found["job"].get(name), facts[name]) for name in facts
                       if found["job"].get(name) != facts[name]]
        if differences:
            raise Error(f"{job.path}: holds another job; different: {', '.join(differences)}. Give another folder, or "
                        "remove it to begin anew")
        return job
    document_field = _TASKS[task][1]
    cost = Cost(_token_counter(model), common, int(options.get("max_new") or 64))
    records = read_records(rows, document_field)
    blocks, count = plan_blocks(records, cost, common, document_field, block_tokens, workers)
    job.create({**facts, "input": content.facts()}, blocks, count)
    return job
