"""map, rank, group, join, and filter of tables: one prompt made of columns, for every row."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterator, Mapping

from . import _native
from ._embed import Encoder, opened_encoder
from ._errors import Error
from ._examples import examples_read, examples_text, json_text, text_list
from ._model import Model
from ._names import documented, task_options
from ._options import EngineOptions, Path, TableOptions
from ._progress import Progress
from ._rows import Rows
from ._run import JobCall, run_job
from ._shared import models
from ._tables import Data

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Opened = Callable[[Mapping[str, Any], int], ContextManager[dict[str, Any]]]


def _table_task(task: str, prompt: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task of tables as the library takes them."""
    if not isinstance(prompt, str):
        raise Error(f"prompt: expected a text with {{column}} where a column's text belongs, found {type(prompt).__name__}")
    found = {**options, "operator": "filter" if task == "join" else task, "prompt": prompt,
             "columns": text_list(options["columns"])}
    for name, reader in (("choices", text_list), ("stop", text_list), ("json_schema", json_text), ("few_shot", examples_text)):
        if found.get(name) is not None:
            found[name] = reader(found[name])
    return found


@contextlib.contextmanager
def _second_model(task: Mapping[str, Any], threads: int) -> Iterator[dict[str, Any]]:
    """The task with the large model of a filter loaded."""
    with models.use(task["large"]) as large:
        yield {**task, "large": large._native}


@contextlib.contextmanager
def _encoder_of(task: Mapping[str, Any], threads: int) -> Iterator[dict[str, Any]]:
    """The task with the encoder of a join loaded."""
    with opened_encoder(task["encoder"], threads) as encoder:
        yield {**task, "encoder": encoder._native}


def table_call(name: str, data: Data, prompt: str, *, model: Model | Path | None = None, output: Path | None = None,
               engine: EngineOptions | None = None, progress: Progress | None = None, timeout: float | None = None,
               options: TableOptions | None = None, more_of_task: Mapping[str, Any] | None = None, right: Data = None,
               **more: Any) -> JobCall:
    """What the task `name` would run. `more_of_task`: what it has beside its options."""
    given, job = task_options(name, options, more)
    task = {**_table_task(name, prompt, given), **(more_of_task or {})}
    opened: _Opened | None = None
    if task.get("large") is not None:
        opened = _second_model
    elif task.get("encoder") is not None:
        opened = _encoder_of
    return JobCall(name, data, task, job, model, output, engine, progress, timeout, examples_read(task["few_shot"]),
                   opened, right)


def filter_call(data: Data, statement: str, *, large: Model | Path | None = None, **more: Any) -> JobCall:
    """What `filter` of a table would run."""
    given = {**(more.get("options") or {}), **more}
    promises = bool(given.get("recall") or given.get("precision"))
    if promises and large is None:
        raise Error("recall, precision: expected large=MODEL, which decides what the model is not sure of")
    if large is not None and not promises:
        raise Error("large: expected recall or precision, which say how much it must decide")
    return table_call("filter", data, statement, more_of_task={} if large is None else {"large": large}, **more)


def join_call(left: Data, right: Data, statement: str, *, candidates: int = 10,
              encoder: Encoder | Path | None = None, **more: Any) -> JobCall:
    """What `join` would run."""
    if not isinstance(candidates, int) or candidates < 1:
        raise Error(f"candidates: expected a number from 1 on, found {candidates!r}")
    return table_call("join", left, statement, right=right,
                      more_of_task={"candidates": candidates, "encoder": encoder}, **more)


