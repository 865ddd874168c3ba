"""What examples give: values of product titles with 0, 1, 3 and 5 examples of their category in the prompt.

    python3 -m eval.few_shot -m MODEL [--adapter DIR] --titles oa_mine.jsonl --examples oa_mine_train.jsonl.gz [--counts 0 1 3 5] [--limit 60]

Titles are taken evenly from the categories. Examples of a category are those with most values among 40 drawn by --seed, the same for all titles;
a text that is also a title is no example. Scores are those of `banyan eval extract`: attributes that a title's row does not name are not counted.
"""
from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import tempfile
from pathlib import Path

from train.extract_sets import write as write_set


def read_rows(path: Path) -> list[dict]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def evenly(titles: list[dict], limit: int) -> list[dict]:
    by_category: dict[str, list[dict]] = {}
    for t in titles:
        by_category.setdefault(t["category"], []).append(t)
    rounds = [group[n] for n in range(max(map(len, by_category.values()))) for group in by_category.values() if n < len(group)]
    return sorted(rounds[:limit], key=lambda t: t["category"])


def examples_of(rows: list[dict], titles: list[dict], count: int, seed: int) -> list[dict]:
    known, chosen = {t["text"] for t in titles}, []
    for category in sorted({t["category"] for t in titles}):
        group = [r for r in rows if r["category"] == category and r["text"] not in known]
        group = random.Random(f"{seed} {category}").sample(group, min(40, len(group)))
        group.sort(key=lambda r: -len(r["values"]))
        chosen += [{"category": category, "text": r["text"], "values": {k: v[0] if isinstance(v, list) else v for k, v in r["values"].items()}} for r in group[:count]]
    return chosen


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--titles", type=Path, required=True)
    p.add_argument("--examples", type=Path, required=True)
    p.add_argument("--counts", type=int, nargs="+", default=[0, 1, 3, 5])
    p.add_argument("--limit", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    titles, rows = evenly(read_rows(a.titles), a.limit), read_rows(a.examples)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_set(folder, "titles", titles, "schema")
        common = [folder / "titles.jsonl", "--schema", folder / "schema.json"]
        scoring = [a.banyan, "eval", "extract", *common]
        for count in a.counts:
            shown = folder / f"examples-{count}.jsonl"
            shown.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in examples_of(rows, titles, count, a.seed)), encoding="utf-8")
            command = [a.banyan, "extract", "-m", a.model, *common, "-o", folder / f"{count}.jsonl", "--overwrite", "--quiet"]
            command += ["--adapter", a.adapter] if a.adapter else []
            command += ["--examples", shown] if count else []
            done = subprocess.run(list(map(str, command)))
            if done.returncode not in (0, 1):
                raise SystemExit(f"{' '.join(map(str, command))}: exit status {done.returncode}")
            scoring += ["--run", f"{count} examples={folder / f'{count}.jsonl'}"]
        table = subprocess.run(list(map(str, scoring)), check=True, capture_output=True, text=True).stdout
        print(table.split("\n| against")[0] if "| against" in table else table)


if __name__ == "__main__":
    main()
