"""Models that calls name by a path, a name or not at all: each is loaded once in a process, however it is named, and
kept for the next call."""
from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import Callable, Iterator

from . import _native
from ._model import NO_ADAPTER, Model, bring, named_model
from ._options import Path

_MOST_IDLE = 3  #: models that are kept though nobody uses them; the one used last stays longest
_LOCK_SECONDS = 0.05

_Look = Callable[[], object]


_load = Model


class _Kept:
    """A model, or the place of one that is being loaded."""

    def __init__(self) -> None:
        self.loading = threading.Lock()
        self.model: Model | None = None
        self.users = 0


class SharedModels:
    """Of one process; may be used from any thread. Jobs on one model wait for one another, as with a `Model`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[object, _Kept] = {}  # the one used last is last
        self._here = threading.local()

    @staticmethod
    def _key(path: str, adapter: str | None) -> object:
        """Equal for equal files, whatever names led there; another one when a file was replaced."""
        files = sorted(os.path.realpath(file) for file in _native.files_of_model(path))
        stats = [os.stat(file) for file in files]
        folder = None if adapter is None else os.path.realpath(_native.path_of_adapter(adapter))
        return os.getpid(), tuple((file, at.st_ino, at.st_size, at.st_mtime_ns) for file, at in zip(files, stats)), folder

    @contextlib.contextmanager
    def use(self, model: Model | Path | None, task: str = "ask", look: _Look | None = None) -> Iterator[Model]:
        """The caller's model, or the shared one of that name; for None the default of `task`. `look` is called while
        it is loaded or waited for, and ends that by raising."""
        if isinstance(model, Model):
            yield model
            return
        path, adapter = named_model(model, task=task)
        bring(path, [] if adapter is None else [adapter], look)
        key = self._key(path, adapter)
        if key in self.held():  # a job's own callback or input asks: it would wait for itself
            with Model(path, adapter=adapter or NO_ADAPTER, look=look) as own:
                yield own
            return
        with self._lock:
            kept = self._kept.pop(key, None) or _Kept()
            self._kept[key] = kept
            kept.users += 1
        try:
            loaded = self._loaded(kept, path, adapter, look)
            self.held().add(key)
            try:
                yield loaded
            finally:
                self.held().discard(key)
        finally:
            with self._lock:
                kept.users -= 1
            self.close_idle(_MOST_IDLE)

    @staticmethod
    def _loaded(kept: _Kept, path: str, adapter: str | None, look: _Look | None) -> Model:
        while not kept.loading.acquire(timeout=_LOCK_SECONDS):
            if look is not None:
                look()
        try:
            if kept.model is None:
                kept.model = _load(path, adapter=adapter or NO_ADAPTER, look=look)
            return kept.model
        finally:
            kept.loading.release()

    def held(self) -> set[object]:
        """What this thread computes with. Another one that works for it may be given the same (`hold`)."""
        if not hasattr(self._here, "keys"):
            self._here.keys = set()
        keys: set[object] = self._here.keys
        return keys

    def hold(self, keys: set[object]) -> None:
        self._here.keys = keys

    def close_idle(self, most: int = 0) -> None:
        """Frees models that nobody uses, all but the `most` that were used last."""
        with self._lock:
            idle = [key for key, kept in self._kept.items() if kept.users == 0]
            gone = [self._kept.pop(key) for key in idle[:max(0, len(idle) - most)]]
        for kept in gone:
            if kept.model is not None:
                kept.model.close()


models = SharedModels()
atexit.register(models.close_idle)


def unload_models() -> None:
    """Frees the models that calls without a `Model` of their own have loaded and kept. A later call loads again.

    >>> banyan.unload_models()
    """
    models.close_idle()
