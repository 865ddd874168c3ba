"""A job cut into blocks for many workers, and joined again: files in a folder that all of them see.

    FOLDER/manifest.json      what the job is, and its blocks
    FOLDER/blocks/N.jsonl     the records of a block, a line each
    FOLDER/parts/N.jsonl      the rows of a block that was answered
    FOLDER/parts/N.json       which record they belong to; it is there exactly when the block is done

Every file gets its name when it is whole. A block that is answered twice has the same rows twice, so whoever comes last
changes nothing. Records with the same document, or the same id, are in one block; one document with more questions than
a block holds is split, into no more pieces than there are workers.
"""
from __future__ import annotations

import csv
import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import re
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ._errors import Error
from ._rows import Data, as_paths, is_parquet, iterate_rows, json_line, parquet_rows

MARK = "banyan:record"  # carried through a block's rows: the record's place in the input, from 0
_MARKED = re.compile(rb',"' + MARK.encode() + rb'":(\d+)')
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


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


def members(text: str) -> list[tuple[str, int, int]]:
    """The members of a JSON object in a text: name, and where the member begins and ends. The object is valid."""
    found: list[tuple[str, int, int]] = []
    at = text.index("{") + 1
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "}":
            return found
        if text[at] == ",":
            at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        begin = at
        name, at = _DECODER.raw_decode(text, at)
        at = _SPACE.match(text, at).end() + 1  # type: ignore[union-attr]  # the colon
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        _, at = _DECODER.raw_decode(text, at)
        found.append((name, begin, at))


def elements(text: str) -> list[str]:
    """The elements of a JSON array, each as it is written."""
    found: list[str] = []
    at = _SPACE.match(text, text.index("[") + 1).end()  # type: ignore[union-attr]
    while text[at] != "]":
        if text[at] == ",":
            at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        begin = at
        _, at = _DECODER.raw_decode(text, at)
        found.append(text[begin:at])
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return found


def with_member(text: str, name: str, value: Any) -> str:
    """The object with one more member, before the others; nothing else of it changes."""
    at = text.index("{") + 1
    rest = text[at:]
    comma = "" if rest.lstrip().startswith("}") else ","
    return f"{text[:at]}{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}{comma}{rest}"


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


def _sources(data: Data) -> Iterator[tuple[str, int, str]]:
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
    for place, (file, line, text) in enumerate(_sources(data)):
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


@dataclasses.dataclass
class Line:
    """A record, or a piece of one, in a block."""

    place: int
    piece: int
    text: str
    file: str
    line: int
    own_questions: bool = False  # all its questions are in it: those of the job are not asked again


class Cost:
    """Tokens that a record costs: of its document once, of its questions and answers each. Texts are weighed by their
    bytes; `count`, which may be None, says how many tokens the first of them have."""

    def __init__(self, count: Callable[[str], int] | None, common: Sequence[Any], max_new: int) -> None:
        self.count = count
        self.max_new = max_new
        self.bytes = self.tokens = 0
        self.common = sum(self.question(question) for question in common)
        self.common_count = len(common)

    def text(self, text: Any) -> int:
        size = len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0
        if size and self.count is not None and self.bytes < 100_000:
            self.bytes += size
            self.tokens += self.count(text.encode("utf-8", "replace").decode())
        return int(size * (self.tokens / self.bytes if self.bytes else 0.25)) + 1

    def question(self, question: Any) -> int:
        words = question.get("question") if isinstance(question, Mapping) else question
        return self.text(words) + self.max_new + 8

    def own(self, fields: Mapping[str, Any] | None) -> int:
        """Of a record without its document."""
        if fields is None:
            return 1
        documents = fields.get("documents")
        if isinstance(documents, list):
            return sum(self.text(one.get("text")) for one in documents if isinstance(one, Mapping)) + self.max_new
        questions = fields.get("questions")
        if isinstance(questions, list):
            return self.common + sum(self.question(question) for question in questions)
        return self.common + (self.question(fields["question"]) if "question" in fields else 0)


