"""Generates the held-out evaluation sets: names, wordings and documents that training never used.

    python3 -m eval.sets --out build/eval [--seed 1] [--scale 1.0]

Files: haystack_1k, haystack_3k, choice, code, two_hop_joined (`banyan ask` format), extract (extraction format), and
code_16, two_hop_16, code_lines (multi-document format: `gold` marks the documents that state a hop, or define what a
line of code calls).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from pathlib import Path

from eval import code_lines
from train.documents import make_world, state, write
from train.lexicon import HELD, Lexicon
from train.products import page
from train.questions import haystack, multiple_choice
from train.retrieval import code_fact, document_with, two_hop
from train.sample import Branch, Sample
from train.tokenizer import Tokenizer

TOKENIZER = Path(__file__).parents[1] / "train" / "tokenizer"


def ask_record(name: str, context: str, branches: list[Branch]) -> dict:
    """`answers` is empty where the text does not say; multiple choice asks for a letter."""
    questions = []
    for n, b in enumerate(branches):
        q = dict(id=f"q{n}", question=b.question, answers=[] if b.answer == "null" else [b.answer])
        if b.choices:
            q = dict(id=f"q{n}", question=b.plain, choices=b.choices, answers=[b.answer])
        questions.append(q)
    return dict(id=name, context=context, questions=questions)


def haystacks(lex: Lexicon, tok: Tokenizer, count: int, low: int, high: int, name: str) -> list[dict]:
    """Documents of `low` to `high` tokens; lengths are drawn so that the range is evenly covered."""
    out: list[dict] = []
    while len(out) < count:
        sample: Sample = haystack(lex, lex.between(low, high))
        branches = [b for b in sample.branches if b.task in ("fact", "null")]
        if branches and low <= len(tok.encode(sample.context)) <= high:
            out.append(ask_record(f"{name}-{len(out)}", sample.context, branches[:16]))
    return out


def choices(lex: Lexicon, count: int) -> list[dict]:
    out = []
    for n in range(count):
        world = make_world(lex, lex.between(4, 30))
        context = write(lex, world, lex.choice((0.3, 1.0, 2.0)))
        facts = lex.rng.sample(world.facts, 4)
        out.append(ask_record(f"choice-{n}", context, [multiple_choice(lex, world, f) for f in facts]))
    return out


def extractions(lex: Lexicon, count: int) -> list[dict]:
    out = []
    for n in range(count):
        e = page(lex, lex.between(100, 600))
        values = {a: [v] if v is not None else [] for a, v in zip(e.attributes, e.values)}
        out.append(
            dict(
                id=f"extract-{n}",
                dataset="generated",
                category=e.category,
                text=e.context,
                attributes=e.attributes,
                values=values,
            )
        )
    return out


def _documents(lex: Lexicon, gold: list[str], total: int) -> list[dict]:
    """The gold sentences, each alone in its document, among `total` documents in random order."""
    texts = [(document_with(lex, [s], lex.between(80, 300)), True) for s in gold]
    texts += [(document_with(lex, [code_fact(lex)[2]], lex.between(80, 300)), False) for _ in range(total - len(gold))]
    lex.rng.shuffle(texts)
    return [dict(id=hashlib.sha256(t.encode()).hexdigest()[:16], title="", text=t, gold=g) for t, g in texts]


def codes(lex: Lexicon, count: int, total: int) -> list[dict]:
    out = []
    for n in range(count):
        _, code, sentence, question = code_fact(lex)
        out.append(
            dict(
                id=f"code-{n}",
                dataset="generated",
                question=question,
                answers=[code],
                documents=_documents(lex, [sentence], total),
            )
        )
    return out


def two_hops(lex: Lexicon, count: int, total: int) -> list[dict]:
    out = []
    for n in range(count):
        hop = two_hop(lex)
        documents = _documents(lex, [state(lex, hop.first), state(lex, hop.second)], total)
        out.append(
            dict(
                id=f"two-hop-{n}", dataset="generated", question=hop.question, answers=[hop.answer], documents=documents
            )
        )
    return out


def joined(records: list[dict]) -> list[dict]:
    """Multi-document records as `ask` records over their gold documents only: the score with the right documents."""
    return [
        dict(
            id=r["id"],
            context="\n\n".join(d["text"] for d in r["documents"] if d["gold"]),
            questions=[dict(id="q0", question=r["question"], answers=r["answers"])],
        )
        for r in records
    ]


def lines_of_code(seed: int, scale: float) -> list[dict]:
    """The set `code_lines`, which needs none of the others' words."""
    return code_lines.rows(random.Random(f"evaluation {seed} code lines"), max(1, round(48 * scale)), 6)


def make_sets(seed: int, scale: float) -> dict[str, list[dict]]:
    """All sets; `scale` multiplies their sizes. A pure function of its arguments."""
    tok, n = Tokenizer.load(TOKENIZER), lambda count: max(1, round(count * scale))
    lex = lambda name: Lexicon(random.Random(f"evaluation {seed} {name}"), HELD)
    code_16, hop_16 = codes(lex("code"), n(48), 16), two_hops(lex("hop"), n(48), 16)
    return {
        "haystack_1k": haystacks(lex("1k"), tok, n(80), 50, 1000, "hay1k"),
        "haystack_3k": haystacks(lex("3k"), tok, n(24), 2700, 3100, "hay3k"),
        "choice": choices(lex("choice"), n(60)),
        "extract": extractions(lex("extract"), n(60)),
        "code_16": code_16,
        "code": joined(code_16),
        "two_hop_16": hop_16,
        "two_hop_joined": joined(hop_16),
        "code_lines": lines_of_code(seed, scale),
    }


def make_samples(seed: int = 5) -> dict[str, list[dict]]:
    """A few short records of each task, for the demo and for tests: the files of `eval/samples`."""
    tok = Tokenizer.load(TOKENIZER)
    lex = lambda name: Lexicon(random.Random(f"sample {seed} {name}"), HELD)
    code_docs, hop_docs = codes(lex("code"), 2, 4), two_hops(lex("hop"), 2, 4)
    return {
        "haystack": haystacks(lex("haystack"), tok, 4, 120, 320, "haystack"),
        "choice": choices(lex("choice"), 2)[:2],
        "extract": extractions(lex("extract"), 4),
        "code": joined(code_docs),
        "two_hop": joined(hop_docs),
        "code_documents": code_docs,
        "two_hop_documents": hop_docs,
    }


def write_sets(folder: Path, sets: dict[str, list[dict]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in sets.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path("build/eval"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--samples", action="store_true", help="write the small committed samples instead")
    a = p.parse_args()
    sets = make_samples() if a.samples else make_sets(a.seed, a.scale)
    write_sets(a.out, sets)
    for name, rows in sets.items():
        print(
            f"{a.out}/{name}.jsonl  {len(rows)} records,"
            f" {sum(len(r.get('questions', r.get('attributes', [0]))) for r in rows)} answers"
        )


if __name__ == "__main__":
    main()
