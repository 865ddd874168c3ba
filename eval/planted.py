"""Many questions on one long document with planted facts: time and accuracy as the questions grow (Hydragen's Figure
5).

    python3 -m eval.planted -m MODEL [--adapter DIR] [--book BOOK.txt.gz] [--tokens 3000] [--questions 8,64,256]
        [--strategies auto,paged,flat] [--json FILE] [-- --threads 2]

Sentences that state facts stand between sentences that say nothing, until the document has about --tokens tokens of the
shipped tokenizer. Names and wordings are those that training holds out. With --book the text is the book's beginning,
with sentences such as “The otter named Bessa has paws that are green.” between its own at random places. A fifth of the questions asks what the text
does not say, and wants `null`. `flat` computes the document for every question: it gets the first --flat-questions of
them, and its time for all is by calculation, which the table marks with ~. Runs take turns; medians with their spread;
`same`: answers that are the first strategy's, letter for letter.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import statistics
from pathlib import Path

from eval.reading import answers_of, judge, means
from eval.sets import TOKENIZER
from eval.seqbatch import run
from train.documents import make_world, write
from train.lexicon import HELD, Lexicon
from train.questions import forward, unanswerable
from train.tokenizer import Tokenizer

UNKNOWN = 5  # one question in so many has no answer
MOST_MISSES = 1000  # draws without a new question, before there are none left


def planted_document(tokens: int, questions: int, seed: int = 1) -> dict:
    """An `ask` record; the first questions of a longer list are those of a shorter one."""
    lex, tokenizer = Lexicon(random.Random(f"planted {seed} {tokens}"), HELD), Tokenizer.load(TOKENIZER)
    facts = max(4, tokens // 40)
    world = make_world(lex, facts)
    text, hay = "", 0.0
    while len(tokenizer.encode(text)) < tokens * 0.93 and hay < 50:  # more and more sentences that say nothing
        longer = write(lex, world, hay)
        if len(tokenizer.encode(longer)) > tokens and text:
            break
        text, hay = longer, hay + 0.25
    asked, seen, misses = [], set(), 0
    while len(asked) < questions and misses < MOST_MISSES:
        misses += 1
        wants_null = len(asked) % UNKNOWN == UNKNOWN - 1
        branch = unanswerable(lex, world) if wants_null else forward(lex, lex.choice(world.facts))
        if branch is None or branch.question in seen:
            continue
        seen.add(branch.question)
        misses = 0
        asked.append(
            dict(
                id=f"q{len(asked)}",
                question=branch.question,
                answers=[] if branch.answer == "null" else [branch.answer],
            )
        )
    if len(asked) < questions:
        raise ValueError(
            f"a document of {tokens} tokens has no {questions} different questions: {len(asked)} were found"
        )
    return dict(id=f"planted-{tokens}", context=text, questions=asked)


ANIMALS = "otter badger heron lynx mole raven stoat toad weasel wren hare newt".split()
PARTS = "tail nose collar saddle blanket ribbon bell cap coat scarf".split()
WORDINGS = (  # every fact is asked for by the first before any is by the second
    "What colour is the {part} of the {animal} named {name}?",
    "Which colour does the {part} of the {animal} named {name} have?",
    "What is the colour of the {part} that the {animal} named {name} has?",
    "The {animal} named {name} has a {part} of which colour?",
    "Of which colour is the {part} of {name}, the {animal}?",
)
COLOURS = "red blue green yellow white black brown grey purple orange pink silver".split()


def read_book(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


def planted_in_book(book: str, tokens: int, questions: int, seed: int = 1) -> dict:
    """As `planted_document`, of a book's beginning. The text depends on `tokens` and `seed` alone."""
    rng, tokenizer = random.Random(f"book {seed} {tokens}"), Tokenizer.load(TOKENIZER)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    names = list(dict.fromkeys("".join(rng.choices(syllables, k=3)).capitalize() for _ in range(40 + tokens // 10)))
    facts = [
        (rng.choice(ANIMALS), name, rng.choice(PARTS), rng.choice(COLOURS)) for name in names[: max(4, tokens // 40)]
    ]
    strangers = names[len(facts) :]
    planted = [f"The {a} named {n} has a {p} that is {c}." for a, n, p, c in facts]
    room = tokens - sum(len(tokenizer.encode(" " + s)) for s in planted)
    sentences: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", book[: 8 * tokens]):
        room -= len(tokenizer.encode(" " + sentence))
        if room < 0:
            break
        sentences.append(" ".join(sentence.split()))
    for sentence in planted:
        sentences.insert(rng.randrange(len(sentences) + 1), sentence)
    known = [(wording, fact) for wording in WORDINGS for fact in rng.sample(facts, len(facts))]
    unknown = [(WORDINGS[0], (rng.choice(ANIMALS), name, rng.choice(PARTS))) for name in strangers]
    asked: list[dict] = []
    while len(asked) < questions:
        pool = unknown if len(asked) % UNKNOWN == UNKNOWN - 1 else known
        if not pool:
            raise ValueError(
                f"a document of {tokens} tokens has no {questions} different questions: {len(asked)} were found"
            )
        wording, (animal, name, part, *colour) = pool.pop(0)
        question = wording.format(animal=animal, name=name, part=part)
        asked.append(dict(id=f"q{len(asked)}", question=question, answers=colour))
    return dict(id=f"book-{tokens}", context=" ".join(sentences), questions=asked)


def measure(
    a: argparse.Namespace, tokens: int, counts: list[int], strategies: list[str], repeat: int, flat_questions: int
) -> list[dict]:
    """A row for each number of questions and strategy. `a`: banyan, model, adapter, options."""
    book = getattr(a, "book", "")
    whole = (
        planted_in_book(read_book(Path(book)), tokens, max(counts)) if book else planted_document(tokens, max(counts))
    )
    rows = []
    for count in counts:
        record = dict(whole, questions=whole["questions"][:count])
        runs: dict[str, list[tuple[dict, dict]]] = {}
        for _ in range(repeat):
            for strategy in strategies:
                asked = dict(record, questions=record["questions"][:flat_questions]) if strategy == "flat" else record
                written, receipt = run(a, [asked], ["--strategy", strategy, "--max-new", "24", "--no-copy"])
                runs.setdefault(strategy, []).append((answers_of(written), receipt))
        first = runs[strategies[0]][0][0]
        for strategy, made in runs.items():
            found, receipt = made[0]
            part = dict(record, questions=record["questions"][: len(found)])
            scale = count / len(part["questions"])
            seconds = [r["seconds"]["total"] * scale for _, r in made]
            score = means(judge([part], found))
            rows.append(
                dict(
                    questions=count,
                    strategy=strategy,
                    ran=len(part["questions"]),
                    seconds=seconds,
                    median=statistics.median(seconds),
                    exact=score["exact"],
                    f1=score["f1"],
                    errors=score["errors"],
                    same=sum(found[k] == first.get(k) for k in found) / len(found),
                    prompt_tokens=receipt["prompt_tokens"],
                    prefilled_tokens=receipt["prefilled_tokens"],
                )
            )
    return rows


def table(rows: list[dict]) -> str:
    lines = ["| questions | strategy | seconds | exact | F1 | same | tokens computed |", "|---" * 7 + "|"]
    for r in rows:
        about = "~" if r["ran"] < r["questions"] else ""
        spread = f" ({min(r['seconds']):.2f} to {max(r['seconds']):.2f})" if len(r["seconds"]) > 1 else ""
        lines.append(
            f"| {r['questions']} | {r['strategy']} | {about}{r['median']:.2f}{spread} | {100 * r['exact']:.1f} % of"
            f" {r['ran']} | {100 * r['f1']:.1f} % | {100 * r['same']:.0f} % | {r['prefilled_tokens']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument("--book", default="", help="a text that facts are planted in, .txt or .txt.gz; else generated")
    p.add_argument("--tokens", type=int, default=3000)
    p.add_argument("--questions", default="8,64,256")
    p.add_argument("--strategies", default="auto,paged,flat")
    p.add_argument("--flat-questions", type=int, default=4)
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    p.add_argument("options", nargs="*", help="options for `banyan ask`, after --")
    a = p.parse_args()
    rows = measure(
        a, a.tokens, [int(n) for n in a.questions.split(",")], a.strategies.split(","), a.repeat, a.flat_questions
    )
    print(table(rows))
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
