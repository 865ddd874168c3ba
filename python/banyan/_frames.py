"""Columns of answers for frames, whoever they belong to."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._answers import Answers, Cell
from ._model import Model


def asked_columns(texts: Sequence[str | None], questions: Mapping[str, str], model: Model,
                  options: Mapping[str, Any]) -> dict[str, list[str | None]]:
    """A list of answers for every question, in the order of the texts; all run together, and a text is read once."""
    answers = Answers(model, options={"ask": options})
    cells = [None if text is None else Cell("ask", text, question) for question in questions.values() for text in texts]
    found = answers(cells)
    return {name: found[number * len(texts):(number + 1) * len(texts)] for number, name in enumerate(questions)}
