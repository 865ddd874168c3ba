"""Programs that load beside each other and measure alone, by a file that all of them lock."""

from __future__ import annotations

import contextlib
import fcntl
from typing import IO, Iterator


@contextlib.contextmanager
def _locked(file: IO[str] | None, how: int) -> Iterator[None]:
    if file is not None:
        fcntl.flock(file, how)
    try:
        yield
    finally:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_UN)


def loading(file: IO[str] | None) -> contextlib.AbstractContextManager[None]:
    """While this holds, others may load too and none measures. None: there are no others."""
    return _locked(file, fcntl.LOCK_SH)


def measuring(file: IO[str] | None) -> contextlib.AbstractContextManager[None]:
    """While this holds, others do neither."""
    return _locked(file, fcntl.LOCK_EX)
