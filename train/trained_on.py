"""Which texts a model was trained on, as hashes beside its card, so that an evaluation can leave them out.

    python3 -m train.trained_on --to models/smollm2-reader --texts texts.jsonl.xz …
    python3 -m train.trained_on --to models/banyan-reader-34m.gguf --texts texts.jsonl.xz --examples SHARED/data

`--texts`: files of rows whose `text`, `context` or `documents` count, of `split` "train" where a row has one
(`train.reading_texts`); `--examples`: a folder of question files of which those documents count that
`train.reader_data` does not hold out. The hashes are 6 bytes of the SHA-256 of a text's words in lower case, sorted, in
the file `trained-on.bin` of an adapter's or a model's folder, or `STEM.trained-on.bin` beside a GGUF file. The field
`trained_on` of the card `banyan.json` names the file and how many there are; a card inside a GGUF file is left alone.
The program ignores the field; `eval.trained` reads it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path

from train.overlap import normal
from train.reader_data import CONTEXT_FILES, DOCUMENT_FILES, is_held

BYTES = 6  # of a hash: of 100 000 texts, one in 2.8 billion others is taken for one of them
MOST = 1_000_000  # hashes of a file
LEAST_WORDS = 4  # shorter texts are names and answers


def hash_of(text: str) -> bytes | None:
    """None: too short to be a document."""
    words = normal(text)
    return hashlib.sha256(" ".join(words).encode()).digest()[:BYTES] if len(words) >= LEAST_WORDS else None


def texts_of(row: dict) -> Iterator[str]:
    """The documents of a row, as any of the files has them."""
    for name in ("text", "context"):
        if isinstance(row.get(name), str):
            yield row[name]
    for document in row.get("documents") or []:
        yield document["text"] if isinstance(document, dict) else document[0]


def rows_of(path: Path) -> Iterator[dict]:
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def trained_texts(files: list[Path], examples: Path | None) -> Iterator[str]:
    for file in files:
        for row in rows_of(file):
            if row.get("split", "train") == "train":
                yield from texts_of(row)
    for name in (*CONTEXT_FILES, *DOCUMENT_FILES) if examples else ():
        for row in rows_of(examples / f"{name}.jsonl"):
            if not is_held(name, row["id"]):
                yield from texts_of(row)


def packed(texts: Iterable[str]) -> bytes:
    hashes = sorted({made for text in texts if (made := hash_of(text)) is not None})
    if len(hashes) > MOST:
        raise ValueError(f"expected at most {MOST} texts, found {len(hashes)}")
    return b"".join(hashes)


def file_beside(model: Path) -> Path:
    return model / "trained-on.bin" if model.is_dir() else model.with_name(f"{model.stem}.trained-on.bin")


def write(model: Path, texts: Iterable[str]) -> int:
    """How many texts there are."""
    data, target = packed(texts), file_beside(model)
    target.write_bytes(data)
    card = model / "banyan.json"
    if card.is_file():
        fields = json.loads(card.read_text(encoding="utf-8"))
        fields["trained_on"] = {"file": target.name, "texts": len(data) // BYTES}
        card.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return len(data) // BYTES


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--to", type=Path, required=True, help="an adapter's or a model's folder, or a GGUF file")
    p.add_argument("--texts", type=Path, nargs="*", default=[])
    p.add_argument("--examples", type=Path)
    a = p.parse_args()
    print(f"{file_beside(a.to)}: {write(a.to, trained_texts(a.texts, a.examples))} texts")


if __name__ == "__main__":
    main()
