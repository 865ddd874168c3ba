"""The training set of the extraction adapter's second edition: real labelled texts, questions, everyday documents,
stacks → arrays of tokens.

    python3 -m train.extract_mix --data FOLDER --exclude FOLDER … --model MODEL.gguf --out FOLDER [--scale 1.0]

`--data` has the labelled sets and question files (`train.extract_real`), `--exclude` the evaluation files: a text that
is one of theirs, or shares 13 words in a row with one, is left out. OUT gets `extract-PART.npz` for
`train.skeleton_lora` and `mix-PART.json` with what is in them. Five kinds of everyday documents and a share of each
labelled set are held out.
"""

from __future__ import annotations

import argparse
import json
import random
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

from eval.banyan import Engine
from train import extract_real
from train.everyday import HELD_KINDS, kinds
from train.extract_layout import TOKENS, Laid, lay, lay_items, lay_stack
from train.extract_records import TYPES, UNLABELLED, Record, emptied, everyday_record, everyday_stack
from train.lexicon import HELD, TRAIN, Lexicon
from train.overlap import Excluded
from train.skeleton_data import value_marks, value_tokens

SIZES = dict(everyday=24000, stacks=5000, real_stacks=3000, natural=1600, foreign=900, titles=7)
ROOMS = (
    dict(TOKENS),
    {**TOKENS, "number": 24, "integer": 16, "date": 24, "boolean": 8},
    {**TOKENS, "number": 32, "integer": 32, "date": 32, "boolean": 8, "enum": 32},
    {**TOKENS, "number": 16, "integer": 16, "date": 16, "enum": 16, "list": 64, "items": 128},
)


def chosen_kind(rng: random.Random, held: bool):
    """English four times in five."""
    part = [k for k in kinds() if (k.name in HELD_KINDS) == held]
    lang = rng.choices(("en", "de", "fr"), (0.8, 0.1, 0.1))[0]
    return rng.choice([k for k in part if k.lang == lang])


def everyday(rng: random.Random, count: int, held: bool) -> list[Laid]:
    out, split = [], HELD if held else TRAIN
    while len(out) < count:
        r = everyday_record(Lexicon(rng, split), chosen_kind(rng, held), f"everyday-{split}-{len(out)}")
        r.held = held
        out.append(lay(r))
        if r.items:
            more = lay_items(r)
            out += rng.sample(more, min(2, len(more)))
    return out


def stacks(rng: random.Random, count: int, held: bool) -> list[Laid]:
    out, split = [], HELD if held else TRAIN
    for n in range(count):
        made = everyday_stack(
            Lexicon(rng, split), chosen_kind(rng, held), f"stack-{split}-{n}", rng.choice((2, 2, 3, 4, 4, 5, 6, 6))
        )
        for r in made:
            r.held = held
        out.append(lay_stack(made))
    return out


def real_stacks(rng: random.Random, records: list[Record], count: int) -> list[Laid]:
    """Short texts of one source with one list of attributes: titles of a category, addresses, restaurants."""
    groups: dict[tuple, list[Record]] = {}
    for r in records:
        if r.source in ("oa_mine_train", "us_addresses", "e2e_restaurants") and not r.held:
            groups.setdefault((r.source, r.category if r.source == "oa_mine_train" else ""), []).append(r)
    out, groups_left = [], [g for g in groups.values() if len(g) >= 12]
    for n in range(count):
        group = rng.choice(groups_left)
        first = rng.choice(group)
        names = [a.name for a in first.attributes]
        some = [first]
        for r in rng.sample(group, min(len(group), 400)):
            known = {a.name: v for a, v in zip(r.attributes, r.values)}
            if (
                len(some) < 6
                and len(set(names) & known.keys()) >= 0.7 * len(names)
                and r.text not in {s.text for s in some}
            ):
                some.append(
                    Record(
                        r.id,
                        r.source,
                        r.text,
                        first.attributes,
                        [known.get(x, UNLABELLED) for x in names],
                        first.category,
                    )
                )
        some = some[: rng.choice((2, 3, 4, 6))]
        if len(some) > 1:
            out.append(lay_stack(some))
    return out


