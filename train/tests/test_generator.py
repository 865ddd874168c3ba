"""The generator: splits never meet, answers stand in the text, seeds decide everything."""

from __future__ import annotations

import random
import re
import unittest

from train import filler, questions, retrieval
from train.lexicon import HELD, ORDINARY_NAMES, SYLLABLES_OF, TRAIN, Lexicon, split_list
from train.mixture import draw_length, make_sample
from train.products import ATTRIBUTES, json_text, page
from train.questions import haystack
from train.relations import CODE, QUESTION_LEADS, RELATIONS
from train.retrieval import no_document, secret_code, two_hop, two_hop_document
from train.sample import Extraction, choice_letters


def lexicon(seed: int, split: str = TRAIN) -> Lexicon:
    return Lexicon(random.Random(seed), split)


class Splits(unittest.TestCase):
    def test_syllables_wordings_and_leads_are_disjoint(self):
        self.assertFalse(set(SYLLABLES_OF[TRAIN]) & set(SYLLABLES_OF[HELD]))
        self.assertFalse(set(QUESTION_LEADS[TRAIN]) & set(QUESTION_LEADS[HELD]))
        for r in [*RELATIONS, CODE]:
            for wordings in (r.facts, r.questions, r.backward):
                self.assertFalse(set(wordings[TRAIN]) & set(wordings[HELD]), r.nouns)
            self.assertTrue(r.facts[HELD] and r.questions[HELD], r.nouns)
        for a in ATTRIBUTES:
            self.assertFalse(set(a.sentences[TRAIN]) & set(a.sentences[HELD]), a.names)
        for table in (retrieval._HOPS, retrieval._PERSON, questions._YES_NO, filler._PATTERNS_OF):
            self.assertFalse(set(table[TRAIN]) & set(table[HELD]))

    def test_a_leading_phrase_cannot_turn_a_training_question_into_a_held_out_one(self):
        held = {w for r in RELATIONS for w in r.questions[HELD]}
        train = {w for r in RELATIONS for w in r.questions[TRAIN]}
        for lead in QUESTION_LEADS[TRAIN]:
            self.assertFalse({lead + w for w in train} & held)

    def test_names_of_the_splits_never_meet(self):
        a, b = lexicon(1), lexicon(2, HELD)
        train = {a.word() for _ in range(20000)} | ORDINARY_NAMES
        held = {b.word() for _ in range(4000)}
        self.assertFalse(train & held)
        of_held = re.compile("(?:" + "|".join(sorted(SYLLABLES_OF[HELD], key=len, reverse=True)) + ")+$")
        self.assertTrue(all(of_held.match(w.lower()) for w in held))

    def test_split_list_keeps_both_sides(self):
        for n in range(2, 30):
            options = [f"option {i}" for i in range(n)]
            train, held = split_list(options, TRAIN), split_list(options, HELD)
            self.assertTrue(train and held)
            self.assertEqual(sorted(train + held), sorted(options))


class Questions(unittest.TestCase):
    def test_answers_stand_in_the_text_and_choices_are_right(self):
        for split in (TRAIN, HELD):
            for seed in range(30):
                sample = haystack(lexicon(seed, split), 300)
                text = sample.context.lower()
                self.assertEqual(sample.context, sample.context.strip())
                for b in sample.branches:
                    if b.task == "fact":
                        self.assertIn(b.answer.lower(), text)
                    elif b.task == "choice":
                        right = b.choices[choice_letters(10).index(b.answer)]
                        self.assertIn(right.lower(), text)
                        self.assertEqual(len(set(b.choices)), len(b.choices))
                    elif b.task == "null":
                        self.assertEqual(b.answer, "null")

    def test_two_hops_name_the_bridge_first(self):
        for seed in range(50):
            hop = two_hop(lexicon(seed))
            self.assertEqual(hop.answer, f"{hop.second.entity.name}; {hop.second.value}")
            self.assertEqual(hop.first.value, hop.second.entity.name)
        sample = two_hop_document(lexicon(3), 100)
        for b in sample.branches:
            if b.task == "hop":
                bridge, answer = b.answer.split("; ", 1)
                self.assertIn(bridge.lower(), sample.context.lower())
                self.assertIn(answer.lower(), sample.context.lower())
            if b.task == "hop2":
                self.assertTrue(b.denied and b.given.endswith(";"))

    def test_codes_and_the_prior(self):
        sample = secret_code(lexicon(5), 120)
        for b in sample.branches:
            self.assertEqual(b.answer.lower() in sample.context.lower(), b.task == "code")
        self.assertIsNone(no_document(lexicon(5)).context)

    def test_pages_state_what_is_asked_or_null(self):
        import json

        for seed in range(40):
            e = page(lexicon(seed, HELD), 200)
            self.assertTrue(4 <= len(e.attributes) <= 16)
            self.assertEqual(len(set(e.attributes)), len(e.attributes))
            for value in e.values:
                if value is not None:
                    self.assertIn(value.lower(), e.context.lower())
            self.assertEqual(json.loads(json_text(e)), dict(zip(e.attributes, e.values)))


class Seeds(unittest.TestCase):
    def test_same_seed_same_text(self):
        first, second = ([make_sample(lexicon(9), 0.7) for _ in range(1)] for _ in range(2))
        self.assertEqual(first, second)

    def test_curriculum_grows(self):
        lex = lexicon(1)
        self.assertLessEqual(max(draw_length(lex, 0.0) for _ in range(500)), 150)
        self.assertGreater(max(draw_length(lex, 1.0) for _ in range(500)), 2500)

    def test_all_tasks_occur(self):
        lex, seen = lexicon(2), set()
        for _ in range(200):
            sample = make_sample(lex, 0.1)
            seen |= {"extraction"} if isinstance(sample, Extraction) else {b.task for b in sample.branches}
        self.assertLessEqual(
            {"extraction", "fact", "null", "choice", "yesno", "code", "hop", "hop1", "hop2", "denied"}, seen
        )


if __name__ == "__main__":
    unittest.main()
