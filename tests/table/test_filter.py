"""banyan filter: rows of which a statement is true."""
import os
import unittest

from tables import TableTest, reviews

STATEMENT = ["--columns", "review,product", "It was broken."]


class Filter(TableTest):
    def test_kept_rows_are_those_of_all_rows(self):
        self.write("in.jsonl", reviews(60))
        judged = self.printed("filter", self.path("in.jsonl"), *STATEMENT, "--all")
        self.assertEqual(len(judged), 60)
        threshold = sorted(row["probability"] for row in judged)[30]
        judged = self.printed("filter", self.path("in.jsonl"), *STATEMENT, "--all", "--threshold", threshold)
        self.assertTrue(all(row["keep"] == (row["probability"] >= threshold) for row in judged))
        kept = [{name: value for name, value in row.items() if name != "keep"} for row in judged if row["keep"]]
        self.assertTrue(0 < len(kept) < 60)
        self.assertEqual(self.printed("filter", self.path("in.jsonl"), *STATEMENT, "--threshold", threshold), kept)

    def test_nothing_is_kept(self):
        self.write("in.jsonl", reviews(20))
        job = ["filter", self.path("in.jsonl"), *STATEMENT, "--threshold", 1]
        result = self.table(*job, "-o", self.path("out.jsonl"))
        self.assertIn("0 rows of 20", result.stderr)
        self.assertEqual(self.bytes("out.jsonl"), b"")
        self.assertIn("this job is finished", self.table(*job, "-o", self.path("out.jsonl")).stderr)
        resumed = self.table(*job, "-o", self.path("out.jsonl"), "--resume", "--receipt", self.path("receipt.json"))
        self.assertEqual(self.json("receipt.json")["records_finished_before"], 20, resumed.stderr)

    def test_what_was_judged_is_not_judged_again(self):
        rows = reviews(40)
        self.write("in.jsonl", rows)
        judged = self.printed("filter", self.path("in.jsonl"), *STATEMENT, "--all")
        threshold = sorted(row["probability"] for row in judged)[20]
        job = ["filter", self.path("in.jsonl"), *STATEMENT, "--threshold", threshold, "--order", "auto"]
        self.table(*job, "-o", self.path("out.jsonl"), "--limit", 15)
        self.table(*job, "-o", self.path("out.jsonl"), "--resume", "--receipt", self.path("receipt.json"))
        self.assertEqual(self.json("receipt.json")["records_finished_before"], 15)
        self.table(*job, "-o", self.path("whole.jsonl"))
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))

    def test_rows_that_cannot_be_judged_are_errors(self):
        self.write("in.jsonl", [{"id": 1, "text": "one"}, {"id": 2}])
        found = self.printed("filter", self.path("in.jsonl"), "{text} is a number.", "--threshold", 0, code=1)
        self.assertEqual([row["id"] for row in found], [1, 2])
        self.assertIn("expected the column 'text'", found[1]["error"]["message"])


class Calibrated(TableTest):
    """A random model: labels are made from what it says, so that a calibration has something to find."""

    def labelled(self, count=200, every=2):
        rows = reviews(count, seed=4)
        for row in rows:
            row["review"] += f" Number {row['number']}."
        self.write("in.jsonl", rows)
        judged = self.printed("filter", self.path("in.jsonl"), *STATEMENT, "--all")
        middle = sorted(row["probability"] for row in judged)[count // 2]
        for row, found in zip(rows, judged):
            row["right"] = (found["probability"] >= middle) if row["number"] % every == 0 else None
        self.write("in.jsonl", rows)
        return rows, judged

    def test_a_filter_by_labelled_rows(self):
        rows, judged = self.labelled()
        job = ["filter", self.path("in.jsonl"), *STATEMENT, "--label", "right", "-o", self.path("out.jsonl")]
        said = self.table(*job, "--all", "--receipt", self.path("receipt.json")).stderr
        found = self.rows("out.jsonl")
        self.assertEqual([row["probability"] for row in found], [row["probability"] for row in judged])
        self.assertTrue(all(row["keep"] == (row["calibrated"] >= 0.5) for row in found))
        by_probability = sorted(found, key=lambda row: row["probability"])
        self.assertEqual([row["calibrated"] for row in by_probability], sorted(row["calibrated"] for row in found))
        labelled = [row for row in found if row["right"] is not None]
        of_true = [row["calibrated"] for row in labelled if row["right"]]
        of_false = [row["calibrated"] for row in labelled if not row["right"]]
        self.assertGreater(sum(of_true) / len(of_true), sum(of_false) / len(of_false))
        # A fitted probability is right in the mean.
        self.assertAlmostEqual(sum(row["calibrated"] for row in labelled) / len(labelled), len(of_true) / len(labelled), delta=0.02)
        self.assertIn("calibrated by 100 labelled rows: log-odds times", said)
        self.assertIn("calibration error", self.json("receipt.json")["probabilities_calibrated"])
        kept = [{name: value for name, value in row.items() if name != "keep"} for row in found if row["keep"]]
        self.table(*job, "--overwrite")
        self.assertEqual(self.rows("out.jsonl"), kept)
        os.remove(self.path("out.jsonl"))
        with open(self.path("out.jsonl.rows.jsonl"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("out.jsonl.rows.jsonl")) // 2)
        self.table(*job, "--resume")
        self.assertEqual(self.rows("out.jsonl"), kept)

    def test_choices_keep_their_order(self):
        rows = reviews(60, seed=5)
        for row in rows:
            row["right"] = row["review"].split()[2] if row["number"] % 2 else ""
        self.write("in.jsonl", rows)
        job = ["map", self.path("in.jsonl"), "--columns", "review", "How was it?", "--choices", "good,broken,late"]
        plain = self.printed(*job)
        self.assertNotIn("calibrated", plain[0])
        for row, before in zip(self.printed(*job, "--label", "right"), plain):
            calibrated = row.pop("calibrated")
            self.assertEqual(row, before)
            self.assertAlmostEqual(sum(calibrated), 1.0, delta=0.001)
            self.assertGreaterEqual(calibrated[row["choice"]], max(calibrated) - 0.0002)

    def test_labels_that_are_none(self):
        self.labelled(every=40)
        job = ["filter", self.path("in.jsonl"), *STATEMENT, "--label"]
        self.assertIn("--label right: expected 20 labelled rows or more, true and false ones, found 5",
                      self.table(*job, "right", code=2).stderr)
        self.assertIn("found 0", self.table(*job, "nothing", code=2).stderr)
        self.assertIn("row 1 of the table: the label in 'review': expected true or false", self.table(*job, "review", code=2).stderr)
        self.assertIn("expected one of good, bad, found", self.table(
            "map", self.path("in.jsonl"), "--columns", "review", "How?", "--choices", "good,bad", "--label", "city", code=2).stderr)
        self.assertIn("--choices", self.table("map", self.path("in.jsonl"), "--columns", "review", "How?", "--label", "city",
                                              code=2).stderr)


if __name__ == "__main__":
    unittest.main()
