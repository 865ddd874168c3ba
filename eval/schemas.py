"""How many of a category's attributes `banyan extract schema` proposes, and how many of its proposals are attributes of
the category.

    python3 -m eval.schemas -m MODEL [--adapter DIR] [--titles oa_mine.jsonl] [--categories Shoes,Tea] [--out FOLDER]
        [-- --threads 2]

Sets: the mails, invoices and adverts of `eval/samples/proposals.jsonl` (by hand), and `--titles`: OA-Mine's product
titles, a proposal per category from its first 20 titles. A row has `category`, `text`, `attributes` (the right ones)
and `values`.

An attribute is found
- by name: the proposal is called the same but for case, plural and British or American spelling;
  - by synonym: by name, or by the table SYNONYMS, or the category's own word for its type ("shoe type" is "product
  type");
  - by value: half or more of the documents that have a right value have it in the proposal (a text that shares 60 % of
  its words by F1), and half or more of the proposal's values are such.
A proposal is right if an attribute is found by it, by synonym or by value. `frequent`: attributes with a value in two
documents or more. FIXED is the trivial baseline: ten names that fit any product, whatever the documents say; its values
are unknown, so it is judged by synonym.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

SAMPLES = Path(__file__).parent / "samples" / "proposals.jsonl"
MOST_DOCUMENTS = 20
FIXED = ["brand", "model", "type", "colour", "size", "weight", "quantity", "material", "price", "flavour"]
SYNONYMS = [
    {"age", "age group", "age range"},
    {"model", "model name"},
    {"country", "country of origin"},
    {"form", "item form"},
    {"scent", "fragrance"},
    {"container", "container type", "package type", "packaging"},
    {"benefit", "health benefit"},
    {"product line", "sub brand"},
    {"diet", "dietary preference"},
    {"roast level", "roast type"},
    {"caffeine", "caffeine content"},
    {"net content", "quantity", "weight", "volume"},
    {"intended use", "specific use"},
    {"feature", "specialty"},
    {"closure", "closure type"},
    {"protection level", "spf"},
    {"water resistance", "waterproof"},
    {"firmness", "hardness"},
    {"certification", "certified grade"},
    {"pack size", "package quantity"},
    {"sender", "from"},
    {"recipient", "to"},
    {"date", "sent", "invoice date"},
    {"due date", "deadline"},
    {"customer", "bill to"},
    {"total", "total due", "amount", "price"},
    {"tax", "vat"},
    {"place", "location", "city"},
]


@dataclass
class Found:
    """Of one category: names of attributes, and of proposals."""

    attributes: list[str]
    frequent: list[str]
    proposed: list[str]
    by_name: set[str] = field(default_factory=set)
    by_synonym: set[str] = field(default_factory=set)
    by_value: set[str] = field(default_factory=set)
    right: set[str] = field(default_factory=set)

    def counts(self) -> dict:
        either, often = self.by_synonym | self.by_value, set(self.frequent)
        return dict(
            attributes=len(self.attributes),
            frequent=len(often),
            proposed=len(self.proposed),
            right=len(self.right),
            by_name=len(self.by_name),
            by_synonym=len(self.by_synonym),
            by_value=len(self.by_value),
            either=len(either),
            frequent_found=len(either & often),
        )


def normal(name: str) -> str:
    words = re.findall(r"\w+", name.lower())
    words = [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith(("ss", "us", "is")) else w for w in words]
    return " ".join({"color": "colour", "flavor": "flavour", "no": "number"}.get(w, w) for w in words)


def is_synonym(attribute: str, proposal: str, category: str) -> bool:
    a, p = normal(attribute), normal(proposal)
    if a == p or any(a in s and p in s for s in SYNONYMS):
        return True
    own = re.fullmatch(r"(.+) (type|variety)", a)
    return p in ("product type", "type") and bool(own) and own.group(1) in (*normal(category).split(), "supplement")


def shares_words(right: str, written: str) -> bool:
    a, b = re.findall(r"\w+", right.lower()), re.findall(r"\w+", written.lower())
    common = sum(min(a.count(w), b.count(w)) for w in set(a))
    return common > 0 and 2 * common / (len(a) + len(b)) >= 0.6


def as_list(value: object) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]


def agrees(gold: dict[str, object], values: dict[str, str]) -> bool:
    """By document: the right values, and the proposal's."""
    same = sum(any(shares_words(v, values[d]) for v in as_list(right)) for d, right in gold.items() if d in values)
    return same > 0 and 2 * same >= len(gold) and 2 * same >= len(values)


