"""A reader's answers in several precisions, on questions that it was not trained on:

    python3 -m eval.reader_precision -m MODEL [--adapter DIR] [--file eval/samples/natural.jsonl ...] [--data FOLDER
        --set squad2 --limit 40] \\
        [--threads 2] f32 mixed mixed:q8 cuda:w8a8

Settings are those of eval.precision, questions and scores those of eval.reading; answers are spans of the text (`ask
--copy`). `same` is the share of answers that equal the first setting's letter for letter. The first row is what `null`
to every question gets. Intervals hold 95 % of --draws draws of texts with replacement; the last column is the
difference of F1 from the first setting over the same draws.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from eval.precision import Setting
from eval.reading import ask, held_records, intervals, judge, means

COLUMNS = (
    "| setting | exact | F1 | F1 where there is an answer | `null` where there is none | same answers | F1 less the"
    " first's |"
)


def difference(
    first: list[list[dict]], other: list[list[dict]], draws: int, seed: int = 1
) -> tuple[float, float, float]:
    """Mean difference of F1 over all questions, and the interval that holds 95 % of draws of texts."""
    texts = [(len(a), sum(q["f1"] for q in b) - sum(q["f1"] for q in a)) for a, b in zip(first, other, strict=True)]
    mean = lambda drawn: sum(d for _, d in drawn) / sum(n for n, _ in drawn)
    rng = random.Random(seed)
    made = sorted(mean(rng.choices(texts, k=len(texts))) for _ in range(draws))
    return mean(texts), made[int(0.025 * draws)], made[int(0.975 * draws)]


def row_of(
    name: str, judged: list[list[dict]], first: list[list[dict]] | None, same: float | None, draws: int
) -> tuple[str, dict]:
    """(line of the table, its figures)"""
    row = dict(means(judged), setting=name, intervals=intervals(judged, draws), same=same)
    low, high = row["intervals"]["f1"]
    cells = [
        name,
        f"{row['exact']:.1%}",
        f"{row['f1']:.3f} ({low:.2f} to {high:.2f})",
        *("–" if row[k] is None else f"{row[k]:.3f}" for k in ("answerable_f1", "null_accuracy")),
        "–" if same is None else f"{same:.1%}",
    ]
    if first is None:
        cells.append("")
    else:
        row["difference"] = difference(first, judged, draws)
        cells.append("{:+.3f} ({:+.3f} to {:+.3f})".format(*row["difference"]))
    return "| " + " | ".join(cells) + " |", row


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument(
        "--file", type=Path, action="append", default=[], help="a question file, all of it; may be given several times"
    )
    p.add_argument("--data", type=Path, help="folder of question files")
    p.add_argument("--set", default="squad2", help="its documents that no reader was trained on (eval.reading)")
    p.add_argument("--limit", type=int, default=0, help="contexts of the set; 0: all")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--json", type=Path)
    p.add_argument("settings", nargs="+")
    a = p.parse_args()
    settings = [Setting.parse(s) for s in a.settings]
    sets = {f.stem: [json.loads(line) for line in f.read_text(encoding="utf-8").split("\n") if line] for f in a.file}
    if a.data:
        sets[a.set] = held_records(a.data, a.set, a.limit)
    if not sets or any(s.device == "llama" for s in settings):
        p.error("expected --file or --data, and settings of Banyan")
    asked = [dict(r, id=f"{name}/{r['id']}") for name, records in sets.items() for r in records]  # all sets in one run
    answers = [
        ask(a.banyan, a.model, a.adapter, asked, [*s.options, "--threads", str(a.threads), "--copy"])[0]
        for s in settings
    ]
    out = {}
    for name, records in sets.items():
        records = [dict(r, id=f"{name}/{r['id']}") for r in records]
        keys = [(r["id"], q["id"]) for r in records for q in r["questions"]]
        nulls = row_of("`null` to all", judge(records, dict.fromkeys(keys, "null")), None, None, a.draws)
        judged = [judge(records, found) for found in answers]
        same = [sum(found.get(k) == answers[0].get(k) for k in keys) / len(keys) for found in answers]
        rows = [nulls] + [
            row_of(s.name, j, judged[0] if n else None, same[n], a.draws)
            for n, (s, j) in enumerate(zip(settings, judged))
        ]
        print(
            f"{Path(a.model).name}{' with ' + Path(a.adapter).name if a.adapter else ''}, {name}: {len(keys)} questions"
            f" of {len(records)} texts"
        )
        print(COLUMNS + "\n" + "|---" * 7 + "|\n" + "\n".join(line for line, _ in rows) + "\n", flush=True)
        out[name] = [row for _, row in rows]
    if a.json:
        a.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
