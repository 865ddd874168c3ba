"""Options by their types. Names and meaning are the command line's, with underscores; `_option_table` explains each.

Tasks take them as keywords or, to be kept and given again, in one object:

>>> careful = banyan.AskOptions(copy=True, too_long="split")
>>> banyan.ask(pages, "Who signed it?", options=careful, max_new=20)
"""
from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, Union

from ._errors import Error
from ._option_types import (AskRows, Device, EngineRows, ExtractRows, InputRows, KeepWeights, KvType, OutputRows, Path,
                            Precision, RagRows, TableRows)

__all__ = ["AskOptions", "Device", "EngineOptions", "ExtractOptions", "KeepWeights", "KvType", "Path", "Precision",
           "RagOptions", "TableOptions", "Task", "Vectors", "native_engine_options"]

Vectors = Literal["exact", "ivf", "hnsw"]
Task = Literal["ask", "extract", "rag", "map", "filter", "rank", "group"]


class JobOptions(InputRows, OutputRows, total=False):
    """What is read and written."""

    fields: Union[Mapping[str, str], None]


class AskOptions(JobOptions, AskRows, total=False):
    """Of `ask`."""


class ExtractOptions(JobOptions, ExtractRows, total=False):
    """Of `extract`."""


class RagOptions(JobOptions, RagRows, total=False):
    """Of `rag`."""

    index: Any  # an Index, or its folder
    encoder: Any  # an Encoder, or a model's path or name
    reranker: Any  # likewise
    examples: Union[Path, Sequence[Mapping[str, str]], None]


class TableOptions(InputRows, TableRows, total=False):
    """Of `map`, `filter`, `rank`, `group` and `join`; each says which of them it has."""

    fields: Union[Mapping[str, str], None]


class EngineOptions(EngineRows, total=False):
    """How the engine works; answers are the same, but for `kv_bits`."""


def native_engine_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """As the library takes them: paths as texts. What is not known is refused there."""
    if options is not None and not isinstance(options, Mapping):
        raise Error(f"engine: expected a dict of EngineOptions, found {type(options).__name__}")
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value
            for name, value in (options or {}).items()}
