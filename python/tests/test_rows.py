"""Jobs on everything that rows can come in: the rows are the command line's, byte for byte."""
import json
import unittest
from unittest import mock

import banyan
from support import ROOT, PackageTest, documents

SCHEMA = {"attributes": [{"name": "thing"}, {"name": "number", "type": "integer"}]}


class Ask(PackageTest):
    def lines(self, *arguments, rows=None, code=0):
        return self.command_lines("ask", self.write("in.jsonl", rows or documents(5)), "--max-new", 8, *arguments,
                                  code=code)

    def test_lists_files_and_tables_give_the_rows_of_the_command_line(self):
        import pandas
        import pyarrow
        import pyarrow.parquet
        rows = documents(5)
        wanted = self.lines()
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, self.path("in.parquet"))
        for data in (rows, self.path("in.jsonl"), [self.path("in.jsonl")], pandas.DataFrame(rows), table,
                     self.path("in.parquet"), (row for row in rows)):
            self.assertEqual(banyan.ask(data, model=self.model, max_new=8).lines, wanted, type(data))

    def test_options_mean_what_they_mean_there(self):
        wanted = self.lines("-q", "Why?", "--instruction", "Be brief.", "--temperature", 0.8, "--seed", 7, "--samples",
                            3, "--vote", "--logprobs", "--top-logprobs", 2, "--token-ids", "--stop", "e")
        found = banyan.ask(documents(5), "Why?", model=self.model, max_new=8, instruction="Be brief.", temperature=0.8,
                           seed=7, samples=3, vote=True, logprobs=True, top_logprobs=2, token_ids=True, stop="e")
        self.assertEqual(found.lines, wanted)
        wanted = self.lines("--regex", "[a-z]{3,5}", "--chat", "off", "--template", "{context} {question}:")
        found = banyan.ask(documents(5), model=self.model, max_new=8, regex="[a-z]{3,5}", chat="off",
                           template="{context} {question}:")
        self.assertEqual(found.lines, wanted)

    def test_questions_with_ids_and_choices(self):
        questions = [{"id": "k", "question": "Which?", "choices": ["one", "two"]}, "What else?"]
        listed = self.write("questions.jsonl", map(json.dumps, questions))
        rows = [{"id": i, "context": f"Text {i}."} for i in range(3)]
        wanted = self.lines("--questions", listed, "--choices", "letter", rows=rows)
        self.assertEqual(banyan.ask(rows, questions, model=self.model, max_new=8, choices="letter").lines, wanted)

    def test_rows_that_cannot_be_asked_become_error_rows(self):
        rows = banyan.ask([{"id": "a", "questions": ["x"]}, {"id": "b", "context": "t", "question": "y"}],
                          model=self.model, max_new=2)
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows.errors, [rows[0]])
        self.assertEqual(rows[0]["error"]["message"], "row 0: expected the field 'context', found none")
        self.assertEqual(rows.receipt["error_rows"], 1)

    def test_outputs_are_written_resumed_and_read_back(self):
        import pyarrow.parquet
        wanted = [json.loads(line) for line in self.lines()]
        banyan.ask(documents(2), model=self.model, max_new=8, output=self.path("out.jsonl"))
        again = banyan.ask(documents(5), model=self.model, max_new=8, output=self.path("out.jsonl"), resume=True)
        self.assertEqual(again.receipt["records_finished_before"], 2)
        self.assertEqual(list(again), wanted)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(documents(5), model=self.model, max_new=9, output=self.path("out.jsonl"), resume=True)
        self.assertIn("max_new: was 8, is 9", str(caught.exception))
        found = banyan.ask(documents(5), model=self.model, max_new=8, output=self.path("out.parquet"))
        self.assertEqual(list(found), wanted)
        table = pyarrow.parquet.read_table(self.path("out.parquet"))
        self.assertEqual(table.column("answer").to_pylist(), [row["answer"] for row in wanted])
        self.assertEqual(found.to_pandas()["answer"].tolist(), [row["answer"] for row in wanted])
        banyan.ask(documents(5), model=self.model, max_new=8, output=self.path("out.csv"))
        self.lines("-o", self.path("cli.csv"))
        self.assertEqual((self.folder / "out.csv").read_bytes(), (self.folder / "cli.csv").read_bytes())

    def test_rows_are_there_whatever_form_the_output_has(self):
        given = [*documents(4), {"id": "bad", "context": 7, "question": "Why?"}]
        wanted = banyan.ask(given, model=self.model, max_new=3).lines
        for name in ("out.csv", "out.tsv", "out.md", "out.csv.gz", "out.jsonl.gz", "out.jsonl.zst", "out.ndjson", "out"):
            with self.subTest(name):
                found = banyan.ask(given, model=self.model, max_new=3, output=self.path(name))
                self.assertEqual((found.lines, len(found), len(found.errors)), (wanted, 9, 1))
                self.assertGreater((self.folder / name).stat().st_size, 0)
        with mock.patch("banyan._run.COPY", "nowhere/copy.jsonl"):  # it cannot be written: the output can
            found = banyan.ask(given, model=self.model, max_new=3, output=self.path("alone.csv"))
            self.assertEqual((self.folder / "alone.csv").read_bytes(), (self.folder / "out.csv").read_bytes())
            with self.assertRaisesRegex(banyan.Error, "alone.csv: the rows are in this file alone"):
                found[0]
        csv = {"model": self.model, "max_new": 3, "output": self.path("later.csv")}
        banyan.ask(documents(2), **csv)
        resumed = banyan.ask(documents(3), **csv, resume=True)
        self.assertIn("6 rows", repr(resumed))
        with self.assertRaisesRegex(banyan.Error, "later.csv: the rows are in this file alone: the job was resumed"):
            resumed[0]

    def test_cells_without_a_value_are_no_values(self):
        import pandas
        frame = pandas.DataFrame({"context": ["One.", "Two."], "question": ["q?", "r?"], "choices": [None, '["a","b"]'],
                                  "note": [1.5, float("nan")]})
        rows = banyan.ask(frame, model=self.model, max_new=3)
        self.assertEqual([row["note"] for row in rows], [1.5, None])
        self.assertNotIn("choice", rows[0])
        self.assertIn(rows[1]["answer"], ("a", "b"))

    def test_numpy_values_and_dates_are_carried(self):
        import datetime
        import numpy
        row = {"context": "One.", "question": "q?", "n": numpy.int64(3), "v": numpy.arange(2), "d": datetime.date(2024, 5, 31)}
        found = banyan.ask([row], model=self.model, max_new=2)[0]
        self.assertEqual((found["n"], found["v"], found["d"]), (3, [0, 1], "2024-05-31"))
        failed = banyan.ask([{"context": object()}], model=self.model)[0]
        self.assertEqual(failed["error"]["kind"], "input")

    def test_shards_and_progress(self):
        seen = []
        parts = [banyan.ask(documents(5), model=self.model, max_new=8, shard=(i, 2), progress=seen.append) for i in (1, 2)]
        self.assertEqual(sorted(parts[0].lines + parts[1].lines), sorted(self.lines()))
        self.assertTrue(seen[-1]["last"])


