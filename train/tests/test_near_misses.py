"""Near misses: one word or name of the question is another, and what it becomes is not what the text says."""

import random
import unittest

from train.near_misses import near_miss

TEXT = (
    "Ada Mills won the first race of the Hillside Cup in 1901. The second race was held in Norwood. Carl Brandt"
    " organised the later meetings and collected entrance fees of 5 shillings. Painted banners decorated the streets of"
    " Norwood in 1903."
)
POOL = dict(name=["Xanthe Poole"], year=["1950"], number=["77"], date=["1 May 1870"])


def made_of(question: str, answer: str, draws: int = 300) -> set[str]:
    found = (near_miss(random.Random(n), TEXT, question, answer, [answer], POOL) for n in range(draws))
    return {q for q in found if q}


class NearMisses(unittest.TestCase):
    def test_every_rule_is_used(self):
        made = made_of("Who won the first race of the Hillside Cup in 1901?", "Ada Mills")
        self.assertNotIn("Who won the first race of the Hillside Cup in 1901?", made)
        self.assertIn("Who lost the first race of the Hillside Cup in 1901?", made)  # an opposite
        self.assertIn(
            "Who won the third race of the Hillside Cup in 1901?", made
        )  # a neighbour in a row, and not one that the text has
        self.assertNotIn("Who won the second race of the Hillside Cup in 1901?", made)
        self.assertIn("Who won the first race of the Hillside Cup in 1903?", made)  # another year of the text
        self.assertIn("Who won the first race of the Hillside Cup in 1906?", made)  # one near it
        self.assertTrue(any("Hillside Norwood" in q or "Brandt Cup" in q for q in made), made)  # one word of a name

    def test_a_content_word_comes_from_elsewhere_in_the_text(self):
        made = made_of("What was collected by Carl Brandt?", "entrance fees")
        self.assertTrue(
            {"What was painted by Carl Brandt?", "What was decorated by Carl Brandt?"} & made
            or any("Ada" in q for q in made),
            made,
        )

    def test_the_answer_is_never_put_into_the_question(self):
        for question, answer in (
            ("Where was the second race held?", "Norwood"),
            ("When did Ada Mills win the first race?", "1901"),
        ):
            self.assertFalse([q for q in made_of(question, answer) if answer in q])

    def test_nothing_fits(self):
        self.assertIsNone(near_miss(random.Random(1), "Yes.", "Why?", "Yes", ["Yes"], POOL))


if __name__ == "__main__":
    unittest.main()
