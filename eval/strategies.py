"""Quality beside speed: the same questions by several strategies of `banyan ask`, and by SeqBatch.

    python3 -m eval.strategies FILE.jsonl -m MODEL [--adapter DIR] [--strategies flat,paged,stacked,auto] [--batch 4,8]
        [--lookup] [--repeat 3] [--price 0.1] [--json FILE] \
        [-- --threads 2]

FILE has rows of {"id","context","questions":[{"id","question","answers"}]}. The first strategy is what the others'
answers are compared with: `same` is the share of questions whose answers are equal, letter for letter. SeqBatch
(`eval.seqbatch`) puts several questions into one prompt: its answers are the model's own, with what comes of that.
--lookup adds prompt-lookup speculative decoding (`banyan bench draft`), which that command checks to give the answers
of the engine, bit for bit: its row has their scores and a rate of its own. Questions per second are the receipt's,
without loading; runs take turns, and the median counts, with the least and the most. `cost`: of 1000 questions at
--price for an hour of this machine. Intervals hold 95 % of 1000 draws of texts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from eval.reading import answers_of, intervals, judge, means
from eval.seqbatch import TOKENS_OF_AN_ANSWER, arguments, run, seqbatch, take_limit


def drafted(a: argparse.Namespace, records: list[dict], way: str) -> dict:
    """What `banyan bench draft` says of a way: "prompt lookup" or "plain steps". It fails where an answer is not the
    engine's, bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "figures.json")
        source.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        command = [
            a.banyan,
            "bench",
            "draft",
            str(source),
            "-m",
            a.model,
            "--json",
            str(target),
            "--adapter",
            a.adapter or "none",
            *a.options,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
        return next(w for w in json.loads(target.read_text())["ways"] if w["way"].endswith(way))


def compare(
    a: argparse.Namespace,
    records: list[dict],
    strategies: list[str],
    batches: list[int],
    repeat: int,
    lookup: bool = False,
) -> list[dict]:
    """A row for each way to ask. `a`: banyan, model, adapter, options, price, draws, max_new."""

    def by_strategy(name: str):
        written, receipt = run(a, records, ["--strategy", name, "--max-new", str(a.max_new), "--no-copy"])
        return answers_of(written), sum("error" in row for row in written), receipt

    ways = {name: lambda name=name: by_strategy(name) for name in strategies} | {
        f"SeqBatch, {n} in a prompt": lambda n=n: seqbatch(a, records, n) for n in batches
    }
    made: dict[str, list[tuple[dict, int, dict]]] = {}

    def by_lookup():
        figures = drafted(a, records, "prompt lookup")
        found, failed, _ = made[strategies[0]][0]
        return (
            found,
            failed,
            dict(
                seconds=dict(total=figures["seconds"]),
                prefilled_tokens=figures["rows"] - figures["tokens"],
                generated_tokens=figures["tokens"],
            ),
        )

    if lookup:
        ways["prompt lookup"] = by_lookup
    for _ in range(repeat):
        for name, way in ways.items():
            made.setdefault(name, []).append(way())
    count = sum(len(r["questions"]) for r in records)
    first = made[next(iter(made))][0][0]
    rows = []
    for name, runs in made.items():
        found, failed, receipt = runs[0]
        judged = judge(records, found)
        rates = [count / r["seconds"]["total"] for _, _, r in runs]
        rate = statistics.median(rates)
        rows.append(
            dict(
                means(judged),
                way=name,
                intervals=intervals(judged, a.draws),
                failed=failed,
                same=sum(found.get(k) == v for k, v in first.items()) / len(first),
                rates=rates,
                rate=rate,
                kv_mib=receipt.get("kv_bytes_peak", 0) / 2**20,
                computed=receipt["prefilled_tokens"],
                written=receipt["generated_tokens"],
                cost_of_1000=a.price / 3600 * 1000 / rate if a.price else None,
            )
        )
    return rows


def table(rows: list[dict]) -> str:
    lines = [
        "| way | exact | F1 | ROUGE-L | same | no answer | questions/s | tokens in | out | cost of 1000 |",
        "|---" * 10 + "|",
    ]
    for r in rows:
        cells = [
            f"{100 * r[k]:.1f} ({100 * r['intervals'][k][0]:.0f}–{100 * r['intervals'][k][1]:.0f})"
            for k in ("exact", "f1", "rouge_l")
        ]
        spread = f" ({min(r['rates']):.2f} to {max(r['rates']):.2f})" if len(r["rates"]) > 1 else ""
        cost = "–" if r["cost_of_1000"] is None else f"{r['cost_of_1000']:.4f}"
        lines.append(
            f"| {r['way']} | "
            + " | ".join(cells)
            + f" | {100 * r['same']:.0f} % | {r['failed']} | {r['rate']:.2f}{spread} | {r['computed']} | {r['written']}"
            f" | {cost} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=Path)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument("--strategies", default="flat,paged,stacked,auto")
    p.add_argument("--batch", default="4,8", help="SeqBatch: questions in a prompt; empty: none")
    p.add_argument("--lookup", action="store_true", help="speculative decoding by prompt lookup, too")
    p.add_argument("--limit", type=int, default=0, help="documents; 0: all")
    p.add_argument("--max-new", type=int, default=TOKENS_OF_AN_ANSWER, help="tokens of an answer")
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--price", type=float, default=0.0, help="of an hour of this machine, in any currency")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    a = arguments(p)
    a.max_new = take_limit(a.options) or a.max_new
    records = [json.loads(line) for line in a.file.open(encoding="utf-8")][: a.limit or None]
    rows = compare(a, records, a.strategies.split(","), [int(n) for n in a.batch.split(",") if n], a.repeat, a.lookup)
    print(table(rows))
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
