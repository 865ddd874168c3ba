"""`banyan extract` over several documents of one thing: one row, each value with its document."""
import json
import pathlib
import re
import unittest

from harness import SCHEMA, ExtractTest, documents

NAMES = [a["name"] for a in SCHEMA["attributes"]]


def things(count: int, start: int = 0) -> list:
    """Things with one to four documents each, some of them without a word."""
    made = []
    for i in range(start, start + count):
        docs = [{"id": f"doc{k}", "text": d["text"]} for k, d in enumerate(documents(1 + i % 4, start=3 * i))]
        if i % 5 == 4:
            docs.append({"id": "empty", "text": " \n"})
        made.append({"id": f"thing{i}", "documents": docs, "shop": i})
    return made


def meaning(value, kind: str) -> str:
    if kind == "text":
        words = re.sub(r"[^\w\s]", "", value.lower()).split()
        plain = " ".join(w for w in words if w not in ("a", "an", "the"))
        return plain or value
    return repr(float(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)


def fused(rows: list, attribute: dict):
    """(value, probability) of a slot by the definition: products over documents, sums over values."""
    kind, name = attribute.get("type", "text"), attribute["name"]
    claims = [(r["values"][name], min(max(r["confidence"][name], 1e-6), 1 - 1e-6)) for r in rows]
    claims = [c for c in claims if c[0] is not None]
    if not claims:
        return None, min(r["confidence"][name] for r in rows)
    weights = {meaning(v, kind): 1.0 for v, _ in claims}
    others = {"boolean": 1, "enum": len(attribute.get("values", ())) - 1}.get(kind, max(10, len(weights)))
    for value, c in claims:
        weights[meaning(value, kind)] *= others * c / (1 - c)
    best = max(weights.values())
    return [v for v, _ in claims if weights[meaning(v, kind)] > best * (1 - 1e-3)], best / (sum(weights.values()) + others + 1 - len(weights))


class Things(ExtractTest):
    def assertPlaced(self, row, thing):
        """Every copied value stands in the document that it names."""
        texts = {d["id"]: d["text"] for d in thing["documents"]}
        for name in ("brand", "weight"):
            if row["values"][name] is not None:
                begin, end = row["spans"][name]
                self.assertEqual(texts[row["sources"][name]][begin:end], row.get("raw", {}).get(name, row["values"][name]))
        for item, place, source in zip(row["values"]["ports"] or [], row["spans"].get("ports", []), row.get("sources", {}).get("ports", [])):
            self.assertEqual(texts[source][slice(*place)], item)
        given = {n for n, v in row["values"].items() if v is not None}
        self.assertEqual(set(row.get("sources", {})), given)

    def test_values_are_those_of_the_documents_alone_fused(self):
        records = things(8)
        flat = [{"id": f"{t['id']}/{d['id']}", "text": d["text"]} for t in records for d in t["documents"] if d["text"].strip()]
        for mode in ("skeleton", "isolated", "sequential"):
            alone = {r["id"]: r for r in self.extract(flat, SCHEMA, "--values", mode)}
            for row, thing in zip(self.extract(records, SCHEMA, "--values", mode), records):
                self.assertEqual((row["id"], row["shop"]), (thing["id"], thing["shop"]))
                self.assertPlaced(row, thing)
                rows = [alone[f"{thing['id']}/{d['id']}"] for d in thing["documents"] if d["text"].strip()]
                for attribute in SCHEMA["attributes"][:4]:
                    name = attribute["name"]
                    values, probability = fused(rows, attribute)
                    if values is None:
                        self.assertIsNone(row["values"][name])
                    else:
                        self.assertIn(row["values"][name], values)
                    self.assertAlmostEqual(row["confidence"][name], probability, delta=0.02)
                    said = [(d["id"], alone[f"{thing['id']}/{d['id']}"]["values"][name]) for d in thing["documents"] if d["text"].strip()]
                    others = {d for d, v in said if v is not None and d not in (row.get("sources", {}).get(name), *row.get("agreeing", {}).get(name, []))}
                    self.assertEqual({c["document"] for c in row.get("conflicts", {}).get(name, [])}, others)
                items = {i for r in rows for i in r["values"]["ports"] or []}
                self.assertLessEqual(set(row["values"]["ports"] or []), items)
                self.assertEqual(row["prompt_tokens"], sum(r["prompt_tokens"] for r in rows))

    def test_strategies_batches_and_company_change_nothing(self):
        records = things(7)
        for fuse in ("values", "tokens"):
            for mode in ("skeleton", "isolated"):
                first = self.extract(records, SCHEMA, "--fuse", fuse, "--values", mode)
                for row, thing in zip(first, records):
                    self.assertPlaced(row, thing)
                for more in (["--strategy", "flat"], ["--strategy", "stacked"], ["--batch-rows", "7"]):
                    self.assertEqual(self.extract(records, SCHEMA, "--fuse", fuse, "--values", mode, *more), first)
                self.assertEqual(self.extract(records[3:4], SCHEMA, "--fuse", fuse, "--values", mode), first[3:4])

    def test_the_order_of_documents_does_not_matter(self):
        records = things(6)
        turned = [dict(t, documents=t["documents"][::-1]) for t in records]
        for fuse in ("values", "tokens"):
            for a, b in zip(self.extract(records, SCHEMA, "--fuse", fuse), self.extract(turned, SCHEMA, "--fuse", fuse)):
                self.assertEqual((a["values"], a["confidence"]), (b["values"], b["confidence"]))

    def test_one_document_is_the_document(self):
        doc = documents(1)[0]
        alone = self.extract([doc], SCHEMA)[0]
        row = self.extract([{"id": doc["id"], "documents": [doc["text"]]}], SCHEMA)[0]
        self.assertEqual(row["values"], alone["values"])
        self.assertEqual(row["spans"], alone["spans"])
        for name in NAMES:
            self.assertAlmostEqual(row["confidence"][name], alone["confidence"][name], delta=1e-4)
        self.assertEqual({json.dumps(v) for n, v in row["sources"].items() if n != "ports"} - {"1"}, set())

    def test_equal_documents_agree(self):
        text = documents(1, 2)[0]["text"]
        for fuse in ("values", "tokens"):
            rows = self.extract([{"documents": [text]}, {"documents": [text, text, text]}], SCHEMA, "--fuse", fuse)
            self.assertEqual(rows[0]["values"], rows[1]["values"])
            self.assertNotIn("conflicts", rows[1])
            for name in NAMES:
                self.assertGreaterEqual(rows[1]["confidence"][name] + 1e-4, min(0.5, rows[0]["confidence"][name]))

    def test_documents_without_words(self):
        doc = documents(1)[0]
        wanted = self.extract([{"documents": [{"id": "b", "text": doc["text"]}]}], SCHEMA)[0]
        row = self.extract([{"documents": [{"id": "a", "text": ""}, {"id": "b", "text": doc["text"]}]}], SCHEMA)[0]
        self.assertEqual(row, wanted)
        schema = {"attributes": [{"name": "brand"}, {"name": "weight", "type": "number"}]}
        for fuse in ("values", "tokens"):
            row = self.extract([{"id": 1, "documents": ["", "  ", "\n"]}], schema, "--fuse", fuse)[0]
            self.assertEqual(row["values"], {"brand": None, "weight": None})
            self.assertIn("no text", row["reasons"]["brand"])

    def test_a_document_beyond_the_context(self):
        paragraphs = [f"Paragraph {i} speaks of Sony and {i} kg.\n\n" + "word " * 60 + "\n\n" for i in range(40)]
        thing = [{"id": 1, "documents": [{"id": "short", "text": "Sony black 2.5 kg"}, {"id": "long", "text": "".join(paragraphs)}]}]
        for fuse in ("values", "tokens"):
            row = self.extract(thing, SCHEMA, "--fuse", fuse)[0]
            self.assertGreater(row["parts"], 2)
            self.assertPlaced(row, thing[0])
        message = self.extract(thing, SCHEMA, "--too-long", "fail", code=1)[0]["error"]["message"]
        self.assertIn("document 'long': too long", message)
        self.assertGreater(self.extract(thing, SCHEMA, "--too-long", "truncate")[0]["cut_bytes"], 0)

    def test_sixty_four_documents(self):
        thing = {"id": "many", "documents": [{"id": d["id"], "text": d["text"]} for d in documents(64)]}
        for fuse in ("values", "tokens"):
            row = self.extract([thing], SCHEMA, "--fuse", fuse)[0]
            self.assertPlaced(row, thing)
            self.assertEqual(row, self.extract([thing], SCHEMA, "--fuse", fuse, "--batch-rows", "100")[0])

    def test_bad_things_become_error_rows(self):
        rows = self.extract([
            {"id": 1, "documents": [{"id": "page", "text": "a"}, {"id": "page", "text": "b"}]},
            {"id": 2, "documents": []}, {"id": 3, "documents": "text"}, {"id": 4, "documents": [7]},
            {"id": 5, "documents": [{"id": "page"}]}, {"id": 6, "documents": [{"id": [], "text": "a"}]},
            {"id": 7, "documents": ["a"], "text": "b"}, {"id": 8, "documents": ["a"] * 257}, {"id": 9},
            {"id": 10, "documents": ["a", {"id": 1, "text": "b"}]}], SCHEMA, code=1)
        said = [r["error"]["message"] for r in rows]
        for message, wanted in zip(said, ["two have the id 'page'", "expected 1 to 256 documents, found 0", "expected a list of documents, found",
                                          "documents[0]: expected a text or an object", "document 'page': 'text': expected text, found none",
                                          "'id': expected text or a number", "'text' or 'documents', found both", "found 257",
                                          "'text' or 'documents', found none", "two have the id '1'"]):
            self.assertIn(wanted, message)
        self.assertEqual([r["error"]["line"] for r in rows], list(range(1, 11)))

    def test_stacks_and_sequences_are_refused(self):
        rows = self.extract([documents(1)[0], things(1)[0], documents(1, 1)[0]], SCHEMA, "--stack", 3, code=1)
        self.assertEqual(["error" in r for r in rows], [False, True, False])
        self.assertIn("--stack 3 takes records with one 'text'", rows[1]["error"]["message"])
        paths = self.write("d.jsonl", things(2)), self.write("s.json", SCHEMA)
        result = self.run_banyan("extract", "-m", self.model, paths[0], "--schema", paths[1], "--values", "sequential", "--fuse", "tokens", code=2)
        self.assertIn("--fuse", result.stderr)

    def test_min_confidence_counts_for_the_thing(self):
        records = things(6)
        all_rows = self.extract(records, SCHEMA)
        limit = sorted(r["confidence"]["brand"] for r in all_rows if r["values"]["brand"] is not None)[1:2] or [0.5]
        schema = {"attributes": [SCHEMA["attributes"][0]]}
        for row in self.extract(records, schema, "--min-confidence", limit[0]):
            if row["values"]["brand"] is None and row["confidence"]["brand"] < limit[0]:
                self.assertIn("is below", row.get("reasons", {}).get("brand", "is below"))
            elif row["values"]["brand"] is not None:
                self.assertGreaterEqual(row["confidence"]["brand"] + 1e-4, limit[0])

    def test_goes_on_and_says_what_it_would_do(self):
        docs, schema = self.write("d.jsonl", things(9)), self.write("s.json", SCHEMA)
        arguments = ["extract", "-m", self.model, docs, "--schema", schema, "--quiet", "--threads", "1", "--ordered"]
        for fuse in ("values", "tokens"):
            job = [*arguments, "--fuse", fuse, "-o"]
            self.run_banyan(*job, self.path(f"{fuse}.jsonl"))
            self.run_banyan(*job, self.path(f"part-{fuse}.jsonl"), "--limit", 4)
            self.run_banyan(*job, self.path(f"part-{fuse}.jsonl"), "--resume")
            self.assertEqual(self.rows(self.path(f"part-{fuse}.jsonl")), self.rows(self.path(f"{fuse}.jsonl")))
            self.assertIn("9", self.run_banyan(*job, "-", "--dry-run").stdout.decode())
        result = self.run_banyan(*arguments, "-o", self.path("part-tokens.jsonl"), "--resume", code=2)
        self.assertIn("--fuse", result.stderr)

    def test_prompts_layouts_and_tables(self):
        records = things(3, 1)
        docs, schema = self.write("d.jsonl", records), self.write("s.json", SCHEMA)
        arguments = ["extract", "-m", self.model, docs, "--schema", schema, "--quiet", "--threads", "1"]
        shown = self.run_banyan(*arguments, "--show-prompt").stdout.decode()
        for document in records[0]["documents"]:
            self.assertIn(document["text"], shown)
        lines = [json.loads(line) for line in self.run_banyan(*arguments, "--layout").stdout.splitlines()]
        self.assertEqual([(r["id"], r["document"]) for r in lines], [(t["id"], d["id"]) for t in records for d in t["documents"]])
        table = self.run_banyan(*arguments, "-o", self.path("t.csv")).stderr
        self.assertEqual(table, "")
        self.assertIn("sources", pathlib.Path(self.path("t.csv")).read_text("utf-8"))
        self.run_banyan(*arguments, "-o", self.path("o.jsonl"), "--report", self.path("page.html"))
        page = pathlib.Path(self.path("page.html")).read_text("utf-8")
        self.assertTrue('"documents":[{"id":"doc0"' in page and '"sources"' in page)

    def test_lists_of_objects(self):
        schema = {"attributes": [{"name": "brand"}, {"name": "items", "type": "list", "max_items": 2, "max_tokens": 16,
                                                     "of": {"type": "object", "attributes": [{"name": "what"}, {"name": "price", "type": "number"}]}}]}
        records = things(5)
        for fuse in ("values", "tokens"):
            first = self.extract(records, schema, "--fuse", fuse)
            self.assertEqual(self.extract(records, schema, "--fuse", fuse, "--strategy", "flat"), first)
            for row, thing in zip(first, records):
                texts = {d["id"]: d["text"] for d in thing["documents"]}
                for i, item in enumerate(row["values"]["items"] or []):
                    name = f"items[{i}].what"
                    if item["what"] is not None and row["spans"].get(name):
                        self.assertEqual(texts[row["sources"][name]][slice(*row["spans"][name])], item["what"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
