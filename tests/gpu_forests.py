#!/usr/bin/env python3
"""Random forests of prompts, greedy and drawn, under every strategy, batch size and way to run: one answer, bit for bit,
log-probabilities included. With the model that ships, and with tiny ones whose layers keep states or differ in their
heads. With `shards`: three models in 2, 3 and 4 shards instead. usage: gpu_forests.py BANYAN [DEVICE [FORESTS [shards]]]"""
import concurrent.futures
import glob
import json
import os
import random
import subprocess
import sys

BANYAN = sys.argv[1]
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
FORESTS = int(sys.argv[3]) if len(sys.argv) > 3 else 6
SHARDS = sys.argv[4:] == ["shards"]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORACLES = os.path.join(ROOT, "tests", "oracles")
# Model → its last token, or one of the last.
MODELS = {os.path.join(ROOT, "models", "banyan-reader-34m.gguf"): 900}
FAMILIES = [path for name in ("gemma4*", "gpt-oss", "qwen3-moe") for path in glob.glob(f"{ORACLES}/families/{name}")]
for path in sorted(glob.glob(f"{ORACLES}/hybrids/*")) + sorted(FAMILIES):
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        MODELS[path] = json.load(file)["vocab_size"] - 1
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
if SHARDS:  # in seconds: the shipped model and two hybrids
    MODELS = dict(list(MODELS.items())[:3])
    PRECISIONS = PRECISIONS[:2] + PRECISIONS[-1:]
    RUNS = [RUNS[0], ["--strategy", "auto", "--tensor-parallel", "2"],
            ["--strategy", "paged", "--batch-rows", "61", "--tensor-parallel", "4"],
            ["--strategy", "tree", "--steps-ahead", "0", "--tensor-parallel", "3"]]


def forests(count, last):
    generator = random.Random(20)
    rows = []

    def tokens(least, most):
        return [generator.randrange(3, last) for _ in range(generator.randint(least, most))]

    for i in range(count):
        contexts = []
        for _ in range(generator.randint(1, 4)):
            questions = [dict(x=tokens(1, 12)) for _ in range(generator.randint(1, 6))]
            contexts.append(dict(c=tokens(1, 330), questions=questions))
        row = dict(id=i, kind="stacked", p=tokens(1, 140), contexts=contexts, logprobs=True,
                   max_new=generator.randint(2, 9))
        if i % 2:
            row.update(temperature=0.9, top_k=generator.choice((0, 30)), top_p=0.95, seed=i, repetition_penalty=1.1)
        rows.append(row)
    return "".join(json.dumps(row) + "\n" for row in rows)


def runs_of(model):
    """Few of tiny models, none of them with contexts stacked by masks: some keep states."""
    return RUNS if SHARDS or model.endswith(".gguf") else [RUNS[0], *RUNS[4:7], RUNS[-1]]


def answers(job):
    model, arguments = job
    command = [BANYAN, "ids", "-m", model, "--device", DEVICE, "--kv-memory", "256M", *arguments]
    done = subprocess.run(command, input=INPUTS[model], capture_output=True, text=True, timeout=300)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-300:]}"


missing = [model for model in MODELS if not os.path.exists(model)]
if missing:
    sys.exit(f"gpu_forests.py: {missing[0]}: no such file; nothing was compared")
INPUTS = {model: forests(FORESTS if model.endswith(".gguf") else max(1, FORESTS // 3), last) for model, last in MODELS.items()}
jobs = [(model, precision + run) for model in MODELS for precision in PRECISIONS for run in runs_of(model)]
with concurrent.futures.ThreadPoolExecutor((4 if SHARDS else 8) if DEVICE == "cuda" else 1) as pool:
    outputs = dict(zip([(model, *arguments) for model, arguments in jobs], pool.map(answers, jobs)))
wrong = broken = 0
for model, arguments in jobs:
    precision = next(p for p in PRECISIONS if arguments[:len(p)] == p)
    output, judge = outputs[(model, *arguments)], outputs[(model, *precision, *RUNS[0])]
    if output != judge or not judge.startswith("{"):
        ran = output.startswith("{")
        broken += not ran
        wrong += ran
        at = next((k for k, (a, b) in enumerate(zip(output, judge)) if a != b), 0)
        found = output[max(0, at - 60):at + 40] if ran else output
        print("FAIL", os.path.basename(model), " ".join(arguments), "| found", found.replace("\n", " "))
print(f"{len(jobs)} runs of forests with {len(MODELS)} models, {wrong} differ from each stream alone, {broken} did not run")
sys.exit(1 if wrong or broken else 0)
