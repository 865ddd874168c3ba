"""Where data lives: DuckDB, Polars, pandas, Parquet from the command line. The answers are those of `banyan.ask`."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import banyan
from support import BANYAN, PackageTest, ROOT

TEXTS = ["Anna steers the ferry.", "Ivan steers the barge.", "The fig is green.", "Anna steers the ferry."]


def has(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"{name} is not installed")


class Answered(PackageTest):
    def wanted(self, question, **options):
        rows = [{"id": i, "context": text, "question": question} for i, text in enumerate(TEXTS)]
        return [row["answer"] for row in banyan.ask(rows, model=self.model, max_new=6, **options)]


@has("duckdb")
class DuckDb(Answered):
    def connect(self, name="", **options):
        import banyan.duckdb
        import duckdb
        con = duckdb.connect(self.path(name) if name else ":memory:", read_only=options.pop("read_only", False))
        self.addCleanup(con.close)
        options.setdefault("ask", {"max_new": 6})
        registered = banyan.duckdb.register(con, model=self.model, **options)
        return con, registered.answers

    def fill(self, con):
        con.execute("CREATE TABLE pages (n INTEGER, page VARCHAR)")
        con.executemany("INSERT INTO pages VALUES (?, ?)", list(enumerate(TEXTS)))

    def test_answers_are_those_of_ask_and_null_stays_null(self):
        con, answers = self.connect()
        self.fill(con)
        con.execute("INSERT INTO pages VALUES (4, NULL)")
        found = con.sql("SELECT ask(page, 'Who?') FROM pages ORDER BY n").fetchall()
        self.assertEqual([row[0] for row in found], [*self.wanted("Who?"), None])
        self.assertEqual(answers.computed, 3)  # one of the texts comes twice
        self.assertEqual(con.sql("SELECT ask(NULL, 'Who?'), ask('a', NULL)").fetchall(), [(None, None)])

    def test_rows_with_one_text_share_it(self):
        con, _ = self.connect()
        text = "A long page about a ferry and its skipper. " * 10
        con.execute("CREATE TABLE many AS SELECT ? AS page, 'question ' || i || '?' AS question FROM range(20) r(i)", [text])
        found = [row[0] for row in con.sql("SELECT ask(page, question) FROM many ORDER BY question").fetchall()]
        rows = [{"id": 1, "context": text, "questions": sorted(f"question {i}?" for i in range(20))}]
        whole = banyan.ask(rows, model=self.model, max_new=6)
        self.assertEqual(found, [row["answer"] for row in whole])

    def test_choices_have_label_and_probability(self):
        con, _ = self.connect()
        self.fill(con)
        found = con.sql("SELECT ask_choice(page, 'What?', ['ferry', 'barge', 'fig']) FROM pages ORDER BY n").fetchall()
        rows = [{"id": i, "context": text, "question": "What?", "choices": ["ferry", "barge", "fig"]} for i, text in enumerate(TEXTS)]
        wanted = [(row["answer"], row["probabilities"][row["choice"]]) for row in banyan.ask(rows, model=self.model, max_new=6)]
        self.assertEqual([(row[0]["label"], row[0]["probability"]) for row in found], wanted)

    def test_values_have_the_types_of_the_schema(self):
        schema = {"attributes": [{"name": "who"}, {"name": "count", "type": "integer"}, {"name": "day", "type": "date"},
                                 {"name": "tags", "type": "list", "of": "text"}, {"name": "kg", "type": "number", "units": ["kg"]},
                                 {"name": "of", "type": "object", "attributes": [{"name": "deep", "type": "number"}]}]}
        con, _ = self.connect(schemas={"boat": schema})
        self.fill(con)
        relation = con.sql("SELECT extract_boat(page) AS v, extract_json(page, ?) AS j FROM pages ORDER BY n", params=[json.dumps(schema)])
        self.assertEqual(str(relation.types[0]), "STRUCT(who VARCHAR, count BIGINT, \"day\" DATE, tags VARCHAR[], kg VARCHAR, "
                                                 "\"of\" STRUCT(deep DOUBLE))")
        rows = [{"id": i, "text": text} for i, text in enumerate(TEXTS)]
        wanted = [row["values"] for row in banyan.extract(rows, schema, model=self.model)]
        self.assertEqual([json.loads(row[1]) for row in relation.fetchall()], wanted)

    def test_asked_again_no_model_runs_also_in_another_process(self):
        con, answers = self.connect("boats.db")
        self.fill(con)
        query = "SELECT ask(page, 'Who?'), ask_choice(page, 'What?', ['a', 'b']).label FROM pages ORDER BY n"
        first = con.sql(query).fetchall()
        self.assertEqual(answers.computed, 6)
        self.assertEqual(con.sql(query).fetchall(), first)
        self.assertEqual(answers.computed, 6)
        con.close()
        con, answers = self.connect("boats.db")
        self.assertEqual(con.sql(query).fetchall(), first)
        self.assertEqual(answers.computed, 0)
        con.close()
        con, answers = self.connect("boats.db", ask={"max_new": 3})  # other options are other answers
        con.sql(query).fetchall()
        self.assertEqual(answers.computed, 6)
        con.close()
        con, answers = self.connect("boats.db", read_only=True)
        self.assertEqual(con.sql(query).fetchall(), first)
        self.assertEqual(answers.computed, 0)

    def test_a_bad_row_is_null_and_says_why(self):
        con, answers = self.connect(ask={"max_new": 6, "too_long": "fail"})
        self.fill(con)
        con.execute("INSERT INTO pages VALUES (4, ?)", ["word " * 3000])
        found = con.sql("SELECT ask(page, 'Who?') FROM pages ORDER BY n").fetchall()
        self.assertEqual([row[0] for row in found], [*self.wanted("Who?"), None])
        errors = con.sql("SELECT task, about, left(text, 4), reason FROM banyan_errors()").fetchall()
        self.assertEqual([row[:3] for row in errors], [("ask", "Who?", "word")])
        self.assertIn("too_long", errors[0][3])
        self.assertEqual(con.sql("SELECT count(*) FROM banyan_cache").fetchall()[0][0], 3)

    def test_other_examples_are_other_answers(self):
        examples = self.write("few.jsonl", [{"context": "Ivan sails.", "question": "Who?", "answer": "Ivan"}])
        con, answers = self.connect("boats.db", ask={"max_new": 3, "few_shot": examples})
        con.sql("SELECT ask('Anna steers.', 'Who?')").fetchall()
        con.close()
        self.write("few.jsonl", [{"context": "Tom sails.", "question": "Who?", "answer": "Tom"}])
        con, answers = self.connect("boats.db", ask={"max_new": 3, "few_shot": examples})
        con.sql("SELECT ask('Anna steers.', 'Who?')").fetchall()
        self.assertEqual(answers.computed, 1)

    def test_parquet_files_and_tables_that_are_made(self):
        con, _ = self.connect()
        self.fill(con)
        con.execute(f"COPY pages TO '{self.path('pages.parquet')}'")
        con.execute(f"CREATE TABLE out AS SELECT n, ask(page, 'Who?') AS who FROM '{self.path('*.parquet')}'")
        self.assertEqual([row[0] for row in con.sql("SELECT who FROM out ORDER BY n").fetchall()], self.wanted("Who?"))

    def test_what_is_wrong_is_said_before_a_query(self):
        import duckdb
        import banyan.duckdb
        con = duckdb.connect()
        for options, words in (({"ask": {"max_now": 3}}, "did you mean 'max_new'?"),
                               ({"schemas": {"a": {"attributes": [{"name": "x", "type": "float"}]}}}, "at /attributes/0/type"),
                               ({"schemas": {"a b": {"attributes": [{"name": "x"}]}}}, "expected a name of letters")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.duckdb.register(con, model=self.model, **options)
            self.assertIn(words, str(caught.exception))

    def test_a_relation_is_an_input(self):
        con, _ = self.connect()
        self.fill(con)
        rows = banyan.ask(con.sql("SELECT n AS id, page AS context FROM pages ORDER BY n"), "Who?", model=self.model, max_new=6)
        self.assertEqual([(row["id"], row["answer"]) for row in rows], list(enumerate(self.wanted("Who?"))))


@has("polars")
class Polars(Answered):
    def test_expressions_frames_and_lazy_frames(self):
        import polars
        import banyan.polars
        frame = polars.DataFrame({"page": [*TEXTS, None], "n": range(5)})
        wanted = [*self.wanted("Who?"), None]
        found = frame.with_columns(who=polars.col("page").banyan.ask("Who?", model=self.model, max_new=6))
        self.assertEqual(found["who"].to_list(), wanted)
        self.assertEqual(found["n"].to_list(), list(range(5)))
        for one in (frame.banyan.ask({"a": "Who?", "b": "What?"}, text="page", model=self.model, max_new=6),
                    frame.lazy().banyan.ask({"a": "Who?", "b": "What?"}, text="page", model=self.model, max_new=6).collect()):
            self.assertEqual(one.columns, ["page", "n", "a", "b"])
            self.assertEqual(one["a"].to_list(), wanted)
            self.assertEqual(one["b"].to_list(), [*self.wanted("What?"), None])
        streamed = frame.lazy().with_columns(who=polars.col("page").banyan.ask("Who?", model=self.model, max_new=6))
        self.assertEqual(streamed.collect(engine="streaming")["who"].to_list(), wanted)
        choice = frame.select(polars.col("page").banyan.ask_choice("What?", ["ferry", "fig"], model=self.model))
        self.assertEqual(choice["page"].to_list()[4], None)
        self.assertIn(choice["page"].to_list()[0]["label"], ("ferry", "fig"))

    def test_a_frame_is_an_input(self):
        import polars
        frame = polars.DataFrame({"context": TEXTS, "n": polars.Series([1, 2, 3, 4], dtype=polars.Int16)})
        for data in (frame, frame.lazy()):
            rows = banyan.ask(data, "Who?", model=self.model, max_new=6)
            self.assertEqual([row["answer"] for row in rows], self.wanted("Who?"))
            self.assertEqual([row["id"] for row in rows], [0, 1, 2, 3])
        self.assertEqual(str(banyan.ask(frame, "Who?", model=self.model, max_new=2).to_arrow().schema.field("n").type), "int16")


class Pandas(Answered):
    def test_frames_and_series_keep_their_index(self):
        import pandas
        import banyan.pandas
        frame = pandas.DataFrame({"page": [*TEXTS, None]}, index=list("vwxyz"))
        found = frame.banyan.ask({"who": "Who?"}, text="page", model=self.model, max_new=6)
        self.assertEqual(found["who"].tolist(), [*self.wanted("Who?"), None])
        self.assertEqual(found.index.tolist(), list("vwxyz"))
        self.assertEqual(frame["page"].banyan.ask("Who?", model=self.model, max_new=6).tolist(), [*self.wanted("Who?"), None])
        choice = frame["page"].banyan.ask_choice("What?", ["ferry", "fig"], model=self.model)
        self.assertEqual(choice.columns.tolist(), ["label", "probability"])
        self.assertTrue(pandas.isna(choice["label"].iloc[4]))


class ParquetFolders(Answered):
    def test_patterns_and_folders_are_their_files(self):
        import pyarrow
        import pyarrow.parquet
        (self.folder / "parts" / "day=2").mkdir(parents=True)
        rows = [{"id": f"p{i}", "context": text, "n": i} for i, text in enumerate(TEXTS)]
        for name, part in (("parts/a.parquet", rows[:2]), ("parts/day=2/b.parquet", rows[2:])):
            table = pyarrow.Table.from_pylist(part, pyarrow.schema([("id", pyarrow.string()), ("context", pyarrow.string()),
                                                                    ("n", pyarrow.int16())]))
            pyarrow.parquet.write_table(table, self.path(name))
        (self.folder / "parts" / "_SUCCESS").write_text("")
        for data in (self.path("parts"), self.path("parts/**/*.parquet"), pathlib.Path(self.path("parts"))):
            found = banyan.ask(data, "Who?", model=self.model, max_new=6)
            self.assertEqual([row["answer"] for row in found], self.wanted("Who?"))
            self.assertEqual(str(found.to_arrow().schema.field("n").type), "int16")
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(self.path("no/*.parquet"), "Who?", model=self.model)
        self.assertEqual(caught.exception.kind, "not_found")
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(self.path("parts"), "Who?", model=self.model, output=self.path("parts/a.parquet"), overwrite=True)
        self.assertIn("is both the input and the output", str(caught.exception))


class Nightly(Answered):
    def night(self):
        result = subprocess.run([sys.executable, ROOT / "examples" / "nightly.py", self.path("pages"), self.path("table.parquet"),
                                 "Who steers the boat?", "--model", self.model_path], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_only_changed_documents_are_read_again(self):
        import pyarrow.parquet
        pages = self.folder / "pages"
        pages.mkdir()
        for number, text in enumerate(TEXTS[:3]):
            (pages / f"{number}.txt").write_text(text)
        self.assertIn("3 rows in", self.night())
        self.assertIn("0 new or changed, 0 removed", self.night())
        (pages / "1.txt").write_text("Tom steers the yacht.")
        (pages / "3.txt").write_text("A new page.")
        (pages / "0.txt").unlink()
        self.assertIn("3 rows in", said := self.night())
        self.assertIn("2 new or changed, 2 removed", said)
        ids = pyarrow.parquet.read_table(self.path("table.parquet")).column("id").to_pylist()
        self.assertEqual([pathlib.Path(one).name for one in ids], ["1.txt", "2.txt", "3.txt"])


class Command(Answered):
    def package(self, *arguments, code=0):
        result = subprocess.run([sys.executable, "-m", "banyan", *map(str, arguments)], capture_output=True, timeout=300,
                                cwd=self.folder)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result.stdout, result.stderr.decode()

    def table(self):
        import pyarrow
        import pyarrow.parquet
        rows = [{"id": i, "context": text, "n": i} for i, text in enumerate(TEXTS)]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), self.path("in.parquet"))
        self.write("in.jsonl", rows)
        return self.path("in.parquet")

    def test_it_is_the_program(self):
        self.assertEqual(self.package("--version")[0].split()[:2], self.command("--version").split()[:2])
        self.assertEqual(self.package("help", "merge")[0], self.command("help", "merge"))
        self.assertIn("did you mean 'ask'?", self.package("aks", code=2)[1])
        text = self.write("notes.txt", ["Anna Walker steers the ferry Marigold."])
        found = json.loads(self.package("ask", text, "Who steers the ferry Marigold?", "--quiet")[0])
        self.assertEqual(found["answer"], "Anna Walker")  # the model that comes with the package

    def test_parquet_in_and_out(self):
        import pyarrow.parquet
        common = ["-q", "Who?", "-m", self.model_path, "--threads", 1, "--max-new", 6, "--ordered", "--quiet"]
        source = self.table()
        lines = self.package("ask", source, *common)[0]
        self.assertEqual(lines, self.command("ask", self.path("in.jsonl"), *common))
        self.package("ask", source, *common, "-o", self.path("out.parquet"))
        table = pyarrow.parquet.read_table(self.path("out.parquet"))
        self.assertEqual(table.column("answer").to_pylist(), self.wanted("Who?"))
        self.assertEqual(str(table.schema.field("n").type), "int64")
        self.assertIn("is there already", self.package("ask", source, *common, "-o", self.path("out.parquet"), code=2)[1])
        self.package("ask", source, *common, "-o", self.path("out.parquet"), "--resume")
        pathlib.Path(self.path("more")).mkdir()
        shutil.copy(source, self.path("more/in.parquet"))
        twice = self.package("ask", self.path("*n.parquet"), self.path("more/in.parquet"), *common, code=1)[0].splitlines()
        self.assertEqual(len(twice), 8)
        self.assertEqual(sum(b"an earlier row has the same id" in line for line in twice), 4)
        self.assertIn(self.path("more/in.parquet").encode(), twice[4])
        self.assertIn("is both the input and the output", self.package("ask", source, *common, "-o", source, "--overwrite", code=2)[1])

    def test_the_program_names_the_command_that_reads_parquet(self):
        result = subprocess.run([BANYAN, "ask", self.table(), "-q", "Who?"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("python3 -m banyan", result.stderr)


if __name__ == "__main__":
    unittest.main()
