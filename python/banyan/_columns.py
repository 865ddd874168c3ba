"""The input's own columns beside a job. A job reads JSON and writes JSON; what it does not read must not go through it.
Columns are kept here as they were given while the rows are written out, and stand beside the results afterwards, by the
row that each answer belongs to. Every door uses this: lists, pandas, Polars, Arrow, Parquet, DuckDB, Ray, the command.
"""

from __future__ import annotations

import datetime
import decimal
import json
import numbers
import re
from typing import Any, Iterable, Mapping, Sequence

from . import _native
from ._errors import Error
from ._names import DOCUMENT_FIELD, FIELDS, did_you_mean
from ._option_table import TABLE_TASKS
from ._values import NoJson, json_text, nan_as_null

_OTHER_DOCUMENT = {"ask": "text", "extract": "context"}
# Instead of the document's column.
_INSTEAD = {"ask": ("documents",), "extract": ("documents",)}
_PREFIX = "input_"


def read_fields(task: str, fields: Mapping[str, str] | None, names: Iterable[str]) -> set[str]:
    """Of these names of the input those that the task reads; all others are carried."""
    given, mapped = set(names), dict(fields or {})
    read = {mapped.get(ours, ours) for ours in FIELDS[task] if ours != "adapter"}
    document = DOCUMENT_FIELD[task]
    if task in _OTHER_DOCUMENT and document not in mapped and document not in given and "documents" not in given:
        read.add(_OTHER_DOCUMENT[task])
    return read & given


def template_names(options: Mapping[str, Any]) -> list[str]:
    """The fields that a task's template puts into prompts."""
    return re.findall(r"{([^{}]+)}", str(options.get("template") or options.get("prompt_template") or ""))


def carried_names(
    task: str, fields: Mapping[str, str] | None, names: Sequence[str], flat: Sequence[str] = ()
) -> dict[str, str]:
    """Carried columns and what results call them: ``input_`` stands before a name that results have, or that ``fields``
    gives to another column. Raises an Error for a name that comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Error(f"the input has two columns '{name}'; expected different names", "input")
        seen.add(name)
    read = read_fields(task, fields, names)
    displaced = {ours for ours, theirs in (fields or {}).items() if ours != theirs}
    carried = [name for name in names if name not in read and name not in displaced]
    # Rows of tables have a column by the name that the prompt has for it.
    ours_of = {theirs: ours for ours, theirs in (fields or {}).items()} if task in TABLE_TASKS else {}
    plain = [ours_of.get(name, name) for name in carried]
    found = dict(zip(carried, _native.carried_names(task, plain, list(flat)) if task != "embed" else carried))
    for name in names:
        if name in displaced and name not in read:
            shown = _PREFIX + name
            while shown in seen:
                shown = _PREFIX + shown
            found[name] = shown
    return {name: found[name] for name in names if name in found}


def check_needed(
    task: str, fields: Mapping[str, str], names: Sequence[str], asked_of_all: bool = True, columns: Iterable[str] = ()
) -> None:
    """Before the work: a table whose rows could none of them be asked is refused, as a CSV file is. Raises an Error
    that says what it has. `columns`: those of a table's prompt."""
    document = DOCUMENT_FIELD[task]
    needed: list[tuple[str, tuple[str, ...]]] = []
    if task in TABLE_TASKS:
        ours_of = {theirs: ours for ours, theirs in fields.items()}
        needed += [(ours_of.get(column, column), ()) for column in columns]
    if task in _OTHER_DOCUMENT:
        other = () if document in fields else (_OTHER_DOCUMENT[task],)
        needed.append((document, (*other, *_INSTEAD[task])))
    if task == "ask" and not asked_of_all:
        needed.append(("question", (fields.get("questions", "questions"),)))
    for ours, others in needed:
        theirs = fields.get(ours, ours)
        is_empty = set(names) <= {fields.get("id", "id")}  # a frame of nothing has its index
        if not is_empty and not {theirs, *others} & set(names):
            shown = ", ".join(names)
            raise Error(
                f"expected a column '{theirs}'; the input has {shown} (--field {ours}=NAME says which one it is)"
                + did_you_mean(theirs, names)
            )
    for ours, theirs in fields.items():
        if ours != "id" and names and theirs not in names:
            raise Error(
                f"expected a column '{theirs}' for '{ours}'; the input has {', '.join(names)}" + did_you_mean(theirs, names)
            )


