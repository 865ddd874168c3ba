"""Options are made and judged as the tables say."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from eval.choices import judge, score, shares, squad_choices, table

SAMPLES = Path(__file__).parents[1] / "samples" / "everyday-choice.jsonl"


class Choices(unittest.TestCase):
    def test_the_frozen_questions_are_balanced(self):
        records = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
        for split in ("dev", "test"):
            questions = [q for r in records if r["split"] == split for q in r["questions"]]
            self.assertEqual(len(questions), 20)
            right = [q["choices"][q["right"]] for q in questions if q["kind"] == "yes/no"]
            self.assertEqual((right.count("yes"), right.count("no")), (5, 5))

    def test_wrong_options_are_wrong(self):
        questions = [
            dict(id=str(n), question=f"q{n}", answers=[a])
            for n, a in enumerate(["Anna Walker", "Anna", "Bert", "Carl", "Dora"])
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "squad2.jsonl")
            path.write_text(
                "".join(
                    json.dumps(dict(id=f"squad2-Normans-{n}", context="c", questions=questions)) + "\n"
                    for n in range(20)
                )
            )
            made = squad_choices(path, "dev", 100) + squad_choices(path, "test", 100)
        self.assertEqual(len(made), 20)
        for record in made:
            question = record["questions"][0]
            right = question["choices"][question["right"]]
            self.assertEqual(len(set(question["choices"])), 4)
            if right == "Anna":
                self.assertNotIn("Anna Walker", question["choices"])

    def test_each_way_of_scoring_is_counted(self):
        records = [dict(id="a", questions=[dict(id="1", kind="k", choices=["x", "y"], right=1)])]
        scored = {("a", "1"): dict(scores=dict(sum=[-1.0, -2.0], mean=[-1.0, -0.5], prior=[-0.5, -4.0]))}
        rows = judge(records, scored, {("a", "1"): dict(choice=0, probabilities=[0.7, 0.3])})
        found = score(rows)["k"]
        self.assertEqual([found[way] for way in ("sum", "mean", "prior", "letter")], [0, 1, 1, 0])
        self.assertEqual((found["chance"], found["frequent"], found["errors"]), (0.5, 1, 0))
        self.assertAlmostEqual(rows[0]["ways"]["sum"]["probability"], shares([-1.0, -2.0])[0])
        self.assertEqual(score(judge(records, {}, {}))["k"]["errors"], 1)
        self.assertIn("| k | 1 | 0.5 | 1 | 0 (", table(score(rows)))


if __name__ == "__main__":
    unittest.main()
