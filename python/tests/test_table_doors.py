"""map, filter, rank, group and join through every door: rows of the command line byte for byte, columns in their types."""
import asyncio
import csv
import datetime
import json
import os
import subprocess
import sys
import unittest

import banyan
import banyan.aio
from support import PackageTest, tiny_model
from test_doors import has

ROWS = [{"id": f"r{i}", "product": ["a kettle", "a lamp", "a hose"][i % 3], "review": f"It was {['good', 'late'][i % 2]} {i % 4} times.",
         "n": i} for i in range(10)]
PROMPT = "What is said of {product}: {review}"
TASKS = {
    "map": (PROMPT, {"max_new": 4, "order": "auto"}, ["--max-new", 4, "--order", "auto"]),
    "filter": ("It broke.", {"columns": ["product", "review"], "all": True}, ["--columns", "product,review", "--all"]),
    "rank": ("{review} is about {product}.", {"top": 6}, ["--top", 6]),
    "group": (PROMPT, {"choices": ["good", "late"]}, ["--choices", "good,late"]),
}
STATEMENT = "{right.name} is {left.product}."


class Table(PackageTest):
    def wanted(self, task, *arguments, code=0):
        """Lines of the command line."""
        return self.command(task, *arguments, "-m", self.model_path, "--threads", 1, "--quiet", code=code).splitlines()

    def each(self):
        for task, (prompt, options, words) in TASKS.items():
            with self.subTest(task):
                yield task, getattr(banyan, task), prompt, {"model": self.model, **options}, words


class SameRows(Table):
    def test_rows_and_paths(self):
        path = self.write("in.jsonl", ROWS)
        for task, call, prompt, options, words in self.each():
            wanted = self.wanted(task, path, prompt, *words)
            self.assertEqual(call(path, prompt, **options).lines, wanted)
            self.assertEqual(call(ROWS, prompt, **options).lines, wanted)
            self.assertEqual(call(iter(ROWS), prompt, **options).lines, wanted)
            self.assertEqual(call(path, prompt, **options).receipt["task"], task)

    def test_csv(self):
        path = self.path("in.csv")
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, ROWS[0])
            writer.writeheader()
            writer.writerows(ROWS)
        for task, call, prompt, options, words in self.each():
            self.assertEqual(call(path, prompt, **options).lines, self.wanted(task, path, prompt, *words))
            call(ROWS, prompt, output=self.path(f"{task}.csv"), **options)
            self.wanted(task, self.write("in.jsonl", ROWS), prompt, *words, "-o", self.path(f"{task}-wanted.csv"))
            self.assertEqual((self.folder / f"{task}.csv").read_bytes(), (self.folder / f"{task}-wanted.csv").read_bytes())

    def test_a_csv_output_has_its_rows_here_too(self):
        for task, call, prompt, options, words in self.each():
            self.assertEqual(call(ROWS, prompt, output=self.path(f"{task}.csv"), **options).lines, call(ROWS, prompt, **options).lines)

    @has("pandas", "polars", "pyarrow", "duckdb")
    def test_tables(self):
        import duckdb
        import pandas
        import polars
        import pyarrow
        import pyarrow.parquet
        path = self.write("in.jsonl", ROWS)
        arrow = pyarrow.Table.from_pylist(ROWS)
        pyarrow.parquet.write_table(arrow, self.path("in.parquet"))
        relation = duckdb.sql("SELECT * FROM arrow")
        for task, call, prompt, options, words in self.each():
            wanted = self.wanted(task, path, prompt, *words)
            for data in (pandas.DataFrame(ROWS), polars.DataFrame(ROWS), polars.LazyFrame(ROWS), arrow, relation,
                         self.path("in.parquet")):
                self.assertEqual(call(data, prompt, **options).lines, wanted, type(data))

    @has("pandas", "pyarrow", "duckdb")
    def test_joins(self):
        import pandas
        import pyarrow
        catalogue = [{"id": n, "name": name} for n, name in enumerate(["a red kettle", "a lamp of brass", "a hose"])]
        left, right = self.write("left.jsonl", ROWS), self.write("right.jsonl", catalogue)
        wanted = self.wanted("join", left, right, STATEMENT, "--candidates", 2, "--all")
        self.assertGreater(len(wanted), 10)
        for one, other in ((left, right), (ROWS, catalogue), (pandas.DataFrame(ROWS), pyarrow.Table.from_pylist(catalogue))):
            found = banyan.join(one, other, STATEMENT, model=self.model, candidates=2, all=True)
            self.assertEqual(found.lines, wanted)
            self.assertEqual(found.receipt["task"], "join")

    def test_a_promise_by_two_models(self):
        rows = [{"id": i, "text": f"Text {i} is about thing {i * 7 % 5}."} for i in range(60)]
        path, large = self.write("in.jsonl", rows), tiny_model(512)
        words = ["--large", large, "--recall", 0.3, "--confidence", 0.6, "--sample", 40, "--all"]
        wanted = self.wanted("filter", path, "{text} It is so.", *words)
        found = banyan.filter(rows, "{text} It is so.", model=self.model, large=large, recall=0.3, confidence=0.6, sample=40, all=True)
        self.assertEqual(found.lines, wanted)
        self.assertEqual({row["decided_by"] for row in found} - {"small", "large"}, set())

    def test_coroutines(self):
        found = asyncio.run(banyan.aio.map(ROWS, PROMPT, model=self.model, max_new=4))
        self.assertEqual(found.lines, banyan.map(ROWS, PROMPT, model=self.model, max_new=4).lines)

    def test_estimates_and_prompts(self):
        found = banyan.estimate(ROWS, PROMPT, task="map", model=self.model, order="auto", max_new=2)
        self.assertEqual(found["rows"], 10)
        self.assertIn("no order needs fewer", found["plan"])
        self.assertIn("What is said of a kettle: It was good", banyan.show_prompts(ROWS, PROMPT, task="map", model=self.model))


