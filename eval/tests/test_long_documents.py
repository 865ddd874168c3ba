"""Facts stand where the record says; rows are judged by answer and place; a long text in parts is answered at the right
places (skipped where the engine is not built)."""

from __future__ import annotations

import unittest
from pathlib import Path

from eval.long_documents import ask, judge, long_document, read_facts, score, table, without_reduce

ROOT = Path(__file__).parents[2]
MODEL, BINARY = ROOT / "models" / "banyan-reader-34m.gguf", ROOT / "build" / "release" / "banyan"


class Documents(unittest.TestCase):
    def test_facts_stand_where_the_record_says(self):
        facts = {fact["id"]: fact for fact in read_facts("dev")}
        record = long_document(list(facts.values()), 6, None)
        self.assertGreaterEqual(len(record["context"]), 6 * 3000 - 2)
        places = sorted({tuple(q["place"]) for q in record["questions"]})
        self.assertEqual(len(places), len(facts))
        for question in record["questions"]:
            low, high = question["place"]
            self.assertEqual(record["context"][low:high], facts[question["id"].rsplit("-", 1)[0]]["passage"])
        gaps = [b[0] - a[1] for a, b in zip(places, places[1:])]
        self.assertLess(max(gaps), 2.5 * 6 * 3000 / len(facts))  # they are spread

    def test_answers_stand_in_their_passages_and_splits_share_nothing(self):
        dev, test = read_facts("dev"), read_facts("test")
        self.assertFalse({f["passage"] for f in dev} & {f["passage"] for f in test})
        for fact in dev + test:
            for question in fact["questions"]:
                for answer in question["answers"]:
                    self.assertIn(answer.lower(), fact["passage"].lower())

    def test_rows_are_judged_by_answer_and_place(self):
        record = dict(
            questions=[
                dict(id="a", answers=["Anna"], place=[10, 30]),
                dict(id="b", answers=["Bert"], place=[10, 30]),
                dict(id="c", answers=[], place=[10, 30]),
                dict(id="d", answers=["Dora"], place=[10, 30]),
            ]
        )
        rows = [
            dict(question_id="a", answer="Anna", start=12, end=16, parts=3),
            dict(question_id="b", answer="Bert", start=40, end=44, parts=3),
            dict(question_id="c", answer=None, parts=3),
            dict(question_id="d", error={"kind": "limit"}),
        ]
        found = score(judge(record, rows))
        self.assertEqual((found["questions"], found["parts"], found["errors"]), (4, 3, 1))
        self.assertEqual(
            (found["exact"], found["answerable"], found["placed"], found["null"], found["denied"]),
            (0.75, 0.6667, 0.3333, 1.0, 0.0),
        )
        self.assertIn("| 7 | 3 | no | 75 (", table([dict(found, pages=7, reduce=False, seconds=1.0)]))


@unittest.skipUnless(MODEL.exists() and BINARY.exists(), "the engine is not built")
class Engine(unittest.TestCase):
    def test_parts_are_answered_at_the_right_places(self):
        record = long_document(read_facts("dev")[:6], 3, None)
        answers = []
        for reduce in ([], ["--reduce"]):
            command = [
                str(BINARY),
                "ask",
                "-m",
                str(MODEL),
                "--too-long",
                "split",
                "--part-tokens",
                "500",
                "--max-new",
                "16",
                *reduce,
            ]
            rows, _ = ask(command, record)
            answers.append(
                [
                    (row["answer"], row.get("start"))
                    for row in sorted(without_reduce(rows), key=lambda row: row["question_id"])
                ]
            )
            found = score(judge(record, rows))
            self.assertGreater(found["parts"], 3)
            self.assertGreaterEqual(found["placed"], 0.5, rows)
            for row in rows:
                if row.get("answer"):
                    self.assertEqual(record["context"][row["start"] : row["end"]].split(), row["answer"].split())
                    self.assertTrue(
                        any(r["start"] <= row["start"] and row["end"] <= r["end"] for r in row["read"]), row
                    )
        self.assertEqual(*answers)  # the parts' answers do not depend on --reduce


if __name__ == "__main__":
    unittest.main()
