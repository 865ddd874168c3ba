"""Rows around a job, which reads JSONL and writes JSONL: a folder with its files before it, `Rows` after it."""
from __future__ import annotations

import errno
import html
import itertools
import json
import logging
import os
import pathlib
import shutil
import tempfile
from typing import Any, Callable, Iterable, Mapping, Protocol, Sequence, overload

from . import _storage
from ._columns import InputColumns
from ._errors import Error, told
from ._outputs import check_output
from ._schema import Results
from ._tables import Data, as_paths, check_parquet, is_parquet, iterate_rows, parquet_rows, pyarrow, row_name
from ._values import json_line, row_line

log = logging.getLogger("banyan")

_IN_MEMORY = ("rows", "left", "right")  # what rows that are in no file are called


class Folder:
    """A folder of this process alone, for a job's files."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="banyan-"))
        self.names: dict[str, str] = {}  # files that were written here → what rows call them

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def inputs(self, data: Data, columns: InputColumns, limit: int | None = None, name: str = "rows") -> list[str]:
        """The files to read: those given, Parquet files and rows in memory as JSONL in the folder. `columns` keeps what
        is not read of tables. No more than `limit` rows are taken from what is written here. `name`: of rows in memory."""
        paths = as_paths(data)
        if paths is None:
            return [self._write(f"{name}.jsonl", name, iterate_rows(data, columns, limit, name), columns)]
        if paths and all(is_parquet(path) for path in paths):
            check_parquet(paths, columns)
        # Numbers go on from call to call: two files may have one name.
        several = len(paths) > 1
        return [self._input(path, number, columns, several, limit) for number, path in enumerate(paths, len(self.names))]

    def _input(self, path: str, number: int, columns: InputColumns, several: bool, limit: int | None) -> str:
        at_url = _storage.is_url(path)
        name = f"{number}-{_storage.name_of(path) if at_url else pathlib.Path(path).name}"
        if is_parquet(path):
            rows = itertools.islice(parquet_rows(path, columns, several), limit)
            return self._write(f"{name}.jsonl", str(path), rows, columns)
        if at_url:
            here = _storage.get(path, self.path / name)
            self.names[here] = path
            return here
        return path

    @staticmethod
    def _rename_rows(path: str, columns: InputColumns) -> None:
        """Rows of an iterator before the first that brought an id: their numbers may be ids of others."""
        before = f"{path}.numbered"
        os.replace(path, before)
        with open(before, "rb") as old, open(path, "wb") as new:
            for place, line in enumerate(old):
                new.write(line if place >= (columns.first_id or 0) else _renamed_line(line, place, columns))
        os.remove(before)

    def _write(self, name: str, shown: str, rows: Iterable[Mapping[str, Any]], columns: InputColumns) -> str:
        path = str(self.path / name)
        self.names[path] = shown
        lost: dict[str, int] = {}
        try:
            with open(path, "wb") as file:
                for place, row in enumerate(rows):
                    file.write(table_line(row, place, columns, lost))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise Error(f"{self.path.parent}: no room for the rows, which the job reads from there: {error.strerror}; TMPDIR names "
                        "another folder", "io") from error
        if columns.first_id and shown in _IN_MEMORY:
            self._rename_rows(path, columns)
        for column, count in lost.items():
            log.warning("column '%s': %d values have no form in JSON and are null in rows; Parquet, to_arrow(), to_pandas() and "
                        "to_polars() have them", column, count)
        return path


def _renamed_line(line: bytes, place: int, columns: InputColumns) -> bytes:
    """The line of a row without an id, with a name in the place of its number."""
    number, name = (json_line({columns.their_id: one})[:-2] for one in (place, row_name(place)))
    columns.places.rename(place, place, row_name(place))
    return name + line[len(number):]


def table_line(row: Mapping[str, Any], place: int, columns: InputColumns, lost: dict[str, int]) -> bytes:
    """A row as a line of JSON; of a table also where a column that is kept beside the job has no form in it."""
    return row_line(row, place, lost if columns.is_table else None, columns.needed)


class Table(Protocol):
    """What can be written as Parquet."""

    def arrow(self, facts: Mapping[str, str] | None = None) -> Any: ...


def write_parquet(results: Table, path: str, facts: Mapping[str, str] | None = None,
                  before: Callable[[str], object] | None = None) -> None:
    """A Parquet file, which is there as a whole or not at all. `before` hears where it lies until it gets its name."""
    arrow = pyarrow()
    at_url = _storage.is_url(path)
    part = tempfile.mktemp(prefix="banyan-", suffix=".parquet") if at_url else f"{path}.{os.getpid()}.part"
    try:
        arrow.parquet.write_table(results.arrow(facts), part)
        if before is not None:
            before(part)
        if at_url:
            _storage.put(part, path)
        else:
            os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"


class Rows(Sequence[dict[str, Any]]):
    """What a job wrote: a sequence of dicts, with the receipt. `lines` has the rows as the command line writes
    them; messages of error rows speak of parameters where the command line speaks of its options."""

    def __init__(self, text: bytes | None, receipt: dict[str, Any], output: str | None = None,
                 columns: InputColumns | None = None, flat: Mapping[str, str] | None = None,
                 asked_of_all: bool = True) -> None:
        self._text = text  # None: only in the file
        self._rows: list[dict[str, Any]] | None = None
        self._columns, self._flat, self._asked_of_all = columns, flat, asked_of_all
        self.receipt = receipt  #: counts, times, versions and hashes, as `--receipt` writes them
        self.output = output  #: the file that was written, if any

    @property
    def lines(self) -> list[bytes]:
        if self._text is None:
            raise Error(f"{self.output}: the rows are in this file alone: the job was resumed, or {tempfile.gettempdir()} had no room "
                        "for them; those of .jsonl and .parquet are read back", "unsupported")
        return self._text.splitlines()

    def _all(self) -> list[dict[str, Any]]:
        if self._rows is None:
            self._rows = [told(json.loads(line)) for line in self.lines]
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

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        if self._text is None:
            return f"<p>{html.escape(repr(self))}</p>"
        shown = self._all()[:10]
        names = list(dict.fromkeys(name for row in shown for name in row))
        cells = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(row.get(name)))}</td>" for name in names) + "</tr>"
                        for row in shown)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table><p>{html.escape(repr(self))}</p>"

    def raise_for_errors(self) -> Rows:
        """Raises an `Error` for the first row that could not be answered, with its `row` (the id) and `reason`; else
        returns the rows."""
        for row in self.errors:
            error = row["error"]
            more = len(self.errors) - 1
            named = "" if error["message"].startswith(f"row {row.get('id')}:") else f"row {row.get('id')}: "
            raise Error(named + error["message"] + (f" (and {more} more rows)" if more else ""),
                        error["kind"], row=row.get("id"), reason=error["message"])
        return self

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The rows that could not be answered."""
        return [row for row in self._all() if "error" in row]

    @property
    def results(self) -> Results:
        return Results(self.receipt["task"], self._all(), self._columns, self._flat, self._asked_of_all)

    def place_of(self, id: Any) -> int:
        """Of a table or rows in memory: the place of the input's row with this id."""
        found = None if self._columns is None else self._columns.places.first(id)
        if found is None:
            raise Error(f"{id!r}: no row of the input in memory has this id", "input")
        return found

    def to_pandas(self) -> Any:
        """The columns of `to_arrow`: whole numbers stay whole beside missing ones, JSON is objects, and the input's
        columns have the types that they came with."""
        return self.results.pandas()

    def to_polars(self) -> Any:
        """The columns of `to_arrow` as a frame of Polars."""
        return self.results.polars()

    def to_arrow(self) -> Any:
        """The task's own columns, of fixed types, then the input's (docs/python.md)."""
        return self.results.arrow()

    def to_parquet(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """The table of `to_arrow` as a file; one that is there is kept unless `overwrite`."""
        target = os.fspath(path)
        check_output(target, overwrite=overwrite)
        write_parquet(self.results, target)
