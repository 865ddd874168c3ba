"""What goes in comes out: columns of the input, in every type and door, beside answers that are the command line's."""

import contextlib
import decimal
import importlib.util
import json
import pathlib
import unittest

import banyan
import banyan._native
from banyan._schema import FIXED, MORE
from support import PackageTest

QUESTION = "What is it about?"
SCHEMA = {"attributes": [{"name": "thing"}, {"name": "tokens", "type": "integer"}, {"name": "kept"}]}
BIG = 1850000000000000001


def has(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"{name} is not installed")


class Tables(PackageTest):
    def ask(self, data, questions=QUESTION, **options):
        return banyan.ask(data, questions, model=self.model, max_new=3, **options)

    @contextlib.contextmanager
    def refused(self, words, kind=None):
        with self.assertRaises(banyan.Error) as caught:
            yield
        self.assertIn(words, str(caught.exception))
        if kind is not None:
            self.assertEqual(caught.exception.kind, kind)


class Types(Tables):
    def test_a_failed_row_changes_no_type(self):
        import pandas

        frame = pandas.DataFrame({"id": [BIG, BIG + 2, 3], "context": ["Text.", None, "More."], "n": [BIG, BIG + 2, 1]})
        for data in (frame, frame.to_dict("records")):
            found = self.ask(data).to_pandas()
            self.assertEqual(found["id"].tolist(), [BIG, BIG + 2, 3])
            self.assertEqual(found["n"].tolist(), [BIG, BIG + 2, 1])
            self.assertEqual(str(found["tokens"].dtype), "Int64")
            self.assertEqual(found["error"].notna().tolist(), [False, True, False])

    def test_whole_numbers_beside_fractions_are_not_rounded(self):
        rows = [{"context": "Text.", "n": BIG}, {"context": "More.", "n": 0.5}]
        self.assertEqual(self.ask(rows).to_arrow().column("n").to_pylist(), [str(BIG), "0.5"])
        self.assertEqual(self.ask(rows).to_pandas()["n"].tolist(), [BIG, 0.5])
        path = self.write("in.jsonl", rows)
        self.assertEqual(self.ask(path).to_arrow().column("n").to_pylist(), [str(BIG), "0.5"])
        self.assertEqual(
            self.ask([{"context": "a", "n": 2}, {"context": "b", "n": 0.5}]).to_arrow().column("n").to_pylist(),
            [2.0, 0.5],
        )

    def test_columns_come_back_as_they_were(self):
        import pandas
        import pyarrow

        table = pyarrow.table(
            {
                "context": ["Text.", None, "More."],
                "day": pyarrow.array([1, None, 3_000_000], pyarrow.date32()),
                "price": [decimal.Decimal("1.10"), None, decimal.Decimal("99.99")],
                "kind": pyarrow.array(["a", None, "a"]).dictionary_encode(),
                "raw": [b"\xff\xfe", b"", None],
                "big": pyarrow.array([2**63, None, 0], pyarrow.uint64()),
                "none": pyarrow.nulls(3),
                "when": pyarrow.array([1, None, 3], pyarrow.timestamp("ns", "Europe/Lisbon")),
                "far": [float("inf"), float("nan"), None],
                "deep": [{"a": [1, None]}, None, {"a": []}],
            }
        )
        found = self.ask(table)
        for name in table.column_names[1:]:
            self.assertTrue(found.to_arrow().column(name).equals(table.column(name)) or name == "far", name)
        self.assertEqual(str(found.to_arrow().column("far").to_pylist()), str(table.column("far").to_pylist()))
        found.to_parquet(self.path("out.parquet"))
        import pyarrow.parquet

        self.assertEqual(
            pyarrow.parquet.read_table(self.path("out.parquet")).column("raw").to_pylist(), [b"\xff\xfe", b"", None]
        )
        frame = pandas.DataFrame(
            {
                "context": ["Text.", "More."],
                "kind": pandas.Categorical(["a", "b"]),
                "month": pandas.period_range("2020-01", periods=2, freq="M"),
                "odd": [1 + 2j, 3j],
                "thin": pandas.arrays.SparseArray([0, 1]),
                "small": pandas.array([1, None], dtype="Int8"),
                "zone": pandas.to_datetime(["2020-01-01", None]).tz_localize("Asia/Tokyo"),
                "any": [object, None],
            }
        )
        pandas.testing.assert_frame_equal(self.ask(frame).to_pandas()[frame.columns[1:]], frame[frame.columns[1:]])

    def test_pandas_reads_what_was_written(self):
        import pandas

        frame = pandas.DataFrame(
            {
                "id": pandas.array([BIG, None, BIG + 2], dtype="Int64"),
                "context": ["Text.", None, "More."],
                "plain": [1, 2, 3],
                "seen": pandas.array([True, None, False], dtype="boolean"),
                "small": pandas.array([1, None, 3], dtype="UInt8"),
            }
        )
        for data in (frame, frame.to_dict("records")):
            found = self.ask(data, output=self.path("out.parquet"), overwrite=True)
            for read in (pandas.read_parquet(self.path("out.parquet")), found.to_arrow().to_pandas()):
                self.assertEqual(read["id"].tolist(), [BIG, pandas.NA, BIG + 2])
                self.assertEqual(str(read["tokens"].dtype), "Int64")
                if data is frame:
                    for name in ("plain", "seen", "small"):
                        pandas.testing.assert_series_equal(read[name], frame[name])

    @has("duckdb")
    def test_types_of_duckdb(self):
        import duckdb

        con = duckdb.connect()
        query = """SELECT 'Text ' || i AS context, i::HUGEINT * 10**20 AS h, uuid() AS u, INTERVAL (i) DAY AS iv, {'a': i, 'b': [i]} AS s,
            MAP {'k': i} AS m, '101'::BIT AS bits, 'b'::ENUM('a', 'b') AS e, i::DECIMAL(38, 5) AS d, TIMETZ '01:02:03+04' AS tz,
            TIMESTAMP_NS '2020-01-01 00:00:00.000000001' AS ns, '\\xFF'::BLOB AS raw, CASE i WHEN 1 THEN NULL ELSE i::UTINYINT END AS n,
            [1, 2]::INTEGER[2] AS pair FROM range(3) t(i)"""
        con.execute(f"CREATE TABLE t AS {query}")
        wanted = con.sql("FROM t").to_arrow_table()
        found = self.ask(con.sql("FROM t")).to_arrow()
        for name in wanted.column_names[1:]:
            self.assertEqual(found.schema.field(name).type, wanted.schema.field(name).type)
            self.assertTrue(found.column(name).equals(wanted.column(name)), name)

    def test_the_schema_does_not_depend_on_the_rows(self):
        import pandas
        import pyarrow

        whole = pyarrow.table({"context": ["Text."], "n": pyarrow.array([1], pyarrow.int16()), "t": ["x"]})
        cases = [
            whole.slice(0, 0),
            pyarrow.table(
                {
                    "context": pyarrow.array([None], pyarrow.string()),
                    "n": pyarrow.array([None], pyarrow.int16()),
                    "t": pyarrow.array([None], pyarrow.string()),
                }
            ),
        ]
        wanted = self.ask(whole)
        for case in cases:
            found = self.ask(case)
            self.assertEqual(found.to_arrow().schema, wanted.to_arrow().schema)
            self.assertEqual(found.to_pandas().dtypes.to_dict(), wanted.to_pandas().dtypes.to_dict())
            frame = pandas.DataFrame(
                {"context": case["context"].to_pylist(), "n": pandas.array(case["n"].to_pylist(), dtype="Int16")}
            )
            self.assertEqual(str(self.ask(frame).to_pandas().dtypes["n"]), "Int16")

    def test_a_table_without_rows_replaces_another(self):
        import pyarrow
        import pyarrow.parquet

        for name in ("a", "b"):
            table = pyarrow.table(
                {"context": pyarrow.array([], pyarrow.string()), name: pyarrow.array([], pyarrow.int8())}
            )
            self.ask(table, output=self.path("out.parquet"), overwrite=True)
            self.assertIn(name, pyarrow.parquet.read_table(self.path("out.parquet")).column_names)


