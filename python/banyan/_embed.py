"""Encoders and indexes: vectors of texts, and documents found by words."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from types import TracebackType
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Error
from ._model import find_model
from ._records import read_rows
from ._rows import Data, is_parquet, json_line, write_parquet


@dataclasses.dataclass
class Embeddings:
    """Vectors of texts; row i of `dense` is text i's. No copies: the array is the encoder's result."""

    dense: npt.NDArray[np.float32]  # [texts, dimensions], each of length 1; zeros where a text has an error
    truncated: list[bool]
    errors: list[Error | None]
    sparse: list[dict[int, float]]  # token → weight; empty where the model has no such head
    multi_vector: list[npt.NDArray[np.float32]]  # [tokens, dimensions] each; empty likewise
    ids: list[Any] = dataclasses.field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """As ``banyan embed`` writes them."""
        rows: list[dict[str, Any]] = []
        for number, error in enumerate(self.errors):
            row: dict[str, Any] = {"id": self.ids[number] if self.ids else None}
            if error is not None:
                row["error"] = {"kind": error.kind, "message": error.message}
            else:
                row["dense"] = self.dense[number].tolist()
                if self.sparse:
                    row["sparse"] = {str(token): weight for token, weight in self.sparse[number].items()}
                if self.multi_vector:
                    row["multi_vector"] = self.multi_vector[number].tolist()
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

    def embed(self, texts: Sequence[str], *, max_tokens: int = 0, sparse: bool = False, multi_vector: bool = False,
              batch_rows: int = 0) -> Embeddings:
        """Vectors of texts. Longer ones end at `max_tokens` (0: where the model's makers cut them)."""
        found = self._native.embed(list(texts), max_tokens, sparse, multi_vector, batch_rows)
        errors = [None if problem is None else Error(problem[1], problem[0]) for problem in found["problems"]]
        return Embeddings(found["dense"], found["truncated"], errors, found["sparse"],
                          found["multi_vector"])


@contextlib.contextmanager
def opened_encoder(encoder: Encoder | str | os.PathLike[str], threads: int = 0) -> Iterator[Encoder]:
    """The caller's encoder, or one that is loaded and closed again."""
    if isinstance(encoder, Encoder):
        yield encoder
        return
    with Encoder(encoder, threads=threads) as loaded:
        yield loaded


def _texts(data: Data | Sequence[str], field: str) -> tuple[list[str], list[Any]]:
    """Texts and ids; of texts alone no ids."""
    if isinstance(data, (list, tuple)) and all(isinstance(one, str) for one in data):
        return list(data), []
    texts, ids = [], []
    for file, line, row in read_rows(data):
        try:
            fields = json.loads(row)
        except ValueError as error:
            raise Error(f"{file}, line {line}: no JSON: {error}", "input") from error
        text = fields.get(field) if isinstance(fields, dict) else None
        if not isinstance(text, str):
            raise Error(f"{file}, line {line}: expected the field '{field}' with a text, found {type(text).__name__}",
                        "input")
        texts.append(text)
        ids.append(fields.get("id"))
    return texts, ids


def embed(data: Data | Sequence[str], *, model: Encoder | str | os.PathLike[str], field: str = "text",
          max_tokens: int = 0, sparse: bool = False, multi_vector: bool = False, batch_rows: int = 0,
          output: str | os.PathLike[str] | None = None) -> Embeddings:
    """Vectors of texts: of a list of texts, or of rows whose text is in `field`: a list of dicts, a pandas or Arrow
    table, a file (a path that is no list: JSONL, CSV, Parquet). `output`: a file with id and vectors of every row
    (.jsonl, .parquet), or with the array of dense vectors (.npy).

    >>> banyan.embed(["a ferry", "a barge"], model="all-minilm-l6-v2").dense.shape
    (2, 384)
    """
    target = None if output is None else os.fspath(output)
    if target is not None and not target.endswith((".jsonl", ".npy", ".parquet", ".pq")):
        raise Error(f"{target}: expected .jsonl, .npy or .parquet")
    texts, ids = _texts(data, field)
    with opened_encoder(model) as encoder:
        embeddings = encoder.embed(texts, max_tokens=max_tokens, sparse=sparse, multi_vector=multi_vector,
                                   batch_rows=batch_rows)
    embeddings.ids = ids
    if target is not None:
        _write(embeddings, target)
    return embeddings


def _write(embeddings: Embeddings, target: str) -> None:
    if is_parquet(target):
        write_parquet(embeddings.rows(), target)
    elif target.endswith(".npy"):
        np.save(target, embeddings.dense)
    else:
        with open(target, "wb") as file:
            file.writelines(json_line(row) for row in embeddings.rows())


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
    """Documents on disk, found by words (BM25) or by an encoder's vectors; `rag` reads from it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = os.fspath(directory)
        self._native = _native.Index(self.path)

    @classmethod
    def build(cls, directory: str | os.PathLike[str],
              inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, passage_words: int = 200,
              encoder: Encoder | str | os.PathLike[str] | None = None, vectors: str = "exact",
              notice: Callable[[str], object] | None = None,
              progress: Callable[[int, int], object] | None = None) -> Index:
        """Makes the index of files and folders anew. With an `encoder` its vectors are kept beside the words, and
        found as `vectors` says: exact, or by libfaiss flat, ivf, hnsw. `notice` hears what was left out, `progress` how
        many passages have their vectors, of how many."""
        listed = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
        with contextlib.ExitStack() as stack:
            loaded = None if encoder is None else stack.enter_context(opened_encoder(encoder))
            _native.build_index(os.fspath(directory), [os.fspath(one) for one in listed], passage_words,
                                None if loaded is None else loaded._native, vectors, notice, progress)
        return cls(directory)

    def __len__(self) -> int:
        return len(self._native)

    @property
    def fingerprint(self) -> str:
        return self._native.fingerprint

    @property
    def encoder(self) -> str | None:
        """The model whose vectors it has; None: words alone."""
        return self._native.encoder or None

    def search(self, query: str, count: int = 10, *, encoder: Encoder | None = None) -> list[Passage]:
        """The best passages, best first: those that share a word with the query, or with an `encoder` those whose
        vectors are nearest to its."""
        found = self._native.search(query, count, None if encoder is None else encoder._native)
        return [Passage(**fields) for fields in found]
