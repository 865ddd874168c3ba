"""Rows as they come: a job runs beside the program, which takes each row when it is finished.

>>> for row in banyan.stream.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?"):
...     print(row["answer"])
Anna

Parameters are those of `banyan.ask`, `extract` and `rag`. Rows come in the order in which they are finished;
``ordered=True`` gives the input's. Rows of an iterator are answered as it gives them. A stream may be left at any time:
its job ends with it. ``async for`` works too.
"""
from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import threading
from typing import Any, BinaryIO, Callable, Iterator

from ._ask import ask as _ask
from ._ask import ask_call
from ._control import JobControl
from ._errors import Error, told
from ._extract import extract as _extract
from ._extract import extract_call
from ._rag import rag as _rag
from ._rag import rag_call
from ._rows import Rows
from ._run import JobCall, run_job
from ._threads import as_parameters_of

__all__ = ["RowStream", "ask", "extract", "rag"]

_POLL_SECONDS = 0.02


class _Job:
    """A job on its thread. It knows nothing of the stream that reads its rows, so that one that is left can go."""

    def __init__(self, call: JobCall) -> None:
        self.control = JobControl()
        self.result: Rows | None = None
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(call,), name="banyan-job")
        self.thread.start()

    def _run(self, call: JobCall) -> None:
        try:
            self.result = run_job(call, self.control, feeds=True)
        except BaseException as error:  # raised where the rows are taken
            self.error = error
        finally:
            self.ended.set()


class _Tail:
    """Whole lines of a file that grows."""

    def __init__(self) -> None:
        self.file: BinaryIO | None = None
        self.rest = b""

    def read(self, path: str | None) -> list[bytes]:
        if self.file is None:
            if path is None:
                return []
            try:
                self.file = open(path, "rb")
            except FileNotFoundError:  # the job has ended, and its folder is gone
                return []
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        return lines

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class RowStream(Iterator["dict[str, Any]"]):
    """The rows of a job that is running. Use it in ``with``, or to its end, or `close` it."""

    def __init__(self, call: JobCall) -> None:
        target = None if call.output is None else os.fspath(call.output)
        if target is not None and ("://" in target or not target.endswith((".jsonl", ".ndjson"))):
            raise Error(f"{target}: rows that are taken as they come are written to .jsonl; expected such an output, or none")
        if call.job["resume"]:
            raise Error("resume: rows that are taken as they come begin anew; use banyan.ask")
        self._tail = _Tail()
        self._lines: collections.deque[bytes] = collections.deque()
        self._job = _Job(call)

    @property
    def result(self) -> Rows | None:
        """What `banyan.ask` would have returned, once the job has ended."""
        return self._job.result

    def __iter__(self) -> RowStream:
        return self

    def _is_ready(self) -> bool:
        """Whether there is a row, or the end."""
        if self._lines:
            return True
        over = self._job.ended.is_set()
        self._read()
        return over or bool(self._lines)

    def __next__(self) -> dict[str, Any]:
        try:
            while not self._is_ready():
                self._job.ended.wait(_POLL_SECONDS)
        except BaseException:
            self.close()
            raise
        if self._lines:
            return told(json.loads(self._lines.popleft()))
        self._end()
        error, self._job.error = self._job.error or self._job.control.input_error, None
        self._job.control.input_error = None
        if error is not None:
            raise error
        raise StopIteration

    def _read(self) -> None:
        """Takes what was written since."""
        result = self._job.result
        if self._tail.file is None and result is not None:  # so quick that the file may be gone again
            if not self._tail.rest:
                self._lines.extend(result.lines)
                self._tail.rest = b"taken"
            return
        self._lines.extend(self._tail.read(self._job.control.output))

    def close(self) -> None:
        """Ends the job, if it has not ended; waits for it."""
        self._job.control.stop()
        self._end()

    def _end(self) -> None:
        self._job.thread.join()
        self._tail.close()

    def __enter__(self) -> RowStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # refused before there was a job
            self._job.control.stop()
            self._tail.close()

    def __aiter__(self) -> RowStream:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._is_ready():
            await asyncio.sleep(_POLL_SECONDS)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None


def _streamed(call: Callable[..., JobCall], arguments: tuple[Any, ...], named: dict[str, Any]) -> RowStream:
    if "ordered" not in (named.get("options") or {}):
        named.setdefault("ordered", False)
    return RowStream(call(*arguments, **named))


@as_parameters_of(_ask)
def ask(*arguments: Any, **named: Any) -> RowStream:
    """`banyan.ask`, row by row.

    >>> [row["answer"] for row in banyan.stream.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?")]
    ['Anna']
    """
    return _streamed(ask_call, arguments, named)


@as_parameters_of(_extract)
def extract(*arguments: Any, **named: Any) -> RowStream:
    """`banyan.extract`, row by row.

    >>> schema = {"attributes": [{"name": "brand"}]}
    >>> [row["values"] for row in banyan.stream.extract([{"text": "Brand: Norda. Colour: red."}], schema)]
    [{'brand': 'Norda'}]
    """
    return _streamed(extract_call, arguments, named)


@as_parameters_of(_rag)
def rag(*arguments: Any, **named: Any) -> RowStream:
    """`banyan.rag`, row by row.

    >>> boats = [{"id": "a", "text": "Anna steers the ferry."}]
    >>> [row["answer"] for row in banyan.stream.rag([{"question": "Who steers the ferry?", "documents": boats}])]
    ['Anna']
    """
    return _streamed(rag_call, arguments, named)
