"""One schema a task, whatever the rows hold: what Parquet files, `Rows.to_arrow`, `to_pandas` and `to_polars` have.
docs/python.md has it as a table, which a test compares."""

from __future__ import annotations

import json
import logging
from typing import Any, Callable, Mapping, Sequence

from ._columns import InputColumns, PandasStore, json_array, nullable_series, to_nullable
from ._errors import Error
from ._tables import pyarrow

log = logging.getLogger("banyan")

# Column → type. "id" has the type of the input's, "json" is the text of a value.
_ERROR = "struct<kind: string, message: string, file: string, line: int64>"
FIXED: dict[str, dict[str, str]] = {
    "ask": {
        "id": "id",
        "question_id": "id",
        "question": "string",
        "answer": "string",
        "confidence": "double",
        "start": "int64",
        "end": "int64",
        "choice": "int64",
        "probabilities": "list<double>",
        "finish_reason": "string",
        "tokens": "int64",
        "prompt_tokens": "int64",
        "error": _ERROR,
        "more": "json",
    },
    "extract": {
        "id": "id",
        "category": "string",
        "values": "json",
        "tokens": "int64",
        "prompt_tokens": "int64",
        "error": _ERROR,
        "more": "json",
    },
    "rag": {
        "id": "id",
        "question": "string",
        "answer": "string",
        "confidence": "double",
        "method": "string",
        "citations": "json",
        "finish_reason": "string",
        "tokens": "int64",
        "prompt_tokens": "int64",
        "first_token_seconds": "double",
        "seconds": "double",
        "error": _ERROR,
        "more": "json",
    },
    "embed": {
        "id": "id",
        "dense": "list<float>",
        "sparse": "json",
        "multi_vector": "list<list<float>>",
        "truncated": "bool",
        "error": _ERROR,
    },
}
FIXED["map"] = {name: FIXED["ask"][name] for name in FIXED["ask"] if name not in ("question_id", "question", "start", "end")}
FIXED["filter"] = {
    "id": "id",
    "keep": "bool",
    "probability": "double",
    "calibrated": "double",
    "confidence": "double",
    "decided_by": "string",
    "error": _ERROR,
}
FIXED["join"] = {name: kind for name, kind in FIXED["filter"].items() if name not in ("calibrated", "decided_by")}
FIXED["rank"] = {
    "id": "id",
    "rank": "int64",
    "score": "double",
    "probabilities": "list<double>",
    "confidence": "double",
    "error": _ERROR,
}
FIXED["group"] = {"group": "string", "rows": "int64", "members": "list<id>", "id": "id", "error": _ERROR}
# Fields of rows that only some options give: they are in `more`.
MORE = {
    "ask": {
        "withheld",
        "copied",
        "value",
        "thinking",
        "token_ids",
        "logprobs",
        "top_logprobs",
        "samples",
        "votes",
        "letter",
        "scores",
        "part",
        "parts",
        "read",
        "candidates",
        "reduced",
        "truncated_bytes",
    },
    "extract": {
        "confidence",
        "spans",
        "sources",
        "agreeing",
        "conflicts",
        "units",
        "raw",
        "reasons",
        "truncated",
        "parts",
        "stacked",
        "cut_bytes",
    },
    "rag": {
        "alternatives",
        "reason",
        "abstained",
        "stale",
        "verified",
        "dropped",
        "dropped_reason",
        "empty",
        "truncated",
        "trace",
    },
    "embed": set(),
    "filter": set(),
    "join": set(),
    "rank": set(),
    "group": set(),
}
MORE["map"] = MORE["ask"] | {"calibrated"}
_PANDAS = {"int64": "Int64", "double": "float64", "bool": "boolean"}


