"""The texts and questions of the quality tables, as files, so that every command of the page can be run by hand.

    python3 -m bench.evidence.sets [--size small] [--out build/evidence/sets]

`make evidence` writes them before it measures. All are generated from seeds (`eval.sets`), but for `texts.jsonl`, the
first of eval/samples/natural.jsonl, and `draft.gguf`, a part of the shipped model's own layers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

from bench.cut_model import cut
from bench.evidence.runner import ROOT
from bench.evidence.sizes import SHIPPED, SIZES
from eval.sets import codes, extractions, two_hops
from train.lexicon import HELD, Lexicon

DRAFT_LAYERS = [0, 1, 2, 10, 11]  # of the shipped model's 12: the draft model


@dataclass(frozen=True)
class Counts:
    pages: int
    draft_pages: int
    texts: int
    questions: int  # of each set of documents
    documents: int  # of such a question
    few_questions: int  # where parameters are varied
    few_documents: int


def counts_of(size: str) -> Counts:
    return Counts(1, 1, 1, 1, 4, 1, 4) if size == "tiny" else Counts(12, 8, 4, 20, 6, 12, 4)


def shown(path: Path) -> str:
    """As a command has it: from the project's root where the file is below it, or beside it."""
    path = path.resolve()
    near = path.is_relative_to(ROOT) or path.is_relative_to(ROOT.parent / "shared")
    return os.path.relpath(path, ROOT) if near else str(path)


def write_rows(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")


def write_pages(folder: Path, name: str, count: int) -> None:
    """Generated product pages whose attributes differ from page to page: each is a category."""
    rows = extractions(Lexicon(random.Random("evidence values"), HELD), count)
    schema = {"categories": {r["id"]: {"attributes": [{"name": n} for n in r["attributes"]]} for r in rows}}
    write_rows(folder / f"{name}.jsonl", [dict(r, category=r["id"]) for r in rows])
    (folder / f"{name}-schema.json").write_text(json.dumps(schema) + "\n", encoding="utf-8")


def write_sets(folder: Path, size: str) -> None:
    count = counts_of(size)
    folder.mkdir(parents=True, exist_ok=True)
    write_pages(folder, "pages", count.pages)
    write_pages(folder, "draft-pages", count.draft_pages)
    lines = (ROOT / "eval" / "samples" / "natural.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "texts.jsonl").write_text("\n".join(lines[: count.texts]) + "\n", encoding="utf-8")
    cut(ROOT / SHIPPED, folder / "draft.gguf", DRAFT_LAYERS)
    lex = lambda name: Lexicon(random.Random(f"evidence {name}"), HELD)
    for suffix, questions, documents in (
        ("", count.questions, count.documents),
        ("-few", count.few_questions, count.few_documents),
    ):
        write_rows(folder / f"codes{suffix}.jsonl", codes(lex("codes"), questions, documents))
        write_rows(folder / f"two-hops{suffix}.jsonl", two_hops(lex("hops"), questions, max(2, documents // 2)))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", choices=SIZES, default="small")
    p.add_argument("--out", type=Path, default=Path("build/evidence/sets"))
    a = p.parse_args()
    write_sets(a.out, a.size)


if __name__ == "__main__":
    main()
