"""Rows that a job reads while they are made: an iterator's, through a pipe."""
from __future__ import annotations

import contextlib
import os
import select
import threading

from ._columns import InputColumns
from ._rows import Folder, table_line
from ._shared import models
from ._tables import Data, iterate_rows

_LOOK_SECONDS = 0.05
_END_SECONDS = 0.5


class _Ended(Exception):
    """Nobody reads any more."""


class Feeder:
    """A thread that writes an iterator's rows into a pipe, as fast as the job reads them. Use it in ``with`` around the
    job. What the iterator raised is `error`: the rows before it are answered first."""

    def __init__(self, folder: Folder, data: Data, columns: InputColumns, limit: int | None) -> None:
        self.path = str(folder.path / "rows.jsonl")
        folder.names[self.path] = "rows"
        # Not a named pipe: what was written to one is lost if its writer ends before its reader has come.
        self._reader, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        os.symlink(f"/proc/self/fd/{self._reader}", self.path)
        self._data, self._columns, self._limit = data, columns, limit
        self.error: BaseException | None = None
        self._over = threading.Event()

    def __enter__(self) -> Feeder:
        # A thread of its own that does not keep the process: an iterator may wait for ever.
        self._thread = threading.Thread(target=self._run, args=(models.held(),), name="banyan-rows", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_END_SECONDS)
        os.close(self._reader)

    def _run(self, held: set[object]) -> None:
        models.hold(held)  # an iterator that asks must not wait for the job that reads it
        lost: dict[str, int] = {}
        try:
            with contextlib.suppress(_Ended, BrokenPipeError):
                for place, row in enumerate(iterate_rows(self._data, self._columns, self._limit)):
                    self._write(table_line(row, place, self._columns, lost))
        except BaseException as error:  # raised where the rows are taken
            self.error = error
        finally:
            os.close(self._pipe)

    def _write(self, line: bytes) -> None:
        while line:
            if self._over.is_set():
                raise _Ended
            if select.select([], [self._pipe], [], _LOOK_SECONDS)[1]:
                with contextlib.suppress(BlockingIOError):
                    line = line[os.write(self._pipe, line):]
