"""Scores of a reader: what they count, the all-null baseline, intervals over texts."""

from __future__ import annotations

import contextlib
import io
import unittest

from eval.reading import answers_of, intervals, judge, means, score, table_of, unseen

RECORDS = [
    dict(
        id="a",
        context="Ruth sold the mill in 1840.",
        questions=[dict(id="1", answers=["Ruth"]), dict(id="2", answers=["in 1840", "1840"]), dict(id="3", answers=[])],
    ),
    dict(id="b", context="The barge left.", questions=[dict(id="1", answers=["The barge"]), dict(id="2", answers=[])]),
]
GIVEN = {("a", "1"): "Ruth", ("a", "2"): "null", ("a", "3"): "null", ("b", "1"): "a ship", ("b", "2"): "the barge"}


class Scores(unittest.TestCase):
    def test_counts(self):
        found = score(RECORDS, GIVEN)
        self.assertEqual(
            found,
            dict(
                questions=5,
                exact=0.4,
                f1=0.4,
                rouge_l=0.4,
                answerable_f1=0.3333,
                null_accuracy=0.5,
                denied=0.3333,
                not_in_text=0.3333,
                errors=0,
            ),
        )
        everything_null = score(RECORDS, dict.fromkeys(GIVEN, "null"))
        self.assertEqual(
            (everything_null["exact"], everything_null["null_accuracy"], everything_null["denied"]), (0.4, 1.0, 1.0)
        )

    def test_a_question_that_could_not_be_asked_is_wrong(self):
        found = score(RECORDS, {**GIVEN, ("a", "1"): None})
        self.assertEqual((found["questions"], found["errors"], found["exact"], found["denied"]), (5, 1, 0.2, 0.3333))
        del (given := dict(GIVEN))["a", "3"]  # no row at all: the record's error has no question
        self.assertEqual(score(RECORDS, given)["errors"], 1)

    def test_rows_of_all_kinds_are_read(self):
        rows = [
            dict(id="a", question_id="1", answer=" Ruth "),
            dict(id="a", question_id="2", answer=None),
            dict(id="b", question_id=None, error=dict(kind="limit")),
            dict(id="b", error=dict(kind="input")),
            dict(error=dict(kind="input")),
        ]
        found = answers_of(rows)
        self.assertEqual((found["a", "1"], found["a", "2"]), ("Ruth", "null"))
        self.assertEqual(score(RECORDS, found)["errors"], 3)  # a/3 has no row, b could not be asked

    def test_texts_of_training_are_left_out(self):
        records = [dict(RECORDS[0], trained_on=True), RECORDS[1]]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(unseen("x", records, False), [RECORDS[1]])
            self.assertEqual(unseen("x", records, True), records)
        self.assertIn("x: 1 of 2 texts are marked as trained on: left out", said.getvalue())

    def test_a_letter_is_the_text_it_stands_for(self):
        question = dict(id="1", choices=["7:45", "8:15", "9:00"], answers=["A"])
        record = dict(id="c", context="It starts at 7:45.", questions=[question])
        for answer, right in (("7:45", 1.0), ("A", 1.0), ("a)", 1.0), ("8:15", 0.0), ("B", 0.0), ("null", 0.0)):
            self.assertEqual(score([record], {("c", "1"): answer})["exact"], right, answer)
        by_number = dict(record, questions=[dict(id="1", choices=["yes", "no"], right=1)])
        self.assertEqual(
            [score([by_number], {("c", "1"): a})["exact"] for a in ("no", "B", "yes", "A")], [1.0, 1.0, 0.0, 0.0]
        )
        vitamins = dict(
            record, questions=[dict(id="1", choices=["B", "A"], answers=["A"])]
        )  # texts that are letters are texts
        self.assertEqual([score([vitamins], {("c", "1"): a})["exact"] for a in ("A", "B")], [1.0, 0.0])

    def test_intervals_hold_the_mean_and_shrink(self):
        few, many = intervals(judge(RECORDS, GIVEN), 200), intervals(judge(RECORDS, GIVEN) * 50, 200)
        for spans in (few, many):
            self.assertLessEqual(spans["exact"][0], means(judge(RECORDS, GIVEN))["exact"])
            self.assertGreaterEqual(spans["exact"][1], means(judge(RECORDS, GIVEN))["exact"])
        self.assertLess(many["exact"][1] - many["exact"][0], few["exact"][1] - few["exact"][0])

    def test_table(self):
        row = dict(score(RECORDS, GIVEN), intervals=dict(exact=[0.2, 0.6]), seconds=3)
        self.assertIn(
            "| with adapter | 40.0 (20–60) | 40.0 | 40.0 | 33.3 | 50.0 | 33.3 | 33.3 | 0 | 3 |",
            table_of("b", {"with adapter": row}),
        )


if __name__ == "__main__":
    unittest.main()