def _key(value: Any) -> str:
    """Equal for a value and what JSON makes of it."""
    if type(value) is str:
        return "text " + value
    if type(value) is int:
        return str(value)
    try:
        found = json.loads(json_text(value))
        return _key(found) if isinstance(found, (str, int)) and not isinstance(found, bool) else json.dumps(found)
    except NoJson:
        return ""


class Places:
    """Which row of the input a row of the output belongs to: by the line that an error names, else by the id."""

    def __init__(self) -> None:
        self.count = 0
        self._files: dict[str, int] = {}  # → place of its first row
        self._by_id: dict[str, list[int]] = {}
        self._shared = False  # some rows have one id
        self._questions: dict[int, str] = {}  # place → the row's own question_id

    def begin(self, file: str) -> None:
        self._files[file] = self.count

    def add(self, id: Any, question_id: Any = None) -> None:
        places = self._by_id.setdefault(_key(id), [])
        places.append(self.count)
        self._shared |= len(places) > 1
        if question_id is not None:
            self._questions[self.count] = _key(question_id)
        self.count += 1

    def first(self, id: Any) -> int | None:
        """The place of the first row of this id."""
        return next(iter(self._by_id.get(_key(id), [])), None)

    def rename(self, place: int, old: Any, new: Any) -> None:
        """The row had no id, and the one that it was given shall be another."""
        self._by_id[_key(old)].remove(place)
        self._by_id.setdefault(_key(new), []).append(place)

    def of(self, rows: Iterable[Mapping[str, Any]]) -> list[int | None]:
        """A place for every row; None where it belongs to none."""
        used: set[tuple[int, str]] = set()
        found: list[int | None] = []
        for row in rows:
            place = self._of(row, used)
            if place is not None and self._shared:
                used.add((place, _key(row.get("question_id"))))
            found.append(place)
        return found

    def _of(self, row: Mapping[str, Any], used: set[tuple[int, str]]) -> int | None:
        error = row.get("error")
        if isinstance(error, Mapping) and error.get("line") and error.get("file") in self._files:
            return self._files[error["file"]] + int(error["line"]) - 1
        places = self._by_id.get(_key(row.get("id")), [])
        if len(places) > 1:  # rows with one question each: the pair is unique, but for questions of all rows
            question = _key(row.get("question_id"))
            own = [place for place in places if self._questions.get(place) == question]
            places = own or [place for place in places if (place, question) not in used] or places
        return places[0] if places else None


_SCALARS = (
    bool,
    int,
    float,
    str,
    bytes,
    decimal.Decimal,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)


def json_array(values: Sequence[Any]) -> Any:
    """Values of JSON or Python as an Arrow array: of the one type that all have, else their JSON as text."""
    import pyarrow

    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if len(kinds) == 1 and next(iter(kinds)) in _SCALARS:
        for wanted in ([None] if kinds != {int} else [pyarrow.int64(), pyarrow.uint64()]):
            try:
                return pyarrow.array(values, type=wanted)
            except (pyarrow.ArrowException, OverflowError, ValueError):
                continue
    if kinds == {int, float}:
        doubles = [None if value is None else float(value) for value in values]
        if all(one is None or not isinstance(value, int) or int(one) == value for one, value in zip(doubles, values)):
            return pyarrow.array(doubles, type=pyarrow.float64())
    texts = values if kinds <= {str} else [None if value is None else _text(value) for value in values]
    return pyarrow.array(texts, type=pyarrow.string())


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json_text(nan_as_null(value))
    except NoJson:
        return str(value)


def nullable_series(values: Sequence[Any]) -> Any:
    """A series whose whole numbers and truth values stay so beside missing ones."""
    import pandas

    kinds = {type(value) for value in values if value is not None}
    dtype: Any = object
    if kinds == {int}:
        dtype = "Int64" if all(value is None or -(2**63) <= value < 2**63 for value in values) else object
    elif kinds == {bool}:
        dtype = "boolean"
    elif kinds == {float}:
        dtype = "float64"
    return pandas.Series(list(values), dtype=dtype)


def to_nullable(array: Any) -> Any:
    """An Arrow array as a series of pandas, by its type alone: missing values change no type."""
    import pandas
    import pyarrow

    types = {
        pyarrow.int8(): pandas.Int8Dtype(),
        pyarrow.int16(): pandas.Int16Dtype(),
        pyarrow.int32(): pandas.Int32Dtype(),
        pyarrow.int64(): pandas.Int64Dtype(),
        pyarrow.uint8(): pandas.UInt8Dtype(),
        pyarrow.uint16(): pandas.UInt16Dtype(),
        pyarrow.uint32(): pandas.UInt32Dtype(),
        pyarrow.uint64(): pandas.UInt64Dtype(),
        pyarrow.bool_(): pandas.BooleanDtype(),
    }
    try:
        return pyarrow.table({"": array}).to_pandas(types_mapper=types.get)[""]
    except (
        pyarrow.ArrowException,
        ValueError,
        OverflowError,
    ):  # a type or a value that pandas has not: as Arrow has it
        return pandas.Series(pandas.arrays.ArrowExtensionArray(pyarrow.chunked_array(array)))


