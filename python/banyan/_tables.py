"""What a job can read: files and folders, rows that are dicts, tables of pandas, Polars and Arrow, anything that speaks
Arrow's C stream. Rows come out one after another; the columns that the task does not read are kept beside them."""

from __future__ import annotations

import collections
import collections.abc
import glob
import itertools
import math
import os
import urllib.parse
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union

from . import _storage
from ._columns import ArrowStore, InputColumns, PandasStore, PolarsStore, RowStore
from ._errors import Error
from ._names import DOCUMENT_FIELD
from ._option_table import TABLE_TASKS

#: A file or several, texts, rows as dicts, a table of pandas, Polars or Arrow, or what has `__arrow_c_stream__`.
Data = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Iterable[Mapping[str, Any]], Any]

# Fields that mean something: null in a table's column is a cell without a value.
_OURS = {"id", "questions", "question", "question_id", "choices", "instruction", "documents", "category"}
_SLICE_ROWS = 4096


def pyarrow() -> Any:
    """pyarrow, or an Error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Error(
            "Parquet files and Arrow tables need pyarrow: pip install 'banyan-engine[arrow]'", "unsupported"
        ) from error
    return pyarrow


# --- Files

_PARQUET = (".parquet", ".pq")
_FILE_ENDINGS = (
    *_PARQUET,
    ".jsonl",
    ".ndjson",
    ".json",
    ".csv",
    ".tsv",
    ".tab",
    ".txt",
    ".md",
    ".html",
    ".htm",
    ".pdf",
)
_PACKED = (".gz", ".zst", ".bz2", ".xz")


def is_parquet(path: str) -> bool:
    return _storage.plain_name(path).endswith(_PARQUET)


def _names_a_file(one: str | os.PathLike[str]) -> bool:
    """Whether a text is meant as a path: it is there, or looks like nothing else."""
    if not isinstance(one, str) or _storage.is_url(one) or os.path.exists(one):
        return True
    plain = next((one[: -len(ending)] for ending in _PACKED if one.endswith(ending)), one)
    ends_so = plain.lower().endswith(_FILE_ENDINGS)
    if any(mark.isspace() for mark in one):
        return ends_so and one.startswith(("/", "./", "../", "~/")) and "\n" not in one
    return ends_so or "/" in one or one == "-"


def is_text(one: str | os.PathLike[str]) -> bool:
    """Whether it is a text, and no name of a file."""
    return not _names_a_file(one)


class ParquetPath(str):
    """A file of a partitioned folder, with the columns that its place in the folder gives: ``year=2024/part.parquet``."""

    partitions: Mapping[str, Any] = {}  # name → an Arrow scalar


def as_paths(data: Data) -> list[str] | None:
    """The files that are meant; None when `data` holds the rows themselves. Patterns and folders of Parquet files are
    their files, sorted, also at URLs; other patterns and folders are left to the library."""
    if isinstance(data, (str, os.PathLike)):
        return _parquet_expanded(os.fspath(data))
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, os.PathLike)) for one in data):
        return [path for one in data for path in _parquet_expanded(os.fspath(one))]
    return None


def _parquet_expanded(path: str) -> list[str]:
    if isinstance(path, ParquetPath):
        return [path]
    if _storage.is_url(path):
        return _partitioned(path, _storage.files(path, _PARQUET))
    if is_parquet(path) and not os.path.exists(path) and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise Error(f"{path}: no file is named like this", "not_found")
        return _partitioned(path, found)
    return _partitioned(path, _parquet_parts(path)) or [path]


def _parquet_parts(folder: str) -> list[str]:
    """The files of a folder of Parquet files, as Spark and DuckDB write them: parts below, marks such as _SUCCESS beside
    them. None of a folder without any; one that has other files too is refused: which are meant?"""
    files: list[str] = []
    other = ""
    for below, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in names:
            if not name.startswith(("_", ".")):
                path = os.path.join(below, name)
                files += [path] if is_parquet(name) else []
                other = other or ("" if is_parquet(name) else path)
    if files and other:
        raise Error(
            f"{folder}: has Parquet files and others ({other}); name those that are meant, such as "
            f"{os.path.join(folder, '**', '*.parquet')}",
            "input",
        )
    return sorted(files)


def _partitioned(given: str, files: list[str]) -> list[str]:
    """Files with the columns that folders between them and what was given name, as pyarrow reads them."""
    whole = _without_query(given)
    fixed = whole[: next((at for at, mark in enumerate(whole) if mark in "*?["), len(whole))]
    plain = [_without_query(path) for path in files]
    below = [path[len(os.path.commonprefix([path, fixed])) :] for path in plain]
    if not any("=" in os.path.dirname(path) for path in below):
        return files
    arrow = pyarrow()
    keys = [dict(part.split("=", 1) for part in os.path.dirname(path).split("/") if "=" in part) for path in below]
    types: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in keys for name in one):
        values = [one[name] for one in keys if one.get(name, _NO_PARTITION) != _NO_PARTITION]
        types[name] = arrow.int32() if values and all(_is_int32(value) for value in values) else arrow.string()
    found: list[str] = []
    for path, one in zip(files, keys):
        named = ParquetPath(path)
        named.partitions = {
            name: arrow.scalar(_partition_value(one.get(name), kind == arrow.int32()), type=kind)
            for name, kind in types.items()
        }
        found.append(named)
    return found


def _without_query(path: str) -> str:
    """A URL without what it says of its store."""
    return path.split("?", 1)[0] if _storage.is_url(path) else path


_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def _is_int32(text: str) -> bool:
    return text.lstrip("-").isdecimal() and text.isascii() and -(2**31) <= int(text) < 2**31


def _partition_value(text: str | None, is_number: bool) -> int | str | None:
    if text is None or text == _NO_PARTITION:
        return None
    return int(text) if is_number else urllib.parse.unquote(text)


def parquet_file(path: str) -> Any:
    arrow = pyarrow()
    try:
        return arrow.parquet.ParquetFile(_storage.open_file(path) if _storage.is_url(path) else str(path))
    except FileNotFoundError as error:
        raise Error(f"{path}: no such file", "not_found") from error
    except (arrow.ArrowException, OSError) as error:
        raise Error(f"{path}: not a Parquet file: {error}", "format") from error


def _partitions_of(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Columns that the file's place gives and the file itself has not."""
    return {name: value for name, value in getattr(path, "partitions", {}).items() if name not in names}


