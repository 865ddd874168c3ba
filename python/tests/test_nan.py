"""NaN in lists and arrays of tables: a number like others, in every door."""

import json
import math
import unittest

import banyan
from support import PackageTest

NAN = float("nan")


def shown(values):
    """With NaN told from null."""
    return [None if value is None else ["NaN" if isinstance(one, float) and math.isnan(one) else one for one in value]
            for value in values]


class NaN(PackageTest):
    VALUES = [[1.0, NAN], None, [NAN, None], []]
    SHOWN = [[1.0, "NaN"], None, ["NaN", None], []]
    JSON = [[1.0, None], None, [None, None], []]

    def ask(self, data):
        return banyan.ask(data, "What is it?", model=self.model, max_new=2)

    def check(self, data):
        with self.assertNoLogs("banyan"):
            found = self.ask(data)
        self.assertEqual([row["v"] for row in found], self.JSON)
        for line in found.lines:
            json.loads(line, parse_constant=lambda word: self.fail(f"{word} is not JSON"))
        self.assertEqual(shown(found.to_arrow()["v"].to_pylist()), self.SHOWN)
        self.assertEqual(shown(found.to_polars()["v"].to_list()), self.SHOWN)
        found.to_parquet(self.path("out.parquet"), overwrite=True)
        import pyarrow.parquet

        self.assertEqual(shown(pyarrow.parquet.read_table(self.path("out.parquet"))["v"].to_pylist()), self.SHOWN)
        return found

    def test_arrow_polars_and_parquet(self):
        import polars
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({"context": ["a", "b", "c", "d"], "v": pyarrow.array(self.VALUES, from_pandas=False)})
        self.check(table)
        self.check(polars.DataFrame(table))
        pyarrow.parquet.write_table(table, self.path("in.parquet"))
        self.check(self.path("in.parquet"))

    def test_duckdb(self):
        import duckdb

        relation = duckdb.sql("SELECT * FROM (VALUES ('a', [1.0::DOUBLE, 'nan'::DOUBLE]), ('b', NULL), "
                              "('c', ['nan'::DOUBLE, NULL]), ('d', [])) AS t(context, v)")
        self.check(relation)

    def test_lists_in_pandas(self):
        import pandas

        found = self.check(pandas.DataFrame({"context": ["a", "b", "c", "d"], "v": self.VALUES}))
        self.assertEqual(shown(found.to_pandas()["v"].tolist()), self.SHOWN)

    def test_arrays_in_pandas(self):
        import numpy
        import pandas

        arrays = [numpy.array([1.5, NAN], dtype="float32"), None, numpy.array([NAN])]
        found = self.ask(pandas.DataFrame({"context": ["a", "b", "c"], "v": arrays}))
        back = found.to_pandas()["v"].tolist()
        self.assertEqual(back[0].dtype, numpy.float32)
        numpy.testing.assert_array_equal(back[0], arrays[0])
        self.assertEqual([row["v"] for row in found], [[1.5, None], None, [None]])
        self.assertEqual(shown(found.to_arrow()["v"].to_pylist()), [[1.5, "NaN"], None, ["NaN"]])

    def test_in_structs(self):
        import pandas
        import pyarrow

        table = pyarrow.table({"context": ["a"], "v": [{"x": NAN, "y": [NAN, 2.0]}]})
        for data in (table, pandas.DataFrame({"context": ["a"], "v": [{"x": NAN, "y": [NAN, 2.0]}]})):
            found = self.ask(data)
            self.assertEqual(found[0]["v"], {"x": None, "y": [None, 2.0]})
            value = found.to_arrow()["v"].to_pylist()[0]
            self.assertTrue(math.isnan(value["x"]) and math.isnan(value["y"][0]))

    def test_rows_that_are_dicts_say_where_it_is(self):
        rows = [{"context": "a", "v": [1.0, NAN]}, {"context": "b", "v": {"deep": [NAN]}}, {"context": "c", "v": 1}]
        found = self.ask(rows)
        self.assertIn("row 0, column 'v': it has a NaN or an infinity", found[0]["error"]["message"])
        for text in found.to_arrow()["v"].to_pylist():
            json.loads(text, parse_constant=lambda word: self.fail(f"{word} is not JSON"))


if __name__ == "__main__":
    unittest.main()
