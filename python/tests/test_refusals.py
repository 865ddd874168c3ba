"""What cannot be meant is said before the work: nothing to go on with, names that are slips, choices that are one."""

import logging
import os
import subprocess
import sys
import unittest

import banyan
import banyan.pandas
from support import PackageTest, documents


class Refusals(PackageTest):
    def ask(self, data, *questions, **options):
        return banyan.ask(data, *questions, model=self.model, max_new=2, **options)

    def refused(self, words, call):
        with self.assertRaises(banyan.Error) as caught:
            call()
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("--", str(caught.exception))


class Resume(Refusals):
    def test_without_an_output_there_is_nothing_to_go_on_with(self):
        self.refused("resume: expected output=", lambda: self.ask(documents(1), resume=True))
        path = self.write("in.jsonl", documents(1))
        self.refused("resume: expected output=", lambda: self.ask(path, resume=True))

    def test_an_output_that_is_not_there_is_said_before_the_model_is_loaded(self):
        for name in ("absent.jsonl", "absent.csv", "absent.parquet"):
            out = self.path(name)
            words = f"{out}: there is nothing to go on with: no such file; without resume=True the job begins"
            self.refused(words, lambda: banyan.ask(documents(1), model="no-such-model", output=out, resume=True))
            self.assertEqual(sorted(os.listdir(self.folder)), [])
            self.assertEqual(self.ask(documents(1), output=out, resume=True, overwrite=True).receipt["rows"], 2)
            self.assertEqual(self.ask(documents(2), output=out, resume=True).receipt["rows"], 4)
            for left in os.listdir(self.folder):
                os.remove(self.path(left))

    def test_the_command_says_so_too(self):
        path = self.write("in.jsonl", documents(1))
        for name in ("absent.jsonl", "absent.parquet"):
            command = [sys.executable, "-m", "banyan", "ask", path, "-m", self.model_path, "-o", self.path(name), "--resume"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 2)
            said = done.stderr
            self.assertIn("there is nothing to go on with: no such file; without --resume the job begins", said)


class Names(Refusals):
    def test_a_row_whose_field_is_a_slip(self):
        found = self.ask([{"id": 7, "contxt": "Text.", "question": "What?"}, {"context": "Text.", "qestion": "What?"}])
        self.assertEqual(found[0]["error"]["message"],
                         "row 0: expected the field 'context', found none; did you mean 'context' by 'contxt'?")
        self.assertIn("row 1: expected questions, found none", found[1]["error"]["message"])
        self.assertIn("did you mean 'question' by 'qestion'?", found[1]["error"]["message"])

    def test_in_extract_and_rag(self):
        schema = {"attributes": [{"name": "thing"}]}
        found = banyan.extract([{"texxt": "Text."}], schema, model=self.model)
        self.assertIn("did you mean 'text' by 'texxt'?", found[0]["error"]["message"])
        found = banyan.rag([{"qestion": "What?", "documents": ["Text."]}, {"question": "What?", "documents": [{"txt": "A"}]}],
                           model=self.model)
        self.assertIn("did you mean 'question' by 'qestion'?", found[0]["error"]["message"])
        self.assertIn("did you mean 'text' by 'txt'?", found[1]["error"]["message"])

    def test_a_field_that_nobody_would_miss_is_told_of(self):
        rows = [{"context": "Text.", "instuction": "Be brief."}, {"context": "Text.", "instuction": "Be brief.", "note": 1}]
        with self.assertLogs("banyan", logging.WARNING) as logs:
            found = self.ask(rows, "What?")
        self.assertEqual(found[0]["instuction"], "Be brief.")
        self.assertIn("row 0: the field 'instuction' is carried, not read (in 2 rows); did you mean 'instruction'?",
                      logs.records[0].getMessage())
        with self.assertNoLogs("banyan", logging.WARNING):
            self.ask([{"context": "Text.", "instuction": "a", "instruction": "b", "ids": 1, "content_type": "x"}], "What?")

    def test_columns_of_tables(self):
        import pandas

        frame = pandas.DataFrame({"id": [1], "contxt": ["Text."]})
        self.refused("expected a column 'context'; the input has id, contxt", lambda: self.ask(frame, "What?"))
        self.refused("did you mean 'contxt'?", lambda: self.ask(frame, "What?"))
        frame = pandas.DataFrame({"body": ["Text."], "labels": [["a", "b"]]})
        for fields, words in (({"context": "bdy"}, "expected a column 'bdy'; the input has id, body, labels"),
                              ({"context": "body", "choices": "lables"},
                               "expected a column 'lables' for 'choices'; the input has id, body, labels")):
            self.refused(words, lambda: self.ask(frame, "What?", fields=fields))
            self.refused("did you mean", lambda: self.ask(frame, "What?", fields=fields))
        path = self.path("in.csv")
        frame.assign(labels='["a", "b"]').to_csv(path, index=False)
        self.refused("expected a column 'lables' for 'choices'; the header has body, labels; did you mean 'labels'?",
                     lambda: self.ask(path, "What?", fields={"context": "body", "choices": "lables"}))


