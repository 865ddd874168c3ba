"""Documents that a model was trained on, by the hashes beside its card (`train.trained_on`)."""

from __future__ import annotations

import json
from bisect import bisect_left
from pathlib import Path

from train.trained_on import BYTES, MOST, file_beside, hash_of, texts_of

ADAPTERS = Path(__file__).parents[1] / "models"  # that ship, by name


class BadHashes(ValueError):
    pass


class TrainedOn:
    """A set of texts. `known`: whether anything is known at all of what the model was trained on."""

    def __init__(self, data: bytes = b"", known: bool = False):
        if len(data) % BYTES or len(data) > BYTES * MOST:
            raise BadHashes(f"expected hashes of {BYTES} bytes, {MOST} at most, found {len(data)} bytes")
        self.data, self.known = memoryview(data), known

    def __len__(self) -> int:
        return len(self.data) // BYTES

    def __contains__(self, text: str) -> bool:
        wanted = hash_of(text)
        if wanted is None or not len(self):
            return False
        at = bisect_left(range(len(self)), wanted, key=lambda n: bytes(self.data[n * BYTES : (n + 1) * BYTES]))
        return at < len(self) and self.data[at * BYTES : (at + 1) * BYTES] == wanted


def _file_of(place: Path) -> Path | None:
    """The file with the hashes: what the card says, else the one with the usual name."""
    card = place / "banyan.json"
    if card.is_file():
        field = json.loads(card.read_text(encoding="utf-8")).get("trained_on")
        if field is not None:
            name = field.get("file") if isinstance(field, dict) else None
            if not isinstance(name, str) or Path(name).name != name or not (place / name).is_file():
                raise BadHashes(f"{card}: 'trained_on': expected the name of a file beside it")
            return place / name
    usual = file_beside(place)
    return usual if usual.is_file() else None


def read(model: str, adapter: str = "") -> list[TrainedOn]:
    """Of the model and of its adapter: what either was trained on is no test."""
    found = []
    for name in filter(None, (model, adapter)):
        place = Path(name) if Path(name).exists() else ADAPTERS / name
        file = _file_of(place) if place.exists() else None
        try:
            found.append(TrainedOn(file.read_bytes(), known=True) if file else TrainedOn())
        except BadHashes as bad:
            raise BadHashes(f"{file}: {bad}") from None
    return found


def mark(rows: list[dict], seen: list[TrainedOn]) -> tuple[list[dict], int]:
    """Rows with "trained_on": true where a document is one of training; and how many these are. A mark that is there
    stays."""
    marked = [
        (
            dict(r, trained_on=True)
            if r.get("trained_on") or any(text in one for text in texts_of(r) for one in seen)
            else r
        )
        for r in rows
    ]
    return marked, sum(bool(r.get("trained_on")) for r in marked)
