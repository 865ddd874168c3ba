"""What the order of columns does to a table: tokens, rows a second, and the answers.

    python3 -m eval.column_order PROGRAM DATA… [--model MODEL] [--rows N] [--threads 2]

DATA are JSONL files: documents with questions ({"id","context","questions"}), or products with values ({"id","category",
"text","values"}). Each becomes a table with a row for every question or value, in an order drawn at random: a number
that never repeats, what the row is about, and the text. `banyan map` answers it in the given order, with --order auto,
and `banyan ask` answers the same texts as it would without tables. F1 is SQuAD's, with 95 % intervals by bootstrap over
documents; the difference of F1 is paired.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import Any, Iterator

from eval.metrics import interval, token_f1

COLUMNS = ("number", "about", "text")


def rows_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """A row for every question: what is asked, the gold answers, and the document that it belongs to."""
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "questions" in record:
            about = record["id"].rsplit("-", 1)[0]
            for question in record["questions"]:
                yield {"document": record["id"], "about": about, "text": record["context"], "question": question["question"],
                       "gold": question["answers"]}
        else:
            for attribute, values in record["values"].items():
                yield {"document": record["id"], "about": record["category"], "text": record["text"],
                       "question": f"What is the {attribute.lower()}?", "gold": values}


def table(path: pathlib.Path, count: int) -> list[dict[str, Any]]:
    rows = list(rows_of(path))
    random.Random(1).shuffle(rows)
    return [{"id": number, "number": f"A-{number:05}", **row} for number, row in enumerate(rows[:count])]


def run(arguments: list[str], folder: pathlib.Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and the receipt."""
    out, receipt = folder / "out.jsonl", folder / "receipt.json"
    subprocess.run([*arguments, "-o", str(out), "--overwrite", "--receipt", str(receipt), "--quiet"], check=True)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()], json.loads(receipt.read_text())


def mean_of(values: list[float], documents: list[str]) -> tuple[float, float, float]:
    """The mean, in percent, and the ends of its interval over documents."""
    groups: dict[str, list[float]] = {}
    for value, document in zip(values, documents):
        groups.setdefault(document, []).append(value)
    low, high = interval(list(groups.values())) or (0.0, 0.0)
    return 100 * sum(values) / len(values), 100 * low, 100 * high


def measure(program: str, path: pathlib.Path, options: argparse.Namespace) -> None:
    rows = table(path, options.rows)
    documents = [row["document"] for row in rows]
    common = ["--threads", str(options.threads), "--max-new", "24", *(["-m", options.model] if options.model else [])]
    print(f"{path.name}: {len(rows)} rows, {len(set(documents))} texts")
    scores: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "table.jsonl").write_text(
            "".join(json.dumps({key: row[key] for key in ("id", *COLUMNS, "question")}) + "\n" for row in rows))
        (folder / "ask.jsonl").write_text("".join(json.dumps({
            "id": row["id"], "context": "\n".join(f"{column}: {row[column]}" for column in COLUMNS),
            "question": row["question"]}) + "\n" for row in rows))
        mapped = [program, "map", str(folder / "table.jsonl"), "{question}", "--columns", ",".join(COLUMNS)]
        for title, arguments in (("ask", [program, "ask", str(folder / "ask.jsonl"), "--ordered"]),
                                 ("given", mapped), ("auto", [*mapped, "--order", "auto"])):
            answers, receipt = run([*arguments, *common], folder)
            scores[title] = [token_f1(answer["answer"] or "null", row["gold"]) for answer, row in zip(answers, rows)]
            mean, low, high = mean_of(scores[title], documents)
            seconds = receipt["seconds"]["total"]
            print(f"  {title:<6} {len(rows) / seconds:7.1f} rows/s   {receipt['prompt_tokens']:8} tokens, "
                  f"{receipt['prefilled_tokens']:8} computed   F1 {mean:.1f} ({low:.1f} to {high:.1f})")
    mean, low, high = mean_of([b - a for a, b in zip(scores["given"], scores["auto"])], documents)
    changed = sum(a != b for a, b in zip(scores["given"], scores["auto"]))
    print(f"  auto minus given: F1 {mean:+.1f} ({low:+.1f} to {high:+.1f}); {changed} rows score otherwise")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data", nargs="+", type=pathlib.Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for path in options.data:
        measure(options.program, path, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
