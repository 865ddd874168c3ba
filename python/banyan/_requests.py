"""What is asked of an engine, and what comes back: prompts, trees of segments, events, answers."""
from __future__ import annotations

import asyncio
import dataclasses
import json
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Generator, Iterator, Mapping, Sequence, Union

from . import _native
from ._control import Timeout
from ._errors import Error
from ._model import Model

if TYPE_CHECKING:  # numpy is half of what importing would take
    import numpy as np
    import numpy.typing as npt


@dataclasses.dataclass
class Answer:
    """One answer that has ended. Arrays are the engine's own memory, not copies."""

    tag: int
    finish_reason: str  # stop, length, cancelled, error
    tokens: list[int]  # a stop token included
    logprobs: npt.NDArray[np.float32]  # [tokens] of the raw logits
    top: list[list[tuple[int, float]]]  # [tokens] the most likely ones, when asked for
    text: str
    prompt_logits: npt.NDArray[np.float32] | None  # [vocabulary] when asked for
    experts: list[int]  # of a panel: whom each token is owed to
    betas: list[float]
    abstentions: list[float]  # the probability that each expert began with null
    error: str  # with finish_reason "error": why
    prompt_tokens: int
    cached_tokens: int
    first_token_seconds: float
    seconds: float


@dataclasses.dataclass
class Event:
    """News of one answer: what came since its last event; at the end the whole of it."""

    tag: int
    tokens: list[int]
    logprobs: list[float]
    text: str  # whole characters that no stop string can still take back
    ended: bool
    answer: Answer | None  # when ended


@dataclasses.dataclass
class Ask:
    """An answer that continues a segment. The fields are the options of `Engine.submit`."""

    tag: int = 0
    max_new: int = 64
    stop: Sequence[str] = ()
    stop_tokens: Sequence[int] | None = None  # None: the model's end tokens
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    request_key: int = 0  # with seed, question_key and sample_key: what random draws depend on
    question_key: int = 0
    sample_key: int = 0
    top_logprobs: int = 0
    forced: Sequence[int] | None = None  # tokens to score instead of choosing
    regex: str | None = None
    json_schema: str | Mapping[str, Any] | None = None
    want_logits: bool = False
    stream: bool = False
    panel: Mapping[str, Any] | None = None  # rule, gamma, beta, scores, …: experts write the answer (docs/rag.md)


@dataclasses.dataclass
class Segment:
    """A stretch of tokens or text, the segments below it and the answers that continue it: what segments share is
    computed once.

    >>> tree = banyan.Segment("A ferry leaves.", below=[banyan.Segment(text, [banyan.Ask(max_new=2)]) for text in ("When?", "Where?")])
    >>> with banyan.Engine(model) as engine:
    ...     len(engine.submit(tree).answers())
    2
    """

    tokens: Union[Sequence[int], str] = ()
    answers: Sequence[Ask] = ()
    below: Sequence[Segment] = ()
    experts: Sequence[tuple[int, float]] = ()  # (tag of the answer, relevance in (0, 1])
    first_position: int | None = None
    skeleton: bool = False
    adapter: str = ""  # of a request's first segment: one of the model's `adapters`; "": none


Prompt = Union[str, Sequence[int], Sequence[Mapping[str, Any]], Segment]


def _answer_tree(ask: Ask, model: Model) -> dict[str, Any]:
    fields: dict[str, Any] = {field.name: getattr(ask, field.name) for field in dataclasses.fields(ask)}
    if ask.stop_tokens is None:
        fields["stop_tokens"] = model.end_tokens
    for name in ("stop", "stop_tokens", "forced"):
        if fields[name] is not None:
            fields[name] = list(fields[name])
    if ask.json_schema is not None and not isinstance(ask.json_schema, str):
        fields["json_schema"] = json.dumps(ask.json_schema)
    if ask.panel is not None:
        fields["panel"] = dict(ask.panel)
    return fields


def segment_tree(segment: Segment, model: Model) -> dict[str, Any]:
    tokens = model.encode(segment.tokens) if isinstance(segment.tokens, str) else [int(t) for t in segment.tokens]
    return {"tokens": tokens, "answers": [_answer_tree(ask, model) for ask in segment.answers],
            "below": [segment_tree(below, model) for below in segment.below],
            "experts": list(segment.experts), "first_position": segment.first_position,
            "skeleton": segment.skeleton, "adapter": segment.adapter}


