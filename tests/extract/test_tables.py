"""`banyan extract` with tables and documents: CSV, TSV and Markdown rows, files that are one document each."""
import csv
import json
import unittest

from harness import SCHEMA, ExtractTest, documents


class Tables(ExtractTest):
    def run_to(self, output: str, docs, schema, *more, code=0):
        self.run_banyan("extract", "-m", self.model, docs, "--schema", self.write("s.json", schema), "-o", output,
                        "--quiet", "--ordered", "--threads", "1", *more, code=code)

    def read_table(self, path: str, delimiter=",") -> list:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter=delimiter))

    def test_a_table_has_a_column_for_every_attribute(self):
        docs = self.write("d.jsonl", [dict(d, shop="north") for d in documents(6)])
        expected = self.extract(docs, SCHEMA)
        for name, delimiter in (("o.csv", ","), ("o.tsv", "\t")):
            self.run_to(self.path(name), docs, SCHEMA)
            table = self.read_table(self.path(name), delimiter)
            self.assertEqual(list(table[0])[:6], ["id"] + [a["name"] for a in SCHEMA["attributes"]])
            for row, want in zip(table, expected):
                self.assertEqual(row["id"], want["id"])
                for attribute, value in want["values"].items():
                    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
                    self.assertEqual(row[attribute].replace(", ", ","), text.replace(", ", ","))
                self.assertEqual({name: float(row["confidence." + name]) for name in want["confidence"]}, want["confidence"])
                self.assertEqual(json.loads(row["more"])["shop"], "north")
        self.run_to(self.path("o.md"), docs, SCHEMA)
        with open(self.path("o.md"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], "| id | brand | weight | colour | new | ports | error |")
        self.assertEqual(len(lines), 2 + 6)

    def test_an_attribute_never_takes_the_place_of_another_column(self):
        schema = {"categories": {"a": {"attributes": [{"name": "more"}, {"name": "size"}]},
                                 "b": {"attributes": [{"name": "id", "type": "boolean", "nullable": False},
                                                      {"name": "size"}]}}}
        docs = self.write("d.jsonl", [{"id": 1, "text": "x", "category": "a"}, {"id": 2, "text": "x", "category": "b"}])
        self.run_to(self.path("o.csv"), docs, schema)
        table = self.read_table(self.path("o.csv"))
        self.assertEqual(list(table[0])[:5], ["id", "category", "value.more", "size", "value.id"])
        self.assertEqual([r["id"] for r in table], ["1", "2"])
        self.assertIn(table[1]["value.id"], ["true", "false"])
        self.assertEqual([name for name in table[1] if name.startswith("confidence.") and table[1][name]],
                         ["confidence.size", "confidence.id"])

    def test_errors_have_columns(self):
        docs = self.write("d.jsonl", ['{"id": 1, "text": "fine"}', '{"id": 2}'])
        self.run_to(self.path("o.csv"), docs, SCHEMA, code=1)
        bad = self.read_table(self.path("o.csv"))[1]
        error = json.loads(bad["more"])["error"]
        self.assertEqual((bad["id"], error["kind"], error["line"], error["message"]), ("2", "input", 2, bad["error"]))

    def test_reads_tables_and_refuses_those_without_text(self):
        docs = documents(4)
        lines = "".join(f'{d["id"]};"{d["text"].replace(chr(34), chr(34) * 2)}"\n' for d in docs)
        rows = self.extract(self.write("d.csv", "id;text\n" + lines), SCHEMA)
        self.assertEqual([r["values"] for r in rows], [r["values"] for r in self.extract(docs, SCHEMA)])
        result = self.run_banyan("extract", "-m", self.model, self.write("bad.csv", "id,body\n1,x\n"), "--schema",
                                 self.write("s.json", SCHEMA), code=2)
        self.assertIn("expected a column 'text'; the header has id, body", result.stderr)

    def test_files_are_documents(self):
        texts = [d["text"] for d in documents(2)]
        for i, text in enumerate(texts):
            self.write(f"{i}.txt", text)
        rows = self.extract(self.path("*.txt"), SCHEMA)
        self.assertEqual([r["id"].rsplit("/", 1)[-1] for r in rows], ["0.txt", "1.txt"])
        self.assertEqual([r["values"] for r in rows], [r["values"] for r in self.extract(documents(2), SCHEMA)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
