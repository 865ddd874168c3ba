"""Banyan on Polars: ``import banyan.polars`` gives frames, lazy frames and expressions a namespace ``banyan``.

>>> import polars, banyan.polars
>>> frame = polars.DataFrame({"page": ["Anna steers the ferry."]})
>>> frame.with_columns(skipper=polars.col("page").banyan.ask("Who steers the ferry?"))["skipper"].to_list()
['Anna']

A cell that could not be answered is null; ``errors=True`` gives the reasons: beside a frame's column in ``NAME_error``,
of an expression as a struct of ``answer`` and ``error``.
"""

from __future__ import annotations

from typing import Any, Generic, Mapping, Sequence, TypeVar

import polars

from ._answers import Answers
from ._embed import Encoder
from ._errors import Error
from ._frames import (REASON, answered, asked_cells, asked_columns, asked_rows, check_free, choice_labels, groups_of, joined,
                      kept_places, prompt_columns, result_names, text_cells)
from ._model import Model
from ._options import Path

_CHOICE = {"label": polars.String, "probability": polars.Float64}


_Frame = TypeVar("_Frame", polars.DataFrame, polars.LazyFrame)


class _Columns(Generic[_Frame]):
    """What frames and lazy frames have alike. New columns stand behind the others, in the order of the rows."""

    def __init__(self, frame: _Frame) -> None:
        self._frame = frame

    def ask(
        self,
        questions: str | Mapping[str, str],
        *,
        text: str,
        model: Model | Path | None = None,
        errors: bool = False,
        **options: Any,
    ) -> _Frame:
        """The frame with an answer for every row: a column ``answer``, or one for every name of a dict of questions.

        >>> import polars, banyan.polars
        >>> pages = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> pages.banyan.ask("Who steers the ferry?", text="page")["answer"].to_list()
        ['Anna']
        """
        there = self._frame.collect_schema().names()
        if text not in there:
            raise Error(f"text: expected one column '{text}', found none")
        named = result_names(questions, there, errors)
        results: list[str] = []
        for name in named:
            results += [name, REASON.format(name)] if errors else [name]
        schema = {name: polars.String for name in results}
        columns = polars.struct([polars.col(text)]).map_batches(
            lambda batch: polars.DataFrame(
                asked_columns(text_cells(batch.struct.field(text)), named, model, options, errors), schema=schema
            ).to_struct(""),
            return_dtype=polars.Struct(schema),
            is_elementwise=True,
        )
        return (
            self._frame.with_columns(columns.alias("banyan:answers"))
            .with_columns(polars.col("banyan:answers").struct.field(name) for name in results)
            .drop("banyan:answers")
        )


    def map(
        self,
        prompts: str | Mapping[str, str],
        *,
        columns: Sequence[str] = (),
        choices: Sequence[str] = (),
        model: Model | Path | None = None,
        errors: bool = False,
        **options: Any,
    ) -> _Frame:
        """The frame with an answer for every row, as `banyan.map` gives it: a column ``answer``, or one for every name of
        a dict of prompts.

        >>> import polars, banyan.polars
        >>> boats = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.map({"who": "Who steers?"}, columns=["page"])["who"].to_list()
        ['Anna']
        """
        there = self._frame.collect_schema().names()
        named = result_names(prompts, there, errors)
        needed = {name: prompt_columns(prompt, columns, there) for name, prompt in named.items()}
        results = [result for name in named for result in ([name, REASON.format(name)] if errors else [name])]
        schema = {name: polars.String for name in results}

        def of(batch: Any) -> Any:
            read = batch.struct.unnest()
            found: dict[str, list[str | None]] = {}
            for name, prompt in named.items():
                part = read.select(needed[name])
                found[name], reasons = asked_cells(part, prompt, columns, choices, part.height, model, options)
                found[REASON.format(name)] = reasons
            return polars.DataFrame({name: found[name] for name in results}, schema=schema).to_struct("")

        asked = polars.struct(sorted({name for names in needed.values() for name in names})).map_batches(
            of, return_dtype=polars.Struct(schema), is_elementwise=True
        )
        return (
            self._frame.with_columns(asked.alias("banyan:answers"))
            .with_columns(polars.col("banyan:answers").struct.field(name) for name in results)
            .drop("banyan:answers")
        )

    def filter(
        self, statement: str, *, columns: Sequence[str] = (), model: Model | Path | None = None, **options: Any
    ) -> _Frame:
        """The rows of which the statement is true, as `banyan.filter` finds them.

        >>> import polars, banyan.polars
        >>> boats = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.filter("{page} is about a boat.", threshold=0.0).height
        1
        """
        needed = prompt_columns(statement, columns, self._frame.collect_schema().names())

        def of(batch: Any) -> Any:
            keep = [False] * len(batch)
            for place in kept_places(asked_rows("filter", batch.struct.unnest(), statement, columns, model, options)):
                keep[place] = True
            return polars.Series(keep, dtype=polars.Boolean)

        return self._frame.filter(polars.struct(needed).map_batches(of, return_dtype=polars.Boolean, is_elementwise=True))


