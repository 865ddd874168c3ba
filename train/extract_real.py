"""Real labelled texts as records for the extraction adapter: product titles, dialogues, entities, references,
addresses, restaurants, questions.

A folder has the files under the names of `SOURCES`. A label is a span of its text. Attributes without a label teach
nothing (titles), or are null where the source says so. Questions become attributes: the question is the description,
the name is made up.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

from train import natural
from train.extract_records import UNLABELLED, Attribute, Record, style_name
from train.lexicon import TRAIN, Lexicon, is_held

ANSWERED = {
    "squad_train": 2600,
    "squadshifts_amazon": 900,
    "squadshifts_new_wiki": 900,
    "squadshifts_reddit": 700,
    "nq_short": 1500,
    "afriqa_en": 900,
    "tatqa_spans": 400,
    "wikitablequestions_cell": 700,
    "qamr": 700,
    "fairytaleqa_span": 500,
    "doqa": 600,
    "iirc": 500,
    "multilingual/piaf": 700,
}
UNANSWERED = {
    "unanswerable_constructed": 900,
    "unanswerable_constructed_informal": 500,
    "adversarialqa_unanswerable": 600,
    "clapnq_unanswerable": 290,
}
_STOP = set(
    "what which who whom whose when where why how is are was were did does do the a an of in on at to for from by with"
    " and or many much long old there it that this be been has have had can could would will its his her their qui que"
    " quoi quel quelle quels quelles est sont de la le les du des un une dans quand comment combien pourquoi".split()
)
_NUMBER = re.compile(
    r"(?:[$€£]\s?)?\d[\d.,]*(?:\s?(?:%|percent|million|billion|km|kg|m|miles|feet|years|days|hours|minutes|dollars|"
    r"pounds|euros))?"
)
_DATE = re.compile(
    r"(?:\d{1,2} )?(?:January|February|March|April|May|June|July|August|September|October|November|December)(?:"
    r" \d{1,2})?(?:, | )\d{4}"
)


def read(folder: Path, name: str) -> list[dict]:
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def first(value):
    return value[0] if isinstance(value, list) else value


def thin(rng: random.Random, names: list[str], values: dict, most_nulls: float) -> list[str]:
    """Names with a value, and at most so many nulls for each of them; some are left out, some change places."""
    full = [n for n in names if values.get(n)]
    nulls = [n for n in names if n in values and not values[n]]
    nulls = rng.sample(nulls, min(len(nulls), max(1, round(most_nulls * max(len(full), 1)))))
    kept = [n for n in names if (n in full and rng.random() < 0.92) or n in nulls] or full
    if rng.random() < 0.4:
        rng.shuffle(kept)
    return kept


def labelled(rng: random.Random, r: dict, source: str, most_nulls: float = 0.6) -> Record:
    names = thin(rng, r["attributes"], r["values"], most_nulls)
    style = rng.choice(("as", "as", "as", "snake", "title", "camel"))
    lex = Lexicon(rng, "train")
    attributes, values = [], []
    for n in names:
        given = r["values"].get(n, UNLABELLED)
        several = isinstance(given, list) and len(given) > 1
        a = Attribute(n if style == "as" else style_name(lex, n, style))
        if several and source == "crossner":
            a.type, a.words, value = "list", "list of text", given
        elif source == "crossner" and rng.random() < 0.35:
            a.type, a.words, value = "list", "list of text", given or None
        else:
            value = first(given) if given is not UNLABELLED else given
        attributes.append(a)
        values.append(value if value else None if value is not UNLABELLED else value)
    return Record(r["id"], source, r["text"], attributes, values, r["category"] if rng.random() < 0.5 else "")


def title_variants(rng: random.Random, titles: list[dict], count: int) -> list[Record]:
    """Product titles with values that changed places with other titles' of the category, with attributes left out,
    moved, and of other categories, which are null."""
    of: dict[str, list[dict]] = {}
    for t in titles:
        of.setdefault(t["category"], []).append(t)
    names = {c: set(ts[0]["attributes"]) for c, ts in of.items()}
    out = []
    for t in titles:
        pools = {n: [o["values"][n][0] for o in of[t["category"]] if n in o["values"]] for n in t["values"]}
        for number in range(count):
            text, values = t["text"], {n: v[0] for n, v in t["values"].items()}
            for n, v in list(values.items()):
                if (
                    number
                    and rng.random() < 0.45
                    and text.count(v) == 1
                    and not any(v != w and (v in w or w in v) for w in values.values())
                ):
                    new = rng.choice(pools[n])
                    if new not in text:
                        text, values[n] = text.replace(v, new), new
            if any(v not in text for v in values.values()):
                continue
            chosen = list(t["attributes"])
            if rng.random() < 0.4:
                rng.shuffle(chosen)
            if rng.random() < 0.5:
                chosen = [n for n in chosen if rng.random() < (0.9 if n in values else 0.6)] or chosen
            others = sorted(set().union(*(names[c] for c in names if c != t["category"])) - names[t["category"]])
            foreign = rng.sample(others, rng.choice((0, 0, 1, 2)))
            for n in foreign:
                chosen.insert(rng.randint(0, len(chosen)), n)
            style = rng.choice(("as",) * 6 + ("snake", "spaces", "camel"))
            named = [n if style == "as" else style_name(Lexicon(rng, "train"), n, style) for n in chosen]
            given = [None if n in foreign else values.get(n, UNLABELLED) for n in chosen]
            out.append(
                Record(
                    f"{t['id']}-{number}", "oa_mine_train", text, [Attribute(n) for n in named], given, t["category"]
                )
            )
    return out


def made_up_name(rng: random.Random, question: str, number: int) -> str:
    words = [w.lower() for w in re.findall(r"[^\W\d_]+", question) if w.lower() not in _STOP]
    form = rng.random()
    if form < 0.2 or not words:
        return rng.choice(
            (f"q{number + 1}", f"field_{number + 1}", f"answer_{chr(97 + number % 26)}", f"item{number + 1}")
        )
    some = words[:1] if form < 0.35 else rng.sample(words, min(len(words), rng.choice((1, 2, 2, 3))))
    return rng.choice(("_", "_", " ")).join(some)


def asked(
    rng: random.Random, name: str, source: str, text: str, questions: list[tuple[str, list[str]]]
) -> Record | None:
    """(question, answers): attributes whose descriptions are the questions."""
    attributes, values, names = [], [], set()
    for question, answers in questions:
        n = made_up_name(rng, question, len(attributes))
        if n in names:
            n = f"{n}_{len(attributes) + 1}"
        names.add(n)
        answer = answers[0] if answers else None
        if answer is not None and (answer not in text or "\n" in answer or len(answer) > 120):
            continue
        a = Attribute(n, description=question)
        if answer and _NUMBER.fullmatch(answer) and rng.random() < 0.6:
            a.type = a.words = "number"
        elif answer and _DATE.fullmatch(answer) and rng.random() < 0.6:
            a.type, a.words = "date", rng.choice(("date", "date as YYYY-MM-DD"))
        elif answer is None and rng.random() < 0.2:
            a.type = a.words = rng.choice(("number", "date"))
        attributes.append(a)
        values.append(answer)
    return Record(name, source, text, attributes, values) if attributes else None


def question_records(rng: random.Random, folder: Path) -> list[Record]:
    out = []
    for name, most in {**ANSWERED, **UNANSWERED}.items():
        rows = [r for r in read(folder, name) if 20 < len(r["context"]) < 1500]
        for r in rng.sample(rows, min(most, len(rows))):
            some = rng.sample(r["questions"], min(len(r["questions"]), rng.randint(2, 5)))
            made = asked(rng, r["id"], name.split("/")[-1], r["context"], [(q["question"], q["answers"]) for q in some])
            if made:
                out.append(made)
    rng.shuffle(out)
    by_text = {}
    for r in out:  # what a text answers and what it does not, together where the sets have both
        by_text.setdefault(r.text, r)
    for r in out:
        other = by_text[r.text]
        if other is not r and len(other.attributes) < 6:
            fresh = [(a, v) for a, v in zip(r.attributes, r.values) if a.name not in {o.name for o in other.attributes}]
            other.attributes += [a for a, _ in fresh]
            other.values += [v for _, v in fresh]
    return list(by_text.values())


def natural_records(rng: random.Random, count: int) -> list[Record]:
    """From the templates of `train/natural`, without those that are held out."""
    templates = natural.templates(TRAIN)
    out = []
    for n in range(count):
        t = rng.choice(templates)
        made = natural.expand(Lexicon(rng, "train"), t)
        some = rng.sample(made.asked, min(len(made.asked), rng.randint(3, 7)))
        r = asked(rng, f"natural-{n}", "natural", made.passage, some)
        if r:
            out.append(r)
    return out


def labelled_records(rng: random.Random, folder: Path, titles: int) -> list[Record]:
    out = title_variants(rng, [t for t in read(folder, "oa_mine_train") if not held_name(t["id"])], titles)
    held = [t for t in read(folder, "oa_mine_train") if held_name(t["id"])]
    for t in title_variants(rng, held, 1):
        t.held = True
        out.append(t)
    for source in ("sgd_dialogues", "crossner", "references_anystyle", "e2e_restaurants", "us_addresses"):
        for r in read(folder, source):
            made = labelled(rng, r, source)
            made.held = held_name(r["id"])
            if made.attributes:
                out.append(made)
    return out


def held_name(name: str) -> bool:
    return is_held("held " + name, 25)