def judge(rows: list[dict], proposals: dict[str, dict[str, str]]) -> Found:
    """`proposals`: by name, the values by document."""
    gold: dict[str, dict] = {
        a: {r["id"]: r["values"][a] for r in rows if r["values"].get(a)} for a in rows[0]["attributes"]
    }
    found = Found(list(gold), [a for a, values in gold.items() if len(values) > 1], list(proposals))
    for attribute, right in gold.items():
        for name, values in proposals.items():
            synonym, value = is_synonym(attribute, name, rows[0]["category"]), agrees(right, values)
            if normal(attribute) == normal(name):
                found.by_name.add(attribute)
            if synonym:
                found.by_synonym.add(attribute)
            if value:
                found.by_value.add(attribute)
            if synonym or value:
                found.right.add(name)
    return found


def propose(a: argparse.Namespace, rows: list[dict], scratch: Path) -> dict:
    docs = scratch / "docs.jsonl"
    docs.write_text(
        "".join(json.dumps(dict(id=r["id"], text=r["text"]), ensure_ascii=False) + "\n" for r in rows), encoding="utf-8"
    )
    command = [
        a.banyan,
        "extract",
        "schema",
        "-m",
        a.model,
        str(docs),
        "--json",
        "--quiet",
        "--adapter", a.adapter or "none",
        *a.options,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and "no attribute has sure values" not in done.stderr:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if done.returncode == 0 else dict(attributes=[])


def ratio(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def line(name: str, c: dict) -> str:
    recalls = [f"{c[k]} ({ratio(c[k], c['attributes'])})" for k in ("by_name", "by_synonym", "by_value", "either")]
    return (
        f"| {name} | {c['attributes']} | {' | '.join(recalls)} | {c['frequent_found']} of {c['frequent']}"
        f" ({ratio(c['frequent_found'], c['frequent'])}) | {c['right']} of {c['proposed']}"
        f" ({ratio(c['right'], c['proposed'])}) |"
    )


def total(counts: list[dict]) -> dict:
    return {k: sum(c[k] for c in counts) for k in counts[0]}


HEADER = (
    "| category | attributes | by name | by synonym | by value | synonym or value | of the frequent | right"
    " proposals |\n" + "|---" * 8 + "|"
)


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument("--titles", type=Path, help="OA-Mine's product titles")
    p.add_argument("--no-samples", action="store_true", help="without the documents of eval/samples")
    p.add_argument("--categories", default="", help="only these, with commas between them")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--out", type=Path, help="folder for the table and the proposals")
    p.add_argument("options", nargs="*", help="options for `banyan extract schema`, after --")
    return p.parse_args()


def sets_of(a: argparse.Namespace) -> list[tuple[str, dict[str, list[dict]]]]:
    wanted = {c for c in a.categories.split(",") if c}
    sets = []
    for path in [*([] if a.no_samples else [SAMPLES]), *([a.titles] if a.titles else [])]:
        categories = defaultdict(list)
        for text in path.open(encoding="utf-8"):
            row = json.loads(text)
            if not wanted or row["category"] in wanted:
                categories[row["category"]].append(row)
        sets.append((path.stem, {c: rows[:MOST_DOCUMENTS] for c, rows in categories.items()}))
    return sets


def main() -> None:
    a = options()
    lines, proposals = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, categories in sets_of(a):
            lines += [f"## {name}", "", HEADER]
            counts, fixed = [], []
            for category, rows in categories.items():
                made = proposals[category] = propose(a, rows, Path(scratch))
                found = judge(
                    rows, {p["name"]: {v["document"]: v["value"] for v in p["values"]} for p in made["attributes"]}
                )
                counts.append(found.counts())
                fixed.append(judge(rows, {n: {} for n in FIXED}).counts())
                lines.append(line(category, counts[-1]))
                missed = [x for x in found.frequent if x not in found.by_synonym | found.by_value]
                print(
                    lines[-1],
                    f"\n  proposed: {', '.join(found.proposed)}\n  wrong:"
                    f" {', '.join(set(found.proposed) - found.right)}\n  missed: {', '.join(missed)}",
                    flush=True,
                )
            if counts:
                lines += [line("all", total(counts)), line(f"always {len(FIXED)} fixed names", total(fixed)), ""]
    text = "\n".join(lines)
    print("\n" + text)
    if a.out:
        a.out.mkdir(parents=True, exist_ok=True)
        (a.out / "schemas.md").write_text(text + "\n", encoding="utf-8")
        (a.out / "schemas.json").write_text(json.dumps(proposals, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
