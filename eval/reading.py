"""Scores of a reader on held-out questions, through `banyan ask`, without and with an adapter:

    python3 -m eval.reading -m MODEL --data FOLDER [--adapter DIR] [--set squad2] [--limit N] [--json FILE] [-- --threads 2]
    python3 -m eval.reading -m MODEL --file eval/samples/natural.jsonl [--adapter DIR] [-- --copy]

The questions are those of FOLDER/SET.jsonl whose documents `train.reader_data` holds out (for squad2: the articles Normans and
Scottish Parliament), or all of a file: `natural.jsonl` has a hundred on letters, invoices, recipes, tickets and the like that no model
here was trained on or chosen by. Exact match and F1 are SQuAD's; a question without an answer wants `null`. `not in text` is the share
of answers, `null` apart, that do not stand in the context word for word.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from eval.metrics import exact_match, normalize, token_f1
from train.reader_data import is_held


def held_records(folder: Path, name: str, limit: int) -> list[dict]:
    records = [json.loads(line) for line in (folder / f"{name}.jsonl").open(encoding="utf-8")]
    return [r for r in records if is_held(name, r["id"])][:limit or None]


def ask(binary: str, model: str, adapter: str, records: list[dict], options: list[str]) -> tuple[dict, float]:
    """Answers by (record, question), and the seconds they took."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        source.write_text("".join(json.dumps(r) + "\n" for r in records))
        command = [binary, "ask", "-m", model, str(source), "-o", str(target), "--max-new", "32", "--quiet", *(["--adapter", adapter] if adapter else []), *options]
        began = time.time()
        subprocess.run(command, check=True)
        rows = [json.loads(line) for line in target.read_text().splitlines()]
    return {(o["id"], o["question_id"]): (o.get("answer") or "null").strip() for o in rows}, time.time() - began


def score(records: list[dict], found: dict) -> dict:
    known, unknown, foreign, given = [], [], 0, 0
    exact = 0
    for r in records:
        text = f" {normalize(r['context'])} "
        for q in r["questions"]:
            answer = found[r["id"], q["id"]]
            exact += exact_match(answer, q["answers"])
            (known if q["answers"] else unknown).append(token_f1(answer, q["answers"]))
            if normalize(answer) != "null":
                given += 1
                foreign += f" {normalize(answer)} " not in text
    mean = lambda values: round(sum(values) / len(values), 4) if values else None
    return dict(questions=len(known) + len(unknown), exact=round(exact / (len(known) + len(unknown)), 4), f1=mean(known + unknown), answerable_f1=mean(known),
                null_accuracy=mean([float(f == 1.0) for f in unknown]), not_in_text=round(foreign / given, 4) if given else 0.0)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--data", type=Path, help="folder of question files")
    p.add_argument("--file", type=Path, help="one question file, all of it, instead of --data and --set")
    p.add_argument("--only-adapter", action="store_true", help="no run without the adapter")
    p.add_argument("--adapter", default="")
    p.add_argument("--set", default="squad2")
    p.add_argument("--limit", type=int, default=0, help="contexts; 0: all that are held out")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    p.add_argument("options", nargs="*", help="options for `banyan ask`, after --")
    a = p.parse_args()
    if not a.data and not a.file:
        p.error("expected --data or --file")
    records = [json.loads(line) for line in a.file.open(encoding="utf-8")][:a.limit or None] if a.file else held_records(a.data, a.set, a.limit)
    table = {}
    for name, adapter in ([] if a.only_adapter else [("without adapter", "")]) + ([("with adapter", a.adapter)] if a.adapter else []):
        found, seconds = ask(a.banyan, a.model, adapter, records, a.options)
        table[name] = dict(score(records, found), seconds=round(seconds, 1))
        print(name, json.dumps(table[name]), flush=True)
    if a.json:
        a.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
