#!/usr/bin/env python3
"""Real GGUF files on real text against what llama.cpp computed of them, which multiplies with 8-bit activations.

Token ids of the prompt must be equal; the first token where the oracle's margin exceeds 0.3 (f32) or 0.6 (mixed),
later ones up to the first margin below 0.5 or 1; log-probabilities of the first token's best eight within 0.25 on
average. Single ones differ by up to 0.7; llama.cpp's rounding of activations is the likely cause, not a proven one. The
bounds were set after the differences had been seen: they catch changes and are no independent check.
Usage: real_gguf.py BANYAN MODEL.gguf ORACLE    (gemma-3-270m, tinyllama-1.1b-chat)
"""
import json
import math
import pathlib
import subprocess
import sys

ORACLES = pathlib.Path(__file__).resolve().parent.parent.parent / "shared/golden/real"
NOISE = {"f32": (0.3, 0.5), "mixed": (0.6, 1.0)}  # margins of the first token, of later ones
MOST_ON_AVERAGE = 0.25


def ids(banyan: str, model: str, precision: str, rows: list[dict]) -> dict[str, dict]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([banyan, "ids", "-m", model, "--precision", precision], input=text,
                          capture_output=True, text=True, check=True)
    return {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}


def differences(logits: list[float], wanted: dict[str, float]) -> list[float]:
    largest = max(logits)
    log_sum = largest + math.log(sum(math.exp(value - largest) for value in logits))
    return [abs(logits[int(token)] - log_sum - logprob) for token, logprob in wanted.items()]


def main() -> int:
    banyan, model, name = sys.argv[1:4]
    oracle_file = ORACLES / f"{name}.json"
    if not oracle_file.exists() or not pathlib.Path(model).exists():
        print(f"real_gguf: skipped, {oracle_file} or {model} is not here")
        return 0
    oracle = json.loads(oracle_file.read_text())
    questions = {f"{context['id']}/{i}": question for context in oracle["contexts"]
                 for i, question in enumerate(context["questions"])}
    wrong, means = [], {}
    for precision, (first_margin, later_margin) in NOISE.items():
        rows = []
        for key, question in questions.items():
            rows += [{"id": "text " + key, "kind": "tokenize", "text": question["prompt_text"], "add_special": True},
                     {"id": "first " + key, "kind": "logits", "ids": question["prompt_ids"]},
                     {"id": "answer " + key, "kind": "greedy", "ids": question["prompt_ids"],
                      "max_new": oracle["max_new"]}]
        found = ids(banyan, model, precision, rows)
        off = []
        for key, question in questions.items():
            if found["text " + key]["ids"] != question["prompt_ids"]:
                wrong.append(f"{precision} tokens {key}")
            off += differences(found["first " + key]["last_logits"], question["first_top8"])
            tokens, gaps = found["answer " + key]["tokens"], question["gaps"]
            near = next((i for i, gap in enumerate(gaps) if gap < (later_margin if i else first_margin)),
                        len(gaps))
            at = next((i for i, (a, b) in enumerate(zip(tokens, question["tokens"])) if a != b), len(gaps))
            if at < near:
                wrong.append(f"{precision} answer {key} differs at token {at}, before the near tie at {near}")
        means[precision] = round(sum(off) / len(off), 3)
        if means[precision] > MOST_ON_AVERAGE:
            wrong.append(f"{precision} log-probabilities differ by {means[precision]} on average, {max(off):.3f} at most")
    for line in wrong:
        print("FAIL", line)
    print(f"real_gguf: {len(questions)} questions of {oracle_file.stem}, mean difference of log-probabilities "
          f"{means}, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
