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
from ._embed import Encoder
from ._frames import (REASON, answered, asked_cells, asked_columns, asked_rows, check_free, choice_labels, groups_of, joined,
                      kept_places, prompt_columns, result_names, text_cells)
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


    def _read(self, prompt: str, columns: Sequence[str]) -> Any:
        """The columns that a prompt is made of; rows are called by their places."""
        needed = prompt_columns(prompt, columns, [str(name) for name in self._frame.columns])
        frame: Any = self._frame
        return frame[[name for name in frame.columns if str(name) in needed]].reset_index(drop=True)

    def map(
        self,
        prompts: str | Mapping[str, str],
        *,
        columns: Sequence[str] = (),
        choices: Sequence[str] = (),
        model: Model | Path | None = None,
        errors: bool = False,
        **options: Any,
    ) -> pandas.DataFrame:
        """The frame with an answer for every row, as `banyan.map` gives it: a column ``answer``, or one for every name of
        a dict of prompts.

        >>> import pandas, banyan.pandas
        >>> boats = pandas.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.map({"who": "Who steers?"}, columns=["page"])["who"].tolist()
        ['Anna']
        """
        found: dict[str, list[str | None]] = {}
        for name, prompt in result_names(prompts, self._frame.columns, errors).items():
            read = self._read(prompt, columns)
            found[name], reasons = asked_cells(read, prompt, columns, choices, len(read), model, options)
            if errors:
                found[REASON.format(name)] = reasons
        return pandas.concat([self._frame, pandas.DataFrame(found, index=self._frame.index, dtype=object)], axis=1)

    def filter(
        self, statement: str, *, columns: Sequence[str] = (), model: Model | Path | None = None, **options: Any
    ) -> pandas.DataFrame:
        """The rows of which the statement is true, as `banyan.filter` finds them.

        >>> import pandas, banyan.pandas
        >>> boats = pandas.DataFrame({"page": ["Anna steers the ferry."]})
        >>> list(boats.banyan.filter("{page} is about a boat.", threshold=0.0).columns)
        ['page']
        """
        frame: Any = self._frame
        found = asked_rows("filter", self._read(statement, columns), statement, columns, model, options)
        kept: pandas.DataFrame = frame.iloc[kept_places(found)]
        return kept

    def rank(
        self, statement: str, *, columns: Sequence[str] = (), model: Model | Path | None = None, **options: Any
    ) -> pandas.DataFrame:
        """The rows by falling ``score``, as `banyan.rank` gives it.

        >>> import pandas, banyan.pandas
        >>> boats = pandas.DataFrame({"page": ["Anna steers the ferry."]})
        >>> list(boats.banyan.rank("{page} is about a boat.").columns)
        ['page', 'score']
        """
        check_free("score", self._frame.columns)
        found = asked_rows("rank", self._read(statement, columns), statement, columns, model, options)
        frame: Any = self._frame
        scores = [float("nan") if "error" in row else row["score"] for _, row in found]
        ordered: pandas.DataFrame = frame.iloc[[place for place, _ in found]].assign(score=scores)
        return ordered

    def group(
        self,
        question: str,
        *,
        columns: Sequence[str] = (),
        choices: Sequence[str] = (),
        model: Model | Path | None = None,
        **options: Any,
    ) -> pandas.DataFrame:
        """Groups of rows with one answer, as `banyan.group` finds them: ``group``, ``rows`` and ``members``, labels of
        the index.

        >>> import pandas, banyan.pandas
        >>> boats = pandas.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.group("Who steers?", columns=["page"], choices=["Anna", "Ivan"])["rows"].tolist()
        [1, 0]
        """
        found = groups_of(self._read(question, columns), question, columns, choices, model, options)
        labels = list(self._frame.index)
        return pandas.DataFrame({
            "group": pandas.Series([name for name, _ in found], dtype=object),
            "rows": [len(places) for _, places in found],
            "members": pandas.Series([[labels[place] for place in places] for _, places in found], dtype=object)})

    def join(
        self,
        right: pandas.DataFrame,
        statement: str,
        *,
        candidates: int = 10,
        encoder: Encoder | Path | None = None,
        model: Model | Path | None = None,
        **options: Any,
    ) -> pandas.DataFrame:
        """The pairs of rows of which the statement is true, as `banyan.join` finds them.

        >>> import pandas, banyan.pandas
        >>> boats = pandas.DataFrame({"page": ["Anna steers the ferry."]})
        >>> len(boats.banyan.join(boats, "{left.page} says {right.page}", threshold=0.0))
        1
        """
        return joined(self._frame, right, statement, candidates, encoder, model, options).to_pandas()


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
