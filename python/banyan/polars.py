"""Banyan on Polars: ``import banyan.polars`` gives frames, lazy frames and expressions a namespace ``banyan``.

>>> import polars, banyan.polars
>>> frame = polars.DataFrame({"page": ["Anna steers the ferry."]})
>>> frame.with_columns(skipper=polars.col("page").banyan.ask("Who steers the ferry?", model=model))
>>> frame.banyan.ask("Who steers the ferry?", text="page", model=model)
"""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import polars

from ._answers import Answers, Cell
from ._embed import Encoder
from ._frames import asked_columns
from ._model import Model

_CHOICE = polars.Struct({"label": polars.String, "probability": polars.Float64})


class _Columns:
    """What frames and lazy frames have alike. New columns stand behind the others, in the order of the rows."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def ask(self, questions: str | Mapping[str, str], *, text: str, model: Model, **options: Any) -> Any:
        """The frame with an answer for every row: a column ``answer``, or one for every name of a dict of questions."""
        named = {"answer": questions} if isinstance(questions, str) else dict(questions)
        columns = polars.struct([polars.col(text)]).map_batches(
            lambda batch: polars.DataFrame(asked_columns(batch.struct.field(text).to_list(), named, model, options),
                                           schema={name: polars.String for name in named}).to_struct(""),
            return_dtype=polars.Struct({name: polars.String for name in named}), is_elementwise=True)
        return self._frame.with_columns(columns.alias("banyan:answers")).with_columns(
            polars.col("banyan:answers").struct.field(name) for name in named).drop("banyan:answers")


@polars.api.register_dataframe_namespace("banyan")
class BanyanFrame(_Columns):
    """`frame.banyan`."""


@polars.api.register_lazyframe_namespace("banyan")
class BanyanLazyFrame(_Columns):
    """`frame.lazy().banyan`: answered when it is collected."""


@polars.api.register_expr_namespace("banyan")
class BanyanExpr:
    """`polars.col("page").banyan`: of the column's texts. Null in, null out."""

    def __init__(self, expression: polars.Expr) -> None:
        self._expression = expression

    def _mapped(self, answers: Answers, cell: Any, dtype: Any) -> polars.Expr:
        def of(batch: Any) -> Any:
            cells = [None if text is None else cell(text) for text in batch.to_list()]
            return polars.Series(batch.name, answers(cells), dtype=dtype)
        # Rows do not depend on one another: the streaming engine may hand over what fits into memory.
        return self._expression.map_batches(of, return_dtype=dtype, is_elementwise=True)

    def ask(self, question: str, *, model: Model, **options: Any) -> polars.Expr:
        """An answer for every text; `options` are those of `banyan.ask`."""
        return self._mapped(Answers(model, options={"ask": options}), lambda text: Cell("ask", text, question), polars.String)

    def ask_choice(self, question: str, labels: Sequence[str], *, model: Model, **options: Any) -> polars.Expr:
        """The label that fits best, with its probability: a struct."""
        return self._mapped(Answers(model, options={"ask": options}),
                            lambda text: Cell("choice", text, question, tuple(labels)), _CHOICE)

    def embed(self, *, model: Model, encoder: Encoder) -> polars.Expr:
        """A vector for every text: a list of float32."""
        return self._mapped(Answers(model, encoder), lambda text: Cell("embed", text), polars.List(polars.Float32))
