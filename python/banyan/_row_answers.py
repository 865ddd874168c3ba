"""Cells that are rows of a table, as JSON: a prompt for each, a statement's probability, the pairs of two tables."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Mapping

from . import _native
from ._errors import Error
from ._run import run_job
from ._table import join_call, table_call

if TYPE_CHECKING:
    from ._answers import Answers, Cell

_RESULTS = {"map": "answer", "filter": "keep", "score": "score"}
_ID = "row id"  # a column called id, whose values need not differ


def _fields(text: str) -> dict[str, Any]:
    """Of a row's JSON; a text alone is the column `text`."""
    value = json.loads(text)
    return value if isinstance(value, dict) else {"text": value}


def _options(answers: Answers) -> dict[str, Any]:
    """Those of ask that tasks of tables have."""
    return {name: value for name, value in answers.options["ask"].items() if name not in ("template", "choices")}


def _columns(prompt: str, row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The columns that the prompt is made of, and, where it names none, those that stand before it: all but the id.
    Raises an Error for one that the row does not have."""
    listed = [name for name in row if name != "id"] if "{" not in prompt.replace("{{", "") else []
    found = _native.table_columns(prompt, listed)
    missing = [name for name in found if name not in row]
    if missing:
        raise Error(f"expected a column '{missing[0]}'; the row has {', '.join(row)}", "input")
    return found, listed


def row_answers(answers: Answers, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """Of cells of the tasks "map" answers, of "filter" whether it is true, of "score" by how much."""
    results: dict[str, Any] = {}
    for task, prompt, labels in dict.fromkeys((cell.task, cell.about, cell.labels) for cell in cells.values()):
        of_prompt = {key: cell for key, cell in cells.items() if (cell.task, cell.about, cell.labels) == (task, prompt, labels)}
        rows = []
        for key, cell in of_prompt.items():
            row = _fields(cell.text)
            columns, listed = _columns(prompt, row)
            rows.append({**{_ID if name == "id" else name: row[name] for name in columns}, "id": key})
        more: dict[str, Any] = {**_options(answers), "columns": listed}
        if labels:
            more["choices"] = labels
        if task == "filter":
            more["all"] = True
        call = table_call({"score": "rank"}.get(task, task), rows, prompt.replace("{id}", f"{{{_ID}}}"),
                          model=answers.model, engine=answers.engine, **more)
        for row in run_job(call, answers._control):
            if "error" in row:
                answers._fail(of_prompt[row["id"]], row["error"]["message"])
            else:
                results[row["id"]] = row[_RESULTS[task]]
    return results


def pair_answers(answers: Answers, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """Of cells of the task "join", whose text has the rows of both tables: the pairs, by their places."""
    results: dict[str, Any] = {}
    for key, cell in cells.items():
        left, right = ([{**{_ID if name == "id" else name: value for name, value in _fields(row).items()}, "id": place}
                        for place, row in enumerate(rows)] for rows in json.loads(cell.text))
        statement = cell.about
        for side in ("left", "right"):
            statement = statement.replace(f"{{{side}.id}}", f"{{{side}.{_ID}}}")
        found = run_job(join_call(left, right, statement, model=answers.model, engine=answers.engine, **_options(answers)),
                        answers._control)
        for row in found.errors:
            answers._fail(cell, row["error"]["message"])
        results[key] = [dict(zip(("l", "r"), json.loads(row["id"])), n=number, probability=row["probability"])
                        for number, row in enumerate(found) if "error" not in row]
    return results
