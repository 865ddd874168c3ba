"""The records of an input: its rows as the library's own reader has them, each with the place that error rows name."""
from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Iterable, Iterator, Mapping

from . import _native
from ._columns import InputColumns
from ._rows import Folder
from ._tables import Data

_TAKEN_AT_ONCE = 64  # texts may be long

#: File and line as error rows name them, JSON of an object by our names of fields, and whether it could not be read: then
#: the object says why, and a job that reads it has the error row that it would have had of the input itself.
Row = tuple[str, int, str, bool]


@dataclasses.dataclass
class Record:
    """A row of the input."""

    place: int  # among all records, from 0
    text: str  # JSON of an object
    file: str  # as error rows name it
    line: int  # 0: the whole file
    fields: dict[str, Any] | None  # None: it could not be read
    identity: str  # what may come only once
    document: str  # equal for records that share their document


def read_rows(task: str, data: Data, columns: InputColumns, options: Mapping[str, Any] | None = None) -> Iterator[Row]:
    """Every row of any kind of input, read as a job on one machine reads it; `columns` keeps what is not read of tables.
    `options` are the task's, by the library's names: what a CSV file must have depends on them."""
    with Folder() as folder:
        job = {"inputs": folder.inputs(data, columns), "fields": columns.fields, "input_names": folder.names}
        reader = _native.RowReader(task, dict(options or {}), job)
        while rows := reader.take(_TAKEN_AT_ONCE):
            yield from rows


class InputHash:
    """Of an input's rows in their order, whatever kind of input it is, and of where they come from."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.records = 0

    def add(self, file: str, text: str) -> None:
        for part in (file, text):
            data = part.encode("utf-8", "surrogatepass")
            self._hash.update(len(data).to_bytes(8, "little") + data)
        self.records += 1

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, counted in as they pass."""
        for row in rows:
            self.add(row[0], row[2])
            yield row

    def facts(self) -> dict[str, Any]:
        return {"records": self.records, "sha256": self._hash.hexdigest()}


def read_records(rows: Iterable[Row], document_field: str) -> Iterator[Record]:
    """The records of `read_rows`."""
    for place, (file, line, text, is_bad) in enumerate(rows):
        if is_bad:
            yield Record(place, text, file, line, None, f"bad {place}", f"bad {place}")
            continue
        parsed: dict[str, Any] = json.loads(text)
        identity = json.dumps(parsed["id"])
        if "questions" not in parsed and "question_id" in parsed:
            identity += json.dumps(parsed["question_id"], sort_keys=True)
        document = parsed.get(document_field)
        key = hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest() if isinstance(document, str) else f"none {place}"
        yield Record(place, text, file, line, parsed, identity, key)
