"""Rows belong to their records, outputs to who wrote them: what once gave wrong data, or ended a job for one row."""
import datetime
import itertools
import json
import os
import pathlib
import unittest
import uuid

import banyan
from banyan._schema import FIXED
from support import PackageTest, ROOT


def texts(words, **more):
    return [{"context": f"Text about {word}.", "question": "why?", **more} for word in words]


class Resume(PackageTest):
    def run_job(self, rows, name="out.jsonl", **options):
        return banyan.ask(rows, model=self.model, max_new=6, output=self.path(name), **options)

    def fresh(self, rows):
        return banyan.ask(rows, model=self.model, max_new=6)

    def test_a_reversed_list_without_ids_is_asked_anew(self):
        rows = texts(["ferries", "barges", "figs", "kettles"])
        self.run_job(rows)
        found = self.run_job(rows[::-1], resume=True)
        self.assertEqual(found.lines, self.fresh(rows[::-1]).lines)
        self.assertEqual(pathlib.Path(self.path("out.jsonl")).read_bytes().splitlines(), found.lines)

    def test_an_edited_row_comes_once_and_rows_that_are_gone_are_not_there(self):
        for name in ("out.jsonl", "out.jsonl.gz", "out.parquet"):
            rows = [{"id": f"d{i}", **row} for i, row in enumerate(texts(["ferries", "barges", "figs", "kettles"]))]
            self.run_job(rows, name)
            changed = [rows[3], rows[0], {**rows[1], "context": "Text about something else."}, {"id": "new", **texts(["tea"])[0]}]
            with self.assertLogs("banyan", "INFO") as said:
                found = self.run_job(changed, name, resume=True)
            self.assertEqual(found.lines, self.fresh(changed).lines, name)
            self.assertEqual(found.receipt["rows_this_run"], 2)
            self.assertEqual(found.receipt["rows_removed"], 2)
            self.assertIn("2 rows of an earlier run were removed", "".join(said.output))

    def test_equal_rows_without_ids_are_as_many_rows_as_there_are(self):
        rows = texts(["ferries"] * 3)
        self.run_job(rows[:1])
        self.assertEqual(len(self.run_job(rows, resume=True)), 3)

    def test_a_finished_parquet_job_computes_nothing(self):
        rows = texts(["ferries", "barges"])
        first = self.run_job(rows, "out.parquet")
        before = os.stat(self.path("out.parquet")).st_mtime_ns
        found = self.run_job(rows, "out.parquet", resume=True)
        self.assertEqual((found.receipt["rows_this_run"], found.receipt["generated_tokens"]), (0, 0))
        self.assertEqual(found.lines, first.lines)
        self.assertEqual(os.stat(self.path("out.parquet")).st_mtime_ns, before)
        os.remove(self.path("out.parquet.rows.jsonl.gz.journal"))
        with self.assertRaises(banyan.Error) as caught:
            self.run_job(rows, "out.parquet", resume=True)
        self.assertIn("which say what is done, are not beside it", str(caught.exception))


