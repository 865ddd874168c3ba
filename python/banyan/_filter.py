"""The semantic filter: which texts a statement is true of, with a threshold for a wanted recall, and a cascade of two
models; and of which rows of a table, as the command line has it."""
from __future__ import annotations

import dataclasses
import itertools
import math
import os
from typing import Any, Mapping, Sequence, overload

from ._answers import Answers, Cell
from ._errors import Error
from ._frames import text_cells
from ._model import Model
from ._names import documented
from ._options import EngineOptions, Path, TableOptions
from ._progress import Progress
from ._rows import Rows
from ._run import run_job
from ._table import filter_call
from ._tables import Data, is_series

_QUESTION = "Is this true of the text: {statement}"
_LABELS = ("yes", "no")


@dataclasses.dataclass
class Share:
    """A part of a whole that was counted, with its 95 % interval (Wilson's)."""

    part: int
    whole: int

    @property
    def value(self) -> float:
        return self.part / self.whole if self.whole else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        if self.whole == 0:
            return 0.0, 1.0
        z, n, p = 1.959964, self.whole, self.value
        middle, width = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (middle - width) / (1 + z * z / n)), min(1.0, (middle + width) / (1 + z * z / n))


@dataclasses.dataclass
class Filtered:
    """What `filter` found. Lists are in the order of the texts."""

    keep: list[bool | None]  #: None: no text, or one that could not be read
    probabilities: list[float | None]  #: of "yes"; of the model that decided
    decided_by: list[str | None]  #: "small" or "large"
    threshold: float
    recall: Share | None  #: on the labelled sample, at this threshold
    precision: Share | None
    asked: dict[str, int]  #: texts that each model read, the sample not counted
    errors: list[str]


def threshold_for(probabilities: Sequence[float], labels: Sequence[bool], recall: float, sure: bool = False) -> float:
    """The highest threshold that keeps at least this share of the true ones; `sure`: of which even the lower end of
    the 95 % interval does. 0 where none does."""
    positives = sorted((p for p, true in zip(probabilities, labels) if true), reverse=True)
    if not positives:
        raise Error("labelled: expected some texts of which the statement is true", "input")
    for kept, threshold in enumerate(positives, 1):
        share = Share(kept, len(positives))
        if (share.interval[0] if sure else share.value) >= recall and (kept == len(positives) or positives[kept] < threshold):
            return threshold
    return 0.0


def _counted(keep: Sequence[bool], labels: Sequence[bool]) -> tuple[Share, Share]:
    both = sum(one and true for one, true in zip(keep, labels))
    return Share(both, sum(labels)), Share(both, sum(keep))


class _Judge:
    """Probabilities of "yes" of one model, exact log-probabilities of both answers."""

    def __init__(self, model: Model | Path | None, statement: str, options: Mapping[str, Any]) -> None:
        self.answers = Answers(model, options={"ask": options})
        self.question = _QUESTION.format(statement=statement)

    def __call__(self, texts: Sequence[str | None]) -> list[float | None]:
        found = self.answers([None if text is None else Cell("choice", text, self.question, _LABELS) for text in texts])
        return [None if one is None else one["probability"] if one["label"] == "yes" else 1.0 - one["probability"]
                for one in found]


def _sure_band(probabilities: Sequence[float], labels: Sequence[bool], recall: float, precision: float) -> tuple[float, float]:
    """Below the first number the small model says no, from the second on yes. What it loses may be half of what the
    recall allows; what it keeps must have the precision."""
    low = threshold_for(probabilities, labels, 1.0 - (1.0 - recall) / 2)
    high = math.inf
    for candidate in sorted(set(probabilities), reverse=True):
        kept = [true for p, true in zip(probabilities, labels) if p >= candidate]
        if sum(kept) / len(kept) >= precision:
            high = candidate
    return low, max(low, high)


def _texts(texts: Any) -> list[str | None]:
    """A list or a column of texts; raises an Error for what is none, before anything is read."""
    if isinstance(texts, (str, bytes, Mapping)) or hasattr(texts, "columns"):
        raise Error(f"texts: expected a list or one column of texts, found {type(texts).__name__}", "input")
    values = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)
    cells = text_cells(values)
    for place, cell in enumerate(cells):
        if isinstance(cell, Error):
            raise Error(f"texts: row {place}: {cell.message}", "input", row=place)
    return [cell for cell in cells if not isinstance(cell, Error)]


def _are_texts(data: Any) -> bool:
    """A list or a column of texts; what else there is are the rows of a table."""
    if isinstance(data, (list, tuple)):
        first = next((one for one in data if one is not None), None)
        return not isinstance(first, (Mapping, os.PathLike))
    return is_series(data)


@overload
def filter(texts: Sequence[str | None], statement: str, *, model: Model | Path | None = None, small: Model | Path | None = None,
           labelled: Sequence[tuple[str, bool]] = (), recall: float | None = None, sure: bool = False,
           small_precision: float = 0.95, threshold: float = 0.5, **more: Any) -> Filtered: ...
@overload
def filter(texts: Data, statement: str, *, model: Model | Path | None = None, large: Model | Path | None = None,
           output: Path | None = None, engine: EngineOptions | None = None, progress: Progress | None = None,
           timeout: float | None = None, options: TableOptions | None = None, **more: Any) -> Rows: ...
