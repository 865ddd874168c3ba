#!/usr/bin/env python3
"""The same jobs in Banyan and in Transformers, one after the other on the same machine, side by side.

  bench/compare.py --shape qwen3-8b --device cuda squad2 narrativeqa race longhealth
  bench/compare.py --shape qwen3-8b --device cuda "shared --streams 1,32,256 --prefix 2048"

Every job is a `banyan bench` command (options in quotes). Transformers is optional: without it, or past its time, the
column is empty.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "rivals"))


def ours(args, job: str) -> list[dict]:
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
            *(shlex.split(args.options)),
            "--json",
            str(file),
            "--overwrite",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        print(done.stdout, file=sys.stderr)
        if done.returncode != 0:
            sys.exit(f"compare.py: {shlex.join(command)} ended with {done.returncode}")
        found = json.loads(file.read_text())
    return found if isinstance(found, list) else [found]


def rate(figures: dict | None, key: str) -> str:
    if not figures or not figures.get(key):
        return "-"
    return f"{figures[key]:.1f}" + (f" (batch {figures['batch']})" if "batch" in figures else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", help="banyan bench commands")
    parser.add_argument("--banyan", default="build/cuda/banyan", help="the binary")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--options", default="--strategies auto,flat,no-attention", help="further options of banyan bench"
    )
    parser.add_argument("--rival", default="transformers", choices=["transformers", "none"])
    parser.add_argument("--seconds", type=float, default=60, help="of Transformers, per job")
    parser.add_argument("--attention", default="sdpa", help="Transformers' attn_implementation")
    parser.add_argument(
        "--figures", nargs="*", default=[], help="take Banyan's figures from these files, do not run it"
    )
    parser.add_argument("--json", help="write everything to this file")
    args = parser.parse_args()
    jobs = [job for name in args.jobs for job in ours(args, name)] if not args.figures else []
    for name in args.figures:
        found = json.loads(pathlib.Path(name).read_text())
        jobs += found if isinstance(found, list) else [found]
    if not jobs:
        parser.error("expected jobs, or figures of jobs")
    rival = None
    if args.rival == "transformers":
        try:
            import transformers_job

            rival = transformers_job.Rival(args.shape, args.device, args.attention)
        except ImportError as error:
            print(f"compare.py: no rival: {error}", file=sys.stderr)
    rows = []
    for job in jobs:
        theirs = transformers_job.run_job(rival, job, args.seconds) if rival else {}
        rows.append({"ours": job, "theirs": theirs})
        print(f"{job['work']} {job['branches']} {job['lengths']}: {theirs}", file=sys.stderr)
    print(f"{args.shape}, {jobs[0]['backend']}; rival: {rival.name if rival else 'none'}\n")
    print(
        "| job | unit | banyan | Transformers, batched | Transformers, cache repeated | times the better"
        " |\n|---|---|---|---|---|---|"
    )
    for row in rows:
        job, theirs = row["ours"], row["theirs"]
        grid = len(job["branches"]) == 2
        key, unit = ("decode_tokens_per_second", "decode tok/s") if grid else ("questions_per_second", "questions/s")
        mine = job["strategies"][0]
        best = max([(theirs.get(way) or {}).get(key) or 0.0 for way in ("batched", "cached")])
        name = f"{job['work']}, {job['streams']} streams on {job['lengths'][0]}" if grid else job["work"]
        print(
            f"| {name} | {unit} | {mine[key]:.1f} | {rate(theirs.get('batched'), key)} |"
            f" {rate(theirs.get('cached'), key)} | {mine[key] / best:.1f} |"
            if best
            else f"| {name} | {unit} | {mine[key]:.1f} | - | - | - |"
        )
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
