"""What is read: folders and their partitions, rows that come from anywhere, tables that lack what is asked for."""

import contextlib
import importlib
import importlib.util
import io
import pathlib
import unittest

import banyan
import banyan.stream
from banyan.__main__ import main
from test_doors import has
from test_lossless import QUESTION, Tables


class Folders(Tables):
    def made(self, *names):
        import pyarrow
        import pyarrow.parquet

        for number, name in enumerate(names):
            pathlib.Path(self.path(name)).parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".parquet"):
                pyarrow.parquet.write_table(
                    pyarrow.table({"id": [f"p{number}"], "context": [f"Text {number}."]}), self.path(name)
                )
            else:
                pathlib.Path(self.path(name)).write_text("Read me.")
        return self.path(names[0].split("/")[0])

    def test_other_files_beside_parquet_are_not_read_instead(self):
        folder = self.made("pages/README.md", "pages/a.parquet")
        with self.refused("has Parquet files and others"):
            self.ask(folder)
        self.assertEqual([row["id"] for row in self.ask(folder + "/*.parquet")], ["p1"])
        self.assertEqual(
            [row["id"] for row in self.ask(self.made("marks/_SUCCESS", "marks/.crc", "marks/b.parquet"))], ["p2"]
        )

    def test_partitions_are_columns_as_pyarrow_reads_them(self):
        import pyarrow.dataset

        folder = self.made("t/year=2023/land=pt/a.parquet", "t/year=2024/land=__HIVE_DEFAULT_PARTITION__/b.parquet")
        wanted = pyarrow.dataset.dataset(folder, partitioning="hive").to_table().sort_by("id")
        found = self.ask(folder)
        for name in ("id", "year", "land"):
            self.assertEqual(found.to_arrow().column(name).to_pylist(), wanted.column(name).to_pylist())
            self.assertEqual(found.to_arrow().schema.field(name).type, wanted.schema.field(name).type)
        self.assertEqual([row["year"] for row in found], [2023, 2024])
        self.assertEqual([row["land"] for row in self.ask(folder + "/**/*.parquet")], ["pt", None])

    def test_files_that_do_not_fit_together_are_refused_before_the_work(self):
        import pyarrow
        import pyarrow.parquet

        for name, column in (("a", [1]), ("b", [{"x": 1}])):
            pyarrow.parquet.write_table(
                pyarrow.table({"context": ["Text."], "n": column}), self.path(f"{name}.parquet")
            )
        with self.refused("its columns do not fit those of"):
            banyan.ask([self.path("a.parquet"), self.path("b.parquet")], QUESTION, model="/nowhere.gguf")