def count_answers(segment: Segment) -> int:
    return len(segment.answers) + sum(count_answers(below) for below in segment.below)


def tags_without_text(segment: Segment) -> set[int]:
    """Of answers that neither stream nor have stop texts."""
    tags = {ask.tag for ask in segment.answers if not ask.stop and not ask.stream}
    return tags.union(*(tags_without_text(below) for below in segment.below))


def prompt_tokens(model: Model, prompt: Prompt) -> list[int]:
    """The tokens of a prompt: of a text as it stands, of messages by the model's chat template."""
    if isinstance(prompt, str):
        return model.encode(prompt, add_special=True)
    if isinstance(prompt, Segment):
        raise Error("expected a text, tokens or messages; a Segment has tokens of its own")
    if len(prompt) > 0 and isinstance(prompt[0], Mapping):
        return model.chat_tokens([dict(message) for message in prompt if isinstance(message, Mapping)])
    return [int(token) for token in prompt if not isinstance(token, Mapping)]


class Request:
    """What was submitted: iterate (``for`` or ``async for``) for its events, or take its answers."""

    def __init__(self, engine: _native.Engine, number: int, answers: int, without_text: set[int]) -> None:
        self.id = number
        self._without_text = without_text
        self._engine = engine
        self._left = answers  # whose ends were not taken
        self._unended = answers  # whose ends did not come
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[Event | BaseException] = queue.SimpleQueue()
        self._async: tuple[asyncio.AbstractEventLoop, asyncio.Queue[Event | BaseException]] | None = None

    def cancel(self, tag: int | None = None) -> None:
        """Ends all answers, or those with the tag, with what there is of them."""
        if tag is None:
            self._engine.cancel(self.id)
        else:
            self._engine.cancel_tag(self.id, tag)

    def __iter__(self) -> Iterator[Event]:
        return self._taken_until(None)

    def _taken_until(self, deadline: float | None) -> Iterator[Event]:
        while self._left > 0:
            try:
                event = self._events.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.cancel()
                raise Timeout("the answer took longer than its timeout; it was cancelled") from None
            yield self._taken(event)

    def answers(self, timeout: float | None = None) -> list[Answer]:
        """Waits for all answers, in the order in which they end; after `timeout` seconds the request is cancelled and
        `Timeout` is raised."""
        deadline = None if timeout is None else time.monotonic() + timeout
        return [event.answer for event in self._taken_until(deadline) if event.answer is not None]

    def answer(self, timeout: float | None = None) -> Answer:
        """Waits for the answer, when there is one; one that failed raises an `Error`. `timeout` as of `answers`."""
        return _the_one(self.answers(timeout))

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._async_events()

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._await_answer().__await__()

    async def _await_answer(self) -> Answer:
        return _the_one([event.answer async for event in self if event.answer is not None])

    async def _async_events(self) -> AsyncIterator[Event]:
        events: asyncio.Queue[Event | BaseException] = asyncio.Queue()
        with self._lock:
            self._async = (asyncio.get_running_loop(), events)
            while not self._events.empty():
                events.put_nowait(self._events.get())
        while self._left > 0:
            try:
                event = await events.get()
            except asyncio.CancelledError:
                self.cancel()
                raise
            yield self._taken(event)

    def _taken(self, event: Event | BaseException) -> Event:
        if isinstance(event, BaseException):
            self._left = 0
            raise event
        if event.ended:
            self._left -= 1
        return event

    def _put(self, event: Event | BaseException) -> None:
        with self._lock:
            if self._async is None:
                self._events.put(event)
                return
            loop, events = self._async
        try:
            loop.call_soon_threadsafe(events.put_nowait, event)
        except RuntimeError:  # the loop was closed: nobody waits any more
            pass


def _the_one(answers: list[Answer]) -> Answer:
    if len(answers) != 1:
        raise Error(f"expected a request with one answer, found {len(answers)}: take answers()")
    if answers[0].finish_reason == "error":
        raise Error(answers[0].error, "limit")
    return answers[0]
