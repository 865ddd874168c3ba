"""Fits of confidence: they find what made the answers, also where most of them are sure."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

from eval.metrics import calibration_error
from train.confidence import fit, fit_rag, lines, log_odds, main, probability


class Fits(unittest.TestCase):
    def test_sure_answers_that_are_often_wrong(self):
        rng = np.random.default_rng(1)
        odds = np.concatenate([np.full(60, 12.0), rng.uniform(0, 12, 60)])  # most shares are nearly 1
        x = -np.log1p(np.exp(-odds))
        right = (rng.random(120) < 1 / (1 + np.exp(-(0.2 * odds - 0.5)))).astype(float)
        scale, offset = fit(x, right)
        self.assertLess(calibration_error(zip(probability(x, scale, offset), right), 5), 0.1)
        self.assertGreater(calibration_error(zip(np.exp(x), right), 5), 0.1)
        self.assertLess(scale, 0.5)

    def test_all_right_has_an_end(self):
        scale, offset = fit(np.full(20, -0.1), np.ones(20))
        self.assertGreater(probability(np.array([-0.1]), scale, offset)[0], 0.9)
        self.assertTrue(np.isfinite([scale, offset]).all())

    def test_rows_of_choices(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.jsonl")
            path.write_text(
                json.dumps(
                    dict(ways=dict(sum=dict(right=True, probability=0.5), letter=dict(right=False, probability=1.0)))
                )
                + "\n"
            )
            self.assertEqual(
                [(k, round(x, 3), r) for k, x, r in lines(path, "choice")],
                [("choice-sum", -0.693, True), ("choice-letter", 0.0, False)],
            )

    def test_a_card_says_which_way_of_choosing_is_right_more_often(self):
        with tempfile.TemporaryDirectory() as folder:
            rows, card = Path(folder, "rows.jsonl"), Path(folder, "banyan.json")
            for more, want in ((10, "letter"), (1, None)):  # of 40, letters are right so much more often
                ways = lambda n: dict(sum=dict(right=n < 20, probability=0.6), letter=dict(right=n < 20 + more, probability=0.9))
                rows.write_text("".join(json.dumps(dict(ways=ways(n))) + "\n" for n in range(40)))
                command = ["x", str(rows), "--task", "choice", "--card", str(card)]
                with mock.patch("sys.argv", command), contextlib.redirect_stdout(io.StringIO()):
                    main()
                self.assertEqual(json.loads(card.read_text()).get("choices"), want)

    def rag_rows(self, chance: np.random.Generator, count: int) -> list[dict]:
        """Answers that are right more often than their evidence says, at the odds 0.5 x + 1; and nulls."""
        rows = []
        for n in range(count):
            evidence = float(chance.uniform(0.02, 0.98))
            odds = 0.5 * float(log_odds(np.log([evidence]))[0]) + 1
            right = chance.random() < 1 / (1 + np.exp(-odds))
            common = dict(id=str(n), group=str(n // 3), method="experts", documents=4, gold=["yes it is"])
            rows.append(dict(common, gold_there=True, answer="Yes, it is" if right else "no", evidence=evidence))
            there = n % 4 == 0  # of nulls, one in four is wrong
            rows.append(dict(common, documents=16, gold_there=there, answer=None, evidence=0.5))
        rows.append(dict(rows[0], method="top1", answer="yes it is"))
        return rows

    def test_rag_by_its_evidence(self):
        rows = self.rag_rows(np.random.default_rng(3), 900)
        again = dict(rows[0], answer="yes it is")  # the later row of a question counts
        with tempfile.TemporaryDirectory() as folder:
            path, card = Path(folder, "rows.jsonl"), Path(folder, "banyan.json")
            bad = dict(rows[0], error="busy", answer=None)
            del bad["evidence"]
            path.write_text("".join(json.dumps(r) + "\n" for r in [bad, *rows, again]))
            card.write_text(json.dumps({"copies": True, "confidence": {"ask": {"scale": 1, "offset": 0}}}))
            with mock.patch("sys.argv", ["confidence", str(path), "--task", "rag", "--card", str(card)]):
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    main()
            made = json.loads(card.read_text())
        self.assertRegex(said.getvalue(), r"^1800 answers of 300 groups\n")
        self.assertEqual(made["confidence"]["ask"], {"scale": 1, "offset": 0})
        answer, null = made["confidence"]["rag"]["answer"], made["confidence"]["rag"]["null"]
        self.assertAlmostEqual(answer["scale"], 0.5, delta=0.12)
        self.assertAlmostEqual(answer["offset"], 1.0, delta=0.2)
        self.assertAlmostEqual(float(probability(np.log([0.5]), null["scale"], null["offset"])[0]), 0.75, delta=0.03)
        self.assertNotIn("scale", made["confidence"]["rag"])

    def test_rag_nulls_that_were_never_right(self):
        rows = [dict(r, gold_there=True) for r in self.rag_rows(np.random.default_rng(4), 300)]
        with tempfile.TemporaryDirectory() as folder:
            path, card = Path(folder, "rows.jsonl"), {}
            path.write_text("".join(json.dumps(r) + "\n" for r in rows))
            fit_rag([path], card)
        self.assertEqual(list(card["confidence"]["rag"]), ["answer"])


if __name__ == "__main__":
    unittest.main()
