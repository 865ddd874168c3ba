"""Questions over many documents, end to end through `banyan rag` and `banyan eval rag`.

python3 -m eval.rag generated [--count 24]
    the shipped model on generated documents: secret codes among 16 and 64, two-hop questions among 16, relevance equal
python3 -m eval.rag corpus --data FOLDER -m MODEL --encoder MODEL [--set hotpotqa …] [--limit 20] [-- --threads 2]
    FOLDER/SET.jsonl of {"id","question","answers","documents":[{"id","title","text","gold"}]}: all documents of a set
    are one index (words and vectors), and questions are asked of it. A row of the table is a signal and a method:
    sub-span match, F1, the share of gold documents among those read and cited, the median wait for the first token, and
    the job's seconds without loading. --keep FOLDER writes SET.jsonl there: the questions with the documents that the
    first signal found and their scores.
python3 -m eval.rag given --data FOLDER -m MODEL [--set hotpotqa …] [--method …] [-- --device cuda]
    FOLDER/SET.jsonl as --keep wrote it: every method reads the same documents with the same relevance, without an
        encoder
python3 -m eval.rag sample --source FILE.jsonl[.gz|.xz] --out FOLDER [--count 120] [--seed 1] [--only PART]
    rows of {"id","question","answers","documents"}, or of {"id","context","questions"} with ids SET-ARTICLE-NUMBER, or
    the articles that a file of `train.reading_texts` (.jsonl.xz) holds out -> FOLDER/choose.jsonl and
    FOLDER/report.jsonl, of different articles (documents' titles), each with --count questions. A question has
    --documents documents: the gold one at a random place among the others of its own article, then others of the same
    file. --only: rows whose id has this in it `banyan eval rag FOLDER/choose.jsonl -m MODEL …` then compares ways to
    answer
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from train.reading_texts import BY_ARTICLE, NULL

SETS = ("hotpotqa", "musique", "2wikimultihopqa")
COLUMNS = ("questions", "sub_span", "f1", "recall_read", "recall_cited", "first_token_median", "job_seconds")


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    return path


def run(*command: str | Path) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: some rows failed, and the score says so
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout


class Table:
    def __init__(self, banyan: str, options: list[str]) -> None:
        self.banyan, self.options, self.rows = banyan, options, []

    def add(self, name: str, gold: Path, source: Path, *arguments: str | Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out, receipt = Path(folder, "out.jsonl"), Path(folder, "receipt.json")
            run(
                self.banyan,
                "rag",
                source,
                "-o",
                out,
                "--overwrite",
                "--receipt",
                receipt,
                "--quiet",
                *arguments,
                *self.options,
            )
            score = json.loads(run(self.banyan, "eval", "rag", gold, out, "--json"))
            score["job_seconds"] = float(json.loads(receipt.read_text())["seconds"]["total"])
        self.rows.append(dict(name=name, **score))
        if len(self.rows) == 1:
            print(f"{'':44}" + "".join(f"{c.replace('first_token_median', 'first token'):>14}" for c in COLUMNS))
        print(
            f"{name:44}"
            + "".join(f"{score[c]:14.3f}" if isinstance(score[c], float) else f"{score[c]:14}" for c in COLUMNS),
            flush=True,
        )


def generated(a: argparse.Namespace, folder: Path) -> list[dict]:
    from eval.sets import codes, two_hops
    from train.lexicon import HELD, Lexicon

    lex = lambda name: Lexicon(random.Random(f"evaluation {a.seed} {name}"), HELD)
    table = Table(a.banyan, ["-m", a.model, *a.options])
    for name, rows in (
        ("secret code among 16", codes(lex("code"), a.count, 16)),
        ("secret code among 64", codes(lex("code 64"), a.count, 64)),
        ("two-hop among 16", two_hops(lex("hop"), a.count, 16)),
    ):
        gold = write_rows(folder / "gold.jsonl", rows)
        for method in a.method:
            table.add(f"{name}, {method}", gold, gold, "--method", method, "--relevance", "equal")
    return table.rows


def corpus(a: argparse.Namespace, folder: Path) -> list[dict]:
    table = Table(
        a.banyan,
        ["-m", a.model, "--top", str(a.top), "--max-new", str(a.max_new), "--too-long", "truncate", *a.options],
    )
    for name in a.set:
        records = [json.loads(line) for line in (a.data / f"{name}.jsonl").open(encoding="utf-8")]
        documents = {
            d["id"]: {"id": d["id"], "title": d.get("title", ""), "text": d["text"]}
            for r in records
            for d in r["documents"]
        }
        index = folder / f"{name}.index"
        passages = write_rows(folder / f"{name}.documents.jsonl", list(documents.values()))
        run(a.banyan, "rag", "index", index, passages, "--passage-words", "1000", "--encoder", a.encoder, "--quiet")
        asked = records[: a.limit or None]
        gold = write_rows(folder / f"{name}.gold.jsonl", asked)
        questions = write_rows(
            folder / f"{name}.questions.jsonl", [{"id": r["id"], "question": r["question"]} for r in asked]
        )
        if a.keep:
            keep_found(a, name, asked, documents, questions, index, folder)
        for signal in a.signal:
            candidates, _, relevance = signal.partition("+")
            for method in a.method:
                table.add(
                    f"{name}, {len(documents)} documents, {signal}, {method}",
                    gold,
                    questions,
                    "--index",
                    index,
                    "--method",
                    method,
                    "--candidates",
                    candidates,
                    "--relevance",
                    relevance or candidates,
                )
    return table.rows


def keep_found(
    a: argparse.Namespace,
    name: str,
    asked: list[dict],
    documents: dict[str, dict],
    questions: Path,
    index: Path,
    folder: Path,
) -> None:
    candidates, _, relevance = a.signal[0].partition("+")
    out = folder / f"{name}.found.jsonl"
    run(
        a.banyan,
        "rag",
        questions,
        "-o",
        out,
        "--overwrite",
        "--quiet",
        "--index",
        index,
        "--method",
        "top1",
        "--candidates",
        candidates,
        "--relevance",
        relevance or candidates,
        "-m",
        a.model,
        "--top",
        str(a.top),
        "--max-new",
        "1",
        "--too-long",
        "truncate",
        *a.options,
    )
    a.keep.mkdir(parents=True, exist_ok=True)
    write_rows(
        a.keep / f"{name}.jsonl",
        with_documents(asked, documents, [json.loads(line) for line in out.open(encoding="utf-8")]),
    )


def with_documents(asked: list[dict], documents: dict[str, dict], found: list[dict]) -> list[dict]:
    """The questions with the documents that rows of `banyan rag` name, their relevance as score, and which of them are
    gold."""
    by_id = {row["id"]: row for row in found}
    rows = []
    for r in asked:
        gold = {d["id"] for d in r["documents"] if d.get("gold")}
        read = [
            dict(documents[d["id"]], score=d["relevance"], gold=d["id"] in gold)
            for d in by_id[r["id"]]["trace"]["documents"]
        ]
        missed = len(gold - {d["id"] for d in read})
        rows.append(
            {
                "id": r["id"],
                "question": r["question"],
                "answers": r["answers"],
                "documents": read,
                "gold_missed": missed,
            }
        )
    return rows


def given(a: argparse.Namespace, folder: Path) -> list[dict]:
    table = Table(
        a.banyan,
        ["-m", a.model, "--max-new", str(a.max_new), "--too-long", "truncate", "--relevance", "given", *a.options],
    )
    for name in a.set:
        rows = [json.loads(line) for line in (a.data / f"{name}.jsonl").open(encoding="utf-8")][: a.limit or None]
        asked = write_rows(folder / f"{name}.asked.jsonl", rows)
        # What retrieval missed counts as not read.
        gold = write_rows(
            folder / f"{name}.gold.jsonl",
            [
                dict(
                    r,
                    documents=r["documents"]
                    + [{"id": f"missed {n}", "text": "", "gold": True} for n in range(r["gold_missed"])],
                )
                for r in rows
            ],
        )
        for method in a.method:
            table.add(f"{name}, {method}", gold, asked, "--method", method)
    return table.rows


def questions_of_paragraphs(paragraphs: list[dict]) -> list[dict]:
    """Paragraphs with their questions -> questions with the paragraphs of their article; those without an answer are
    left out."""
    title = lambda row: row["id"].split("-", 1)[1].rsplit("-", 1)[0]
    articles: dict[str, list[dict]] = {}
    for row in paragraphs:
        articles.setdefault(title(row), []).append(row)
    return [
        {
            "id": f"{row['id']}/{asked['id']}",
            "question": asked["question"],
            "answers": asked["answers"],
            "documents": [
                {"id": d["id"], "title": title(d), "text": d["context"], "gold": d is row} for d in articles[title(row)]
            ],
        }
        for row in paragraphs
        for asked in row["questions"]
        if asked["answers"]
    ]


def held_paragraphs(rows: list[dict]) -> list[dict]:
    """Of the texts that readers are trained on, those of articles held out, as paragraphs with the questions that
    people asked."""
    out: list[dict] = []
    numbers: dict[str, int] = {}
    for row in rows:
        if row["split"] != "held" or row["source"] not in BY_ARTICLE or not row["text"]:
            continue
        article = row["article"].replace("-", "_")
        numbers[article] = numbers.get(article, 0) + 1
        asked = [
            (question, golds) for question, answer, weight, golds in row["asked"] if answer != NULL and weight >= 0.9
        ]
        out.append(
            {
                "id": f"held-{article}-{numbers[article]:03}",
                "context": row["text"],
                "questions": [{"id": f"q{i}", "question": q, "answers": golds} for i, (q, golds) in enumerate(asked)],
            }
        )
    return out


def has_answer(document: dict, answers: list[str]) -> bool:
    return any(answer.lower() in document["text"].lower() for answer in answers)


def sample(a: argparse.Namespace, folder: Path) -> list[dict]:
    """Questions for choosing and others for reporting; no article is in both."""
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(a.source.suffix, open)
    with opened(a.source, "rt", encoding="utf-8") as file:
        rows = list(map(json.loads, file))
    if rows and "asked" in rows[0]:
        rows = held_paragraphs(rows)
    rows = [row for row in rows if a.only in row["id"]]
    if rows and "context" in rows[0]:
        rows = questions_of_paragraphs(rows)
    chance = random.Random(a.seed)
    by_title: dict[str, list[dict]] = {}
    for row in rows:
        by_title.setdefault(row["documents"][0]["title"], []).append(row)
    titles = sorted(by_title)
    chance.shuffle(titles)
    a.out.mkdir(parents=True, exist_ok=True)
    made = []
    for name, part in (("choose", titles[0::2]), ("report", titles[1::2])):
        questions = [row for title in part for row in by_title[title]]
        pool = [d for title in part for d in by_title[title][0]["documents"]]
        chance.shuffle(questions)
        records = []
        for row in questions[: a.count]:
            gold = [d for d in row["documents"] if d["gold"]]
            others = [d for d in row["documents"] if not d["gold"]]
            texts = {d["text"] for d in row["documents"]}
            strangers = [
                dict(d, gold=False)
                for d in pool
                if d["title"] != gold[0]["title"] and d["text"] not in texts and not has_answer(d, row["answers"])
            ]
            chance.shuffle(strangers)
            documents = (others + strangers)[: a.top - len(gold)]
            for document in gold:
                documents.insert(chance.randrange(min(len(others), len(documents)) + 1), document)
            seen: dict[str, int] = {}
            for document in documents:  # ids are unique in a question
                seen[document["id"]] = seen.get(document["id"], 0) + 1
            records.append(
                {"id": row["id"], "question": row["question"], "answers": row["answers"], "documents": documents}
            )
            assert max(seen.values()) == 1, row["id"]
        write_rows(a.out / f"{name}.jsonl", records)
        made.append({"name": name, "questions": len(records), "articles": len(part)})
        print(f"{a.out / name}.jsonl: {len(records)} questions of {len(part)} articles")
    return made


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("generated", "corpus", "given", "sample"))
    p.add_argument("-m", "--model", default="models/banyan-reader-34m.gguf")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--method", nargs="+", default=["experts"])
    p.add_argument("--count", type=int, default=24, help="generated, sample: questions of each kind")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--source", type=Path, help="sample: where questions come from, .jsonl.gz")
    p.add_argument("--out", type=Path, help="sample: where they go")
    p.add_argument("--only", default="", help="sample: rows whose id has this in it")
    p.add_argument("--data", type=Path, help="corpus, given: the folder with the sets")
    p.add_argument("--keep", type=Path, help="corpus: write what was found here")
    p.add_argument("--set", nargs="+", default=SETS)
    p.add_argument("--encoder", default="all-minilm-l6-v2")
    p.add_argument(
        "--signal", nargs="+", default=["bm25", "dense", "bm25+dense"], help="candidates, or candidates+relevance"
    )
    p.add_argument("--top", "--documents", type=int, default=8, help="documents of a question")
    p.add_argument("--limit", type=int, default=20, help="corpus: questions of each set; 0: all")
    p.add_argument("--json", type=Path, help="write the table here")
    p.add_argument("--max-new", type=int, default=24, help="corpus: tokens of an answer")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    a = p.parse_args(sys.argv[1:cut])
    a.options = sys.argv[cut + 1 :]  # for `banyan rag`
    if a.what == "sample" and not (a.source and a.out):
        p.error("sample: expected --source and --out")
    if a.what in ("corpus", "given") and not a.data:
        p.error(f"{a.what}: expected --data")
    with tempfile.TemporaryDirectory() as folder:
        rows = {"generated": generated, "corpus": corpus, "given": given, "sample": sample}[a.what](a, Path(folder))
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
