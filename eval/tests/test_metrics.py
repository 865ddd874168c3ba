"""Scores on cases by hand, as the published scripts count them (SQuAD 1.1/2.0 for exact match and F1, rouge-score
without stemmer for ROUGE-L), and the same cases by `banyan eval`.

`score_cases.json` is also the test of the scores in C++ (src/tasks/score/score_rows_test.cc).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from eval.metrics import (
    calibration_error,
    chosen_text,
    code_similarity,
    contains,
    exact_match,
    items_found,
    normalize,
    right_answers,
    rouge_l,
    sub_span,
    token_f1,
)

CASES = json.loads(Path(__file__).with_name("score_cases.json").read_text(encoding="utf-8"))


class Squad(unittest.TestCase):
    def test_normal_form(self):
        for text, normal in CASES["normal"]:
            self.assertEqual(normalize(text), normal)

    def test_exact_and_f1(self):
        for case in CASES["answers"]:
            right, answer = right_answers(case["question"]), chosen_text(case["question"], case["answer"])
            self.assertEqual(exact_match(answer, right), bool(case["exact"]), case)
            self.assertAlmostEqual(token_f1(answer, right), case["f1"], msg=case)

    def test_sub_span_is_of_whole_words(self):
        for answer, gold, right in CASES["sub_span"]:
            self.assertEqual(sub_span(answer, gold), bool(right), (answer, gold))
        self.assertFalse(contains("The Simpsons: Bart", "art"))

    def test_items_are_found_by_one_of_their_names(self):
        self.assertEqual(items_found("Anne and Bob", [["Ann", "Anne"], ["Bo"]]), 0.5)
        self.assertEqual(items_found("", [["Ann"]]), 0.0)

    def test_calibration_error(self):
        self.assertIsNone(calibration_error([]))
        for case in CASES["calibration"]:
            self.assertAlmostEqual(calibration_error(case["points"]), case["error"])


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: scores are not compared with `banyan eval`")
class Program(unittest.TestCase):
    """The program scores every case alone as the functions here do."""

    def scored(self, task: str, gold: list[dict], rows: list[dict]) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, "gold.jsonl"), Path(folder, "rows.jsonl")]
            for file, lines in zip(files, (gold, rows)):
                file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            done = subprocess.run([os.environ["BANYAN"], "eval", task, *map(str, files), "--json"], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])  # `ask` says first what null to every question scores

    def test_sub_span_exact_and_f1_over_documents(self):
        cases = [(answer, gold) for answer, gold, _ in CASES["sub_span"]]
        cases += [(c["answer"], c["question"]["answers"]) for c in CASES["answers"] if "choices" not in c["question"]]
        for answer, gold in cases:
            with self.subTest(answer=answer, gold=gold):
                score = self.scored("rag", [dict(id=1, question="?", answers=gold)], [dict(id=1, answer=answer)])
                self.assertEqual(score["sub_span"], float(sub_span(answer, gold)))
                self.assertEqual(score["exact"], float(exact_match(answer, gold)))
                self.assertAlmostEqual(score["f1"], token_f1(answer, gold))

    def test_exact_and_f1_of_questions_and_choices(self):
        for case in CASES["answers"]:
            with self.subTest(case=case):
                question, answer = dict(case["question"], id=1, question="?"), case["answer"]
                gold = dict(id=1, context="", questions=[question])
                score = self.scored("ask", [gold], [dict(id=1, question_id=1, answer=answer)])
                right, chosen = right_answers(question), chosen_text(question, answer)
                self.assertEqual(score["exact"], float(exact_match(chosen, right)))
                self.assertAlmostEqual(score["f1"], token_f1(chosen, right))

    def test_calibration_error(self):
        for case in CASES["calibration"]:
            asked = [dict(id=n, question="?", answers=["x"]) for n in range(len(case["points"]))]
            rows = [
                dict(id=1, question_id=n, answer="x" if right else "y", confidence=sure)
                for n, (sure, right) in enumerate(case["points"])
            ]
            score = self.scored("ask", [dict(id=1, context="", questions=asked)], rows)
            self.assertAlmostEqual(score["calibration_error"], calibration_error(case["points"]))


class Rouge(unittest.TestCase):
    def test_longest_common_subsequence(self):
        # police killed the gunman / police kill the gunman: 3 of 4 and 4
        self.assertAlmostEqual(rouge_l("police killed the gunman", ["police kill the gunman"]), 0.75)
        self.assertAlmostEqual(rouge_l("the gunman kill police", ["police kill the gunman"]), 0.5)
        self.assertAlmostEqual(rouge_l("a b c d e", ["a c e"]), 2 * (3 / 5) * (3 / 3) / (3 / 5 + 3 / 3))

    def test_tokens(self):
        self.assertEqual(rouge_l("It's 7:45!", ["it s 7 45"]), 1.0)
        self.assertEqual(rouge_l("...", ["..."]), 0.0)  # no token
        self.assertEqual(rouge_l("the", ["the"]), 1.0)  # articles stay

    def test_best_of_several(self):
        self.assertEqual(rouge_l("seven crates", ["nothing", "Seven crates"]), 1.0)
        self.assertEqual(rouge_l("null", []), 1.0)


class Code(unittest.TestCase):
    def test_lines_of_code(self):
        self.assertEqual(code_similarity("return x\nmore", ["return x"]), 1.0)
        self.assertEqual(code_similarity("```\n# why\nreturn x", ["nothing", "return x"]), 1.0)
        self.assertAlmostEqual(code_similarity("ab", ["ac"]), 0.5)
        self.assertEqual((code_similarity("", ["ab"]), code_similarity("ab", [])), (0.0, 0.0))


class Choices(unittest.TestCase):
    def test_right_ones(self):
        self.assertEqual(right_answers(dict(answers=["x"])), ["x"])
        self.assertEqual(right_answers(dict(choices=["yes", "no"], right=1)), ["no"])
        self.assertEqual(right_answers(dict(choices=["yes", "no"], answers=["B"])), ["no"])
        self.assertEqual(right_answers(dict(choices=["yes", "no"], answers=["No"])), ["no"])
        self.assertEqual(right_answers(dict(choices=["yes", "no"], answers=["C"])), ["C"])  # no such letter
        self.assertEqual(right_answers(dict(choices=["yes", "no"], answers=[])), [])

    def test_given_ones(self):
        question = dict(choices=["7:45", "8:15"])
        for answer, text in (
            ("A", "7:45"),
            ("(b)", "8:15"),
            ("b.", "8:15"),
            ("8:15", "8:15"),
            ("null", "null"),
            ("D", "D"),
            ("AB", "AB"),
        ):
            self.assertEqual(chosen_text(question, answer), text)
        self.assertEqual(chosen_text(dict(choices=["B", "A"]), "A"), "A")
        self.assertEqual(chosen_text({}, "A"), "A")


if __name__ == "__main__":
    unittest.main()
