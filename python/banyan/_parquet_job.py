"""A job whose output is a Parquet file. The library writes JSONL beside it, with a journal, and keeps both: a job that
was interrupted goes on there, and a finished one knows what it has."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Mapping

from ._digest import file_digest, write_file
from ._errors import Error
from ._rows import Rows, Table, write_parquet
from ._tables import parquet_file, pyarrow


class ParquetJob:
    """`OUT.parquet` and, beside it, `OUT.parquet.rows.jsonl.gz` with its journal, and `OUT.parquet.rows.sha256`."""

    def __init__(self, target: str, job: Mapping[str, Any], staged: str = "") -> None:
        """`staged`: what the name of the rows, by which the job goes on, has behind that of the output."""
        pyarrow()  # missing: said before anything is computed
        self.target, self._goes_on = target, bool(job["resume"])
        self.rows_file = f"{target}.rows.jsonl.gz"
        if job.get("output_format"):
            raise Error(f"output_format: the output's name says Parquet ({target})")
        self._note = f"{target}.rows.sha256"  # of the tables that this job wrote: the one that is there, and the next
        there = os.path.exists(target) and os.path.getsize(target) > 0
        if not there or not job["resume"] or job["overwrite"]:
            return
        if not os.path.exists(f"{self.rows_file}{staged}.journal"):
            raise Error(f"{target}: cannot go on: {self.rows_file} and its journal, which say what is done, are not beside "
                        "it. Give another output, or overwrite=True without resume=True to begin anew")
        if not self.is_ours():
            raise Error(f"{target}: was changed since this job wrote it. To keep it as it is, give another output; to write "
                        "it anew with this job's rows, resume=True with overwrite=True")

    def finish(self, rows: Rows) -> None:
        """Writes the table, unless it is there with these rows already."""
        facts = {"answers_hash": str(rows.receipt["answers_hash"]), "rows": str(rows.receipt["rows"])}
        if self._goes_on and rows.receipt["rows_this_run"] == 0 and not rows.receipt["rows_removed"] and self._has(facts) and self.is_ours():
            return
        self.write(rows.results, facts)

    def write(self, results: Table, facts: Mapping[str, str] | None = None) -> None:
        """The table, and that it is ours: whoever changes it afterwards finds it kept."""
        write_parquet(results, self.target, facts, self._remember)

    def _remember(self, part: str) -> None:
        """Before the table takes the old one's place, so that a kill between the two leaves either known."""
        known = [file_digest(part)] + ([file_digest(self.target)] if self.is_ours() else [])
        write_file(pathlib.Path(self._note), "".join(f"{one}\n" for one in known).encode())

    def is_ours(self) -> bool:
        try:
            return file_digest(self.target) in pathlib.Path(self._note).read_text().split()
        except OSError:
            return False

    def _has(self, facts: Mapping[str, str]) -> bool:
        if not os.path.exists(self.target):
            return False
        try:
            with parquet_file(self.target) as file:
                kept = json.loads((file.schema_arrow.metadata or {}).get(b"banyan", b"{}"))
                return all(kept.get(name) == value for name, value in facts.items()) and \
                    str(file.metadata.num_rows) == facts["rows"]
        except (Error, ValueError):
            return False
