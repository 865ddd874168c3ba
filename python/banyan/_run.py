"""A job from beginning to end: files in place, the model loaded, the library called, the rows taken."""
from __future__ import annotations

import gzip
import json
import logging
import os
import pathlib
from typing import Any, Callable, Mapping, Sequence, Union

from . import _native
from ._errors import Error
from ._model import Model
from ._options import EngineOptions, native_engine_options
from ._rows import Data, Folder, Rows, as_paths, is_parquet, write_parquet

log = logging.getLogger("banyan")

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[dict[str, Any]], object]
Question = Union[str, Mapping[str, Any]]


class LoadedModel:
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


def native_job(job: Mapping[str, Any], inputs: list[str]) -> dict[str, Any]:
    options = {name: value for name, value in job.items() if value is not None}
    shard, shards = options.pop("shard", (1, 1))
    return {**options, "inputs": inputs, "shard": shard, "shards": shards}


def run_job(run: Callable[..., str], data: Data, task: dict[str, Any], model: Model | Path | None,
            output: Path | None, job: dict[str, Any], engine: EngineOptions | None,
            progress: Progress | None) -> Rows:
    """Files in place, the job run, its rows taken."""
    target = None if output is None else os.fspath(output)
    with Folder() as folder:
        inputs = folder.inputs(data)
        in_memory = inputs[0] if as_paths(data) is None else None
        if target is None:
            written = str(folder.path / "out.jsonl")
        else:
            written = f"{target}.rows.jsonl" if is_parquet(target) else target
        options = native_job(job, inputs)
        options["output"] = written
        with LoadedModel(model) as loaded:
            # Never written to.
            options["other_files"] = [("the model", file) for file in _native.files_of_model(loaded.path)]
            receipt = json.loads(run(loaded._native, native_engine_options(engine), task, options, progress, log.info))
            receipt["model"] = loaded.path
        if receipt["end"] == "too many errors":
            raise Error(f"stopped after more than {job['max_errors']} error rows (max_errors)", "input")
        text = _json_lines(written, job.get("output_format"))
        if text is not None and in_memory is not None:  # error rows name the file that they come from
            text = text.replace(in_memory.encode(), b"rows")
        rows = Rows(text, receipt, target)
        if target is not None and is_parquet(target):
            write_parquet(rows, target)
            os.remove(written)
            os.remove(written + ".journal")
        return rows


def _json_lines(path: str, output_format: str | None) -> bytes | None:
    """What a job wrote; None where it is no JSONL, or packed in a way that Python cannot read."""
    packed = path.endswith(".gz")
    plain = path[:-3] if packed else path
    if output_format != "jsonl" and (output_format or not plain.endswith((".jsonl", ".ndjson", ".json"))):
        return None
    if packed:
        with gzip.open(path, "rb") as file:
            return file.read()
    return pathlib.Path(path).read_bytes()
