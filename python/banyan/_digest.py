"""Files by their content, and files that are written whole."""
from __future__ import annotations

import hashlib
import os
import pathlib

from . import _native


def file_digest(path: str) -> str:
    """SHA-256, read a megabyte at a time."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def model_digests(model: str) -> list[str]:
    """Of all files of a model, sorted: their names and places do not count. Raises an Error when it is not there."""
    return sorted(file_digest(file) for file in _native.files_of_model(model))


def write_file(path: pathlib.Path, content: bytes) -> None:
    """The file is there as a whole or not at all, and on the disk before it has its name."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(part, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
