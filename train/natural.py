"""Hand-written everyday texts with slots (`train/natural/*.txt`) → samples with questions, every time with other values
and wordings.

A template is a name, a passage and questions. Slots: `{name:kind}` or `{name=one|two|three}` where it first stands,
`{name}` afterwards, `{name.first}`, `{name.last}`, `{name's}`. Wordings: `[[one way||another]]`; `[[?may be left
out]]`. Questions: `Q: wording | wording`, then `A: answer || other form`; `N: …` is one that the passage does not
answer. An expansion keeps a question only if its answer stands in the text, word for word.

One template in eleven is held out, by its name, for a score of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from train.cloze import sentences
from train.lexicon import HELD, Lexicon, is_held
from train.natural_words import KINDS, value
from train.sample import DEFAULT_INSTRUCTION, INSTRUCTIONS, Branch, Sample

FOLDER = Path(__file__).parent / "natural"
NULL = "null"
_SLOT = re.compile(r"\{([^{}]+)\}")
_DEFINED = re.compile(r"\{(\w+)(?::([\w()-]+)|=([^{}]+))\}")
_WORDING = re.compile(r"\[\[(.*?)\]\]", re.S)
_OWN_LINE = re.compile(r"\s*(?:\||-|\d+\.)")


@dataclass
class Question:
    wordings: list[str]
    answers: list[str]  # the first is what is taught; empty: the passage does not say


@dataclass
class Template:
    name: str
    kind: str  # the file's name
    passage: str
    questions: list[Question] = field(default_factory=list)

    @cached_property
    def slots(self) -> dict[str, tuple[str, list[str]]]:
        """Name → (kind, []) or ("", the values that are written out)."""
        whole = "\n".join((self.passage, *(w for q in self.questions for w in (*q.wordings, *q.answers))))
        out: dict[str, tuple[str, list[str]]] = {}
        for name, kind, written in _DEFINED.findall(whole):
            if kind and kind.split("(")[0] not in KINDS:
                raise ValueError(f"{self.name}: slot kind '{kind}' is not known")
            out.setdefault(
                name, (kind, [w.strip() for w in re.sub(r"\s+", " ", written).split("|")] if written else [])
            )
        return out


@dataclass
class Text:
    """An expansion. `asked`: (question, answers)."""

    passage: str
    asked: list[tuple[str, list[str]]]


def join_lines(text: str) -> str:
    """Lines of a paragraph become one, apart from rows of a table or list and lines that end with two spaces."""
    paragraphs = []
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        out = ""
        for line in paragraph.split("\n"):
            out += ("" if not out else "\n" if hard or _OWN_LINE.match(line) else " ") + line.strip()
            hard = line.endswith("  ") or line.lstrip().startswith("|")
        paragraphs.append(out)
    return "\n\n".join(paragraphs)


def parse(text: str, kind: str) -> list[Template]:
    out = []
    for part in re.split(r"^---[ \t]*$", text, flags=re.M):
        lines = part.strip("\n").split("\n")
        if not part.strip():
            continue
        if not lines[0].startswith("# "):
            raise ValueError(f"{kind}: expected '# name', found '{lines[0][:60]}'")
        first = next((n for n, line in enumerate(lines) if re.match(r"[QN]: ", line)), len(lines))
        template = Template(lines[0][2:].strip(), kind, join_lines("\n".join(lines[1:first])))
        rest: list[str] = []
        for line in lines[first:]:  # a line that begins with none of the marks goes on with the one before
            if re.match(r"[QAN]: ", line):
                rest.append(line)
            elif line.strip():
                rest[-1] += " " + line.strip()
        for line in rest:
            mark, words = line[0], line[3:].strip()
            if mark == "A":
                template.questions[-1].answers = [a.strip() for a in words.split("||")]
            else:
                template.questions.append(Question([w.strip() for w in re.split(r"\s\|\s", words)], []))
                template.questions[-1].answers = [] if mark == "N" else [NULL]
        out.append(template)
    return out


@lru_cache(maxsize=None)
def load(folder: Path = FOLDER) -> tuple[Template, ...]:
    return tuple(t for f in sorted(folder.glob("*.txt")) for t in parse(f.read_text(encoding="utf-8"), f.stem))


@lru_cache(maxsize=None)
def templates(split: str, folder: Path = FOLDER) -> list[Template]:
    return [t for t in load(folder) if is_held("template " + t.name, 11) == (split == HELD)]


def draw_values(lex: Lexicon, template: Template) -> dict[str, str]:
    """A value for every slot of the template, no two alike where their kind has enough."""
    values: dict[str, str] = {}
    for name, (kind, written) in template.slots.items():
        for _ in range(20):
            made = lex.choice(written) if written else value(lex, kind)
            if made not in values.values():
                break
        values[name] = made
    return values


def fill(text: str, values: dict[str, str], name: str = "") -> str:
    def one(m: re.Match) -> str:
        slot = re.split(r"[:=]", m[1], maxsplit=1)[0]
        genitive = slot.endswith("'s")
        base, _, part = slot.removesuffix("'s").partition(".")
        if base not in values:
            raise ValueError(f"{name}: slot '{m[0]}' has no kind")
        words = values[base].split()
        made = {"": values[base], "last": words[-1], "first": words[0]}[part]
        return made + ("'" if made.endswith("s") and len(made) % 2 else "'s") * genitive

    return _SLOT.sub(one, text)


def expand(lex: Lexicon, template: Template) -> Text:
    values = draw_values(lex, template)

    def word(m: re.Match) -> str:
        if m[1].startswith("?"):
            return m[1][1:] if lex.chance(0.6) else ""
        return lex.choice(m[1].split("||"))

    passage = fill(_WORDING.sub(word, template.passage), values, template.name)
    passage = re.sub(r" +([.,;:!?](?:\s|$))", r"\1", re.sub(r"[ \t]{2,}", " ", passage)).strip()
    asked = []
    for q in template.questions:
        answers = [fill(a, values, template.name) for a in q.answers]
        asked.append((fill(lex.choice(q.wordings), values, template.name), answers))
    return Text(passage, asked)


def place(answer: str, text: str) -> int:
    """Where the answer stands as whole words, or -1."""
    at = text.find(answer)
    while at >= 0:
        end = at + len(answer)
        if not (at and text[at - 1].isalnum() and answer[0].isalnum()) and not (
            end < len(text) and text[end].isalnum() and answer[-1].isalnum()
        ):
            return at
        at = text.find(answer, at + 1)
    return -1


def spelled(answers: list[str], text: str) -> str | None:
    """The first form that stands in the text, as it is written there (a capital at the start of a sentence)."""
    for a in answers:
        if place(a, text) >= 0:
            return a
    for a in answers:
        if (at := place(a.lower(), text.lower())) >= 0:
            return text[at : at + len(a)]
    return None


def without(text: str, answers: list[str]) -> str | None:
    """The text without the sentences and rows that have an answer; None where little is left or the answer stays."""
    gone = [s for s in sentences(text) if any(a.lower() in s.lower() for a in answers)]
    for s in gone:
        text = text.replace(s, "")
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"(?m)^ +| +$", "", re.sub(r" {2,}", " ", text))).strip()
    return (
        text
        if len(gone) <= 2 and len(text.split()) >= 25 and not any(a.lower() in text.lower() for a in answers)
        else None
    )


def natural(lex: Lexicon, tokens: int, folder: Path = FOLDER) -> Sample:
    """One sample of about `tokens` tokens at most where other texts are joined in; a passage is never cut."""
    every = templates(lex.split, folder)
    template = lex.choice(every)
    text = expand(lex, template)
    passage, asked = text.passage, list(text.asked)
    strange: list[tuple[str, list[str]]] = []  # questions on other kinds of texts
    others = [t for t in every if t.kind != template.kind]
    joins = lex.chance(0.35)
    while others and joins and len(passage) < 3 * tokens:
        other = expand(lex, lex.choice(others))
        passage = "\n\n".join((passage, other.passage) if lex.chance(0.5) else (other.passage, passage))
        if lex.chance(0.3):
            asked += other.asked
    if others and lex.chance(0.35):
        strange = lex.rng.sample(expand(lex, lex.choice(others)).asked, 1)
    branches = []
    denied = lex.choice([a for a in asked if a[1]] or asked) if lex.chance(0.3) else None
    if denied and denied[1] and (rest := without(passage, denied[1])):
        passage, asked = rest, [a for a in asked if a is not denied]
        branches.append(Branch(denied[0], NULL, "natural-null"))
    for question, answers in asked:
        found = spelled(answers, passage) if answers else None
        if found is not None:
            branches.append(Branch(question, found, "natural"))
        elif not answers:
            branches.append(Branch(question, NULL, "natural-null", weight=0.7))
    for question, answers in strange:
        if not answers or spelled(answers, passage) is None:
            branches.append(Branch(question, NULL, "natural-null", weight=0.7))
    lex.rng.shuffle(branches)
    system = lex.choice(INSTRUCTIONS) if lex.split != HELD and lex.chance(0.4) else DEFAULT_INSTRUCTION
    return Sample(system, passage, branches[:24])
