#!/usr/bin/env python3
"""all-MiniLM-L6-v2 on real sentences against what Transformers computed from the same weights: token ids equal,
embeddings within 2e-4, the same bits alone and together. Usage: real_encoder.py BANYAN MODEL
"""
import json
import pathlib
import subprocess
import sys

ORACLE = pathlib.Path(__file__).resolve().parent.parent.parent / "shared/golden/real/all-minilm-l6-v2.json"
MOST_TOKENS = 256  # of a text, in the oracle


def ids(banyan: str, model: str, rows: list[dict], *options: str) -> dict[str, dict]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([banyan, "ids", "-m", model, *options], input=text, capture_output=True, text=True, check=True)
    return {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}


def main() -> int:
    banyan, model = sys.argv[1:3]
    if not ORACLE.exists():
        print(f"real_encoder: skipped, {ORACLE} is not here")
        return 0
    oracle = json.loads(ORACLE.read_text())["rows"]
    embed = [{"id": f"embed {i}", "kind": "embed", "ids": row["ids"]} for i, row in enumerate(oracle)]
    tokenize = [{"id": f"text {i}", "kind": "tokenize", "text": row["text"], "add_special": True}
                for i, row in enumerate(oracle)]
    found = ids(banyan, model, embed + tokenize)
    alone = ids(banyan, model, embed, "--one-by-one")
    wrong, largest = [], 0.0
    for i, row in enumerate(oracle):
        dense = found[f"embed {i}"]["dense"]
        difference = max(abs(a - b) for a, b in zip(dense, row["dense"], strict=True))
        largest = max(largest, difference)
        if not difference <= 2e-4:
            wrong.append(f"embedding {i}")
        if dense != alone[f"embed {i}"]["dense"]:
            wrong.append(f"bits of embedding {i} alone")
        tokens = found[f"text {i}"]["ids"]
        same = tokens == row["ids"] if len(tokens) <= MOST_TOKENS else tokens[:MOST_TOKENS - 1] == row["ids"][:-1]
        if not same:
            wrong.append(f"tokens {i}")
    for line in wrong:
        print("FAIL", line)
    print(f"real_encoder: {len(oracle)} texts, largest difference {largest:.1e}, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
