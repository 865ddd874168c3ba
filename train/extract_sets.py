"""Documents for the extraction recipe: generated product pages, and real product titles, split by document.

    python3 -m train.extract_sets --titles oa_mine.jsonl --out FOLDER [--pages 9000] [--variants 80]

FOLDER gets `train.jsonl` with `train-schema.json`, and the test sets `pages.jsonl`, `titles.jsonl` with their schemas.
Half of the titles, by a hash of their ids, is for the test alone. A training title is varied: values change places with
those that other training titles of the category have for the attribute, and attributes are left out of the schema or
change their order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from pathlib import Path

from train.lexicon import HELD, TRAIN, Lexicon
from train.products import page


def is_test(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def page_record(name: str, rng: random.Random, split: str) -> dict:
    made = page(Lexicon(rng, split), rng.choice((40, 80, 120, 200)))
    kept = list(dict(zip(made.attributes, made.values)).items())  # an attribute's two names may meet
    return dict(id=name, category=name, text=made.context, attributes=[n for n, _ in kept], values=dict(kept))


def vary(rng: random.Random, title: dict, others: list[dict], number: int) -> dict | None:
    """Another title of the kind. None when a value is no longer found in it."""
    text, values = title["text"], {}
    for name, (value, *_) in title["values"].items():
        pool = [o["values"][name][0] for o in others if name in o["values"]]
        new = rng.choice(pool) if pool and rng.random() < 0.5 else value
        if text.count(value) != 1:
            new = value
        text = text.replace(value, new) if new != value else text
        values[name] = new
    if any(v not in text for v in values.values()):
        return None
    names = list(title["attributes"])
    if rng.random() < 0.5:
        rng.shuffle(names)
    if rng.random() < 0.5:
        names = [n for n in names if rng.random() < 0.8] or names
    name = f"{title['id']}-{number}"
    return dict(id=name, category=name, text=text, attributes=names, values={n: values.get(n) for n in names})


def schema_of(records: list[dict]) -> dict:
    return dict(categories={r["category"]: dict(attributes=[dict(name=n) for n in r["attributes"]]) for r in records})


def write(folder: Path, name: str, records: list[dict], schema: str) -> None:
    (folder / f"{name}.jsonl").write_text(
        "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8"
    )
    (folder / f"{schema}.json").write_text(json.dumps(schema_of(records), ensure_ascii=False), encoding="utf-8")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--titles", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--pages", type=int, default=9000)
    p.add_argument("--test-pages", type=int, default=80)
    p.add_argument("--variants", type=int, default=80, help="of every training title")
    p.add_argument("--seed", type=int, default=5)
    a = p.parse_args()
    titles = [json.loads(line) for line in a.titles.open(encoding="utf-8")]
    known = [t for t in titles if not is_test(t["id"])]
    rng = random.Random(a.seed)
    train = [page_record(f"page-{n}", rng, TRAIN) for n in range(a.pages)]
    for t in known:
        others = [o for o in known if o["category"] == t["category"]]
        train += [v for v in (vary(rng, t, others, n) for n in range(a.variants)) if v]
    rng.shuffle(train)
    a.out.mkdir(parents=True, exist_ok=True)
    write(a.out, "train", train, "train-schema")
    rng = random.Random(a.seed + 1)
    write(a.out, "pages", [page_record(f"held-{n}", rng, HELD) for n in range(a.test_pages)], "pages-schema")
    write(a.out, "titles", [t for t in titles if is_test(t["id"])], "titles-schema")
    print(f"{len(train)} to train, {len(known)} of {len(titles)} titles in them")


if __name__ == "__main__":
    main()
