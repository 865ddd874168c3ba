"""Banyan on pandas: ``import banyan.pandas`` gives frames and series an accessor ``banyan``.

>>> import pandas, banyan.pandas
>>> frame = pandas.DataFrame({"page": ["Anna steers the ferry."]})
>>> frame.banyan.ask("Who steers the ferry?", text="page", model=model)
"""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import pandas

from ._answers import Answers, Cell
from ._frames import asked_columns
from ._model import Model


def _texts(column: Any) -> list[str | None]:
    return [None if not isinstance(text, str) else text for text in column]


@pandas.api.extensions.register_dataframe_accessor("banyan")
class BanyanFrame:
    """`frame.banyan`. The result has the frame's index."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def ask(self, questions: str | Mapping[str, str], *, text: str, model: Model, **options: Any) -> Any:
        """The frame with an answer for every row: a column ``answer``, or one for every name of a dict of questions.
        A cell without a text has none; `options` are those of `banyan.ask`."""
        named = {"answer": questions} if isinstance(questions, str) else dict(questions)
        columns = asked_columns(_texts(self._frame[text]), named, model, options)
        return self._frame.assign(**{name: pandas.Series(values, index=self._frame.index, dtype=object)
                                     for name, values in columns.items()})


@pandas.api.extensions.register_series_accessor("banyan")
class BanyanSeries:
    """`frame["page"].banyan`: of the column's texts."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def ask(self, question: str, *, model: Model, **options: Any) -> Any:
        """An answer for every text, with the series' index."""
        found = asked_columns(_texts(self._series), {"answer": question}, model, options)["answer"]
        return pandas.Series(found, index=self._series.index, dtype=object, name=self._series.name)

    def ask_choice(self, question: str, labels: Sequence[str], *, model: Model, **options: Any) -> Any:
        """The label that fits best, with its probability: a frame of two columns."""
        answers = Answers(model, options={"ask": options})
        found = answers([None if text is None else Cell("choice", text, question, tuple(labels))
                         for text in _texts(self._series)])
        return pandas.DataFrame([one or {"label": None, "probability": None} for one in found], index=self._series.index,
                                columns=["label", "probability"])
