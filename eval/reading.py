"""Scores of a reader on held-out questions, through `banyan ask`, without and with an adapter:

    python3 -m eval.reading -m MODEL --data FOLDER [--adapter DIR] [--set squad2] [--limit N] [--json FILE] [--
        --threads 2]
    python3 -m eval.reading -m MODEL --file eval/samples/natural.jsonl [--adapter DIR] [--copy both] [--markdown FILE]

The questions are those of FOLDER/SET.jsonl whose documents `train.reader_data` holds out (for squad2: the articles
Normans and Scottish Parliament), or all of a file (`--file`, any number of them): `natural.jsonl` has a hundred on
letters, invoices, recipes, tickets and the like that no model here was trained on or chosen by. Exact match and F1 are
SQuAD's, ROUGE-L is of the longest common subsequence; a question without an answer wants `null`. Of a question with
`choices` the text of the chosen one counts, also where a letter stands for it. `not in text` is the share of answers,
`null` apart, that do not stand in the context word for word; `denied` the share of `null` where there is an answer;
`errors` counts questions that could not be asked, which are wrong (`-- --too-long split` reads long texts in parts).
The first row of each table is what `null` to every question gets. Intervals hold 95 % of 1000 draws of texts with
replacement.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path

from eval.metrics import chosen_text, contains, exact_match, normalize, right_answers, rouge_l, token_f1
from train.reader_data import is_held


def held_records(folder: Path, name: str, limit: int) -> list[dict]:
    records = [json.loads(line) for line in (folder / f"{name}.jsonl").open(encoding="utf-8")]
    return [r for r in records if is_held(name, r["id"])][: limit or None]


def ask(binary: str, model: str, adapter: str, records: list[dict], options: list[str]) -> tuple[dict, float]:
    """Answers by (record, question), None for a question whose row is an error, and the seconds they took."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        source.write_text("".join(json.dumps(r) + "\n" for r in records))
        command = [
            binary,
            "ask",
            "-m",
            model,
            str(source),
            "-o",
            str(target),
            "--overwrite",
            "--max-new",
            "32",
            "--quiet",
            "--adapter", adapter or "none",
            *options,
        ]
        began = time.time()
        done = subprocess.run(command)
        if done.returncode not in (0, 1):  # 1: some rows are errors
            raise SystemExit(f"{binary} ended with {done.returncode}")
        rows = [json.loads(line) for line in target.read_text().splitlines()] if target.exists() else []
    return answers_of(rows), time.time() - began


def unseen(name: str, records: list[dict], with_trained: bool) -> list[dict]:
    """Without the rows that are marked as documents of training (`trained_on`), unless they are wanted; says how many
    these are."""
    marked = sum(bool(r.get("trained_on")) for r in records)
    if marked:
        print(
            f"{name}: {marked} of {len(records)} texts are marked as trained on:"
            f" {'their scores are no test' if with_trained else 'left out'}",
            flush=True,
        )
    return records if with_trained else [r for r in records if not r.get("trained_on")]


def answers_of(rows: list[dict]) -> dict:
    """By (record, question); None for an error. A record that could not be read at all has one row without a question,
    or without an id: its questions have no answer."""
    return {
        (o.get("id"), o.get("question_id")): None if "error" in o else (o.get("answer") or "null").strip() for o in rows
    }


def judge(records: list[dict], found: dict) -> list[list[dict]]:
    """What became of every question, text by text."""
    out = []
    for r in records:
        rows = []
        for q in r["questions"]:
            answer, right = found.get((r["id"], q["id"])), right_answers(q)
            if answer is None:  # it could not be asked, such as a text that is too long: wrong
                rows.append(
                    dict(exact=0.0, f1=0.0, rouge_l=0.0, known=bool(right), null=False, foreign=False, failed=True)
                )
                continue
            answer = chosen_text(q, answer)
            null = normalize(answer) == "null"
            rows.append(
                dict(
                    exact=float(exact_match(answer, right)),
                    f1=token_f1(answer, right),
                    rouge_l=rouge_l(answer, right),
                    known=bool(right),
                    null=null,
                    foreign=not null and not contains(r["context"], answer),
                    failed=False,
                )
            )
        out.append(rows)
    return out


def means(texts: list[list[dict]]) -> dict:
    rows = [row for text in texts for row in text]
    mean = lambda values: round(sum(values) / len(values), 4) if values else None
    known, unknown, given = (
        [r for r in rows if r["known"]],
        [r for r in rows if not r["known"]],
        [r for r in rows if not r["null"] and not r["failed"]],
    )
    return dict(
        questions=len(rows),
        exact=mean([r["exact"] for r in rows]),
        f1=mean([r["f1"] for r in rows]),
        rouge_l=mean([r["rouge_l"] for r in rows]),
        answerable_f1=mean([r["f1"] for r in known]),
        null_accuracy=mean([float(r["null"]) for r in unknown]),
        denied=mean([float(r["null"]) for r in known]),
        not_in_text=mean([float(r["foreign"]) for r in given]) or 0.0,
        errors=sum(r["failed"] for r in rows),
    )