class Names(Tables):
    ROW = {
        "id": "a",
        "context": "Text.",
        "text": "Text.",
        "question": "why?",
        "documents": [{"id": "d", "text": "Text."}],
    }

    def test_the_lists_of_names_are_one(self):
        for task in ("ask", "extract", "rag"):
            results = {*FIXED[task], *MORE[task]} - {"id", "question_id", "question", "category"}
            self.assertEqual(
                banyan._native.carried_names(task, sorted(results), []), ["input_" + name for name in sorted(results)]
            )

    def test_fields_that_are_named_like_results_survive(self):
        for task, call in (
            ("ask", lambda rows: self.ask(rows, None)),
            ("rag", lambda rows: banyan.rag(rows, model=self.model, max_new=3)),
            ("extract", lambda rows: banyan.extract(rows, SCHEMA, model=self.model)),
        ):
            names = sorted(
                ({*FIXED[task], *MORE[task]} | {"input_error", "input_input_error", "inputs"})
                - {"id", "question_id", "question", "category"}
            )
            own = {name: number for number, name in enumerate(names)}
            row = {
                name: self.ROW[name]
                for name in ("id", {"ask": "context", "extract": "text", "rag": "documents"}[task], "question")
            }
            found = call([{**row, **own}, {"id": "bad", **own}])
            shown = dict(zip(names, banyan._native.carried_names(task, names, [])))
            self.assertEqual(shown["input_error"], "input_input_error")
            for one in found:  # answered or not
                self.assertEqual({name: one[shown[name]] for name in names}, own, task)
            self.assertNotIn("error", found[0])
            table = found.to_arrow()
            for name in names:
                self.assertEqual(table.column(shown[name]).to_pylist(), [own[name]] * 2, name)
            self.assertEqual(table.column("error").to_pylist()[0], None)

    def test_attributes_of_flat_rows_are_results_too(self):
        rows = [
            {"id": 1, "text": "Text.", "thing": "mine", "tokens": "mine", "kept": 7, "value.tokens": 8},
            {"id": 2, "kept": 9},
        ]
        found = banyan.extract(rows, SCHEMA, model=self.model, flat=True)
        self.assertEqual(
            [found[0][name] for name in ("input_thing", "input_tokens", "input_kept", "input_value.tokens")],
            ["mine", "mine", 7, 8],
        )
        self.assertEqual(found[1]["input_kept"], 9)
        table = found.to_arrow()
        self.assertEqual(table.column("input_kept").to_pylist(), [7, 9])
        self.assertEqual(
            [str(table.schema.field(name).type) for name in ("thing", "value.tokens", "kept")],
            ["string", "int64", "string"],
        )

    def test_a_column_whose_name_means_another_one_is_kept(self):
        rows = [{"id": 1, "key": "k", "context": "not this", "body": "Text.", "input_context": 3}]
        found = self.ask(rows, fields={"id": "key", "context": "body"})
        self.assertEqual(
            (found[0]["id"], found[0]["input_id"], found[0]["input_input_context"], found[0]["input_context"]),
            ("k", 1, "not this", 3),
        )
        self.assertEqual(found.to_arrow().column("input_id").to_pylist(), [1])
        lines = self.command_lines(
            "ask",
            self.write("in.jsonl", rows),
            "-q",
            QUESTION,
            "--max-new",
            3,
            "--field",
            "id=key",
            "--field",
            "context=body",
        )
        self.assertEqual(found.lines, lines)

    def test_csv_keeps_its_columns(self):
        pathlib.Path(self.path("in.csv")).write_text(
            "id,context,answer,input_answer,confidence,error_kind,note\n1,Text.,a,b,c,d,e\n"
        )
        self.command_lines("ask", self.path("in.csv"), "-q", QUESTION, "--max-new", 3, "-o", self.path("out.csv"))
        import csv

        with open(self.path("out.csv"), newline="") as file:
            row = next(csv.DictReader(file))
        self.assertEqual(
            [
                row[name]
                for name in ("input_answer", "input_input_answer", "input_confidence", "input_error_kind", "note")
            ],
            ["a", "b", "c", "d", "e"],
        )
        self.assertNotIn("input_", row["more"])

    def test_two_columns_of_one_name_are_refused_before_the_work(self):
        import pandas
        import pyarrow
        import banyan.pandas

        frame = pandas.DataFrame([["a", "b"]], columns=["context", "context"])
        table = pyarrow.table([["a"], ["b"]], names=["context", "context"])
        for data in (frame, table, pandas.DataFrame([["a", "b"]], columns=["1", 1])):
            with self.refused("two columns have the name"):
                banyan.ask(data, QUESTION, model="/nowhere.gguf")
        with self.refused("expected one column 'context', found 2"):
            frame.banyan.ask(QUESTION, text="context", model=self.model)
        with self.refused("has a column 'answer' already"):
            pandas.DataFrame({"page": ["a"], "answer": [1]}).banyan.ask(QUESTION, text="page", model=self.model)

    def test_what_parquet_cannot_hold_is_refused_before_the_work(self):
        import pandas

        frame = pandas.DataFrame({"context": ["Text."], "odd": [1j]})
        with self.refused("column 'odd': Arrow and Parquet have no type for complex128"):
            banyan.ask(frame, QUESTION, model="/nowhere.gguf", output=self.path("out.parquet"))
        found = self.ask(frame)
        with self.assertLogs("banyan", "WARNING") as said:
            table = found.to_arrow()
        self.assertIn("column 'odd'", said.output[0])
        self.assertEqual(
            table.column("answer").to_pylist(), [found[0]["answer"]]
        )  # without the column, with the answers
        self.assertEqual(found.to_pandas()["odd"].tolist(), [1j])


