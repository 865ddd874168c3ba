"""banyan filter: rows of which a statement is true."""
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


if __name__ == "__main__":
    unittest.main()
