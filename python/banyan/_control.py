"""How a running job is ended by somebody else than itself: a deadline, a stream that is closed, a cancelled coroutine."""
from __future__ import annotations

import threading
import time
from typing import Any, Callable

from ._errors import Error


class Timeout(Error, TimeoutError):
    """A job or a request took longer than its `timeout`. Rows that were finished are in the output, if there is one;
    ``resume=True`` goes on."""

    def __init__(self, message: str, kind: str = "limit", *, row: object = None, reason: str | None = None) -> None:
        super().__init__(message, kind, row=row, reason=reason)


class JobControl:
    """Of one job; may be used from any thread."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._deadline: float | None = None
        self._timeout: float | None = None
        self.input_error: BaseException | None = None  #: what the iterator raised whose rows the job read
        self.output: str | None = None  #: the file of the job's rows, once it holds no others

    def begin(self, timeout: float | None) -> None:
        if timeout is None:
            return
        if not timeout > 0:
            raise Error(f"timeout: expected seconds above 0, found {timeout}")
        self._timeout, self._deadline = timeout, time.monotonic() + timeout

    def stop(self) -> None:
        """The job ends within one step of the engine, or one matrix of a model that is being loaded."""
        self._stop.set()

    @property
    def is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def check(self) -> None:
        """Raises what the job ends with, if it is to end."""
        if self._stop.is_set() or self.is_late:
            raise self.reason()

    def reason(self) -> Error:
        if self._stop.is_set():
            return Error("the job was stopped", "limit")
        return Timeout(f"the job took longer than {self._timeout:g} seconds (timeout)")

    def hearing(self, path: str, shown: Callable[[dict[str, Any]], object] | None) -> Callable[[dict[str, Any]], object]:
        """What the library calls a few times a second: `shown`. From the first call on, the file at `path`, which the
        job has emptied by then, is `output`."""
        def call(now: dict[str, Any]) -> None:
            self.output = path
            if shown is not None:
                shown(now)
        return call