def _arrow_taken(column: Any, places: Sequence[int | None]) -> Any:
    import pyarrow

    if list(places) == list(range(len(column))):
        return column
    try:
        return column.take(pyarrow.array(places, type=pyarrow.int64()))
    except pyarrow.ArrowNotImplementedError:  # of types that cannot be gathered: slice by slice
        null = pyarrow.nulls(1, column.type)
        parts = [pyarrow.chunked_array([null]) if place is None else column.slice(place, 1) for place in places]
        return pyarrow.chunked_array([chunk for part in parts for chunk in part.chunks], type=column.type)


class _Typed:
    """Columns that have a type whatever they hold."""

    def has_values(self, _: str) -> bool:
        return True


class ArrowStore(_Typed):
    """Columns of batches as they pass by."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._batches: list[Any] = []
        self.names = list(schema.names)
        self._table: Any = None

    def add(self, batch: Any) -> None:
        self._batches.append(batch)

    def arrow(self, name: str, places: Sequence[int | None]) -> Any:
        import pyarrow

        if self._table is None:
            self._table = pyarrow.Table.from_batches(self._batches, self._schema)
        return _arrow_taken(self._table.column(name), places)

    def pandas(self, name: str, places: Sequence[int | None]) -> Any:
        return to_nullable(self.arrow(name, places))

    def polars(self, name: str, places: Sequence[int | None]) -> Any:
        import polars

        return polars.Series(name, polars.from_arrow(self.arrow(name, places)))


class PandasStore(_Typed):
    """A frame's columns, of whatever type."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame.copy()  # the caller's own may change while the answers are looked at
        self.names = list(frame.columns)

    def is_plain(self, name: str) -> bool:
        """The column's type is one of numpy."""
        return type(self._frame[name].dtype).__module__.startswith("numpy")

    def pandas(self, name: str, places: Sequence[int | None]) -> Any:
        column = self._frame[name]
        if None in places:
            return (
                column.reset_index(drop=True)
                .reindex([-1 if place is None else place for place in places])
                .reset_index(drop=True)
            )
        return column.iloc[list(places)].reset_index(drop=True)

    def arrow(self, name: str, places: Sequence[int | None]) -> Any:
        import pyarrow

        column = self._frame[name]
        if str(column.dtype).startswith("Sparse"):
            column = column.sparse.to_dense()
        try:
            whole = pyarrow.chunked_array(_array_of(column)) if len(column) else _empty(column)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            values = [None if _no_value(value) else value for value in column]
            if not all(value is None or isinstance(value, (*_SCALARS, list, tuple, dict)) for value in values):
                raise Error(
                    f"column '{name}': Arrow and Parquet have no type for {column.dtype}: {error}", "input"
                ) from error
            whole = pyarrow.chunked_array([json_array(values)])
        return _arrow_taken(whole, places)

    def polars(self, name: str, places: Sequence[int | None]) -> Any:
        import polars

        return polars.Series(name, polars.from_arrow(self.arrow(name, places)))


def _array_of(column: Any) -> Any:
    """A series of pandas as Arrow. What is missing is null; NaN in lists and arrays is the number that it is."""
    import pyarrow

    is_nested = column.dtype == object and any(_is_nested(value) for value in column)
    if not is_nested:
        return pyarrow.Array.from_pandas(column)
    return pyarrow.array([None if _no_value(value) else value for value in column], from_pandas=False)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) or type(value).__name__ == "ndarray"


def _no_value(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number) and bool(value != value)


def _empty(column: Any) -> Any:
    import pyarrow

    kind = pyarrow.Schema.from_pandas(column.to_frame(name="c"), preserve_index=False).field("c").type
    # A column of objects without a value says nothing of its type.
    return pyarrow.chunked_array([], type=pyarrow.string() if pyarrow.types.is_null(kind) else kind)


