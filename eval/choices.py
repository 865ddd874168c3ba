"""Multiple choice, yes/no and labels: right answers by each way of scoring the options, through one run of `banyan
ask`.

    python3 -m eval.choices -m MODEL [--adapter DIR] [--file eval/samples/everyday-choice.jsonl] [--squad FILE]
        [--labels FOLDER] \
        [--split dev] [--json FILE] [--rows FILE] [-- --threads 2]

Sets: the questions of `--file` (rows of `ask` whose questions have `choices`, the number of the `right` one and a
`kind`); `--squad`: questions of a SQuAD file (answers verbatim, held-out documents only) with the answers to other
questions on the same paragraph as wrong options; `--labels`: texts of FOLDER's raw files, with the kind of text as the
label. `--split dev` is for choosing, `test` for reporting; texts of the last two sets are split by a hash of their id.

`sum`: the log-probability of an option. `mean`: the same per token. `prior`: sum minus what the option has without the
document. `letter`: options shown with letters, letters compared. `frequent`: always the option at the most frequent
place (of labels: the most frequent label), which is the best constant. Intervals hold 95 % of 1000 draws of texts.
`--rows` keeps, for each question and way of scoring, the probability of the chosen option and whether it is right:
`train.confidence --task choice` reads it.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import hashlib
import json
import math
import random
import subprocess
import tempfile
from pathlib import Path

from eval.metrics import interval, normalize
from train.reader_data import is_held

KINDS = {
    "ewt-email": "an email",
    "ewt-reviews": "a customer review",
    "recipe-": "a recipe",
    "gov-": "a government page",
}
WAYS = ("sum", "mean", "prior", "letter")


def split_of(name: str) -> str:
    return "dev" if hashlib.sha256(name.encode()).digest()[1] % 2 else "test"


def squad_choices(path: Path, split: str, limit: int, options: int = 4) -> list[dict]:
    """One question a paragraph. Wrong options do not stand in a right one, nor it in them."""
    rng, out = random.Random(f"squad choices {split}"), []
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if split_of(record["id"]) != split or not is_held("squad2", record["id"]):
            continue
        known = [q for q in record["questions"] if q["answers"]]
        rng.shuffle(known)
        for question in known:
            right = [normalize(a) for a in question["answers"]]
            others = {}
            for other in known:
                wrong = normalize(other["answers"][0])
                if other is not question and not any(wrong in r or r in wrong for r in right):
                    others.setdefault(wrong, other["answers"][0])
            if len(others) < options - 1:
                continue
            choices = rng.sample(list(others.values()), options - 1)
            place = rng.randrange(options)
            choices.insert(place, question["answers"][0])
            out.append(
                dict(
                    id=record["id"],
                    context=record["context"],
                    questions=[
                        dict(
                            id=question["id"],
                            kind="options from the text",
                            question=question["question"],
                            choices=choices,
                            right=place,
                        )
                    ],
                )
            )
            break
    return out[:limit]


def label_choices(folder: Path, split: str, limit: int) -> list[dict]:
    """As many texts of each kind."""
    rng, found = random.Random(f"labels {split}"), collections.defaultdict(list)
    for name in ("ewt", "recipes", "us_gov_pages"):
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                kind = next((k for k in KINDS if row["id"].startswith(k)), None)
                if kind and split_of(row["id"]) == split and 200 <= len(row["text"]) <= 1500:
                    found[kind].append(row)
    out = []
    for kind, label in KINDS.items():
        for row in rng.sample(found[kind], min(limit // len(KINDS), len(found[kind]))):
            labels = list(KINDS.values())
            out.append(
                dict(
                    id=row["id"],
                    context=row["text"],
                    questions=[
                        dict(
                            id="kind",
                            kind="labels",
                            question="What kind of text is this?",
                            choices=labels,
                            right=labels.index(label),
                        )
                    ],
                )
            )
    return out


def ask(command: list[str], records: list[dict], way: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        source.write_text(
            "".join(
                json.dumps(
                    dict(
                        id=r["id"],
                        context=r["context"],
                        questions=[
                            dict(id=q["id"], question=q["question"], choices=q["choices"]) for q in r["questions"]
                        ],
                    )
                )
                + "\n"
                for r in records
            ),
            encoding="utf-8",
        )
        done = subprocess.run([*command, str(source), "-o", str(target), "--overwrite", "--quiet", *way])
        if done.returncode not in (0, 1):
            raise SystemExit(f"{command[0]} ended with {done.returncode}")
        rows = map(json.loads, target.read_text(encoding="utf-8").splitlines())
        return {(o["id"], o["question_id"]): o for o in rows}


def shares(scores: list[float]) -> list[float]:
    best = max(scores)
    parts = [math.exp(s - best) for s in scores]
    return [p / sum(parts) for p in parts]


def judge(records: list[dict], scored: dict, lettered: dict) -> list[dict]:
    """A row for each question: its kind and text, and by way of scoring whether it is right and how probable the choice
    is."""
    out = []
    for r in records:
        for q in r["questions"]:
            row = dict(text=r["id"], kind=q["kind"], options=len(q["choices"]), right_place=q["right"], ways={})
            answer, letter = scored.get((r["id"], q["id"]), {}), lettered.get((r["id"], q["id"]), {})
            if "scores" in answer:
                s = answer["scores"]
                by_way = {"sum": s["sum"], "mean": s["mean"], "prior": [a - b for a, b in zip(s["sum"], s["prior"])]}
                for way, scores in by_way.items():
                    p = shares(scores)
                    row["ways"][way] = dict(right=p.index(max(p)) == q["right"], probability=max(p))
            if "probabilities" in letter:
                row["ways"]["letter"] = dict(
                    right=letter["choice"] == q["right"], probability=max(letter["probabilities"])
                )
            out.append(row)
    return out


def interval_of(rows: list[dict], way: str) -> list[float]:
    """Of the share of right choices, by draws of texts."""
    by_text = collections.defaultdict(list)
    for row in rows:
        by_text[row["text"]].append(row["ways"].get(way, {}).get("right", False))
    return [round(bound, 3) for bound in interval(list(by_text.values()))]


def score(rows: list[dict]) -> dict:
    out = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        out[kind] = dict(
            questions=len(some),
            chance=round(sum(1 / row["options"] for row in some), 1),
            frequent=max(collections.Counter(row["right_place"] for row in some).values()),
            errors=sum(not row["ways"] for row in some),
        )
        for way in WAYS:
            out[kind][way] = sum(row["ways"].get(way, {}).get("right", False) for row in some)
            out[kind][way + "_interval"] = interval_of(some, way)
    return out


def table(scores: dict) -> str:
    lines = ["| | questions | chance | most frequent | " + " | ".join(WAYS) + " |", "|---" * (4 + len(WAYS)) + "|"]
    for kind, s in scores.items():
        cells = [
            f"{s[way]} ({100 * s[way + '_interval'][0]:.0f}–{100 * s[way + '_interval'][1]:.0f} %)" for way in WAYS
        ]
        lines.append(f"| {kind} | {s['questions']} | {s['chance']:g} | {s['frequent']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument("--file", type=Path, default=Path(__file__).parent / "samples" / "everyday-choice.jsonl")
    p.add_argument("--squad", type=Path)
    p.add_argument("--labels", type=Path)
    p.add_argument("--limit", type=int, default=60, help="questions of --squad and of --labels")
    p.add_argument("--split", choices=("dev", "test"), default="dev")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    p.add_argument("--rows", type=Path)
    p.add_argument("options", nargs="*", help="options for `banyan ask`, after --")
    a = p.parse_args()
    records = [
        r
        for r in map(json.loads, a.file.read_text(encoding="utf-8").splitlines())
        if r.get("split", a.split) == a.split
    ]
    records += squad_choices(a.squad, a.split, a.limit) if a.squad else []
    records += label_choices(a.labels, a.split, a.limit) if a.labels else []
    command = [a.banyan, "ask", "-m", a.model, "--adapter", a.adapter or "none", *a.options]
    rows = judge(
        records, ask(command, records, ["--choice-score", "prior"]), ask(command, records, ["--choices", "letter"])
    )
    scores = score(rows)
    print(table(scores))
    if a.json:
        a.json.write_text(json.dumps(scores, indent=1) + "\n")
    if a.rows:
        a.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
