#!/usr/bin/env python3
"""SmolLM2-135M-Instruct on real text against what Transformers computed from the same weights.

Chat text and token ids must be equal; a greedy answer may leave the oracle only where the oracle's own
margin between its best two tokens is smaller than the noise of the precision (0.003 for f32, 0.3 for mixed).
Usage: real_oracles.py BANYAN MODEL
"""
import json
import pathlib
import subprocess
import sys

ORACLE = pathlib.Path(__file__).resolve().parent.parent.parent / "shared/golden/real/smollm2-135m-instruct.json"
NOISE = {"f32": 0.003, "mixed": 0.3}


def ids(banyan: str, model: str, precision: str, rows: list[dict]) -> dict[str, dict]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([banyan, "ids", "-m", model, "--precision", precision], input=text,
                          capture_output=True, text=True, check=True)
    return {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}


def main() -> int:
    banyan, model = sys.argv[1:3]
    if not ORACLE.exists():
        print(f"real_oracles: skipped, {ORACLE} is not here")
        return 0
    oracle = json.loads(ORACLE.read_text())
    rows, wanted = [], {}
    for context in oracle["contexts"]:
        for i, question in enumerate(context["questions"]):
            key = f"{context['id']}/{i}"
            wanted[key] = question
            messages = [{"role": "system", "content": oracle["system"]},
                        {"role": "user", "content": context["context"] + "\n\nQuestion: " + question["question"]}]
            rows += [{"id": "chat " + key, "kind": "chat", "messages": messages, "add_generation_prompt": True},
                     {"id": "text " + key, "kind": "tokenize", "text": question["prompt_text"]},
                     {"id": "answer " + key, "kind": "greedy", "ids": question["prompt_ids"],
                      "max_new": oracle["max_new"], "stop": oracle["eos"]}]
    wrong, left = [], 0
    for precision, noise in NOISE.items():
        found = ids(banyan, model, precision, rows)
        for key, question in wanted.items():
            if found["chat " + key]["text"] != question["prompt_text"]:
                wrong.append(f"{precision} chat {key}")
            if found["text " + key]["ids"] != question["prompt_ids"]:
                wrong.append(f"{precision} tokens {key}")
            tokens = found["answer " + key]["tokens"]
            at = next((i for i, (a, b) in enumerate(zip(tokens, question["tokens"])) if a != b), None)
            if tokens != question["tokens"]:
                left += 1
                if at is None or question["gaps"][at] >= noise:
                    wrong.append(f"{precision} answer {key} differs at token {at}")
    for line in wrong:
        print("FAIL", line)
    print(f"real_oracles: {len(wanted)} questions in {len(NOISE)} precisions, {left} answers leave the "
          f"oracle within the noise, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
