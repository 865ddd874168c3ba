"""What the reading adapter is trained and tested on, as text: `Example`s from question-answering files.

    python3 -m train.reader_data --data FOLDER --out FILE.jsonl.gz [--seed 1]

Sources (see FOLDER's own notes on licences): squad2, drop, covidqa, fairytaleqa, narrativeqa (records with a context) and
hotpotqa, musique, 2wikimultihopqa (records with documents). An answer is kept only if it stands in the text; it is given
the text's own spelling. Everything is split by document:

- squad2: one article (Huguenot) trains; the two others (Normans, Scottish Parliament) are held out, for the score.
- others: a document whose id hashes to 0 of 8 is held out.

Unanswerable questions beyond squad2's own: the sentences with the answer are taken out, the question meets another stretch
of its document, or a cloze question (`train.cloze`) has another name or number. Generated documents come from
`train.questions`.
"""
from __future__ import annotations

import argparse
import collections
import gzip
import hashlib
import json
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from train.cloze import cloze, deny, sentences, spans
from train.lexicon import TRAIN, Lexicon
from train.questions import haystack

CONTEXT_FILES = ("squad2", "drop", "covidqa", "fairytaleqa", "narrativeqa")
DOCUMENT_FILES = ("hotpotqa", "musique", "2wikimultihopqa")
SQUAD_TRAINS = "squad2-Huguenot-"
LONGEST_ANSWER = 14  # words
LONGEST_TEXT = 420  # words of a context; longer ones are cut to a stretch around the answer
NULL = "null"


@dataclass
class Example:
    source: str  # the file, or "cloze", "generated"
    kind: str  # "answer", "null" (asked so by the file), "denied" (made unanswerable)
    split: str  # "train", "held"
    document: str
    context: str
    question: str
    answer: str
    golds: list[str]  # empty: unanswerable


def is_held(source: str, document: str) -> bool:
    if source == "squad2":
        return not document.startswith(SQUAD_TRAINS)
    return hashlib.sha256(document.encode()).digest()[0] % 8 == 0


def find_answer(context: str, answers: list[str]) -> tuple[int, str] | None:
    """Where an answer stands, and as it is spelled there: the most frequent, then the shortest."""
    count = collections.Counter(a.strip(" .,;") for a in answers)
    for answer in sorted(count, key=lambda a: (-count[a], len(a))):
        if not answer or len(answer.split()) > LONGEST_ANSWER:
            continue
        m = re.search(r"(?<!\w)" + re.escape(answer) + r"(?!\w)", context, re.I)
        if m:
            return m.start(), m.group()
    return None


def stretch(rng: random.Random, context: str, at: int) -> str:
    """About LONGEST_TEXT words or fewer around place `at`, cut at sentences."""
    if len(context.split()) <= LONGEST_TEXT:
        return context
    parts, place, home = sentences(context), 0, 0
    for n, s in enumerate(parts):
        found = context.find(s, place)
        if found < 0:
            continue
        place = found
        if found <= at:
            home = n
    want, first, last = rng.randint(80, LONGEST_TEXT), home, home
    while sum(len(s.split()) for s in parts[first:last + 1]) < want and (first > 0 or last + 1 < len(parts)):
        if first > 0 and (rng.random() < 0.5 or last + 1 == len(parts)):
            first -= 1
        elif last + 1 < len(parts):
            last += 1
    return " ".join(parts[first:last + 1])


def computed(question: str) -> bool:
    """DROP questions whose answer is counted or subtracted; that it stands in the text is chance."""
    return bool(re.search(r"how many(?! yards)|difference|in total|combined|how much (more|less)|how many more", question, re.I))


def from_contexts(rng: random.Random, source: str, records: list[dict]) -> list[Example]:
    out = []
    for r in records:
        split = "held" if is_held(source, r["id"]) else "train"
        for q in r["questions"]:
            question, golds = q["question"].strip(), q["answers"]
            if not golds:
                out.append(Example(source, NULL, split, r["id"], r["context"], question, NULL, []))
                continue
            found = find_answer(r["context"], golds)
            if found is None or (source == "drop" and computed(question)):
                continue
            text = stretch(rng, r["context"], found[0])
            if find_answer(text, [found[1]]) is None:
                continue
            out.append(Example(source, "answer", split, r["id"], text, question, found[1], golds))
            denied = None
            if rng.random() < 0.5:
                denied = " ".join(s for s in sentences(text) if not any(g.lower() in s.lower() for g in golds))
            elif len(r["context"].split()) > 2 * LONGEST_TEXT:
                denied = stretch(rng, r["context"], rng.randrange(len(r["context"])))
            if denied and len(denied.split()) >= 25 and not any(g.lower() in denied.lower() for g in golds):
                out.append(Example(source, "denied", split, r["id"], denied, question, NULL, []))
    return out


