"""Whether probabilities of `banyan filter` are right as often as they say, and what `rank --pairwise` adds to scores.

    python3 -m eval.table_quality PROGRAM DATA --model MODEL [--rows 300] [--ranked 60] [-- OPTIONS OF BANYAN]

DATA is a JSONL file of products ({"category","text"}). The filter asks of a product and a kind drawn for it, of which half
are its own, whether the product is of that kind. Half of the rows are labelled (--label); the others are scored: expected
calibration error in ten bins, of the model's own probability, of the calibrated one, and of the trivial one that always says
the share of true rows. The ranking orders products by one kind: the share of pairs of a product of the kind and another one
that stand in the right order (0.5 for any drawn order), by score and by comparisons. 95 % intervals are by bootstrap over rows.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import Any, Callable, Sequence

Row = dict[str, Any]


def interval(rows: Sequence[Any], value: Callable[[Sequence[Any]], float]) -> str:
    """A value of rows with its bootstrap interval."""
    draw = random.Random(1)
    found = sorted(value([draw.choice(rows) for _ in rows]) for _ in range(1000))
    return f"{value(rows):.3f} ({found[24]:.3f} to {found[974]:.3f})"


def calibration_error(said: Sequence[tuple[float, bool]]) -> float:
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(10)]
    for probability, true in said:
        bins[min(9, int(10 * probability))].append((probability, true))
    return sum(abs(sum(p for p, _ in one) - sum(true for _, true in one)) for one in bins) / len(said)


def in_order(ranked: Sequence[tuple[int, bool]]) -> float:
    """`ranked`: (place, true)."""
    yes = [place for place, true in ranked if true]
    no = [place for place, true in ranked if not true]
    pairs = [(a < b) + (a == b) / 2 for a in yes for b in no]
    return sum(pairs) / len(pairs) if pairs else 0.5


def run(options: argparse.Namespace, folder: pathlib.Path, rows: list[Row], operator: str, *arguments: str) -> tuple[list[Row], Row]:
    for left in folder.glob("*"):
        left.unlink()
    table, out, receipt = folder / "in.jsonl", folder / "out.jsonl", folder / "receipt.json"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    subprocess.run([options.program, operator, str(table), *arguments, "-m", options.model, "-o", str(out), "--receipt",
                    str(receipt), "--quiet", *options.ours], check=True)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()], json.loads(receipt.read_text())


def filtered(options: argparse.Namespace, folder: pathlib.Path, products: list[Row]) -> None:
    draw = random.Random(2)
    kinds = sorted({row["category"] for row in products})
    rows = []
    for number in range(options.rows):
        product = products[number % len(products)]
        own = draw.random() < 0.5
        kind = product["category"] if own else draw.choice([kind for kind in kinds if kind != product["category"]])
        rows.append({"id": number, "product": product["text"], "kind": kind.lower(), "truth": own,
                     "label": own if draw.random() < 0.5 else None})
    found, receipt = run(options, folder, rows, "filter", "--columns", "product", "The product is of the kind {kind}.",
                         "--label", "label", "--all")
    held_out = [row for row in found if row["label"] is None]
    share = sum(row["truth"] for row in found if row["label"] is not None) / sum(row["label"] is not None for row in found)
    print(f"filter: {len(found)} rows, {len(held_out)} of them scored; {receipt['probabilities_calibrated']}")
    for name, of in (("model's own", lambda row: row["probability"]), ("calibrated", lambda row: row["calibrated"]),
                     ("always the share", lambda row: share)):
        said = [(of(row), row["truth"]) for row in held_out]
        right = [((p >= 0.5), true) for p, true in said]
        print(f"  {name:<17} calibration error {interval(said, calibration_error)}   right at 0.5 "
              f"{interval(right, lambda rows: sum(a == b for a, b in rows) / len(rows))}")


def ranked(options: argparse.Namespace, folder: pathlib.Path, products: list[Row]) -> None:
    rows = [{"id": number, "product": row["text"], "truth": row["category"] == options.category}
            for number, row in enumerate(products[: options.ranked])]
    statement = f"The product is of the kind {options.category.lower()}."
    print(f"rank: {len(rows)} rows, {sum(row['truth'] for row in rows)} of the kind; a drawn order: 0.5")
    for name, more in (("by score", []), ("--pairwise", ["--pairwise"])):
        found, receipt = run(options, folder, rows, "rank", "--columns", "product", statement, *more)
        cost = f"   {receipt['prefilled_tokens']} tokens computed, {receipt['seconds']['total']:.0f} s"
        if more:
            pairs = receipt["comparisons"]
            cost += (f", {pairs['pairs']} pairs in {pairs['rounds']} rounds, the same winner in both orders in "
                     f"{pairs['same_winner_in_both_orders']}")
        print(f"  {name:<11} in order {interval([(row['rank'], row['truth']) for row in found], in_order)}{cost}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--ranked", type=int, default=60)
    parser.add_argument("--category", default="Coffee")
    arguments = sys.argv[1:]
    ours = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    options = parser.parse_args(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    options.ours = ours
    products = [json.loads(line) for line in options.data.read_text(encoding="utf-8").splitlines()]
    random.Random(3).shuffle(products)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        filtered(options, folder, products)
        ranked(options, folder, products)
    return 0


if __name__ == "__main__":
    sys.exit(main())
