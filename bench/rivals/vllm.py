#!/usr/bin/env python3
"""Banyan and vLLM on one GPU in one run: the four jobs and the decode rates, one table with ratios.

  bench/rivals/vllm.py --banyan build/cuda/banyan                        # the Qwen3-8B shape, 8 jobs, about 6 minutes
  bench/rivals/vllm.py --shape qwen3-30b-a3b --jobs "shared --streams 1,32,256 --prefix 2048" \\
      --ours 'bf16=' --ours '8 bits=--weights q8_0 --keep-weights compact'

--ours NAME=OPTIONS and --theirs NAME=JSON (options of vllm.LLM) may come several times; a column each. Several settings
of vLLM with one NAME are a sweep: the best of them counts, job by job. The last column is our best over vLLM's best.
Both sides get the same token counts, fixed answer lengths and an empty cache at the start of a run. Of --repeat runs,
the median counts for Banyan and the fastest for vLLM. Needs vLLM in this Python (or --python with it).
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

JOBS = [
    "squad2",
    "narrativeqa",
    "race",
    "longhealth",
    "shared --streams 1,32,256 --prefix 2048",
    "shared --streams 256 --prefix 16384",
]
OURS = ["bf16=--precision mixed"]
THEIRS = [
    "bf16={}",
    'bf16={"max_num_batched_tokens": 16384, "max_num_seqs": 1024}',
    'fp8={"quantization": "fp8"}',
    'fp8={"quantization": "fp8", "max_num_batched_tokens": 16384, "max_num_seqs": 1024}',
]


def fail(message: str):
    sys.exit(f"vllm.py: {message}")


def is_decode(job: dict) -> bool:
    return len(job["branches"]) == 2


def our_rate(job: dict) -> float:
    return job["strategies"][0]["decode_tokens_per_second" if is_decode(job) else "questions_per_second"]


def run_ours(args, options: str) -> list[dict]:
    cells = []
    for job in args.jobs:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "figures.json"
            command = [
                args.banyan,
                "bench",
                *shlex.split(job),
                "--device",
                args.device,
                "--shape",
                args.shape,
                "--random",
                "--strategies",
                "auto",
                "--repeat",
                str(args.repeat),
                *shlex.split(options),
                "--json",
                str(file),
            ]
            if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
                fail(f"this command failed: {shlex.join(command)}")
            found = json.loads(file.read_text())
        cells += found if isinstance(found, list) else [found]
    return cells


def run_theirs(args, jobs: list[dict], options: dict) -> tuple[dict, list[float | None]]:
    """vLLM's versions, and a rate per job: None where it did not come to an end."""
    with tempfile.TemporaryDirectory() as folder:
        figures = pathlib.Path(folder) / "jobs.json"
        figures.write_text(json.dumps(jobs))
        command = [
            args.python,
            str(pathlib.Path(__file__).with_name("vllm_job.py")),
            str(figures),
            "--shape",
            args.shape,
            "--llm",
            json.dumps(options),
            "--repeat",
            str(args.repeat),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    versions, rates = {}, [None] * len(jobs)
    for line in done.stdout.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue  # vLLM's own words
        if "rate" in found:
            rates[found["job"]] = found["rate"]
        elif "vllm" in found:
            versions = found
    if done.returncode != 0:
        print(f"vllm.py: vLLM with {options} ended with {done.returncode}", file=sys.stderr)
    return versions, rates


def settings_of(texts: list[str], what: str) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            fail(f"--{what}: expected NAME=OPTIONS, found '{text}'")
    return [tuple(text.split("=", 1)) for text in texts]


def sweep(columns: list[tuple[str, list[float | None]]]) -> dict[str, list[float | None]]:
    """Columns of one name become one: the best rate of each job."""
    merged: dict[str, list[float | None]] = {}
    for name, rates in columns:
        before = merged.get(name, [None] * len(rates))
        merged[name] = [max((r for r in pair if r is not None), default=None) for pair in zip(before, rates)]
    return merged


def job_name(job: dict) -> str:
    return f"decode {job['streams']} × {job['lengths'][0]}, tok/s" if is_decode(job) else f"{job['work']}, questions/s"


def number(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:,.0f}".replace(",", " ") if rate >= 100 else f"{rate:.1f}"


def table(names: list[str], ours: dict[str, list[float]], theirs: dict[str, list[float | None]]) -> str:
    """Markdown: a row per job; the fastest cell is bold; the last column is our best over their best."""
    head = ["job", *(f"Banyan {name}" for name in ours), *(f"vLLM {name}" for name in theirs), "best / best"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for index, name in enumerate(names):
        rates = [column[index] for column in (*ours.values(), *theirs.values())]
        fastest = max(rate for rate in rates if rate is not None)
        cells = [f"**{number(rate)}**" if rate == fastest else number(rate) for rate in rates]
        best = max((column[index] or 0.0 for column in theirs.values()), default=0.0)
        ratio = f"{max(column[index] for column in ours.values()) / best:.2f}" if best else "–"
        lines.append("| " + " | ".join([name, *cells, ratio]) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banyan", default="build/cuda/banyan", help="the program")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="qwen3-8b")
    parser.add_argument("--jobs", action="append", help=f"banyan bench commands (default: {JOBS})")
    parser.add_argument("--ours", action="append", help=f"(default: {OURS})")
    parser.add_argument("--theirs", action="append", help=f"(default: {THEIRS})")
    parser.add_argument("--python", default=sys.executable, help="a Python that has vLLM")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", help="also write all figures to this file")
    args = parser.parse_args()
    args.jobs = args.jobs or JOBS
    ours, jobs = {}, []
    for name, options in settings_of(args.ours or OURS, "ours"):
        jobs = run_ours(args, options)
        ours[name] = [our_rate(job) for job in jobs]
        print(f"Banyan {name}: {[number(rate) for rate in ours[name]]}", file=sys.stderr, flush=True)
    columns, versions = [], {}
    for name, options in settings_of(args.theirs or THEIRS, "theirs"):
        found, rates = run_theirs(args, jobs, json.loads(options or "{}"))
        versions = found or versions
        columns.append((name, rates))
        print(f"vLLM {name} {options}: {[number(rate) for rate in rates]}", file=sys.stderr, flush=True)
    theirs = sweep(columns)
    names = [job_name(job) for job in jobs]
    print(f"{args.shape}, random weights; {json.dumps(versions)}\n\n{table(names, ours, theirs)}")
    if args.json:
        pathlib.Path(args.json).write_text(
            json.dumps(
                {"jobs": names, "ours": ours, "theirs": theirs, "settings": columns, "versions": versions}, indent=1
            )
            + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
