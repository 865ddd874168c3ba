"""A job from beginning to end: files in place, the model loaded, the library called, the rows taken."""
from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import logging
import os
import pathlib
from typing import Any, Callable, ContextManager, Iterator, Mapping, Sequence

from . import _native, _storage
from ._control import JobControl
from ._errors import Error, in_words_of_python
from ._feeder import Feeder
from ._model import Model
from ._columns import InputColumns, template_names
from ._names import check_engine, native_names
from ._option_table import TABLE_TASKS
from ._options import EngineOptions, Path, native_engine_options
from ._outputs import check_output
from ._pairs import PairColumns
from ._parquet_job import ParquetJob
from ._progress import Progress, progress_call
from ._reads import input_files
from ._rows import Folder, Rows
from ._shared import models
from ._schema import check_arrow
from ._tables import Data, as_table, is_parquet
from ._versions import versions

log = logging.getLogger("banyan")

COPY = "copy.jsonl"  # in the job's folder: rows of an output that is not read back

_NATIVE: dict[str, Callable[..., str]] = {
    "ask": _native.run_ask, "extract": _native.run_extract, "rag": _native.run_rag,
    **dict.fromkeys(TABLE_TASKS, _native.run_table)}


def notice(text: str) -> None:
    """What a person should know goes to the logger ``banyan``, as a warning: what the program says on stderr."""
    log.warning(in_words_of_python(text))


@dataclasses.dataclass
class JobCall:
    """A call of a task that was understood and not yet run."""

    name: str  # ask, extract, rag, map, filter, rank, group, join
    data: Data
    task: dict[str, Any]  # options of the task, by our names
    job: dict[str, Any]  # those of input and output
    model: Model | Path | None = None
    output: Path | None = None
    engine: EngineOptions | None = None
    progress: Progress | None = None
    timeout: float | None = None  # seconds
    reads: Sequence[tuple[str, str]] = ()  # what else is read, as (what it is, path)
    #: The task with everything open that it needs, for as long as it runs.
    opened: Callable[[Mapping[str, Any], int], ContextManager[dict[str, Any]]] | None = None
    right: Data = None  # of a join: the other table

    def __post_init__(self) -> None:
        path = (str, os.PathLike)
        for name, value, is_right, wanted in (
                ("model", self.model, isinstance(self.model, (Model, *path)), "a Model, a path or a name"),
                ("output", self.output, isinstance(self.output, path), "a path"),
                ("progress", self.progress, isinstance(self.progress, bool) or callable(self.progress), "True, False or a callable"),
                ("timeout", self.timeout, isinstance(self.timeout, (int, float)), "seconds")):
            if value is not None and not is_right:
                raise Error(f"{name}: expected {wanted}, found {type(value).__name__}")
        limit, shard = self.job["limit"], self.job["shard"]
        if limit is not None and not (hasattr(limit, "__index__") and limit >= 0):
            raise Error(f"limit: expected a number of records, found {limit!r}")
        if shard is not None and not (isinstance(shard, (tuple, list)) and len(shard) == 2):
            raise Error(f"shard: expected (i, n), such as (1, 8), found {shard!r}")
        self.data = as_table(self.data, self.name, self.job["fields"])
        if self.name == "join":
            self.right = as_table(self.right, self.name, None)

    @property
    def flat(self) -> dict[str, str] | None:
        """Of flat rows: the columns of the attributes, with their types."""
        is_flat = self.name == "extract" and self.task.get("flat")
        return dict(_native.flat_columns(self.task["schema"])) if is_flat else None

    def columns(self) -> InputColumns:
        """What will be kept of the input beside the job. Names in the template are read too."""
        fields = self.job["fields"] or {}
        if self.name == "join":
            return PairColumns(fields, _native.table_columns(self.task["prompt"], self.task["columns"]))
        needed = template_names(self.task)
        if self.name in TABLE_TASKS:
            names = _native.table_columns(self.task["prompt"], self.task["columns"])
            needed = [fields.get(name, name) for name in names]
        return InputColumns(self.name, fields, flat=list(self.flat or ()), needed=needed, asked_of_all=self.asked_of_all)

    @property
    def staged(self) -> str:
        """Of jobs that write their output when all rows are there: what the name of these rows has behind its own."""
        if self.name == "filter" and self.task.get("large") is not None:
            return ".small.jsonl"
        return ".rows.jsonl" if self.name in ("rank", "group") else ""

    @property
    def reader(self) -> str:
        """The task whose default model it takes."""
        return "ask" if self.name in TABLE_TASKS else self.name

    def inputs(self, folder: Folder, columns: InputColumns) -> list[str]:
        """The files to read, rows in memory written out. Of a join the left table's."""
        if not isinstance(columns, PairColumns):
            return folder.inputs(self.data, columns, self.job["limit"])
        right = folder.inputs(self.right, columns.right, name="right")
        if len(right) != 1:
            raise Error(f"right: expected one table, found {len(right)} files")
        columns.right_file = right[0]
        return folder.inputs(self.data, columns.left, name="left")

    @property
    def asked_of_all(self) -> bool:
        """Questions of the call, which every row is asked."""
        return any(self.task.get(name) for name in ("questions", "questions_text"))

    @contextlib.contextmanager
    def native_task(self) -> Iterator[dict[str, Any]]:
        """The task as the library takes it."""
        named = native_names(self.name, self.task)
        if self.opened is None:
            yield named
            return
        with self.opened(named, self.model.threads if isinstance(self.model, Model) else 0) as task:
            yield task


