"""Jobs in coroutines.

    rows = await banyan.aio.ask(pages, "Who signed it?")

Parameters and results are those of `banyan.ask`, `extract`, `rag`, `embed`, `map`, `rank`, `group` and `join`. The job computes on a thread of its own;
the loop and its pool stay free. A coroutine that is cancelled ends its job within one step of the engine, some thousand
tokens of an encoder, or one matrix of a model that is being loaded. `banyan.stream` has rows as they come, for ``async for`` too.
"""
from __future__ import annotations

from typing import Any

from ._ask import ask as _ask
from ._ask import ask_call
from ._control import JobControl
from ._embed import Embeddings
from ._embed import embed as _embed
from ._embed import run_embed
from ._extract import extract as _extract
from ._extract import extract_call
from ._rag import rag as _rag
from ._rag import rag_call
from ._rows import Rows
from ._run import JobCall, run_job
from ._table import group as _group
from ._table import join as _join
from ._table import join_call, table_call
from ._table import map as _map
from ._table import rank as _rank
from ._threads import as_coroutine_of, on_thread

__all__ = ["ask", "embed", "extract", "group", "join", "map", "rag", "rank"]


async def _run(call: JobCall) -> Rows:
    control = JobControl()
    return await on_thread(lambda: run_job(call, control), control.stop)


@as_coroutine_of(_ask)
async def ask(*arguments: Any, **named: Any) -> Rows:
    """`banyan.ask`.

    >>> asyncio.run(banyan.aio.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?"))[0]["answer"]
    'Anna'
    """
    return await _run(ask_call(*arguments, **named))


@as_coroutine_of(_extract)
async def extract(*arguments: Any, **named: Any) -> Rows:
    """`banyan.extract`.

    >>> asyncio.run(banyan.aio.extract([{"text": "Brand: Norda. Colour: red."}], {"attributes": [{"name": "brand"}]}))[0]["values"]
    {'brand': 'Norda'}
    """
    return await _run(extract_call(*arguments, **named))


@as_coroutine_of(_rag)
async def rag(*arguments: Any, **named: Any) -> Rows:
    """`banyan.rag`.

    >>> boats = [{"id": "a", "text": "Anna steers the ferry."}]
    >>> asyncio.run(banyan.aio.rag([{"question": "Who steers the ferry?", "documents": boats}]))[0]["answer"]
    'Anna'
    """
    return await _run(rag_call(*arguments, **named))


@as_coroutine_of(_map)
async def map(*arguments: Any, **named: Any) -> Rows:
    """`banyan.map`."""
    return await _run(table_call("map", *arguments, **named))


@as_coroutine_of(_rank)
async def rank(*arguments: Any, **named: Any) -> Rows:
    """`banyan.rank`."""
    return await _run(table_call("rank", *arguments, **named))


@as_coroutine_of(_group)
async def group(*arguments: Any, **named: Any) -> Rows:
    """`banyan.group`."""
    return await _run(table_call("group", *arguments, **named))


@as_coroutine_of(_join)
async def join(*arguments: Any, **named: Any) -> Rows:
    """`banyan.join`."""
    return await _run(join_call(*arguments, **named))


@as_coroutine_of(_embed)
async def embed(*arguments: Any, **named: Any) -> Embeddings:
    """`banyan.embed`.

    >>> asyncio.run(banyan.aio.embed(["a ferry"], model=encoder)).dense.shape[0]
    1
    """
    control = JobControl()
    return await on_thread(lambda: run_embed(control, *arguments, **named), control.stop)