def _arrow_type(name: str) -> Any:
    arrow = pyarrow()
    error = arrow.struct(
        [("kind", arrow.string()), ("message", arrow.string()), ("file", arrow.string()), ("line", arrow.int64())]
    )
    return {
        "id": arrow.string(),
        "json": arrow.string(),
        "string": arrow.string(),
        "double": arrow.float64(),
        "int64": arrow.int64(),
        "bool": arrow.bool_(),
        "list<double>": arrow.list_(arrow.float64()),
        "list<float>": arrow.list_(arrow.float32()),
        "list<list<float>>": arrow.list_(arrow.list_(arrow.float32())),
        _ERROR: error,
    }[name]


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def id_text(value: Any) -> str | None:
    """An id as a column of texts has it: a text as it is, anything else as JSON writes it."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_FORM: dict[str, Callable[[Any], Any]] = {"id": id_text, "json": _json}


class Results:
    """The rows of a job as columns: the task's, then those that the input carried."""

    def __init__(
        self,
        task: str,
        rows: Sequence[Mapping[str, Any]],
        columns: InputColumns | None = None,
        flat: Mapping[str, str] | None = None,
        asked_of_all: bool = True,
    ) -> None:
        self.task, self.rows = task, rows
        self.kinds = {**FIXED[task]}
        if flat is not None:  # a column for every attribute instead of `values`
            self.kinds = {
                name: kind
                for one in FIXED[task]
                for name, kind in (flat.items() if one == "values" else ((one, FIXED[task][one]),))
            }
        self.columns = columns if columns is not None and columns.store is not None else None
        self.asked_of_all = asked_of_all  # questions of the call, whose ids are no column of the input
        self.places: list[int | None] = [] if self.columns is None else self.columns.places.of(rows)
        if None in self.places or task == "group":  # some rows come from elsewhere, such as a file beside the tables
            self.columns = None

    def _values(self, name: str) -> list[Any]:
        if name == "keep":  # rows that are dropped come out with all=True alone
            return [row.get(name, None if "error" in row else True) for row in self.rows]
        if name != "more":
            return [row.get(name) for row in self.rows]
        return [{one: row[one] for one in row if one in MORE[self.task]} or None for row in self.rows]

    def _own_column(self, name: str) -> str | None:
        """The input's column that the result repeats: an id."""
        if self.columns is None or self.kinds[name] != "id" or (name == "question_id" and self.asked_of_all):
            return None
        return self.columns.has_column(name)

    def carried(self) -> dict[str, Any]:
        """Result's name → the input's. Without a table: fields of the rows, whose names are the results' already."""
        if self.columns is not None:
            return {shown: name for name, shown in self.columns.carried().items()}
        ours = {*self.kinds, *MORE[self.task]}
        return {name: name for row in self.rows for name in row if name not in ours}

    def arrow(self, facts: Mapping[str, str] | None = None) -> Any:
        """`facts` go into the schema's metadata. A column of the input that Arrow has no type for is left out, and said:
        the answers are there all the same."""
        arrow = pyarrow()
        found: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            own = self._own_column(name)
            if own is not None:
                assert self.columns is not None
                found[name] = self.columns.store.arrow(own, self.places)
            elif name == "id":
                found[name] = _id_array(self._values(name), self.columns is not None and self.columns.numbered)
            elif kind == "list<id>":
                found[name] = _id_lists(self._values(name))
            else:
                form = _FORM.get(kind, lambda value: value)
                found[name] = arrow.array([form(value) for value in self._values(name)], type=_arrow_type(kind))
        for shown, name in self.carried().items():
            try:
                found[shown] = (
                    json_array(self._values(name))
                    if self.columns is None
                    else self.columns.store.arrow(name, self.places)
                )
            except Error as error:
                log.warning("%s: it is left out", error)
        schema = arrow.schema(
            [(name, column.type) for name, column in found.items()],
            metadata={
                "banyan": json.dumps({"task": self.task, **(facts or {})}),
                "pandas": pandas_types(found, self._plain_columns()),
            },
        )
        return arrow.Table.from_arrays(list(found.values()), schema=schema)

    def _plain_columns(self) -> set[str]:
        """Results that are columns of a frame of pandas in a type of numpy, which has no missing values."""
        store = None if self.columns is None else self.columns.store
        if not isinstance(store, PandasStore):
            return set()
        shown = {**self.carried(), **{name: own for name in self.kinds if (own := self._own_column(name)) is not None}}
        return {name for name, theirs in shown.items() if store.is_plain(theirs)}

    def pandas(self) -> Any:
        """Whole numbers stay whole beside missing ones; the input's columns have the types that they came with."""
        import pandas

        found: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            own = self._own_column(name)
            if own is not None:
                assert self.columns is not None
                found[name] = self.columns.store.pandas(own, self.places)
            elif name == "id":
                found[name] = to_nullable(
                    _id_array(self._values(name), self.columns is not None and self.columns.numbered)
                )
            else:
                values = [id_text(value) for value in self._values(name)] if kind == "id" else self._values(name)
                found[name] = pandas.Series(values, dtype=_PANDAS.get(kind, object))
        for shown, name in self.carried().items():
            found[shown] = (
                nullable_series(self._values(name))
                if self.columns is None
                else self.columns.store.pandas(name, self.places)
            )
        return pandas.DataFrame(found, index=range(len(self.rows)))

    def polars(self) -> Any:
        import polars

        frame = polars.DataFrame(polars.from_arrow(Results._without(self).arrow()))
        for name in self.kinds:
            own = self._own_column(name)
            if own is not None and self.columns is not None:
                frame = frame.with_columns(self.columns.store.polars(own, self.places).alias(name))
        for shown, name in self.carried().items():
            column = (
                polars.Series(shown, polars.from_arrow(json_array(self._values(name))))
                if self.columns is None
                else self.columns.store.polars(name, self.places).alias(shown)
            )
            frame = frame.with_columns(column)
        return frame

    def _without(self) -> Results:
        """The task's columns alone."""
        kept = {*FIXED[self.task], *self.kinds, *MORE[self.task]}
        flat = (
            None
            if "values" in self.kinds or self.task != "extract"
            else {name: kind for name, kind in self.kinds.items() if name not in FIXED[self.task]}
        )
        return Results(self.task, [{name: row[name] for name in row if name in kept} for row in self.rows], None, flat)


