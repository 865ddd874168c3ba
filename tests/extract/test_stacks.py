"""`banyan extract --stack`: several documents in one prompt."""
import json
import unittest

from harness import SCHEMA, ExtractTest, documents


class Stacks(ExtractTest):
    def test_every_document_has_its_row_in_order(self):
        docs = [dict(d, source=i) for i, d in enumerate(documents(11))]
        for mode in ("skeleton", "isolated"):
            rows = self.extract(docs, SCHEMA, "--stack", 4, "--values", mode)
            self.assertEqual([(r["id"], r["source"]) for r in rows], [(d["id"], d["source"]) for d in docs])
            self.assertEqual([r["stacked"] for r in rows], [4] * 8 + [3] * 3)
            for row in rows:
                self.assertEqual(list(row["values"]), [a["name"] for a in SCHEMA["attributes"]])
                self.assertIn(row["values"]["colour"], ["black", "white", "deep red", None])

    def test_strategies_batches_and_company_change_nothing(self):
        docs = documents(12)
        first = self.extract(docs, SCHEMA, "--stack", 3)
        for more in (["--strategy", "flat"], ["--strategy", "stacked"], ["--batch-rows", "7"], ["--device", "cpu,cpu"]):
            self.assertEqual(self.extract(docs, SCHEMA, "--stack", 3, *more), first)
        self.assertEqual(self.extract(docs[3:6], SCHEMA, "--stack", 3), first[3:6])

    def test_a_stack_of_one_writes_what_no_stack_writes_but_for_the_prompt(self):
        one = self.extract(documents(2), SCHEMA, "--stack", 1)
        self.assertEqual(one, self.extract(documents(2), SCHEMA))
        self.assertNotIn("stacked", one[0])

    def test_the_layout_of_a_stack_is_one_line(self):
        docs, schema = self.write("d.jsonl", documents(5)), self.write("s.json", SCHEMA)
        layout = ["extract", "-m", self.model, docs, "--schema", schema, "--quiet", "--layout"]
        rows = [json.loads(line) for line in self.run_banyan(*layout, "--stack", 2).stdout.splitlines()]
        self.assertEqual([r.get("ids", [r["id"]]) for r in rows], [[d["id"] for d in documents(5)[n:n + 2]] for n in (0, 2, 4)])
        names = [a["name"] for a in SCHEMA["attributes"]]
        self.assertEqual([p["name"] for p in rows[0]["pieces"]], names * 2)
        self.assertEqual(rows[0]["pieces"][0]["text"], '{"1": {' + json.dumps(names[0]) + ":")
        self.assertEqual(rows[0]["pieces"][len(names)]["text"], '},\n"2": {' + json.dumps(names[0]) + ":")
        for row, count in zip(rows, (2, 2, 1)):
            self.assertEqual(len(row["slots"]), count * len(names))
            end = len(row["prompt"])
            for slot in row["slots"]:  # a slot begins where the room of the one before it ends
                self.assertEqual(slot["position"], end)
                end = slot["position"] + len(slot["tokens"]) + slot["max_tokens"]
        alone = [json.loads(line) for line in self.run_banyan(*layout).stdout.splitlines()]
        self.assertEqual([r["id"] for r in alone], [d["id"] for d in documents(5)])

    def test_a_stack_has_one_category(self):
        schema = {"categories": {"shoe": {"attributes": [{"name": "size"}]},
                                 "tv": {"attributes": [{"name": "inches", "type": "integer"}]}}}
        docs = [{"id": i, "text": "x", "category": c} for i, c in enumerate(["shoe", "shoe", "tv", "shoe", "boat", "shoe"])]
        rows = self.extract(docs, schema, "--stack", 8, code=1)
        self.assertEqual([r["id"] for r in rows], list(range(6)))
        self.assertEqual([r.get("stacked") for r in rows], [2, 2, 1, 1, None, 1])
        self.assertIn("no category 'boat'", rows[4]["error"]["message"])

    def test_goes_on_with_the_same_stacks(self):
        docs, schema = self.write("d.jsonl", documents(14)), self.write("s.json", SCHEMA)
        arguments = ["extract", "-m", self.model, docs, "--schema", schema, "--quiet", "--threads", "1", "--ordered",
                     "--stack", 4, "-o"]
        self.run_banyan(*arguments, self.path("whole.jsonl"))
        whole = self.rows(self.path("whole.jsonl"))
        self.run_banyan(*arguments, self.path("part.jsonl"), "--limit", 4)
        self.run_banyan(*arguments, self.path("part.jsonl"), "--resume")
        self.assertEqual(self.rows(self.path("part.jsonl")), whole)
        # The second stack has two rows already: the others of it are what they would have been.
        self.run_banyan(*arguments, self.path("torn.jsonl"), "--limit", 6)
        self.run_banyan(*arguments, self.path("torn.jsonl"), "--resume")
        torn = self.rows(self.path("torn.jsonl"))
        self.assertEqual([r["stacked"] for r in torn], [4] * 4 + [2] * 2 + [4] * 6 + [2] * 2)
        self.assertEqual(torn[:4] + torn[6:], whole[:4] + whole[6:])
        result = self.run_banyan(*[5 if a == 4 else a for a in arguments], self.path("part.jsonl"), "--resume", code=2)
        self.assertIn("--stack", result.stderr)

    def test_one_long_document_is_cut_and_the_others_are_whole(self):
        docs = documents(3)
        docs[1]["text"] = "word " * 3000
        self.assertEqual({r["error"]["kind"] for r in self.extract(docs, SCHEMA, "--stack", 3, code=1)}, {"limit"})
        rows = self.extract(docs, SCHEMA, "--stack", 3, "--too-long", "truncate")
        self.assertEqual([r.get("cut_bytes", 0) > 0 for r in rows], [False, True, False])

    def test_shows_and_estimates(self):
        docs, schema = self.write("d.jsonl", documents(5)), self.write("s.json", SCHEMA)
        arguments = ["extract", "-m", self.model, docs, "--schema", schema, "--stack", 2]
        shown = self.run_banyan(*arguments, "--show-prompt").stdout.decode()
        for part in ("by the document's number", "Document 1:\n" + documents(1)[0]["text"], "\n\nDocument 2:\n",
                     '{"1": {"brand": …,\n"weight": …', '…},\n"2": {"brand": …'):
            self.assertIn(part, shown)
        self.assertTrue(shown.rstrip().endswith("…}}"))
        estimate = json.loads(self.run_banyan(*arguments, "--dry-run").stdout)
        self.assertEqual((estimate["records"], estimate["rows"], estimate["error_rows"]), (5, 5, 0))

    def test_refuses_what_a_stack_cannot_have(self):
        docs, schema = self.write("d.jsonl", documents(1)), self.write("s.json", SCHEMA)
        for more, said in ((["--values", "sequential"], "skeleton or isolated"), (["--template", "{id} {document}"], "{id}")):
            result = self.run_banyan("extract", "-m", self.model, docs, "--schema", schema, "--stack", 2, *more, code=2)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
