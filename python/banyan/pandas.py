"""Banyan on pandas: ``import banyan.pandas`` gives frames and series an accessor ``banyan``.

>>> import pandas, banyan.pandas
>>> frame = pandas.DataFrame({"page": ["Anna steers the ferry."]})
>>> frame.banyan.ask("Who steers the ferry?", text="page")["answer"].tolist()
['Anna']

A cell that could not be answered has none; ``errors=True`` gives the reasons in a column ``NAME_error`` beside it.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import pandas

from ._answers import Answers
from ._errors import Error
from ._frames import REASON, answered, asked_columns, choice_labels, result_names, text_cells
from ._model import Model
from ._options import Path


def _column(frame: Any, name: str) -> Any:
    """The one column of this name."""
    count = list(frame.columns).count(name)
    if count != 1:
        raise Error(f"text: expected one column '{name}', found {count or 'none'}")
    return frame[name]


@pandas.api.extensions.register_dataframe_accessor("banyan")
class BanyanFrame:
    """`frame.banyan`. The result has the frame's index."""

    def __init__(self, frame: pandas.DataFrame) -> None:
        self._frame = frame

    def ask(
        self,
        questions: str | Mapping[str, str],
        *,
        text: str,
        model: Model | Path | None = None,
        errors: bool = False,
        **options: Any,
    ) -> pandas.DataFrame:
        """The frame with an answer for every row: a column ``answer``, or one for every name of a dict of questions.
        A cell without a text has none; `options` are those of `banyan.ask`.

        >>> import pandas, banyan.pandas
        >>> pages = pandas.DataFrame({"page": ["Anna steers the ferry."]})
        >>> pages.banyan.ask({"who": "Who steers the ferry?"}, text="page")["who"].tolist()
        ['Anna']
        """
        named = result_names(questions, self._frame.columns, errors)
        columns = asked_columns(text_cells(_column(self._frame, text)), named, model, options, errors)
        return pandas.concat([self._frame, pandas.DataFrame(columns, index=self._frame.index, dtype=object)], axis=1)


@pandas.api.extensions.register_series_accessor("banyan")
class BanyanSeries:
    """`frame["page"].banyan`: of the column's texts."""

    def __init__(self, series: pandas.Series) -> None:
        self._series = series

    def ask(
        self, question: str, *, model: Model | Path | None = None, errors: bool = False, **options: Any
    ) -> pandas.Series | pandas.DataFrame:
        """An answer for every text, with the series' index; with `errors` a frame of ``answer`` and ``answer_error``.

        >>> import pandas, banyan.pandas
        >>> pandas.Series(["Anna steers the ferry.", None]).banyan.ask("Who steers the ferry?").tolist()
        ['Anna', None]
        """
        found = asked_columns(text_cells(self._series), {"answer": question}, model, options, errors)
        if errors:
            return pandas.DataFrame(found, index=self._series.index, dtype=object)
        return pandas.Series(found["answer"], index=self._series.index, dtype=object, name=self._series.name)

    def ask_choice(
        self,
        question: str,
        labels: Sequence[str],
        *,
        model: Model | Path | None = None,
        errors: bool = False,
        **options: Any,
    ) -> pandas.DataFrame:
        """The label that fits best, with its probability: a frame of two columns, and with `errors` of ``label_error``.

        >>> import pandas, banyan.pandas
        >>> pandas.Series(["Anna steers the ferry."]).banyan.ask_choice("Who steers?", ["Anna", "Ivan"])["label"].tolist()
        ['Anna']
        """
        values, reasons = answered(
            Answers(model, options={"ask": options}), text_cells(self._series), "choice", question, choice_labels(labels)
        )
        found = pandas.DataFrame(
            [one or {"label": None, "probability": None} for one in values],
            index=self._series.index,
            columns=["label", "probability"],
        )
        if errors:
            found[REASON.format("label")] = pandas.Series(reasons, index=found.index, dtype=object)
        return found