class PolarsStore(_Typed):
    """Columns of frames as they pass by."""

    def __init__(self, frame: Any) -> None:
        self._frames: list[Any] = []
        self._schema = frame.head(0)
        self.names = list(frame.columns)
        self._whole: Any = None

    def add(self, frame: Any) -> None:
        self._frames.append(frame)

    def polars(self, name: str, places: Sequence[int | None]) -> Any:
        import polars

        if self._whole is None:
            self._whole = polars.concat([self._schema, *self._frames])
        return self._whole.get_column(name).gather(polars.Series(list(places), dtype=polars.Int64))

    def arrow(self, name: str, places: Sequence[int | None]) -> Any:
        import pyarrow

        column = self.polars(name, places)
        if "Object" in str(column.dtype):
            raise Error(f"column '{name}': Arrow and Parquet have no type for {column.dtype}", "input")
        try:
            found = column.to_arrow()
        except BaseException as error:  # Polars panics for what Arrow has not
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise Error(
                f"column '{name}': Arrow and Parquet have no type for {column.dtype}: {error}", "input"
            ) from None
        return found if isinstance(found, pyarrow.ChunkedArray) else pyarrow.chunked_array([found])

    def pandas(self, name: str, places: Sequence[int | None]) -> Any:
        try:
            return to_nullable(self.arrow(name, places))
        except Error:
            return nullable_series(self.polars(name, places).to_list())


class RowStore:
    """Fields of rows that are dicts."""

    def __init__(self) -> None:
        self._rows: list[Mapping[str, Any]] = []
        self.names: list[str] = []
        self._known: set[str] = set()

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        for name in row:
            if name not in self._known:
                self._known.add(name)
                self.names.append(name)

    def has_values(self, name: str) -> bool:
        return any(row.get(name) is not None for row in self._rows)

    def _values(self, name: str, places: Sequence[int | None]) -> list[Any]:
        return [None if place is None else self._rows[place].get(name) for place in places]

    def arrow(self, name: str, places: Sequence[int | None]) -> Any:
        return json_array(self._values(name, places))

    def pandas(self, name: str, places: Sequence[int | None]) -> Any:
        return nullable_series(self._values(name, places))

    def polars(self, name: str, places: Sequence[int | None]) -> Any:
        import polars

        return polars.Series(name, polars.from_arrow(self.arrow(name, places)))


class InputColumns:
    """Of one job: what the input has besides what the task reads, and which row is whose."""

    def __init__(
        self,
        task: str,
        fields: Mapping[str, str] | None = None,
        *,
        flat: Sequence[str] = (),
        needed: Iterable[str] = (),
        asked_of_all: bool = True,
    ) -> None:
        self.task, self.fields, self.flat = task, dict(fields or {}), list(flat)
        self.asked_of_all = asked_of_all  # rows need no questions of their own
        self._wanted = list(needed)
        self.needed = set(self._wanted)  # what prompts are made of: without it a row cannot be asked
        self.places = Places()
        self.store: Any = None  # None: the input is no table, and what it carries is in the rows
        self.numbered = False  # the input is a table without ids: those of the rows are their numbers
        self.first_id: int | None = None  # of rows that are no table: the first one that brought an id
        self.lost: dict[str, int] = {}  # values without a form in JSON, by column
        self._shown: dict[str, str] = {}

    @property
    def their_id(self) -> str:
        return self.fields.get("id", "id")

    def parts(self) -> list[InputColumns]:
        """Of the tables that are read, each one's."""
        return [self]

    @property
    def is_table(self) -> bool:
        """The input's columns have types, whatever they hold."""
        return isinstance(self.store, _Typed)

    def check(self, names: Sequence[str]) -> None:
        """Before the work: what is read is there, every column comes once, and none of the results takes its name."""
        check_needed(self.task, self.fields, names, self.asked_of_all, self._wanted)
        self._shown = carried_names(self.task, self.fields, names, self.flat)
        self.needed |= read_fields(self.task, self.fields, names)

    def kept(self, names: Sequence[str]) -> list[str]:
        """Of a table's columns those that come back: carried ones and ids."""
        ids = {self.fields.get(ours, ours) for ours in ("id", "question_id")}
        return [name for name in names if name in self._shown or name in ids]

    def carried(self) -> dict[str, str]:
        """The columns of the store beside the results: the input's name → the result's."""
        if self.store is None:
            return {}
        if isinstance(self.store, RowStore):
            return carried_names(self.task, self.fields, self.store.names, self.flat)
        return self._shown

    def has_column(self, ours: str) -> str | None:
        """The input's column for our field, where it has one."""
        theirs = self.fields.get(ours, ours)
        return (
            theirs if self.store is not None and theirs in self.store.names and self.store.has_values(theirs) else None
        )