def foreign(rng: random.Random, folder: Path, count: int) -> list[Laid]:
    """Empty documents, and texts about other things, with a schema of everyday documents: every value is null."""
    texts = [
        r["text"] if "text" in r else r["context"]
        for name in ("raw/us_gov_pages", "raw/onestopenglish", "raw/gum")
        for r in extract_real.read(folder, name)
    ]
    out = []
    for n in range(count):
        lex = Lexicon(rng, TRAIN)
        r = everyday_record(lex, chosen_kind(rng, False), "")
        words = rng.choice(texts).split()
        at = rng.randrange(max(1, len(words) - 60))
        text = (
            rng.choice(("", " ", "-", "n/a", "\n", "(no text)", "Lorem ipsum dolor sit amet."))
            if rng.random() < 0.3
            else " ".join(words[at : at + rng.randint(15, 160)])
        )
        keep = [
            k for k, a in enumerate(r.attributes) if a.type not in ("text", "list", "items") or not text.strip(" -")
        ] or None
        if keep is None:
            continue
        r.attributes, r.values = [r.attributes[k] for k in keep], [r.values[k] for k in keep]
        if any(a.nested for a in r.attributes):
            continue
        out.append(lay(emptied(r, text, f"foreign-{n}")))
    return out


def clean(laid: Laid, rng: random.Random) -> bool:
    return "<|" not in laid.text and "\ufffd" not in laid.text and any(s.value is not None for s in laid.slots)


def room_of(rng: random.Random) -> dict[str, int]:
    if rng.random() < 0.12:
        return dict.fromkeys(TOKENS, rng.choice((16, 24, 32, 48)))
    return rng.choice(ROOMS)


def encode(engine: Engine, laid: list[Laid], seed: int, sequential: float) -> tuple[dict[str, np.ndarray], Counter]:
    """Flat arrays as `train.skeleton_rows.Documents` reads them; a share of the rows is sequential and has an answer
    instead of slots' gaps."""
    rng = random.Random(seed)
    of_slot = lambda s: s.piece + " " + (s.value or "null") + s.after
    in_sequence = [rng.random() < sequential and not laid_one.source.endswith(("stack", "items")) for laid_one in laid]
    answers = [
        ("".join(s.piece + " " + (s.value or "null") for s in x.slots) + x.slots[-1].after) if seq else ""
        for x, seq in zip(laid, in_sequence)
    ]
    wanted = list(dict.fromkeys(t for x in laid for s in x.slots for t in (s.piece, of_slot(s)))) + [
        a for a in dict.fromkeys(answers) if a
    ]
    tokens = dict(zip(wanted, engine.tokenize(wanted)))
    prompts = engine.tokenize([x.prompt for x in laid])
    known = sorted({t for run in tokens.values() for t in run})
    texts = [""] * (known[-1] + 1)
    for t, text in zip(known, engine.detokenize([[t] for t in known])):
        texts[t] = text
    flat: dict[str, list] = {name: [] for name in ("prompt", "template", "value", "answer", "answer_label")}
    ends: dict[str, list] = {name: [0] for name in flat}
    position, kept, types, slots, train, form, source, counts = [], [], [], [0], [], [], [], Counter()
    sources: dict[str, int] = {}
    for x, prompt, seq, text in zip(laid, prompts, in_sequence, answers):
        made = slot_tokens(x, tokens, texts)
        if made is None:
            counts["no boundary"] += 1
            continue
        answer, marks = [], []
        if seq:
            answer = tokens[text]
            marks = value_marks(
                answer,
                [dict(text=s.piece) for s in x.slots],
                [s.value or "null" for s in x.slots],
                [s.value is not None for s in x.slots],
                texts,
            )
            if marks is None:
                answer, marks, seq = [], [], False
        for name, run in [
            ("prompt", prompt),
            *(("template", t) for t, _ in made),
            *(("value", v) for _, v in made),
            ("answer", answer),
            ("answer_label", marks),
        ]:
            flat[name] += run
            ends[name].append(len(flat[name]))
        room, at = room_of(rng), len(prompt)
        for (template, value), s in zip(made, x.slots):
            position.append(at)
            at += len(template) + max(room[s.type], len(value))
            kept.append(s.value is not None)
            types.append(TYPES.index(s.type))
        slots.append(len(position))
        train.append(not x.held)
        form.append(int(seq))
        source.append(sources.setdefault(x.source, len(sources)))
        name = x.source.split("/")[0].split(" ")[0] + (
            " stack" if x.source.endswith("stack") else " items" if x.source.endswith("items") else ""
        )
        counts[("held " if x.held else "") + name] += 1
        counts["tokens " + name] += len(prompt) + sum(len(t) + len(v) for t, v in made)
    out = {name: np.array(run, np.uint8 if name == "answer_label" else np.uint16) for name, run in flat.items()}
    out |= {name + "_end": np.array(run, np.int64) for name, run in ends.items() if name != "answer_label"}
    out |= dict(
        position=np.array(position, np.int32),
        kept=np.array(kept),
        slots=np.array(slots, np.int64),
        train=np.array(train),
        form=np.array(form, np.uint8),
        slot_type=np.array(types, np.uint8),
        source=np.array(source, np.int16),
        sources=np.frombuffer(json.dumps(list(sources)).encode(), np.uint8),
    )
    return out, counts