class Needed(Tables):
    """A table whose rows could none of them be asked is refused before the model is loaded, as a CSV file is."""

    def tables(self, columns):
        import pandas
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table(columns)
        pyarrow.parquet.write_table(table, self.path("in.parquet"))
        yield from (table, pandas.DataFrame(columns), self.path("in.parquet"))
        for name in ("polars", "duckdb"):
            if importlib.util.find_spec(name) is not None:
                yield importlib.import_module(name).from_arrow(table)

    def test_a_column_that_is_not_there_is_named_first(self):
        for data in self.tables({"id": [1], "body": ["Text."]}):
            with self.refused(
                "expected a column 'context'; the input has id, body (fields={\"context\": NAME} says which one it is)"
            ):
                banyan.ask(data, QUESTION, model="/nowhere.gguf")
            with self.refused("expected a column 'bdy'; the input has id, body"):
                banyan.ask(data, QUESTION, model="/nowhere.gguf", fields="bdy")
            with self.refused("expected a column 'text'; the input has id, body"):
                banyan.extract(data, {"attributes": [{"name": "thing"}]}, model="/nowhere.gguf")
        for data in self.tables({"id": [1], "context": ["Text."]}):
            with self.refused("expected a column 'question'; the input has id, context"):
                banyan.ask(data, model="/nowhere.gguf")
            self.assertEqual(len(self.ask(data)), 1)

    def test_the_command_says_so_in_its_own_words(self):
        list(self.tables({"id": [1], "body": ["Text."]}))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(["ask", self.path("in.parquet"), "-q", QUESTION, "-m", "/nowhere.gguf"])
        self.assertEqual(code, 2)
        self.assertIn("(--field context=NAME says which one it is)", said.getvalue())

    def test_a_table_of_nothing_has_no_rows(self):
        import pandas
        import pyarrow

        for data in ([], pandas.DataFrame(), pyarrow.table({}), pandas.DataFrame({"context": []})):
            self.assertEqual(list(self.ask(data)), [])

    def test_what_is_no_input_is_said(self):
        for data, kind in ((3, "int"), (None, "NoneType"), (print, "builtin_function_or_method")):
            with self.refused(f"data: expected files, texts, rows or a table, found {kind}", "input"):
                banyan.ask(data, QUESTION, model="/nowhere.gguf")


    def test_arguments_of_another_type_are_said_before_the_work(self):
        import numpy  # comes with the package

        rows = [{"context": "Text."}]
        for named, words in (
                ({"model": 3}, "model: expected a Model, a path or a name, found int"), ({"output": 3}, "output: expected a path, found int"),
                ({"progress": "yes"}, "progress: expected True, False or a callable, found str"),
                ({"limit": -1}, "limit: expected a number of records, found -1"),
                ({"shard": "1/2"}, "shard: expected (i, n), such as (1, 8), found '1/2'"),
                ({"timeout": "5"}, "timeout: expected seconds, found str"),
                ({"fields": ["a"]}, "fields: expected the name of a column, or a dict of names, found list"),
                ({"questions": 3}, "questions: expected a text or a dict with 'question', found int"),
                ({"questions": ["Why?", None]}, "questions: expected a text or a dict with 'question', found NoneType"),
                ({"data": numpy.array([["a", "b"]])}, "data: expected one column of texts, found an array of 2 dimensions")):
            with self.refused(words):
                banyan.ask(**{"data": rows, "questions": QUESTION, "model": "/nowhere.gguf", **named})
        with self.refused("schema: expected a dict, JSON text or a class of pydantic, found NoneType"):
            banyan.extract([{"text": "Text."}], None, model="/nowhere.gguf")

    @has("pandas", "polars", "duckdb")
    def test_accessors_say_so_too(self):
        import pandas
        import polars

        import banyan.duckdb
        import banyan.pandas
        import banyan.polars

        frame = pandas.DataFrame({"page": ["Text."]})
        with self.refused("questions: expected a text, or a dict of names and questions, found list"):
            frame.banyan.ask(["Who?"], text="page", model="/nowhere.gguf")
        for labels in ([], "yes", ["yes", None]):
            with self.refused(f"labels: expected a list of texts, found {labels!r}"):
                frame["page"].banyan.ask_choice("Who?", labels, model="/nowhere.gguf")
            with self.refused(f"labels: expected a list of texts, found {labels!r}"):
                polars.col("page").banyan.ask_choice("Who?", labels, model="/nowhere.gguf")
        with self.refused("expected a connection of DuckDB, found str"):
            banyan.duckdb.register("boats.db", model="/nowhere.gguf")


class Ids(Tables):
    def made(self):
        """Rows without ids, then rows whose ids are the numbers of these."""
        for number in range(4):
            yield {**({"id": number - 2} if number >= 2 else {}), "context": f"Text {number}.", "n": number}

    def test_numbers_of_a_generators_rows_are_nobodys_ids(self):
        found = self.ask(self.made())
        self.assertEqual([row["id"] for row in found], ["row 0", "row 1", 0, 1])
        self.assertEqual(found.errors, [])
        self.assertEqual(found.lines, self.ask(list(self.made())).lines)
        self.assertEqual(found.to_arrow().column("n").to_pylist(), [0, 1, 2, 3])
        self.assertEqual(found.to_pandas()["n"].tolist(), [0, 1, 2, 3])

    def test_of_a_stream_a_number_that_was_given_is_not_given_again(self):
        found = {row["n"]: row for row in banyan.stream.ask(self.made(), QUESTION, model=self.model, max_new=2)}
        self.assertEqual([found[number]["id"] for number in range(4)], [0, 1, 0, 1])
        self.assertEqual([number for number in range(4) if "error" in found[number]], [2, 3])
        self.assertEqual(found[2]["error"]["message"], "row 2: an earlier row has the same id")


if __name__ == "__main__":
    unittest.main()