def _parquet_schema(path: str, schema: Any) -> Any:
    for name, value in _partitions_of(path, schema.names).items():
        schema = schema.append(pyarrow().field(name, value.type))
    return schema


def _parquet_batches(path: str, file: Any) -> Iterator[Any]:
    arrow = pyarrow()
    more = _partitions_of(path, file.schema_arrow.names)
    for batch in file.iter_batches():
        arrays = [*batch.columns, *(arrow.repeat(value, batch.num_rows) for value in more.values())]
        yield arrow.RecordBatch.from_arrays(arrays, schema=_parquet_schema(path, file.schema_arrow.remove_metadata()))


def check_parquet(paths: Sequence[str], columns: InputColumns) -> None:
    """Before the work: the schemas of all files together are one, and make the columns' store."""
    arrow = pyarrow()
    schemas = []
    for path in paths:
        with parquet_file(path) as file:
            schemas.append(_parquet_schema(path, file.schema_arrow.remove_metadata()))
            _check_names(schemas[-1].names, str(path))
    whole = schemas[0]
    for path, schema in zip(paths[1:], schemas[1:]):
        try:
            whole = arrow.unify_schemas([whole, schema], promote_options="permissive")
        except (arrow.ArrowException, TypeError) as error:
            raise Error(f"{path}: its columns do not fit those of {paths[0]}: {error}", "input") from error
    columns.check(whole.names)
    kept = columns.kept(whole.names)
    columns.store = ArrowStore(arrow.schema([whole.field(name) for name in kept]))
    columns.numbered = len(paths) == 1 and columns.has_column("id") is None


def _check_names(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in collections.Counter(names).items() if count > 1]
    if twice:
        raise Error(f"{where}: two columns have the name '{twice[0]}'; expected different names", "input")


# --- Texts and columns of texts


def _kind(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__name__}"


def is_pandas(data: Any) -> bool:
    kind = _kind(data)
    return kind.startswith("pandas.") and kind.endswith("DataFrame")


def is_series(data: Any) -> bool:
    """One column: a series of pandas or Polars, an array of Arrow or numpy."""
    kind = _kind(data)
    return (
        kind.startswith(("pandas.", "polars."))
        and kind.endswith("Series")
        or kind.startswith("pyarrow.")
        and kind.endswith("Array")
        or kind == "numpy.ndarray"
    )


