"""Evaluations of one form, by runs whose answers are known; documents of training, by hashes beside a card."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from eval import form, trained
from eval.data import BadRow, kind_of
from eval.seqbatch import with_given
from eval.summaries import of_any_job, with_notes
from train.trained_on import BYTES, file_beside, hash_of, packed, trained_texts, write

TEXT = "Ruth sold the mill on the river in 1840."
QUESTIONS = dict(
    id="a",
    context=TEXT,
    questions=[dict(id="1", question="Who?", answers=["Ruth"]), dict(id="2", question="When?", answers=["1840"])],
)
OTHER = dict(
    id="b",
    context="Paul bought a boat in the spring of 1851.",
    questions=[dict(id="1", question="Who?", choices=["Paul", "Ruth"], right=0)],
)
WRITTEN = {"flat": {"a1": "Ruth", "a2": "1840", "b1": "Paul"}, "auto": {"a1": "Ruth", "a2": "in 1840", "b1": "Paul"}}


def run(a, command, rows, options):
    """As the program would: flat takes a second for each question, auto one for all."""
    strategy = options[options.index("--strategy") + 1]
    written = [
        dict(id=r["id"], question_id=q["id"], answer=WRITTEN[strategy][r["id"] + q["id"]], confidence=0.9)
        for r in rows
        for q in r["questions"]
    ]
    return written, dict(seconds=dict(total=len(written) if strategy == "flat" else 1.0), kv_bytes_peak=3 * 2**20)


class Form(unittest.TestCase):
    def call(self, *words: str) -> tuple[int, str, dict]:
        out = io.StringIO()
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch("eval.form.run", run),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            file, model, made = Path(folder, "some.jsonl"), Path(folder, "model.gguf"), Path(folder, "made.json")
            file.write_text(json.dumps(QUESTIONS) + "\n" + json.dumps(OTHER) + "\n")
            model.write_bytes(b"")
            write(model, [OTHER["context"]])
            code = form.main(
                "ask", [str(file), "-m", str(model), "--price", "3.6", "--draws", "20", "--json", str(made), *words]
            )
            return code, out.getvalue(), json.loads(made.read_text()) if made.exists() else {}

    def test_scores_rate_cost_and_sameness(self):
        code, said, made = self.call("--ways", "flat,auto", "--repeat", "2", "--trained", "mark")
        self.assertEqual(code, 0, said)
        flat, auto = made["some"]
        self.assertEqual(
            (flat["scores"]["exact"], auto["scores"]["exact"], auto["scores"]["sub-span"]), (1.0, 0.5, 1.0)
        )
        self.assertEqual((flat["same"], auto["same"]), (1.0, 0.5))
        self.assertEqual((flat["rates"], auto["rates"], auto["kv_mib"]), ([1.0, 1.0], [2.0, 2.0], 3.0))
        self.assertAlmostEqual(auto["cost_of_1000"], 0.5)
        self.assertAlmostEqual(flat["scores"]["calibration"], 0.1)
        self.assertEqual(flat["intervals"]["exact"], [1.0, 1.0])
        self.assertEqual(made["some, trained on: no test"][0]["scores"]["accuracy"], 1.0)

    def test_answers_that_cannot_be_read_are_counted(self):
        """SeqBatch: one of two numbers is missing, so one of two questions failed."""
        receipt = dict(seconds=dict(total=1.0), kv_bytes_peak=0)
        with mock.patch("eval.seqbatch.run", lambda a, rows, options: ([dict(id="a#0", answer="1. Ruth")], receipt)):
            code, said, made = self.call("--ways", "flat,seqbatch-4")
        self.assertEqual(code, 0, said)
        self.assertEqual([r["failed"] for r in made["some"]], [0, 1])
        self.assertEqual(made["some"][1]["scores"]["exact"], 0.5)

    def test_documents_of_training(self):
        code, said, made = self.call("--ways", "flat")
        self.assertEqual((code, list(made)), (0, ["some"]))
        self.assertIn("1 of 2 documents are of the model's training: left out", said)
        code, said, made = self.call("--ways", "flat", "--trained", "refuse")
        self.assertEqual((code, made), (2, {}))

    def test_what_is_wrong_is_said(self):
        code, said, _ = self.call("--ways", "nonsense")
        self.assertEqual((code, "found 'nonsense'" in said), (2, True), said)
        code, said, _ = self.call("--ways", "lookup,flat")
        self.assertEqual((code, "expected a strategy before it" in said), (2, True), said)

    def test_the_limit_of_an_answer_is_the_sets_or_what_is_given(self):
        asked = []
        spy = lambda a, command, rows, options: (asked.append([*options, *a.options]), run(a, command, rows, options))[
            1
        ]
        with mock.patch("eval.form.set_of", lambda name, folder: (name, "questions", [QUESTIONS])):
            for words, limit in ((["squad2"], "30"), (["other"], "32"), (["other", "--max-new", "5"], "5")):
                with mock.patch("eval.form.run", spy), contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(form.main("ask", [*words, "-m", "m", "--ways", "flat", "--draws", "1"]), 0)
                self.assertEqual(asked[-1][asked[-1].index("--max-new") + 1], limit)
            with mock.patch("eval.form.run", spy), contextlib.redirect_stdout(io.StringIO()):
                form.main("ask", ["squad2", "-m", "m", "--ways", "flat", "--draws", "1", "--", "--max-new", "40"])
        self.assertEqual((asked[-1].count("--max-new"), asked[-1][asked[-1].index("--max-new") + 1]), (1, "40"))

    def test_lines_of_code_are_compared_by_their_characters(self):
        with mock.patch("eval.form.run", run):
            ways = form.ask_ways(
                argparse.Namespace(repeat=1, max_new=8), [dict(QUESTIONS, dataset="lcc")], ["flat", "auto"]
            )
        scores = [r["scores"] for r in form.summary(argparse.Namespace(draws=1, price=0.0), ways)]
        self.assertEqual(scores[0]["code similarity"], 1.0)
        self.assertAlmostEqual(scores[1]["code similarity"], (1 + 8 / 11) / 2)  # "in 1840" for "1840"

    def test_turns_of_a_dialogue_stand_before_a_question(self):
        questions = [
            dict(id="d0-0", question="Who?", answers=["Ruth", "R."]),
            dict(id="d0-1", question="When?", answers=[]),
            dict(id="d1-0", question="Where?", answers=["here"]),
            dict(id="d0-2", question="Why?", answers=["so"]),
        ]
        asked = lambda most: [
            q["question"] for q in form.with_turns([dict(QUESTIONS, questions=questions)], most)[0]["questions"]
        ]
        self.assertEqual(asked(9), ["Who?", "Who? Ruth\nWhen?", "Where?", "Who? Ruth\nWhen? null\nWhy?"])
        self.assertEqual(asked(1)[3], "When? null\nWhy?")
        code, said, made = self.call("--ways", "flat", "--turns", "2")
        self.assertEqual((code, made["some"][0]["scores"]["exact"]), (0, 1.0), said)

    def test_saying_nothing_is_a_way(self):
        scored = dict(
            name="null", all=dict(strict_f1=0.0, accuracy=0.5), labelled=dict(f1=0.0), intervals=dict(strict_f1=[0, 0])
        )
        done = mock.Mock(stdout=json.dumps(dict(runs=[scored])))
        settings = argparse.Namespace(repeat=1, schema=None, set_name="x", banyan="b", draws=1, price=1.0)
        with mock.patch("eval.form.subprocess.run", return_value=done) as program:
            ways = form.extract_ways(settings, [dict(id=1, text="t", values={"x": "y"})], ["null"])
        self.assertEqual(program.call_count, 1)  # the scores; no model ran
        (row,) = form.summary(settings, ways)
        self.assertEqual((row["scores"]["accuracy"], row["cost_of_1000"]), (0.5, None))

    def test_options_that_are_given_replace_those_of_a_way(self):
        self.assertEqual(
            with_given(["--method", "top1", "--no-copy"], ["--method", "concat"]), ["--no-copy", "--method", "concat"]
        )
        self.assertEqual(with_given(["--a", "1", "--b", "2"], ["--a=3"]), ["--b", "2", "--a=3"])

    def test_a_schema_of_what_rows_name(self):
        rows, schema = form.schema_of(
            [
                dict(id=1, text="t", attributes=["x"], values={}),
                dict(id=2, text="t", category="c", attributes=["y"], values={}),
                dict(id=3, text="t", attributes=["x", "z"], values={}),
            ]
        )
        self.assertEqual(
            schema,
            {
                "categories": {
                    "document": {"attributes": [{"name": "x"}, {"name": "z"}]},
                    "c": {"attributes": [{"name": "y"}]},
                }
            },
        )
        self.assertEqual([r["category"] for r in rows], ["document", "c", "document"])


EXAMPLES = dict(
    id="e", question="Bonjour?", answers=["French"], examples=[dict(question="Guten Tag?", answer="German")] * 3
)


class Documents(unittest.TestCase):
    arguments = argparse.Namespace(repeat=1, options=[], draws=10, price=0.0, banyan="", model="", adapter="")

    def ways(self, rows: list[dict], names: list[str], answer: str) -> tuple[list[form.Way], list[list[str]]]:
        asked = []

        def rag(a, command, given, options):
            asked.append(options)
            return [dict(id=r["id"], answer=answer) for r in given], dict(seconds=dict(total=1.0))

        with mock.patch("eval.form.run", rag):
            return form.rag_ways(self.arguments, rows, names), asked

    def test_examples_are_experts(self):
        self.assertEqual(kind_of(EXAMPLES), "examples")
        with self.assertRaises(BadRow):
            kind_of(dict(EXAMPLES, examples=[dict(question="?")]))
        ways, asked = self.ways([EXAMPLES], ["experts", "paper", "one-prompt"], "French")
        self.assertEqual([w.judged[0][0]["exact"] for w in ways], [1.0] * 3)
        self.assertTrue(all(" ".join(o).startswith("--method experts --experts examples") for o in asked))
        self.assertIn("--scores raw", " ".join(asked[1]))
        self.assertIn("--examples-per-expert 3", " ".join(asked[2]))
        with self.assertRaisesRegex(form.WrongUse, "rows with examples, found 'concat'"):
            self.ways([EXAMPLES], ["concat"], "French")

    def test_several_things_are_counted_as_recall(self):
        row = dict(id="r", question="Who?", answers=["Ann, Bo"], items=[["Ann", "Anne"], ["Bo"]], documents=[])
        other = dict(row, id="s", answers=["Anne"])
        del other["items"]
        way = self.ways([row, other], ["top1"], "It was Anne and Bob")[0][0]
        self.assertEqual([one["recall"] for (one,) in way.judged], [0.5, None])
        scores = form.summary(self.arguments, [way])[0]["scores"]
        self.assertEqual(scores["recall"], 0.75)  # a question that wants one thing: sub-span match
        self.assertNotIn("recall", form.summary(self.arguments, self.ways([other], ["top1"], "x")[0])[0]["scores"])

    def test_summaries_get_the_options_that_ask_has(self):
        given = ["--relevance", "dense", "--threads", "2", "--encoder", "E", "--device=cuda", "--no-copy"]
        self.assertEqual(of_any_job(given), ["--threads", "2", "--device=cuda"])

    def test_summaries_take_the_place_of_documents(self):
        rows = [dict(id="r", question="Who?", documents=[dict(id=n, text=t) for n, t in enumerate(("one", "two"))])]
        made = with_notes(rows, ["one", "two"], {0: " First. ", 1: None})
        self.assertEqual(made[0]["documents"], [dict(id=0, text="First.")])
        self.assertEqual(made[0]["notes"], {"0": "First.", "1": ""})
        self.assertEqual(len(with_notes(rows, ["one", "two"], {})[0]["documents"]), 1)

    def test_the_papers_rule_is_a_way(self):
        _, asked = self.ways(
            [dict(id="r", question="?", answers=[], documents=[])], ["paper", "kv-concat:0.9:0.8"], "x"
        )
        self.assertIn("--scores raw --plausibility 0 --abstention 0 --gamma 2.5 --beta expert", " ".join(asked[0]))
        self.assertIn("--ape-temperature 0.9 --ape-scale 0.8", " ".join(asked[1]))


class Trained(unittest.TestCase):
    def test_words_count_and_nothing_else(self):
        seen = trained.TrainedOn(packed([TEXT, OTHER["context"]]), known=True)
        self.assertEqual(len(seen), 2)
        self.assertIn("ruth SOLD the mill,\non the river in 1840", seen)
        self.assertNotIn(TEXT + " Then she left.", seen)
        self.assertIsNone(hash_of("in the mill"))  # a name, not a document
        self.assertNotIn("anything at all is unknown", trained.TrainedOn())

    def test_of_an_adapter_and_its_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model, adapter = Path(folder, "m.gguf"), Path(folder, "adapter")
            adapter.mkdir()
            model.write_bytes(b"")
            (adapter / "banyan.json").write_text('{"copies": true}')
            self.assertEqual(write(adapter, [TEXT]), 1)
            self.assertEqual(
                json.loads((adapter / "banyan.json").read_text()),
                {"copies": True, "trained_on": {"file": "trained-on.bin", "texts": 1}},
            )
            of_model, of_adapter = trained.read(str(model), str(adapter))
            self.assertEqual((of_model.known, of_adapter.known), (False, True))
            rows, marked = trained.mark(
                [QUESTIONS, OTHER, dict(id=1, documents=[dict(text=TEXT)])], [of_model, of_adapter]
            )
            self.assertEqual((marked, [bool(r.get("trained_on")) for r in rows]), (2, [True, False, True]))
            (adapter / "trained-on.bin").write_bytes(b"1234567")
            with self.assertRaisesRegex(trained.BadHashes, "trained-on.bin: expected hashes of 6 bytes"):
                trained.read("", str(adapter))
            (adapter / "banyan.json").write_text('{"trained_on": {"file": "../elsewhere"}}')
            with self.assertRaises(trained.BadHashes):
                trained.read("", str(adapter))

    def test_which_texts_count(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "texts.jsonl")
            file.write_text(
                "".join(
                    json.dumps(r) + "\n"
                    for r in (
                        dict(split="train", text="one"),
                        dict(split="held", text="two"),
                        dict(documents=[["three", True], {"text": "four"}]),
                        dict(context="five"),
                    )
                )
            )
            self.assertEqual(list(trained_texts([file], None)), ["one", "three", "four", "five"])
        self.assertEqual(file_beside(Path("x/reader.gguf")), Path("x/reader.trained-on.bin"))
        self.assertEqual(BYTES, 6)


if __name__ == "__main__":
    unittest.main()
