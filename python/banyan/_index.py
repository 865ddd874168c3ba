"""Indexes: documents found by words or by an encoder's vectors."""
from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
import tempfile
import threading
import time
import weakref
from typing import Any, Callable, Iterable, Mapping, Sequence, Union

from . import _native
from ._embed import Encoder, opened_encoder
from ._errors import Error, in_words_of_python
from ._options import Vectors
from ._columns import InputColumns
from ._tables import as_table, is_text, iterate_rows
from ._values import json_line

log = logging.getLogger("banyan")

#: Files and folders, or documents themselves: texts by the key `text` of dicts, with `id` and `title` where they have them.
Documents = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Iterable[Mapping[str, Any]]]


#: Documents that were in memory, in the folder of their index, which is made of this file. Hidden: of no other index.
_DOCUMENTS = ".documents.jsonl"
_LOOK_SECONDS = 1.0


def _input_files(inputs: Documents, folder: str) -> list[str]:
    """The files to read: those given, or one in the index's folder with the documents that are in memory."""
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    if isinstance(given, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in given):
        texts = [str(one) for one in given if is_text(one)]
        if texts:
            raise Error(f"{texts[0][:60]}: no such file or folder; a text is given as a row, {{'text': …}}", "not_found")
        return [os.fspath(one) for one in given]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, _DOCUMENTS)
    with open(f"{path}.{os.getpid()}.part", "wb") as file:
        for place, row in enumerate(iterate_rows(as_table(inputs, "embed", None), InputColumns("embed"))):
            text = row.get("text")
            if not isinstance(text, str):
                reason = f"expected a text in 'text', found {type(text).__name__}"
                raise Error(f"row {place}: {reason}", "input", row=place, reason=reason)
            file.write(json_line({"id": str(row["id"]), "text": text, "title": str(row.get("title") or "")}))
    os.replace(file.name, path)
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


@dataclasses.dataclass
class IndexChanges:
    """Files that are not what an index was made of; false when all are.

    >>> index = banyan.Index.build(None, [{"id": "a", "text": "The ferry leaves at seven."}])
    >>> index.changes().changed
    []
    """

    changed: list[str]
    gone: list[str]
    added: list[str]  #: below what it was made of, with documents that it has not

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.added)


class Index:
    """Documents on disk, found by words (BM25) or by an encoder's vectors; `rag` reads from it. It is read again when
    it was made anew meanwhile. When its documents are others than those that it has, whoever uses it hears so from the
    logger ``banyan``; `changes` says which, `update` brings it up to date.

    >>> index = banyan.Index.build(None, [{"id": "a", "text": "The ferry leaves at seven."}])
    >>> index.search("ferry", 1)[0].text
    'The ferry leaves at seven.'
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = os.fspath(directory)
        self._in_memory = False
        self._loading = threading.Lock()
        self._loaded: tuple[tuple[str, int, int], Encoder] | None = None
        self._looked = -_LOOK_SECONDS
        self._told = ""
        self._open()

    def _open(self) -> None:
        self._file = self._signature()
        self._opened = _native.Index(self.path)

    def _signature(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(os.path.join(self.path, "index.banyan"))
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    @property
    def _current(self) -> _native.Index:
        """As it is on disk now; one that is gone meanwhile as it was."""
        if self._signature() not in (None, self._file):
            self._open()
        return self._opened

    def _tell(self) -> None:
        """Says when its documents are others now, once for every change."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        text = self._current.changes()[3]
        self._looked = time.monotonic()
        if text and text != self._told:
            log.warning(in_words_of_python(text))
        self._told = text

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
            loaded = None if encoder is None else stack.enter_context(opened_encoder(encoder))
            folder = tempfile.mkdtemp(prefix="banyan-index-") if directory is None else os.fspath(directory)
            try:
                _native.build_index(folder, _input_files(inputs, folder), passage_words,
                                    None if loaded is None else loaded._native, vectors, notice, progress, False)
                index = cls(folder)
            except BaseException:
                if directory is None:
                    shutil.rmtree(folder, ignore_errors=True)
                raise
        if directory is None:
            index._in_memory = True
            weakref.finalize(index, shutil.rmtree, folder, True)
        return index

    def changes(self) -> IndexChanges:
        """Which files are not what the index was made of, by their contents: false when all are.

        >>> bool(banyan.Index.build(None, [{"id": 1, "text": "The ferry leaves at seven."}]).changes())
        False
        """
        return IndexChanges(*self._current.changes()[:3])

    def update(self, *, notice: Callable[[str], object] | None = None,
               progress: Callable[[int, int], object] | None = None) -> Index:
        """Looks again at all that the index was made of: adds what is new, replaces what changed, drops what is gone.
        It keeps its encoder and options. `notice` and `progress` as of `build`."""
        inputs, passage_words, encoder, vectors = _native.index_settings(self.path)
        with contextlib.ExitStack() as stack:
            loaded = stack.enter_context(opened_encoder(encoder)) if encoder else None
            _native.build_index(self.path, inputs, passage_words, None if loaded is None else loaded._native, vectors,
                                notice, progress, True)
        self._open()
        return self

    def __reduce__(self) -> tuple[type[Index], tuple[str]]:
        if self._in_memory:
            raise Error("an Index without a folder lives in this process alone and cannot be sent to another one; build it "
                        "with a folder: Index.build(FOLDER, …)", "unsupported")
        return Index, (os.path.abspath(self.path),)  # opened again where it arrives

    def __repr__(self) -> str:
        place = "in memory" if self._in_memory else self.path
        return f"<banyan.Index {place}: {len(self)} passages>"

    def __len__(self) -> int:
        return len(self._current)

    @property
    def fingerprint(self) -> str:
        return self._current.fingerprint

    @property
    def encoder(self) -> str | None:
        """The model whose vectors it has; None: words alone."""
        return self._current.encoder or None

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
        self._tell()
        found = self._current.search(query, count, None if encoder is None else encoder._native)
        return [Passage(**fields) for fields in found]
