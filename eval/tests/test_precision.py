"""Figures of precisions from logits by hand, and of a real run (skipped where the program is not built)."""

from __future__ import annotations

import contextlib
import io
import math
import os
import pathlib
import sys
import unittest
from unittest import mock

from eval import precision

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("BANYAN", ROOT / "build" / "release" / "banyan"))
MODEL = ROOT / "models" / "banyan-reader-34m.gguf"


def compare(found: list[list[float]], expected: list[list[float]], following: list[int]) -> dict[str, float]:
    return precision.figures([precision.compare_one(*row) for row in zip(found, expected, following, strict=True)])


class Figures(unittest.TestCase):
    def test_settings(self):
        self.assertEqual(precision.Setting.parse("f32"), precision.Setting("cpu", "f32", ""))
        self.assertEqual(precision.Setting.parse("cuda:w8a8:bf16"), precision.Setting("cuda", "w8a8", "bf16"))
        self.assertEqual(precision.Setting.parse("cuda:mixed+compact").options[-2:], ("--keep-weights", "compact"))
        self.assertEqual(precision.Setting.parse("llama").name, "llama.cpp")
        self.assertEqual(precision.Setting.parse("llama:q8"), precision.Setting("llama", "", "q8"))
        for wrong in ("cuda", "mixed+small", "llama:mixed", "llama+compact"):
            with self.assertRaises(SystemExit):
                precision.Setting.parse(wrong)

    def test_equal_logits_have_no_error_whatever_their_mean(self):
        logits = [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]
        shifted = [[x + 5.0 for x in row] for row in logits]
        row = compare(shifted, logits, [2, 0])
        self.assertEqual(row["top1"], 1.0)
        for name in ("kl_bits", "logit_error", "relative"):
            self.assertAlmostEqual(row[name], 0.0, places=6)

    def test_figures_by_hand(self):
        row = compare([[0.0, 0.0]], [[math.log(3), 0.0]], [1])
        self.assertEqual(row["top1"], 1.0)  # of equal ones the first
        self.assertAlmostEqual(row["kl_bits"], 0.75 * math.log2(1.5) + 0.25 * math.log2(0.5))
        self.assertAlmostEqual(row["perplexity"], 2.0)
        self.assertAlmostEqual(row["relative"], 1.0)

    def test_logits_that_are_no_numbers_or_too_few(self):
        for wrong in ([0.0, math.nan], [0.0]):
            with self.assertRaises(RuntimeError):
                precision.compare_one(wrong, [1.0, 2.0], 0)

    def test_positions(self):
        places = precision.positions([list(range(500)), list(range(40))], 10, 64)
        self.assertTrue(all(16 <= len(prefix) <= 64 and token == prefix[-1] + 1 for prefix, token in places))
        self.assertEqual(max(len(prefix) for prefix, _ in places), 64)


@unittest.skipUnless(BINARY.exists() and MODEL.exists(), "no program built here")
class Run(unittest.TestCase):
    def test_eight_bits_are_near_float32(self):
        out = io.StringIO()
        words = [
            "precision",
            "--banyan",
            str(BINARY),
            "-m",
            str(MODEL),
            "--text",
            str(ROOT / "README.md"),
            "--positions",
            "3",
            "--longest",
            "24",
            "f32",
            "mixed",
        ]
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out):
            precision.main()
        rows = [line.split("|")[1:-1] for line in out.getvalue().splitlines() if line.startswith("| cpu")]
        self.assertEqual([row[0].strip() for row in rows], ["cpu f32", "cpu mixed"])
        self.assertEqual(float(rows[0][2]), 0.0)
        self.assertLess(float(rows[1][2]), 0.5)


if __name__ == "__main__":
    unittest.main()
