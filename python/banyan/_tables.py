"""Rows that are in memory or in Parquet files, one after another: dicts, pandas, Polars, Arrow, anything that speaks
Arrow's C stream."""
from __future__ import annotations

import glob
import itertools
import math
import os
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union

from . import _storage
from ._errors import Error

#: A file or several, rows as dicts, a table of pandas, Polars or Arrow, or what has `__arrow_c_stream__`.
Data = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Iterable[Mapping[str, Any]], Any]

# Fields that mean something: null in a table's column is a cell without a value.
_OURS = {"id", "questions", "question", "question_id", "choices", "instruction", "documents", "category"}


def pyarrow() -> Any:
    """pyarrow, or an Error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Error("Parquet files and Arrow tables need pyarrow: pip install 'banyan[arrow]'", "unsupported") from error
    return pyarrow


_PARQUET = (".parquet", ".pq")


def is_parquet(path: str) -> bool:
    return _storage.plain_name(path).endswith(_PARQUET)


def as_paths(data: Data) -> list[str] | None:
    """The files that are meant; None when `data` holds the rows themselves. Patterns and folders of Parquet files are
    their files, sorted, also at URLs; other patterns and folders are left to the library."""
    if isinstance(data, (str, os.PathLike)):
        return _parquet_expanded(os.fspath(data))
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, os.PathLike)) for one in data):
        return [path for one in data for path in _parquet_expanded(os.fspath(one))]
    return None


def _parquet_expanded(path: str) -> list[str]:
    if _storage.is_url(path):
        return _storage.files(path, _PARQUET)
    if is_parquet(path) and not os.path.exists(path) and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise Error(f"{path}: no file is named like this", "not_found")
        return found
    return _parquet_parts(path) or [path]


def _parquet_parts(folder: str) -> list[str]:
    """The files of a folder of Parquet files alone, as Spark and DuckDB write them: parts below, marks such as _SUCCESS
    beside them. None of any other folder, which is known with its first other file."""
    files: list[str] = []
    for below, _, names in os.walk(folder):
        for name in names:
            if name.startswith(("_", ".")):
                continue
            if not is_parquet(name):
                return []
            files.append(os.path.join(below, name))
    return sorted(files)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")


def _table_row(row: Mapping[Any, Any], ours: frozenset[str]) -> dict[str, Any]:
    """A table's row: cells without a value are null, and none at all for our own fields."""
    cells = {str(name): (None if _is_missing(value) else value) for name, value in row.items()}
    return {name: value for name, value in cells.items() if value is not None or name not in ours}


def _arrow_rows(batches: Iterable[Any], ours: frozenset[str]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield _table_row(row, ours)


def parquet_file(path: str) -> Any:
    arrow = pyarrow()
    try:
        return arrow.parquet.ParquetFile(_storage.open_file(path) if _storage.is_url(path) else path)
    except FileNotFoundError as error:
        raise Error(f"{path}: no such file", "not_found") from error
    except (arrow.ArrowException, OSError) as error:
        raise Error(f"{path}: not a Parquet file: {error}", "format") from error


def parquet_rows(path: str, fields: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a batch at a time."""
    with parquet_file(path) as file:
        yield from _arrow_rows(file.iter_batches(), _our_names(fields))


def _our_names(fields: Mapping[str, str] | None) -> frozenset[str]:
    """Columns whose empty cells say nothing, by the input's names of them."""
    return frozenset(_OURS | {theirs for ours, theirs in (fields or {}).items() if ours in _OURS})


def _kind(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__name__}"


def is_pandas(data: Any) -> bool:
    kind = _kind(data)
    return kind.startswith("pandas.") and kind.endswith("DataFrame")


def _pandas_rows(frame: Any, their_id: str, ours: frozenset[str]) -> Iterator[dict[str, Any]]:
    """With the index: as the id where there is none and labels are unique, else as columns of their names."""
    columns = [str(name) for name in frame.columns]
    plain_range = type(frame.index).__name__ == "RangeIndex" and frame.index.start == 0 and frame.index.step == 1
    names: list[str] = []
    if their_id not in columns and frame.index.nlevels == 1 and frame.index.is_unique:
        names = [their_id]
    elif not plain_range:
        names = [str(name) if name is not None else "index" if frame.index.nlevels == 1 else f"level_{level}"
                 for level, name in enumerate(frame.index.names)]
    labels = iter(frame.index) if names else itertools.repeat(None)
    for label, cells in zip(labels, frame.itertuples(index=False, name=None)):
        carried = dict(zip(names, label if isinstance(label, tuple) and len(names) > 1 else (label,)))
        yield _table_row({**carried, **dict(zip(columns, cells))}, ours)


def _lazy_batches(frame: Any) -> Iterator[Any]:
    """Of a lazy frame of Polars, as it is computed."""
    for chunk in frame.collect_batches(maintain_order=True):
        yield from chunk.to_arrow().to_batches()


def arrow_batches(data: Any) -> tuple[Any, Iterable[Any]] | None:
    """Schema and batches of what speaks Arrow; None for anything else."""
    kind = _kind(data)
    if kind.startswith("polars.") and kind.endswith("LazyFrame"):
        if hasattr(data, "collect_batches"):
            return data.head(0).collect().to_arrow().schema, _lazy_batches(data)
        data = data.collect()
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


def iterate_rows(data: Data, fields: Mapping[str, str] | None = None, limit: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Rows that are in memory, one after another and no more than `limit`, each with an id: its own, a pandas
    index's, or its place from 0."""
    their_id = (fields or {}).get("id", "id")
    ours = _our_names(fields)
    rows: Iterable[Any]
    if is_pandas(data):
        rows = _pandas_rows(data, their_id, ours)
    else:
        batches = arrow_batches(data)
        rows = data if batches is None else _arrow_rows(batches[1], ours)  # type: ignore[assignment]
    for place, row in enumerate(itertools.islice(iter(rows), limit)):
        if not isinstance(row, dict) and not isinstance(row, Mapping):
            raise Error(f"row {place}: expected a dict, found {type(row).__name__}", "input", row=place)
        yield row if row.get(their_id) is not None else {their_id: place, **{n: v for n, v in row.items() if n != their_id}}


def column_types(data: Data) -> dict[str, Any]:
    """Arrow types of the input's columns, where it has any: carried columns keep them."""
    paths = as_paths(data)
    if paths is not None:
        found: list[dict[str, Any]] = []
        for path in paths:
            if not is_parquet(path):
                return {}
            with parquet_file(path) as file:
                found.append({field.name: field.type for field in file.schema_arrow})
        # A column has a type where all files that have it agree.
        types = {name: kind for one in found for name, kind in one.items()}
        return {name: kind for name, kind in types.items() if all(one.get(name, kind) == kind for one in found)}
    table: Any = data
    schema: Any = None
    if is_pandas(data):
        arrow = pyarrow()
        try:
            schema = arrow.Schema.from_pandas(table.head(1000), preserve_index=False)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            return {}
    elif _kind(data).startswith("pyarrow.") and hasattr(data, "schema"):
        schema = table.schema
    elif _kind(data).startswith("polars.") and _kind(data).endswith(".DataFrame"):
        schema = table.head(0).to_arrow().schema
    return {} if schema is None else {field.name: field.type for field in schema}
