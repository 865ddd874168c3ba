#!/usr/bin/env python3
"""One job on 1, 2, 4, 8, 16 … threads of the CPU backend: rows a second, speed-up, and where the time went.

  bench/threads.py                                  # build/release/banyan, powers of two up to the processors
  bench/threads.py --banyan build/base/banyan --threads 1,16 --runs 3 --jobs ask

Jobs: `ask` (the shipped model, documents with ten questions each), `few` (the same for one document at a time, so that
steps have few rows), `forest` (`banyan bench forest` at the SmolLM2-135M shape, random weights). Every run must give
the same answers (their hash; of `forest` the counts of tokens), or this ends with 1. The fastest of --runs counts; runs
of different thread counts alternate. "serial" is planning, choosing tokens, input and output: what the receipt has
beside the forward passes.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def documents(count: int) -> list[dict]:
    """The demo's document with its sentences in another order each time, so that documents share nothing but the
    instruction."""
    demo = json.loads((ROOT / "eval/samples/demo.jsonl").read_text(encoding="utf-8").splitlines()[0])
    sentences = [s.strip() for s in demo["context"].replace("\n\n", ". ").split(". ") if s.strip()]
    made = []
    for i in range(count):
        order = sentences[:]
        random.Random(i).shuffle(order)
        made.append({"id": i, "context": ". ".join(order) + ".", "questions": demo["questions"]})
    return made


def run(command: list[str]) -> float:
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"threads.py: {' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return time.monotonic() - start


def ask(args, threads: int, folder: pathlib.Path, more: list[str]) -> dict:
    receipt_file = folder / "receipt.json"
    run(
        [
            args.banyan,
            "ask",
            "-m",
            args.model,
            str(folder / "documents.jsonl"),
            "-o",
            str(folder / "out.jsonl"),
            "--overwrite",
            "--ordered",
            "--quiet",
            "--threads",
            str(threads),
            "--receipt",
            str(receipt_file),
            *more,
        ]
    )
    receipt = json.loads(receipt_file.read_text())
    seconds = receipt["seconds"]
    rows = sum(1 for _ in open(folder / "out.jsonl", encoding="utf-8"))
    total = seconds["total"]
    return {
        "seconds": total,
        "rows": rows,
        "answers": receipt["answers_hash"],
        "serial": total - seconds["forward"],
        "plan": seconds["plan"],
    }


def forest(args, threads: int, folder: pathlib.Path) -> dict:
    figures = folder / "figures.json"
    run(
        [
            args.banyan,
            "bench",
            "forest",
            "--shape",
            "smollm2-135m",
            "--documents",
            "2",
            "--questions",
            "8",
            "--lengths",
            "32,256,12",
            "--max-new",
            "16",
            "--strategies",
            "tree",
            "--threads",
            str(threads),
            "--json",
            str(figures),
            "--overwrite",
        ]
    )
    found = json.loads(figures.read_text())
    found = (found[0] if isinstance(found, list) else found)["strategies"][0]
    return {
        "seconds": found["seconds"],
        "rows": found["streams"],
        "serial": found["seconds"] - found["forward_seconds"],
        "plan": found["plan_seconds"],
        "answers": (found["prefilled_tokens"], found["generated_tokens"], found["steps"]),
    }


def table(name: str, results: dict[int, list[dict]]) -> bool:
    print(
        f"\n{name}\n{'threads':>8} {'seconds':>9} {'rows/s':>8} {'speed-up':>9} {'of linear':>10} {'serial s':>9}"
        f" {'plan s':>8}"
    )
    first = None
    for threads, runs in results.items():
        best = min(runs, key=lambda r: r["seconds"])
        first = first or (threads, best["seconds"])
        speed_up = first[1] / best["seconds"]
        linear = threads / first[0]
        print(
            f"{threads:>8} {best['seconds']:>9.3f} {best['rows'] / best['seconds']:>8.1f} {speed_up:>9.2f} "
            f"{100 * speed_up / linear:>8.0f} % {best['serial']:>9.3f} {best['plan']:>8.3f}"
        )
    answers = {r["answers"] for runs in results.values() for r in runs}
    print("answers: the same for all" if len(answers) == 1 else f"answers DIFFER: {answers}")
    return len(answers) == 1


def main() -> int:
    processors = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banyan", default=str(ROOT / "build/release/banyan"), help="the binary")
    parser.add_argument("--model", default=str(ROOT / "models/banyan-reader-34m.gguf"))
    parser.add_argument(
        "--threads", help="comma-separated (default: powers of two up to the processors, and all of them)"
    )
    parser.add_argument("--documents", type=int, default=48, help="of ask, ten questions each")
    parser.add_argument("--runs", type=int, default=2, help="of each; the fastest counts")
    parser.add_argument("--jobs", default="ask,few,forest", help="comma-separated")
    args = parser.parse_args()
    if args.threads:
        counts = [int(n) for n in args.threads.split(",")]
    else:
        counts = sorted({n for n in (1, 2, 4, 8, 16, 32, 64) if n <= processors} | {min(processors, 64)})
    few = max(1, args.documents // 16)
    jobs = {
        "ask": (
            args.documents,
            f"ask: {args.documents} documents, ten questions each",
            lambda threads, folder: ask(args, threads, folder, []),
        ),
        "few": (
            few,
            f"few: {few} documents, ten questions each, one stream at a time",
            lambda threads, folder: ask(args, threads, folder, ["--max-streams", "1"]),
        ),
        "forest": (
            0,
            "forest: SmolLM2-135M shape, 2 documents, 8 questions each, 16 new tokens",
            lambda threads, folder: forest(args, threads, folder),
        ),
    }
    wanted = args.jobs.split(",")
    if unknown := [name for name in wanted if name not in jobs]:
        parser.error(f"--jobs: expected {', '.join(jobs)}, found {', '.join(unknown)}")
    print(f"{processors} processors, {args.banyan}")
    same = True
    for name in wanted:
        count, title, job = jobs[name]
        results: dict[int, list[dict]] = {n: [] for n in counts}
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            with open(folder / "documents.jsonl", "w", encoding="utf-8") as file:
                for document in documents(count):
                    file.write(json.dumps(document, ensure_ascii=False) + "\n")
            for _ in range(args.runs):
                for threads in counts:
                    results[threads].append(job(threads, folder))
        same = table(title, results) and same
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
