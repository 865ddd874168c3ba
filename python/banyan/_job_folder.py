"""A job's folder, which all workers see:

    FOLDER/manifest.json      what the job is, and its blocks
    FOLDER/blocks/N.jsonl     the records of a block, a line each
    FOLDER/blocks/N.json      where each of them is in the input
    FOLDER/parts/N.jsonl      the rows of a block that was answered
    FOLDER/parts/N.json       which record they belong to; it is there exactly when the block is done

Every file gets its name when it is whole. A block that is answered twice has the same rows twice, so whoever comes last
changes nothing.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ._digest import write_file
from ._errors import Error
from ._json_text import with_member
from ._plan import Line

MARK = "banyan:record"  # carried through a block's rows: the record's place in the input, from 0
_MARKED = re.compile(rb',"' + MARK.encode() + rb'":(\d+)')


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
            text = "".join(with_member(line.text, MARK, line.place) + "\n" for line in lines)
            write_file(self.block(number), text.encode("utf-8", "surrogateescape"))
            places = [[line.place, line.piece, line.file, line.line] for line in lines]
            write_file(self.path / "blocks" / f"{number}.json", json.dumps(places).encode())
            table.append({"tokens": tokens, "records": len(lines),
                          "own_questions": any(line.own_questions for line in lines)})
        write_file(self.manifest_path, json.dumps({"job": dict(job), "records": records, "blocks": table}).encode())

    def block(self, number: int) -> pathlib.Path:
        return self.path / "blocks" / f"{number}.jsonl"

    def lines(self, number: int) -> list[list[Any]]:
        """The records of a block: [place, piece, file, line] each."""
        found: list[list[Any]] = json.loads((self.path / "blocks" / f"{number}.json").read_text())
        return found

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
            origin_line = f", line {lines[index][3]}" if lines[index][3] else ""  # 0: the whole file
            here, there = f", line {index + 1}:".encode(), f"{origin_line}:".encode()
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
        runs: list[_Run] = []
        facts: list[dict[str, Any]] = []
        for number, block in enumerate(manifest["blocks"]):
            part = json.loads((self.path / "parts" / f"{number}.json").read_text())
            runs += self._runs(number, block, part.pop("rows"))
            facts.append(part)
        runs.sort()
        self._check_runs(runs, manifest["records"])
        total = 0
        with _PartReader(self.path / "parts") as parts:
            for run in runs:
                take(parts.read(run.number, run.offset, run.size))
                total += run.rows
        sums = {name: sum(part[name] for part in facts)
                for name in ("prompt_tokens", "prefilled_tokens", "generated_tokens", "error_rows")}
        kinds: dict[str, int] = {}
        for part in facts:
            kinds[part.get("kind", "")] = kinds.get(part.get("kind", ""), 0) + 1
        return {"records": manifest["records"], "rows": total, "blocks": len(facts), **sums,
                "compute_seconds": sum(part["seconds"] for part in facts), "blocks_by_kind": kinds}

    def _runs(self, number: int, block: Mapping[str, Any], rows: list[list[int]]) -> list[_Run]:
        """The rows of a part as few stretches of it: records that follow one another are one."""
        if [row[:2] for row in rows] != [line[:2] for line in self.lines(number)]:
            raise Error(f"{self.path}/parts/{number}.json: is not the part of its block", "format")
        found: list[_Run] = []
        offset = 0
        for place, piece, count, size in rows:
            # The pieces of a record that was split are in several blocks.
            if found and not block["own_questions"] and place == found[-1].last + 1:
                before = found[-1]
                found[-1] = before._replace(last=place, size=before.size + size, rows=before.rows + count)
            else:
                found.append(_Run(place, piece, place, number, offset, size, count))
            offset += size
        if os.path.getsize(self.path / "parts" / f"{number}.jsonl") != offset:
            raise Error(f"{self.path}/parts/{number}.jsonl: is not as long as it was written", "format")
        return found

    def _check_runs(self, runs: Sequence[_Run], records: int) -> None:
        expected = piece = 0  # the next record, and the next piece of the one before it
        for run in runs:
            if run.piece == 0 and run.first == expected:
                expected, piece = run.last + 1, 1
            elif run.piece == piece and run.first == run.last == expected - 1:
                piece += 1
            else:
                raise Error(f"{self.path}: some record is missing, or there twice (about record {run.first})", "format")
        if expected != records:
            raise Error(f"{self.path}: some record is missing: found {expected}, expected {records}", "format")


class _Run(NamedTuple):
    """Rows of records that follow one another, in one part."""

    first: int  # record
    piece: int
    last: int
    number: int  # of the block
    offset: int
    size: int  # bytes
    rows: int


class _PartReader:
    """Stretches of parts; the one read last stays open."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.number = folder, -1
        self.file: Any = None

    def read(self, number: int, offset: int, size: int) -> bytes:
        if number != self.number:
            self.__exit__()
            self.file, self.number = open(self.folder / f"{number}.jsonl", "rb"), number
        self.file.seek(offset)
        data: bytes = self.file.read(size)
        return data

    def __enter__(self) -> _PartReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()