class Extract(PackageTest):
    def test_rows_are_those_of_the_command_line(self):
        rows = [{"id": i, "text": f"Thing {i} costs {i * 3}.", "kept": [i]} for i in range(4)]
        self.write("schema.json", [SCHEMA])
        wanted = self.command_lines("extract", self.write("in.jsonl", rows), "--schema", self.path("schema.json"))
        self.assertEqual(banyan.extract(rows, SCHEMA, model=self.model).lines, wanted)
        wanted = self.command_lines("extract", self.path("in.jsonl"), "--schema", self.path("schema.json"), "--values",
                                    "sequential")
        self.assertEqual(banyan.extract(rows, json.dumps(SCHEMA), model=self.model, values="sequential").lines, wanted)

    def test_things_with_several_documents(self):
        rows = [{"id": 1, "documents": [{"id": "page", "text": "A red lamp."}, {"id": "manual", "text": "Lamp, 9 watts."}]},
                {"id": 2, "documents": ["one text", "another text"]}]
        self.write("schema.json", [SCHEMA])
        self.write("in.jsonl", rows)
        for fuse in ("values", "tokens"):
            wanted = self.command_lines("extract", self.path("in.jsonl"), "--schema", self.path("schema.json"), "--fuse",
                                        fuse)
            self.assertEqual(banyan.extract(rows, SCHEMA, model=self.model, fuse=fuse).lines, wanted)

    def test_a_bad_schema_is_refused_with_its_place(self):
        with self.assertRaises(banyan.Error) as caught:
            banyan.extract([{"text": "x"}], {"attributes": [{"name": "size", "type": "float"}]}, model=self.model)
        self.assertIn("at /attributes/0/type: expected one of text, number", str(caught.exception))


class Rag(PackageTest):
    @staticmethod
    def timeless(lines):
        rows = [json.loads(line) for line in lines]
        for row in rows:
            row.pop("seconds"), row.pop("first_token_seconds")
        return rows

    def test_rows_are_those_of_the_command_line(self):
        rows = [{"id": i, "question": f"Which code {i}?", "documents": [
            {"id": f"d{k}", "text": f"The code {k} opens the gate."} for k in range(3)]} for i in range(3)]
        wanted = self.command_lines("rag", self.write("in.jsonl", rows), "--max-new", 6)
        found = banyan.rag(rows, model=self.model, max_new=6)
        self.assertEqual(self.timeless(found.lines), self.timeless(wanted))

    def test_an_index_is_made_searched_and_asked(self):
        for name, text in (("a.txt", "The ferry leaves at seven."), ("b.txt", "The barge is green.")):
            (self.folder / name).write_text(text)
        index = banyan.Index.build(self.path("idx"), [self.path("a.txt"), self.path("b.txt")])
        self.assertEqual(len(index), 2)
        self.assertEqual(index.search("green barge")[0].text, "The barge is green.")
        rows = banyan.rag([{"id": 1, "question": "Which barge is green?"}], index=self.path("idx"), model=self.model,
                          max_new=4)
        self.assertEqual(rows[0]["id"], 1)


class Shipped(unittest.TestCase):
    def test_the_package_finds_its_own_model(self):
        rows = banyan.ask([{"context": "Anna Walker steers the ferry Marigold."}], "Who steers the ferry Marigold?")
        self.assertEqual(rows[0]["answer"], "Anna Walker")

    def test_versions_agree(self):
        import re
        text = (ROOT / "include/banyan/version.h").read_text()
        self.assertEqual(banyan.__version__, re.search(r'BANYAN_VERSION "([0-9.]+)"', text)[1])
        self.assertIn(f'version = "{banyan.__version__}"', (ROOT / "pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
