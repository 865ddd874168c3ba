"""Values judged by a model: what rules decide, scores by their parts, agreement with labels, a run whose judge is
known."""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import gzip
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

from eval import judge
from eval.data import default_folder
from eval.judge import Pair, chosen, decided, halves, judge_runs, kappa, options, read_labels, score

SCHEMA = {
    "attributes": [
        {"name": "colour"},
        {"name": "weight", "type": "number"},
        {"name": "tags", "type": "list"},
        {"name": "maker"},
    ]
}
GOLD = [
    {"id": "a", "values": {"colour": ["red", "scarlet"], "weight": 2, "tags": ["x", "y"], "maker": None}},
    {"id": "b", "values": {"colour": "blue", "weight": 3, "tags": [], "maker": "Acme"}},
]
OUTPUT = [
    {"id": "a", "values": {"colour": "Scarlet", "weight": 2.5, "tags": ["x"], "maker": "Bo"}},
    {"id": "b", "values": {"colour": "navy blue", "weight": None, "tags": []}},
]
SETTINGS = argparse.Namespace(draws=50, model="JUDGE", data=None)
WORDS = argparse.Namespace(draws=50, model="", data=None)


class Rules(unittest.TestCase):
    def test_what_needs_no_judge(self):
        for kind, right, written, verdict in (
            ("text", None, None, ""),
            ("list", [], None, ""),
            ("text", None, "x", "spurious"),
            ("text", "x", None, "missing"),
            ("list", ["x"], [], "missing"),
            ("text", "The Mill", "mill.", "match"),
            ("text", ["red", "scarlet"], "Scarlet", "match"),  # spellings
            ("list", ["x", "y"], ["x", "y"], "match"),
            ("list", ["x", "y"], ["x"], None),  # all of them are wanted
            ("boolean", True, True, "match"),
            ("number", 2, 2.5, None),
            ("text", "1.5 l", "15 l", None),
            ("text", "$5", "£5", None),
            ("text", "-5 °C", "5 °C", None),
            ("text", "page 5.", "Page 5", "match"),
            ("text", "Smith, Jones (London)", "smith jones london", "match"),
        ):
            self.assertEqual(decided(kind, right, written), verdict, (kind, right, written))

    def test_scores(self):
        found = score(dict(match=3, partial=2, wrong=1, missing=2, spurious=4))
        self.assertAlmostEqual(found["precision"], 4 / 10)
        self.assertAlmostEqual(found["recall"], 4 / 8)
        self.assertAlmostEqual(found["f1"], 2 * 0.4 * 0.5 / 0.9)
        self.assertEqual(score({}), dict(precision=0.0, recall=0.0, f1=0.0))
        self.assertEqual(score(dict(missing=3))["f1"], 0.0)

    def test_agreement_beyond_chance(self):
        same = [("match", "match"), ("wrong", "wrong")]
        self.assertEqual(kappa(same), 1.0)
        self.assertEqual(kappa([("match", "match"), ("wrong", "match")]), 0.0)  # always one word
        self.assertEqual(kappa([("match", "wrong"), ("wrong", "match")]), -1.0)
        self.assertEqual(kappa([("match", "match")]), 1.0)

    def test_what_a_model_likes_is_taken_off(self):
        one, two = Pair("a", "b", "c"), Pair("d", "e", "f")
        found = {one: [-0.1, -2.0, -3.0], two: [-0.5, -1.5, -1.0]}  # it likes the first word
        self.assertEqual(chosen(found, [one, two]), {one: "match", two: "wrong"})


class Labels(unittest.TestCase):
    def test_two_hundred_by_hand(self):
        labels = read_labels()
        self.assertEqual((len(labels), len({pair for pair, _ in labels})), (200, 200))
        for half in halves():
            counts = collections.Counter(label for _, label in half)
            self.assertEqual(set(counts), set(judge.VERDICTS))
            self.assertGreaterEqual(min(counts.values()), 25)
        # None of them is what rules decide, nor an example of the prompt.
        for pair, _ in labels:
            self.assertIsNone(decided("text", pair.right, pair.written), pair)
            self.assertNotIn((pair.right, pair.written), {example[1:3] for example in judge.EXAMPLES})