@documented("filter")
def filter(texts: Any, statement: str, *, model: Model | Path | None = None, small: Model | Path | None = None,
           labelled: Sequence[tuple[str, bool]] = (), recall: float | None = None, sure: bool = False,
           small_precision: float = 0.95, threshold: float | None = None, large: Model | Path | None = None,
           output: Path | None = None, engine: EngineOptions | None = None, progress: Progress | None = None,
           timeout: float | None = None, options: TableOptions | None = None, **more: Any) -> Filtered | Rows:
    """Which rows of a table, or which texts, the statement is true of.

    Of a table (all that `map` takes, but lists and columns of texts) the rows that are kept, as ``banyan filter`` gives
    them; with `large` and `recall` or `precision` the model decides where a sample shows that it may, `large` the rest.

    >>> boats = [{"name": "Otter", "page": "The ferry Otter is blue."}]
    >>> banyan.filter(boats, "{page} is about {name}.", all=True)[0]["keep"] in (True, False)
    True

    Of texts, a `Filtered`. The probability is that of "yes" against "no", from the exact log-probabilities of both. With a `labelled` sample of
    (text, true or not) and a `recall`, the threshold is the highest one that finds this share of the true ones of the
    sample; `sure`: that finds it even at the lower end of the 95 % interval. With a `small` model the cascade asks it
    first: where its probability is below or above what the sample shows to be safe (`small_precision` for "yes"), it
    decides, and `model` reads the rest. Other options are those of `banyan.ask`: choice_score, template, instruction …

    >>> found = banyan.filter(["Anna steers the ferry.", None], "it is about a boat")
    >>> found.keep[1] is None and 0.0 <= found.probabilities[0] <= 1.0
    True

    | parameter | |
    |---|---|
    | `texts` | a table, or texts |
    | `statement` | of texts a statement; of a table with {column} where a column's text belongs, or with `columns` |
    | `large` | of a table: the model that decides what `model` is not sure of |
    | `small`, `labelled`, `sure`, `small_precision` | of texts, as above |
    """
    if hasattr(texts, "__next__"):
        first = next(texts, None)
        texts = itertools.chain([first], texts) if isinstance(first, Mapping) else [first, *texts]
    if not _are_texts(texts) or large is not None or output is not None or "columns" in more:
        for name, is_given in (("small", small is not None), ("labelled", bool(labelled)), ("sure", sure)):
            if is_given:
                raise Error(f"{name}: is of lists of texts; a table has large=MODEL and label=COLUMN")
        named = {"recall": recall, "threshold": threshold}
        more.update({name: value for name, value in named.items() if value is not None})
        return run_job(filter_call(texts, statement, large=large, model=model, output=output, engine=engine,
                                   progress=progress, timeout=timeout, options=options, **more))
    for name, given in (("engine", engine), ("progress", progress), ("timeout", timeout), ("options", options)):
        if given is not None:
            raise Error(f"{name}: is of tables, not of lists of texts")
    return _filter_texts(texts, statement, model, small, labelled, recall, sure, small_precision,
                         0.5 if threshold is None else threshold, more)


def _filter_texts(texts: Any, statement: str, model: Model | Path | None, small: Model | Path | None,
                  labelled: Sequence[tuple[str, bool]], recall: float | None, sure: bool, small_precision: float,
                  threshold: float, options: Mapping[str, Any]) -> Filtered:
    if (recall is None) != (not labelled):
        raise Error("recall and labelled: expected both or neither")
    if recall is not None and not 0.0 < recall <= 1.0:
        raise Error(f"recall: expected a share above 0 and up to 1, found {recall}")
    if small is not None and not labelled:
        raise Error("small: expected a labelled sample and a recall, which say where the small model is sure")
    listed = _texts(texts)
    large_judge = _Judge(model, statement, options)
    small_judge = None if small is None else _Judge(small, statement, options)
    low, high = -math.inf, -math.inf  # of the small model: nothing is sure
    sample = [text for text, _ in labelled]
    labels = [bool(true) for _, true in labelled]
    recalled = precise = None
    if recall is not None:
        of_large = [p if p is not None else 0.0 for p in large_judge(sample)]
        if small_judge is not None:
            of_small = [p if p is not None else 0.0 for p in small_judge(sample)]
            low, high = _sure_band(of_small, labels, recall, small_precision)
            # What the small model keeps or loses is decided; the large one's threshold makes up for it.
            of_large = [math.inf if p >= high else -math.inf if p < low else q for p, q in zip(of_small, of_large)]
        # At most 1: where the small model finds enough alone, the large one keeps what it is certain of.
        threshold = min(1.0, max(0.0, threshold_for(of_large, labels, recall, sure)))
        recalled, precise = _counted([q >= threshold for q in of_large], labels)
    return _decide(listed, large_judge, small_judge, (low, high), threshold, recalled, precise)


def _decide(texts: list[str | None], large: _Judge, small: _Judge | None, band: tuple[float, float], threshold: float,
            recall: Share | None, precision: Share | None) -> Filtered:
    probabilities: list[float | None] = [None] * len(texts)
    keep: list[bool | None] = [None] * len(texts)
    decided: list[str | None] = [None] * len(texts)
    rest = list(range(len(texts)))
    asked = {"large": 0}
    if small is not None:
        asked["small"] = sum(text is not None for text in texts)
        for number, p in enumerate(small(texts)):
            if p is not None and (p < band[0] or p >= band[1]):
                probabilities[number], keep[number], decided[number] = p, p >= band[1], "small"
        rest = [number for number in rest if decided[number] is None]
    asked["large"] = sum(texts[number] is not None for number in rest)
    for number, q in zip(rest, large([texts[number] for number in rest])):
        if q is not None:
            probabilities[number], keep[number], decided[number] = q, q >= threshold, "large"
    errors = [error.reason for judge in (large, small) if judge is not None for error in judge.answers.errors]
    return Filtered(keep, probabilities, decided, threshold, recall, precision, asked, errors)
