"""The section of a card that measurements write: in its place, once, with every number of the files."""

from __future__ import annotations

import unittest

from train.measured_card import BEGIN, END, section, with_section

RUN = dict(
    questions=10,
    exact=0.5,
    exact_interval=[0.2, 0.8],
    f1=0.6,
    f1_interval=[0.3, 0.9],
    null_without_answer=0.25,
    without_answer=4,
    errors=1,
    missing=1,
    calibration_error=0.04,
)
MEASURED = dict(answers={"natural": [dict(f1=0.4), RUN]})


class Section(unittest.TestCase):
    def test_numbers(self):
        self.assertIn(
            "| natural | 10 | 0.500 (0.20 to 0.80) | 0.600 (0.30 to 0.90) | 0.400 | 25 % of 4 | 0.040 | 2 |",
            section(MEASURED),
        )

    def test_it_is_written_once_and_in_its_place(self):
        card = "# model\n\n## Scores\nx\n\n## Training\ny\n"
        once = with_section(card, section(MEASURED))
        self.assertLess(once.index(BEGIN), once.index("## Training"))
        again = with_section(once, section(dict(answers={})))
        self.assertEqual((again.count(BEGIN), again.count(END)), (1, 1))
        self.assertNotIn("natural", again)
        self.assertTrue(again.endswith("## Training\ny\n"))
        self.assertTrue(with_section("# a", "b").endswith("b\n"))


if __name__ == "__main__":
    unittest.main()
