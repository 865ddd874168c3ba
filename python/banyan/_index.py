"""Indexes: documents found by words or by an encoder's vectors."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import threading
import weakref
from typing import Any, Callable, Iterable, Mapping, Sequence, Union

from . import _native
from ._embed import Encoder, opened_encoder
from ._errors import Error
from ._options import Vectors
from ._columns import InputColumns
from ._tables import iterate_rows
from ._values import json_line

#: Files and folders, or documents themselves: texts by the key `text` of dicts, with `id` and `title` where they have them.
Documents = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Iterable[Mapping[str, Any]]]


def _input_files(inputs: Documents, stack: contextlib.ExitStack) -> list[str]:
    """The files to read: those given, or one with the documents that are in memory."""
    if isinstance(inputs, (str, os.PathLike)):
        return [os.fspath(inputs)]
    if isinstance(inputs, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in inputs):
        return [os.fspath(one) for one in inputs]
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="banyan-documents-"))
    path = os.path.join(folder, "documents.jsonl")
    with open(path, "wb") as file:
        for place, row in enumerate(iterate_rows(inputs, InputColumns("embed"))):
            text = row.get("text")
            if not isinstance(text, str):
                reason = f"expected a text in 'text', found {type(text).__name__}"
                raise Error(f"row {place}: {reason}", "input", row=place, reason=reason)
            file.write(json_line({"id": str(row["id"]), "text": text, "title": str(row.get("title") or "")}))
    return [path]


@dataclasses.dataclass
class Passage:
    """A stretch of a document that was found."""

    id: str
    source: str
    title: str
    text: str
    begin: int
    score: float


class Index:
    """Documents on disk, found by words (BM25) or by an encoder's vectors; `rag` reads from it.

    >>> index = banyan.Index.build(None, [{"id": "a", "text": "The ferry leaves at seven."}])
    >>> index.search("ferry", 1)[0].text
    'The ferry leaves at seven.'
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = os.fspath(directory)
        self._native = _native.Index(self.path)
        self._in_memory = False
        self._loading = threading.Lock()
        self._loaded: tuple[tuple[str, int, int], Encoder] | None = None

    @classmethod
    def build(cls, directory: str | os.PathLike[str] | None, inputs: Documents, *, passage_words: int = 200,
              encoder: Encoder | str | os.PathLike[str] | None = None, vectors: Vectors = "exact",
              notice: Callable[[str], object] | None = None,
              progress: Callable[[int, int], object] | None = None) -> Index:
        """Makes the index of files and folders, or of documents that are in memory (dicts with ``text``, and ``id``
        and ``title`` where they have them; texts of a table's rows likewise), anew. `directory` of None: it lives as
        long as the object and is kept nowhere. With an `encoder` its vectors are kept beside the words, and found as
        `vectors` says: exact, or by libfaiss ivf, hnsw. `notice` hears what was left out, `progress` how many
        passages have their vectors, of how many.

        >>> banyan.Index.build(None, [{"id": 1, "text": "The ferry leaves at seven."}]).search("ferry")[0].id
        '1'
        """
        with contextlib.ExitStack() as stack:
            listed = _input_files(inputs, stack)
            loaded = None if encoder is None else stack.enter_context(opened_encoder(encoder))
            folder = tempfile.mkdtemp(prefix="banyan-index-") if directory is None else os.fspath(directory)
            try:
                _native.build_index(folder, listed, passage_words, None if loaded is None else loaded._native, vectors,
                                    notice, progress)
                index = cls(folder)
            except BaseException:
                if directory is None:
                    shutil.rmtree(folder, ignore_errors=True)
                raise
        if directory is None:
            index._in_memory = True
            weakref.finalize(index, shutil.rmtree, folder, True)
        return index

    def __reduce__(self) -> tuple[type[Index], tuple[str]]:
        if self._in_memory:
            raise Error("an Index without a folder lives in this process alone and cannot be sent to another one; build it "
                        "with a folder: Index.build(FOLDER, …)", "unsupported")
        return Index, (os.path.abspath(self.path),)  # opened again where it arrives

    def __repr__(self) -> str:
        place = "in memory" if self._in_memory else self.path
        return f"<banyan.Index {place}: {len(self)} passages>"

    def __len__(self) -> int:
        return len(self._native)

    @property
    def fingerprint(self) -> str:
        return self._native.fingerprint

    @property
    def encoder(self) -> str | None:
        """The model whose vectors it has; None: words alone."""
        return self._native.encoder or None

    def _encoder_for(self, model: str, threads: int) -> Encoder:
        """The model of its vectors, loaded once for all that is asked of this object in a process."""
        wanted = model, threads, os.getpid()
        with self._loading:
            if self._loaded is None or self._loaded[0] != wanted:
                self._loaded = wanted, Encoder(model, threads=threads)
            return self._loaded[1]

    def search(self, query: str, count: int = 10, *, encoder: Encoder | None = None) -> list[Passage]:
        """The best passages, best first: those that share a word with the query, or with an `encoder` those whose
        vectors are nearest to its."""
        found = self._native.search(query, count, None if encoder is None else encoder._native)
        return [Passage(**fields) for fields in found]
