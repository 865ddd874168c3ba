"""How proposals are judged."""

import unittest

from eval.schemas import agrees, is_synonym, judge, normal, shares_words

ROWS = [
    dict(
        id=f"t{i}",
        category="Shoes",
        text="",
        attributes=["Brand", "Color", "Shoe type", "Sport"],
        values={"Brand": ["Onex"], "Color": ["Black/Blue"], **({"Sport": ["Golf"]} if i == 0 else {})},
    )
    for i in range(3)
]


class JudgeTest(unittest.TestCase):
    def test_names(self):
        self.assertEqual(normal("Colors"), normal("colour"))
        self.assertEqual(normal("Invoice no."), normal("invoice number"))
        self.assertNotEqual(normal("class"), normal("clas"))
        self.assertTrue(is_synonym("Net content", "weight", "Tea"))
        self.assertTrue(is_synonym("Shoe type", "product type", "Shoes"))
        self.assertFalse(is_synonym("Skin type", "product type", "Sunscreen"))
        self.assertFalse(is_synonym("Brand", "model", "Tea"))

    def test_values(self):
        self.assertTrue(shares_words("9 M US", "9 m us"))
        self.assertFalse(shares_words("Black", "Blue"))
        gold = {"a": ["red"], "b": ["blue"], "c": "green"}
        self.assertTrue(agrees(gold, {"a": "red", "b": "blue"}))
        self.assertFalse(agrees(gold, {"a": "red"}))  # most are missing
        self.assertFalse(agrees(gold, {"a": "red", "b": "blue", "d": "x", "e": "x", "f": "x"}))  # most are wrong
        self.assertFalse(agrees({}, {}))

    def test_counts(self):
        found = judge(
            ROWS,
            {
                "brand": {},
                "finish": {f"t{i}": "Black/Blue" for i in range(3)},
                "mood": {"t0": "a golf course in Spain"},
            },
        ).counts()
        self.assertEqual(
            found,
            dict(
                attributes=4,
                frequent=2,
                proposed=3,
                right=2,
                by_name=1,
                by_synonym=1,
                by_value=1,
                either=2,
                frequent_found=2,
            ),
        )


if __name__ == "__main__":
    unittest.main()
