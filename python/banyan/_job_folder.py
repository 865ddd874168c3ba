"""A job's folder, which all workers see:

    FOLDER/manifest.json      what the job is, and its blocks
    FOLDER/blocks/N.jsonl     the records of a block, a line each
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
from typing import Any, Callable, Mapping, Sequence

from ._errors import Error
from ._json_text import with_member
from ._plan import Line

MARK = "banyan:record"  # carried through a block's rows: the record's place in the input, from 0
_MARKED = re.compile(rb',"' + MARK.encode() + rb'":(\d+)')


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
        return with_member(line.text, MARK, line.place) if line.is_object else line.text

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
