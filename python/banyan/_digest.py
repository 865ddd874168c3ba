"""Files by their content."""
from __future__ import annotations

import hashlib

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
