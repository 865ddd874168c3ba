"""Questions that one paragraph answers, with the paragraphs that look most like it: what `eval rag-tables` asks.

Sources are files of SHARED/data and SHARED/train; people wrote the questions. Texts are cut into paragraphs. A question
is taken if exactly one paragraph of its text has an answer in it. Texts that a shipped reader was trained on (hashes
beside its card, and the split of `train.reading_texts`) are left out, also as other paragraphs. Others are of the same
source first, the nearest by BM25 first, then of the other sources; none has an answer in it. A file of questions is a
function of the files, the sources, the seed and the count.

    {"paragraphs": [{"id", "title", "source", "text"}]}, then a line for each question:
    {"id", "source", "group", "question", "answers", "gold": N, "others": [N, …]}, N: places in the list

`group` is the article: answers on one are not independent.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator, Sequence

from eval.trained import ADAPTERS, TrainedOn, read
from train.cloze import sentences
from train.reading_texts import BY_ARTICLE, LONGEST_ANSWER, article_of, split_of

SOURCES = ("squad2", "squad_train", "squadshifts_new_wiki", "fairytaleqa", "covidqa")
# No other draw for rag took questions of these.
NEW_SOURCES = ("fairytaleqa", "covidqa")
MOST_WORDS = 150  # of a paragraph that is put together of shorter ones
SHORTEST = 20  # words of a paragraph


@dataclass
class Paragraph:
    id: str
    title: str
    source: str
    text: str


@dataclass
class Question:
    id: str
    source: str
    group: str
    question: str
    answers: list[str]
    gold: int
    others: list[int] = field(default_factory=list)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def has_words(text: str, answer: str) -> bool:
    return re.search(r"(?<!\w)" + re.escape(answer.strip()) + r"(?!\w)", text, re.I) is not None


def paragraphs_of(text: str) -> list[str]:
    """Paragraphs of a text in its order; short ones are joined, longer ones cut at sentences."""
    if len(text.split()) <= 2 * MOST_WORDS:
        return [text.strip()]
    parts: list[str] = []
    for piece in filter(str.strip, text.split("\n")):
        parts += [piece.strip()] if len(piece.split()) <= MOST_WORDS else sentences(piece)
    out: list[str] = []
    for part in parts:
        if out and len(out[-1].split()) + len(part.split()) <= MOST_WORDS:
            out[-1] += "\n" + part
        else:
            out.append(part)
    return out


def held_by_readers() -> list[TrainedOn]:
    """What the shipped readers that answer for `rag` were trained on."""
    found = []
    for card in sorted(ADAPTERS.glob("*/banyan.json")):
        if "rag" in json.loads(card.read_text(encoding="utf-8")).get("reader", {}).get("tasks", []):
            found += read("", str(card.parent))
    if not found or not all(one.known for one in found):
        raise ValueError(f"{ADAPTERS}: expected hashes of what each reader of rag was trained on")
    return found


def rows_of(shared: Path, source: str) -> Iterator[dict]:
    places = [shared / "data" / f"{source}.jsonl", shared / "train" / f"{source}.jsonl.gz"]
    place = next((p for p in places if p.is_file()), None)
    if place is None:
        raise FileNotFoundError(f"{source}: expected one of {', '.join(map(str, places))}, found none")
    with (gzip.open if place.suffix == ".gz" else open)(place, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def title_of(source: str, row: dict) -> str:
    name = row["id"].removeprefix(f"{source}-").removeprefix("val-").removeprefix("test-")
    title = re.sub(r"-\d+$", "", name).replace("_", " ").replace("-", " ")
    return "" if title.isdigit() else title


def of_source(
    source: str, rows: Iterable[dict], seen: Sequence[TrainedOn], first: int
) -> tuple[list[Paragraph], list[Question]]:
    """Of one source: its paragraphs, whose places begin with `first`, and the questions that one of them answers."""
    paragraphs: list[Paragraph] = []
    questions: list[Question] = []
    for row in rows:
        text = row["context"]
        if source in BY_ARTICLE and split_of(source, article_of(source, row["id"])) != "held":
            continue
        if any(text in one for one in seen):
            continue
        cut = [one for one in paragraphs_of(text) if len(one.split()) >= SHORTEST and not any(one in s for s in seen)]
        title, start = title_of(source, row), first + len(paragraphs)
        paragraphs += [Paragraph(f"{row['id']}#{n}", title, source, one) for n, one in enumerate(cut)]
        for asked in row["questions"]:
            answers = [a.strip() for a in asked["answers"] if a.strip()]
            spans = [a for a in answers if len(a.split()) <= LONGEST_ANSWER]
            home = [n for n, one in enumerate(cut) if any(has_words(one, a) for a in spans)]
            if len(home) == 1:
                name = f"{row['id']}/{asked['id']}"
                questions.append(Question(name, source, title or row["id"], asked["question"], answers, start + home[0]))
    return paragraphs, questions


class Nearest:
    """BM25 as the program has it (k1 1.5, b 0.75) over a list of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words_of(text)) for text in texts]
        self.lengths = [sum(count.values()) for count in counts]
        self.mean = sum(self.lengths) / max(1, len(texts))
        self.where: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for n, count in enumerate(counts):
            for word, times in count.items():
                self.where[word].append((n, times))

    def scores(self, question: str) -> list[float]:
        scores = [0.0] * len(self.lengths)
        for word in dict.fromkeys(words_of(question)):
            found = self.where.get(word, [])
            rare = math.log(1 + (len(scores) - len(found) + 0.5) / (len(found) + 0.5))
            for n, times in found:
                scores[n] += rare * times / (times + 1.5 * (0.25 + 0.75 * self.lengths[n] / self.mean))
        return scores


