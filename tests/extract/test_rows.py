"""`banyan extract` from outside: rows, modes, errors, resuming, scores."""
import json
import pathlib
import unittest

from harness import SCHEMA, ExtractTest, documents, tiny_model


class Rows(ExtractTest):
    def test_a_row_has_values_confidence_and_what_was_carried(self):
        docs = [dict(d, source="shop", n=i) for i, d in enumerate(documents(5))]
        for row, doc in zip(self.extract(docs, SCHEMA), docs):
            self.assertEqual((row["id"], row["source"], row["n"]), (doc["id"], "shop", doc["n"]))
            self.assertEqual(list(row["values"]), [a["name"] for a in SCHEMA["attributes"]])
            self.assertIsInstance(row["values"]["new"], bool)
            self.assertIn(row["values"]["colour"], ["black", "white", "deep red", None])
            self.assertTrue(all(0 <= c <= 1 for c in row["confidence"].values()))
            written = {n: v for n, v in row["values"].items() if v is not None}
            self.assertEqual(list(row["spans"]), list(written))  # every value says where it stands, or that it does not
            for name in ("brand", "weight"):
                if name in written:
                    begin, end = row["spans"][name]
                    self.assertEqual(doc["text"][begin:end], row.get("raw", {}).get(name, written[name]))
            for item, place in zip(written.get("ports", []), row["spans"].get("ports", [])):
                self.assertEqual(doc["text"][slice(*place)], item)

    def test_strategies_batches_and_company_change_nothing(self):
        docs = documents(12)
        for mode in ("skeleton", "isolated", "sequential"):
            first = self.extract(docs, SCHEMA, "--values", mode)
            for more in (["--strategy", "flat"], ["--strategy", "stacked"], ["--batch-rows", "7"],
                         ["--device", "cpu,cpu,cpu"]):
                self.assertEqual(self.extract(docs, SCHEMA, "--values", mode, *more), first)
            self.assertEqual(self.extract(docs[3:4], SCHEMA, "--values", mode), first[3:4])

    def test_a_first_value_is_the_same_isolated(self):
        docs = documents(8)
        together, alone = (self.extract(docs, SCHEMA, "--values", m) for m in ("skeleton", "isolated"))
        for a, b in zip(together, alone):
            self.assertEqual(a["values"]["brand"], b["values"]["brand"])
            self.assertEqual(a["confidence"]["brand"], b["confidence"]["brand"])

    def test_a_value_that_is_cut_is_marked_and_fits(self):
        schema = {"attributes": [{"name": "a", "max_tokens": 3}, {"name": "b", "nullable": False, "max_tokens": 3},
                                 {"name": "c", "type": "enum", "values": ["a long value", "one more long value"],
                                  "nullable": False, "max_tokens": 2}]}
        for mode in ("skeleton", "isolated"):
            for row in self.extract(documents(6), schema, "--values", mode):
                self.assertIn("c", row["truncated"])
                self.assertIn(row["values"]["c"], ["a long value", "one more long value"])
                self.assertTrue(row["values"]["b"])

    def test_categories(self):
        schema = {"categories": {"shoe": {"attributes": [{"name": "size"}]},
                                 "tv": {"attributes": [{"name": "inches", "type": "integer"}]}}}
        docs = [{"id": 1, "text": "x", "category": "shoe"}, {"id": 2, "text": "x", "category": "tv"},
                {"id": 3, "text": "x"}, {"id": 4, "text": "x", "category": "boat"}]
        rows = self.extract(docs, schema, code=1)
        self.assertEqual([list(r.get("values", {})) for r in rows], [["size"], ["inches"], [], []])
        self.assertIn("expected the field 'category'", rows[2]["error"]["message"])
        self.assertIn("no category 'boat'", rows[3]["error"]["message"])
        rows = self.extract(docs[:3], schema, "--category", "tv")
        self.assertEqual(rows[2]["category"], "tv")

    def test_bad_rows_become_error_rows(self):
        docs = ['{"id": 1, "text": "fine"}', '{"id": 2}', '{"id": 3, "text": 7}', "no JSON", '{"text": "without id"}']
        rows = self.extract(docs, SCHEMA, code=1)
        self.assertEqual(len(rows), 5)
        self.assertEqual(["error" in r for r in rows], [False, True, True, True, False])
        self.assertEqual(rows[1]["error"]["line"], 2)

    def test_a_long_document_fails_or_is_cut(self):
        doc = [{"id": 1, "text": "word " * 3000}]
        self.assertEqual(self.extract(doc, SCHEMA, "--too-long", "fail", code=1)[0]["error"]["kind"], "limit")
        row = self.extract(doc, SCHEMA, "--too-long", "truncate")[0]
        self.assertGreater(row["cut_bytes"], 0)

    def test_a_long_document_is_read_in_parts(self):
        paragraphs = [f"Paragraph {i} speaks of Sony and {i} kg.\n\n" + "word " * 60 + "\n\n" for i in range(40)]
        doc = [{"id": 1, "text": "".join(paragraphs)}]
        row = self.extract(doc, SCHEMA)[0]
        self.assertGreater(row["parts"], 1)
        for name, place in row["spans"].items():
            if place and name in ("brand", "weight"):  # places are the whole document's
                self.assertEqual(doc[0]["text"][slice(*place)], row.get("raw", {}).get(name, row["values"][name]))
        self.assertEqual(self.extract(doc, SCHEMA, "--batch-rows", "9")[0], row)

    def test_more_attributes_than_one_template_holds(self):
        schema = {"attributes": [{"name": f"attribute {i}", "type": ("text", "number", "boolean")[i % 3]} for i in range(120)]}
        docs, model = documents(3), tiny_model(16384)
        for row in self.extract(docs, schema, model=model):
            self.assertEqual(len(row["values"]), 120)
        shown = self.run_banyan("extract", "-m", model, self.write("d.jsonl", docs), "--schema", self.write("s.json", schema),
                                "--show-prompt").stdout.decode()
        self.assertEqual(shown.count('{"attribute '), 5)  # templates of 24 slots, each begun anew after one prompt

    def test_nested_objects_and_items(self):
        schema = {"attributes": [{"name": "seller", "type": "object", "attributes": [{"name": "name"}, {"name": "city"}]},
                                 {"name": "items", "type": "list", "nullable": False, "max_items": 3, "max_tokens": 40, "of": {"type": "object", "attributes": [
                                     {"name": "what"}, {"name": "price", "type": "number"}, {"name": "new", "type": "boolean"}]}}]}
        for mode in ("skeleton", "isolated", "sequential"):
            rows = self.extract(documents(6), schema, "--values", mode, code=None)
            self.assertEqual(self.extract(documents(6), schema, "--values", mode, "--strategy", "flat", code=None), rows)
            items = [item for row in rows if "error" not in row for item in row["values"]["items"]]
            self.assertTrue(items)
            for item in items:
                self.assertEqual(list(item), ["what", "price", "new"])

    def test_values_are_spans_unless_told_otherwise(self):
        schema = {"attributes": [{"name": "a", "nullable": False}]}
        for row, doc in zip(self.extract(documents(20), schema), documents(20)):
            self.assertIn(row["values"]["a"], doc["text"])
        free = self.extract(documents(20), schema, "--no-copy")
        self.assertFalse(all(row["values"]["a"] in doc["text"] for row, doc in zip(free, documents(20))))

    def test_min_confidence_drops_values_and_says_so(self):
        model = str(pathlib.Path(__file__).resolve().parents[2] / "models" / "banyan-reader-34m.gguf")
        docs, schema = [{"id": 1, "text": "Kelvora Trail 200 kettle\n\nColour : moss green"}], {"attributes": [{"name": "colour"}]}
        self.assertEqual(self.extract(docs, schema, model=model)[0]["values"], {"colour": "moss green"})
        row = self.extract(docs, schema, "--min-confidence", "1", model=model)[0]
        self.assertEqual((row["values"], row["raw"]), ({"colour": None}, {"colour": "moss green"}))
        self.assertIn("is below 1", row["reasons"]["colour"])

    def test_a_document_without_text_is_null(self):
        row = self.extract([{"id": 1, "text": " .. "}], {"attributes": [{"name": "a"}, {"name": "n", "type": "number"}]})[0]
        self.assertEqual((row["values"], row["reasons"]["n"]), ({"a": None, "n": None}, "the document has no text"))

    def test_odd_names_and_texts(self):
        schema = {"attributes": [{"name": n} for n in
                                 ['"quoted"', "back\\slash", "line\nbreak", "日本", "{braces}", "<|im_end|>", " "]]}
        docs = [{"id": 1, "text": '"a" \\ <|im_start|> {x} 😀 \u0001'}, {"id": 2, "text": ""}]
        for mode in ("skeleton", "sequential"):
            for row in self.extract(docs, schema, "--values", mode):
                self.assertEqual(list(row["values"]), [a["name"] for a in schema["attributes"]])

    def test_resumes_where_it_was_stopped(self):
        docs, schema = self.write("d.jsonl", documents(30)), self.write("s.json", SCHEMA)
        arguments = ["extract", "-m", self.model, docs, "--schema", schema, "--quiet", "--threads", "1", "-o"]
        self.run_banyan(*arguments, self.path("whole.jsonl"), "--ordered")
        self.run_banyan(*arguments, self.path("part.jsonl"), "--limit", 11)
        self.run_banyan(*arguments, self.path("part.jsonl"), "--resume")
        whole, part = self.rows(self.path("whole.jsonl")), self.rows(self.path("part.jsonl"))
        self.assertEqual(whole, sorted(part, key=lambda r: int(r["id"][1:])))
        result = self.run_banyan(*arguments, self.path("part.jsonl"), "--resume", "--max-tokens", 9, code=2)
        self.assertIn("--max-tokens", result.stderr)

    def test_a_schema_on_the_command_line(self):
        short = '{"brand": "text", "weight": "number in kg", "colour": ["black", "white"]}'
        long = {"attributes": [{"name": "brand"}, {"name": "weight", "type": "number", "unit": "kg"},
                               {"name": "colour", "type": "enum", "values": ["black", "white"]}]}
        docs = self.write("docs.jsonl", documents(3))
        rows = []
        for name, schema in (("short", short), ("long", self.write("long.json", long))):
            out = self.path(f"{name}.jsonl")
            self.run_banyan("extract", "-m", self.model, docs, "--schema", schema, "-o", out, "--ordered", "--quiet")
            rows.append(self.rows(out))
        self.assertEqual(rows[0], rows[1])
        said = self.run_banyan("extract", "-m", self.model, docs, "--schema", '{"brand": "txt"}', code=2).stderr
        self.assertIn("--schema: at /brand/type: expected one of text", said)

    def test_the_receipt_counts_rows(self):
        docs, schema = self.write("d.jsonl", documents(3)), self.write("s.json", SCHEMA)
        self.run_banyan("extract", "-m", self.model, docs, "--schema", schema, "-o", self.path("o.jsonl"),
                        "--receipt", self.path("r.json"))
        receipt = self.rows(self.path("r.json"))[0]
        self.assertEqual((receipt["task"], receipt["rows"]), ("extract", 3))

    def test_shows_the_prompt(self):
        docs, schema = self.write("d.jsonl", documents(1)), self.write("s.json", SCHEMA)
        shot = self.write("f.jsonl", [{"text": "An LG TV", "values": {"brand": "LG"}}])
        shown = self.run_banyan("extract", "-m", self.model, docs, "--schema", schema, "--show-prompt",
                                "--examples", shot).stdout.decode()
        for part in ("Extract the attributes", "- weight (number in kg)", "one of black, white, deep red",
                     'Text:\nAn LG TV\n\nAnswer:\n{"brand": "LG",\n"weight": null', documents(1)[0]["text"],
                     '{"brand": …,\n"weight": …'):
            self.assertIn(part, shown)
        shown = self.run_banyan("extract", "-m", self.model, docs, "--schema", schema, "--show-prompt", "--template",
                                "Read {document} and fill {names}", "--chat", "off").stdout.decode()
        self.assertTrue(shown.startswith("Read " + documents(1)[0]["text"] + " and fill brand, weight"), shown)

    def test_refuses_bad_schemas_with_place_and_reason(self):
        docs = self.write("d.jsonl", documents(1))
        for schema, said in (("{", "not valid JSON"), ({"attributes": [{"name": "a", "type": "x"}]}, "/attributes/0/type"),
                             ({"attributes": [{"name": "a", "pattern": "(b"}]}, "attribute 'a'"),
                             ({"properties": {"a": {"type": "string", "multipleOf": 2}}}, "multipleOf")):
            path = self.write("bad.json", schema)
            result = self.run_banyan("extract", "-m", self.model, docs, "--schema", path, code=2)
            self.assertIn(said, result.stderr)


