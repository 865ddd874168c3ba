"""Scores on cases by hand, as the published scripts count them (SQuAD 1.1/2.0 for exact match and F1, rouge-score without stemmer for ROUGE-L)."""
from __future__ import annotations

import unittest

from eval.metrics import ExtractionScore, chosen_text, exact_match, normalize, right_answers, rouge_l, sub_span, token_f1


class Squad(unittest.TestCase):
    def test_normal_form(self):
        for text, normal in (("The  Cat's paw!", "cats paw"), ("an apple, a day", "apple day"), ("Theatre", "theatre"), ("U.S.", "us"), ("the", ""), ("A-1", "a1"), ("naïve “café”", "naïve “café”")):
            self.assertEqual(normalize(text), normal)

    def test_exact(self):
        self.assertTrue(exact_match("the Normans", ["Normans"]))
        self.assertTrue(exact_match("10th century", ["in the 10th century", "10th century."]))
        self.assertFalse(exact_match("10th centuries", ["10th century"]))
        self.assertTrue(exact_match("null", []))
        self.assertFalse(exact_match("1840", []))

    def test_f1(self):
        self.assertAlmostEqual(token_f1("in the 10th century", ["10th century"]), 2 * 2 / (3 + 2))
        self.assertAlmostEqual(token_f1("a b b", ["b b b"]), 2 * 2 / (2 + 3))  # the article goes, words count as often as they stand in both
        self.assertEqual(token_f1("red", ["blue"]), 0.0)
        self.assertEqual(token_f1("the", ["an"]), 1.0)  # both empty: equal, as SQuAD 2.0 counts no-answers
        self.assertEqual(token_f1("the", ["cat"]), 0.0)
        self.assertAlmostEqual(token_f1("cat sat", ["dog", "the cat sat down"]), 2 * 2 / (2 + 3))  # the best of several

    def test_sub_span(self):
        self.assertTrue(sub_span("It was sold by Ruth Hall in 1840.", ["ruth hall"]))
        self.assertFalse(sub_span("It was sold by Ruth in 1840.", ["Ruth Hall"]))
        self.assertTrue(sub_span("concatenate", ["cat"]))


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


class Extraction(unittest.TestCase):
    def test_counts_of_all_kinds(self):
        score = ExtractionScore()
        for value, gold in (("red", ["Red"]), (None, []), ("blue", ["red"]), (None, ["red"]), ("red", []), ("3 kg", ["3 kg", "3kg"])):
            score.add(value, gold)
        self.assertEqual((score.correct, score.correct_null, score.incorrect, score.missing, score.hallucinated), (2, 1, 1, 1, 1))
        self.assertAlmostEqual(score.f1, 3 / 5)


if __name__ == "__main__":
    unittest.main()
