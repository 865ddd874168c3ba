"""Options that several calls take. Names and meaning are the command line's."""
from __future__ import annotations

import os
from typing import Any, Mapping, TypedDict, Union


class EngineOptions(TypedDict, total=False):
    """How the engine works; answers are the same, but for `kv_bits`."""

    strategy: str  # auto, tree, stacked, paged, flat, sequential, no-attention
    share_levels: int
    contexts_per_stack: int
    questions_per_stack: int
    stacks: int
    batch_rows: int
    mixed_rows: int
    max_streams: int
    max_waiting: int
    kv_memory: Union[str, int]  # bytes, or such as "2G"
    steps_ahead: int
    replay: bool
    one_by_one: bool
    kv_store: Union[str, "os.PathLike[str]"]  # a folder of keys and values on disk (docs/kv-store.md)
    kv_save: bool  # documents of this job are kept there
    kv_bits: int  # 8: what the store has in 8 bits; answers are approximate


def native_engine_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """As the library takes them: paths as texts. What is not known is refused there."""
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value
            for name, value in (options or {}).items()}