class Outputs(PackageTest):
    def table(self, name="in.parquet"):
        import pyarrow
        import pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(texts(["ferries", "barges"])), self.path(name))
        return self.path(name)

    def refused(self, words, call, *arguments, **options):
        with self.assertRaises(banyan.Error) as caught:
            call(*arguments, **options)
        self.assertIn(words, str(caught.exception))

    def test_the_input_is_never_the_output(self):
        source = self.table()
        before = pathlib.Path(source).read_bytes()
        os.symlink(source, self.path("link.parquet"))
        for target in (source, self.path("link.parquet"), self.path("./in.parquet")):
            self.refused("is both the input and the output", banyan.ask, source, model=self.model, output=target, overwrite=True)
            self.refused("is both the input and the output", banyan.embed, source, model="none", field="context", output=target,
                         overwrite=True)
        self.assertEqual(pathlib.Path(source).read_bytes(), before)

    def test_foreign_files_are_kept(self):
        for name in ("mine.jsonl", "mine.csv", "mine.parquet"):
            pathlib.Path(self.path(name)).write_text("mine\n")
            self.refused("is there already", banyan.ask, texts(["figs"]), model=self.model, output=self.path(name))
            self.assertEqual(pathlib.Path(self.path(name)).read_text(), "mine\n")
        rows = banyan.ask(texts(["figs"]), model=self.model, max_new=2)
        self.refused("is there already", rows.to_parquet, self.path("mine.parquet"))
        rows.to_parquet(self.path("mine.parquet"), overwrite=True)
        for name in ("v.npy", "v.jsonl", "v.parquet"):
            pathlib.Path(self.path(name)).write_text("mine\n")
            self.refused("is there already", banyan.embed, ["a"], model="none", output=self.path(name))
        self.refused("there is no folder", banyan.ask, texts(["figs"]), model=self.model, output=self.path("no/out.jsonl"))

    def test_a_file_of_examples_is_never_the_output(self):
        examples = self.write("few.jsonl", [{"question": "q", "answer": "a"}])
        self.refused("is both few_shot and the output", banyan.ask, texts(["figs"]), model=self.model, few_shot=examples,
                     output=examples, overwrite=True)


class Values(PackageTest):
    def test_a_value_that_json_has_not_is_an_error_row_of_its_own(self):
        nan, inf = float("nan"), float("inf")
        for value, words in ((nan, "NaN has no form in JSON"), (inf, "inf has no form"), (object(), "type object"),
                             ([1, {"deep": -inf}], "a NaN or an infinity")):
            rows = texts(["ferries", "figs", "tea"])
            rows[1]["score"] = value
            found = banyan.ask(rows, model=self.model, max_new=3)
            self.assertEqual(len(found), 3)
            self.assertEqual(["error" in row for row in found], [False, True, False])
            self.assertIn("row 1, column 'score': " if not isinstance(value, str) else "", found[1]["error"]["message"])
            self.assertIn(words, found[1]["error"]["message"])
            self.assertEqual(found[1]["id"], 1)

    def test_paths_uuids_and_durations_have_a_text(self):
        import pandas
        mark = uuid.uuid4()
        rows = [{**texts(["ferries"])[0], "u": mark, "p": pathlib.Path("a/b"), "t": datetime.timedelta(days=1, seconds=2.5),
                 "d": datetime.date(2020, 1, 2)}]
        found = banyan.ask(rows, model=self.model, max_new=2)[0]
        self.assertEqual([found["u"], found["p"], found["t"], found["d"]], [str(mark), "a/b", "P1DT2.5S", "2020-01-02"])
        frame = pandas.DataFrame([{**texts(["ferries"])[0], "t": pandas.Timedelta("1 days 00:00:03")}])
        self.assertEqual(banyan.ask(frame, model=self.model, max_new=2)[0]["t"], "P1DT0H0M3S")

    def test_a_generator_gives_no_more_rows_than_wanted(self):
        taken = []

        def endless():
            for number in itertools.count():
                taken.append(number)
                yield {"context": f"Text {number}.", "question": "why?"}
        self.assertEqual(len(banyan.ask(endless(), model=self.model, max_new=2, limit=3)), 3)
        self.assertLessEqual(len(taken), 4)

    def test_ids_are_places_from_nought_and_labels_of_a_frame(self):
        import pandas
        rows = texts(["ferries", "figs"])
        self.assertEqual([row["id"] for row in banyan.ask(rows, model=self.model, max_new=2)], [0, 1])
        frame = pandas.DataFrame(rows, index=["north", "south"])
        self.assertEqual([row["id"] for row in banyan.ask(frame, model=self.model, max_new=2)], ["north", "south"])
        self.assertEqual([row["id"] for row in banyan.ask(frame.reset_index(drop=True), model=self.model, max_new=2)], [0, 1])
        twice = pandas.DataFrame(rows, index=["same", "same"])
        found = banyan.ask(twice, model=self.model, max_new=2)
        self.assertEqual([(row["id"], row["index"]) for row in found], [(0, "same"), (1, "same")])
        named = pandas.DataFrame({"id": [7, 8], **{n: [r[n] for r in rows] for n in rows[0]}},
                                 index=pandas.Index(["a", "b"], name="port"))
        self.assertEqual([(row["id"], row["port"]) for row in banyan.ask(named, model=self.model, max_new=2)], [(7, "a"), (8, "b")])

    def test_places_are_the_users_in_every_format(self):
        import pyarrow
        import pyarrow.parquet
        rows = [{"context": "Text.", "question": "why?"}, {"question": "no text"}]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"context": None, "question": "no text"}]), self.path("in.parquet"))
        banyan.ask(rows, model=self.model, max_new=2, output=self.path("out.csv"))
        text = pathlib.Path(self.path("out.csv")).read_text()
        self.assertIn("rows, line 2", text)
        self.assertNotIn("/banyan-", text)
        found = banyan.ask(self.path("in.parquet"), model=self.model, max_new=2)
        self.assertEqual(found[0]["error"]["file"], self.path("in.parquet"))


