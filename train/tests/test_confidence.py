"""Fits of confidence: they find what made the answers, also where most of them are sure."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np

from eval.metrics import calibration_error
from train.confidence import fit, lines, probability


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


if __name__ == "__main__":
    unittest.main()