class Runs(unittest.TestCase):
    def setUp(self):
        self.asked: list[str] = []

    def run_judge(self, a, command, rows, given):
        """A judge that says `partial` of everything that is asked of a run, and likes no word."""
        (row,) = rows
        self.assertEqual((command, row["questions"][0]["choices"]), ("ask", list(judge.VERDICTS)))
        self.asked = [q["question"] for q in row["questions"]]
        known = len(halves()[0])
        scores = lambda n: [-1.0, -1.0, -1.0] if n < known else [-2.0, -0.5, -2.0]
        return [
            dict(id="judge", question_id=q["id"], scores=dict(sum=scores(n))) for n, q in enumerate(row["questions"])
        ], {}

    def test_judge_beside_equal_texts(self):
        with mock.patch("eval.judge.run", self.run_judge):
            (row,) = judge_runs(SETTINGS, GOLD, SCHEMA, {"skeleton": OUTPUT})
        counts = dict(match=1, partial=3, wrong=0, missing=2, spurious=1)
        self.assertEqual((row["run"], row["documents"], row["asked"]), ("skeleton", 2, 3))
        self.assertEqual(row["judge"]["counts"], counts)
        self.assertEqual(row["exact"]["counts"], dict(counts, partial=0, wrong=3))
        self.assertAlmostEqual(row["judge"]["precision"], 2.5 / 5)
        self.assertAlmostEqual(row["exact"]["recall"], 1 / 6)
        low, high = row["judge"]["interval"]
        self.assertLessEqual(low, high)
        told = self.asked[len(halves()[0]) :]
        self.assertEqual(len(told), 3)
        self.assertTrue(any('"tags" the right value is "x, y". The written value is "x"' in t for t in told), told)

    def test_an_answer_without_scores_is_an_error(self):
        with (
            mock.patch("eval.judge.run", lambda *words: ([dict(id="judge", question_id="0", error="too long")], {})),
            self.assertRaisesRegex(SystemExit, "expected scores, found too long"),
        ):
            judge.judged(SETTINGS, [Pair("a", "b", "c")])

    def test_words_after_the_dashes_are_the_programs(self):
        a = options(["--check", "-m", "M", "--", "--threads", "2"])
        self.assertEqual((a.gold, a.options), (None, ["--threads", "2"]))
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            options(["GOLD.jsonl", "-m", "M"])


class SharedWords(unittest.TestCase):
    def test_by_two_thresholds(self):
        of = lambda right, written: judge.by_words(Pair("a", right, written), 0.8, 0.5)
        self.assertEqual(of("stainless steel", "steel, stainless"), "match")
        self.assertEqual(of("red and green", "green"), "partial")  # all its words are right
        self.assertEqual(of("Leeds", "Mill Lane 4, Leeds"), "partial")
        self.assertEqual(of("5 May 2020", "6 May 2020"), "partial")  # what words cannot see
        self.assertEqual(of("red", "blue"), "wrong")
        self.assertEqual(of("…", "?"), "wrong")  # no words at all

    def test_thresholds_agree_with_most_labels(self):
        labels = [(Pair("a", "x y z w", "x y z"), "match"), (Pair("a", "x y", "y q"), "wrong")]
        match, partial = judge.thresholds(labels)
        self.assertLessEqual(match, 6 / 7)
        self.assertGreater(partial, 0.5)

    def test_without_a_model_they_judge(self):
        (row,) = judge_runs(WORDS, GOLD, SCHEMA, {"skeleton": OUTPUT})
        counts = dict(match=1, partial=2, wrong=1, missing=2, spurious=1)  # 2 and 2.5 share no word
        self.assertEqual(row["judge"]["counts"], counts)

    def test_every_judge_stands_beside_those_without_a_model(self):
        made = judge.check(WORDS)
        self.assertEqual(list(made), ["chosen on", "test"])  # texts of rows are not here
        self.assertEqual(list(made["test"]), [judge.MOST_FREQUENT, judge.EQUAL, judge.WORDS])
        self.assertEqual(made["test"][judge.MOST_FREQUENT]["kappa"], 0.0)
        words = made["test"][judge.WORDS]
        self.assertEqual(
            (words["labels"], sum(map(sum, (c.values() for c in words["confusion"].values())))), (100, 100)
        )
        low, high = words["kappa_interval"]
        self.assertTrue(low < words["kappa"] < high)
        self.assertEqual(judge.check_table(made).count("| test, 100 |"), 3)


class Rows(unittest.TestCase):
    ROW = {"id": "r1", "dataset": "oa_mine", "category": "Mugs", "text": "Big red mug", "attributes": ["Color"]}

    def test_labels_are_read_by_their_places(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place, "data")
            for file in judge.SETS.values():
                path = folder / file
                path.parent.mkdir(parents=True, exist_ok=True)
                with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as out:
                    out.write(json.dumps(dict(self.ROW, values={"Color": ["dark red"]})) + "\n")
            labels = pathlib.Path(place, "rows.tsv")
            labels.write_text("label\tset\tid\tattribute\tbegin\tend\npartial\toa_mine\tr1\tColor\t4\t7\n")
            with mock.patch.object(judge, "ROWS", labels):
                self.assertEqual(judge.labelled_rows(folder), [(Pair("Color", "dark red", "red"), "partial")])
                self.assertEqual(judge.labelled_rows(pathlib.Path(place, "nowhere")), [])
                self.assertIn("rows", judge.check(argparse.Namespace(draws=5, model="", data=folder)))

    def test_two_hundred_by_hand(self):
        """Places alone: no text of a data set stands in the file."""
        with judge.ROWS.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        self.assertEqual((len(rows), len({tuple(r.values()) for r in rows})), (200, 200))
        self.assertEqual({r["label"] for r in rows}, set(judge.VERDICTS))
        self.assertEqual({r["set"] for r in rows}, set(judge.SETS))
        for r in rows:
            self.assertLess(int(r["begin"]), int(r["end"]))

    def test_no_rule_decides_them(self):
        labels = judge.labelled_rows(default_folder())
        if not labels:
            self.skipTest("the data sets are not here")
        for pair, _ in labels:
            self.assertIsNone(decided("text", pair.right, pair.written), pair)


if __name__ == "__main__":
    unittest.main()
