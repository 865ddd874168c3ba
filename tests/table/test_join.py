"""banyan join: pairs of two tables of which a statement is true."""
import csv
import pathlib
import sys
import unittest

from tables import TableTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rag"))
import tiny_encoder  # noqa: E402

STATEMENT = "{left.name} is the same as {right.title}."


class Join(TableTest):
    def setUp(self):
        super().setUp()
        self.write("left.jsonl", [{"id": f"l{i}", "name": name, "price": i} for i, name in enumerate(
            ["Kelvora kettle 200", "Ostra lamp small", "Teal rope", "no such words"])])
        with open(self.path("right.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["sku", "title", "stock"])
            writer.writerows([["k1", "kettle by Kelvora", 3], ["k2", "steel kettle", 4], ["o1", "lamp Ostra", 5],
                              ["r1", "rope", 6], ["x1", "garden hose", 7]])

    def join(self, *arguments, code=0):
        return self.printed("join", self.path("left.jsonl"), self.path("right.csv"), STATEMENT, *arguments, code=code)

    def test_candidates_by_shared_words(self):
        pairs = self.join("--all")
        self.assertEqual({(row["left.id"], row["right.id"]) for row in pairs},
                         {("l0", "k1"), ("l0", "k2"), ("l1", "o1"), ("l2", "r1")})
        self.assertEqual(pairs[0]["id"], '["l0","k1"]')  # the best candidate first
        first = pairs[0]
        self.assertEqual((first["left.price"], first["right.title"], first["right.stock"]), (0, "kettle by Kelvora", "3"))
        self.assertEqual([(row["left.id"], row["right.id"]) for row in self.join("--all", "--candidates", 1)],
                         [("l0", "k1"), ("l1", "o1"), ("l2", "r1")])

    def test_candidates_by_vectors(self):
        self.write("left.jsonl", [{"id": "l0", "name": "ferry"}, {"id": "l1", "name": "tea"}])
        with open(self.path("right.csv"), "w", encoding="utf-8") as file:
            file.write("sku,title\nb,boat\nd,drink\n")
        self.assertEqual(self.join("--all"), [])  # no word is shared
        encoder = tiny_encoder.write(pathlib.Path(self.path("encoder")), [["ferry", "boat"], ["tea", "drink"]])
        pairs = self.join("--all", "--encoder", encoder, "--candidates", 1)
        self.assertEqual([row["id"] for row in pairs], ['["l0","b"]', '["l1","d"]'])
        self.assertEqual(len(self.join("--all", "--encoder", encoder)), 4)

    def test_kept_pairs_are_those_of_the_filter(self):
        judged = self.join("--all")
        threshold = sorted(row["probability"] for row in judged)[2]
        kept = self.join("--threshold", threshold)
        self.assertEqual([row["id"] for row in kept], [row["id"] for row in judged if row["probability"] >= threshold])

    def test_a_pair_is_asked_as_a_row_of_a_table(self):
        judged = self.join("--all")
        self.write("pairs.jsonl", [{"id": row["id"], "left": row["left.name"], "right": row["right.title"]} for row in judged])
        alone = self.printed("filter", self.path("pairs.jsonl"), "{left} is the same as {right}.", "--all")
        self.assertEqual([row["probability"] for row in alone], [row["probability"] for row in judged])

    def test_resumed(self):
        job = ["join", self.path("left.jsonl"), self.path("right.csv"), STATEMENT, "--all", "--order", "auto"]
        self.table(*job, "-o", self.path("out.jsonl"), "--limit", 2)
        self.assertEqual(len(self.rows("out.jsonl")), 2)
        self.table(*job, "-o", self.path("out.jsonl"), "--resume")
        self.table(*job, "-o", self.path("whole.jsonl"))
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))

    def test_rows_that_cannot_be_read(self):
        self.write("left.jsonl", [{"id": 1, "name": "Kelvora kettle"}, {"id": 2}, b"no json\n", {"id": 1, "name": "lamp"}])
        found = self.join("--all", code=1)
        messages = [row["error"]["message"] for row in found if "error" in row]
        for line, (message, wanted) in enumerate(zip(messages, ["expected the column 'name'", "not valid JSON", "same id"]), 2):
            self.assertIn(f"{self.path('left.jsonl')}, line {line}: ", message)
            self.assertIn(wanted, message)
        self.assertEqual(len(messages), 3)

    def test_wrong_statements_and_columns(self):
        for statement, wanted in (("{left.name} is good.", "names no column of the right table"),
                                  ("{name} is {right.title}.", "expected columns as {left.NAME} and {right.NAME}, found 'name'"),
                                  ("{left.name} is {right.name}.", "expected a column 'name'; the header has sku, title, stock")):
            refused = self.table("join", self.path("left.jsonl"), self.path("right.csv"), statement, code=2)
            self.assertIn(wanted, refused.stderr)
        self.assertIn("expected two tables and a statement",
                      self.table("join", self.path("left.jsonl"), STATEMENT, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
