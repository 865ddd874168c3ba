"""Shards whose outputs are Parquet files, as one (``banyan merge``): the library joins the rows beside them, with their
journals, and the tables follow."""
from __future__ import annotations

import collections
import gzip
import os
from typing import Any, Mapping, Sequence

from . import _native
from ._errors import Error
from ._parquet_job import ParquetJob
from ._tables import is_parquet, parquet_file, pyarrow


class MergedTable:
    """A table with the shards' columns as they are, in the order of the joined rows."""

    def __init__(self, tables: Sequence[str], rows_files: Sequence[str], joined: str) -> None:
        self._tables, self._rows_files, self._joined = tables, rows_files, joined

    def arrow(self, facts: Mapping[str, str] | None = None) -> Any:
        arrow = pyarrow()
        places: dict[bytes, collections.deque[int]] = {}
        count = 0
        for path, rows_file in zip(self._tables, self._rows_files):
            with gzip.open(rows_file, "rb") as file:
                before = count
                for line in file:
                    places.setdefault(line, collections.deque()).append(count)
                    count += 1
            with parquet_file(path) as table:
                if table.metadata.num_rows != count - before:
                    raise Error(f"{path}: has {table.metadata.num_rows} rows, and the rows beside it are {count - before}: it "
                                "was changed since its job wrote it", "format")
        with gzip.open(self._joined, "rb") as file:
            order = [places[line].popleft() for line in file]
        whole = arrow.concat_tables([arrow.parquet.read_table(path, partitioning=None) for path in self._tables],
                                    promote_options="permissive")
        # What the shards' tables say of their own rows is not true of all.
        kept = {key: value for key, value in (whole.schema.metadata or {}).items() if key != b"banyan"}
        return whole.take(arrow.array(order, arrow.int64())).replace_schema_metadata(kept)


def merge_tables(arguments: Sequence[str], output: tuple[int, str]) -> int:
    """Runs ``merge SHARD.parquet … -o OUT.parquet``; the exit code is the program's."""
    number, target = output
    flags = {"resume": False, "overwrite": "--overwrite" in arguments}
    table = ParquetJob(target, flags)
    shards = [one for place, one in enumerate(arguments[1:], 1) if is_parquet(one) and place != number and not one.startswith("-")]
    if os.path.exists(target) and os.path.getsize(target) > 0 and not flags["overwrite"]:
        raise Error(f"{target}: is there already; give another output, or --overwrite to replace it")
    for shard in shards:
        if not os.path.exists(shard):
            raise Error(f"{shard}: no such file", "not_found")
        if os.path.samefile(shard, target) if os.path.exists(target) else False:
            raise Error(f"{target}: is both a shard and the output")
        if not ParquetJob(shard, flags).is_ours():
            raise Error(f"{shard}: was changed since its job wrote it, or its job's files are not beside it")
    rows_of = {shard: f"{shard}.rows.jsonl.gz" for shard in shards}
    named = [rows_of.get(one, one) for one in arguments]
    named[number] = arguments[number][:len(arguments[number]) - len(target)] + table.rows_file
    code = _native.run_program(["banyan", *named], {})
    if code == 0:
        table.write(MergedTable(shards, list(rows_of.values()), table.rows_file))
    return code