def slot_tokens(x: Laid, tokens: dict, texts: list[str]) -> list[tuple[list[int], list[int]]] | None:
    """(template, value) of every slot; None where a piece does not end between tokens."""
    out = []
    for s in x.slots:
        template, whole = tokens[s.piece], tokens[s.piece + " " + (s.value or "null") + s.after]
        if whole[: len(template)] != template:
            return None
        out.append((template, value_tokens(whole, len(template), len(s.after), texts)))
    return out


def fresh(laid: list[Laid], excluded: Excluded) -> list[Laid]:
    return [x for x in laid if x.text not in excluded]


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An npz that is packed as well as zip can."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as z:
        for name, x in arrays.items():
            with z.open(name + ".npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, np.ascontiguousarray(x))


def mixture(a: argparse.Namespace) -> list[Laid]:
    """Part `a.part` of `a.parts`: real texts are dealt out, generated ones are made by a seed of the part's own."""
    rng = random.Random(a.seed)
    n = {name: max(1, round(size * a.scale / a.parts)) if name != "titles" else size for name, size in SIZES.items()}
    labelled = extract_real.labelled_records(rng, a.data, n["titles"])
    if a.scale < 1:
        labelled = [r for r in labelled if rng.random() < a.scale]
    questions = [r for r in extract_real.question_records(rng, a.data) if rng.random() < 0.62 * a.scale]
    labelled, questions = labelled[a.part :: a.parts], questions[a.part :: a.parts]
    rng = random.Random(f"{a.seed} {a.part}")
    laid = [lay(r) for r in labelled + questions + extract_real.natural_records(rng, n["natural"])]
    laid += (
        everyday(rng, n["everyday"], False)
        + stacks(rng, n["stacks"], False)
        + real_stacks(rng, labelled, n["real_stacks"])
        + foreign(rng, a.data, n["foreign"])
    )
    laid += everyday(rng, max(20, round(420 * a.scale / a.parts)), True) + stacks(
        rng, max(6, round(70 * a.scale / a.parts)), True
    )
    rng.shuffle(laid)
    return laid


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--exclude", type=Path, nargs="+", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--part", type=int, default=0)
    p.add_argument("--parts", type=int, default=1, help="each part is a run and a file of its own")
    p.add_argument(
        "--sequential", type=float, default=0.12, help="share of the rows that are written one value after another"
    )
    p.add_argument("--longest", type=int, default=6000, help="characters of a prompt")
    p.add_argument("--seed", type=int, default=32)
    p.add_argument("--banyan", default="build/release/banyan")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(a.seed + 1)
    laid = mixture(a)
    excluded = Excluded(a.exclude)
    before = len(laid)
    kept = [x for x in laid if len(x.prompt) <= a.longest and clean(x, rng)]
    own = fresh(kept, excluded)
    engine = Engine(a.banyan, a.model)
    arrays, counts = encode(engine, own, a.seed + a.part, a.sequential)
    made = a.out / f"extract-{a.part}.npz"
    save(made, arrays)
    counts |= {"left out: too long or empty": before - len(kept), "left out: in the evaluation": len(kept) - len(own)}
    (a.out / f"mix-{a.part}.json").write_text(json.dumps(dict(sorted(counts.items())), indent=1))
    print(
        f"{made.name}: {len(arrays['train'])} rows, {len(arrays['position'])} slots,"
        f" {made.stat().st_size / 2**20:.1f} MiB"
    )


if __name__ == "__main__":
    main()
