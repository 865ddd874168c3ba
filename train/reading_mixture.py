"""Which sample a reader of the new edition reads next: texts with their questions (`train.reading_texts`), arranged
anew each time; everyday templates (`train.natural`); generated tasks (`train.mixture`); and what the large model asked
and answered (`train.reading_written`), as far as it is there yet.

Arrangements of a text: alone, as `ask` and an expert of `rag` read it; with its title, as `rag` shows a document; among
up to nine others of its article, as `rag --method concat` joins them; without the sentences that have an answer;
another text of its article with its question (`null`); no text at all (`null`: the prior). A document that has only the
bridge of a two-hop question answers `null`: `rag` leaves out experts that abstain, and a bridge's name in front of an
answer would be wrong for every single question. Multiple choice is laid out as `ask --choices letter` does.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from train.cloze import spans
from train.lexicon import Lexicon
from train.mixture import make_sample
from train.natural import FOLDER, natural, without
from train.questions import haystack
from train.reading_texts import HELD_TEMPLATES, NULL, OTHER_LANGUAGES, PASSAGES, TextRow, digest, load_rows, measured_questions
from train.retrieval import no_document, secret_code, two_hop_document
from train.sample import DEFAULT_INSTRUCTION, INSTRUCTIONS, Branch, Extraction, Sample, choice_letters

QUESTIONS = 10  # of one text at a time
JOINED_WORDS = 1300
# How often a text of a file is read, against once for others.
RATES = {
    "squad_train": 1.6,
    "squadshifts_new_wiki": 1.3,
    "squadshifts_amazon": 1.3,
    "afriqa_en": 0.5,
    "iirc": 0.25,
    "nq_short": 0.8,
    "qamr": 0.6,
    "wikitablequestions_cell": 0.6,
    "adversarialqa_unanswerable": 0.4,
    "clapnq_unanswerable": 0.6,
    "xquad_de": 4.0,
    "xquad_es": 4.0,
    "hotpotqa_train": 4.0,
    "musique_train": 4.0,
    **{p: 0.3 for p in PASSAGES},
}
_SUBJECT = re.compile(
    r"^Who (?!is\b|was\b|are\b|were\b|did\b|does\b|do\b|has\b|have\b|had\b|will\b|would\b|can\b|could\b|else\b)(.+)\?$"
)
_IS = re.compile(r"^(?:What|Who) (is|was|are|were) (.+)\?$")
_WHEN = re.compile(r"^(?:When|In what year|What year|In which year) (did|was|were|is) (.+)\?$")


def train_templates(out: Path) -> Path:
    """The templates without the kinds that are held out, in a folder of their own."""
    folder = out / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    for f in FOLDER.glob("*.txt"):
        if f.stem not in HELD_TEMPLATES:
            (folder / f.name).write_text(f.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def kind_of(answer: str) -> str:
    found = spans(answer)
    return (
        found[0].kind
        if found and found[0].end - found[0].begin > len(answer) // 2
        else "words" if " " in answer else "word"
    )


def letter_choice(lex: Lexicon, question: str, answer: str, others: list[str]) -> Branch | None:
    """As `banyan ask --choices letter` asks it."""
    same = [
        o
        for o in others
        if kind_of(o) == kind_of(answer) and o.lower() not in answer.lower() and answer.lower() not in o.lower()
    ]
    if not same:
        return None
    options = lex.rng.sample(same, min(len(same), lex.between(1, 4))) + [answer]
    lex.rng.shuffle(options)
    letters = choice_letters(len(options))
    lines = "\n".join(f"{letter}. {o}" for letter, o in zip(letters, options))
    return Branch(f"{question}\n{lines}\nAnswer with the letter.", letters[options.index(answer)], "choice")


def yes_no(lex: Lexicon, question: str, answer: str, others: list[str]) -> Branch | None:
    """A statement of the answer, or of a wrong one of the same text, put as a question."""
    same = [
        o
        for o in others
        if kind_of(o) == kind_of(answer) and o.lower() not in answer.lower() and answer.lower() not in o.lower()
    ]
    right = not same or lex.chance(0.5)
    value = answer if right else lex.choice(same)
    if m := _SUBJECT.match(question):
        text = f"Is it true that {value} {m[1]}?"
    elif m := _IS.match(question):
        text = f"{m[1].capitalize()} {m[2]} {value}?"
    elif (m := _WHEN.match(question)) and kind_of(answer) in ("year", "date"):
        text = f"{m[1].capitalize()} {m[2]} {'in' if kind_of(value) == 'year' else 'on'} {value}?"
    else:
        return None
    return Branch(text, "yes" if right else "no", "yesno")


def said_in(text: str, answers: list[str]) -> bool:
    return any(a.lower() in text.lower() for a in answers)


@dataclass
class ReadingMixture:
    """Called by the packer for every sample; `shares`: of generated tasks, templates, texts that the large model asked
    about; the rest are `texts`."""

    texts: Path
    natural: Path = FOLDER
    written: Path | None = None
    shares: tuple[float, float, float] = (0.04, 0.2, 0.08)
    languages: bool = True
    two_steps: bool = (
        True  # generated two-hop questions, answered `bridge; answer`, and attributes among the generated tasks
    )
    null_weight: float = 1.0
    text_weight: float = 0.0
    _rows: list[TextRow] = field(default_factory=list, repr=False)
    _cumulative: list[float] = field(default_factory=list, repr=False)
    _articles: dict = field(default_factory=lambda: defaultdict(list), repr=False)
    _written: list[Sample] = field(default_factory=list, repr=False)
    _seen: set = field(default_factory=set, repr=False)
    _draws: int = 0

    def load(self) -> None:
        for row in load_rows(self.texts):
            if row.split == "train" and row.asked and (self.languages or row.source not in OTHER_LANGUAGES):
                self._rows.append(row)
                self._cumulative.append(
                    (self._cumulative[-1] if self._cumulative else 0.0) + RATES.get(row.source, 1.0)
                )
                self._articles[row.article].append(row)

    def branch(self, question: str, answer: str, source: str, weight: float = 1.0) -> Branch:
        return Branch(
            question,
            answer,
            source + ("-null" if answer == NULL else ""),
            weight=weight * (self.null_weight if answer == NULL else 1.0),
        )

    def branches(self, lex: Lexicon, row: TextRow) -> list[Branch]:
        chosen = lex.rng.sample(row.asked, min(len(row.asked), QUESTIONS))
        others = list({a[1] for a in row.asked if a[1] != NULL})
        out = []
        for question, answer, weight, _ in chosen:
            turned = None
            if answer != NULL and row.source not in (*OTHER_LANGUAGES, *PASSAGES) and lex.chance(0.14):
                turned = (letter_choice if lex.chance(0.3) else yes_no)(lex, question, answer, others)
            out.append(turned or self.branch(question, answer, row.source, weight))
        return out

    def shown(self, lex: Lexicon, row: TextRow) -> str:
        """The text, now and then under its title."""
        title = row.article.split("-", 1)[-1].replace("_", " ")
        return (
            f"{title}\n{row.text}"
            if row.article != row.source and "ec-" not in row.article and lex.chance(0.4)
            else row.text
        )

    def joined(self, lex: Lexicon, row: TextRow) -> Sample | None:
        """2 to 10 texts of one article in any order; questions on some of them, and on one that is left out."""
        near = [r for r in self._articles[row.article] if r is not row]
        if len(near) < 2:
            return None
        others, texts, count = lex.rng.sample(near, min(len(near), 10)), [row], lex.between(2, 10)
        words = len(row.text.split())
        for other in others[1:count]:
            words += len(other.text.split())
            if words > JOINED_WORDS:
                break
            texts.append(other)
        asked = texts[:2]
        lex.rng.shuffle(texts)
        context = "\n\n".join(self.shown(lex, t) for t in texts)
        out = [
            self.branch(q, a, "joined", w)
            for t in asked
            for q, a, w, _ in lex.rng.sample(t.asked, min(6, len(t.asked)))
            if a != NULL
        ]
        out += [
            self.branch(q, NULL, "joined", 0.5)
            for q, a, _, golds in lex.rng.sample(others[0].asked, min(2, len(others[0].asked)))
            if a != NULL and len(a) > 3 and not said_in(context, [a, *golds])
        ]
        return Sample(DEFAULT_INSTRUCTION, context, out, text_weight=self.text_weight) if out else None

    def documents(self, lex: Lexicon, row: TextRow) -> Sample:
        """Two hops: all documents with answer or bridge among others, or one of them alone."""
        question, answer, _, golds = row.asked[0]
        gold, rest = [t for t, g in row.documents if g], [t for t, g in row.documents if not g]
        if lex.chance(0.35) and answer not in ("yes", "no"):
            alone = lex.choice(gold if lex.chance(0.7) or not rest else rest)
            found = alone in gold and said_in(alone, [answer])
            if found or not said_in(alone, [answer, *golds]):
                return Sample(
                    DEFAULT_INSTRUCTION,
                    alone,
                    [self.branch(question, answer if found else NULL, "expert", 0.7)],
                    text_weight=self.text_weight,
                )
        texts = gold + lex.rng.sample(rest, min(len(rest), lex.between(0, 8)))
        lex.rng.shuffle(texts)
        return Sample(
            DEFAULT_INSTRUCTION,
            "\n\n".join(texts),
            [self.branch(question, answer, "hops")],
            text_weight=self.text_weight,
        )

    def stranger(self, lex: Lexicon, row: TextRow) -> list[Branch]:
        """A question on another text of the article, which this one does not answer."""
        near = self._articles[row.article]
        other = lex.choice(near)
        question, answer, weight, golds = lex.choice(other.asked)
        if other is row or answer == NULL or len(answer) < 4 or said_in(row.text, [answer, *golds]):
            return []
        return [self.branch(question, NULL, "expert", 0.5 * weight)]

    def texts_sample(self, lex: Lexicon) -> Sample:
        if not self._rows:
            self.load()
        row = lex.rng.choices(self._rows, cum_weights=self._cumulative)[0]
        if row.documents:
            return self.documents(lex, row)
        arrangement = lex.rng.random()
        if arrangement < 0.12 and row.source not in PASSAGES and (made := self.joined(lex, row)):
            return made
        if arrangement > 0.975:
            known = [a for a in row.asked if a[1] != NULL and a[2] >= 0.5]
            if known:
                return Sample(
                    DEFAULT_INSTRUCTION,
                    None,
                    [self.branch(q, NULL, "prior", 0.5) for q, *_ in lex.rng.sample(known, min(3, len(known)))],
                )
        system = lex.choice(INSTRUCTIONS) if lex.chance(0.15) else DEFAULT_INSTRUCTION
        text, branches = self.shown(lex, row), self.branches(lex, row)
        if arrangement < 0.24 and row.source not in PASSAGES:  # without the sentences that answer one of the questions
            known = [a for a in row.asked if a[1] != NULL and len(a[1]) > 3]
            denied = lex.choice(known) if known else None
            if denied and (rest := without(row.text, [denied[1], *denied[3]])):
                kept = [a for a in row.asked if a[1] != NULL and a is not denied and a[1] in rest]
                branches = [self.branch(denied[0], NULL, "denied", 0.7)] + [
                    self.branch(q, a, row.source, w) for q, a, w, _ in lex.rng.sample(kept, min(5, len(kept)))
                ]
                text = rest
        elif lex.chance(0.2):
            branches += self.stranger(lex, row)
        return Sample(system, text, branches, text_weight=self.text_weight)

    def look(self) -> None:
        """Takes up what the large model has finished since."""
        for path in sorted(self.written.glob("*.jsonl.gz")) if self.written else []:
            if path.name in self._seen:
                continue
            self._seen.add(path.name)
            texts: dict[str, list[Branch]] = defaultdict(list)
            with gzip.open(path, "rt", encoding="utf-8") as f:
                for e in map(json.loads, f):
                    texts[e["context"]].append(self.branch(e["question"], e["answer"], "written", 0.8))
            self._written += [
                Sample(DEFAULT_INSTRUCTION, text, b, text_weight=self.text_weight) for text, b in texts.items()
            ]

    def with_questions(self, lex: Lexicon) -> Sample | None:
        """A text with people's own questions, for `train.reading_written`."""
        if not self._rows:
            self.load()
        row = lex.rng.choices(self._rows, cum_weights=self._cumulative)[0]
        if not row.text or row.source in (*PASSAGES, *OTHER_LANGUAGES):
            return None
        return Sample(
            DEFAULT_INSTRUCTION,
            row.text,
            [
                self.branch(q, a, row.source, w)
                for q, a, w, _ in lex.rng.sample(row.asked, min(QUESTIONS, len(row.asked)))
            ],
        )

    def everyday(self, lex: Lexicon) -> Sample:
        s = natural(lex, 300 if lex.chance(0.8) else 900, self.natural)
        s.branches = [b for b in s.branches if digest(b.question) not in measured_questions()][
            :QUESTIONS
        ]  # they are in random order
        for b in s.branches:
            if b.answer == NULL:
                b.weight *= self.null_weight
        s.text_weight = self.text_weight
        return s

    def __call__(self, lex: Lexicon, progress: float) -> Sample | Extraction:
        if self._draws % 64 == 0:
            self.look()
        self._draws += 1
        kind = lex.rng.random()
        generated, templates, written = self.shares
        if kind < generated:
            if not self.two_steps:
                return lex.choice((haystack, haystack, secret_code))(lex, lex.between(60, 500))
            if lex.chance(0.3):
                return (
                    lex.choice((two_hop_document, secret_code))(lex, lex.between(30, 200))
                    if lex.chance(0.75)
                    else no_document(lex)
                )
            return make_sample(lex, 1.0)
        if kind < generated + templates:
            return self.everyday(lex)
        if kind < generated + templates + written and self._written:
            s = lex.choice(self._written)
            return Sample(
                s.system,
                s.context,
                lex.rng.sample(s.branches, min(len(s.branches), QUESTIONS)),
                text_weight=s.text_weight,
            )
        return self.texts_sample(lex)
