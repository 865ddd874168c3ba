"""Encoders and indexes: vectors of texts, and documents found by words."""
from __future__ import annotations

import dataclasses
import os
from types import TracebackType
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Error
from ._model import find_model
from ._rows import Data, as_paths, is_parquet, iterate_rows, parquet_rows, write_parquet


@dataclasses.dataclass
class Embeddings:
    """Vectors of texts; row i of `dense` is text i's. No copies: the array is the encoder's result."""

    dense: npt.NDArray[np.float32]  # [texts, dimensions], each of length 1; zeros where a text has an error
    truncated: list[bool]
    errors: list[Error | None]
    sparse: list[dict[int, float]]  # token → weight; empty where the model has no such head
    colbert: list[npt.NDArray[np.float32]]  # [tokens, dimensions] each; empty likewise
    ids: list[Any] = dataclasses.field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """As ``banyan embed`` writes them."""
        rows: list[dict[str, Any]] = []
        for number, error in enumerate(self.errors):
            row: dict[str, Any] = {"id": self.ids[number] if self.ids else None}
            if error is not None:
                row["error"] = {"kind": error.kind, "message": error.message}
            else:
                row["dense"] = self.dense[number]
                if self.truncated[number]:
                    row["truncated"] = True
            rows.append(row)
        return rows


class Encoder:
    """A model that gives vectors: BERT, MiniLM, RoBERTa, XLM-R, BGE-M3. In float32, as ``banyan embed``."""

    def __init__(self, model: str | os.PathLike[str], *, device: str = "cpu", precision: str = "f32",
                 threads: int = 0) -> None:
        self.path = find_model(model)
        self._native = _native.Encoder({"model": self.path, "device": device, "precision": precision,
                                        "threads": threads})

    def close(self) -> None:
        self._native.close()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @property
    def dimensions(self) -> int:
        return self._native.dimensions

    @property
    def context_length(self) -> int:
        return self._native.context_length

    @property
    def backend(self) -> str:
        return self._native.backend

    def embed(self, texts: Sequence[str], *, max_tokens: int = 0, sparse: bool = False, colbert: bool = False,
              batch_rows: int = 0) -> Embeddings:
        """Vectors of texts. Longer ones end at `max_tokens` (0: where the model's makers cut them)."""
        found = self._native.embed(list(texts), max_tokens, sparse, colbert, batch_rows)
        errors = [None if problem is None else Error(problem[1], problem[0]) for problem in found["problems"]]
        return Embeddings(found["dense"], found["truncated"], errors, found["sparse"], found["colbert"])


def embed(data: Data | Sequence[str], *, model: Encoder | str | os.PathLike[str], field: str = "text",
          max_tokens: int = 0, sparse: bool = False, colbert: bool = False,
          output: str | os.PathLike[str] | None = None) -> Embeddings:
    """Vectors of texts: of a list of texts, or of the rows of a list, a pandas or Arrow table or a Parquet file,
    whose text is in `field`. `output`: a Parquet file with id and vector of every row.

    >>> banyan.embed(["a ferry", "a barge"], model="all-minilm-l6-v2").dense.shape
    (2, 384)
    """
    rows: Iterable[Mapping[str, Any]]
    ids: list[Any] = []
    if isinstance(data, (list, tuple)) and all(isinstance(one, str) for one in data):
        texts = list(data)
    else:
        paths = as_paths(data)
        if paths is None:
            rows = iterate_rows(data)
        elif len(paths) == 1 and is_parquet(paths[0]):
            rows = parquet_rows(paths[0])
        else:
            raise Error("embed: expected texts, rows, a table or one Parquet file; JSONL: banyan embed")
        texts = []
        for number, row in enumerate(rows, 1):
            text = row.get(field)
            if not isinstance(text, str):
                raise Error(f"row {number}: expected the field '{field}' with a text, found {type(text).__name__}", "input")
            texts.append(text)
            ids.append(row.get("id"))
    own = not isinstance(model, Encoder)
    encoder = model if isinstance(model, Encoder) else Encoder(model)
    try:
        embeddings = encoder.embed(texts, max_tokens=max_tokens, sparse=sparse, colbert=colbert)
    finally:
        if own:
            encoder.close()
    embeddings.ids = ids
    if output is not None:
        write_parquet(embeddings.rows(), os.fspath(output))
    return embeddings


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
    """Documents on disk, found by words (BM25); `rag` reads from it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = os.fspath(directory)
        self._native = _native.Index(self.path)

    @classmethod
    def build(cls, directory: str | os.PathLike[str], inputs: Sequence[str | os.PathLike[str]], *,
              passage_words: int = 200, notice: Callable[[str], object] | None = None) -> Index:
        """Makes the index of files and folders anew; `notice` hears what was left out."""
        _native.build_index(os.fspath(directory), [os.fspath(one) for one in inputs], passage_words, notice)
        return cls(directory)

    def __len__(self) -> int:
        return len(self._native)

    @property
    def fingerprint(self) -> str:
        return self._native.fingerprint

    def search(self, query: str, count: int = 10) -> list[Passage]:
        """The best passages that share a word with the query, best first."""
        return [Passage(**found) for found in self._native.search(query, count)]
