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
from ._frames import REASON, answered, asked_columns, choice_labels, result_names, text_cells
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


@polars.api.register_dataframe_namespace("banyan")
class BanyanFrame(_Columns[polars.DataFrame]):
    """`frame.banyan`."""


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