@polars.api.register_dataframe_namespace("banyan")
class BanyanFrame(_Columns[polars.DataFrame]):
    """`frame.banyan`."""

    def rank(
        self, statement: str, *, columns: Sequence[str] = (), model: Model | Path | None = None, **options: Any
    ) -> polars.DataFrame:
        """The rows by falling ``score``, as `banyan.rank` gives it.

        >>> import polars, banyan.polars
        >>> boats = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.rank("{page} is about a boat.").columns
        ['page', 'score']
        """
        check_free("score", self._frame.columns)
        read = self._frame.select(prompt_columns(statement, columns, self._frame.columns))
        found = asked_rows("rank", read, statement, columns, model, options)
        scores = polars.Series("score", [row.get("score") for _, row in found], dtype=polars.Float64)
        return self._frame[[place for place, _ in found]].with_columns(scores)

    def group(
        self,
        question: str,
        *,
        columns: Sequence[str] = (),
        choices: Sequence[str] = (),
        model: Model | Path | None = None,
        **options: Any,
    ) -> polars.DataFrame:
        """Groups of rows with one answer, as `banyan.group` finds them: ``group``, ``rows`` and ``members``, the numbers
        of rows from 0.

        >>> import polars, banyan.polars
        >>> boats = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.group("Who steers?", columns=["page"], choices=["Anna", "Ivan"])["rows"].to_list()
        [1, 0]
        """
        read = self._frame.select(prompt_columns(question, columns, self._frame.columns))
        found = groups_of(read, question, columns, choices, model, options)
        schema = {"group": polars.String, "rows": polars.Int64, "members": polars.List(polars.Int64)}
        return polars.DataFrame({"group": [name for name, _ in found], "rows": [len(places) for _, places in found],
                                 "members": [places for _, places in found]}, schema=schema)

    def join(
        self,
        right: polars.DataFrame,
        statement: str,
        *,
        candidates: int = 10,
        encoder: Encoder | Path | None = None,
        model: Model | Path | None = None,
        **options: Any,
    ) -> polars.DataFrame:
        """The pairs of rows of which the statement is true, as `banyan.join` finds them.

        >>> import polars, banyan.polars
        >>> boats = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> boats.banyan.join(boats, "{left.page} says {right.page}", threshold=0.0).height
        1
        """
        return joined(self._frame, right, statement, candidates, encoder, model, options).to_polars()


@polars.api.register_lazyframe_namespace("banyan")
class BanyanLazyFrame(_Columns[polars.LazyFrame]):
    """`frame.lazy().banyan`: answered when it is collected."""


@polars.api.register_expr_namespace("banyan")
class BanyanExpr:
    """`polars.col("page").banyan`: of the column's texts. Null in, null out."""

    def __init__(self, expression: polars.Expr) -> None:
        self._expression = expression

    def _mapped(
        self, answers: Answers, task: str, question: str, labels: Sequence[str], dtype: Any, errors: bool
    ) -> polars.Expr:
        whole = (
            polars.Struct(
                {
                    **(dtype.to_schema() if isinstance(dtype, polars.Struct) else {"answer": dtype}),
                    "error": polars.String,
                }
            )
            if errors
            else dtype
        )

        def of(batch: Any) -> Any:
            values, reasons = answered(answers, text_cells(batch), task, question, labels)
            if errors:
                values = [
                    {**(value if isinstance(value, dict) else {"answer": value}), "error": reason}
                    for value, reason in zip(values, reasons)
                ]
            return polars.Series(batch.name, values, dtype=whole)

        # Rows do not depend on one another: the streaming engine may hand over what fits into memory.
        return self._expression.map_batches(of, return_dtype=whole, is_elementwise=True)

    def ask(
        self, question: str, *, model: Model | Path | None = None, errors: bool = False, **options: Any
    ) -> polars.Expr:
        """An answer for every text; `options` are those of `banyan.ask`.

        >>> import polars, banyan.polars
        >>> pages = polars.DataFrame({"page": ["Anna steers the ferry.", None]})
        >>> pages.select(polars.col("page").banyan.ask("Who steers the ferry?"))["page"].to_list()
        ['Anna', None]
        """
        return self._mapped(Answers(model, options={"ask": options}), "ask", question, (), polars.String, errors)

    def ask_choice(
        self,
        question: str,
        labels: Sequence[str],
        *,
        model: Model | Path | None = None,
        errors: bool = False,
        **options: Any,
    ) -> polars.Expr:
        """The label that fits best, with its probability: a struct.

        >>> import polars, banyan.polars
        >>> pages = polars.DataFrame({"page": ["Anna steers the ferry."]})
        >>> found = pages.select(polars.col("page").banyan.ask_choice("Who steers the ferry?", ["Anna", "Ivan"]))
        >>> found["page"].struct.field("label").to_list()
        ['Anna']
        """
        return self._mapped(
            Answers(model, options={"ask": options}),
            "choice",
            question,
            choice_labels(labels),
            polars.Struct(_CHOICE),
            errors,
        )

    def embed(self, *, encoder: Encoder, model: Model | Path | None = None) -> polars.Expr:
        """A vector for every text: a list of float32.

        >>> import polars, banyan.polars
        >>> with banyan.Encoder(encoder) as vectors:
        ...     polars.DataFrame({"page": ["a ferry"]}).select(polars.col("page").banyan.embed(encoder=vectors)).height
        1
        """
        return self._mapped(Answers(model, encoder), "embed", "", (), polars.List(polars.Float32), False)