class Rows(Tables):
    def test_rows_that_cannot_be_asked_keep_their_columns(self):
        rows = [
            {"id": 1, "context": "Text.", "n": 1},
            {"id": 2, "n": 2},
            {"id": 3, "context": "word " * 3000, "n": 3},
            {"id": 1, "context": "x", "n": 4},
        ]
        found = self.ask(rows, too_long="fail")
        self.assertEqual([row["n"] for row in found], [1, 2, 3, 4])
        self.assertEqual(len(found.errors), 3)
        fail = ("--max-new", 3, "--too-long", "fail")
        lines = self.command_lines("ask", self.write("in.jsonl", rows), "-q", QUESTION, *fail, code=1)
        self.assertEqual([json.loads(line)["n"] for line in lines], [1, 2, 3, 4])
        self.assertEqual(found.to_pandas()["n"].tolist(), [1, 2, 3, 4])

    def test_strict_raises_for_a_row_that_cannot_be_asked(self):
        rows = [{"id": 1, "context": "Text."}, {"id": "bad", "n": 1}]
        with self.refused("expected the field 'context', found none"):
            self.ask(rows, strict=True)
        with self.refused("too long"):
            self.ask([{"context": "word " * 3000}], strict=True, too_long="fail")
        self.command_lines("ask", self.write("in.jsonl", rows), "-q", QUESTION, "--strict", code=1)

    def test_texts_alone_are_documents(self):
        import numpy
        import pandas
        import pyarrow

        texts = ["Text about figs.", "tea"]
        wanted = [row["answer"] for row in self.ask([{"context": text} for text in texts])]
        for data in (
            texts,
            tuple(texts),
            pandas.Series(texts),
            pandas.Series(texts, name="page"),
            pyarrow.array(texts),
            numpy.array(texts),
        ):
            self.assertEqual([row["answer"] for row in self.ask(data)], wanted, type(data))
        self.assertEqual([row["id"] for row in self.ask(pandas.Series(texts, index=["a", "b"]))], ["a", "b"])
        path = self.path("page.txt")
        pathlib.Path(path).write_text(texts[0])
        self.assertEqual(self.ask([path])[0]["answer"], wanted[0])
        with self.refused("expected files alone, or texts alone", "not_found"):
            self.ask([path, "Text about figs."])
        with self.refused("a text is given as a list", "not_found"):
            self.ask("Text about figs.")
        for missing in ("/nowhere.jsonl", "pages.parquet"):
            with self.refused("no such", "not_found"):
                self.ask([missing])

    def test_rows_without_ids_take_nobodys(self):
        import pandas

        rows = [{"id": 1, "context": "a"}, {"context": "b"}, {"id": "x", "context": "c"}]
        found = self.ask(rows)
        self.assertEqual(([row["id"] for row in found], found.errors), ([1, "row 1", "x"], []))
        found = self.ask(pandas.DataFrame({"id": pandas.array([1, None], dtype="Int64"), "context": ["a", "b"]}))
        self.assertEqual((len(found), found.errors), (2, []))
        self.assertEqual(found.to_arrow().column("id").to_pylist(), [1, None])
        path = self.write("in.jsonl", [{"id": 2, "context": "a"}, {"context": "b"}])
        self.assertEqual([row["id"] for row in self.ask(path)], [2, f"{path}:2"])
        ids = [None, None, 1, None]  # rows before the first one with an id
        path = self.write("later.jsonl", [{**({"id": id} if id else {}), "context": f"Text {k}."} for k, id in enumerate(ids)])
        found, wanted = self.ask(path), [f"{path}:1", f"{path}:2", 1, f"{path}:4"]
        self.assertEqual(([row["id"] for row in found], found.errors), (wanted, []))
        self.assertEqual(found.lines, self.command_lines("ask", path, "-q", QUESTION, "--max-new", 3))
        self.assertEqual([row["id"] for row in self.ask(path, limit=2)], [1, 2])
        pathlib.Path(self.path("in.csv")).write_text("id,context\n,a\n2,b\n3,c\n")
        self.assertEqual([row["id"] for row in self.ask(self.path("in.csv"))], [f"{self.path('in.csv')}:2", "2", "3"])

    def test_questions_have_names(self):
        named = self.ask([{"context": "Text."}], {"who": "Who?", "what": {"question": "What?", "choices": ["a", "b"]}})
        self.assertEqual([row["question_id"] for row in named], ["who", "what"])
        self.assertIn(named[1]["answer"], ("a", "b"))
        self.assertEqual(self.ask([{"context": "Text."}], {"question": "Who?", "id": 7})[0]["question_id"], 7)
        with self.refused("questions: 'who': expected a question, found int"):
            self.ask([{"context": "Text."}], {"who": 3})

    @has("pydantic")
    def test_classes_of_pydantic_are_schemas(self):
        import enum
        from typing import List, Optional
        import pydantic

        class Colour(enum.Enum):
            RED = "red"
            BLUE = "blue"

        class Part(pydantic.BaseModel):
            name: str

        class Lamp(pydantic.BaseModel):
            """A lamp."""

            brand: str = pydantic.Field(description="who makes it")
            watts: Optional[int] = None
            colour: Colour
            part: Part
            tags: List[str] = []

        found = banyan.extract([{"id": 1, "text": "A red lamp."}], Lamp, model=self.model)
        self.assertEqual(found.errors, [])
        self.assertEqual(
            found.lines,
            banyan.extract([{"id": 1, "text": "A red lamp."}], Lamp.model_json_schema(), model=self.model).lines,
        )
        self.assertIn("part", found[0]["values"])
        with self.refused("found object"):
            banyan.extract([{"text": "x"}], object(), model=self.model)

    def test_a_question_may_end_like_a_file(self):
        import subprocess
        import sys

        path = self.write("in.jsonl", [{"id": 1, "context": "Text."}])
        for question in (["-q", "pages.parquet"], ["Where is pages.parquet"]):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "banyan",
                    "ask",
                    path,
                    *question,
                    "-m",
                    self.model_path,
                    "--threads",
                    "1",
                    "--max-new",
                    "2",
                    "--quiet",
                ],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["question"], question[-1])


