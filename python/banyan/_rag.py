"""rag: questions over retrieved documents."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from . import _native
from ._embed import opened_encoder
from ._examples import example_pairs, text_list
from ._index import Index
from ._model import Model
from ._names import documented, task_options
from ._options import EngineOptions, Path, RagOptions
from ._progress import Progress
from ._rows import Rows
from ._run import JobCall, run_job
from ._tables import Data

if TYPE_CHECKING:
    from typing_extensions import Unpack


def rag_task(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of questions over documents as the library takes them, models and index by their names or open."""
    return {**options, "examples": example_pairs(options.get("examples")), "stop": text_list(options.get("stop") or ())}


@contextlib.contextmanager
def rag_models(task: Mapping[str, Any], threads: int) -> Iterator[dict[str, Any]]:
    """The task with index opened and models of retrieval loaded, for as long as they are needed."""
    opened = {name: value for name, value in task.items() if name not in ("encoder", "reranker")}
    index = task.get("index")
    if index is not None:
        opened["index"] = (index if isinstance(index, Index) else Index(index))._current
    with contextlib.ExitStack() as stack:
        encoder = task.get("encoder")
        if not encoder:
            encoder = _native.wanted_encoder(opened) or None
            if encoder is not None and isinstance(index, Index):
                encoder = index._encoder_for(encoder, threads)
        for name, wanted in (("encoder", encoder), ("reranker", task.get("reranker"))):
            if wanted is not None:
                opened[name] = stack.enter_context(opened_encoder(wanted, threads))._native
        yield opened


def rag_call(data: Data, *, model: Model | Path | None = None, output: Path | None = None,
             engine: EngineOptions | None = None, progress: Progress | None = None, timeout: float | None = None,
             options: RagOptions | None = None, **more: Any) -> JobCall:
    """What `rag` would run."""
    task, job = task_options("rag", options, more)
    return JobCall("rag", data, rag_task(task), job, model, output, engine, progress, timeout, opened=rag_models)


@documented("rag")
def rag(data: Data, *, model: Model | Path | None = None, output: Path | None = None,
        engine: EngineOptions | None = None, progress: Progress | None = None, timeout: float | None = None,
        options: RagOptions | None = None, **more: Unpack[RagOptions]) -> Rows:
    """Questions over retrieved documents, as ``banyan rag`` does: every document an expert, one answer.

    A row has ``question`` and may have ``id`` and ``documents`` (dicts with ``id``, ``text``, ``title``, ``score``);
    a row without documents is asked of the `index`. An index with vectors is searched with the encoder that made it,
    unless another one is given.

    >>> boats = [{"id": "a", "text": "Anna steers the ferry."}]
    >>> banyan.rag([{"question": "Who steers the ferry?", "documents": boats}])[0]["answer"]
    'Anna'

    | parameter | |
    |---|---|
    | `data` | as of `ask` |
    """
    return run_job(rag_call(data, model=model, output=output, engine=engine, progress=progress, timeout=timeout,
                            options=options, **more))