def from_documents(rng: random.Random, source: str, records: list[dict]) -> list[Example]:
    """A question with its gold documents and one more; without the one that has the answer it has none."""
    out = []
    for r in records:
        split = "held" if is_held(source, r["id"]) else "train"
        gold = [d["text"] for d in r["documents"] if d["gold"]]
        other = [d["text"] for d in r["documents"] if not d["gold"]]
        texts = gold + rng.sample(other, min(1, len(other)))
        rng.shuffle(texts)
        context = "\n\n".join(texts)
        found = find_answer(context, r["answers"])
        if found is None or len(context.split()) > LONGEST_TEXT:
            continue
        out.append(Example(source, "answer", split, r["id"], context, r["question"], found[1], r["answers"]))
        rest = "\n\n".join(t for t in texts if not any(a.lower() in t.lower() for a in r["answers"]))
        if rest:
            out.append(Example(source, "denied", split, r["id"], rest, r["question"], NULL, []))
    return out


def paragraphs(records: dict[str, list[dict]]) -> list[tuple[str, str]]:
    """(document, text) of every training text, each once, in stretches that are short enough."""
    seen, out = set(), []
    def add(document: str, text: str) -> None:
        if text not in seen and 30 <= len(text.split()) <= LONGEST_TEXT:
            seen.add(text)
            out.append((document, text))
    for source in CONTEXT_FILES:
        for r in records[source]:
            if is_held(source, r["id"]):
                continue
            parts, block = sentences(r["context"]), []
            for s in parts:
                block.append(s)
                if sum(len(b.split()) for b in block) > 160:
                    add(r["id"], " ".join(block))
                    block = []
            add(r["id"], " ".join(block))
    held = {d["id"] for f in DOCUMENT_FILES for r in records[f] if is_held(f, r["id"]) for d in r["documents"]}
    for source in DOCUMENT_FILES:
        for r in records[source]:
            for d in r["documents"]:
                if d["id"] not in held:
                    add(d["id"], d["text"])
    return out


def from_sentences(rng: random.Random, texts: list[tuple[str, str]], per_text: int) -> list[Example]:
    pool: dict[str, list[str]] = collections.defaultdict(list)
    for _, text in texts:
        for s in sentences(text):
            for span in spans(s):
                pool[span.kind].append(s[span.begin:span.end])
    out = []
    for document, text in texts:
        parts = sentences(text)
        for s in rng.sample(parts, min(per_text, len(parts))):
            made = cloze(rng, s)
            if made is None:
                continue
            if rng.random() < 0.42:
                denied = deny(rng, text, made, pool)
                if denied:
                    out.append(Example("cloze", "denied", "train", document, denied[0], denied[1], NULL, []))
            elif made.answer not in made.question:
                out.append(Example("cloze", "answer", "train", document, text, made.question, made.answer, [made.answer]))
    return out


def generated(seed: int, documents: int) -> list[Example]:
    lex = Lexicon(random.Random(f"reader {seed}"), TRAIN)
    out = []
    for n in range(documents):
        sample = haystack(lex, lex.between(60, 350))
        for b in [b for b in sample.branches if b.task in ("fact", "null")][:4]:
            kind = "null" if b.answer == NULL else "answer"
            out.append(Example("generated", kind, "train", f"generated-{n}", sample.context, b.question, b.answer, [] if kind == "null" else [b.answer]))
    return out


def build(folder: Path, seed: int, per_text: int = 8, documents: int = 700) -> list[Example]:
    """All examples; a pure function of the files and the numbers."""
    rng = random.Random(f"reader data {seed}")
    records = {f: [json.loads(line) for line in (folder / f"{f}.jsonl").open(encoding="utf-8")] for f in CONTEXT_FILES + DOCUMENT_FILES}
    out: list[Example] = []
    for f in CONTEXT_FILES:
        out += from_contexts(rng, f, records[f])
    for f in DOCUMENT_FILES:
        out += from_documents(rng, f, records[f])
    out += from_sentences(rng, paragraphs(records), per_text)
    out += generated(seed, documents)
    control = re.compile(r"<\|[^|]*\|>")
    return [e for e in out if not control.search(e.context + e.question)]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    examples = build(a.data, a.seed)
    with gzip.open(a.out, "wt", encoding="utf-8") as f:
        f.writelines(json.dumps(asdict(e), ensure_ascii=False) + "\n" for e in examples)
    for (source, split, kind), count in sorted(collections.Counter((e.source, e.split, e.kind) for e in examples).items()):
        print(f"{source:16} {split:6} {kind:7} {count}")


if __name__ == "__main__":
    main()
