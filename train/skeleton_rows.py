"""Documents of `train.skeleton_data` as rows of tokens with positions, steps and labels.

A token's `step` is 0 for prompt and template, k for the k-th token of a value. Key j is visible to query i iff j <= i
and step[j] <= step[i]: template tokens see no value, and a value's k-th token sees the first k of each value above it.

    p p p a1 v v . . a2 v . . . a3 v v      `.`: the gap, positions without tokens
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

IGNORED = -100


@dataclass
class Row:
    """[tokens]: `label` the token to predict, IGNORED where there is none; `slot` the value that the prediction belongs
    to."""

    ids: np.ndarray
    pos: np.ndarray
    step: np.ndarray
    label: np.ndarray
    slot: np.ndarray
    source: str = ""


class Documents:
    def __init__(self, path: Path):
        data = np.load(path)
        self.data = {name: data[name] for name in data.files}
        self.train = self.data["train"]
        self.sources = json.loads(self.data["sources"].tobytes()) if "sources" in self.data else [""]

    def source(self, n: int) -> str:
        return self.sources[int(self.data["source"][n])] if "source" in self.data else ""

    def slot_type(self, s: int) -> int:
        return int(self.data["slot_type"][s]) if "slot_type" in self.data else 0

    def mixed(self, n: int) -> Row:
        """As the document's own form says: some of a mixture are sequential."""
        return self.sequential(n) if "form" in self.data and self.data["form"][n] else self.skeleton(n)

    def part(self, name: str, n: int) -> np.ndarray:
        ends = self.data[name + "_end"]
        return self.data[name][ends[n] : ends[n + 1]].astype(np.int64)

    def skeleton(self, n: int) -> Row:
        prompt = self.part("prompt", n)
        ids, pos, step = [prompt], [np.arange(len(prompt))], [np.zeros(len(prompt), np.int64)]
        label, slot = [np.full(len(prompt), IGNORED)], [np.full(len(prompt), -1)]
        for s in range(*self.data["slots"][n : n + 2]):
            template, value, at = self.part("template", s), self.part("value", s), int(self.data["position"][s])
            fed = (
                value[:-1] if self.data["kept"][s] else value[:0]
            )  # the last token ends the value: predicted, never fed
            size = len(template) + len(fed)
            wanted = np.full(size, IGNORED)
            if self.data["kept"][s]:
                wanted[len(template) - 1 :] = value
            ids.append(np.concatenate([template, fed]))
            pos.append(at + np.arange(size))
            step.append(np.maximum(np.arange(size) - len(template) + 1, 0))
            label.append(wanted)
            slot.append(np.full(size, s - self.data["slots"][n]))
        return Row(*map(np.concatenate, (ids, pos, step, label, slot)), source=self.source(n))

    def sequential(self, n: int) -> Row:
        prompt, answer = self.part("prompt", n), self.part("answer", n)
        ends = self.data["answer_end"]
        marks = self.data["answer_label"][ends[n] : ends[n + 1]].astype(bool)
        ids = np.concatenate([prompt, answer])
        label, slot = np.full(len(ids), IGNORED), np.full(len(ids), -1)
        at = len(prompt) - 1 + np.flatnonzero(marks)
        label[at] = answer[marks]
        starts = marks & ~np.concatenate([[False], marks[:-1]])
        slot[at] = np.cumsum(starts)[marks] - 1
        return Row(ids, np.arange(len(ids)), np.zeros(len(ids), np.int64), label, slot, self.source(n))


def mask_of(torch, step, size):
    """[rows, 1, width, width] from steps [rows, width] and lengths [rows]; padding sees itself alone and is seen by
    nothing else."""
    width = step.shape[1]
    place = torch.arange(width, device=step.device)
    real = place[None] < size[:, None]
    seen = (place[None, None, :] <= place[None, :, None]) & (step[:, None, :] <= step[:, :, None]) & real[:, None, :]
    return (seen | (place[None, None, :] == place[None, :, None]))[:, None]
