"""``python -m banyan``, and the command ``banyan`` of the package: all commands of the program, with their options, and
Parquet files where JSONL could stand.

    python -m banyan ask pages.parquet "Who signed it?" -o answers.parquet
"""
from __future__ import annotations

import glob
import gzip
import json
import os
import sys
from typing import Any, Sequence

from . import _native
from ._columns import InputColumns
from ._errors import Error, in_words_of_the_program
from ._outputs import check_output
from ._merge import merge_tables
from ._option_table import TABLE_TASKS
from ._pairs import PairColumns
from ._parquet_job import ParquetJob
from ._rows import Folder, write_parquet
from ._storage import is_url
from ._schema import FIXED, MORE, Results
from ._tables import as_paths, is_parquet

#: Commands that read rows and write rows.
_JOBS = ("ask", "extract", "rag", *TABLE_TASKS)


def _output(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Which argument names the output, and the name; "-o NAME", "-oNAME", "--output NAME", "--output=NAME"."""
    for number, argument in enumerate(arguments):
        if argument in ("-o", "--output") and number + 1 < len(arguments):
            return number + 1, arguments[number + 1]
        for prefix in ("--output=", "-o"):
            if argument.startswith(prefix) and len(argument) > len(prefix) and not argument.startswith("--output-"):
                return number, argument[len(prefix):]
    return None


def _value_options() -> set[str]:
    """Options after which a value stands."""
    table = json.loads(_native.option_table())
    return {"-q", "--question", "--questions", "-m", "--model", "-o", "--output", "--field", "--encoder", "--candidates",
            "--large"} | \
        {row["command"] for row in table if row["command"] and row["kind"] != "flag"}


def _parquet_arguments(arguments: Sequence[str]) -> list[int]:
    """Which arguments name Parquet files to read: not the values of options, and not a question that ends so."""
    takes_value = _value_options()
    found: list[int] = []
    for number, argument in enumerate(arguments[1:], 1):
        is_value = arguments[number - 1] in takes_value
        is_file = is_url(argument) or os.path.exists(argument) or not any(mark.isspace() for mark in argument) or \
            bool(glob.glob(argument, recursive=True))
        if is_parquet(argument) and not argument.startswith("-") and not is_value and is_file:
            found.append(number)
    return found


def _fields(arguments: Sequence[str]) -> dict[str, str]:
    """What ``--field OURS=THEIRS`` says of all files."""
    given = [after for option, after in zip(arguments, arguments[1:]) if option == "--field"]
    given += [one.split("=", 1)[1] for one in arguments if one.startswith("--field=")]
    return {ours: theirs for ours, _, theirs in (one.partition("=") for one in given) if ":" not in ours and theirs}


def _words(arguments: Sequence[str]) -> list[int]:
    """Which arguments are neither the command, nor options, nor their values."""
    takes_value = _value_options()
    return [number for number, argument in enumerate(arguments) if number and arguments[number - 1] not in takes_value
            and (argument == "-" or not argument.startswith("-"))]


def _prompt_columns(arguments: Sequence[str]) -> list[str]:
    """The columns that the prompt of a task of tables is made of; none where the program will refuse it."""
    words = _words(arguments)
    listed = [after for option, after in zip(arguments, arguments[1:]) if option == "--columns"]
    listed += [one.split("=", 1)[1] for one in arguments if one.startswith("--columns=")]
    try:
        return _native.table_columns(arguments[words[-1]], [name for one in listed for name in one.split(",")])
    except (Error, IndexError):
        return []


def _columns_of(arguments: Sequence[str]) -> InputColumns:
    """What will be kept of Parquet files."""
    task, fields = arguments[0], _fields(arguments)
    if task not in TABLE_TASKS:
        return InputColumns(task, fields)
    columns = _prompt_columns(arguments)
    return PairColumns(fields, columns) if task == "join" else \
        InputColumns(task, fields, needed=[fields.get(name, name) for name in columns])


def _staged(arguments: Sequence[str]) -> str:
    """As `JobCall.staged`."""
    if arguments[0] == "filter" and any(one == "--large" or one.startswith("--large=") for one in arguments):
        return ".small.jsonl"
    return ".rows.jsonl" if arguments[0] in ("rank", "group") else ""


class _ParquetRun:
    """The arguments with JSONL in the place of Parquet, and what is to be done afterwards."""

    def __init__(self, arguments: Sequence[str], folder: Folder) -> None:
        self.arguments = list(arguments)
        self.target: str | None = None
        self.table: ParquetJob | None = None  # None: no Parquet, or at a URL
        found = _output(arguments)
        if found is not None and is_parquet(found[1]):
            number, self.target = found
            at_url = is_url(self.target)
            if at_url and "--resume" in arguments:
                raise Error(f"--resume: the output is at a URL ({self.target}), which is written when the job has ended")
            self.rows_file = str(folder.path / "rows.jsonl.gz") if at_url else f"{self.target}.rows.jsonl.gz"
            if not at_url:
                self.table = ParquetJob(self.target, {"resume": "--resume" in arguments, "overwrite": "--overwrite" in arguments},
                                        _staged(arguments))
            whole = self.arguments[number]
            self.arguments[number] = whole[:len(whole) - len(self.target)] + self.rows_file
        places = _parquet_arguments(arguments)
        named_inputs = {number: as_paths(arguments[number]) or [] for number in places}
        self.inputs = [path for paths in named_inputs.values() for path in paths]
        for path in self.inputs:
            if not is_url(path) and not os.path.exists(path):
                raise Error(f"{path}: no such file", "not_found")
        if self.target is not None:
            # Whatever else is named and there: inputs, questions, a schema.
            named = [("a file that is read", one) for number, one in enumerate(arguments[1:], 1)
                     if os.path.isfile(one) and one not in self.inputs and found is not None and number != found[0]]
            check_output(self.target, [("the input", path) for path in self.inputs] + named,
                         overwrite="--overwrite" in arguments, resume="--resume" in arguments, staged=_staged(arguments))
        self.columns = _columns_of(arguments)
        if isinstance(self.columns, PairColumns):
            self._write_sides(arguments, named_inputs, folder)
            return
        written = folder.inputs(self.inputs, self.columns) if self.inputs else []
        for number in reversed(places):  # the first argument stands for all: several files are numbered together
            self.arguments[number:number + 1] = written if number == places[0] else []

    def _write_sides(self, arguments: Sequence[str], named_inputs: dict[int, list[str]], folder: Folder) -> None:
        """Of a join: its tables one by one."""
        for number, paths in named_inputs.items():
            side = self.columns.parts()[0 if number == _words(arguments)[0] else 1]
            written = folder.inputs(paths, side)
            if len(written) != 1:
                raise Error(f"{arguments[number]}: expected one table, found {len(written)} files")
            self.arguments[number] = written[0]

    def write_table(self, task: str) -> None:
        assert self.target is not None
        if not os.path.exists(self.rows_file):  # stopped before the last pass
            return
        with gzip.open(self.rows_file, "rb") as file:
            rows: list[dict[str, Any]] = [json.loads(line) for line in file]
        flat = None
        if "--flat" in self.arguments:
            kept = set(self.columns.carried().values())
            flat = {name: "json" for row in rows for name in row
                    if name not in FIXED[task] and name not in MORE[task] and name not in kept}
        asked_of_all = any(one in ("-q", "--question", "--questions") for one in self.arguments)
        results = Results(task, rows, self.columns, flat, asked_of_all)
        if self.table is None:
            write_parquet(results, self.target)
        else:
            self.table.write(results)


def _run(arguments: Sequence[str]) -> int:
    output = _output(arguments)
    writes = output is not None and is_parquet(output[1])
    if output is not None and writes and arguments[0] == "merge":
        return merge_tables(arguments, output)
    if not arguments or arguments[0] not in _JOBS or not (writes or _parquet_arguments(arguments)):
        return _native.run_program(["banyan", *arguments], {})
    with Folder() as folder:
        run = _ParquetRun(arguments, folder)
        code = _native.run_program(["banyan", *run.arguments], folder.names)
        if run.target is not None and code in (0, 1):  # 1: some rows are errors
            run.write_table(arguments[0])
        return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code is the program's."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except Error as error:
        print(f"banyan: {in_words_of_the_program(str(error))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
