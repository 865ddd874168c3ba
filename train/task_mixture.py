"""Which sample an adapter for all tasks learns from next: questions on texts (`train.reading_mixture`) or a document
with the values of a schema (`train.task_documents`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from train import task_documents
from train.extract_layout import Laid
from train.lexicon import Lexicon
from train.reading_mixture import ReadingMixture
from train.sample import Sample

# How often a document of a source is taken, against once for others.
RATES = {"oa_mine_train": 1.5, "crossner": 0.5, "references_anystyle": 0.5, "us_addresses": 0.6, "everyday": 1.2}


LINE_ITEMS = 6.0  # documents with a list of objects, and the objects themselves, are few


def rate_of(laid: Laid) -> float:
    if laid.source.endswith("items") or any(s.type == "items" for s in laid.slots):
        return LINE_ITEMS
    return RATES.get(laid.source.split("/")[0].split(" ")[0], 1.0)


@dataclass
class TaskMixture:
    """Called by the packer for every sample. `extraction`: the share of the samples that are documents with values."""

    reading: ReadingMixture
    documents: list[Path]
    extraction: float = 0.45
    _laid: list[Laid] = field(default_factory=list, repr=False)
    _cumulative: list[float] = field(default_factory=list, repr=False)

    def load(self) -> None:
        self._laid = [x for path in self.documents for x in task_documents.load(path) if not x.held]
        total = 0.0
        for x in self._laid:
            total += rate_of(x)
            self._cumulative.append(total)

    def __call__(self, lex: Lexicon, progress: float) -> Sample | Laid:
        if not lex.chance(self.extraction):
            return self.reading(lex, progress)
        if not self._laid:
            self.load()
        return lex.rng.choices(self._laid, cum_weights=self._cumulative)[0]