class Reading(PackageTest):
    def test_what_cannot_be_read_ends_a_strict_job(self):
        rows = [*texts(["ferries"]), {**texts(["figs"])[0], "n": float("nan")}]
        self.assertEqual(len(banyan.ask(rows, model=self.model, max_new=2)), 2)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(rows, model=self.model, max_new=2, strict=True)
        self.assertIn("row 1, column 'n': NaN", str(caught.exception))

    def test_other_encodings_and_delimiters(self):
        pathlib.Path(self.path("in.csv")).write_bytes("id|context|note\n1|Text.|caf\u00e9\n".encode("latin-1"))
        row = banyan.ask(self.path("in.csv"), "why?", model=self.model, max_new=2, encoding="latin-1", delimiter="|",
                         columns=["note"])[0]
        self.assertEqual(row["note"], "caf\u00e9")


class Schema(PackageTest):
    def test_the_schema_is_the_same_whatever_the_rows_hold(self):
        import pyarrow
        questions = ["Why?", {"id": "when", "question": "When?"}]
        mixed = banyan.ask([{"context": "Text.", "n": 1}], questions, model=self.model, max_new=2).to_arrow()
        failed = banyan.ask([{"question": "no text", "n": 1}], model=self.model, max_new=2).to_arrow()
        for name in FIXED["ask"]:
            self.assertEqual(mixed.schema.field(name).type, failed.schema.field(name).type, name)
            self.assertFalse(pyarrow.types.is_null(failed.schema.field(name).type), name)
        self.assertEqual(mixed.column("question_id").to_pylist(), ["1", "when"])
        self.assertEqual(mixed.schema.names[:len(FIXED["ask"])], list(FIXED["ask"]))

    def test_columns_of_a_table_keep_their_types(self):
        import pyarrow
        table = pyarrow.table({"context": ["Text.", "More."], "question": ["why?", "why?"],
                               "small": pyarrow.array([1, None], pyarrow.int8()), "none": pyarrow.array([None, None], pyarrow.string()),
                               "day": pyarrow.array([datetime.date(2020, 1, 2), None])})
        found = banyan.ask(table, model=self.model, max_new=2).to_arrow()
        for name in ("small", "none", "day"):
            self.assertEqual(found.schema.field(name).type, table.schema.field(name).type, name)

    def test_the_page_has_the_schemas(self):
        page = (ROOT / "docs" / "python.md").read_text()
        for task, columns in FIXED.items():
            for name, kind in columns.items():
                self.assertIn(f"`{name}`", page, task)


