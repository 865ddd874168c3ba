"""Many small questions of tables: cells in, answers out, in their order. Cells with one text share it, all cells run
together, and what was answered before is not computed again."""
from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
from typing import Any, Iterable, Mapping, Protocol, Sequence

from . import _native
from ._digest import model_digests
from ._embed import Encoder
from ._errors import Error
from ._ask import ask_call
from ._control import JobControl
from ._model import Model
from ._extract import extract_call
from ._names import own_options
from ._options import EngineOptions, Path
from ._examples import examples_text
from ._row_answers import pair_answers, row_answers
from ._run import run_job
from ._shared import models

_PIECE_CELLS = 256  #: computed at once: what is interrupted loses no more
_PLACE = re.compile(r"^row \d+: ")  # of a piece: the caller's cells have other places


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is wanted of one text."""

    task: str  # ask, choice, extract, embed; map, filter, score and join, whose text is JSON of rows
    text: str
    about: str = ""  # the question, or the schema
    labels: tuple[str, ...] = ()


class Cache(Protocol):
    """Results by the hash of everything that they depend on."""

    def get(self, keys: Sequence[str]) -> dict[str, str]: ...
    def put(self, results: Mapping[str, str]) -> None: ...


class MemoryCache:
    """For as long as the process lives."""

    def __init__(self) -> None:
        self._results: dict[str, str] = {}

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        return {key: self._results[key] for key in keys if key in self._results}

    def put(self, results: Mapping[str, str]) -> None:
        self._results.update(results)


@dataclasses.dataclass
class CellError:
    """A cell that could not be answered."""

    task: str
    about: str
    text: str  # its first 200 characters
    reason: str


class Answers:
    """Answers cells with one model, or for None with the default of each task. May be called from any thread; calls wait
    for one another."""

    MOST_ERRORS = 10_000  # kept; older ones are forgotten

    def __init__(self, model: Model | Path | None, encoder: Encoder | None = None, *, options: Mapping[str, Mapping[str, Any]] | None = None,
                 engine: EngineOptions | None = None, cache: Cache | None = None) -> None:
        self.model, self.encoder, self.engine = model, encoder, engine
        self.options = {task: own_options(task, (options or {}).get(task, {})) for task in ("ask", "extract")}
        for given in self.options.values():
            if given.get("few_shot") is not None:  # what results depend on is a file's content, not its name
                given["few_shot"] = examples_text(given["few_shot"])
        self.cache: Cache = MemoryCache() if cache is None else cache
        self.errors: list[CellError] = []
        self.computed = 0  #: cells that a model was asked for, so far
        self._reasons: dict[Cell, str] = {}  # of the call that runs
        self._lock = threading.Lock()
        self._identities: dict[str, str] = {}
        self._control = JobControl()  # of the call that runs

    def _identity(self, task: str) -> str:
        """All that results depend on beside the cell: versions, the model as it computes, options, the engine's too."""
        if task not in self._identities:
            job = "extract" if task == "extract" else "ask"
            facts: list[Any] = [_native.version]
            if task == "embed":
                facts += [] if self.encoder is None else [model_digests(self.encoder.path), self.encoder.backend, self.encoder.precision]
            else:
                with models.use(self.model, job, self._control.check) as model:
                    facts += [model.fingerprint, self.options[job], dict(self.engine or {})]
            self._identities[task] = json.dumps(facts, sort_keys=True, default=str)
        return self._identities[task]

    def key(self, cell: Cell) -> str:
        parts = json.dumps([self._identity(cell.task), dataclasses.astuple(cell)], ensure_ascii=False)
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()

    def interrupt(self) -> None:
        """Ends the call that runs, if any, within one step of the engine; what was finished is in the cache."""
        self._control.stop()

    def __call__(self, cells: Sequence[Cell | None]) -> list[Any]:
        """A value for every cell: of JSON's types, None for None and for what could not be answered."""
        return self.with_reasons(cells)[0]

    def with_reasons(self, cells: Sequence[Cell | None]) -> tuple[list[Any], list[str | None]]:
        """The same, and for every cell that could not be answered why."""
        with self._lock:
            self._reasons.clear()
            self._control = JobControl()
            keys = [None if cell is None else self.key(cell) for cell in cells]
            wanted = {key: cell for key, cell in zip(keys, cells) if key is not None and cell is not None}
            found = self.cache.get(list(wanted))
            missing = {key: cell for key, cell in wanted.items() if key not in found}
            # Cells of one text are in one piece, which computes it once.
            waiting = sorted(missing, key=lambda key: (missing[key].text, missing[key].task))
            for begin in range(0, len(waiting), _PIECE_CELLS):
                found.update(self._compute({key: missing[key] for key in waiting[begin:begin + _PIECE_CELLS]}))
            values = [None if key is None or key not in found else json.loads(found[key]) for key in keys]
            return values, [None if cell is None else self._reasons.get(cell) for cell in cells]

    def _compute(self, cells: Mapping[str, Cell]) -> dict[str, str]:
        self.computed += len(cells)
        results: dict[str, Any] = {}
        for task, answer in (("ask", self._ask), ("choice", self._ask), ("extract", self._extract), ("embed", self._embed),
                             ("map", self._rows), ("filter", self._rows), ("score", self._rows), ("join", self._pairs)):
            of_task = {key: cell for key, cell in cells.items() if cell.task == task}
            if of_task:
                results.update(answer(of_task))
        texts = {key: json.dumps(value, ensure_ascii=False) for key, value in results.items()}
        self.cache.put(texts)
        return texts

    def _fail(self, cell: Cell, reason: str) -> None:
        reason = _PLACE.sub("", reason)
        self._reasons[cell] = reason
        self.errors.append(CellError(cell.task, cell.about, cell.text[:200], reason))
        del self.errors[:-self.MOST_ERRORS]

    def _ask(self, cells: Mapping[str, Cell]) -> dict[str, Any]:
        """A record for every text, with all that is asked of it."""
        texts: dict[str, list[str]] = {}
        for key, cell in cells.items():
            texts.setdefault(cell.text, []).append(key)
        records = [{"id": number, "context": text,
                    "questions": [{"id": key, "question": cells[key].about,
                                   **({"choices": list(cells[key].labels)} if cells[key].task == "choice" else {})}
                                  for key in asked]} for number, (text, asked) in enumerate(texts.items())]
        results: dict[str, Any] = {}
        by_record = list(texts.values())
        for row in run_job(ask_call(records, model=self.model, engine=self.engine, **self.options["ask"]), self._control):
            if "error" in row:
                of = [row["question_id"]] if row.get("question_id") in cells else by_record[row["id"]]
                for key in of:
                    self._fail(cells[key], row["error"]["message"])
                continue
            cell = cells[row["question_id"]]
            results[row["question_id"]] = row["answer"] if cell.task == "ask" else {
                "label": row["answer"], "probability": row["probabilities"][row["choice"]]}
        return results

    def _rows(self, cells: Mapping[str, Cell]) -> dict[str, Any]:
        return row_answers(self, cells)

    def _pairs(self, cells: Mapping[str, Cell]) -> dict[str, Any]:
        return pair_answers(self, cells)

    def _extract(self, cells: Mapping[str, Cell]) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for schema in dict.fromkeys(cell.about for cell in cells.values()):
            records = [{"id": key, "text": cell.text} for key, cell in cells.items() if cell.about == schema]
            call = extract_call(records, schema, model=self.model, engine=self.engine, **self.options["extract"])
            for row in run_job(call, self._control):
                if "error" in row:
                    self._fail(cells[row["id"]], row["error"]["message"])
                else:
                    results[row["id"]] = row["values"]
        return results

    def _embed(self, cells: Mapping[str, Cell]) -> dict[str, Any]:
        if self.encoder is None:
            raise Error("embed: expected encoder=…, a model that gives vectors")
        found = self.encoder.embed([cell.text for cell in cells.values()])
        results: dict[str, Any] = {}
        for (key, cell), vector, error in zip(cells.items(), found.dense, found.errors):
            if error is None:
                results[key] = vector.tolist()
            else:
                self._fail(cell, error.message)
        return results


def cells_of(task: str, texts: Iterable[str | None], abouts: Iterable[str | None],
             labels: Iterable[Sequence[str | None] | None] | None = None) -> list[Cell | None]:
    """One cell for every text; None where anything of it is None."""
    if labels is None:
        return [None if text is None or about is None else Cell(task, text, about) for text, about in zip(texts, abouts)]
    return [None if text is None or about is None or names is None or None in names
            else Cell(task, text, about, tuple(name for name in names if name is not None))
            for text, about, names in zip(texts, abouts, labels)]