class Data(Refusals):
    def test_what_is_no_data_is_called_by_its_type(self):
        for data in (b"Text.", {"Text."}, 5, None):
            self.refused(f"data: expected files, texts, rows or a table, found {type(data).__name__}", lambda: self.ask(data, "What?"))

    def test_a_schema_may_be_a_file(self):
        import pathlib

        path = self.write("fields.json", [{"attributes": [{"name": "thing"}]}])
        for schema in (path, pathlib.Path(path)):
            self.assertIn("values", banyan.extract(["Text."], schema, model=self.model)[0])
        self.refused("schema: absent.json: No such file or directory",
                     lambda: banyan.extract(["Text."], "absent.json", model=self.model))

    def test_examples(self):
        rows = [{"question": "What?", "examples": None}]
        for examples, words in ((["text"], "examples: row 0: expected a dict with the texts 'question' and 'answer', found 'text'"),
                                ([{"question": "What?"}], "examples: row 0: expected a dict"),
                                ("absent.jsonl", "examples: absent.jsonl: No such file or directory")):
            self.refused(words, lambda: banyan.rag(rows, experts="examples", examples=examples, model=self.model))

    def test_documents_of_an_index(self):
        import pandas

        index = banyan.Index.build(None, pandas.Series(["The ferry leaves.", "The barge is green."]))
        self.assertEqual([one.text for one in index.search("ferry")], ["The ferry leaves."])
        self.refused("The ferry leaves.: no such file or folder; a text is given as a row",
                     lambda: banyan.Index.build(None, ["The ferry leaves."]))
        self.refused("no index there; make one with Index.build(…)", lambda: banyan.Index(self.path("absent")))


class Choices(Refusals):
    def test_equal_ones_are_refused(self):
        words = """'choices': expected different texts, found "yes" twice"""
        question = {"question": "Is it?", "choices": ["yes", "no", "yes"]}
        self.refused(words, lambda: self.ask(documents(1), question))
        found = self.ask([{"id": 1, "context": "Text.", "questions": [question, "What?"]}])
        self.assertIn(words, found[0]["error"]["message"])
        self.assertNotIn("error", found[1])

    def test_labels_of_columns(self):
        import pandas

        words = "labels: expected different texts, found 'yes' twice"
        texts = pandas.Series(["Text."])
        self.refused(words, lambda: texts.banyan.ask_choice("Is it?", ["yes", "yes"], model=self.model))


class Indexes(Refusals):
    def setUp(self):
        super().setUp()
        self.notes = self.folder / "notes"
        self.notes.mkdir()
        for name, text in (("ferry", "The ferry leaves at seven."), ("barge", "The barge is green.")):
            (self.notes / f"{name}.txt").write_text(text)
        self.index = banyan.Index.build(self.path("idx"), [str(self.notes)])

    def change(self):
        (self.notes / "ferry.txt").write_text("The ferry leaves at nine.")
        (self.notes / "barge.txt").unlink()
        (self.notes / "tug.txt").write_text("The tug is old.")

    def test_changes_are_found_and_update_takes_them_up(self):
        self.assertFalse(self.index.changes())
        (self.notes / "empty.txt").write_text(" \n")  # has no documents: nothing is missing
        self.assertFalse(self.index.changes())
        self.change()
        found = self.index.changes()
        self.assertEqual([os.path.basename(one) for one in found.changed + found.gone + found.added],
                         ["ferry.txt", "barge.txt", "tug.txt"])
        self.assertIs(self.index.update(), self.index)
        self.assertFalse(self.index.changes())
        self.assertEqual([one.text for one in self.index.search("ferry")], ["The ferry leaves at nine."])
        self.assertEqual([one.text for one in self.index.search("tug")], ["The tug is old."])
        self.assertEqual(self.index.search("barge"), [])

    def test_whoever_searches_an_old_one_hears_of_it_once(self):
        self.change()
        with self.assertLogs("banyan", logging.WARNING) as logs:
            self.index.search("ferry")
        said = logs.records[0].getMessage()
        self.assertIn("the index is older than its documents: 1 changed, 1 gone, 1 new", said)
        self.assertIn(f"Index('{self.path('idx')}').update()", said)
        self.index._looked = -1.0
        with self.assertNoLogs("banyan", logging.WARNING):
            self.index.search("ferry")

    def test_a_job_says_so(self):
        with self.assertNoLogs("banyan", logging.WARNING):
            banyan.rag([{"question": "When does the ferry leave?"}], index=self.index, model=self.model, max_new=2)
        self.change()
        with self.assertLogs("banyan", logging.WARNING) as logs:
            banyan.rag([{"question": "When does the ferry leave?"}], index=self.index, model=self.model, max_new=2)
        self.assertIn("1 changed, 1 gone, 1 new", logs.records[0].getMessage())

    def test_one_that_was_made_anew_is_read_again(self):
        self.change()
        banyan.Index(self.path("idx")).update()
        self.assertEqual([one.text for one in self.index.search("ferry")], ["The ferry leaves at nine."])

    def test_documents_in_memory_do_not_grow_old(self):
        for folder in (None, self.path("rows")):
            index = banyan.Index.build(folder, [{"id": "a", "text": "The ferry leaves at seven."}])
            with self.assertNoLogs("banyan", logging.WARNING):
                self.assertEqual(index.search("ferry")[0].id, "a")
                row = banyan.rag([{"question": "When does the ferry leave?"}], index=index, model=self.model, max_new=2)[0]
            self.assertNotIn("stale", row)
            self.assertFalse(index.update().changes())
        index = banyan.Index.build(self.path("rows"), [{"id": "b", "text": "The tug is old."}])
        self.assertEqual([one.id for one in index.search("tug ferry")], ["b"])


if __name__ == "__main__":
    unittest.main()
