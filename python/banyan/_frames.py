"""Columns of answers for frames, whoever they belong to."""

from __future__ import annotations

import collections
import logging
from typing import Any, Iterable, Mapping, Sequence

from ._answers import Answers, Cell
from . import _native
from ._embed import Encoder
from ._errors import Error
from ._model import Model
from ._names import own_options
from ._options import Path
from ._rows import Rows
from ._run import run_job
from ._table import join_call, table_call

log = logging.getLogger("banyan")

#: What the column of reasons beside a column of answers is called.
REASON = "{}_error"


def text_cells(values: Iterable[Any]) -> list[str | None | Error]:
    """Cells of a column: a text, nothing, or why the cell is neither."""
    cells: list[str | None | Error] = []
    for value in values:
        missing = value is None or value != value or type(value).__name__ in ("NAType", "NaTType")
        cells.append(
            value
            if isinstance(value, str)
            else None if missing else Error(f"expected a text, found {type(value).__name__}", "input")
        )
    return cells


def result_names(questions: str | Mapping[str, str], columns: Iterable[str], errors: bool) -> dict[str, str]:
    """Column → question. Raises an Error, before anything is asked, for a column that the frame has already."""
    if not isinstance(questions, (str, Mapping)):
        raise Error(f"questions: expected a text, or a dict of names and questions, found {type(questions).__name__}")
    named = {"answer": questions} if isinstance(questions, str) else dict(questions)
    if not named:
        raise Error("questions: expected at least one")
    there = {str(name) for name in columns}
    for name, question in named.items():
        if not isinstance(question, str):
            raise Error(f"questions: '{name}': expected a text, found {type(question).__name__}")
        for result in [name, *([REASON.format(name)] if errors else [])]:
            if result in there:
                raise Error(
                    f"the frame has a column '{result}' already; name the answers otherwise: "
                    f'{{"NAME": {question!r}}}'
                )
            there.add(result)
    return named


def choice_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Raises an Error, before anything is asked, for what is no list of texts."""
    if isinstance(labels, str) or not labels or not all(isinstance(label, str) for label in labels):
        raise Error(f"labels: expected a list of texts, found {labels!r}")
    twice = [label for label, count in collections.Counter(labels).items() if count > 1]
    if twice:
        raise Error(f"labels: expected different texts, found {twice[0]!r} twice")
    return tuple(labels)


def answered(
    answers: Answers, texts: Sequence[str | None | Error], task: str, question: str, labels: Sequence[str] = ()
) -> tuple[list[Any], list[str | None]]:
    """Values and reasons, in the order of the texts."""
    return _asked(answers, [(text, question) for text in texts], task, tuple(labels))


def _asked(
    answers: Answers, wanted: Sequence[tuple[str | None | Error, str]], task: str, labels: tuple[str, ...] = ()
) -> tuple[list[Any], list[str | None]]:
    values, reasons = answers.with_reasons(
        [Cell(task, text, about, labels) if isinstance(text, str) else None for text, about in wanted]
    )
    reasons = [text.message if isinstance(text, Error) else reason for (text, _), reason in zip(wanted, reasons)]
    failed = [reason for reason in reasons if reason is not None]
    if failed:
        log.warning(
            "%d of %d cells have no answer; errors=True gives the reasons as a column. The first: %s",
            len(failed),
            len(reasons),
            failed[0],
        )
    return values, reasons


def asked_columns(
    texts: Sequence[str | None | Error],
    questions: Mapping[str, str],
    model: Model | Path | None,
    options: Mapping[str, Any],
    errors: bool = False,
) -> dict[str, list[str | None]]:
    """A list of answers for every question, in the order of the texts, and with `errors` one of reasons beside it. All
    run together, and a text is read once."""
    answers = Answers(model, options={"ask": options})
    values, reasons = _asked(answers, [(text, question) for question in questions.values() for text in texts], "ask")
    columns: dict[str, list[str | None]] = {}
    for number, name in enumerate(questions):
        rows = slice(number * len(texts), (number + 1) * len(texts))
        columns[name] = values[rows]
        if errors:
            columns[REASON.format(name)] = reasons[rows]
    return columns


def prompt_columns(prompt: str, columns: Sequence[str], there: Iterable[str]) -> list[str]:
    """The columns that a prompt is made of. Raises an Error for one that the frame does not have."""
    names = list(there)
    found = _native.table_columns(prompt, [columns] if isinstance(columns, str) else list(columns))
    for name in found:
        if name not in names:
            raise Error(f"expected a column '{name}'; the frame has {', '.join(names)}", "input")
    return found


def asked_rows(
    task: str, frame: Any, prompt: str, columns: Sequence[str], model: Model | Path | None, options: Mapping[str, Any]
) -> list[tuple[int, dict[str, Any]]]:
    """What a task of tables says of the rows of a frame: their places in it and the rows of the result, in its order."""
    found = _warned(run_job(table_call(task, frame, prompt, columns=columns, model=model, **own_options(task, options))))
    return [(place, row) for place, row in zip(found.results.places, found) if place is not None]


def kept_places(found: Iterable[tuple[int, Mapping[str, Any]]]) -> list[int]:
    """Of a filter's rows, but for those that could not be asked."""
    return [place for place, row in found if "error" not in row]


def asked_cells(
    frame: Any, prompt: str, columns: Sequence[str], choices: Sequence[str], height: int, model: Model | Path | None,
    options: Mapping[str, Any]
) -> tuple[list[str | None], list[str | None]]:
    """An answer for every row of a frame, and reasons of those that have none."""
    more = {**options, **({"choices": choice_labels(choices)} if choices else {})}
    answers: list[str | None] = [None] * height
    reasons: list[str | None] = [None] * height
    for place, row in asked_rows("map", frame, prompt, columns, model, more):
        if "error" in row:
            reasons[place] = row["error"]["message"]
        else:
            answers[place] = row["answer"]
    return answers, reasons


def groups_of(
    frame: Any, question: str, columns: Sequence[str], choices: Sequence[str], model: Model | Path | None,
    options: Mapping[str, Any]
) -> list[tuple[Any, list[int]]]:
    """Groups of a frame's rows, with the places of their members."""
    more = {**own_options("group", options), **({"choices": choice_labels(choices)} if choices else {})}
    found = _warned(run_job(table_call("group", frame, question, columns=columns, model=model, **more)))
    return [(row["group"], [found.place_of(member) for member in row["members"]]) for row in found if "error" not in row]


def _warned(found: Rows) -> Rows:
    if found.errors:
        log.warning("%d rows could not be asked. The first: %s", len(found.errors), found.errors[0]["error"]["message"])
    return found


def joined(
    left: Any, right: Any, statement: str, candidates: int, encoder: Encoder | Path | None, model: Model | Path | None,
    options: Mapping[str, Any]
) -> Rows:
    """The pairs of two frames."""
    return _warned(run_job(join_call(left, right, statement, candidates=candidates, encoder=encoder, model=model,
                                     **own_options("join", options))))


def check_free(name: str, columns: Iterable[str]) -> None:
    """Raises an Error, before anything is asked, for a column that the frame has already."""
    if name in {str(one) for one in columns}:
        raise Error(f"the frame has a column '{name}' already; rename it first")
