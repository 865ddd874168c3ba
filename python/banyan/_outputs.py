"""The one guard before anything is written: what is read is never written to, and what somebody else wrote is not
replaced without being told so."""
from __future__ import annotations

import glob
import os
from typing import Iterable

from . import _storage
from ._errors import Error


def same_file(one: str, other: str) -> bool:
    """Whatever names and links they come by; neither need be there."""
    if _storage.is_url(one) or _storage.is_url(other):
        return _storage.same(one, other)
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def expanded(paths: Iterable[str]) -> list[str]:
    """Files and folders as they are, patterns as what they find."""
    return [found for path in paths for found in ([path] if os.path.exists(path) else glob.glob(path) or [path])]


def check_output(target: str, reads: Iterable[tuple[str, str]] = (), *, overwrite: bool = False,
                 resume: bool = False, ours: bool = False, staged: str = "") -> None:
    """Before anything is loaded or computed.

    `reads` are (what it is, path). `resume`: the caller goes on with what is there, after checking it; something must be. `ours`: the
    caller knows that it wrote exactly this file. `staged`: as of `ParquetJob`. Raises an `Error` that names the file and what to do.
    """
    at_url = _storage.is_url(target)
    if not at_url:
        _check_folder(target)
    for what, path in reads:
        for found in [path] if _storage.is_url(path) else expanded([path]):
            if same_file(found, target):
                raise Error(f"{target}: is both {what} and the output")
    if resume and not overwrite and not at_url:
        check_goes_on(target, staged)
    if overwrite or resume or ours:
        return
    if _has_content(target) if not at_url else _storage.size(target):
        raise Error(f"{target}: is there already; give another output, or overwrite=True to replace it")


def check_goes_on(target: str, staged: str = "") -> None:
    """A job that shall go on has left something: its output, or of a table that is not written yet the rows beside it."""
    if not any(os.path.lexists(target + one) for one in ("", ".rows.jsonl.gz", staged, f".rows.jsonl.gz{staged}")):
        raise Error(f"{target}: there is nothing to go on with: no such file; without resume=True the job begins")


def _has_content(target: str) -> bool:
    return os.path.lexists(target) and (not os.path.exists(target) or os.path.getsize(target) > 0)


def _check_folder(target: str) -> None:
    if os.path.isdir(target):
        raise Error(f"{target}: cannot write the output: it is a folder", "io")
    folder = os.path.dirname(target) or "."
    if not os.path.isdir(folder):
        raise Error(f"{target}: cannot write the output: there is no folder {folder}", "io")