class Types(Table):
    @has("pandas", "polars", "pyarrow")
    def test_columns_keep_their_types(self):
        import polars
        import pyarrow
        days = [datetime.date(2026, 1, 1 + i) for i in range(4)]
        frame = polars.DataFrame({"text": [f"Text {i}" for i in range(4)], "day": days, "score": [1, None, 3, 4]},
                                 schema_overrides={"score": polars.Int16})
        mapped = banyan.map(frame, "{text} is", model=self.model, max_new=2).to_polars()
        self.assertEqual(mapped["day"].to_list(), days)
        self.assertEqual(mapped.schema["score"], polars.Int16)
        ranked = banyan.rank(frame, "{text} is {day}.", model=self.model).to_arrow()
        self.assertEqual(ranked.schema.field("day").type, pyarrow.date32())
        self.assertEqual(ranked.schema.field("input_score").type, pyarrow.int16())
        numbers = [days.index(day) for day in ranked["day"].to_pylist()]
        self.assertEqual(numbers, ranked["id"].to_pylist())
        pairs = banyan.join(frame, frame.to_pandas(), "{left.text} is {right.text}", model=self.model, candidates=1, all=True).to_arrow()
        self.assertEqual(pairs.schema.field("left.day").type, pyarrow.date32())
        self.assertEqual(pairs["left.day"].to_pylist(), days)
        groups = banyan.group(frame, "{text} is", model=self.model, choices=["one", "two"]).to_polars()
        self.assertEqual(groups.schema["members"], polars.List(polars.Int64))
        self.assertEqual(sorted(member for members in groups["members"] for member in members), [0, 1, 2, 3])

    @has("pyarrow")
    def test_parquet_outputs_resume(self):
        import pyarrow.parquet
        path = self.write("in.jsonl", ROWS)
        for task, call, prompt, options, _ in self.each():
            options.pop("top", None)
            target = self.path(f"{task}.parquet")
            call(path, prompt, output=target, **options)
            again = call(path, prompt, output=target, resume=True, **options)
            self.assertEqual(again.receipt["rows_this_run"], 0)
            wanted = call(path, prompt, **options).to_arrow()
            self.assertEqual(pyarrow.parquet.read_table(target).to_pylist(), wanted.to_pylist())
            with self.assertRaisesRegex(banyan.Error, "is there already"):
                call(path, prompt, output=target, **options)

    def test_a_stopped_rank_goes_on(self):
        path, target = self.write("in.jsonl", ROWS), self.path("out.jsonl")
        wanted = banyan.rank(path, PROMPT, model=self.model).lines
        banyan.rank(path, PROMPT, model=self.model, output=target)
        os.remove(target)  # as if it had been stopped before its last pass
        found = banyan.rank(path, PROMPT, model=self.model, output=target, resume=True)
        self.assertEqual(found.receipt["rows_this_run"], 0)
        self.assertEqual((self.folder / "out.jsonl").read_bytes().splitlines(), wanted)
        with self.assertRaisesRegex(banyan.Error, "nothing to go on with"):
            banyan.rank(path, PROMPT, model=self.model, output=self.path("other.jsonl"), resume=True)

    @has("pyarrow")
    def test_the_command_reads_and_writes_parquet(self):
        import pyarrow
        import pyarrow.parquet
        table = pyarrow.table({**{name: [row[name] for row in ROWS] for name in ROWS[0]}, "day": [datetime.date(2026, 1, 1)] * 10})
        pyarrow.parquet.write_table(table, self.path("in.parquet"))
        tasks = {task: ([self.path("in.parquet"), prompt], words) for task, (prompt, _, words) in TASKS.items()}
        tasks["join"] = ([self.path("in.parquet"), self.path("in.parquet"), "{left.product} is {right.product}."], ["--candidates", 2, "--all"])
        for task, (data, words) in tasks.items():
            with self.subTest(task):
                arguments = [task, *data, *words, "-m", self.model_path, "--threads", 1, "--quiet", "-o", self.path(f"{task}.parquet")]
                done = subprocess.run([sys.executable, "-m", "banyan", *map(str, arguments)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = pyarrow.parquet.read_table(self.path(f"{task}.parquet"))
                self.assertGreater(found.num_rows, 1)
                if task != "group":
                    self.assertEqual(found.schema.field("left.day" if task == "join" else "day").type, pyarrow.date32())
        done = subprocess.run([sys.executable, "-m", "banyan", "map", self.path("in.parquet"), "{revew}?", "-m", self.model_path],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected a column 'revew'", done.stderr)
        self.assertIn("did you mean 'review'", done.stderr)


class Errors(Table):
    def test_rows_that_cannot_be_asked(self):
        rows = [{"id": 1, "text": "one"}, {"id": 2, "txt": "two"}, {"id": 1, "text": "three"}, {"id": 4, "text": " "}, {"id": 5, "text": "x"}]
        found = banyan.map(rows, "{text}", model=self.model, max_new=2)
        self.assertEqual(["error" in row for row in found], [False, True, True, True, False])
        self.assertTrue(found[1]["error"]["message"].startswith("row 1: expected the column 'text'"), found[1])
        self.assertEqual(len(banyan.filter(rows, "{text}", model=self.model, threshold=0.0).errors), 3)

    def test_what_is_wrong_is_said_at_once(self):
        absent = self.path("no-model.gguf")
        for call, wanted in (
                (lambda: banyan.map(ROWS, "What?", model=absent), "the prompt names no column"),
                (lambda: banyan.map(ROWS, "{a", model=absent), "expected {column} at byte 0"),
                (lambda: banyan.map(ROWS, None, model=absent), "expected a text with {column}"),
                (lambda: banyan.map(ROWS, PROMPT, model=self.model, choices=["one"]), "^choices: expected two or more"),
                (lambda: banyan.map(ROWS, PROMPT, model=absent, threshold=0.5), "threshold: there is no such option"),
                (lambda: banyan.map(ROWS, PROMPT, model=absent, ordered=True), "ordered: there is no such option"),
                (lambda: banyan.rank(ROWS, PROMPT, model=self.model, choices=["a", "b"]), "expected numbers"),
                (lambda: banyan.filter(ROWS, PROMPT, model=absent, recall=0.9), "expected large=MODEL"),
                (lambda: banyan.filter(ROWS, PROMPT, model=absent, large=absent), "expected recall or precision"),
                (lambda: banyan.filter(ROWS, PROMPT, model=absent, small=absent), "small: is of lists of texts"),
                (lambda: banyan.join(ROWS, ROWS, "{product}", model=absent), "expected columns as {left.NAME}"),
                (lambda: banyan.join(ROWS, ROWS, STATEMENT, model=absent, candidates=0), "candidates: expected a number from 1")):
            with self.subTest(wanted), self.assertRaisesRegex(banyan.Error, wanted):
                call()

    @has("pandas")
    def test_a_frame_without_the_column(self):
        import pandas
        with self.assertRaisesRegex(banyan.Error, "expected a column 'revew'.*did you mean 'review'"):
            banyan.map(pandas.DataFrame(ROWS), "{revew}", model=self.path("absent.gguf"))
        found = banyan.map(pandas.DataFrame(ROWS), "{about}", model=self.model, fields={"about": "review"}, max_new=2)
        self.assertEqual([row["about"] for row in found], [row["review"] for row in ROWS])
        self.assertEqual(found.to_pandas()["about"].tolist(), [row["review"] for row in ROWS])


class Namespaces(Table):
    @has("pandas", "polars", "pyarrow")
    def test_frames(self):
        import pandas
        import polars
        import banyan.pandas
        import banyan.polars
        answers = [row["answer"] for row in banyan.map(ROWS, PROMPT, model=self.model, max_new=4)]
        judged = banyan.filter(ROWS, PROMPT, model=self.model, all=True)
        middle = sorted(row["probability"] for row in judged)[5]
        kept = [row["id"] for row in judged if row["probability"] >= middle]
        ranked = list(banyan.rank(ROWS, PROMPT, model=self.model))
        groups = list(banyan.group(ROWS, PROMPT, model=self.model, choices=["good", "late"]))
        pairs = banyan.join(ROWS, ROWS, "{left.product} {right.product}", model=self.model, threshold=0.0)
        frame = pandas.DataFrame(ROWS)
        self.assertIn(len(kept), range(1, 10))
        for one, listed in ((frame.rename(columns={"id": "key"}).set_index("key"), lambda one: list(one.index)),
                            (polars.DataFrame(ROWS), lambda one: one["id"].to_list())):
            values = lambda found, name: found[name].to_list()  # noqa: E731
            self.assertEqual(values(one.banyan.map({"said": PROMPT}, model=self.model, max_new=4), "said"), answers)
            self.assertEqual(listed(one.banyan.filter(PROMPT, threshold=middle, model=self.model)), kept)
            found = one.banyan.rank(PROMPT, model=self.model)
            self.assertEqual(listed(found), [row["id"] for row in ranked])
            self.assertEqual(values(found, "score"), [row["score"] for row in ranked])
            found = one.banyan.group(PROMPT, choices=["good", "late"], model=self.model)
            self.assertEqual(values(found, "rows"), [row["rows"] for row in groups])
            found = one.banyan.join(one, "{left.product} {right.product}", model=self.model, threshold=0.0)
            self.assertEqual(len(found), len(pairs))
        lazy = polars.LazyFrame(ROWS).banyan.map(PROMPT, model=self.model, max_new=4).banyan.filter(PROMPT, threshold=middle, model=self.model).collect()
        self.assertEqual(lazy["answer"].to_list(), [answer for answer, row in zip(answers, ROWS) if row["id"] in kept])

    @has("pandas")
    def test_rows_without_an_answer(self):
        import pandas
        import banyan.pandas
        frame = pandas.DataFrame({"text": ["one", " ", None]})
        with self.assertLogs("banyan", "WARNING"):
            found = frame.banyan.map("{text}", model=self.model, max_new=2, errors=True)
        self.assertEqual(found["answer_error"].isna().tolist(), [True, False, False])
        with self.assertRaisesRegex(banyan.Error, "expected a column 'txt'; the frame has text"):
            frame.banyan.filter("{txt}", model=self.model)

    @has("duckdb", "pyarrow")
    def test_duckdb(self):
        import duckdb
        import banyan.duckdb
        import pyarrow
        con = duckdb.connect()
        arrow_rows = pyarrow.Table.from_pylist(ROWS)  # noqa: F841 (read by its name)
        con.execute("CREATE TABLE reviews AS SELECT * FROM arrow_rows")
        with banyan.duckdb.register(con, model=self.model, ask={"max_new": 4}) as registered:
            answers = con.sql(f"SELECT banyan_map(r, '{PROMPT}') FROM reviews r ORDER BY n").fetchall()
            self.assertEqual([one for (one,) in answers], [row["answer"] for row in banyan.map(ROWS, PROMPT, model=self.model, max_new=4)])
            kept = con.sql(f"SELECT id FROM reviews r WHERE banyan_filter(r, '{PROMPT}') ORDER BY n").fetchall()
            self.assertEqual([one for (one,) in kept], [row["id"] for row in banyan.filter(ROWS, PROMPT, model=self.model)])
            ranked = con.sql(f"SELECT score FROM banyan_rank('reviews', '{PROMPT}')").fetchall()
            self.assertEqual([one for (one,) in ranked], [row["score"] for row in banyan.rank(ROWS, PROMPT, model=self.model)])
            groups = con.sql(f"SELECT \"group\", rows FROM banyan_group('reviews', '{PROMPT}', ['good', 'late'])").fetchall()
            wanted = [(row["group"], row["rows"]) for row in banyan.group(ROWS, PROMPT, model=self.model, choices=["good", "late"]) if row["rows"]]
            self.assertEqual(sorted(groups), sorted(wanted))
            pairs = con.sql("SELECT \"left\".id, \"right\".id, probability FROM "
                            "banyan_join('reviews', 'reviews', '{left.product} {right.product}')").fetchall()
            wanted = banyan.join(ROWS, ROWS, "{left.product} {right.product}", model=self.model)
            self.assertEqual(pairs, [(*json.loads(row["id"]), row["probability"]) for row in wanted])
            computed = registered.answers.computed
            con.sql(f"SELECT banyan_map(r, '{PROMPT}') FROM reviews r").fetchall()
            self.assertEqual(registered.answers.computed, computed)  # all of them are in the cache
            self.assertEqual(con.sql("SELECT banyan_map('a lamp', 'What is {text}?') IS NULL, banyan_map(NULL, '{text}')").fetchall(), [(False, None)])
            con.sql("SELECT banyan_map(' ', 'What is {text}?')").fetchall()
            self.assertIn("expected a text in {text}", con.sql("FROM banyan_errors()").fetchall()[-1][3])
            with self.assertRaisesRegex(duckdb.Error, "expected a column 'revew'"):
                con.sql("SELECT banyan_map(r, '{revew}') FROM reviews r").fetchall()


class ListsOfTexts(Table):
    def test_a_filter_of_texts_is_what_it_was(self):
        found = banyan.filter(["one", None], "it is one", model=self.model)
        self.assertIsInstance(found, banyan.Filtered)
        self.assertIsInstance(banyan.filter((one for one in ["one"]), "it is one", model=self.model), banyan.Filtered)
        self.assertIsInstance(banyan.filter(["one"], "{text} is one", columns=["text"], model=self.model), banyan.Rows)


if __name__ == "__main__":
    unittest.main()
