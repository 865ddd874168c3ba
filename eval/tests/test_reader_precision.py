"""Scores of a reader in several precisions, against a stand-in for the program that answers by its options."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from eval import reader_precision

PROGRAM = f"""#!{sys.executable}
import json, sys
words = sys.argv[1:]
right = {{"f32": 2, "mixed": 1}}[words[words.index("--precision") + 1]]  # of every text's two questions
rows = []
for line in open(words[3]):
    record = json.loads(line)
    for n, q in enumerate(record["questions"]):
        rows.append(dict(id=record["id"], question_id=q["id"], answer=q["question"] if n < right else "nothing"))
open(words[words.index("-o") + 1], "w").write("".join(json.dumps(r) + "\\n" for r in rows))
"""


class Table(unittest.TestCase):
    def test_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            program, questions = pathlib.Path(folder, "banyan"), pathlib.Path(folder, "some.jsonl")
            program.write_text(PROGRAM)
            program.chmod(0o755)
            questions.write_text(
                "".join(
                    json.dumps(
                        dict(
                            id=str(n),
                            context="red blue",
                            questions=[
                                dict(id="a", question="red", answers=["red"]),
                                dict(id="b", question="blue", answers=["blue"]),
                            ],
                        )
                    )
                    + "\n"
                    for n in range(3)
                )
            )
            out, found = io.StringIO(), pathlib.Path(folder, "found.json")
            words = [
                "reader_precision",
                "--banyan",
                str(program),
                "-m",
                "model",
                "--file",
                str(questions),
                "--json",
                str(found),
                "f32",
                "mixed",
            ]
            with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out):
                reader_precision.main()
            nulls, first, second = json.loads(found.read_text())["some"]
        self.assertIn("6 questions of 3 texts", out.getvalue())
        self.assertEqual([row["f1"] for row in (nulls, first, second)], [0.0, 1.0, 0.5])
        self.assertEqual((first["same"], second["same"]), (1.0, 0.5))
        self.assertEqual(second["difference"], [-0.5, -0.5, -0.5])

    def test_difference_is_of_the_same_texts(self):
        texts = lambda *scores: [[dict(f1=s) for s in text] for text in scores]
        mean, low, high = reader_precision.difference(texts([1.0, 0.0], [0.5]), texts([0.0, 0.0], [0.8]), 200)
        self.assertAlmostEqual(mean, (-1.0 + 0.3) / 3)
        self.assertAlmostEqual(low, -0.5)
        self.assertAlmostEqual(high, 0.3)


if __name__ == "__main__":
    unittest.main()
