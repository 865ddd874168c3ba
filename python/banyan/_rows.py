"""Rows in and out: lists of dicts, pandas and Arrow tables, files, Parquet. A job reads JSONL and writes JSONL; this
module is what stands around it."""
from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import pathlib
import shutil
import tempfile
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union, overload

from ._errors import Error

#: A file or several, rows as dicts, a pandas DataFrame, or an Arrow table.
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


def _plain(value: Any) -> Any:
    """What json cannot write: numpy's numbers and arrays, dates, decimals, bytes."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise Error(f"a row has a value of type {type(value).__name__}, which is no JSON", "input")


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSONL."""
    try:
        text = json.dumps(row if isinstance(row, dict) else dict(row), ensure_ascii=False, allow_nan=False,
                          separators=(",", ":"), default=_plain)
    except ValueError as error:
        raise Error(f"a row cannot be written as JSON: {error}", "input") from error
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")


def _table_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table's row: cells without a value are null, and none at all for our own fields."""
    cells = {str(name): (None if _is_missing(value) else value) for name, value in row.items()}
    return {name: value for name, value in cells.items() if value is not None or name not in _OURS}


def _arrow_rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield _table_row(row)


def is_parquet(path: str) -> bool:
    return path.endswith((".parquet", ".pq"))


def parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a batch at a time."""
    arrow = pyarrow()
    try:
        file = arrow.parquet.ParquetFile(path)
    except FileNotFoundError as error:
        raise Error(f"{path}: no such file", "not_found") from error
    except (arrow.ArrowException, OSError) as error:
        raise Error(f"{path}: not a Parquet file: {error}", "format") from error
    with file:
        yield from _arrow_rows(file.iter_batches())


def _table_rows(data: Any) -> Iterator[dict[str, Any]] | None:
    """The rows of a pandas or Arrow table; None for anything else."""
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if kind.startswith("pandas.") and kind.endswith("DataFrame"):
        return (_table_row(row) for row in data.to_dict(orient="records"))
    if kind.startswith("pyarrow.") and kind.endswith("RecordBatch"):
        return _arrow_rows([data])
    if kind.startswith("pyarrow.") and hasattr(data, "to_batches"):
        return _arrow_rows(data.to_batches())
    return None


def as_paths(data: Data) -> list[str] | None:
    """The files that are meant; None when `data` holds the rows themselves."""
    if isinstance(data, (str, os.PathLike)):
        return [os.fspath(data)]
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, os.PathLike)) for one in data):
        return [os.fspath(one) for one in data]
    return None


def iterate_rows(data: Data) -> Iterator[Mapping[str, Any]]:
    """Rows that are in memory, one after another."""
    table = _table_rows(data)
    if table is not None:
        yield from table
        return
    rows: Iterable[Any] = data  # type: ignore[assignment]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise Error(f"row {number}: expected a dict, found {type(row).__name__}", "input")
        yield row


class Folder:
    """A folder of this process alone, for a job's files."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="banyan-"))

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def inputs(self, data: Data) -> list[str]:
        """The files to read: those given, Parquet files and rows in memory as JSONL in the folder."""
        paths = as_paths(data)
        if paths is None:
            return [self._write("rows.jsonl", iterate_rows(data))]
        return [self._write(f"{number}-{pathlib.Path(path).name}.jsonl", parquet_rows(path)) if is_parquet(path) else path
                for number, path in enumerate(paths)]

    def _write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
        path = self.path / name
        with open(path, "wb") as file:
            for row in rows:
                file.write(json_line(row))
        return str(path)


def arrow_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as an Arrow table. A column whose values are of several types, or objects, is JSON text."""
    arrow = pyarrow()
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        mixed = any(isinstance(value, dict) for value in values)
        try:
            column = None if mixed else arrow.array(values)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):
            column = None
        if column is None:
            column = arrow.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values],
                                 type=arrow.string())
        columns.append(column)
    return arrow.Table.from_arrays(columns, names=names)


def write_parquet(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    """A Parquet file, which is there as a whole or not at all."""
    arrow = pyarrow()
    part = f"{path}.part"
    arrow.parquet.write_table(arrow_table(rows), part)
    os.replace(part, path)


class Rows(Sequence[dict[str, Any]]):
    """What a job wrote: a sequence of dicts, with the receipt. `lines` has the rows as the command line writes
    them."""

    def __init__(self, text: bytes | None, receipt: dict[str, Any], output: str | None = None) -> None:
        self._text = text  # None: only in the file
        self._rows: list[dict[str, Any]] | None = None
        self.receipt = receipt  #: counts, times and hashes, as `--receipt` writes them
        self.output = output  #: the file that was written, if any

    @property
    def lines(self) -> list[bytes]:
        if self._text is None:
            raise Error(f"{self.output}: the rows are in this file alone; only JSONL and Parquet are read back",
                        "unsupported")
        return self._text.splitlines()

    def _all(self) -> list[dict[str, Any]]:
        if self._rows is None:
            self._rows = [json.loads(line) for line in self.lines]
        return self._rows

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"<banyan.Rows: {self.receipt['rows']} rows, {self.receipt['error_rows']} errors>"

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The rows that could not be answered."""
        return [row for row in self._all() if "error" in row]

    def to_pandas(self) -> Any:
        import pandas
        return pandas.DataFrame(self._all())

    def to_arrow(self) -> Any:
        return arrow_table(self._all())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        write_parquet(self._all(), os.fspath(path))
