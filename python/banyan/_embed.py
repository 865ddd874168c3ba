"""Encoders: vectors of texts."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NoReturn, Sequence, TypeGuard, Union

from . import _native, _storage
from ._control import JobControl
from ._errors import Error
from ._model import bring
from ._names import canonical_fields
from ._reads import input_files
from ._records import read_rows
from ._options import Device, Precision
from ._outputs import check_output
from ._columns import InputColumns
from ._rows import write_parquet
from ._schema import Results
from ._tables import Data, as_paths, as_table, is_parquet, is_series
from ._values import PROBLEM, json_line

if TYPE_CHECKING:  # numpy is half of what importing would take
    import numpy as np
    import numpy.typing as npt


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
    """A model that gives vectors: BERT, MiniLM, RoBERTa, XLM-R, BGE-M3. In float32, as ``banyan embed``. `look` is
    called some times a second while weights are loaded; what it raises ends that."""

    def __init__(self, model: str | os.PathLike[str], *, device: Device = "cpu", precision: Precision = "f32",
                 threads: int = 0, look: Callable[[], object] | None = None) -> None:
        self.path = os.fspath(model)
        self.precision: str = precision
        bring(self.path, look=look)
        self._native = _native.Encoder({"model": self.path, "device": device, "precision": precision,
                                        "threads": threads}, look)

    def close(self) -> None:
        self._native.close()

    def __reduce__(self) -> NoReturn:
        raise Error("an Encoder belongs to the process that made it and cannot be sent to another one; give its path, and load it there: Encoder(path)",
                    "unsupported")

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
              batch_rows: int = 0, look: Callable[[], object] | None = None) -> Embeddings:
        """Vectors of texts. Longer ones end at `max_tokens` (0: where the model's makers cut them). `look` is called some
        times a second; what it raises ends the work."""
        found = self._native.embed(list(texts), max_tokens, sparse, multi_vector, batch_rows, look)
        errors = [None if problem is None else Error(problem[1], problem[0]) for problem in found["problems"]]
        return Embeddings(found["dense"], found["truncated"], errors, found["sparse"],
                          found["multi_vector"])


@contextlib.contextmanager
def opened_encoder(encoder: Encoder | str | os.PathLike[str], threads: int = 0,
                   look: Callable[[], object] | None = None) -> Iterator[Encoder]:
    """The caller's encoder, or one that is loaded and closed again."""
    if isinstance(encoder, Encoder):
        yield encoder
        return
    with Encoder(encoder, threads=threads, look=look) as loaded:
        yield loaded


Text = Union[str, Error]


def _are_texts(data: Any) -> TypeGuard[Sequence[str | None]]:
    """A list of texts, which are no paths whatever they look like."""
    return isinstance(data, (list, tuple)) and all(one is None or isinstance(one, str) for one in data)


def _texts(data: Data | Sequence[str | None], fields: Mapping[str, str]) -> tuple[list[Text], list[Any]]:
    """Texts, or why there is none, and ids; of texts alone no ids."""
    if _are_texts(data):
        return [_no_text(f"row {place}", place, None) if one is None else one for place, one in enumerate(data)], []
    texts: list[Text] = []
    ids: list[Any] = []
    for place, (file, line, text, is_bad) in enumerate(read_rows("embed", data, InputColumns("embed", fields))):
        where = f"row {place}" if as_paths(data) is None else f"{file}, line {line}" if line else file
        found: dict[str, Any] = json.loads(text)
        if is_bad:
            reason = str(found[PROBLEM]["message"])
            texts.append(Error(reason if as_paths(data) is None else f"{where}: {reason}", "input", row=place, reason=reason))
        elif isinstance(found.get("text"), str):
            texts.append(found["text"])
        else:
            texts.append(_no_text(f"{where}, column '{fields.get('text', 'text')}'", place, found.get("text")))
        ids.append(found.get("id"))
    return texts, ids


def _no_text(where: str, place: int, value: Any) -> Error:
    reason = f"expected a text, found {type(value).__name__}"
    return Error(f"{where}: {reason}", "input", row=place, reason=reason)


def _embed_texts(encoder: Encoder, texts: list[Text], options: dict[str, Any]) -> Embeddings:
    """Vectors of the texts; rows without one have an error and zeros."""
    places = [place for place, text in enumerate(texts) if isinstance(text, str)]
    found = encoder.embed([text for text in texts if isinstance(text, str)], **options)
    if len(places) == len(texts):
        return found
    import numpy as np

    dense = np.zeros((len(texts), encoder.dimensions), dtype=np.float32)
    dense[places] = found.dense
    everywhere = Embeddings(dense, [False] * len(texts), [one if isinstance(one, Error) else None for one in texts],
                            [{} for _ in texts] if found.sparse else [],
                            [np.zeros((0, encoder.dimensions), np.float32) for _ in texts] if found.multi_vector else [])
    for number, place in enumerate(places):
        everywhere.truncated[place], everywhere.errors[place] = found.truncated[number], found.errors[number]
        if found.sparse:
            everywhere.sparse[place] = found.sparse[number]
        if found.multi_vector:
            everywhere.multi_vector[place] = found.multi_vector[number]
    return everywhere


def embed(data: Data | Sequence[str | None], *, model: Encoder | str | os.PathLike[str],
          fields: Mapping[str, str] | str | None = None, field: str | None = None, max_tokens: int = 0, sparse: bool = False, multi_vector: bool = False, batch_rows: int = 0,
          output: str | os.PathLike[str] | None = None, overwrite: bool = False) -> Embeddings:
    """Vectors of texts: of a list of texts, or of rows with `text`: a list of dicts, a pandas or Arrow table, a file (a
    path that is no list: JSONL, CSV, Parquet). `fields` says what the input calls it: ``{"text": "body"}``, or the name
    alone; `field` is the same. Longer texts end at `max_tokens` (0: where the model's makers cut them). `output`: a file with id and vectors of every row
    (.jsonl, .parquet), or with the array of dense vectors (.npy); one that is there is kept unless `overwrite`. A row
    without a text has an error in `errors` and zeros for a vector.

    >>> banyan.embed(["a ferry", "a barge"], model=encoder).dense.shape[0]
    2
    """
    return run_embed(JobControl(), data, model=model, fields=fields, field=field, max_tokens=max_tokens, sparse=sparse,
                     multi_vector=multi_vector, batch_rows=batch_rows, output=output, overwrite=overwrite)


def run_embed(control: JobControl, data: Data | Sequence[str | None], *, model: Encoder | str | os.PathLike[str],
              fields: Mapping[str, str] | str | None = None, field: str | None = None, max_tokens: int = 0,
              sparse: bool = False, multi_vector: bool = False, batch_rows: int = 0,
              output: str | os.PathLike[str] | None = None, overwrite: bool = False) -> Embeddings:
    """`embed`, which somebody else may end by `control`. Then nothing is written."""
    target = None if output is None else os.fspath(output)
    if target is not None and not _storage.plain_name(target).endswith((".jsonl", ".npy", ".parquet", ".pq")):
        raise Error(f"{target}: expected .jsonl, .npy or .parquet")
    if target is not None:
        check_output(target, [] if _are_texts(data) else input_files(data), overwrite=overwrite)
    if fields is not None and field is not None:
        raise Error("field: is another name of fields; give one of them")
    names = canonical_fields("embed", field if fields is None else fields) or {}
    texts, ids = _texts(as_table(data, "embed", names) if is_series(data) else data, names)
    problems = [text for text in texts if isinstance(text, Error)]
    if problems and len(problems) == len(texts):  # most likely another column is meant
        column = names.get("text", "text")
        raise Error(f"no row has a text in the column '{column}' (parameter fields); the first: {problems[0]}", "input")
    with opened_encoder(model, look=control.check) as encoder:
        control.check()
        embeddings = _embed_texts(encoder, texts, {"max_tokens": max_tokens, "sparse": sparse, "multi_vector": multi_vector,
                                                   "batch_rows": batch_rows, "look": control.check})
    control.check()
    embeddings.ids = ids
    if target is not None:
        _write(embeddings, target)
    return embeddings


def _write(embeddings: Embeddings, target: str) -> None:
    if _storage.is_url(target) and not is_parquet(target):
        with tempfile.TemporaryDirectory(prefix="banyan-") as folder:
            here = os.path.join(folder, _storage.name_of(target))
            _write(embeddings, here)
            _storage.put(here, target)
    elif is_parquet(target):
        write_parquet(Results("embed", embeddings.rows()), target)
    elif target.endswith(".npy"):
        import numpy as np

        np.save(target, embeddings.dense)
    else:
        with open(target, "wb") as file:
            file.writelines(json_line(row) for row in embeddings.rows())
