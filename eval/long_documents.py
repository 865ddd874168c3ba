"""Accuracy on long documents against the number of parts that they are asked in.

    python3 -m eval.long_documents -m MODEL [--adapter DIR] [--filler FILE.jsonl.gz] [--pages 10 100] [--part-tokens 0
        2000 800] \
        [--split test] [--reduce both] [--json FILE] [--keep FOLDER] [-- --threads 2]

A document is made of `--pages` pages (of 3000 characters) of paragraphs: texts of FILLER (rows with a `text`), or
sentences that say nothing (`train/filler.py`). Passages of `eval/samples/long_facts.jsonl` stand between these
paragraphs, spread evenly, so that it is known what is right and where it stands. Every question is asked of the whole
document with `--too-long split`; `--part-tokens 0` makes parts as long as the model's window.

`exact`: right, with SQuAD's normalisation. `placed`: right, and cited where the fact stands. `null`: null where the
document does not say. `--reduce both` runs once, with `--reduce`: what the parts alone say is in the same rows. A
question whose row is an error counts as wrong, and `errors` counts it. `null to all` is the baseline. Intervals hold 95
% of 1000 draws of questions with replacement. `dev` is the split for tuning; `test` is not looked at while anything is
tuned.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path

from eval.metrics import exact_match, interval, normalize
from train.filler import filler
from train.lexicon import HELD, Lexicon

FACTS = Path(__file__).parent / "samples" / "long_facts.jsonl"
PAGE = 3000  # characters: some 500 words
SHORTEST, LONGEST = 200, 1500  # characters of a paragraph that is taken from a filler


def read_facts(split: str) -> list[dict]:
    return [fact for fact in map(json.loads, FACTS.read_text(encoding="utf-8").splitlines()) if fact["split"] == split]


def paragraphs_of(path: Path | None, rng: random.Random):
    """Paragraphs without end, or until the file has no more."""
    if path is None:
        lexicon = Lexicon(rng, HELD)
        while True:
            yield " ".join(filler(lexicon) for _ in range(rng.randint(4, 9)))
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        texts = [json.loads(line)["text"] for line in lines]
    rng.shuffle(texts)
    seen = set()
    for text in texts:
        for paragraph in text.split("\n\n"):
            paragraph = paragraph.strip()
            if SHORTEST <= len(paragraph) <= LONGEST and paragraph not in seen:
                seen.add(paragraph)
                yield paragraph


def long_document(facts: list[dict], pages: int, source: Path | None, seed: int = 1) -> dict:
    """An `ask` record; every question has the characters [from, to) of its passage as `place`."""
    rng = random.Random(f"long document {seed} {pages}")
    facts = rng.sample(facts, len(facts))
    wanted, given = pages * PAGE, paragraphs_of(source, rng)
    text, questions = "", []
    for n, fact in enumerate(facts):
        until = wanted * (2 * n + 1) // (2 * len(facts))  # the middle of the n-th of equal stretches
        while len(text) < until:
            text += next(given) + "\n\n"
        place = [len(text), len(text) + len(fact["passage"])]
        text += fact["passage"] + "\n\n"
        questions += [
            dict(id=f"{fact['id']}-{i}", place=place, **question) for i, question in enumerate(fact["questions"])
        ]
    while len(text) < wanted:
        text += next(given) + "\n\n"
    return dict(id=f"{pages} pages", context=text.rstrip(), questions=questions)


def ask(command: list[str], record: dict) -> tuple[list[dict], float]:
    """The rows, error rows among them, and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        questions = [dict(id=q["id"], question=q["question"]) for q in record["questions"]]
        source.write_text(json.dumps(dict(record, questions=questions)) + "\n", encoding="utf-8")
        began = time.time()
        done = subprocess.run([*command, str(source), "-o", str(target), "--overwrite", "--quiet"])
        if done.returncode not in (0, 1):  # 1: some rows are errors
            raise SystemExit(f"{command[0]} ended with {done.returncode}")
        return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()], time.time() - began


def without_reduce(rows: list[dict]) -> list[dict]:
    """What a run without `--reduce` says, from the rows of one with it: the parts are asked in the same way, and the
    best candidate counts."""
    out = []
    for row in rows:
        plain = {
            k: v for k, v in row.items() if k not in ("answer", "start", "end", "confidence", "reduced", "withheld")
        }
        best = next(iter(row.get("candidates", [])), None)
        out.append(
            row
            if "parts" not in row
            else (
                dict(plain, answer=None)
                if best is None
                else dict(plain, **{k: best[k] for k in ("answer", "start", "end", "confidence") if k in best})
            )
        )
    return out


