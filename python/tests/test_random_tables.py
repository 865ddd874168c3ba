"""Random tables: their columns come back from every door, and their answers are the command line's."""

import datetime
import decimal
import json
import os
import random
import unittest

import banyan
import banyan._native
from test_lossless import BIG, QUESTION, Tables, has


class Maker:
    """Random Arrow tables with a column of texts, whose other columns have any type and name."""

    NAMES = [
        "n",
        "answer",
        "confidence",
        "tokens",
        "error",
        "more",
        "values",
        "scores",
        "input_answer",
        "note",
        "caf\u00e9",
        "a b",
        "1",
        "choice",
        "index",
        "probabilities",
        "text_of",
        "__x",
    ]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def types(self):
        import pyarrow as pa

        simple = [
            pa.int8(),
            pa.int64(),
            pa.uint64(),
            pa.float32(),
            pa.float64(),
            pa.bool_(),
            pa.string(),
            pa.large_string(),
            pa.binary(),
            pa.date32(),
            pa.timestamp("us"),
            pa.timestamp("ns", "UTC"),
            pa.time64("us"),
            pa.duration("us"),
            pa.decimal128(20, 3),
            pa.null(),
            pa.dictionary(pa.int32(), pa.string()),
        ]
        return [
            *simple,
            pa.list_(pa.int64()),
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
            pa.list_(pa.struct([("z", pa.float64())])),
        ]

    def value(self, kind):
        import pyarrow as pa

        r = self.random
        if pa.types.is_null(kind) or r.random() < 0.25:
            return None
        if pa.types.is_integer(kind):
            return r.choice(
                [0, 1, 2 ** (kind.bit_width - 1) - 1, 2**63 if kind == pa.uint64() else 2 ** (kind.bit_width - 1) - 2]
            )
        if pa.types.is_floating(kind):
            return r.choice([0.0, -0.5, float("inf"), 2.0**60])
        if pa.types.is_boolean(kind):
            return r.random() < 0.5
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
            return r.choice(["", "x", "\u00fc\u20ac", "line\nline", '"q"', "null", "1e5", "\U0001f600"])
        if pa.types.is_binary(kind):
            return r.choice([b"", b"\xff\xfe", b"text", b"\x00"])
        if pa.types.is_date(kind):
            return datetime.date(2020, 1, 1) + datetime.timedelta(days=r.randrange(9999))
        if pa.types.is_timestamp(kind):
            return datetime.datetime(
                2020, 1, 1, tzinfo=datetime.timezone.utc if kind.tz else None
            ) + datetime.timedelta(microseconds=r.randrange(10**12))
        if pa.types.is_time(kind):
            return datetime.time(r.randrange(24), 5, 6, 7)
        if pa.types.is_duration(kind):
            return datetime.timedelta(microseconds=r.randrange(-(10**12), 10**12))
        if pa.types.is_decimal(kind):
            return decimal.Decimal(r.randrange(-(10**9), 10**9)).scaleb(-3)
        if pa.types.is_list(kind):
            return [self.value(kind.value_type) for _ in range(r.randrange(3))]
        return {field.name: self.value(field.type) for field in kind}

    def table(self):
        import pyarrow as pa

        r = self.random
        rows = r.choice([0, 1, 2, 5, 9])
        columns = {
            "context": pa.array(
                [None if r.random() < 0.15 else f"Document {i} is about {r.randrange(99)}." for i in range(rows)],
                pa.string(),
            )
        }
        if r.random() < 0.5:
            columns["id"] = pa.array([None if r.random() < 0.1 else BIG + i for i in range(rows)], pa.int64())
        for name in r.sample(self.NAMES, r.randrange(0, 7)):
            kind = r.choice(self.types())
            columns[name] = pa.array([self.value(kind) for _ in range(rows)], kind)
        names = list(columns)
        r.shuffle(names)
        return pa.table({name: columns[name] for name in names})


