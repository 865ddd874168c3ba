"""The tokenizer: exact round trips, cuts between prompt segments, names that keep their tokens."""

from __future__ import annotations

import random
import unittest
from pathlib import Path

from train.encode import prompt_ids, question_ids
from train.lexicon import HELD, TRAIN, Lexicon
from train.mixture import make_sample
from train.sample import DEFAULT_INSTRUCTION, IM_END, IM_START, Sample
from train.tokenizer import SPECIALS, Tokenizer, pretokenize

FOLDER = Path(__file__).parents[1] / "tokenizer"
TOK = Tokenizer.load(FOLDER)
HARD = [
    "",
    " ",
    "a  5  b",
    "x 12,5% don't we'll\n\n  3\n q",
    "é ² naïve 東京 🙂",
    "\tfoo\r\n bar 1\n",
    "<|im_end|>",
    'A++ "$45"}',
    "___",
    "'s 5's",
]


class Text(unittest.TestCase):
    def test_round_trip(self):
        for text in HARD:
            self.assertEqual("".join(pretokenize(text)), text)
            self.assertEqual(TOK.decode(TOK.encode(text)), text)

    def test_digits_stand_alone_and_specials_are_not_parsed(self):
        self.assertEqual([TOK.tokens[i] for i in TOK.encode("4096")], ["4", "0", "9", "6"])
        self.assertTrue(all(i >= len(SPECIALS) for i in TOK.encode(IM_END + IM_START)))

    def test_segments_tokenise_as_the_whole_does(self):
        """Instruction, context, question and answer are encoded apart; joined text must give the same ids."""
        for split in (TRAIN, HELD):
            lex, seen = Lexicon(random.Random(8), split), 0
            while seen < 25:
                s = make_sample(lex, 0.3)
                if not isinstance(s, Sample) or s.context is None:
                    continue
                seen += 1
                for b in s.branches:
                    apart = (
                        prompt_ids(TOK, DEFAULT_INSTRUCTION)
                        + TOK.encode(s.context)
                        + question_ids(TOK, s.question_lead + b.question)
                        + TOK.encode(b.given)
                        + TOK.encode(b.answer)
                    )
                    pieces = [
                        TOK.encode("system\n" + DEFAULT_INSTRUCTION),
                        TOK.encode("\n"),
                        TOK.encode("user\n" + s.context + s.question_lead + b.question),
                        TOK.encode("\n"),
                        TOK.encode("assistant\n" + b.given + b.answer),
                    ]
                    whole = [
                        TOK.im_start,
                        *pieces[0],
                        TOK.im_end,
                        *pieces[1],
                        TOK.im_start,
                        *pieces[2],
                        TOK.im_end,
                        *pieces[3],
                        TOK.im_start,
                        *pieces[4],
                    ]
                    self.assertEqual(apart, whole)

    def test_names_keep_their_tokens_behind_a_space(self):
        lex = Lexicon(random.Random(4), HELD)
        words = [lex.word() for _ in range(2000)]
        same = sum(TOK.encode(" " + w)[-len(TOK.encode(w)) :] == TOK.encode(w) for w in words)
        self.assertGreater(same / len(words), 0.9)

    def test_equals_the_tokenizers_package(self):
        try:
            from tokenizers import Tokenizer as Other
        except ImportError:
            self.skipTest("the package `tokenizers` is not installed")
        other, lex = Other.from_file(str(FOLDER / "tokenizer.json")), Lexicon(random.Random(6), HELD)
        for text in HARD + [make_sample(lex, 0.5).context or "" for _ in range(40)]:
            if "<|" not in text:
                self.assertEqual(TOK.encode(text), other.encode(text, add_special_tokens=False).ids)


if __name__ == "__main__":
    unittest.main()
