"""Documents that have none of the values that are asked for: every number and date that is written for one is invented.

    python3 -m eval.foreign -m MODEL [--adapter DIR] [--book BOOK.txt.gz] [--documents 1000] [--json FILE] [-- --threads
        2]
    python3 -m eval.foreign --write FOLDER

The documents are empty, punctuation, placeholders, lorem ipsum, verses, gossip, news, letters in three languages and
fragments of code, all without a number, a number word or a date; with `--book`, two of five are passages of it that
have none either. The attributes are numbers, integers and dates. A value counts as invented when it is not null and
does not stand in the text in any notation (`eval/grounding.py`). `--write` only writes `foreign.jsonl` and
`foreign-schema.json`. The exit status is 1 when a value was invented.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from eval.grounding import numbers, stands_in

SCHEMA = {
    "attributes": [
        {"name": "price", "type": "number", "unit": "EUR"},
        {"name": "weight", "type": "number", "unit": "g", "description": "of the whole thing"},
        {"name": "temperature", "type": "number", "unit": "°C"},
        {"name": "quantity", "type": "integer"},
        {"name": "year", "type": "integer"},
        {"name": "discount", "type": "number"},
        {"name": "date", "type": "date"},
        {"name": "date of birth", "type": "date", "description": "of the customer"},
    ]
}

_BLANK = [
    "",
    " ",
    "\n\n",
    ".",
    "...",
    "-",
    "—",
    "?!",
    "* * *",
    "( )",
    "~~~~~~",
    "/ / /",
    "____________",
    "\t\t",
    "…",
    "[ ]",
    "😀",
    "🌧️🌧️",
    "n/a",
    "TBD",
    "to be announced",
    "see attachment",
    "(empty)",
    "lorem",
    "xxx",
    "none",
    "nil",
    "unknown",
    "siehe Anlage",
    "néant",
    "(this page intentionally left blank)",
    "Loading …",
    "<html><body></body></html>",
    "{}",
    "[]",
    "null",
    "N.N.",
    "No content",
    "Kein Text",
    "Page introuvable",
]
_LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna"
    " aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat duis"
    " aute irure in reprehenderit voluptate velit esse cillum fugiat nulla pariatur"
).split()
_WHO = [
    "the ferryman",
    "our neighbour",
    "the mayor",
    "my aunt",
    "the old gardener",
    "the postman",
    "the choir",
    "the baker",
    "her teacher",
    "the night watchman",
    "a stray dog",
    "the committee",
    "the pianist",
    "the lighthouse keeper",
]
_DID = [
    "waved at",
    "argued with",
    "forgot about",
    "was looking for",
    "wrote to",
    "laughed at",
    "painted",
    "complained about",
    "waited for",
    "dreamed of",
    "walked past",
    "could not stand",
    "spoke softly of",
]
_WHAT = [
    "the river",
    "the empty station",
    "the new curtains",
    "his brother",
    "the broken gate",
    "the smell of rain",
    "the orchard",
    "the lost letter",
    "the market",
    "an umbrella",
    "the mountains",
    "the long winter",
    "their secret",
]
_THEN = [
    "and nobody knew why",
    "as the evening fell",
    "before the storm broke",
    "while the kettle sang",
    "without saying a word",
    "and went home early",
    "to everyone's surprise",
    "because the road was wet",
    "and that was that",
]
_VERSE = [
    "O gentle wind, come back to me",
    "the sea is grey, the sea is wide",
    "and silver is the willow tree",
    "I left my sorrow with the tide",
    "the swallows circle round the tower",
    "my lantern burns, the night is deep",
    "a rose is but a passing flower",
    "and all the valleys are asleep",
    "sing low, sing low, the harvest moon",
    "the miller's daughter combs her hair",
]
_NEWS = [
    "The council has postponed its decision on the bridge.",
    "Farmers hope for rain after a dry spring.",
    "The museum will reopen after long repairs.",
    "Residents complain about noise near the harbour.",
    "Scientists found traces of an unknown moss.",
    "The minister denied the rumours.",
    "The price of grain fell sharply, traders said.",
    "The temperature is expected to rise towards the weekend.",
    "A fire in the old mill was put out quickly; nobody was hurt.",
    "The weight of the new bell is still a secret.",
    "Several dates are being discussed for the festival.",
    "Fans celebrated in the streets until late.",
    "The discount campaign was a failure, the shop admits.",
    "Tickets are sold out.",
]
_GERMAN = [
    "Der Garten liegt still hinter dem Haus.",
    "Meine Schwester kommt wohl morgen zurück.",
    "Über den Preis reden wir später.",
    "Das Wetter war trüb, aber freundlich.",
    "Bitte bringen Sie gute Laune mit.",
    "Das Gewicht des Koffers kenne ich nicht.",
    "Wir freuen uns auf Ihren Besuch.",
    "Die Katze schläft am Ofen.",
    "Der Termin wird noch bekannt gegeben.",
]
_FRENCH = [
    "Le chat dort près de la fenêtre.",
    "Merci de votre patience.",
    "Nous parlerons du prix plus tard.",
    "La mer était calme et grise.",
    "Le poids du colis reste inconnu.",
    "Elle chante en cuisinant.",
    "Les dates seront annoncées bientôt.",
    "Il fait doux ce soir.",
]
_CODE = [
    "for item in items:\n    print(item.name)",
    "SELECT name FROM people WHERE town = 'Cork';",
    '<p class="price"></p>',
    "if (!ready) return;",
    '{"price": null, "weight": null}',
    "name;price;weight\n;;",
    "| price | weight |\n|---|---|\n| | |",
    "Price:\nWeight:\nDate:\n",
    "Quantity: ____  Year: ____",
    "Date of birth: (please fill in)",
]


def _sentences(rng: random.Random, pool: list[str], least: int, most: int, joint: str = " ") -> str:
    return joint.join(rng.sample(pool, rng.randint(least, min(most, len(pool)))))


def _gossip(rng: random.Random) -> str:
    made = [
        f"{rng.choice(_WHO)} {rng.choice(_DID)} {rng.choice(_WHAT)} {rng.choice(_THEN)}."
        for _ in range(rng.randint(1, 5))
    ]
    return " ".join(s[0].upper() + s[1:] for s in made)


def _made(rng: random.Random) -> str:
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice(_BLANK)
    if kind == 1:
        return " ".join(rng.choice(_LOREM) for _ in range(rng.randint(3, 60))).capitalize() + "."
    if kind == 2:
        return _sentences(rng, _VERSE, 2, 6, ",\n")
    if kind == 3:
        return _sentences(rng, _NEWS, 1, 5)
    if kind == 4:
        return _sentences(rng, rng.choice((_GERMAN, _FRENCH)), 1, 5)
    if kind == 5:
        return rng.choice(_CODE)
    return _gossip(rng)


def passages(book: Path) -> list[str]:
    """Paragraphs of 8 to 120 words without a number."""
    raw = gzip.open(book, "rt", encoding="utf-8").read() if book.suffix == ".gz" else book.read_text(encoding="utf-8")
    found = []
    for paragraph in re.split(r"\n\s*\n", raw):
        text = " ".join(paragraph.split())
        if 8 <= len(text.split()) <= 120 and not numbers(text):
            found.append(text)
    return found


def documents(count: int, book: Path | None = None, seed: int = 32) -> list[dict]:
    """The same for the same arguments."""
    rng = random.Random(seed)
    read = passages(book) if book else []
    texts = [rng.choice(read) if read and i % 5 < 2 else _made(rng) for i in range(count)]
    return [dict(id=f"foreign-{i:04d}", text=text) for i, text in enumerate(texts)]


def invented(docs: list[dict], rows: list[dict], schema: dict = SCHEMA) -> dict:
    """Counts, and the values that were invented. A row is missing where there is none at all: errors are rows."""
    kinds = {a["name"]: a.get("type", "text") for a in schema["attributes"]}
    by_id = {r["id"]: r for r in rows}
    result: dict = dict(
        documents=len(docs), without_row=0, errors=0, slots=0, nulls=0, in_the_text=0, invented=0, examples=[]
    )
    for doc in docs:
        row = by_id.get(doc["id"])
        if row is None or "error" in row:
            result["without_row" if row is None else "errors"] += 1
            continue
        for name, kind in kinds.items():
            value = row["values"].get(name)
            result["slots"] += 1
            if value is None:
                result["nulls"] += 1
            elif stands_in(value, doc["text"], kind, [1.0]):
                result["in_the_text"] += 1
            else:
                result["invented"] += 1
                if len(result["examples"]) < 20:
                    result["examples"].append(dict(id=doc["id"], attribute=name, value=value, text=doc["text"][:80]))
    return result


def write(folder: Path, docs: list[dict]) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    texts, schema = folder / "foreign.jsonl", folder / "foreign-schema.json"
    texts.write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in docs), encoding="utf-8")
    schema.write_text(json.dumps(SCHEMA, ensure_ascii=False), encoding="utf-8")
    return texts, schema


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model")
    p.add_argument("--adapter", default="")
    p.add_argument("--book", type=Path, help="text, may be gzip: passages of it are documents, too")
    p.add_argument("--documents", type=int, default=1000)
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path, help="write the counts to this file")
    p.add_argument("--write", type=Path, help="only write documents and schema to this folder")
    p.add_argument("options", nargs="*", help="options for `banyan extract`, after --")
    a = p.parse_args()
    docs = documents(a.documents, a.book)
    if a.write:
        print(*write(a.write, docs))
        return 0
    if not a.model:
        p.error("-m is needed, or --write")
    with tempfile.TemporaryDirectory() as folder:
        texts, schema = write(Path(folder), docs)
        output = Path(folder, "values.jsonl")
        command = [
            a.banyan,
            "extract",
            "-m",
            a.model,
            str(texts),
            "--schema",
            str(schema),
            "-o",
            str(output),
            "--overwrite",
            "--quiet",
        ]
        done = subprocess.run([*command, "--adapter", a.adapter or "none", *a.options])
        if done.returncode not in (0, 1):  # 1: some rows are errors
            return done.returncode
        result = invented(docs, [json.loads(line) for line in output.open(encoding="utf-8")])
    for example in result["examples"]:
        print(f"invented: {json.dumps(example, ensure_ascii=False)}", file=sys.stderr)
    print("| documents | errors | slots | null | in the text | invented |\n|---|---|---|---|---|---|")
    print(
        f"| {result['documents']} | {result['errors']} | {result['slots']} | {result['nulls']} |"
        f" {result['in_the_text']} | {result['invented']} |"
    )
    if a.json:
        a.json.write_text(json.dumps(result, ensure_ascii=False, indent=1))
    return 1 if result["invented"] or result["without_row"] else 0


if __name__ == "__main__":
    sys.exit(main())
