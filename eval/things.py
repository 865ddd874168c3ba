"""Several documents of one thing: fused values and fused tokens against one document, all documents as one text, and a
vote.

    python3 -m eval.things -m MODEL [--adapter DIR] [--set things] [--out FOLDER] [-- --threads 2]

The set is one of `eval/samples` (`things` is frozen, `things-dev` is for tuning). Runs:
- `values`, `tokens`: the records as they are, `--fuse values` and `--fuse tokens`;
- `concatenated`: the documents of a thing as one text, an empty line between them;
  - `vote`: every document alone; of each slot the value that most documents give, nulls aside; of equally many the
  first (lists united);
- `fullest document`: every document alone; of each thing the row with the most values, of equally full ones the first;
- `best document`: of each thing the row with the most right values: what no program can know.
Scores are those of `banyan eval extract`; null everywhere is its own row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"


def read_rows(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    return path


def extract(a: argparse.Namespace, docs: Path, output: Path, options: list[str] = []) -> list[dict]:
    command = [
        a.banyan,
        "extract",
        "-m",
        a.model,
        str(docs),
        "--schema",
        str(a.schema),
        "-o",
        str(output),
        "--overwrite",
        "--ordered",
        "--quiet",
    ]
    done = subprocess.run([*command, "--adapter", a.adapter or "none", *a.options, *options])
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
    return read_rows(output)


def plain(value) -> str:
    return " ".join(str(value).lower().split())


def vote(rows: list[dict]) -> dict:
    """The values of one thing from those of its documents."""
    values = {}
    for name in rows[0]["values"]:
        given = [r["values"][name] for r in rows if r["values"][name] is not None]
        if given and isinstance(given[0], list):
            values[name] = list({plain(item): item for items in given for item in items}.values())
            continue
        votes = [sum(plain(other) == plain(value) for other in given) for value in given]
        values[name] = given[votes.index(max(votes))] if given else None
    return values


def right(a: argparse.Namespace, folder: Path, record: dict, row: dict) -> float:
    """The share of the thing's slots that a row has right."""
    gold = write_rows(folder / "one-gold.jsonl", [dict(record, id=row["id"])])
    command = [
        a.banyan,
        "eval",
        "extract",
        str(gold),
        "--schema",
        str(a.schema),
        "--bootstrap",
        "0",
        "--json",
        "--run",
        f"row={write_rows(folder / 'one-row.jsonl', [row])}",
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"][0]["all"][
        "accuracy"
    ]


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument("--set", dest="name", default="things", help="things or things-dev")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--out", type=Path, help="folder for rows and the table")
    p.add_argument("options", nargs="*", help="options for `banyan extract`, after --")
    return p.parse_args()


def main() -> None:
    a = options()
    gold, a.schema = SAMPLES / f"{a.name}.jsonl", SAMPLES / f"{a.name}-schema.json"
    things = read_rows(gold)
    with tempfile.TemporaryDirectory() as scratch:
        folder = a.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        inputs = [{k: v for k, v in t.items() if k != "values"} for t in things]  # no right values in what is read
        records = write_rows(folder / "records.jsonl", inputs)
        outputs = {}
        for fuse in ("values", "tokens"):
            outputs[fuse] = folder / f"{fuse}.jsonl"
            extract(a, records, outputs[fuse], ["--fuse", fuse])
        joined = [
            {"id": t["id"], "category": t["category"], "text": "\n\n".join(d["text"] for d in t["documents"])}
            for t in things
        ]
        outputs["concatenated"] = folder / "concatenated.jsonl"
        extract(a, write_rows(folder / "joined.jsonl", joined), outputs["concatenated"])
        alone = [
            {"id": f"{t['id']}/{d['id']}", "category": t["category"], "text": d["text"]}
            for t in things
            for d in t["documents"]
        ]
        rows = {r["id"]: r for r in extract(a, write_rows(folder / "single.jsonl", alone), folder / "alone.jsonl")}
        chosen: dict[str, list[dict]] = {"vote": [], "fullest document": [], "best document": []}
        for t in things:
            own = [rows[f"{t['id']}/{d['id']}"] for d in t["documents"]]
            filled = max(own, key=lambda r: sum(v is not None for v in r["values"].values()))
            best = max(own, key=lambda r: right(a, folder, t, r))
            for name, values in (
                ("vote", vote(own)),
                ("fullest document", filled["values"]),
                ("best document", best["values"]),
            ):
                chosen[name].append({"id": t["id"], "category": t["category"], "values": values})
        for name, picked in chosen.items():
            outputs[name] = write_rows(folder / f"{name.replace(' ', '-')}.jsonl", picked)
        command = [a.banyan, "eval", "extract", str(gold), "--schema", str(a.schema)]
        for name, output in outputs.items():
            command += ["--run", f"{name}={output}"]
        table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(table[: table.find("\n\nvalues: calibration") if "\n\nvalues: calibration" in table else None])
        if a.out:
            (a.out / "table.md").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