def draw(
    shared: Path, sources: Sequence[str], count: int, others: int, seed: int, seen: Sequence[TrainedOn]
) -> tuple[list[Paragraph], list[Question]]:
    """`count` questions, of each source as many as of the others where it has them, with `others` paragraphs each."""
    chance = random.Random(f"rag questions {seed}")
    paragraphs: list[Paragraph] = []
    by_source: dict[str, list[Question]] = {}
    for source in sources:
        made, asked = of_source(source, rows_of(shared, source), seen, len(paragraphs))
        paragraphs += made
        chance.shuffle(asked)
        by_source[source] = asked
    taken: list[Question] = []
    while len(taken) < count and any(by_source.values()):
        for asked in by_source.values():  # in turn, so that whatever begins the list has all sources
            if asked and len(taken) < count:
                taken.append(asked.pop())
    nearest = Nearest([f"{p.title}\n{p.text}" for p in paragraphs])
    for one in taken:
        scores = nearest.scores(one.question)
        order = sorted(range(len(paragraphs)), key=lambda n: (paragraphs[n].source != one.source, -scores[n], n))
        texts = {paragraphs[one.gold].text}
        for n in order:
            if len(one.others) == others:
                break
            text = paragraphs[n].text
            if text in texts or any(has_words(text, answer) for answer in one.answers):
                continue
            texts.add(text)
            one.others.append(n)
    return paragraphs, taken


def write(path: Path, paragraphs: list[Paragraph], questions: list[Question]) -> None:
    used = sorted({n for q in questions for n in (q.gold, *q.others)})
    place = {n: at for at, n in enumerate(used)}
    lines = [{"paragraphs": [vars(paragraphs[n]) for n in used]}]
    lines += [dict(vars(q), gold=place[q.gold], others=[place[n] for n in q.others]) for q in questions]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_questions(path: Path) -> tuple[list[Paragraph], list[Question]]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        first, *rest = map(json.loads, lines)
    return [Paragraph(**p) for p in first["paragraphs"]], [Question(**q) for q in rest]


def documents_of(
    paragraphs: Sequence[Paragraph], question: Question, count: int, with_gold: bool = True
) -> list[dict]:
    """`count` documents, the right one at a place that only the question and the count decide."""
    chosen = [*question.others[: count - 1], question.gold] if with_gold else question.others[:count]
    random.Random(f"{question.id} {count}").shuffle(chosen)
    return [{"id": paragraphs[n].id, "title": paragraphs[n].title, "text": paragraphs[n].text} for n in chosen]
