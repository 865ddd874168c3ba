"""Which texts a statement is true of: probabilities, thresholds for a recall, and the cascade."""
import math
import unittest

import banyan
from banyan._filter import Share, threshold_for
from support import PackageTest, tiny_model

TEXTS = [f"Text {i} is about thing {i * 7 % 5}." for i in range(12)]


class Thresholds(unittest.TestCase):
    def test_the_highest_threshold_that_finds_the_wanted_share(self):
        probabilities, labels = [0.9, 0.8, 0.7, 0.6, 0.2, 0.1], [True, False, True, True, True, False]
        self.assertEqual(threshold_for(probabilities, labels, 0.75), 0.6)
        self.assertEqual(threshold_for(probabilities, labels, 1.0), 0.2)
        self.assertEqual(threshold_for(probabilities, labels, 0.25), 0.9)
        self.assertEqual(threshold_for([0.5] * 4, [True] * 4, 0.5), 0.5)  # equal ones are kept together
        with self.assertRaises(banyan.Error):
            threshold_for([0.5], [False], 0.9)

    def test_what_is_sure_counts_with_the_lower_end_of_the_interval(self):
        probabilities = [1.0 - i / 200 for i in range(200)]
        plain = threshold_for(probabilities, [True] * 200, 0.9)
        sure = threshold_for(probabilities, [True] * 200, 0.9, sure=True)
        self.assertLess(sure, plain)
        self.assertEqual(threshold_for([0.5] * 3, [True] * 3, 0.95, sure=True), 0.0)  # three are too few

    def test_intervals_are_wilsons(self):
        low, high = Share(81, 263).interval
        self.assertAlmostEqual(low, 0.2553, places=4)
        self.assertAlmostEqual(high, 0.3662, places=4)
        self.assertEqual(Share(0, 0).interval, (0.0, 1.0))
        self.assertEqual(Share(5, 5).interval[1], 1.0)


class Filter(PackageTest):
    def test_probabilities_are_those_of_exact_choices(self):
        found = banyan.filter([*TEXTS, None], "it is about thing 3", model=self.model)
        rows = [{"id": i, "context": text, "choices": ["yes", "no"], "question": "Is this true of the text: it is about thing 3"}
                for i, text in enumerate(TEXTS)]
        wanted = [row["probabilities"][0] for row in banyan.ask(rows, model=self.model)]
        for one, other in zip(found.probabilities, wanted):
            self.assertAlmostEqual(one, other, places=12)
        self.assertEqual(found.keep, [*(p >= 0.5 for p in wanted), None])
        self.assertEqual(found.asked, {"large": 12})

    def test_a_recall_sets_the_threshold_on_the_sample(self):
        sample = [(text, number % 2 == 0) for number, text in enumerate(TEXTS)]
        found = banyan.filter(TEXTS, "it is about thing 3", model=self.model, labelled=sample, recall=0.8)
        kept = [text for text, keep in zip(TEXTS, found.keep) if keep]
        self.assertGreaterEqual(sum(true for text, true in sample if text in kept) / 6, 0.8)
        self.assertEqual(found.recall.part, sum(true for text, true in sample if text in kept))
        self.assertEqual(found.precision.whole, len(kept))
        everything = banyan.filter(TEXTS, "it is about thing 3", model=self.model, labelled=sample, recall=1.0)
        self.assertEqual(everything.recall.value, 1.0)
        self.assertLessEqual(everything.threshold, found.threshold)

    def test_the_small_model_decides_where_it_is_sure(self):
        with banyan.Model(tiny_model(512), threads=1) as small:
            sample = [(text, number % 3 == 0) for number, text in enumerate(TEXTS)]
            found = banyan.filter([*TEXTS, None], "it is about thing 3", model=self.model, small=small, labelled=sample, recall=0.75)
            self.assertEqual(found.asked["small"], 12)
            self.assertEqual(found.asked["large"], found.decided_by.count("large"))
            self.assertEqual(found.decided_by.count("small") + found.decided_by.count("large"), 12)
            self.assertLess(found.asked["large"], 12)
            self.assertGreaterEqual(found.recall.value, 0.75)
            true = [keep for keep, (_, label) in zip(found.keep, sample) if label]
            self.assertEqual(sum(true), found.recall.part)
            with self.assertRaises(banyan.Error):
                banyan.filter(TEXTS, "x", model=self.model, small=small)
        with self.assertRaises(banyan.Error):
            banyan.filter(TEXTS, "x", model=self.model, recall=0.9)
        self.assertTrue(math.isfinite(found.threshold))


if __name__ == "__main__":
    unittest.main()
