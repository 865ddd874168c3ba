"""Scores by hand, sets that are held out, samples that the shipped model answers (skipped where the engine is not
built)."""

from __future__ import annotations

import json
import random
import unittest
from pathlib import Path

from eval.banyan import Engine
from eval.metrics import exact_match
from eval.sets import make_samples, make_sets
from eval.skeletons import answer_experts, extract_skeleton, parse_value, value_ended
from train.lexicon import HELD, TRAIN, Lexicon
from train.mixture import make_sample
from train.reference import load_gguf
from train.relations import RELATIONS
from train.tokenizer import Tokenizer, load_tokenizer

ROOT = Path(__file__).parents[2]
MODEL, BINARY = ROOT / "models" / "banyan-reader-34m.gguf", ROOT / "build" / "release" / "banyan"


def read(name: str) -> list[dict]:
    return [json.loads(line) for line in (ROOT / "eval" / "samples" / f"{name}.jsonl").read_text().splitlines()]


class Values(unittest.TestCase):
    def test_counts_are_the_programs(self):
        if not BINARY.exists():
            self.skipTest("build/release/banyan is not built")
        gold = dict(a=["Red"], b=[], c=[], d=["red"], e=["red"], f=[], g=["3 kg", "3kg"])
        given = dict(a="red", b=None, d="blue", e=None, f="red", g="3 kg")
        s = Engine(str(BINARY), "").score_values([dict(values=gold)], [given])
        self.assertEqual(
            (s["correct"], s["correct_null"], s["incorrect"], s["missing"], s["hallucinated"], s["slots"]),
            (2, 2, 1, 1, 1, 7),
        )
        self.assertAlmostEqual(s["f1"], 4 / 6)  # P = R = 4/6

    def test_values_end_at_their_delimiter(self):
        for text, ended, value in (
            ('"red",', True, "red"),
            ('"re', False, "re"),
            ("null,", True, None),
            ("null", False, None),
            (' "a\\"b"}', True, 'a"b'),
            ('"a, b', False, "a, b"),
            ("12}", True, "12"),
        ):
            self.assertEqual(value_ended(text), ended, text)
            self.assertEqual(parse_value(text), value, text)


class HeldOut(unittest.TestCase):
    def test_no_document_question_or_long_name_of_training(self):
        sets, lex = make_sets(1, 0.05), Lexicon(random.Random(1), TRAIN)
        words: set[str] = set()
        for _ in range(300):
            words |= set((make_sample(lex, 0.5).context or "").replace(".", " ").split())
        held = Lexicon(random.Random(2), HELD)
        self.assertFalse({held.word() for _ in range(500)} & words)
        patterns = {w for r in RELATIONS for w in r.questions[TRAIN]}
        for r in sets["haystack_1k"]:
            for q in r["questions"]:
                self.assertNotIn(q["question"], patterns)
        self.assertEqual(json.dumps(sets), json.dumps(make_sets(1, 0.05)))

    def test_committed_samples_are_what_the_generator_writes(self):
        for name, rows in make_samples().items():
            self.assertEqual(read(name), json.loads(json.dumps(rows)), name)

    def test_lengths_and_formats(self):
        sets, tok = make_sets(3, 0.05), Tokenizer.load(ROOT / "train" / "tokenizer")
        for r in sets["haystack_3k"]:
            self.assertTrue(2700 <= len(tok.encode(r["context"])) <= 3100)
        for r in sets["two_hop_16"]:
            self.assertEqual((len(r["documents"]), sum(d["gold"] for d in r["documents"])), (16, 2))
        for r in sets["extract"]:
            self.assertEqual(list(r["values"]), r["attributes"])


@unittest.skipUnless(MODEL.exists(), "models/banyan-reader-34m.gguf is not there")
class ShippedModel(unittest.TestCase):
    def test_the_engine_answers_the_samples(self):
        if not BINARY.exists():
            self.skipTest("build/release/banyan is not built")
        engine = Engine(str(BINARY), str(MODEL), ("--precision", "mixed"))
        for name in ("demo", "haystack", "choice", "code", "two_hop"):
            records = read(name)
            for r, answers in zip(records, engine.answer_ids(records, 40)):
                for q, a in zip(r["questions"], answers):
                    self.assertTrue(exact_match(a, q["answers"]), f"{name} {r['id']} {q['question']}: {a!r}")

    def test_the_reference_fills_skeletons_and_reads_with_experts(self):
        net, tok, slots = load_gguf(MODEL), load_tokenizer(MODEL), []
        for r in read("extract")[:2]:
            for attribute, value in zip(r["attributes"], extract_skeleton(net, tok, r)):
                gold = r["values"][attribute]
                slots.append(value is None if not gold else value is not None and exact_match(value, gold))
        self.assertGreaterEqual(sum(slots), 0.9 * len(slots))
        record = read("code_documents")[0]
        answer, winners = answer_experts(net, tok, record)
        self.assertTrue(exact_match(answer, record["answers"]), answer)
        self.assertTrue(record["documents"][winners[0]]["gold"])


if __name__ == "__main__":
    unittest.main()