def as_table(data: Data, task: str, fields: Mapping[str, str] | None) -> Data:
    """Texts alone are a table of one column: the task's document."""
    document = DOCUMENT_FIELD[task]
    name = (fields or {}).get(document, document)
    if isinstance(data, Mapping):
        raise Error("data: expected rows, found a dict; one row is [row]", "input")
    if isinstance(data, str) and not _names_a_file(data):
        shown = data if len(data) <= 60 else data[:59] + "…"
        raise Error(f"{shown}: no such file; a text is given as a list, [text]", "not_found")
    if isinstance(data, (list, tuple)) and any(isinstance(one, str) for one in data):
        texts = [one for one in data if isinstance(one, str) and not _names_a_file(one)]
        if texts and all(one is None or isinstance(one, str) and not _names_a_file(one) for one in data):
            return [{name: one} for one in data]
        if texts and all(isinstance(one, (str, os.PathLike)) for one in data):
            raise Error(f"{texts[0][:60]}: no such input file; expected files alone, or texts alone", "not_found")
    if not is_series(data):
        return data
    kind = _kind(data)
    series: Any = data
    if kind.startswith(("pandas.", "polars.")):
        return series.to_frame(name)
    if kind.startswith("pyarrow."):
        return pyarrow().table({name: series})
    if series.ndim != 1:
        raise Error(f"data: expected one column of texts, found an array of {series.ndim} dimensions", "input")
    return [{name: one} for one in series.tolist()]


# --- Rows


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


class _Unreadable:
    """A cell that Python has no value for: a date of the year 20000."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _python_values(column: Any) -> list[Any]:
    """Of an Arrow array; a cell that Python cannot hold does not take the others with it."""
    try:
        return list(column.to_pylist())
    except Exception:
        values: list[Any] = []
        for cell in column:
            try:
                values.append(cell.as_py())
            except Exception as error:
                values.append(_Unreadable(str(error)))
        return values


def _our_names(columns: InputColumns) -> frozenset[str]:
    """Columns whose empty cells say nothing, by the input's names of them."""
    ours_of = {"id"} if columns.task in TABLE_TASKS else _OURS
    return frozenset(ours_of | {theirs for ours, theirs in columns.fields.items() if ours in ours_of})


