"""The records of an input: rows of files, tables and lists, each with the place that error rows name."""
from __future__ import annotations

import csv
import dataclasses
import gzip
import hashlib
import json
import pathlib
import tempfile
from typing import Any, Iterable, Iterator, Mapping

from . import _storage
from ._errors import Error
from ._json_text import members, with_member
from ._tables import Data, as_paths, is_parquet, iterate_rows, parquet_rows
from ._values import row_line


@dataclasses.dataclass
class Record:
    """A row of the input."""

    place: int  # among all records, from 0
    text: str  # JSON of an object; what else it is becomes an error row
    file: str  # as error rows name it
    line: int
    fields: dict[str, Any] | None  # None: not an object
    identity: str  # what may come only once
    document: str  # equal for records that share their document


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        file = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
    except FileNotFoundError as error:
        raise Error(f"{path}: no such file", "not_found") from error
    with file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            if line.strip(b" \t\r\n"):
                yield number, line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def _table_lines(path: str) -> Iterator[tuple[int, str]]:
    """CSV and TSV: a row a line of JSON; cells without any character say nothing."""
    delimiter = "\t" if path.endswith((".tsv", ".tab")) else ","
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        if delimiter == ",":
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        names = next(reader, [])
        begin = reader.line_num + 1
        for cells in reader:
            row: dict[str, Any] = dict(zip(names, cells))
            for name in ("id", "choices", "question_id", "instruction"):
                if row.get(name) == "":
                    del row[name]
            yield begin, json.dumps(row, ensure_ascii=False)
            begin = reader.line_num + 1


def _line(row: Mapping[str, Any], place: int) -> str:
    return row_line(row, place).decode("utf-8", "surrogatepass").rstrip("\n")


def read_rows(data: Data, fields: Mapping[str, str] | None = None) -> Iterator[tuple[str, int, str]]:
    """Every row as (file, line, JSON)."""
    paths = as_paths(data)
    if paths is None:
        for place, row in enumerate(iterate_rows(data, fields)):
            yield "rows", place + 1, _line(row, place)
        return
    for path in paths:
        if _storage.is_url(path) and not is_parquet(path):
            with tempfile.TemporaryDirectory(prefix="banyan-") as folder:
                here = _storage.get(path, pathlib.Path(folder) / _storage.name_of(path))
                for _, number, text in read_rows(here, fields):
                    yield path, number, text
        elif is_parquet(path):
            for place, row in enumerate(parquet_rows(path, fields)):
                yield path, place + 1, _line(row, place)
        elif path.endswith((".csv", ".tsv", ".tab")):
            for number, text in _table_lines(path):
                yield path, number, text
        elif path.endswith((".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")):
            for number, text in _lines(path):
                yield path, number, text
        else:
            raise Error(f"{path}: expected .jsonl (also .gz), .csv, .tsv or .parquet", "unsupported")


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

    def of(self, rows: Iterable[tuple[str, int, str]]) -> Iterator[tuple[str, int, str]]:
        """The same rows, counted in as they pass."""
        for row in rows:
            self.add(row[0], row[2])
            yield row

    def facts(self) -> dict[str, Any]:
        return {"records": self.records, "sha256": self._hash.hexdigest()}


def read_records(rows: Iterable[tuple[str, int, str]], several: bool, fields: Mapping[str, str],
                 document_field: str) -> Iterator[Record]:
    """The records of `read_rows`, each with an id; `fields` are our names of fields and the input's. `several`: there
    is more than one file."""
    their_id, their_document = fields.get("id", "id"), fields.get(document_field, document_field)
    for place, (file, line, text) in enumerate(rows):
        parsed: Any = None
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            pass
        if not isinstance(parsed, dict):
            yield Record(place, text, file, line, None, f"bad {place}", f"bad {place}")
            continue
        if parsed.get(their_id) is None:
            parsed[their_id] = f"{file}:{line}" if several else line
            if any(name == their_id for name, _, _ in members(text)):
                text = json.dumps(parsed, ensure_ascii=False)
            else:
                text = with_member(text, their_id, parsed[their_id])
        identity = json.dumps(parsed[their_id])
        if "questions" not in parsed and "question_id" in parsed:
            identity += json.dumps(parsed["question_id"], sort_keys=True)
        document = parsed.get(their_document)
        key = hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest() if isinstance(document, str) else f"none {place}"
        yield Record(place, text, file, line, parsed, identity, key)