class Meaning(PackageTest):
    def test_few_shot_names_a_file_as_on_the_command_line(self):
        examples = self.write("few.jsonl", [{"context": "Ivan sails.", "question": "Who?", "answer": "Ivan"}])
        rows = [{"id": 1, "context": "Anna steers.", "question": "Who?"}]
        wanted = self.command_lines("ask", self.write("in.jsonl", rows), "--max-new", 5, "--few-shot", examples, "--logprobs")
        for given in (examples, pathlib.Path(examples), pathlib.Path(examples).read_text(),
                      [{"context": "Ivan sails.", "question": "Who?", "answer": "Ivan"}]):
            self.assertEqual(banyan.ask(rows, model=self.model, max_new=5, few_shot=given, logprobs=True).lines, wanted, given)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(rows, model=self.model, few_shot="nowhere.jsonl")
        self.assertEqual(caught.exception.kind, "not_found")

    def test_the_text_of_an_answer_is_always_there(self):
        with banyan.Engine(self.model) as engine:
            plain = engine.submit("The ferry", max_new=12, stop_tokens=[]).answer()
            streamed = "".join(event.text for event in engine.submit("The ferry", max_new=12, stop_tokens=[], stream=True))
            self.assertEqual(len(plain.tokens), 12)
            self.assertNotEqual(plain.text, "")
            self.assertEqual(plain.text, streamed)
            stopped = engine.submit("The ferry", max_new=12, stop_tokens=[], stop=[plain.text[0]]).answer()
            self.assertEqual(stopped.text, "")

    def test_a_wrong_name_is_refused_at_once(self):
        for options, words in (({"fields": {"contxt": "body"}}, "fields: contxt: there is no such field; did you mean 'context'?"),
                               ({"engine": {"kv_memry": "1G"}}, "engine: kv_memry: there is no such option; did you mean 'kv_memory'?")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ask("/nowhere.jsonl", model="/nowhere.gguf", **options)
            self.assertEqual(str(caught.exception), words)
        with banyan.Engine(self.model) as engine:
            with self.assertRaises(banyan.Error) as caught:
                engine.submit("abc", temprature=1)
            self.assertIn("did you mean 'temperature'?", str(caught.exception))
            with self.assertRaises(banyan.Error) as caught:
                engine.submit(banyan.Segment("abc", [banyan.Ask()]), temperature=1.0)
            self.assertIn("a Segment has options of its own", str(caught.exception))

    def test_messages_speak_of_parameters(self):
        for call, words in ((lambda: banyan.ask(texts(["figs"]), model=self.model, retry_errors=True, output=self.path("o.jsonl")),
                             "retry_errors=True needs resume=True"),
                            (lambda: banyan.ask(texts(["figs"]), model=self.model, vote=True), "vote=True needs samples of 2 or more"),
                            (lambda: banyan.ask(texts(["figs"]), model=self.model, engine={"kv_save": True}), "needs kv_store")):
            with self.assertRaises(banyan.Error) as caught:
                call()
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("--", str(caught.exception))
        row = banyan.ask([{"context": "word " * 3000, "question": "why?"}], model=self.model, too_long="fail").errors[0]
        self.assertIn("ask about its parts (too_long)", row["error"]["message"])
        row = banyan.ask([{"context": "Text."}], model=self.model).errors[0]
        self.assertIn("or the parameter questions", row["error"]["message"])

    def test_the_docstring_explains_every_parameter(self):
        import inspect
        for call in (banyan.ask, banyan.extract, banyan.rag):
            for name in [one for one in inspect.signature(call).parameters if one != "more"]:
                self.assertIn(f"`{name}`", inspect.getdoc(call), call.__name__)


class Errors(PackageTest):
    def test_an_error_of_a_row_says_which_and_why(self):
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask([{"context": "a", "question": "b"}, 3], model=self.model)
        self.assertEqual((caught.exception.row, str(caught.exception)), (1, "row 1: expected a dict, found int"))


if __name__ == "__main__":
    unittest.main()
