#!/usr/bin/env python3
"""Random forests of prompts with the model that ships, greedy and drawn, under every strategy, batch size and way to run:
one answer, bit for bit, log-probabilities included. usage: gpu_forests.py BANYAN [DEVICE [FORESTS]]"""
import concurrent.futures
import json
import os
import random
import subprocess
import sys

BANYAN = sys.argv[1]
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
FORESTS = int(sys.argv[3]) if len(sys.argv) > 3 else 6
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "models", "banyan-reader-34m.gguf")
PRECISIONS = (["--precision", "f32"], ["--precision", "mixed", "--kv-type", "f16"],
              ["--precision", "mixed", "--kv-type", "bf16"], ["--precision", "mixed", "--kv-type", "q8"])
if DEVICE != "cpu":
    PRECISIONS += (["--precision", "w8a8"],)
# The first judges the others.
RUNS = [["--strategy", "flat", "--one-by-one"]]
RUNS += [["--strategy", name] for name in ("flat", "paged", "stacked", "tree", "auto")]
RUNS += [["--strategy", "tree", "--batch-rows", "7"], ["--strategy", "tree", "--batch-rows", "61"],
         ["--strategy", "auto", "--batch-rows", "333"], ["--strategy", "tree", "--max-streams", "3"],
         ["--strategy", "auto", "--steps-ahead", "0"]]


def tokens(generator, least, most):
    return [generator.randrange(3, 900) for _ in range(generator.randint(least, most))]


def forests(count):
    generator = random.Random(20)
    rows = []
    for i in range(count):
        contexts = []
        for _ in range(generator.randint(1, 4)):
            questions = [dict(x=tokens(generator, 1, 12)) for _ in range(generator.randint(1, 6))]
            contexts.append(dict(c=tokens(generator, 1, 330), questions=questions))
        row = dict(id=i, kind="stacked", p=tokens(generator, 1, 140), contexts=contexts, logprobs=True,
                   max_new=generator.randint(2, 9))
        if i % 2:
            row.update(temperature=0.9, top_k=generator.choice((0, 30)), top_p=0.95, seed=i, repetition_penalty=1.1)
        rows.append(row)
    return "".join(json.dumps(row) + "\n" for row in rows)


def answers(arguments):
    command = [BANYAN, "ids", "-m", MODEL, "--device", DEVICE, "--kv-memory", "256M", *arguments]
    done = subprocess.run(command, input=INPUT, capture_output=True, text=True, timeout=300)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-300:]}"


if not os.path.isfile(MODEL):
    sys.exit(f"gpu_forests.py: {MODEL}: no such file; nothing was compared")
INPUT = forests(FORESTS)
jobs = [precision + run for precision in PRECISIONS for run in RUNS]
with concurrent.futures.ThreadPoolExecutor(8 if DEVICE == "cuda" else 1) as pool:
    outputs = list(pool.map(answers, jobs))
wrong = broken = 0
for i, output in enumerate(outputs):
    judge = outputs[i // len(RUNS) * len(RUNS)]
    if output != judge or not judge.startswith("{"):
        ran = output.startswith("{")
        broken += not ran
        wrong += ran
        at = next((k for k, (a, b) in enumerate(zip(output, judge)) if a != b), 0)
        found = output[max(0, at - 60):at + 40] if ran else output
        print("FAIL", " ".join(jobs[i]), "| found", found.replace("\n", " "))
print(f"{len(jobs)} runs of {FORESTS} forests, {wrong} differ from each stream alone, {broken} did not run")
sys.exit(1 if wrong or broken else 0)
