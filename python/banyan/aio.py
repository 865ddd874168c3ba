"""Jobs in coroutines.

>>> rows = await banyan.aio.ask(pages, "Who signed it?", model=model)

Parameters and results are those of `banyan.ask`, `extract`, `rag` and `embed`. The job computes on a thread; the loop
stays free. A coroutine that is cancelled ends its job within one step of the engine. `banyan.stream` has rows as they
come, for ``async for`` too.
"""
from __future__ import annotations

import asyncio
from typing import Any

from ._ask import ask_call
from ._control import JobControl
from ._embed import Embeddings
from ._embed import embed as _embed
from ._extract import extract_call
from ._rag import rag_call
from ._rows import Rows
from ._run import JobCall, run_job

__all__ = ["ask", "embed", "extract", "rag"]


async def _run(call: JobCall) -> Rows:
    control = JobControl()
    running = asyncio.ensure_future(asyncio.to_thread(run_job, call, control))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        control.stop()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # taken: that it was stopped is no news
        raise


async def ask(*arguments: Any, **named: Any) -> Rows:
    """`banyan.ask`."""
    return await _run(ask_call(*arguments, **named))


async def extract(*arguments: Any, **named: Any) -> Rows:
    """`banyan.extract`."""
    return await _run(extract_call(*arguments, **named))


async def rag(*arguments: Any, **named: Any) -> Rows:
    """`banyan.rag`."""
    return await _run(rag_call(*arguments, **named))


async def embed(*arguments: Any, **named: Any) -> Embeddings:
    """`banyan.embed`, which is not ended before its time."""
    return await asyncio.to_thread(_embed, *arguments, **named)
