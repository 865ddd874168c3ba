"""What the readers' new editions learn from, as one file of texts with their questions (`train/README.md`).

    python3 -m train.reading_texts --train SHARED/train --exclude SHARED/data eval/samples --out texts.jsonl.xz
        [--report FILE.json]

A row is a text: `source`, `split` ("train", "held"), `article` (texts of one article can stand together), `text`, and
`asked`: [question, answer, weight, gold answers]; `null` is the answer where the text does not say. Rows of several
documents have `documents` ([text, has the answer]) instead of `text`. The mixture (`train.reading_mixture`) arranges
them anew in every step.

  - An answer is kept only if it stands in the text, in the text's own spelling. A text that several files have is one
  row.
  - Near misses: of two questions in five (`--near-misses`) another that the text does not answer is made where a rule
  fits (`train.near_misses`): a word of the question exchanged for another one that makes it look just as answerable.
  They weigh half; those that people wrote weigh twice.
  - Everyday passages without questions get cloze questions (`train.cloze`), which weigh little; the passages themselves
  are also what the large model is made to ask about (`train.reading_written`).
  - Whole kinds are held out, for early stopping and calibration: HELD_SOURCES, the templates of HELD_TEMPLATES, one
  article in twenty of SQuAD and of new Wikipedia, the recipes among the passages, the article with the most near
  misses that people wrote, one paragraph in four of the translations (the same in every language) and one French text
  in twelve.
- Whatever shares a text, a question or a sequence of 13 words with a file under `--exclude` is left out, and counted.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import hashlib
import json
import lzma
import random
import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from train.cloze import cloze, deny, sentences, spans
from train.lexicon import TRAIN, Lexicon
from train.natural import FOLDER, expand, load, spelled
from train.near_misses import near_miss
from train.reader_data import LONGEST_ANSWER, NULL, find_answer, stretch

ANSWERED = {
    "squad_train": 1.0,
    "squadshifts_new_wiki": 1.0,
    "squadshifts_amazon": 1.0,
    "squadshifts_reddit": 1.0,
    "qamr": 0.5,
    "afriqa_en": 1.0,
    "wikitablequestions_cell": 0.7,
    "doqa": 1.0,
    "iirc": 0.5,
    "fairytaleqa_span": 0.8,
    "nq_short": 1.0,
    "tatqa_spans": 1.0,
    "qasper_evidence": 1.0,
    "adversarialqa_unanswerable": 1.0,
    "clapnq_unanswerable": 1.0,
    "unanswerable_constructed": 1.0,
    "unanswerable_constructed_informal": 0.4,
}
OTHER_LANGUAGES = {"xquad_de": "de", "xquad_es": "es", "piaf": "fr", "afriqa_fr": "fr"}
DOCUMENTS = ("hotpotqa_train", "musique_train")
PASSAGES = ("ewt", "gum", "onestopenglish", "us_gov_pages", "recipes")
HELD_SOURCES = {"tatqa_spans", "doqa", "qasper_evidence", "recipes"}
HELD_TEMPLATES = ("museum", "rentals", "support")
BY_ARTICLE = ("squad_train", "squadshifts_new_wiki")
HELD_ARTICLE, HELD_NEAR_MISSES = (
    "squad_train-Spectre",
    "near misses by people",
)  # 170 questions without an answer, the most that people wrote on one article
SAMPLES = Path(__file__).parents[1] / "eval" / "samples"
GRAM = 13  # words
LONGEST = 700  # words; longer texts are cut around each answer
CONTROL = re.compile(r"<\|[^|]*\|>")


@dataclass
class TextRow:
    source: str
    split: str
    article: str
    text: str = ""
    asked: list[list] = field(default_factory=list)
    documents: list[list] = field(default_factory=list)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def grams(text: str) -> set[int]:
    words = words_of(text)
    return {hash(" ".join(words[i : i + GRAM])) for i in range(len(words) - GRAM + 1)}


def digest(text: str) -> str:
    return hashlib.sha256(" ".join(words_of(text)).encode()).hexdigest()


class Excluded:
    """Texts, questions and 13-word sequences of the files that scores are measured on."""

    def __init__(self, paths: list[Path]) -> None:
        self.digests: set[str] = set()
        self.grams: set[int] = set()
        files = [
            f
            for p in paths
            for f in (sorted(p.glob("**/*.jsonl")) + sorted(p.glob("**/*.txt.gz")) if p.is_dir() else [p])
        ]
        for f in files:
            if f.suffix == ".gz":
                self.add(gzip.open(f, "rt", encoding="utf-8", errors="replace").read())
                continue
            for line in f.read_text(encoding="utf-8").splitlines():
                r = json.loads(line)
                asked = [q["question"] if isinstance(q, dict) else q for q in r.get("questions", [])] + (
                    [r["question"]] if "question" in r else []
                )
                self.digests |= {digest(q) for q in asked if len(words_of(q)) >= 5}
                for text in [
                    r.get("context"),
                    r.get("text"),
                    *(d["text"] for d in r.get("documents", []) if isinstance(d, dict)),
                ]:
                    if text:
                        self.add(text)
        self.files = len(files)

    def add(self, text: str) -> None:
        self.digests.add(digest(text))
        self.grams |= grams(text)

    def has_text(self, text: str) -> bool:
        return digest(text) in self.digests or not self.grams.isdisjoint(grams(text))

    def has_question(self, question: str) -> bool:
        return len(words_of(question)) >= 5 and digest(question) in self.digests


@lru_cache(maxsize=None)
def measured_questions(folder: Path = SAMPLES) -> frozenset[str]:
    """Digests of the questions of `eval/samples`: templates ask some of them in the same common words, about other
    texts."""
    return frozenset(Excluded([folder]).digests)


def article_of(source: str, name: str) -> str:
    return (
        re.sub(r"^cons-", "", name).rsplit("-", 1)[0] if source in (*BY_ARTICLE, "unanswerable_constructed") else source
    )


def split_of(source: str, article: str) -> str:
    if source in HELD_SOURCES or article.startswith(HELD_ARTICLE):
        return "held"
    # the articles' split is one for all files that take texts from them
    return (
        "held"
        if any(article.startswith(b) for b in BY_ARTICLE) and hashlib.sha256(article.encode()).digest()[0] % 20 == 0
        else "train"
    )


def held_translation(source: str, name: str) -> bool:
    """Paragraphs of other languages that are scored: a paragraph is held out in all of its translations."""
    share = 4 if source.startswith("xquad_") else 12 if source == "piaf" else 0
    paragraph = name.removeprefix(source)
    return share > 0 and hashlib.sha256(paragraph.encode()).digest()[0] % share == 0


class Builder:
    def __init__(self, excluded: Excluded, seed: int) -> None:
        self.excluded, self.rng = excluded, random.Random(f"reading texts {seed}")
        self.rows: dict[str, TextRow] = {}
        self.left_out: collections.Counter[str] = collections.Counter()
        self.pool: dict[str, list[str]] = collections.defaultdict(list)

    def row(self, source: str, name: str, text: str) -> TextRow | None:
        key = digest(text)
        if key not in self.rows:
            if CONTROL.search(text) or self.excluded.has_text(text):
                self.left_out[source + ": text"] += 1
                return None
            article = article_of(source, name)
            self.rows[key] = TextRow(
                HELD_NEAR_MISSES if article.startswith(HELD_ARTICLE) else source,
                "held" if held_translation(source, name) else split_of(source, article),
                article,
                text,
            )
            for s in sentences(text):
                for x in spans(s):
                    self.pool[x.kind].append(s[x.begin : x.end])
        return self.rows[key]

    def question(self, source: str, question: str) -> bool:
        if self.excluded.has_question(question) or CONTROL.search(question):
            self.left_out[source + ": question"] += 1
            return False
        return True

    def contexts(self, source: str, records: list[dict], weight: float) -> None:
        for r in records:
            context = r["context"].strip()
            long = len(context.split()) > LONGEST
            whole = None if long else self.row(source, r["id"], context)
            for q in r["questions"]:
                question, golds = q["question"].strip(), q["answers"]
                if not self.question(source, question):
                    continue
                found = find_answer(context, golds) if golds else (0, NULL)
                if found is None or (long and not golds):
                    self.left_out[source + ": answer too long or not in the text"] += 1
                    continue
                home = self.row(source, r["id"], stretch(self.rng, context, found[0])) if long else whole
                if (
                    home is None
                    or (golds and find_answer(home.text, [found[1]]) is None)
                    or any(a[0] == question for a in home.asked)
                ):
                    continue
                if home.source == HELD_NEAR_MISSES and source != "squad_train":
                    continue
                home.asked.append(
                    [question, found[1], weight * (2.0 if source == "squad_train" and not golds else 1.0), golds]
                )

    def near_misses(self, share: float) -> None:
        for row in list(self.rows.values()):
            if row.source in ("wikitablequestions_cell", "tatqa_spans", "qamr", *OTHER_LANGUAGES):
                continue
            for question, answer, _, golds in list(row.asked):
                if answer != NULL and self.rng.random() < share:
                    made = near_miss(self.rng, row.text, question, answer, golds, self.pool)
                    if (
                        made
                        and made != question
                        and not any(a[0] == made for a in row.asked)
                        and self.question(row.source, made)
                    ):
                        row.asked.append([made, NULL, 0.5, []])

    def documents(self, source: str, records: list[dict]) -> None:
        for r in records:
            documents = [
                [d["text"], bool(d["gold"])]
                for d in r["documents"]
                if not self.excluded.has_text(d["text"]) and not CONTROL.search(d["text"])
            ]
            gold = "\n\n".join(t for t, g in documents if g)
            found = find_answer(gold, r["answers"])
            answer = r["answers"][0].lower() if r["answers"][0].lower() in ("yes", "no") else found and found[1]
            if (
                not answer
                or sum(g for _, g in documents) < sum(bool(d["gold"]) for d in r["documents"])
                or not self.question(source, r["question"])
            ):
                self.left_out[source + ": record"] += 1
                continue
            self.rows[r["id"]] = TextRow(
                source, "train", source, "", [[r["question"], answer, 1.0, r["answers"]]], documents
            )

    def passages(self, source: str, records: list[dict], per_text: int = 4) -> None:
        """Everyday texts with cloze questions of little weight."""
        for r in records:
            text = r["text"].strip()
            if not 30 <= len(text.split()) <= LONGEST:
                continue
            row = self.row(source, r["id"], text)
            if row is None:
                continue
            parts = sentences(text)
            for s in self.rng.sample(parts, min(per_text, len(parts))):
                made = cloze(self.rng, s)
                if made is None or made.answer in made.question:
                    continue
                if self.rng.random() < 0.25:
                    denied = deny(self.rng, text, made, self.pool)
                    if denied and denied[0] == text:
                        row.asked.append([denied[1], NULL, 0.3, []])
                elif text.count(made.answer) == 1:
                    row.asked.append([made.question, made.answer, 0.4, [made.answer]])

    def templates(self, each: int = 4) -> None:
        """Held-out kinds of everyday texts, written out once."""
        lex = Lexicon(random.Random("held templates"), TRAIN)
        for t in load(FOLDER):
            if t.kind not in HELD_TEMPLATES:
                continue
            for n in range(each):
                text = expand(lex, t)
                asked = [
                    [q, spelled(a, text.passage) if a else NULL, 1.0, a]
                    for q, a in text.asked
                    if self.question("templates", q)
                ]
                self.rows[f"template {t.name} {n}"] = TextRow(
                    "natural " + t.kind, "held", t.name, text.passage, [a for a in asked if a[1]]
                )


def read(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def build(folder: Path, excluded: Excluded, seed: int = 1, near_misses: float = 0.4) -> Builder:
    """All rows; a pure function of the files and the seed."""
    b = Builder(excluded, seed)
    for source, weight in ANSWERED.items():
        b.contexts(source, read(folder / f"{source}.jsonl.gz"), weight)
    b.near_misses(near_misses)
    for source in OTHER_LANGUAGES:
        b.contexts(source, read(folder / "multilingual" / f"{source}.jsonl.gz"), 1.0)
    for source in DOCUMENTS:
        b.documents(source, read(folder / f"{source}.jsonl.gz"))
    for source in PASSAGES:
        b.passages(source, read(folder / "raw" / f"{source}.jsonl.gz"))
    b.templates()
    return b


def summary(b: Builder) -> dict:
    count: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for row in b.rows.values():
        c = count[f"{row.source}, {row.split}"]
        c["texts"] += 1
        c["answered"] += sum(a[1] != NULL for a in row.asked)
        c["null"] += sum(a[1] == NULL for a in row.asked)
    return dict(
        rows={k: dict(v) for k, v in sorted(count.items())},
        left_out=dict(sorted(b.left_out.items())),
        excluded_files=b.excluded.files,
        longest_answer_words=LONGEST_ANSWER,
    )


def load_rows(path: Path) -> list[TextRow]:
    with lzma.open(path, "rt", encoding="utf-8") as f:
        return [TextRow(**json.loads(line)) for line in f]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--train", type=Path, required=True, help="folder of question files")
    p.add_argument(
        "--exclude", type=Path, nargs="+", required=True, help="files and folders that scores are measured on"
    )
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--report", type=Path)
    p.add_argument("--near-misses", type=float, default=0.4, help="share of the questions that get one")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    built = build(a.train, Excluded(a.exclude), a.seed, a.near_misses)
    with lzma.open(a.out, "wt", encoding="utf-8", preset=6) as f:
        f.writelines(
            json.dumps(asdict(r), ensure_ascii=False) + "\n"
            for r in built.rows.values()
            if r.asked or r.source in PASSAGES
        )
    report = summary(built)
    if a.report:
        a.report.write_text(json.dumps(report, indent=1) + "\n")
    for name, row in report["rows"].items():
        print(f"{name:44} {row}")
    print(json.dumps(report["left_out"], indent=1))
    print(f"{a.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