def judge(record: dict, rows: list[dict]) -> list[dict]:
    found = {row["question_id"]: row for row in rows}
    out = []
    for question in record["questions"]:
        row = found.get(question["id"], {"error": {}})
        failed = "error" in row
        answer = (row.get("answer") or "null").strip()
        known, exact = bool(question["answers"]), not failed and exact_match(answer, question["answers"])
        low, high = question["place"]
        placed = exact and known and "start" in row and low <= row["start"] and row["end"] <= high
        out.append(
            dict(
                known=known,
                exact=exact,
                placed=placed,
                null=not failed and normalize(answer) == "null",
                failed=failed,
                parts=row.get("parts", 1),
                confidence=row.get("confidence"),
            )
        )
    return out


def share(values: list[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def score(judged: list[dict]) -> dict:
    known, unknown = [j for j in judged if j["known"]], [j for j in judged if not j["known"]]
    return dict(
        questions=len(judged),
        parts=max(j["parts"] for j in judged),
        exact=share([j["exact"] for j in judged]),
        exact_interval=[round(bound, 4) for bound in interval([[j["exact"]] for j in judged])],
        answerable=share([j["exact"] for j in known]),
        placed=share([j["placed"] for j in known]),
        denied=share([j["null"] for j in known]),
        null=share([j["null"] for j in unknown]),
        errors=sum(j["failed"] for j in judged),
    )


def table(rows: list[dict]) -> str:
    """Markdown."""
    cell = lambda value: "–" if value is None else f"{100 * value:.0f}"
    lines = [
        (
            "| pages | parts | `--reduce` | exact, % | exact where there is an answer | at the right place | null where"
            " there is an answer | null where there is none | errors |"
        ),
        "|---" * 9 + "|",
    ]
    for r in rows:
        low, high = r["exact_interval"]
        lines.append(
            f"| {r['pages']} | {r['parts']} | {'yes' if r['reduce'] else 'no'} | {cell(r['exact'])}"
            f" ({100 * low:.0f}–{100 * high:.0f}) | "
            + " | ".join(cell(r[k]) for k in ("answerable", "placed", "denied", "null"))
            + f" | {r['errors']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument(
        "--filler", type=Path, help="JSONL, also gzip, of rows with a `text`; without it sentences are generated"
    )
    p.add_argument("--pages", type=int, nargs="+", default=[10, 100])
    p.add_argument("--part-tokens", type=int, nargs="+", default=[0, 800])
    p.add_argument("--split", choices=("dev", "test"), default="test")
    p.add_argument("--reduce", choices=("no", "yes", "both"), default="both")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    p.add_argument("--keep", type=Path, help="folder for documents and rows")
    p.add_argument("options", nargs="*", help="options for `banyan ask`, after --")
    a = p.parse_args()
    made = []
    for pages in a.pages:
        record = long_document(read_facts(a.split), pages, a.filler)
        known = [bool(q["answers"]) for q in record["questions"]]
        print(
            f"{pages} pages, {len(record['context'])} characters, {len(known)} questions, {sum(known)} with an answer;"
            f" null to all: {1 - sum(known) / len(known):.3f}",
            flush=True,
        )
        for tokens in a.part_tokens:
            for reduce in [a.reduce != "no"]:
                command = [
                    a.banyan,
                    "ask",
                    "-m",
                    a.model,
                    "--adapter", a.adapter or "none",
                    "--too-long",
                    "split",
                    "--max-new",
                    "32",
                    *(["--part-tokens", str(tokens)] if tokens else []),
                    *(["--reduce"] if reduce else []),
                    *a.options,
                ]
                rows, seconds = ask(command, record)
                runs = [(reduce, rows)] if a.reduce != "both" else [(False, without_reduce(rows)), (True, rows)]
                for reduced, said in runs:
                    made.append(
                        dict(
                            score(judge(record, said)),
                            pages=pages,
                            part_tokens=tokens,
                            reduce=reduced,
                            seconds=round(seconds, 1),
                        )
                    )
                    print(json.dumps(made[-1]), flush=True)
                if a.keep:
                    a.keep.mkdir(parents=True, exist_ok=True)
                    name = f"{a.split}-{pages}-{tokens}{'-reduce' if reduce else ''}"
                    (a.keep / f"{name}.jsonl").write_text(
                        "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8"
                    )
                    (a.keep / f"{a.split}-{pages}.gold.jsonl").write_text(
                        json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8"
                    )
    print(table(made))
    if a.json:
        a.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