def _id_array(values: Sequence[Any], numbered: bool) -> Any:
    """Ids that are all whole numbers are a column of them; else they are texts."""
    arrow = pyarrow()
    whole = all(value is None or type(value) is int and -(2**63) <= value < 2**63 for value in values)
    if numbered or whole and any(value is not None for value in values):
        return arrow.array(values, type=arrow.int64())
    return arrow.array([id_text(value) for value in values], type=arrow.string())


def _id_lists(values: Sequence[Any]) -> Any:
    """Lists of ids, each as a column of all of them would have it."""
    arrow = pyarrow()
    flat = _id_array([one for ids in values for one in ids or []], False)
    kept = iter(flat.to_pylist())
    return arrow.array([None if ids is None else [next(kept) for _ in ids] for ids in values], arrow.list_(flat.type))


def pandas_types(columns: Mapping[str, Any], plain: set[str]) -> str:
    """What a schema tells pandas: whole numbers and truth values are nullable, but for `plain` ones. Without it those
    beside missing values become fractions when pandas reads the file, and large ones are rounded."""
    arrow = pyarrow()
    told = []
    for name, column in columns.items():
        kind = str(column.type)
        if name not in plain and (arrow.types.is_integer(column.type) or arrow.types.is_boolean(column.type)):
            numpy_type = "boolean" if kind == "bool" else kind.replace("uint", "UInt").replace("int", "Int")
            types = {"pandas_type": kind, "numpy_type": numpy_type, "metadata": None}
            told.append({"name": name, "field_name": name, **types})
    return json.dumps({"index_columns": [], "column_indexes": [], "columns": told})


def check_arrow(columns: InputColumns) -> None:
    """Before the work of a job that writes Parquet: every column of a table can be written. Raises an Error that names one
    that cannot."""
    arrow = pyarrow()
    for name in columns.store.names if columns.is_table else []:
        column = columns.store.arrow(name, [])
        try:
            arrow.parquet.write_table(arrow.table({name: column}), arrow.BufferOutputStream())
        except arrow.ArrowException as error:
            raise Error(f"column '{name}': Parquet has no type for {column.type}: {error}", "input") from error
