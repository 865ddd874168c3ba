"""What the second edition reads: generated texts (`train.mixture`), everyday templates (`train.natural`), question files (`train.reader_data`), and
texts that a large model wrote, asked about and answered (`train.written`), as far as those are there yet.
"""
from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path

from train.lexicon import HELD, TRAIN, Lexicon
from train.mixture import draw_length, make_sample
from train.natural import FOLDER, natural
from train.retrieval import no_document, secret_code, two_hop_document
from train.sample import DEFAULT_INSTRUCTION, INSTRUCTIONS, Branch, Extraction, Sample

TEXT_WEIGHT = 0.05  # of predicting texts that people or a model wrote: what was cut away has to be learned again
QUESTIONS = 10  # of one text at a time


def grouped(path: Path, split: str) -> list[Sample]:
    """The questions of a file (`Example`s of `train.reader_data`), those on one text together."""
    texts: dict[str, list[Branch]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as f:
        for e in map(json.loads, f):
            if e["split"] == split and e["source"] != "generated":
                task = e["source"] + ("-null" if e["answer"] == "null" else "")
                texts.setdefault(e["context"], []).append(Branch(e["question"], e["answer"], task, weight=0.5 if e["source"] == "cloze" else 1.0))
    return [Sample(DEFAULT_INSTRUCTION, text, branches, text_weight=TEXT_WEIGHT) for text, branches in texts.items()]


@dataclass
class Mixture:
    """Called by the packer for every sample. `only`: one kind alone ("generated", "natural", "examples", "written"), for scores."""
    examples: Path
    natural: Path = FOLDER
    written: Path | None = None  # a folder to which files `N.jsonl.gz` are added while training runs
    only: str = ""
    _samples: dict = field(default_factory=dict, repr=False)
    _seen: set = field(default_factory=set, repr=False)
    _draws: int = 0

    def pool(self, kind: str, split: str) -> list[Sample]:
        if kind == "examples" and (kind, split) not in self._samples:
            self._samples[kind, split] = grouped(self.examples, split)
        if kind == "written" and self.written and self._draws % 64 == 0:
            for path in sorted(self.written.glob("*.jsonl.gz")):
                if path.name not in self._seen:
                    self._seen.add(path.name)
                    self._samples.setdefault((kind, split), []).extend(grouped(path, split))
        return self._samples.get((kind, split), [])

    def from_pool(self, lex: Lexicon, kind: str) -> Sample | None:
        pool = self.pool(kind, lex.split)
        if not pool:
            return None
        s = lex.choice(pool)
        system = lex.choice(INSTRUCTIONS) if lex.split == TRAIN and lex.chance(0.2) else s.system
        return Sample(system, s.context, lex.rng.sample(s.branches, min(len(s.branches), QUESTIONS)), text_weight=s.text_weight)

    def __call__(self, lex: Lexicon, progress: float) -> Sample | Extraction:
        self._draws += 1
        if self._draws % 64 == 0:
            self.pool("written", lex.split)
        kind = lex.rng.random()
        chosen = self.only or ("generated" if kind < 0.36 else "natural" if kind < 0.62 else "written" if kind < 0.9 else "examples")
        made = self.from_pool(lex, chosen) if chosen in ("written", "examples") else None
        if made is not None:
            return made
        if chosen != "generated":
            return natural(lex, draw_length(lex, min(1.0, 2 * progress)), self.natural)
        if progress > 0.3 and lex.split != HELD and lex.chance(0.25):  # what experts and priors see, so that guesses stay calibrated
            return lex.choice((two_hop_document, secret_code))(lex, lex.between(30, 200)) if lex.chance(0.75) else no_document(lex)
        return make_sample(lex, min(1.0, 2 * progress))
