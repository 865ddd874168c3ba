"""Every row of the option table through Python: what is in range is taken, what is not is an `Error` that names it. The
package's rows are those of the table."""
import json
import sys
import unittest

import banyan
from banyan import _native
from support import PackageTest, ROOT

sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tools"))
from option_values import outside, within  # noqa: E402
from python_options import page, types_page  # noqa: E402

TABLE = [row for row in json.loads(_native.option_table()) if row["python"] is not None]
ROW = {"id": 1, "context": "a", "question": "b"}
ELSEWHERE = {"shard", "output", "model", "kv_store", "adapter", "encoding"}  # files, names, and a pair of numbers


def given(row, value):
    return json.dumps(value) if row["kind"] == "json" else value


class Table(PackageTest):
    def read(self, row, value):
        """What the library makes of one option, without a job."""
        names = {"ask": "ask", "extract": "extract", "rag": "rag", "table": "table", "job": "job", "model": "model", "engine": "engine",
                 "kv": "engine"}
        store = {"kv_store": self.path("store")} if row["table"] == "kv" else {}
        _native.read_options(names[row["table"]], {**store, row["name"]: given(row, value)})

    def test_what_is_in_range_is_taken(self):
        tried = 0
        for row in TABLE:
            for value in within(row) if row["name"] not in ELSEWHERE else []:
                with self.subTest(row["name"], value=value):
                    self.read(row, value)
                    tried += 1
        self.assertGreater(tried, 100)

    def test_what_is_out_of_range_is_refused_by_name(self):
        tried = 0
        for row in TABLE:
            wrong = {"text": [5], "texts": [5], "flag": ["nonsense"]}.get(row["kind"], outside(row))
            for value in wrong if row["name"] not in ELSEWHERE else []:
                with self.subTest(row["name"], value=value), self.assertRaises(banyan.Error) as caught:
                    self.read(row, value)
                self.assertTrue(str(caught.exception).startswith(row["name"] + ":"), str(caught.exception))
                tried += 1
        self.assertGreater(tried, 80)

    def test_a_call_refuses_what_the_table_refuses(self):
        for wrong in ({"top_logprobs": 101}, {"temperature": -1}, {"top_p": 2}, {"repetition_penalty": 0}):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ask([ROW], model=self.model, **wrong)
            self.assertIn(next(iter(wrong)), str(caught.exception))

    def test_the_rows_of_the_package_are_those_of_the_table(self):
        rows = ROOT / "python" / "banyan" / "_option_rows.py"
        self.assertEqual(rows.read_text(), page(json.loads(_native.option_table())),
                         "banyan help --json | tools/python_options.py > python/banyan/_option_rows.py")

    def test_the_types_of_the_package_are_those_of_the_table(self):
        types = ROOT / "python" / "banyan" / "_option_types.py"
        self.assertEqual(types.read_text(), types_page(json.loads(_native.option_table())),
                         "banyan help --json | tools/python_options.py --types > python/banyan/_option_types.py")

    def test_knobs_of_comparisons_are_taken_without_being_shown(self):
        knobs = {row["name"] for row in TABLE if row["for_comparison"]}
        self.assertEqual(len(knobs), 10)
        self.assertEqual(knobs & set(banyan.EngineOptions.__annotations__), set())
        self.assertLess(knobs, set(_native.option_names("engine")))


if __name__ == "__main__":
    unittest.main()
