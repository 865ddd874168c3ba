"""``python -m banyan``, and the command ``banyan`` of the package: all commands of the program, with their options, and
Parquet files where JSONL could stand.

    python -m banyan ask pages.parquet "Who signed it?" -o answers.parquet
"""
from __future__ import annotations

import gzip
import json
import os
import sys
from typing import Any, Sequence

from . import _native
from ._errors import Error
from ._model import _model_folders
from ._outputs import check_output
from ._rows import Folder, write_parquet
from ._storage import is_url
from ._tables import as_paths, column_types, is_parquet

#: Commands that read rows and write rows.
_JOBS = ("ask", "extract", "rag")


def _output(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Which argument names the output, and the name; "-o NAME", "-oNAME", "--output NAME", "--output=NAME"."""
    for number, argument in enumerate(arguments):
        if argument in ("-o", "--output") and number + 1 < len(arguments):
            return number + 1, arguments[number + 1]
        for prefix in ("--output=", "-o"):
            if argument.startswith(prefix) and len(argument) > len(prefix) and not argument.startswith("--output-"):
                return number, argument[len(prefix):]
    return None


class _ParquetRun:
    """The arguments with JSONL in the place of Parquet, and what is to be done afterwards."""

    def __init__(self, arguments: Sequence[str], folder: Folder) -> None:
        self.arguments = list(arguments)
        self.target: str | None = None
        found = _output(arguments)
        if found is not None and is_parquet(found[1]):
            number, self.target = found
            at_url = is_url(self.target)
            if at_url and "--resume" in arguments:
                raise Error(f"--resume: the output is at a URL ({self.target}), which is written when the job has ended")
            self.rows_file = str(folder.path / "rows.jsonl.gz") if at_url else f"{self.target}.rows.jsonl.gz"
            whole = self.arguments[number]
            self.arguments[number] = whole[:len(whole) - len(self.target)] + self.rows_file
        named_inputs = {argument: as_paths(argument) or [] for number, argument in enumerate(arguments)
                        if is_parquet(argument) and not argument.startswith("-") and (found is None or number != found[0])}
        self.inputs = [path for paths in named_inputs.values() for path in paths]
        for path in self.inputs:
            if not is_url(path) and not os.path.exists(path):
                raise Error(f"{path}: no such file", "not_found")
        if self.target is not None:
            # Whatever else is named and there: inputs, questions, a schema.
            named = [("a file that is read", one) for number, one in enumerate(arguments[1:], 1)
                     if os.path.isfile(one) and one not in self.inputs and found is not None and number != found[0]]
            check_output(self.target, [("the input", path) for path in self.inputs] + named,
                         overwrite="--overwrite" in arguments, resume="--resume" in arguments)
        written = {name: folder.inputs(paths) for name, paths in named_inputs.items()}
        self.arguments = [one for argument in self.arguments for one in written.get(argument, [argument])]

    def write_table(self, task: str) -> None:
        assert self.target is not None
        with gzip.open(self.rows_file, "rb") as file:
            rows: list[dict[str, Any]] = [json.loads(line) for line in file]
        write_parquet(task, rows, self.target, column_types(self.inputs) if self.inputs else {})


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] not in _JOBS or not any(is_parquet(one) for one in arguments):
        return _native.run_program(["banyan", *arguments], {})
    with Folder() as folder:
        run = _ParquetRun(arguments, folder)
        code = _native.run_program(["banyan", *run.arguments], folder.names)
        if run.target is not None and code in (0, 1):  # 1: some rows are errors
            run.write_table(arguments[0])
        return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code is the program's."""
    for folder in _model_folders():
        if folder.is_dir():
            os.environ.setdefault("BANYAN_MODELS", str(folder))
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except Error as error:
        print(f"banyan: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
