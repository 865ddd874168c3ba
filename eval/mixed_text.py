"""The text of the tables of precisions, 26 kB of English out of a folder of data sets:

    python3 -m eval.mixed_text FOLDER > text.txt

A novel (War and Peace, from the middle), six paragraphs of Wikipedia (SQuAD 2.0), a medical paper (COVID-QA), a summary
of a novel (NarrativeQA), a report of a football game (DROP) and a tale (FairytaleQA).
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

LONGEST = 6000  # characters of one source


def context(folder: Path, name: str, row: int) -> str:
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return json.loads(next(line for n, line in enumerate(lines) if n == row))["context"]


def mixed_text(folder: Path) -> str:
    with gzip.open(folder / "war_and_peace.txt.gz", "rt", encoding="utf-8") as book:
        novel = book.read()[300000 : 300000 + LONGEST]
    return "\n\n".join(
        [
            novel,
            *(context(folder, "squad2", n) for n in (3, 20, 40, 60, 80, 100)),
            context(folder, "covidqa", 4)[2000 : 2000 + LONGEST],
            context(folder, "narrativeqa", 7),
            context(folder, "drop", 5),
            context(folder, "fairytaleqa", 2)[:LONGEST],
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(mixed_text(Path(sys.argv[1])))