@documented("map")
def map(data: Data, prompt: str, *, model: Model | Path | None = None, output: Path | None = None,
        engine: EngineOptions | None = None, progress: Progress | None = None, timeout: float | None = None,
        options: TableOptions | None = None, **more: Unpack[TableOptions]) -> Rows:
    """Asks the same of every row of a table, as ``banyan map`` does. Equal prompts are asked once; rows keep the
    input's order and fields.

    >>> boats = [{"name": "Marigold", "page": "Anna steers the ferry."}]
    >>> banyan.map(boats, "Who steers?", columns=["name", "page"])[0]["answer"]
    'Anna'

    | parameter | |
    |---|---|
    | `data` | as of `ask`; every column is a field that the prompt may name, and lists of texts have the column `text` |
    | `prompt` | a text with {column} where a column's text belongs, or, with `columns`, a question about them |
    """
    return run_job(table_call("map", data, prompt, model=model, output=output, engine=engine, progress=progress,
                              timeout=timeout, options=options, **more))


@documented("rank")
def rank(data: Data, statement: str, *, model: Model | Path | None = None, output: Path | None = None,
         engine: EngineOptions | None = None, progress: Progress | None = None, timeout: float | None = None,
         options: TableOptions | None = None, **more: Unpack[TableOptions]) -> Rows:
    """Orders the rows of a table, as ``banyan rank`` does: by the probability of a statement or, with `choices` that
    are numbers, by their expected value. The rows in the input's order are kept in OUTPUT.rows.jsonl for `resume`.

    >>> boats = [{"page": "The ferry is slow."}, {"page": "The ferry is fast."}]
    >>> [row["rank"] for row in banyan.rank(boats, "It is fast.", columns=["page"])]
    [1, 2]

    | parameter | |
    |---|---|
    | `data` | as of `map` |
    | `statement` | as `prompt` of `map` |
    """
    return run_job(table_call("rank", data, statement, model=model, output=output, engine=engine, progress=progress,
                              timeout=timeout, options=options, **more))


@documented("group")
def group(data: Data, question: str, *, model: Model | Path | None = None, output: Path | None = None,
          engine: EngineOptions | None = None, progress: Progress | None = None, timeout: float | None = None,
          options: TableOptions | None = None, **more: Unpack[TableOptions]) -> Rows:
    """Groups the rows of a table by their answers, as ``banyan group`` does: rows have ``group``, ``rows`` and
    ``members``, the ids. The rows with their answers are kept in OUTPUT.rows.jsonl for `resume`.

    >>> boats = [{"page": "Anna steers the ferry."}, {"page": "Anna steers the barge."}]
    >>> banyan.group(boats, "Who steers?", columns=["page"], choices=["Anna", "Ivan"])[0]["rows"]
    2

    | parameter | |
    |---|---|
    | `data` | as of `map` |
    | `question` | as `prompt` of `map` |
    """
    return run_job(table_call("group", data, question, model=model, output=output, engine=engine, progress=progress,
                              timeout=timeout, options=options, **more))


@documented("join")
def join(left: Data, right: Data, statement: str, *, candidates: int = 10, encoder: Encoder | Path | None = None,
         model: Model | Path | None = None, output: Path | None = None, engine: EngineOptions | None = None,
         progress: Progress | None = None, timeout: float | None = None, options: TableOptions | None = None,
         **more: Unpack[TableOptions]) -> Rows:
    """Pairs the rows of two tables of which a statement is true, as ``banyan join`` does. Pairs have ``left.NAME`` and
    ``right.NAME``.

    >>> boats, ports = [{"boat": "the ferry Marigold"}], [{"page": "The ferry Marigold leaves Lisbon."}]
    >>> len(banyan.join(boats, ports, "{right.page} tells of {left.boat}.", all=True))
    1

    | parameter | |
    |---|---|
    | `left`, `right` | each as `data` of `map` |
    | `statement` | a text with {left.column} and {right.column} |
    | `candidates` | rows of the right table that a row of the left one is asked about, at most |
    | `encoder` | an `Encoder`, or a model's path or name, by whose vectors they are found; None: by shared words |
    """
    return run_job(join_call(left, right, statement, candidates=candidates, encoder=encoder, model=model, output=output,
                             engine=engine, progress=progress, timeout=timeout, options=options, **more))