def split_questions(record: Record, common: Sequence[Any], pieces: int) -> list[str] | None:
    """A record with many questions as several with some of them, ids as one job would give them; None where it must
    stay whole, because it is to become an error."""
    assert record.fields is not None
    own = record.fields.get("questions")
    if not isinstance(own, list) or len(own) > 100_000 or any(name in record.fields for name in ("question_id",)):
        return None
    spans = members(record.text)
    raw = [json.dumps(question, ensure_ascii=False) for question in common]
    for name, begin, end in spans:
        if name == "questions":
            raw += elements(record.text[begin:end][record.text[begin:end].index(":"):])
    parsed = [json.loads(one) for one in raw]
    seen: set[str] = set()
    for question in parsed:
        if isinstance(question, Mapping) and question.get("id") is not None:
            written = json.dumps(question["id"])
            if written in seen:
                return None
            seen.add(written)
        elif not isinstance(question, (str, Mapping)):
            return None
    numbered = []
    for number, (one, question) in enumerate(zip(raw, parsed), 1):
        if isinstance(question, Mapping) and question.get("id") is not None:
            numbered.append(one)
            continue
        while str(number) in seen:
            number += 1
        seen.add(str(number))
        if isinstance(question, str):
            numbered.append(json.dumps({"id": number, "question": question}, ensure_ascii=False))
        elif "id" in question:
            numbered.append(json.dumps({**question, "id": number}, ensure_ascii=False))
        else:
            numbered.append(with_member(one, "id", number))
    others = ",".join(record.text[begin:end] for name, begin, end in spans if name not in ("questions", "question", "choices"))
    size = -(-len(numbered) // pieces)
    return [f'{{{others},"questions":[{",".join(numbered[at:at + size])}]}}' for at in range(0, len(numbered), size)]


def plan_blocks(records: Iterable[Record], cost: Cost, common: Sequence[Any], document_field: str, block_tokens: int,
                workers: int) -> tuple[list[tuple[int, list[Line]]], int]:
    """Blocks as (tokens, lines), and how many records there are. All of the input's text is in memory."""
    groups: dict[int, list[Record]] = {}
    group_of: dict[str, int] = {}
    count = 0
    for record in records:
        count += 1
        group = group_of.get(record.identity, group_of.get(record.document, record.place))
        group_of.setdefault(record.identity, group)
        group_of.setdefault(record.document, group)
        groups.setdefault(group, []).append(record)
    blocks: list[tuple[int, list[Line]]] = []
    open_lines: list[Line] = []
    open_tokens = 0
    for group_records in groups.values():
        first = group_records[0]
        document = cost.text((first.fields or {}).get(document_field))
        costs = [cost.own(record.fields) for record in group_records]
        tokens = document + sum(costs)
        pieces = min(workers, -(-tokens // block_tokens))
        if pieces > 1:
            blocks += _split_group(group_records, costs, document, common, pieces)
            continue
        if open_tokens + tokens > block_tokens and open_lines:
            blocks.append((open_tokens, open_lines))
            open_lines, open_tokens = [], 0
        open_lines += [Line(r.place, 0, r.text, r.file, r.line) for r in group_records]
        open_tokens += tokens
    if open_lines:
        blocks.append((open_tokens, open_lines))
    return [(tokens, sorted(lines, key=lambda line: (line.place, line.piece))) for tokens, lines in blocks], count


def _split_group(group: list[Record], costs: list[int], document: int, common: Sequence[Any],
                 pieces: int) -> list[tuple[int, list[Line]]]:
    """One document with many questions, for several workers; rows with an id that came before stay with it."""
    total = sum(costs)
    bins: list[tuple[int, list[Line]]] = [(document, []) for _ in range(pieces)]
    home: dict[str, int] = {}
    for record, own in zip(group, costs):
        if record.identity in home:
            bins[home[record.identity]][1].append(Line(record.place, 0, record.text, record.file, record.line))
            continue
        share = max(1, round(own * pieces / max(1, total)))
        parts = split_questions(record, common, share) if share > 1 else None
        texts = parts or [record.text]
        emptiest = sorted(range(pieces), key=lambda number: (bins[number][0], number))
        home[record.identity] = emptiest[0]
        for piece, text in enumerate(texts):  # each in another bin: an id may come only once in a block
            tokens, lines = bins[emptiest[piece]]
            lines.append(Line(record.place, piece, text, record.file, record.line, parts is not None))
            bins[emptiest[piece]] = (tokens + own // len(texts), lines)
    return [one for one in bins if one[1]]


def write_file(path: pathlib.Path, content: bytes) -> None:
    """The file is there as a whole or not at all, and on the disk before it has its name."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(part, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


class JobFolder:
    """The folder of a job: made once, then worked off by whoever comes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path).absolute()

    @property
    def manifest_path(self) -> pathlib.Path:
        return self.path / "manifest.json"

    def manifest(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.manifest_path.read_text())
            return found
        except FileNotFoundError:
            return None

    def create(self, job: Mapping[str, Any], blocks: list[tuple[int, list[Line]]], records: int) -> None:
        (self.path / "blocks").mkdir(parents=True, exist_ok=True)
        (self.path / "parts").mkdir(exist_ok=True)
        table = []
        for number, (tokens, lines) in enumerate(blocks):
            text = "".join(self._block_line(line) + "\n" for line in lines)
            write_file(self.block(number), text.encode("utf-8", "surrogateescape"))
            table.append({"tokens": tokens, "lines": [[line.place, line.piece, line.file, line.line] for line in lines],
                          "own_questions": any(line.own_questions for line in lines)})
        write_file(self.manifest_path, json.dumps({"job": dict(job), "records": records, "blocks": table}).encode())

    @staticmethod
    def _block_line(line: Line) -> str:
        try:
            parsed = json.loads(line.text)
        except (ValueError, RecursionError):
            parsed = None
        return with_member(line.text, MARK, line.place) if isinstance(parsed, dict) else line.text

    def block(self, number: int) -> pathlib.Path:
        return self.path / "blocks" / f"{number}.jsonl"

    def is_done(self, number: int) -> bool:
        return (self.path / "parts" / f"{number}.json").exists()

    def write_part(self, number: int, lines: Sequence[Sequence[Any]], rows: Sequence[bytes],
                   facts: Mapping[str, Any]) -> None:
        """Keeps the rows of a block. Their records are known by the mark, or of error rows by the line."""
        name = str(self.block(number)).encode()
        by_place = {line[0]: index for index, line in enumerate(lines)}
        sizes: dict[int, list[int]] = {}
        ordered: list[tuple[int, bytes]] = []
        for row in rows:
            found = _MARKED.search(row)
            if found is not None:
                index = by_place[int(found[1])]
                row = row[:found.start()] + row[found.end():]
            else:
                index = json.loads(row)["error"]["line"] - 1
            here, there = f", line {index + 1}:".encode(), f", line {lines[index][3]}:".encode()
            origin = json.dumps(lines[index][2], ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
            row = row.replace(name + here, origin + there)
            row = row.replace(b'"file":"' + name + b'","line":%d' % (index + 1), b'"file":"' + origin + b'","line":%d' % lines[index][3])
            ordered.append((index, row + b"\n"))
        ordered.sort(key=lambda one: one[0])
        for index, row in ordered:
            size = sizes.setdefault(index, [0, 0])
            size[0] += 1
            size[1] += len(row)
        for index, line in enumerate(lines):
            if index not in sizes:
                raise Error(f"block {number}: record {line[0]} has no row", "format")
        write_file(self.path / "parts" / f"{number}.jsonl", b"".join(row for _, row in ordered))
        index_text = {"rows": [[lines[index][0], lines[index][1], *sizes[index]] for index in sorted(sizes)], **facts}
        write_file(self.path / "parts" / f"{number}.json", json.dumps(index_text).encode())

    def join(self, take: Callable[[bytes], object]) -> dict[str, Any]:
        """Hands all rows out in the input's order, after checking that every record is there once."""
        manifest = self.manifest()
        assert manifest is not None
        stretches: list[tuple[int, int, int, int, int, int]] = []
        facts: list[dict[str, Any]] = []
        for number, block in enumerate(manifest["blocks"]):
            part = json.loads((self.path / "parts" / f"{number}.json").read_text())
            if [row[:2] for row in part["rows"]] != [line[:2] for line in block["lines"]]:
                raise Error(f"{self.path}/parts/{number}.json: is not the part of its block", "format")
            offset = 0
            for place, piece, rows, size in part["rows"]:
                stretches.append((place, piece, number, offset, size, rows))
                offset += size
            if os.path.getsize(self.path / "parts" / f"{number}.jsonl") != offset:
                raise Error(f"{self.path}/parts/{number}.jsonl: is not as long as it was written", "format")
            facts.append(part)
        stretches.sort()
        places = [place for place, piece, *_ in stretches if piece == 0]
        if places != list(range(manifest["records"])):
            raise Error(f"{self.path}: some record is missing, or there twice", "format")
        open_number, file = -1, None
        total = 0
        for _, _, number, offset, size, rows in stretches:
            if number != open_number:
                if file is not None:
                    file.close()
                file, open_number = open(self.path / "parts" / f"{number}.jsonl", "rb"), number
            assert file is not None
            file.seek(offset)
            take(file.read(size))
            total += rows
        if file is not None:
            file.close()
        return {"records": manifest["records"], "rows": total, "blocks": len(facts),
                "prompt_tokens": sum(part["prompt_tokens"] for part in facts),
                "prefilled_tokens": sum(part["prefilled_tokens"] for part in facts),
                "generated_tokens": sum(part["generated_tokens"] for part in facts),
                "error_rows": sum(part["error_rows"] for part in facts),
                "compute_seconds": sum(part["seconds"] for part in facts)}
