"""ask: questions about documents."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from ._examples import Questions, examples_read, examples_text, json_text, question_options, text_list
from ._model import Model
from ._names import documented, task_options
from ._options import AskOptions, EngineOptions, Path
from ._progress import Progress
from ._rows import Rows
from ._run import JobCall, run_job
from ._tables import Data

if TYPE_CHECKING:
    from typing_extensions import Unpack


def ask_task(questions: Questions, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job of questions as the library takes them."""
    task = {**options, **question_options(questions)}
    for name, reader in (("stop", text_list), ("json_schema", json_text), ("few_shot", examples_text)):
        if task.get(name) is not None:
            task[name] = reader(task[name])
    return task


def ask_call(data: Data, questions: Questions = None, *, model: Model | Path | None = None,
             output: Path | None = None, engine: EngineOptions | None = None, progress: Progress | None = None,
             timeout: float | None = None, options: AskOptions | None = None, **more: Any) -> JobCall:
    """What `ask` would run."""
    task, job = task_options("ask", options, more)
    return JobCall("ask", data, ask_task(questions, task), job, model, output, engine, progress, timeout,
                   examples_read(task["few_shot"]))


@documented("ask")
def ask(data: Data, questions: Questions = None, *, model: Model | Path | None = None,
        output: Path | None = None, engine: EngineOptions | None = None, progress: Progress | None = None,
        timeout: float | None = None, options: AskOptions | None = None, **more: Unpack[AskOptions]) -> Rows:
    """Asks questions about documents, as ``banyan ask`` does.

    A row has ``context`` and may have ``id``, ``question`` or ``questions``, ``choices`` and ``instruction``; other
    fields are carried into the answers' rows. The result has a row for every answer, in the input's order; a row that
    cannot be answered has ``error``.

    >>> banyan.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?")[0]["answer"]
    'Anna'

    | parameter | |
    |---|---|
    | `data` | a file or a list of files (text, HTML, PDF, JSONL, CSV, Parquet; also URLs), a list or column of texts, rows as dicts, a table of pandas, Polars, Arrow or DuckDB |
    | `questions` | asked of every document: a text, a dict with ``question``, ``id``, ``choices``, a list of them, or a dict of names and questions |
    """
    return run_job(ask_call(data, questions, model=model, output=output, engine=engine, progress=progress,
                            timeout=timeout, options=options, **more))
