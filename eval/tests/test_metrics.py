"""Scores on cases by hand, as the published scripts count them (SQuAD 1.1/2.0 for exact match and F1, rouge-score without stemmer for ROUGE-L).

`score_cases.json` is also the test of the scores in C++ (src/tasks/score/score_rows_test.cc).
"""
from __future__ import annotations

import json
import unittest
from pathlib import Path

from eval.metrics import chosen_text, exact_match, normalize, right_answers, rouge_l, token_f1

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
        for answer, text in (("A", "7:45"), ("(b)", "8:15"), ("b.", "8:15"), ("8:15", "8:15"), ("null", "null"), ("D", "D"), ("AB", "AB")):
            self.assertEqual(chosen_text(question, answer), text)
        self.assertEqual(chosen_text(dict(choices=["B", "A"]), "A"), "A")
        self.assertEqual(chosen_text({}, "A"), "A")


if __name__ == "__main__":
    unittest.main()
