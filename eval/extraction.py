"""One fair table of extraction: strict F1, partial, labelled, null everywhere, values from nowhere, speed; per set and
way of writing.

    python3 -m eval.extraction -m MODEL [--adapter DIR] [--titles oa_mine.jsonl] [--out FOLDER] [-- --threads 2]

Sets: the everyday documents of `eval/samples` (frozen) and two sets to tune on; `--titles` adds OA-Mine's product
titles (only those of `is_test`), `--set DOCS.jsonl=SCHEMA.json` any other, `--foreign` the
documents of `eval/foreign.py`. Every set is written skeleton, isolated and sequential (`--values`), all documents in
one job; `--one-by-one N` runs the first N again with one under way at a time, checks that the values are the same, and
times them. Documents a second are the receipt's, without loading.

Scores are those of `banyan eval extract --unlabelled null`: a value for an attribute that the gold row does not name
counts against strict F1. `from nowhere`: values that stand in the text in no notation and are no boolean or enum value
(`eval/grounding.py`). FOLDER gets `table.md`, `table.json`, and the rows and receipts of every run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path

from eval import foreign
from eval.grounding import stands_in

SAMPLES = Path(__file__).parent / "samples"
MODES = ("skeleton", "isolated", "sequential")


def is_test(name: str) -> bool:
    """Half of OA-Mine's titles, by a hash of their ids, is for tests alone."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def write_titles(folder: Path, titles: list[dict]) -> None:
    """Documents and their schema: `titles.jsonl`, `titles-schema.json`."""
    categories = {t["category"]: dict(attributes=[dict(name=n) for n in t["attributes"]]) for t in titles}
    rows = "".join(json.dumps(t, ensure_ascii=False) + "\n" for t in titles)
    (folder / "titles.jsonl").write_text(rows, encoding="utf-8")
    schema = json.dumps(dict(categories=categories), ensure_ascii=False)
    (folder / "titles-schema.json").write_text(schema, encoding="utf-8")


class Set:
    """Documents with their right values, and their schema."""

    def __init__(self, docs: Path, schema: Path):
        self.name, self.docs, self.schema = docs.stem, docs, schema
        self.rows = read_rows(docs)
        read = json.loads(schema.read_text(encoding="utf-8"))
        self.categories = read.get("categories") or {"": read}

    def attributes(self, row: dict) -> list[dict]:
        only = next(iter(self.categories.values())) if len(self.categories) == 1 else None
        return (self.categories.get(row.get("category", "")) or only)["attributes"]

    def most_attributes(self) -> int:
        return max(len(c["attributes"]) for c in self.categories.values())


class Run:
    """One way to write the values."""

    def __init__(self, mode: str, adapter: str):
        self.mode, self.adapter = mode, adapter
        self.name = f"{mode}, {Path(adapter).name}" if adapter else mode

    @property
    def file(self) -> str:
        return self.name.replace(", ", "-").replace(" ", "-")