def _zipped(
    names: Sequence[str], columns: Iterable[Iterable[Any]], count: int, ours: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Rows of columns: cells without a value are null, and none at all for our own fields."""
    if not names:
        yield from ({} for _ in range(count))
    for cells in zip(*columns):
        row = {name: (None if _is_missing(value) else value) for name, value in zip(names, cells)}
        yield {name: value for name, value in row.items() if value is not None or name not in ours}


def _arrow_rows(batches: Iterable[Any], columns: InputColumns) -> Iterator[dict[str, Any]]:
    arrow = pyarrow()
    store = columns.store
    schema = arrow.schema([]) if store is None else store._schema
    for batch in batches:
        if store is not None:
            table = arrow.Table.from_batches([batch])
            arrays = [
                (
                    table.column(field.name).cast(field.type)
                    if field.name in table.column_names
                    else arrow.chunked_array([arrow.nulls(batch.num_rows, field.type)])
                )
                for field in schema
            ]
            for kept in arrow.Table.from_arrays(arrays, schema=schema).to_batches() if arrays else []:
                store.add(kept)
        yield from _zipped(
            batch.schema.names,
            [_python_values(column) for column in batch.columns],
            batch.num_rows,
            _our_names(columns),
        )


def _pandas_frame(frame: Any, their_id: str) -> Any:
    """With text for names, and with the index: as the id where there is none and labels are unique, else as columns of
    their names."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    _check_names(list(frame.columns), "the frame")
    index = frame.index
    plain_range = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    if their_id not in frame.columns and index.nlevels == 1 and index.is_unique:
        before = {their_id: index}
    elif plain_range:
        before = {}
    else:
        before = {
            (
                str(name) if name is not None else "index" if index.nlevels == 1 else f"level_{level}"
            ): index.get_level_values(level)
            for level, name in enumerate(index.names)
        }
    frame = frame.reset_index(drop=True)
    _check_names([*before, *frame.columns], "the frame with its index")
    for place, (name, labels) in enumerate(before.items()):
        frame.insert(place, name, labels)
    return frame


def _pandas_rows(given: Any, columns: InputColumns) -> Iterator[dict[str, Any]]:
    frame = _pandas_frame(given, columns.their_id)
    names = list(frame.columns)
    columns.check(names)
    columns.store = PandasStore(frame[columns.kept(names)])
    return _zipped(names, [frame[name] for name in names], len(frame), _our_names(columns))


def _polars_rows(frames: Iterable[Any], schema: Any, columns: InputColumns) -> Iterator[dict[str, Any]]:
    columns.check(schema.columns)
    kept = columns.kept(schema.columns)
    columns.store = PolarsStore(schema.select(kept))

    def rows() -> Iterator[dict[str, Any]]:
        for frame in frames:
            columns.store.add(frame.select(kept))
            for part in frame.iter_slices(_SLICE_ROWS):
                yield from _zipped(
                    part.columns,
                    [_polars_values(one) for one in part.get_columns()],
                    part.height,
                    _our_names(columns),
                )

    return rows()


def _polars_values(series: Any) -> list[Any]:
    try:
        return _python_values(series.to_arrow())  # nanoseconds, which Python's own dates have not
    except BaseException as error:  # Polars panics for what Arrow has not
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return list(series.to_list())


def arrow_batches(data: Any) -> tuple[Any, Iterable[Any]] | None:
    """Schema and batches of what speaks Arrow; None for anything else."""
    kind = _kind(data)
    if kind.startswith("pyarrow.") and kind.endswith("RecordBatch"):
        return data.schema, [data]
    if kind.startswith("pyarrow.") and hasattr(data, "to_batches") and hasattr(data, "schema"):
        return data.schema, data.to_batches()
    if kind.startswith("pyarrow.") and kind.endswith("RecordBatchReader"):
        return data.schema, data
    if hasattr(data, "__arrow_c_stream__") and not is_pandas(data):
        reader = pyarrow().RecordBatchReader.from_stream(data)
        return reader.schema, reader
    return None


def _dict_rows(data: Iterable[Any], columns: InputColumns) -> Iterator[dict[str, Any]]:
    if not isinstance(data, collections.abc.Iterable) or isinstance(data, (str, bytes, bytearray, set, frozenset)):
        raise Error(f"data: expected files, texts, rows or a table, found {type(data).__name__}", "input")
    columns.store = RowStore()
    document = columns.fields.get(DOCUMENT_FIELD[columns.task], DOCUMENT_FIELD[columns.task])
    carries_all = columns.task in TABLE_TASKS
    for place, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise Error(f"row {place}: expected a dict, found {type(row).__name__}", "input", row=place)
        columns.store.add({str(name): value for name, value in row.items() if carries_all or name != document})
        yield dict(row)


def _rows_of(data: Any, columns: InputColumns) -> Iterator[dict[str, Any]]:
    kind = _kind(data)
    if is_pandas(data):
        return _pandas_rows(data, columns)
    if kind.startswith("polars.") and kind.endswith("LazyFrame") and hasattr(data, "collect_batches"):
        return _polars_rows(data.collect_batches(maintain_order=True), data.head(0).collect(), columns)
    if kind.startswith("polars.") and kind.endswith("Frame"):
        frame = data.collect() if kind.endswith("LazyFrame") else data
        return _polars_rows([frame], frame.head(0), columns)
    batches = arrow_batches(data)
    if batches is None:
        return _dict_rows(data, columns)
    schema = batches[0].remove_metadata()
    _check_names(schema.names, "the table")
    columns.check(schema.names)
    columns.store = ArrowStore(pyarrow().schema([schema.field(name) for name in columns.kept(schema.names)]))
    return _arrow_rows(batches[1], columns)


def _some_have_ids(data: Any, their_id: str) -> bool:
    """Whether rows bring ids: then a row without one gets a name that none of them has."""
    if isinstance(data, (list, tuple)):
        return any(isinstance(row, Mapping) and row.get(their_id) is not None for row in data)
    return False


def iterate_rows(
    data: Data, columns: InputColumns, limit: int | None = None, name: str = "rows"
) -> Iterator[Mapping[str, Any]]:
    """Rows that are in memory, one after another and no more than `limit`, each with an id: its own, a pandas
    index's, or its place from 0; ``row 7`` among rows that have ids of their own."""
    their_id = columns.their_id
    rows = _rows_of(data, columns)
    has_ids = columns.has_column("id") is not None or _some_have_ids(data, their_id)
    columns.numbered = not has_ids and columns.is_table
    columns.places.begin(name)
    question = columns.fields.get("question_id", "question_id")
    for place, row in enumerate(itertools.islice(rows, limit)):
        if row.get(their_id) is None:
            row = {their_id: row_name(place) if has_ids else place, **{n: v for n, v in row.items() if n != their_id}}
        elif not has_ids:
            has_ids = True
            columns.first_id = place
        columns.places.add(row[their_id], row.get(question))
        yield row


def row_name(place: int) -> str:
    """The id of a row that has none, among rows that have."""
    return f"row {place}"


def parquet_rows(path: str, columns: InputColumns, several: bool) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a batch at a time, each with an id: its own, or its line, from 1, with the file's name
    before it where there are `several` or where other rows have ids."""
    their_id = columns.their_id
    question = columns.fields.get("question_id", "question_id")
    columns.places.begin(str(path))
    with parquet_file(path) as file:
        has_ids = their_id in file.schema_arrow.names or columns.has_column("id") is not None
        for line, row in enumerate(_arrow_rows(_parquet_batches(path, file), columns), 1):
            if row.get(their_id) is None:
                row = {their_id: f"{path}:{line}" if has_ids or several else line, **row}
            columns.places.add(row[their_id], row.get(question))
            yield row
