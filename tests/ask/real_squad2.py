#!/usr/bin/env python3
"""A real model on real questions: real_squad2.py BANYAN MODEL SQUAD2.jsonl [CONTEXTS]

Asks the questions of the first contexts of SQuAD 2.0, checks that every question has its row, that
sharing saved what it must, that an interrupted and resumed run gives the same answers and that
another strategy does too; prints exact match and F1. Fails when the answers are no better than
chance: a real model finds some of them.
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from eval.metrics import exact_match, token_f1  # noqa: E402


def main():
    banyan, model, data = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with open(data, encoding="utf-8") as file:
            lines = [next(file) for _ in range(count)]
        (folder / "in.jsonl").write_text("".join(lines), encoding="utf-8")
        wanted = [(d["id"], q["id"], q["answers"]) for d in map(json.loads, lines)
                  for q in d["questions"]]
        command = [banyan, "ask", "-m", model, str(folder / "in.jsonl"), "--max-new", "24"]

        def rows(name, *arguments):
            subprocess.run([*command, "-o", str(folder / name), *arguments], check=True)
            with open(folder / name, encoding="utf-8") as file:
                return {(r["id"], r["question_id"]): r for r in map(json.loads, file)}

        whole = rows("whole.jsonl", "--receipt", str(folder / "receipt.json"))
        receipt = json.loads((folder / "receipt.json").read_text())
        assert set(whole) == {(d, q) for d, q, _ in wanted}, "a question without a row"
        assert receipt["shared_tokens"] > receipt["prompt_tokens"] / 2, receipt

        process = subprocess.Popen([*command, "-o", str(folder / "cut.jsonl"), "--quiet"])
        time.sleep(receipt["seconds"]["load"] + receipt["seconds"]["total"] / 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        resumed = rows("cut.jsonl", "--resume", "--quiet", "--strategy", "paged")
        assert resumed == whole, "a resumed run under another strategy gave other answers"

        scores = [token_f1(whole[d, q]["answer"] or "null", golds) for d, q, golds in wanted]
        exact = sum(exact_match(whole[d, q]["answer"] or "null", golds) for d, q, golds in wanted)
        print(f"squad2: {len(wanted)} questions on {count} contexts: exact {exact}, "
              f"F1 {100 * sum(scores) / len(scores):.1f}, answers {receipt['answers_hash']}")
        answerable = [s for s, (_, _, golds) in zip(scores, wanted) if golds]
        assert sum(answerable) / len(answerable) > 0.1, "no better than chance"


if __name__ == "__main__":
    main()
