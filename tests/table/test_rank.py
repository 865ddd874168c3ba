"""banyan rank, banyan group, and a filter by two models: what is made of all rows of a job."""
import csv
import json
import os
import random
import subprocess
import unittest

from tables import BANYAN, TableTest, reviews, tiny_model

ABOUT = ["--columns", "review,product"]


class Rank(TableTest):
    def setUp(self):
        super().setUp()
        self.given = reviews(40)
        self.write("in.jsonl", self.given)

    def test_by_the_probability_of_a_statement(self):
        judged = self.printed("filter", self.path("in.jsonl"), *ABOUT, "It was broken.", "--all")
        ranked = self.printed("rank", self.path("in.jsonl"), *ABOUT, "It was broken.")
        self.assertEqual([row["rank"] for row in ranked], list(range(1, 41)))
        scores = [row["score"] for row in ranked]
        self.assertEqual(scores, sorted(scores, reverse=True))
        probability = {row["id"]: row["probability"] for row in judged}
        for row in ranked:
            self.assertAlmostEqual(row["score"], probability[row["id"]], delta=0.0001)
            self.assertEqual(row["review"], self.given[row["number"]]["review"])

    def test_by_the_expected_value_of_numbers(self):
        ranked = self.printed("rank", self.path("in.jsonl"), *ABOUT, "How late was it?", "--choices", "1,2,10")
        for row in ranked:
            expected = sum(share * value for share, value in zip(row["probabilities"], (1, 2, 10)))
            self.assertAlmostEqual(row["score"], expected, delta=0.002)
        refused = self.table("rank", self.path("in.jsonl"), *ABOUT, "How late?", "--choices", "low,high", code=2)
        self.assertIn("expected numbers, whose expected value is the score; found 'low'", refused.stderr)

    def test_the_first_ones_and_equal_scores_in_the_inputs_order(self):
        every = self.printed("rank", self.path("in.jsonl"), *ABOUT, "It was broken.")
        self.assertEqual(self.printed("rank", self.path("in.jsonl"), *ABOUT, "It was broken.", "--top", 7), every[:7])
        for before, after in zip(every, every[1:]):
            if before["score"] == after["score"]:
                self.assertLess(before["number"], after["number"])

    def test_resumed_from_its_rows(self):
        output = self.path("out.jsonl")
        job = ["rank", self.path("in.jsonl"), *ABOUT, "It was broken.", "-o", output]
        self.table(*job)
        whole = self.bytes("out.jsonl")
        self.assertIn("is there already", self.table(*job, code=2).stderr)
        os.remove(output)
        rows = self.path("out.jsonl.rows.jsonl")
        with open(rows, "r+b") as file:
            file.truncate(os.path.getsize(rows) // 2)
        self.table(*job, "--resume", "--receipt", self.path("receipt.json"))
        self.assertEqual(self.bytes("out.jsonl"), whole)
        self.assertTrue(0 < self.json("receipt.json")["records_finished_before"] < 40)

    def test_a_table_with_errors_at_the_end(self):
        self.write("some.jsonl", [{"id": 1, "text": "one"}, {"id": 2}, {"id": 3, "text": "three"}])
        self.table("rank", self.path("some.jsonl"), "{text} is a number", "-o", self.path("out.csv"), code=1)
        with open(self.path("out.csv"), newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
        self.assertEqual([row["rank"] for row in found], ["1", "2", ""])
        self.assertIn("line 2: expected the column 'text'", found[2]["error"])


def sorted_by_pairs(leads, count):
    """Quicksort as `rank --pairwise` has it: all segments are divided at once, by their middle rows. `leads`: by how much
    a row leads another, of those in the order by score. The order, and how many pairs were compared."""
    order, segments, compared, rounds = list(range(count)), [(0, count)], 0, 0
    while segments and rounds < 2 * (count - 1).bit_length():
        found = []
        for begin, end in segments:
            pivot = order[begin + (end - begin) // 2]
            lead = {row: 0.0 if row == pivot else leads(row, pivot) for row in order[begin:end]}
            before = [row for row in order[begin:end] if lead[row] > 0]
            behind = [row for row in order[begin:end] if lead[row] < 0]
            order[begin:end] = before + [row for row in order[begin:end] if lead[row] == 0] + behind
            compared += end - begin - 1
            found += [(begin, begin + len(before)), (end - len(behind), end)]
        segments, rounds = [(begin, end) for begin, end in found if end - begin > 1], rounds + 1
    return order, compared


class Pairwise(TableTest):
    ROWS = 24

    def setUp(self):
        super().setUp()
        self.given = reviews(self.ROWS)
        self.write("in.jsonl", self.given)
        self.job = ["rank", self.path("in.jsonl"), *ABOUT, "It was broken.", "--pairwise", "-o", self.path("out.jsonl")]

    def test_sorted_by_the_difference_of_both_orders(self):
        said = self.table(*self.job, "--receipt", self.path("receipt.json")).stderr
        ranked = self.rows("out.jsonl")
        by_score = self.printed("rank", self.path("in.jsonl"), *ABOUT, "It was broken.")
        pairs = {row["id"]: row for row in self.rows("out.jsonl.pairs.jsonl")}

        def first_leads(first, second):
            scores = pairs[json.dumps([first, second], separators=(",", ":"))]["scores"]["sum"]
            return scores[0] - scores[1]

        ids = [row["id"] for row in by_score]
        order, compared = sorted_by_pairs(lambda a, b: first_leads(ids[a], ids[b]) - first_leads(ids[b], ids[a]), self.ROWS)
        self.assertEqual([row["id"] for row in ranked], [ids[place] for place in order])
        self.assertNotEqual(ids, [row["id"] for row in ranked])
        self.assertEqual({row["id"]: row["score"] for row in ranked}, {row["id"]: row["score"] for row in by_score})
        receipt = self.json("receipt.json")["comparisons"]
        self.assertEqual((receipt["pairs"], 2 * compared), (compared, len(pairs)))
        self.assertIn(f"{self.ROWS} rows are compared: about", said)

    def test_a_pair_has_the_answer_of_its_prompt_alone(self):
        self.table(*self.job)
        some = self.rows("out.jsonl.pairs.jsonl")[:: 17]
        self.write("pairs.jsonl", [{name: row[name] for name in ("id", "first", "second")} for row in some])
        for row in some:
            self.write("one.jsonl", [{name: row[name] for name in ("id", "first", "second")}])
            alone = self.printed("map", self.path("one.jsonl"), "--columns", "first,second", "--choices", "first,second",
                                 "Of which is this more true, the first or the second: It was broken.")
            self.assertEqual(alone, [row])

    def test_equal_rows_keep_their_order(self):
        self.write("in.jsonl", [{**row, "review": "It was late.", "product": "a lamp"} for row in self.given])
        self.table(*self.job)
        self.assertEqual([row["number"] for row in self.rows("out.jsonl")], list(range(self.ROWS)))

    def test_the_first_ones_take_fewer_pairs(self):
        self.table(*self.job, "--receipt", self.path("receipt.json"))
        every = self.rows("out.jsonl")
        self.table(*self.job, "--overwrite", "--top", 3, "--receipt", self.path("top.json"))
        self.assertEqual(self.rows("out.jsonl"), every[:3])
        self.assertLess(self.json("top.json")["comparisons"]["pairs"], self.json("receipt.json")["comparisons"]["pairs"])

    def test_what_it_costs_is_told_before(self):
        found = json.loads(self.table(*self.job, "--dry-run", "--quiet").stdout)
        single = json.loads(self.table("rank", self.path("in.jsonl"), *ABOUT, "It was broken.", "--dry-run", "--quiet").stdout)
        self.assertNotIn("comparisons", single)
        costs = found["comparisons"]
        self.assertTrue(self.ROWS < costs["pairs"] < costs["most_pairs"])
        self.assertGreater(found["prompt_tokens"], single["prompt_tokens"] + 2 * costs["pairs"] * 40)
        self.assertFalse(os.path.exists(self.path("out.jsonl")))

    def test_resumed_in_the_middle(self):
        self.table(*self.job)
        whole = self.bytes("out.jsonl")
        os.remove(self.path("out.jsonl"))
        pairs = self.path("out.jsonl.pairs.jsonl")
        with open(pairs, "r+b") as file:
            file.truncate(os.path.getsize(pairs) // 2)
        self.table(*self.job, "--resume")
        self.assertEqual(self.bytes("out.jsonl"), whole)
        os.remove(self.path("out.jsonl"))
        os.remove(self.path("out.jsonl.rows.jsonl"))  # the scores are asked again
        os.remove(self.path("out.jsonl.rows.jsonl.journal"))
        self.table(*self.job, "--resume", "--order", "auto")
        self.assertEqual(sorted(row["id"] for row in self.rows("out.jsonl")), sorted(row["id"] for row in self.given))

    def test_statements_with_fields_and_rows_with_errors(self):
        self.write("some.jsonl", [{"id": 1, "text": "one"}, {"id": 2}, {"id": 3, "text": "three"}, {"id": 4, "text": "{six}"}])
        self.table("rank", self.path("some.jsonl"), "{text} is a {{number}}", "--pairwise", "-o", self.path("out.jsonl"), code=1)
        rows = self.rows("out.jsonl")
        self.assertEqual([row.get("rank") for row in rows], [1, 2, 3, None])
        pairs = self.rows("out.jsonl.pairs.jsonl")
        self.assertIn("{six} is a {number}", {row["first"] for row in pairs})

    def test_refused(self):
        for more, message in ((["--choices", "1,2"], "asks of which row the statement is more true"),
                              (["--shard", "1/2"], "compares rows of the whole table")):
            self.assertIn(message, self.table(*self.job, *more, code=2).stderr)
        self.assertIn("--pairwise", self.table("map", self.path("in.jsonl"), *ABOUT, "What?", "--pairwise", code=2).stderr)


class Group(TableTest):
    def test_by_labels(self):
        rows = reviews(40)
        self.write("in.jsonl", rows)
        mapped = self.printed("map", self.path("in.jsonl"), *ABOUT, "How was it?", "--choices", "good,broken,late")
        groups = self.printed("group", self.path("in.jsonl"), *ABOUT, "How was it?", "--choices", "good,broken,late")
        self.assertEqual({group["group"] for group in groups}, {"good", "broken", "late"})
        self.assertEqual([group["rows"] for group in groups], sorted((group["rows"] for group in groups), reverse=True))
        for group in groups:
            members = [row["id"] for row in mapped if row["answer"] == group["group"]]
            self.assertEqual((group["rows"], group["members"]), (len(members), members))

    def test_by_answers(self):
        self.write("in.jsonl", [{"id": i, "text": text} for i, text in enumerate(["one", "two", "one", "three", "one"])] +
                   [{"id": 9}])
        mapped = self.printed("map", self.path("in.jsonl"), "{text}", "--max-new", 3, code=1)
        groups = self.printed("group", self.path("in.jsonl"), "{text}", "--max-new", 3, code=1)
        self.assertEqual(groups[-1]["id"], 9)
        self.assertIn("expected the column 'text'", groups[-1]["error"]["message"])
        self.assertEqual(sum(group["rows"] for group in groups[:-1]), 5)
        first = next(group for group in groups if 0 in group.get("members", []))
        self.assertEqual([row["id"] for row in mapped if row.get("answer") == mapped[0]["answer"]], first["members"])


class TwoModels(TableTest):
    """Random models: nothing that they say is right, so labels are made from what they say."""

    STATEMENT = [*ABOUT, "It was broken."]

    def setUp(self):
        super().setUp()
        self.large = tiny_model(layers=3)
        draw = random.Random(3)
        words = ["lamp", "hose", "kettle", "rope", "boat", "tar", "pier", "oar", "sail", "net"]
        self.given = [{"id": i, "product": " ".join(draw.choices(words, k=3)), "review": " ".join(draw.choices(words, k=4))}
                      for i in range(300)]
        self.write("in.jsonl", self.given)

    def judged(self, model, *arguments):
        rows = subprocess.run([BANYAN, "filter", self.path("in.jsonl"), *self.STATEMENT, "--all", "-m", model, "--quiet", *arguments,
                               "--threads", "1"], capture_output=True, check=True, timeout=300).stdout.splitlines()
        return [json.loads(row) for row in rows]

    def label(self, labels):
        self.write("in.jsonl", [{**row, "label": label} for row, label in zip(self.given, labels)])

    def run_both(self, *arguments, code=0):
        return self.table("filter", self.path("in.jsonl"), *self.STATEMENT, "--large", self.large, *arguments, code=code)

    def test_small_decides_what_it_is_sure_of(self):
        small = self.judged(self.model)
        ordered = sorted(row["probability"] for row in small)
        self.assertGreater(len(set(ordered)), 100)
        # True of the upper third by the small model, which is therefore always right.
        self.label([row["probability"] >= ordered[200] for row in small])
        output = self.path("out.jsonl")
        found = self.run_both("--precision", 0.3, "--label", "label", "--all", "-o", output, "--receipt", self.path("both.json"))
        self.table("filter", self.path("in.jsonl"), *self.STATEMENT, "-o", self.path("one.jsonl"), "--receipt", self.path("one.json"))
        both, one = self.json("both.json"), self.json("one.json")
        self.assertEqual(both["prompt_tokens"], 2 * one["prompt_tokens"])  # every row is labelled: the large one reads all, too
        self.assertGreater(both["weight_bytes"], 2 * one["weight_bytes"])
        rows = self.rows("out.jsonl")
        self.assertEqual([row["id"] for row in rows], list(range(300)))
        by_small = [row for row in rows if row["decided_by"] == "small"]
        self.assertTrue(0 < len(by_small) < 300, found.stderr)
        large = {row["id"]: row for row in self.judged(self.large)}
        for row in rows:
            if row["decided_by"] == "large":
                self.assertEqual((row["keep"], row["probability"]), (large[row["id"]]["keep"], large[row["id"]]["probability"]))
            else:
                self.assertTrue(row["keep"])  # nothing was promised of recall: nothing is dropped
        kept = [row for row in rows if row["keep"]]
        self.assertGreaterEqual(sum(row["label"] for row in kept) / len(kept), 0.3)
        self.assertIn("precision 0.3 or more with 95 % confidence", found.stderr)

    def test_by_labels_of_the_large_model_and_resumed(self):
        job = ["--recall", 0.6, "--sample", 100, "-o", self.path("out.jsonl"), "--order", "auto"]
        large = self.judged(self.large, "--order", "auto")
        keeps = [row["keep"] for row in large]
        if not 10 < sum(keeps) < 290:
            self.skipTest("the random model says always the same")
        self.run_both(*job)
        kept = {row["id"] for row in self.rows("out.jsonl")}
        of_true = [row["id"] in kept for row in large if row["keep"]]
        self.assertGreaterEqual(sum(of_true) / len(of_true), 0.6)
        whole = self.bytes("out.jsonl")
        os.remove(self.path("out.jsonl"))
        for name in ("out.jsonl.small.jsonl", "out.jsonl.large.jsonl"):
            with open(self.path(name), "r+b") as file:
                file.truncate(os.path.getsize(self.path(name)) // 2)
        self.run_both(*job, "--resume")
        self.assertEqual(self.bytes("out.jsonl"), whole)

    def test_what_cannot_be_promised_is_refused(self):
        self.label([None] * 290 + [True, False] * 5)
        self.assertIn("needs a sample of which each half has 72 rows that are true, found",
                      self.run_both("--recall", 0.95, "--label", "label", "-o", self.path("a.jsonl"), code=2).stderr)
        self.label([None] * 299 + ["maybe"])
        self.assertIn("the label in 'label': expected true or false, found \"maybe\"",
                      self.run_both("--recall", 0.5, "--label", "label", "-o", self.path("b.jsonl"), code=2).stderr)
        self.assertIn("expected --large MODEL", self.table("filter", self.path("in.jsonl"), *self.STATEMENT, "--recall", 0.9,
                                                           code=2).stderr)
        self.assertIn("expected --recall or --precision", self.run_both(code=2).stderr)
        self.assertIn("promise something of a whole table", self.run_both("--recall", 0.9, "--limit", 5, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
