"""Data sets by name: forms that are read, errors that name file and line, documents of training that are marked."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import re
import tempfile
import unittest
from pathlib import Path

from eval import code_lines
from eval.data import BadRow, get, kind_of, main, names, read_checked, read_file
from eval.planted import planted_document, planted_in_book
from eval.sets import TOKENIZER
from train.extract_real import held_name
from train.tokenizer import Tokenizer
from train.reader_data import is_held

QUESTION = dict(id="a", context="Ruth left.", questions=[dict(id="1", question="Who left?", answers=["Ruth"])])


class Forms(unittest.TestCase):
    def test_kinds(self):
        self.assertEqual(kind_of(QUESTION), "questions")
        self.assertEqual(
            kind_of(dict(id=1, context="x", questions=[dict(question="q", choices=["a", "b"], right=1)])), "questions"
        )
        self.assertEqual(kind_of(dict(id=1, question="q", answers=[], documents=[dict(text="t")])), "documents")
        self.assertEqual(kind_of(dict(id=1, text="t", attributes=["a"], values={})), "values")
        for bad in (
            [],
            {},
            dict(id=1),
            dict(id=1, questions=[]),
            dict(id=1, context="x", questions=[dict(question="q")]),
            dict(id=1, context="x", questions=[dict(question="q", choices=["a"], right=1)]),
            dict(id=1, question="q", answers=[], documents=[{}]),
            dict(id=1, attributes=[], text="t"),
        ):
            with self.assertRaises(BadRow):
                kind_of(bad)

    def test_errors_name_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "x.jsonl")
            for lines, where in (
                ([QUESTION, {}], "line 2"),
                ([QUESTION, dict(id=1, text="t", attributes=[], values={})], "another kind"),
                ([], "no rows"),
            ):
                file.write_text("".join(json.dumps(row) + "\n" for row in lines))
                with self.assertRaisesRegex(BadRow, where):
                    read_checked(file)
            file.write_text("{\n")
            with self.assertRaisesRegex(BadRow, "x.jsonl, line 1"):
                read_checked(file)


class Names(unittest.TestCase):
    def test_documents_of_training_are_marked(self):
        rows = [dict(QUESTION, id=f"narrativeqa-{n}") for n in range(40)]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "narrativeqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            kind, found = get("narrativeqa", Path(folder))
        self.assertEqual(kind, "questions")
        self.assertEqual(
            [r["id"] for r in found if not r.get("trained_on")],
            [r["id"] for r in rows if is_held("narrativeqa", r["id"])],
        )
        self.assertTrue(any(r.get("trained_on") for r in found))

    def test_documents_with_values_that_training_left_out(self):
        rows = [dict(id=f"anystyle-{n}", text="Doe, J. 1999", values={"date": "1999"}) for n in range(200)]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "references_anystyle.jsonl.gz")
            with gzip.open(file, "wt") as out:
                out.write("".join(json.dumps(row) + "\n" for row in rows))
            name, kind, found = read_file(file)
        self.assertEqual((name, kind), ("references_anystyle", "values"))
        left = [r["id"] for r in found if not r.get("trained_on")]
        self.assertEqual(left, [r["id"] for r in rows if held_name(r["id"])])
        self.assertTrue(left)

    def test_samples_and_generated_sets(self):
        self.assertEqual(get("natural", None)[0], "questions")
        kind, rows = get("code_16", None, scale=0.02)
        self.assertEqual((kind, len(rows), len(rows[0]["documents"])), ("documents", 1, 16))
        self.assertIn("haystack_1k", names(None))

    def test_lines_of_code_call_what_another_file_defines(self):
        known = code_lines.functions(code_lines.ROOT)
        for row in code_lines.rows(random.Random(3), 12, 4):
            (gold,) = [d for d in row["documents"] if d["gold"]]
            self.assertRegex(row["answers"][0], rf"\b{gold['id']}\(")
            self.assertEqual((len(row["documents"]), known[gold["id"]][0]), (4, gold["title"]))
            self.assertNotIn(row["answers"][0], row["question"].splitlines()[-1])
            self.assertEqual(kind_of(row), "documents")

    def test_the_command(self):
        def run(*arguments):
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                return main(list(arguments)), out.getvalue()

        with tempfile.TemporaryDirectory() as folder:
            code, said = run("get", "natural", "--out", folder)
            self.assertEqual((code, "13 rows of questions, 100 answers" in said), (0, True), said)
            self.assertEqual(run("get", "natural", "--out", folder)[0], 2)  # nothing is replaced unasked
            code, said = run("get", "nosuchset", "--out", folder)
            self.assertEqual((code, "no data set 'nosuchset'" in said), (2, True))
        self.assertIn("natural", run("list")[1])


class Planted(unittest.TestCase):
    def test_more_questions_begin_with_the_fewer(self):
        few, many = planted_document(400, 4), planted_document(400, 10)
        self.assertEqual(few["context"], many["context"])
        self.assertEqual(few["questions"], many["questions"][:4])
        self.assertEqual(len({q["question"] for q in many["questions"]}), 10)
        self.assertEqual([bool(q["answers"]) for q in many["questions"][:5]], [True] * 4 + [False])
        for q in many["questions"]:
            for answer in q["answers"]:
                self.assertIn(answer, many["context"])

    def test_facts_in_a_book(self):
        book = "It was late. The prince rose! Who came? " * 400
        few, many = planted_in_book(book, 600, 4), planted_in_book(book, 600, 10)
        self.assertEqual((few["context"], few["questions"]), (many["context"], many["questions"][:4]))
        self.assertIn("The prince rose!", many["context"])
        self.assertLessEqual(len(Tokenizer.load(TOKENIZER).encode(many["context"])), 600 * 1.05)
        self.assertEqual([bool(q["answers"]) for q in many["questions"]], [n % 5 != 4 for n in range(10)])
        for q in many["questions"]:
            name = re.search(r"named ([A-Z][a-z]+)", q["question"])[1]
            self.assertEqual(f"named {name} has" in many["context"], bool(q["answers"]))
            for colour in q["answers"]:
                self.assertRegex(many["context"], f"named {name} has a [a-z]+ that is {colour}[.]")
        all_wordings = planted_in_book(book, 600, 80)["questions"]  # more than there are facts
        self.assertEqual(len({q["question"] for q in all_wordings}), 80)
        with self.assertRaisesRegex(ValueError, "no 1000 different"):
            planted_in_book(book, 600, 1000)

    def test_too_many_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no 100000 different"):
            planted_document(60, 100000)


if __name__ == "__main__":
    unittest.main()
