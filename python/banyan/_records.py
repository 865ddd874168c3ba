"""The records of an input: rows of files, tables and lists, each with the place that error rows name."""
from __future__ import annotations

import csv
import dataclasses
import gzip
import hashlib
import json
from typing import Any, Iterator, Mapping

from ._errors import Error
from ._json_text import members, with_member
from ._rows import Data, as_paths, is_parquet, iterate_rows, json_line, parquet_rows


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


def read_rows(data: Data) -> Iterator[tuple[str, int, str]]:
    """Every row as (file, line, JSON)."""
    paths = as_paths(data)
    if paths is None:
        for number, row in enumerate(iterate_rows(data), 1):
            yield "rows", number, json_line(row).decode("utf-8", "surrogatepass").rstrip("\n")
        return
    for path in paths:
        if is_parquet(path):
            for number, row in enumerate(parquet_rows(path), 1):
                yield path, number, json_line(row).decode("utf-8", "surrogatepass").rstrip("\n")
        elif path.endswith((".csv", ".tsv", ".tab")):
            for number, text in _table_lines(path):
                yield path, number, text
        elif path.endswith((".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")):
            for number, text in _lines(path):
                yield path, number, text
        else:
            raise Error(f"{path}: expected .jsonl (also .gz), .csv, .tsv or .parquet", "unsupported")


def read_records(data: Data, fields: Mapping[str, str], document_field: str) -> Iterator[Record]:
    """The records of the input, each with an id; `fields` are our names of fields and the input's."""
    paths = as_paths(data)
    several = paths is not None and len(paths) > 1
    their_id, their_document = fields.get("id", "id"), fields.get(document_field, document_field)
    for place, (file, line, text) in enumerate(read_rows(data)):
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
