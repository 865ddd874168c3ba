"""Extraction documents for `train.adapter`, as one file of texts for every vocabulary.

    python3 -m train.task_documents --data SHARED/train --exclude SHARED/data eval/samples --out documents.jsonl.xz
        [--scale 1.0] [--part 0 --parts 4] [--report FILE.json]

A row is a prompt and its slots as `banyan extract` lays them out (`train.extract_layout`): real labelled texts,
questions as attributes, everyday documents with typed fields in English, German and French, line items, currencies as
the page writes them, stacks, and documents that say nothing of the schema. Whatever shares a text or 13 words in a row
with a file under `--exclude` is left out. `--scale` is of the generated ones. Five kinds of everyday documents and one
in 25 texts of each labelled set are held out.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from train import extract_real
from train.everyday import HELD_KINDS
from train.extract_layout import Laid, Slot, lay, lay_items
from train.extract_mix import SIZES, chosen_kind, clean, foreign, fresh, real_stacks, stacks
from train.extract_records import Attribute, Record, everyday_record
from train.lexicon import HELD, TRAIN, Lexicon
from train.overlap import Excluded

CODES = {"$": "USD", "£": "GBP", "€": "EUR"}
_MONEY = re.compile(r"[$£€]|\b(?:USD|GBP|EUR|CHF|SEK|PLN|CAD|AUD|NOK|DKK)\b")


def with_currency(lex: Lexicon, r: Record) -> Record:
    """One more attribute: the currency of the amounts, as the page writes it or as one of some codes; null where the
    page has none. Records with several currencies stay as they are."""
    found = set(_MONEY.findall(r.text))
    plain = all(a.is_text and not a.description for a in r.attributes) and not r.about
    if len(found) > 1 or r.shots or plain or not any(a.type == "number" for a in r.attributes) or not lex.chance(0.3):
        return r
    if any("currency" in a.name.lower() for a in r.attributes):
        return r
    sign = next(iter(found), None)
    name = lex.choice(("currency", "Currency", "currency_code", "money_unit"))
    if lex.chance(0.4):
        codes = lex.rng.sample(sorted(CODES.values()), 3) if lex.chance(0.7) else ["EUR", "USD"]
        code = CODES.get(sign, sign)
        made, value = Attribute(name, "enum", "one of " + ", ".join(codes)), code if code in codes else None
    else:
        made, value = Attribute(name), sign
        if lex.chance(0.5):
            made.description = lex.choice(("currency of the amounts", "the currency as it is written", "money unit"))
    end = next((k for k, a in enumerate(r.attributes) if a.nested), len(r.attributes))
    at = lex.between(0, end)
    r.attributes, r.values = list(r.attributes), list(r.values)
    r.attributes.insert(at, made)
    r.values.insert(at, value)
    return r


def everyday(rng: random.Random, count: int, held: bool) -> list[Laid]:
    out, split = [], HELD if held else TRAIN
    for n in range(count):
        lex = Lexicon(rng, split)
        r = with_currency(lex, everyday_record(lex, chosen_kind(rng, held), f"everyday-{split}-{n}"))
        r.held = held
        out.append(lay(r))
        if r.items:
            more = lay_items(r)
            out += rng.sample(more, min(2, len(more)))
    return out


def documents(folder: Path, scale: float, seed: int, part: int = 0, parts: int = 1) -> list[Laid]:
    """A pure function of files, scale, seed and part: real texts are dealt out, generated ones have seeds of their
    own."""
    rng = random.Random(f"task documents {seed}")
    n = {name: max(1, round(size * scale / parts)) for name, size in SIZES.items()}
    labelled = extract_real.labelled_records(rng, folder, 4)
    questions = [r for r in extract_real.question_records(rng, folder) if rng.random() < 0.4]
    labelled, questions = labelled[part::parts], questions[part::parts]
    rng = random.Random(f"task documents {seed} {part}")
    laid = [lay(r) for r in labelled + questions + extract_real.natural_records(rng, n["natural"])]
    laid += everyday(rng, n["everyday"], False) + stacks(rng, n["stacks"], False)
    laid += real_stacks(rng, labelled, n["real_stacks"]) + foreign(rng, folder, n["foreign"])
    laid += everyday(rng, max(20, round(400 * scale / parts)), True)
    rng.shuffle(laid)
    return laid


def load(path: Path) -> list[Laid]:
    with lzma.open(path, "rt", encoding="utf-8") as f:
        return [Laid(**dict(r, slots=[Slot(*s) for s in r["slots"]])) for r in map(json.loads, f)]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--exclude", type=Path, nargs="+", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--report", type=Path)
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--part", type=int, default=0)
    p.add_argument("--parts", type=int, default=1, help="each part is a run and a file of its own")
    p.add_argument("--longest", type=int, default=6000, help="characters of a prompt")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    made = documents(a.data, a.scale, a.seed, a.part, a.parts)
    kept = [x for x in made if len(x.prompt) <= a.longest and clean(x, random.Random(1))]
    own = fresh(kept, Excluded(a.exclude))
    counts = Counter(("held " if x.held else "") + re.sub(r"/[^ ]+", "", x.source) for x in own)
    counts |= {"left out: too long or empty": len(made) - len(kept), "left out: measured": len(kept) - len(own)}
    with lzma.open(a.out, "wt", encoding="utf-8", preset=6) as f:
        for x in own:
            row = dict(asdict(x), slots=[[s.piece, s.value, s.after, s.type] for s in x.slots], text="")
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    report = dict(documents=dict(sorted(counts.items())), seed=a.seed, scale=a.scale, held_kinds=sorted(HELD_KINDS))
    if a.report:
        a.report.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    print(f"{a.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