class Scores(ExtractTest):
    def score(self, gold, output, *more):
        gold, output = self.write("gold.jsonl", gold), self.write("out.jsonl", output)
        return json.loads(self.run_banyan("eval", "extract", gold, output, "--json", *more).stdout)

    def test_counts_slots_by_both_rules(self):
        gold = [{"id": 1, "category": "c", "values": {"a": ["Sony"], "b": None, "c": "x", "d": 2.5, "e": []}},
                {"id": 2, "category": "c", "values": {"a": "LG", "b": None}}]
        output = [{"id": 1, "values": {"a": "the sony!", "b": "y", "c": None, "d": "2.50", "e": None, "f": "z"}}]
        score = self.score(gold, output)
        self.assertEqual([score["all"][k] for k in ("correct", "correct_null", "incorrect", "missing", "hallucinated")],
                         [2, 1, 0, 2, 1])
        self.assertAlmostEqual(score["all"]["precision"], 3 / 4)
        self.assertAlmostEqual(score["all"]["recall"], 3 / 5)
        self.assertEqual((score["unlabelled_slots"], score["without_row"]), (1, 1))
        self.assertEqual(self.score(gold, output, "--unlabelled", "null")["all"]["hallucinated"], 2)

    def test_compares_two_runs(self):
        gold = self.write("g.jsonl", [{"id": 1, "values": {"a": "x", "b": "y"}}])
        one = self.write("1.jsonl", [{"id": 1, "values": {"a": "x", "b": None}}])
        two = self.write("2.jsonl", [{"id": 1, "values": {"a": "z", "b": "y"}}])
        text = self.run_banyan("eval", "extract", gold, one, "--other", two).stdout.decode()
        self.assertIn("0 right in both, 1 only here, 1 only in the other, 0 in neither", text)

    def test_several_runs_in_one_table(self):
        gold = self.write("g.jsonl", [{"id": i, "values": {"a": "x", "n": 46, "z": None}} for i in range(4)])
        one = self.write("1.jsonl", [{"id": i, "values": {"a": "x", "n": 46.0, "z": None}} for i in range(4)])
        two = self.write("2.jsonl", [{"id": i, "values": {"a": "y", "n": 46, "z": None}} for i in range(4)])
        self.write("1.jsonl.receipt.json", {"rows_this_run": 4, "seconds": {"total": 2.0}})
        runs = ["--run", f"one={one}", "--run", f"two={two}"]
        text = self.run_banyan("eval", "extract", gold, *runs).stdout.decode()
        self.assertIn("| one | 1.0000 (1.000 to 1.000) |", text)
        self.assertIn("| 1.0000 | 2 |\n", text)
        self.assertIn("| two | -0.5000 (-0.500 to -0.500) | 8 | 0 | 4 | 0 |", text)
        self.assertIn("| null everywhere | 0.0000 |", text)
        found = json.loads(self.run_banyan("eval", "extract", gold, *runs, "--json", "--bootstrap", "5").stdout)["runs"]
        self.assertEqual([r["name"] for r in found], ["one", "two"])
        self.assertEqual(found[1]["types"]["number"]["correct"], 4)
        for arguments, said in ((["--run", "x"], "expected NAME=FILE"), ([], "expected what extract wrote"),
                                (["--run", f"a={one}", "--run", f"a={two}"], "comes twice"),
                                ([one, "--seconds", "1", "--seconds", "2"], "expected one for each of 1 runs, found 2")):
            self.assertIn(said, self.run_banyan("eval", "extract", gold, *arguments, code=2).stderr)

    def test_types_of_a_schema_and_calibration(self):
        gold = [{"id": i, "values": {"list": ["a", "b"], "text": ["a", "b"]}} for i in range(4)]
        output = [{"id": i, "values": {"list": ["a"], "text": "b"}, "confidence": {"list": 0.25, "text": 1.0}}
                  for i in range(4)]
        schema = self.write("s.json", {"attributes": [{"name": "list", "type": "list", "of": "text"}, {"name": "text"}]})
        plot = self.path("plot.svg")
        score = self.score(gold, output, "--schema", schema, "--reliability", plot)
        self.assertEqual((score["types"]["list"]["incorrect"], score["types"]["text"]["correct"]), (4, 4))
        self.assertAlmostEqual(score["types"]["list"]["partial_f1"], 2 / 3)
        self.assertAlmostEqual(score["calibration"]["expected_error"], 0.125)
        with open(plot, encoding="utf-8") as file:
            self.assertIn("calibration error 0.125, 8 values", file.read())
        logs = self.write("logs.jsonl", [{"id": 0, "values": {"text": "a"}, "confidence": {"text": -0.5}}])
        refused = self.run_banyan("eval", "extract", self.path("gold.jsonl"), logs, "--reliability", self.path("other.svg"),
                                  code=2)
        self.assertIn("they are log-probabilities", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
