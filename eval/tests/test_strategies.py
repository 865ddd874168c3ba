"""Quality beside speed: what is compared with what, by runs whose answers are known."""

from __future__ import annotations

import argparse
import unittest
from unittest import mock

from eval import planted, strategies

RECORDS = [
    dict(
        id="a",
        context="Ruth sold the mill in 1840.",
        questions=[dict(id="1", question="Who?", answers=["Ruth"]), dict(id="2", question="When?", answers=["1840"])],
    )
]
WRITTEN = {"flat": ["Ruth", "1840"], "auto": ["Ruth", "1840"], "paged": ["Ruth", "mill"]}


def run(a, rows, options):
    """As `banyan ask` would: answers by strategy; flat takes a second for each question, others one for all."""
    strategy = options[options.index("--strategy") + 1] if "--strategy" in options else "auto"
    written = [
        dict(id=r["id"], question_id=q["id"], answer=WRITTEN[strategy][n % 2])
        for r in rows
        for n, q in enumerate(r["questions"])
    ]
    seconds = len(written) if strategy == "flat" else 1.0
    return written, dict(
        seconds=dict(total=seconds), prefilled_tokens=10, generated_tokens=3, prompt_tokens=20, kv_bytes_peak=2**20
    )


class Compare(unittest.TestCase):
    arguments = argparse.Namespace(price=3.6, draws=10, options=[], banyan="", model="", adapter="", max_new=32)

    def test_rows(self):
        with mock.patch("eval.strategies.run", run):
            flat, paged, auto = strategies.compare(self.arguments, RECORDS, ["flat", "paged", "auto"], [], 2)
        self.assertEqual((flat["exact"], auto["exact"], paged["exact"]), (1.0, 1.0, 0.5))
        self.assertEqual((flat["same"], auto["same"], paged["same"]), (1.0, 1.0, 0.5))
        self.assertEqual((flat["rates"], auto["rates"]), ([1.0, 1.0], [2.0, 2.0]))
        self.assertAlmostEqual(flat["cost_of_1000"], 1.0)  # 1000 s at 3.6 an hour
        self.assertAlmostEqual(auto["cost_of_1000"], 0.5)
        self.assertIn("| auto | 100.0 (100–100) |", strategies.table([auto]))

    def test_flat_is_extended_to_all_questions(self):
        record = dict(
            RECORDS[0],
            questions=[
                dict(id=f"q{n}", question=f"{n}?", answers=["Ruth" if n % 2 == 0 else "1840"]) for n in range(8)
            ],
        )
        with (
            mock.patch("eval.planted.run", run),
            mock.patch("eval.planted.planted_document", lambda tokens, questions: record),
        ):
            rows = planted.measure(self.arguments, 100, [4, 8], ["auto", "flat"], 2, flat_questions=2)
        flat = [r for r in rows if r["strategy"] == "flat"]
        self.assertEqual([(r["questions"], r["ran"], r["median"]) for r in flat], [(4, 2, 4.0), (8, 2, 8.0)])
        self.assertEqual({r["exact"] for r in rows}, {1.0})
        self.assertEqual({r["same"] for r in rows}, {1.0})
        self.assertIn("| 8 | flat | ~8.00 (8.00 to 8.00) |", planted.table(rows))


if __name__ == "__main__":
    unittest.main()