def intervals(texts: list[list[dict]], draws: int = 1000, seed: int = 1) -> dict[str, list[float]]:
    """95 % of `draws` draws of texts with replacement: questions on one text are not independent."""
    rng = random.Random(seed)
    made = [means(rng.choices(texts, k=len(texts))) for _ in range(draws)]
    out = {}
    for name in ("exact", "f1", "rouge_l", "answerable_f1", "null_accuracy", "denied"):
        values = sorted(m[name] for m in made if m[name] is not None)
        if values:
            out[name] = [values[int(0.025 * len(values))], values[int(0.975 * len(values))]]
    return out


def score(records: list[dict], found: dict) -> dict:
    return means(judge(records, found))


def table_of(name: str, rows: dict[str, dict]) -> str:
    """Markdown."""

    def cell(row: dict, key: str) -> str:
        if row.get(key) is None:
            return "–"
        span = row.get("intervals", {}).get(key)
        return f"{100 * row[key]:.1f}" + (f" ({100 * span[0]:.0f}–{100 * span[1]:.0f})" if span else "")

    keys = ("exact", "f1", "rouge_l", "answerable_f1", "null_accuracy", "denied", "not_in_text")
    lines = [
        f"**{name}**, {next(iter(rows.values()))['questions']} questions (%; 95 % intervals)",
        "",
        (
            "| | exact | F1 | ROUGE-L | F1 where there is an answer | `null` where there is none | `null` where there"
            " is an answer | answers not in the text | errors | s |"
        ),
        "|---" * 10 + "|",
    ]
    lines += [
        f"| {label} | "
        + " | ".join(cell(row, k) for k in keys)
        + f" | {row.get('errors', 0)} | {row.get('seconds', 0):.0f} |"
        for label, row in rows.items()
    ]
    return "\n".join(lines) + "\n"


def measure(a: argparse.Namespace, records: list[dict]) -> dict[str, dict]:
    everything_null = {(r["id"], q["id"]): "null" for r in records for q in r["questions"]}
    rows = {"`null` to all": score(records, everything_null)}
    models = ([] if a.only_adapter else [("without adapter", "")]) + (
        [("with adapter", a.adapter)] if a.adapter else []
    )
    for label, adapter in models:
        for copy in {"off": [False], "on": [True], "both": [False, True]}[a.copy]:
            found, seconds = ask(a.banyan, a.model, adapter, records, [*a.options, *(["--copy"] if copy else [])])
            judged = judge(records, found)
            rows[label + (", --copy" if copy else "")] = dict(
                means(judged), intervals=intervals(judged, a.draws), seconds=round(seconds, 1)
            )
            print(label, "--copy" if copy else "", json.dumps(rows[label + (", --copy" if copy else "")]), flush=True)
    return rows


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--data", type=Path, help="folder of question files")
    p.add_argument(
        "--file", type=Path, action="append", default=[], help="a question file, all of it; may be given several times"
    )
    p.add_argument(
        "--with-trained",
        action="store_true",
        help="ask of rows marked as trained on, too (`python3 -m eval get` marks them)",
    )
    p.add_argument("--only-adapter", action="store_true", help="no run without the adapter")
    p.add_argument("--adapter", default="")
    p.add_argument("--set", default="squad2")
    p.add_argument("--limit", type=int, default=0, help="contexts; 0: all that are held out")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument(
        "--copy",
        choices=("off", "on", "both"),
        default="off",
        help="answers that are copied from the text (`ask --copy`)",
    )
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--json", type=Path)
    p.add_argument("--markdown", type=Path, help="tables, added to the file")
    p.add_argument("options", nargs="*", help="options for `banyan ask`, after --")
    a = p.parse_args()
    if not a.data and not a.file:
        p.error("expected --data or --file")
    sets = {
        f.stem: unseen(f.stem, [json.loads(line) for line in f.open(encoding="utf-8")], a.with_trained)[
            : a.limit or None
        ]
        for f in a.file
    }
    if a.data:
        sets[a.set] = held_records(a.data, a.set, a.limit)
    tables = {}
    for name, records in sets.items():
        print(name, flush=True)
        tables[name] = measure(a, records)
        if a.markdown:
            with a.markdown.open("a") as f:
                f.write(table_of(name, tables[name]) + "\n")
    if a.json:
        a.json.write_text(json.dumps(tables if len(tables) > 1 else next(iter(tables.values())), indent=1))


if __name__ == "__main__":
    main()