class Random(Tables):
    SEEDS = range(int(os.environ.get("BANYAN_TABLES", 25)))

    def setUp(self):
        super().setUp()
        import logging

        logging.getLogger("banyan").setLevel(logging.ERROR)  # values without a form in JSON are said, and meant here
        self.addCleanup(logging.getLogger("banyan").setLevel, logging.NOTSET)

    def wanted(self, table):
        """The command line's answers for the table's texts, by row; None where there is no text."""
        rows = [
            {"id": i, "context": text} for i, text in enumerate(table.column("context").to_pylist()) if text is not None
        ]
        if not rows:
            return [None] * table.num_rows
        lines = self.command_lines("ask", self.write("wanted.jsonl", rows), "-q", QUESTION, "--max-new", 3)
        found = {row["id"]: row["answer"] for row in map(json.loads, lines)}
        return [found.get(i) for i in range(table.num_rows)]

    def shown(self, table):
        carried = [name for name in table.column_names if name not in ("id", "context")]
        return dict(zip(carried, banyan._native.carried_names("ask", carried, [])))

    def tables(self, body):
        """Calls `body` with each table, its names in results and the answers that are wanted."""
        for seed in self.SEEDS:
            table = Maker(seed).table()
            with self.subTest(seed=seed, schema=str(table.schema)):
                body(table, self.shown(table), self.wanted(table))

    def check(self, found, table, shown, answers, same=None):
        self.assertEqual(found.column("answer").to_pylist(), answers)
        for name, result in {**shown, **({"id": "id"} if "id" in table.column_names else {})}.items():
            one, other = found.column(result), table.column(name)
            self.assertEqual(one.type, other.type, name)
            self.assertTrue(
                one.equals(other) or str(one.to_pylist()) == str(other.to_pylist()),
                (name, one.to_pylist(), other.to_pylist()),
            )

    def test_arrow_and_parquet(self):
        import pyarrow
        import pyarrow.parquet

        def body(table, shown, answers):
            found = self.ask(table)
            self.check(found.to_arrow(), table, shown, answers)
            self.check(self.ask(pyarrow.RecordBatchReader.from_stream(table)).to_arrow(), table, shown, answers)
            pyarrow.parquet.write_table(table, self.path("x.parquet"))
            read = pyarrow.parquet.read_table(self.path("x.parquet"))
            banyan_rows = self.ask(self.path("x.parquet"), output=self.path("x.out.parquet"), overwrite=True)
            self.check(banyan_rows.to_arrow(), read, shown, answers)
            self.check(pyarrow.parquet.read_table(self.path("x.out.parquet")), read, shown, answers)

        self.tables(body)

    def test_pandas(self):
        import pandas

        def body(table, shown, answers):
            frame = table.to_pandas()
            if "id" in frame:  # Arrow makes fractions of whole numbers beside nulls
                frame["id"] = pandas.array(table.column("id").to_pylist(), dtype="Int64")
            for name in list(shown):  # types that Arrow has not
                if Maker(len(name) + len(frame)).random.random() < 0.3:
                    frame[name] = pandas.Categorical([str(value) for value in frame[name]])
            count = len(frame)
            own = {  # types that only pandas has
                "sparse": pandas.arrays.SparseArray([i % 2 for i in range(count)]),
                "month": pandas.period_range("2020-01", periods=count, freq="M"),
                "range": pandas.interval_range(0, count) if count else pandas.array([], dtype="interval[int64]"),
                "odd": [complex(i, 1) for i in range(count)],
                "order": pandas.Categorical(["b", "a"] * count, ["b", "a"], ordered=True)[:count],
                "text_": pandas.array(["x", None] * count, dtype="string")[:count],
            }
            for name, values in own.items():
                frame[name] = values
            shown = {**shown, **{name: name for name in own}}
            found = self.ask(frame).to_pandas()
            self.assertEqual([None if pandas.isna(answer) else answer for answer in found["answer"]], answers)
            for name, result in shown.items():
                pandas.testing.assert_series_equal(found[result], frame[name], check_names=False)
            self.assertEqual(str(found["tokens"].dtype), "Int64")

        self.tables(body)

    @has("polars")
    def test_polars(self):
        import polars

        def body(table, shown, answers):
            frame = polars.from_arrow(table)
            count = frame.height
            own = {  # types that only Polars has
                "enum": polars.Series(["x", None] * count, dtype=polars.Enum(["x", "y"])),
                "wide": polars.Series([2**100, None] * count, dtype=polars.Int128),
                "array": polars.Series([[1, None], None] * count, dtype=polars.Array(polars.Int8, 2)),
                "kind": polars.Series(["x", None] * count, dtype=polars.Categorical),
            }
            frame = frame.with_columns(series.head(count).alias(name) for name, series in own.items())
            shown = {**shown, **{name: name for name in own}}
            for data in (frame, frame.lazy()):
                found = self.ask(data).to_polars()
                self.assertEqual(found["answer"].to_list(), answers)
                for name, result in shown.items():
                    self.assertEqual(found[result].dtype, frame[name].dtype)
                    self.assertTrue(found[result].equals(frame[name], null_equal=True), name)

        self.tables(body)

    @has("duckdb")
    def test_duckdb(self):
        import duckdb

        con = duckdb.connect()

        def body(table, shown, answers):
            table = con.from_arrow(table).to_arrow_table()  # as DuckDB has it: some types are others there
            self.check(
                self.ask(con.from_arrow(table)).to_arrow(), con.from_arrow(table).to_arrow_table(), shown, answers
            )

        self.tables(body)

    def test_lists(self):
        def body(table, shown, answers):
            rows = [{name: value for name, value in row.items() if name != "far"} for row in table.to_pylist()]
            # A list's rows are JSON: what has no form in it makes an error row.
            simple = [name for name in shown if not _without_json(table.column(name).to_pylist())]
            rows = [{name: row[name] for name in ("id", "context", *simple) if name in row} for row in rows]
            found = self.ask(rows)
            self.assertEqual([row.get("answer") for row in found], answers)
            if rows:
                frame = found.to_pandas()
                for name in simple:
                    values = [
                        None if value is None or value is not value or str(value) in ("<NA>", "nan", "NaT") else value
                        for value in frame[shown[name]]
                    ]
                    self.assertEqual(values, [row[name] for row in rows], name)

        self.tables(body)

    def test_the_command_line(self):
        def body(table, shown, answers):
            names = [
                name
                for name in shown
                if not _without_json(table.column(name).to_pylist())
                and str(table.schema.field(name).type)
                in ("int8", "int64", "uint64", "bool", "string", "large_string", "null")
            ]
            rows = [
                {"id": i, **{name: row[name] for name in ("context", *names)}}
                for i, row in enumerate(table.to_pylist())
            ]
            lines = (
                self.command_lines(
                    "ask",
                    self.write("in.jsonl", rows),
                    "-q",
                    QUESTION,
                    "--max-new",
                    3,
                    code=1 if None in answers else 0,
                )
                if rows
                else []
            )
            for line, row, answer in zip(lines, rows, answers, strict=True):
                found = json.loads(line)
                self.assertEqual(
                    (found["id"], found.get("answer"), {name: found[shown[name]] for name in names}),
                    (row["id"], answer, {name: row[name] for name in names}),
                )

        self.tables(body)

    def test_the_command_line_on_csv(self):
        import csv

        def body(table, shown, answers):
            kinds = (
                "int8",
                "int64",
                "uint64",
                "bool",
                "string",
                "large_string",
                "null",
                "date32[day]",
                "decimal128(20, 3)",
            )
            names = [name for name in shown if str(table.schema.field(name).type) in kinds]
            rows = [row for row in table.to_pylist() if row["context"] is not None]
            cells = [["" if row[name] is None else str(row[name]) for name in ("context", *names)] for row in rows]
            with open(self.path("in.csv"), "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([["context", *names], *cells])
            options = ["-q", QUESTION, "--max-new", 3, "--delimiter", ","]
            lines = self.command_lines("ask", self.path("in.csv"), *options)
            self.command_lines("ask", self.path("in.csv"), *options, "-o", self.path("out.csv"), "--overwrite")
            with open(self.path("out.csv"), newline="", encoding="utf-8") as file:
                written = list(csv.DictReader(file))
            wanted = [answer for answer, text in zip(answers, table.column("context").to_pylist()) if text is not None]
            for line, found, texts, answer in zip(lines, written, cells, wanted, strict=True):
                row = json.loads(line)
                self.assertEqual((row["answer"], found["answer"]), (answer, answer or ""))
                self.assertEqual([row[shown[name]] for name in names], texts[1:])
                self.assertEqual([found[shown[name]] for name in names], texts[1:])

        self.tables(body)


def _without_json(values):
    try:
        json.dumps(
            values, allow_nan=False, default=lambda value: value.decode() if isinstance(value, bytes) else str(value)
        )
    except (ValueError, UnicodeDecodeError):
        return True
    return False


if __name__ == "__main__":
    unittest.main()