def native_job(job: Mapping[str, Any], inputs: list[str]) -> dict[str, Any]:
    options = {name: value for name, value in job.items() if value is not None}
    if "columns" in options:
        options["columns"] = list(options["columns"])
    shard, shards = options.pop("shard", (1, 1))
    return {**options, "inputs": inputs, "shard": shard, "shards": shards}


def run_job(call: JobCall, control: JobControl | None = None, feeds: bool = False) -> Rows:
    """Names and output checked, files in place, the job run, its rows taken. Somebody else may end it by `control`.
    `feeds`: rows of an iterator are answered as it gives them, instead of after its end."""
    control = control or JobControl()
    control.begin(call.timeout)
    job = call.job
    target = None if call.output is None else os.fspath(call.output)
    check_engine(call.engine)
    if job["resume"] and target is None:
        raise Error("resume: expected output=…, the file of the job that shall go on")
    if target is not None:
        others = [("the right table", path) for _, path in input_files(call.right)] if call.name == "join" else []
        check_output(target, [*input_files(call.data), *others, *call.reads], overwrite=job["overwrite"],
                     resume=job["resume"], staged=call.staged)
    with Folder() as folder, _storage.local_output(target, folder.path, job) as place, call.native_task() as task:
        table = ParquetJob(place, job, call.staged) if place is not None and is_parquet(place) else None
        columns = call.columns()
        feeder = Feeder(folder, call.data, columns, job["limit"]) if feeds and hasattr(call.data, "__next__") else None
        inputs = call.inputs(folder, columns) if feeder is None else [feeder.path]
        if isinstance(columns, PairColumns):
            task = {**task, "right": columns.right_file}
        if table is not None:
            for part in columns.parts():
                check_arrow(part)
        written = str(folder.path / "out.jsonl") if place is None else place if table is None else table.rows_file
        options = native_job(job, inputs)
        options["output"] = written
        # Of a table that the library writes, where there is room for it; rows of earlier runs are in the table alone.
        copy = folder.path / COPY if table is None and not job["resume"] and not _is_read_back(written, job) else None
        if copy is not None:
            options["rows_copy"] = str(copy)
        options["input_names"] = folder.names
        with models.use(call.model, call.reader, control.check) as loaded, progress_call(call.progress) as shown, \
                feeder or contextlib.nullcontext():
            # Never written to.
            options["other_files"] = [("the model", file) for file in _native.files_of_model(loaded.path)] + list(call.reads)
            control.check()
            receipt = json.loads(_NATIVE[call.name](loaded._native, native_engine_options(call.engine), task, options,
                                                    control.hearing(written, shown), notice, control.check))
            receipt["model"] = loaded.path
            receipt["model_fingerprint"] = loaded.fingerprint
        control.input_error = None if feeder is None else feeder.error
        receipt["versions"] = versions()
        if receipt["end"] == "too many errors":
            raise Error(f"stopped after more than {job['max_errors']} error rows (max_errors)", "input")
        lines = _json_lines(written, job) if copy is None else copy.read_bytes() if copy.exists() else None
        rows = Rows(lines, receipt, target, columns, call.flat, call.asked_of_all)
        if table is not None:
            table.finish(rows)
        return rows


def _is_read_back(path: str, job: Mapping[str, Any]) -> bool:
    """The output is JSONL, plain or packed so that Python reads it."""
    form = job.get("output_format")
    plain = path.removesuffix(".gz")
    if path.endswith(".zst"):
        return False
    return form == "jsonl" or not form and plain.endswith((".jsonl", ".ndjson", ".json"))


def _json_lines(path: str, job: Mapping[str, Any]) -> bytes | None:
    """What a job wrote; None where it cannot be read back."""
    if not _is_read_back(path, job):
        return None
    if path.endswith(".gz"):
        with gzip.open(path, "rb") as file:
            return file.read()
    return pathlib.Path(path).read_bytes()
