"""Requests in, answers out, token by token or whole, from threads or coroutines."""
from __future__ import annotations

import dataclasses
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Sequence

from . import _native
from ._errors import Error
from ._model import Model
from ._names import check_names
from ._options import EngineOptions, native_engine_options
from ._requests import Answer, Ask, Event, Prompt, Request, Segment, count_answers, prompt_tokens, segment_tree, tags_without_text

if TYPE_CHECKING:
    from typing_extensions import Unpack


_ALIASES = ("max_tokens", "max_new_tokens")


class _Router:
    """Takes the engine's events on a thread and hands them to the requests they belong to."""

    def __init__(self, engine: _native.Engine, model: Model) -> None:
        self.engine = engine
        self.model = model
        self.lock = threading.Lock()
        self.requests: dict[int, Request] = {}
        self.early: dict[int, list[Event]] = {}  # of requests that are being registered
        self.closing = False
        self.thread = threading.Thread(target=self.run, name="banyan-events", daemon=True)
        self.thread.start()

    def add(self, request: Request) -> None:
        with self.lock:
            if request._left > 0:
                self.requests[request.id] = request
            for event in self.early.pop(request.id, []):
                self.hand(request, event)

    def hand(self, request: Request, event: Event) -> None:
        # The engine itself makes text only for answers that stream or have stop texts.
        if event.answer is not None and event.tag in request._without_text and self.model.has_text:
            event.answer.text = self.model.decode(event.answer.tokens)
        request._put(event)
        if event.ended:
            request._unended -= 1
            if request._unended == 0:
                self.requests.pop(request.id, None)

    def run(self) -> None:
        try:
            while True:
                events = self.engine.take_events(0.1)
                with self.lock:
                    for fields in events:
                        answer = Answer(**fields["answer"]) if fields["ended"] else None
                        event = Event(fields["tag"], fields["tokens"], fields["logprobs"], fields["text"],
                                      fields["ended"], answer)
                        request = self.requests.get(fields["request"])
                        if request is None:
                            self.early.setdefault(fields["request"], []).append(event)
                        else:
                            self.hand(request, event)
                    if self.closing and not events:
                        return
        except BaseException as error:  # told to everybody who waits
            with self.lock:
                for request in self.requests.values():
                    request._put(error)

    def close(self) -> None:
        with self.lock:
            if self.closing:
                return
            self.closing = True
        try:
            self.engine.shutdown(False)
            self.thread.join()
            self.engine.close()
        except Error:  # in a forked child neither thread nor engine is there
            pass


class Engine:
    """Answers many requests at once; what they share is computed once.

    >>> with banyan.Engine(model) as engine:
    ...     events = list(engine.submit("Once upon a time", max_new=5, stream=True))
    >>> "".join(event.text for event in events) == events[-1].answer.text
    True

    The options are those of the command line, see `EngineOptions`: strategy, batch_rows, max_streams, kv_memory
    ("2G"), kv_store … Every method may be called from any thread. One engine a model.
    """

    def __init__(self, model: Model, **options: Unpack[EngineOptions]) -> None:
        # Answers have arrays. The thread that makes them must not be the first to import it: Python may be ending then.
        import numpy  # noqa: F401

        self.model = model
        self._native = _native.Engine(model._native, native_engine_options(options))
        self._router = _Router(self._native, model)
        self._finalizer = weakref.finalize(self, self._router.close)

    def submit(self, prompt: Prompt, *, max_new: int | None = None, stop: Sequence[str] = (), stream: bool = False,
               priority: int = 0, adapter: str = "", **options: Any) -> Request:
        """Hands in a request and returns at once, unless too much waits already.

        `prompt` is a text, tokens, messages of a chat, or a `Segment` with answers of its own (then the other
        options have no meaning). `adapter` is the name of one of the model's `adapters`. `options` are the fields of
        `Ask`: temperature, seed, regex, json_schema, top_logprobs, want_logits, forced … `max_new` (64) may also be
        called max_tokens or max_new_tokens.
        """
        check_names(options, [*(field.name for field in dataclasses.fields(Ask)), *_ALIASES], "option")
        for alias in _ALIASES:
            if alias in options:
                if max_new is not None:
                    raise Error(f"{alias}: is another name of max_new; give one of them")
                max_new = options.pop(alias)
        if isinstance(prompt, Segment):
            given = {**options, **({"max_new": max_new} if max_new is not None else {}), **({"stop": stop} if stop else {}),
                     **({"stream": stream} if stream else {}), **({"adapter": adapter} if adapter else {})}
            for name in given:
                raise Error(f"{name}: a Segment has options of its own, in its answers (Ask) or itself")
            segment = prompt
        else:
            ask = Ask(max_new=64 if max_new is None else max_new, stop=[stop] if isinstance(stop, str) else stop, stream=stream, **options)
            segment = Segment(prompt_tokens(self.model, prompt), [ask], adapter=adapter)
        answers = count_answers(segment)
        number = self._native.submit(self.model._native, segment_tree(segment, self.model), priority)
        request = Request(self._native, number, answers, tags_without_text(segment))
        self._router.add(request)
        return request

    def close(self) -> None:
        """Cancels what is under way; the model is free for others."""
        self._finalizer()

    def __reduce__(self) -> NoReturn:
        raise Error("an Engine belongs to the process that made it and cannot be sent to another one; make one there",
                    "unsupported")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        return self._native.waiting

    @property
    def running(self) -> int:
        return self._native.running

    def receipt(self) -> dict[str, Any]:
        """What was done so far: tokens, steps, memory, waits."""
        return self._native.receipt()

    def explain(self) -> str:
        """What is shared and what was chosen, for the work submitted so far."""
        return self._native.explain()
