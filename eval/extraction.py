"""F1 and speed of extraction, sequential and with skeletons, without and with adapters, through `banyan extract` and `banyan eval`:

    python3 -m eval.extraction -m MODEL --set DOCS.jsonl=SCHEMA.json [--set …] [--sequential DIR] [--skeleton DIR] [--json FILE] [-- --threads 2]

Documents have their right `values`. F1 is given for the slots that these name, and with null as the right value of all others. Documents
a second are without loading, for the set as a whole; `one by one` with one document under way
at a time (`--max-streams`: its one answer, or its slots).
"""
from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path


def extract(a: argparse.Namespace, docs: str, schema: str, values: str, adapter: str, folder: str, options: list[str]) -> tuple[str, dict]:
    """(output file, receipt)"""
    target, receipt = f"{folder}/out.jsonl", Path(folder, "receipt.json")
    command = [a.banyan, "extract", "-m", a.model, docs, "--schema", schema, "--values", values, "-o", target, "--overwrite", "--quiet", "--receipt", str(receipt)]
    subprocess.run([*command, *(["--adapter", adapter] if adapter else []), *a.options, *options], check=True)
    return target, json.loads(receipt.read_text())


def score(a: argparse.Namespace, docs: str, output: str, unlabelled: str) -> dict:
    done = subprocess.run([a.banyan, "eval", "extract", docs, output, "--unlabelled", unlabelled, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["all"]


def rate(receipt: dict, documents: int) -> float:
    seconds = receipt["seconds"]
    return round(documents / (seconds["plan"] + seconds["forward"] + seconds["choose"]), 3)


def most_attributes(schema: str) -> int:
    read = json.loads(Path(schema).read_text())
    return max(len(c["attributes"]) for c in read.get("categories", {"": read}).values())


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--set", dest="sets", action="append", required=True)
    p.add_argument("--sequential", default="", help="adapter that was trained to write one value after another")
    p.add_argument("--skeleton", default="", help="adapter that was trained on skeletons")
    p.add_argument("--one-by-one", type=int, default=0, help="documents of each set to time one by one; 0: none")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    p.add_argument("--only", default="", help="only runs whose name contains this")
    p.add_argument("--keep", type=Path, help="folder for the rows")
    p.add_argument("options", nargs="*", help="options for `banyan extract`, after --")
    a = p.parse_args()
    runs = [("sequential", "sequential", ""), ("skeleton", "skeleton", "")]
    runs += [("sequential, tuned for it", "sequential", a.sequential)] if a.sequential else []
    runs += [("skeleton, tuned for it", "skeleton", a.skeleton), ("isolated, tuned for skeletons", "isolated", a.skeleton)] if a.skeleton else []
    runs = [r for r in runs if a.only in r[0]]
    table: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for given in a.sets:
            docs, schema = given.split("=")
            documents = sum(1 for _ in open(docs, encoding="utf-8"))
            for name, values, adapter in runs:
                output, receipt = extract(a, docs, schema, values, adapter, folder, [])
                row = dict(f1=score(a, docs, output, "skip"), f1_null=score(a, docs, output, "null"), documents_per_second=rate(receipt, documents), steps=receipt.get("steps"))
                if a.keep:
                    a.keep.mkdir(parents=True, exist_ok=True)
                    Path(output).rename(a.keep / f"{Path(docs).stem}-{name.replace(', ', '-').replace(' ', '-')}.jsonl")
                if a.one_by_one:
                    streams = 1 if values == "sequential" else most_attributes(schema)
                    few = ["--limit", str(a.one_by_one), "--max-streams", str(streams)]
                    row["one_by_one"] = rate(extract(a, docs, schema, values, adapter, folder, few)[1], min(a.one_by_one, documents))
                table.setdefault(Path(docs).stem, {})[name] = row
                print(f"| {Path(docs).stem} | {name} | {row['f1']['f1']:.3f} | {row['f1_null']['f1']:.3f} | {row['documents_per_second']} | {row.get('one_by_one', '')} |", flush=True)
                if a.json:
                    a.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
