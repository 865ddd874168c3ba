"""Templates of everyday texts: the format, and that every answer of the shipped ones stands in every expansion."""

from __future__ import annotations

import random
import unittest

from train.lexicon import HELD, TRAIN, Lexicon
from train.natural import FOLDER, expand, fill, join_lines, load, natural, parse, spelled, templates, without
from train.natural_words import KINDS, value

TEXT = """# order-note
Dear {p:woman},
your {what=lamp|old clock} left {c:city}
on {d:date}. [[It||The parcel]] weighs {w:weight}[[?, box included]].

| part | price |
| shade | {m:price} |
{p.first} and {p's} neighbour.
Q: What was sent? | Which thing
  left {c}?
A: {what} || the {what}
N: Who packed it?
"""


class Format(unittest.TestCase):
    def setUp(self):
        self.lex = Lexicon(random.Random(3), TRAIN)

    def test_parts_of_a_template(self):
        (t,) = parse(TEXT, "orders")
        self.assertEqual((t.name, t.kind), ("order-note", "orders"))
        self.assertEqual(t.questions[0].wordings, ["What was sent?", "Which thing left {c}?"])
        self.assertEqual([q.answers for q in t.questions], [["{what}", "the {what}"], []])
        self.assertEqual(t.slots["what"], ("", ["lamp", "old clock"]))
        with self.assertRaisesRegex(ValueError, "no kind"):
            fill("{nobody}", {}, "x")
        with self.assertRaisesRegex(ValueError, "not known"):
            parse("# a\n{x:unicorn}\n", "k")[0].slots

    def test_lines_of_a_paragraph_are_joined_but_not_those_of_a_table(self):
        self.assertEqual(
            join_lines("Dear Ann,\nhow are you?\n\n| a | b |\n| c | d |\nEnd"),
            "Dear Ann, how are you?\n\n| a | b |\n| c | d |\nEnd",
        )
        self.assertEqual(
            join_lines("Acme Ltd  \n3 Mill Road\nAldham\n- one\n- two\n3. four"),
            "Acme Ltd\n3 Mill Road Aldham\n- one\n- two\n3. four",
        )

    def test_an_expansion(self):
        (t,) = parse(TEXT, "orders")
        for _ in range(40):
            text = expand(self.lex, t)
            self.assertNotRegex(text.passage, r"[{}]|\[\[|\|\||  ")
            self.assertRegex(text.passage, r"(?s)^Dear .*, your (lamp|old clock) left ")
            self.assertIsNotNone(spelled(text.asked[0][1], text.passage))
            self.assertEqual(text.asked[1], ("Who packed it?", []))

    def test_every_kind_has_values(self):
        for kind in sorted(KINDS - {"int"}) + ["int(3-12)"]:
            for _ in range(50):
                self.assertRegex(value(self.lex, kind), r"\S")

    def test_answers_are_whole_words(self):
        self.assertEqual(spelled(["4"], "Room 14, desk 4."), "4")
        self.assertIsNone(spelled(["4"], "Room 14"))
        self.assertEqual(spelled(["an old lamp"], "An old lamp fell."), "An old lamp")

    def test_a_sentence_taken_out(self):
        rest = without("One two. " + "Words go on and on here. " * 6 + "It cost 12 euros.", ["12 euros"])
        self.assertTrue(rest and "12" not in rest and rest.startswith("One two."))
        self.assertIsNone(without("It cost 12 euros.", ["12 euros"]))


@unittest.skipUnless(FOLDER.exists(), "no templates")
class Shipped(unittest.TestCase):
    def test_answers_stand_in_their_texts(self):
        lex = Lexicon(random.Random(5), TRAIN)
        names = [t.name for t in load()]
        self.assertEqual(len(names), len(set(names)))
        for t in load():
            for _ in range(2):
                text = expand(lex, t)
                self.assertNotRegex(text.passage, r"[{}]|\[\[|\]\]", t.name)
                for question, answers in text.asked:
                    self.assertNotRegex(question, r"[{}\[\]]", t.name)
                    self.assertTrue(
                        not answers or spelled(answers, text.passage), (t.name, question, answers, text.passage)
                    )

    def test_splits_are_apart_and_samples_come(self):
        train, held = templates(TRAIN), templates(HELD)
        self.assertTrue(held and not {t.name for t in train} & {t.name for t in held})
        for split in (TRAIN, HELD):
            sample = natural(Lexicon(random.Random(6), split), 400)
            self.assertTrue(sample.branches)
            for b in sample.branches:
                self.assertTrue(b.answer == "null" or b.answer in sample.context)


if __name__ == "__main__":
    unittest.main()