def read_rows(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def extract(a: argparse.Namespace, docs: Path, schema: Path, run: Run, output: Path, options: list[str] = []) -> dict:
    """The receipt; the rows are in `output`, the receipt beside it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    receipt = Path(f"{output}.receipt.json")
    command = [
        a.banyan,
        "extract",
        "-m",
        a.model,
        str(docs),
        "--schema",
        str(schema),
        "--values",
        run.mode,
        "-o",
        str(output),
        "--overwrite",
        "--quiet",
        "--receipt",
        str(receipt),
    ]
    done = subprocess.run([*command, "--adapter", run.adapter or "none", *a.options, *options])
    if done.returncode not in (0, 1):  # 1: some rows are errors, which the scores count
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
    return json.loads(receipt.read_text())


def scores(a: argparse.Namespace, given: Set, outputs: dict[str, Path]) -> list[dict]:
    command = [
        a.banyan,
        "eval",
        "extract",
        str(given.docs),
        "--schema",
        str(given.schema),
        "--unlabelled",
        "null",
        "--json",
    ]
    for name, output in outputs.items():
        command += ["--run", f"{name}={output}"]
    runs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]
    for run in runs:
        if a.price_per_hour and "documents_per_second" in run:
            run["cost_per_1000"] = a.price_per_hour / 3600 * 1000 / run["documents_per_second"]
    return runs


def from_nowhere(given: Set, rows: list[dict]) -> tuple[int, int]:
    """(values, those that neither stand in the text nor are allowed as they are)"""
    by_id, values, bad = {r["id"]: r for r in rows}, 0, 0
    for doc in given.rows:
        written = by_id.get(doc["id"], {}).get("values", {})
        for attribute in given.attributes(doc):
            value = written.get(attribute["name"])
            values += value is not None
            bad += not stands_in(value, doc["text"], attribute.get("type", "text"))
    return values, bad


def one_by_one(a: argparse.Namespace, given: Set, run: Run, output: Path, folder: Path) -> float:
    """Documents a second. Throws where a value differs from the job's: alone and together must be the same."""
    streams = 1 if run.mode == "sequential" else given.most_attributes()
    alone = folder / f"{run.file}-alone.jsonl"
    receipt = extract(
        a, given.docs, given.schema, run, alone, ["--limit", str(a.one_by_one), "--max-streams", str(streams)]
    )
    together = {r["id"]: r.get("values") for r in read_rows(output)}
    different = [r["id"] for r in read_rows(alone) if r.get("values") != together[r["id"]]]
    if different:
        raise SystemExit(f"{given.name}, {run.name}: other values alone than together: {different[:5]}")
    return receipt["rows_per_second"]


def interval(score: dict, name: str, value: float) -> str:
    low, high = score["intervals"][name]
    return f"{value:.3f} ({low:.2f} to {high:.2f})"


def line(name: str, row: dict) -> str:
    s, every = row["score"], row["score"]["all"]
    cells = [
        name,
        interval(s, "strict_f1", every["strict_f1"]),
        f"{every['strict_precision']:.3f}",
        f"{every['strict_recall']:.3f}",
        f"{every['partial_f1']:.3f}",
        f"{s['labelled']['f1']:.3f}",
        f"{every['f1']:.3f}",
        f"{every['accuracy']:.3f}",
        f"{row['from_nowhere']} of {row['values']}",
        f"{s['documents_per_second']:.3g}" if "documents_per_second" in s else "",
        f"{row['one_by_one']:.3g}" if "one_by_one" in row else "",
        f"{s['cost_per_1000']:.4g}" if "cost_per_1000" in s else "",
        f"{s['calibration']['expected_error']:.3f}" if "calibration" in s else "",
    ]
    return "| " + " | ".join(cells) + " |"


def set_table(given: Set, rows: dict[str, dict]) -> str:
    first = next(iter(rows.values()))["score"]
    null, labelled = first["all_null"], first["all_null_labelled"]
    named = [v for r in given.rows for v in r["values"].values()]
    lines = [
        (
            f"## {given.name}: {len(given.rows)} documents, {null['slots']} slots,"
            f" {sum(v not in (None, []) for v in named)} with a value"
        ),
        "",
        (
            "| values | strict F1 (95 %) | P | R | partial F1 | labelled F1 | F1 with nulls | accuracy | from nowhere |"
            " documents/s | one by one | cost of 1000 | calibration error |"
        ),
        "|" + "---|" * 13,
    ]
    lines += [line(name, row) for name, row in rows.items()]
    lines += [
        (
            f"| null everywhere | {null['strict_f1']:.3f} | {null['strict_precision']:.3f} |"
            f" {null['strict_recall']:.3f} | {null['partial_f1']:.3f} | {labelled['f1']:.3f} | {null['f1']:.3f} |"
            f" {null['accuracy']:.3f} | 0 of 0 | | | | |"
        ),
        "",
    ]
    kinds = sorted({t for row in rows.values() for t in row["score"]["types"]})
    lines += [
        "Correct of those with a value, and strict F1, by type:",
        "",
        "| type | " + " | ".join(rows) + " |",
        "|---|" + "---|" * len(rows),
    ]
    for kind in kinds:
        cells = []
        for row in rows.values():
            c = row["score"]["types"].get(kind)
            cells.append(
                f"{c['correct']} of {c['correct'] + c['incorrect'] + c['missing']}, {c['strict_f1']:.3f}" if c else ""
            )
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def foreign_table(a: argparse.Namespace, runs: list[Run], folder: Path) -> tuple[str, dict]:
    docs = foreign.documents(a.foreign, a.book)
    texts, schema = foreign.write(folder, docs)
    lines = [
        f"## foreign: {len(docs)} documents without any of the numbers and dates that are asked for",
        "",
        "| values | slots | null | in the text | invented | errors |",
        "|" + "---|" * 6,
    ]
    results = {}
    for run in runs:
        output = folder / f"{run.file}.jsonl"
        extract(a, texts, schema, run, output)
        r = results[run.name] = foreign.invented(docs, read_rows(output))
        lines.append(
            f"| {run.name} | {r['slots']} | {r['nulls']} | {r['in_the_text']} | {r['invented']} | {r['errors']} |"
        )
    return "\n".join(lines) + "\n", results


def sets_of(a: argparse.Namespace, folder: Path) -> list[Set]:
    sets = (
        []
        if a.no_everyday
        else [
            Set(SAMPLES / f"{n}.jsonl", SAMPLES / f"{n}-schema.json")
            for n in ("everyday", "everyday-dev", "everyday-dev2")
        ]
    )
    if a.titles:
        write_titles(folder, [t for t in read_rows(a.titles) if is_test(t["id"])])
        sets.append(Set(folder / "titles.jsonl", folder / "titles-schema.json"))
    return sets + [Set(*(Path(p) for p in given.split("="))) for given in a.sets]


def runs_of(a: argparse.Namespace) -> list[Run]:
    runs = []
    for mode in a.modes.split(","):
        if mode not in MODES:
            raise SystemExit(f"--modes: expected some of {','.join(MODES)}; found '{mode}'")
        adapter = (a.sequential if mode == "sequential" else a.skeleton) or a.adapter
        runs += [Run(mode, adapter)] + ([Run(mode, "")] if adapter and a.bare else [])
    return runs


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="", help="for every way of writing")
    p.add_argument("--sequential", default="", help="adapter for sequential values, instead of --adapter")
    p.add_argument("--skeleton", default="", help="adapter for skeleton and isolated values, instead of --adapter")
    p.add_argument("--bare", action="store_true", help="the model without adapters, too")
    p.add_argument("--modes", default=",".join(MODES), help="ways of writing, with commas between them")
    p.add_argument("--titles", type=Path, help="OA-Mine's product titles")
    p.add_argument("--set", dest="sets", action="append", default=[], help="DOCS.jsonl=SCHEMA.json")
    p.add_argument("--no-everyday", action="store_true", help="without the everyday documents")
    p.add_argument("--one-by-one", type=int, default=0, help="documents of each set to run one by one; 0: none")
    p.add_argument("--foreign", type=int, default=0, help="documents without the values asked for; 0: none")
    p.add_argument("--book", type=Path, help="passages of it are among these")
    p.add_argument("--price-per-hour", type=float, default=0.0, help="of this machine: adds the cost of 1000 documents")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--out", type=Path, help="folder for the tables, rows and receipts")
    p.add_argument("options", nargs="*", help="options for `banyan extract`, after --")
    return p.parse_args()


def main() -> None:
    a = options()
    tables, found = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = a.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        runs = runs_of(a)
        for given in sets_of(a, Path(scratch)):
            outputs, rows = {}, {}
            for run in runs:
                outputs[run.name] = output = folder / given.name / f"{run.file}.jsonl"
                extract(a, given.docs, given.schema, run, output)
                values, bad = from_nowhere(given, read_rows(output))
                rows[run.name] = dict(values=values, from_nowhere=bad)
                if a.one_by_one:
                    rows[run.name]["one_by_one"] = one_by_one(a, given, run, output, folder / given.name)
            for score in scores(a, given, outputs):
                rows[score["name"]]["score"] = score
            tables.append(set_table(given, rows))
            found[given.name] = rows
            print(tables[-1], flush=True)
        if a.foreign:
            text, found["foreign"] = foreign_table(a, runs, folder / "foreign")
            tables.append(text)
            print(text, flush=True)
        if a.out:
            (a.out / "table.md").write_text("\n".join(tables), encoding="utf-8")
            (a.out / "table.json").write_text(
                json.dumps(dict(model=Path(a.model).name, options=a.options, sets=found), indent=1, ensure_ascii=False),
                encoding="utf-8",
            )


if __name__ == "__main__":
    main()
