"""Scores of a reader: what they count, the all-null baseline, intervals over texts."""
from __future__ import annotations

import unittest

from eval.reading import intervals, judge, means, score, table_of

RECORDS = [dict(id="a", context="Ruth sold the mill in 1840.", questions=[dict(id="1", answers=["Ruth"]), dict(id="2", answers=["in 1840", "1840"]), dict(id="3", answers=[])]),
           dict(id="b", context="The barge left.", questions=[dict(id="1", answers=["The barge"]), dict(id="2", answers=[])])]
GIVEN = {("a", "1"): "Ruth", ("a", "2"): "null", ("a", "3"): "null", ("b", "1"): "a ship", ("b", "2"): "the barge"}


class Scores(unittest.TestCase):
    def test_counts(self):
        found = score(RECORDS, GIVEN)
        self.assertEqual(found, dict(questions=5, exact=0.4, f1=0.4, answerable_f1=0.3333, null_accuracy=0.5, denied=0.3333, not_in_text=0.3333, errors=0))
        everything_null = score(RECORDS, dict.fromkeys(GIVEN, "null"))
        self.assertEqual((everything_null["exact"], everything_null["null_accuracy"], everything_null["denied"]), (0.4, 1.0, 1.0))

    def test_a_question_that_could_not_be_asked_is_wrong(self):
        found = score(RECORDS, {**GIVEN, ("a", "1"): None})
        self.assertEqual((found["questions"], found["errors"], found["exact"], found["denied"]), (5, 1, 0.2, 0.3333))
        del (given := dict(GIVEN))["a", "3"]  # no row at all: the record's error has no question
        self.assertEqual(score(RECORDS, given)["errors"], 1)

    def test_intervals_hold_the_mean_and_shrink(self):
        few, many = intervals(judge(RECORDS, GIVEN), 200), intervals(judge(RECORDS, GIVEN) * 50, 200)
        for spans in (few, many):
            self.assertLessEqual(spans["exact"][0], means(judge(RECORDS, GIVEN))["exact"])
            self.assertGreaterEqual(spans["exact"][1], means(judge(RECORDS, GIVEN))["exact"])
        self.assertLess(many["exact"][1] - many["exact"][0], few["exact"][1] - few["exact"][0])

    def test_table(self):
        row = dict(score(RECORDS, GIVEN), intervals=dict(exact=[0.2, 0.6]), seconds=3)
        self.assertIn("| with adapter | 40.0 (20–60) | 40.0 | 33.3 | 50.0 | 33.3 | 33.3 | 0 | 3 |", table_of("b", {"with adapter": row}))


if __name__ == "__main__":
    unittest.main()