class Columns(Tables):
    def test_reasons_stand_beside_cells_without_an_answer(self):
        import pandas
        import banyan.pandas

        frame = pandas.DataFrame({"page": ["Text.", None, "word " * 3000, 7]}, index=list("abcd"))
        with self.assertLogs("banyan", "WARNING") as said:
            found = frame.banyan.ask(
                {"who": "Who?"}, text="page", model=self.model, max_new=3, too_long="fail", errors=True
            )
        self.assertIn("2 of 4 cells have no answer", said.output[0])
        self.assertEqual(found["who"].notna().tolist(), [True, False, False, False])
        self.assertEqual(found["who_error"].isna().tolist(), [True, True, False, False])
        self.assertEqual(found["who_error"].iloc[3], "expected a text, found int")
        choice = frame["page"].banyan.ask_choice("What?", ["a", "b"], model=self.model, too_long="fail", errors=True)
        self.assertEqual(choice["label_error"].isna().tolist(), [True, True, False, False])
        self.assertEqual(
            frame["page"].banyan.ask("Who?", model=self.model, max_new=3, errors=True).columns.tolist(),
            ["answer", "answer_error"],
        )

    @has("polars")
    def test_and_in_polars(self):
        import polars
        import banyan.polars

        frame = polars.DataFrame({"page": ["Text.", None, "word " * 3000]})
        fail = {"model": self.model, "max_new": 3, "too_long": "fail", "errors": True}
        found = frame.banyan.ask({"who": "Who?"}, text="page", **fail)
        self.assertEqual(found.columns, ["page", "who", "who_error"])
        self.assertEqual(found["who_error"].is_null().to_list(), [True, True, False])
        column = frame.select(polars.col("page").banyan.ask("Who?", **fail))["page"]
        self.assertEqual([one["error"] is None for one in column.to_list()], [True, True, False])
        with self.refused("has a column 'page' already"):
            frame.banyan.ask({"page": "Who?"}, text="page", model=self.model)
        with self.refused("expected one column 'none', found none"):
            frame.banyan.ask("Who?", text="none", model=self.model)

    def test_a_filter_takes_texts(self):
        import pandas

        for data, words in (
            (pandas.DataFrame({"a": ["x"]}), "the prompt names no column"),
            ("text", "no such file; a text is given as a list"),
            ([1], "row 0: expected a text, found int"),
        ):
            with self.refused(words):
                banyan.filter(data, "it is red", model=self.model)
        self.assertEqual(len(banyan.filter(pandas.Series(["a", None]), "it is red", model=self.model).keep), 2)


if __name__ == "__main__":
    unittest.main()
