"""Rows: positions and visibility as methods sections 1 and 5 demand, labels where they belong, packing without cuts."""

from __future__ import annotations

import random
import unittest
from pathlib import Path

import numpy as np

from train.encode import encode_sequential, encode_skeleton, encode_tree, skeleton_chunks
from train.lexicon import HELD, TRAIN, Lexicon
from train.pack import pack_rows
from train.products import json_text, page
from train.questions import haystack
from train.retrieval import two_hop_document
from train.tokenizer import Tokenizer

TOK = Tokenizer.load(Path(__file__).parents[1] / "tokenizer")


def visible(e, i: int, j: int) -> bool:
    return j <= i and (e.branch[j] == 0 or e.branch[j] == e.branch[i]) and e.step[j] <= e.step[i]


class Trees(unittest.TestCase):
    def test_positions_continue_after_the_context_in_every_branch(self):
        e = encode_tree(TOK, haystack(Lexicon(random.Random(1), TRAIN), 100))
        shared = e.branch.count(0)
        self.assertEqual(e.pos[:shared], list(range(shared)))
        for b in range(1, max(e.branch) + 1):
            own = [i for i, x in enumerate(e.branch) if x == b]
            self.assertEqual([e.pos[i] for i in own], list(range(shared, shared + len(own))))
            self.assertTrue(all(visible(e, own[0], j) for j in range(shared)))
            self.assertFalse(any(visible(e, own[-1], j) for j in range(shared, own[0])))

    def test_labels_spell_the_answer(self):
        sample = haystack(Lexicon(random.Random(2), HELD), 100)
        e = encode_tree(TOK, sample)
        for n, b in enumerate(sample.branches):
            labels = [e.label[i] for i in range(len(e.ids)) if e.answer[i] == n]
            self.assertEqual(labels, TOK.encode(b.answer) + [TOK.im_end])

    def test_denied_branches_predict_null_and_are_fed_the_other_answer(self):
        null = TOK.encode("null")
        self.assertEqual(len(null), 1)
        for seed in range(40):
            sample = two_hop_document(Lexicon(random.Random(seed), TRAIN), 60)
            e = encode_tree(TOK, sample)
            for n, b in enumerate(sample.branches, start=1):
                if b.task == "hop2":
                    own = [i for i, x in enumerate(e.branch) if x == n]
                    first = next(i for i in own if e.label[i] >= 0)
                    self.assertEqual(e.label[first], null[0])
                    self.assertEqual(TOK.decode(e.ids[i] for i in own[own.index(first) + 1 :]), b.given + b.answer)
                    return
        self.fail("no hop2 branch in 40 documents")


class Skeletons(unittest.TestCase):
    def setUp(self):
        self.page = page(Lexicon(random.Random(3), TRAIN), 120)

    def test_gaps_steps_and_the_training_mask(self):
        count = len(self.page.values)
        budget = [9 + n for n in range(count)]
        e = encode_skeleton(TOK, self.page, budget, spaced=True, isolated=False)
        chunks = skeleton_chunks(TOK, self.page.attributes)
        at, cursor, last = len(e.ids) - 1, 0, []
        template = [i for i in range(len(e.ids)) if e.step[i] == 0]
        prompt = len(template) - sum(map(len, chunks))
        cursor = prompt
        for n, chunk in enumerate(chunks):
            start = prompt + sum(map(len, chunks[:n]))
            rows = template[start : start + len(chunk)]
            self.assertEqual([e.ids[i] for i in rows], chunk)
            self.assertEqual([e.pos[i] for i in rows], list(range(cursor, cursor + len(chunk))))
            cursor += len(chunk) + budget[n]
            last.append(rows[-1])
        for i in range(len(e.ids)):
            for j in range(len(e.ids)):
                if visible(e, i, j):
                    self.assertLessEqual(e.pos[j], e.pos[i])
                    self.assertLessEqual(
                        e.step[j], e.step[i]
                    )  # v_nk cannot see v_n'k' with k' > k; templates see no value
        slot = [max(n for n in range(count) if last[n] < i) if e.step[i] else -1 for i in range(len(e.ids))]
        for i in range(len(e.ids)):
            if e.step[i]:
                self.assertEqual(e.pos[i], e.pos[last[slot[i]]] + e.step[i])
        self.assertEqual(at, len(e.ids) - 1)

    def test_isolated_values_see_only_themselves(self):
        e = encode_skeleton(TOK, self.page, [12] * len(self.page.values), spaced=False, isolated=True)
        for i in range(len(e.ids)):
            for j in range(len(e.ids)):
                if visible(e, i, j) and e.step[j]:
                    self.assertEqual(e.branch[i], e.branch[j])

    def test_template_with_values_is_the_sequential_text(self):
        whole = (
            "".join(
                TOK.decode(c) + ("null" if v is None else f'"{v}"')
                for c, v in zip(skeleton_chunks(TOK, self.page.attributes), self.page.values)
            )
            + "}"
        )
        self.assertEqual(whole, json_text(self.page))
        e = encode_sequential(TOK, self.page)
        self.assertTrue(TOK.decode(e.ids).endswith(json_text(self.page)))


class Packing(unittest.TestCase):
    def test_rows_are_a_function_of_the_seed_and_hold_whole_samples(self):
        a, b = pack_rows(TOK, 2, 5, 0.1, TRAIN, 1024), pack_rows(TOK, 2, 5, 0.1, TRAIN, 1024)
        for name in a.ARRAYS:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        self.assertFalse(np.array_equal(a.ids, pack_rows(TOK, 2, 6, 0.1, TRAIN, 1024).ids))
        for r in range(2):
            starts = np.flatnonzero(np.diff(a.doc[r].astype(int), prepend=-1))
            self.assertTrue(all(a.pos[r, s] == 0 for s in starts))
            self.assertGreater((a.doc[r] != 255).mean(), 0.7)
        used = a.weight > 0
        self.assertTrue((a.label[used] >= 0).all() and (a.at[used] < 1024).all())


if __name__ == "__main__":
    unittest.main()
