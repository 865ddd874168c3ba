"""Work of coroutines on threads of its own. A loop's pool has few threads, and others need them: jobs that wait for one
another must not hold them."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
from typing import Any, Callable, Coroutine, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


async def on_thread(work: Callable[[], T], stop: Callable[[], object] | None = None) -> T:
    """What `work` returns or raises. A coroutine that is cancelled calls `stop` and waits for the end of the work."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(call: Callable[..., object], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(lambda: None if done.done() else call(value))

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            tell(done.set_exception, error)
        else:
            tell(done.set_result, result)
    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="banyan-job").start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
            await asyncio.wait([done])
            if not done.cancelled():
                done.exception()  # taken: that it was stopped is no news
        raise


def as_parameters_of(model: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """A function that takes what another one takes: types, help and completions are that one's."""
    def changed(function: Callable[..., T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            return function(*arguments, **named)
        result = inspect.signature(function).return_annotation
        call.__signature__ = inspect.signature(model).replace(return_annotation=result)  # type: ignore[attr-defined]
        return call
    return changed


def as_coroutine_of(model: Callable[P, T]) -> Callable[[Callable[..., Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """The same for a coroutine with the other function's result."""
    return as_parameters_of(model)
