"""A job whose output is a Parquet file. The library writes JSONL beside it, with a journal, and keeps both: a job that
was interrupted goes on there, and a finished one knows what it has."""
from __future__ import annotations

import json
import os
from typing import Any, Mapping

from ._errors import Error
from ._rows import Rows, write_parquet
from ._tables import parquet_file, pyarrow


class ParquetJob:
    """`OUT.parquet` and, beside it, `OUT.parquet.rows.jsonl.gz` with its journal."""

    def __init__(self, target: str, job: Mapping[str, Any]) -> None:
        pyarrow()  # missing: said before anything is computed
        self.target = target
        self.rows_file = f"{target}.rows.jsonl.gz"
        if job.get("output_format"):
            raise Error(f"output_format: the output's name says Parquet ({target})")
        there = os.path.exists(target) and os.path.getsize(target) > 0
        if job["resume"] and not job["overwrite"] and there and not os.path.exists(f"{self.rows_file}.journal"):
            raise Error(f"{target}: cannot go on: {self.rows_file} and its journal, which say what is done, are not beside "
                        "it. Give another output, or overwrite=True without resume=True to begin anew")

    def finish(self, rows: Rows) -> None:
        """Writes the table, unless it is there with these rows already."""
        facts = {"answers_hash": str(rows.receipt["answers_hash"]), "rows": str(rows.receipt["rows"])}
        if rows.receipt["rows_this_run"] == 0 and not rows.receipt["rows_removed"] and self._has(facts):
            return
        write_parquet(rows.receipt["task"], rows, self.target, rows._types, facts)

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
