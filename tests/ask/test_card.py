"""What the card of a model changes: copies by default, confidence, answers that are withheld."""
import pathlib
import sys
import unittest

from harness import AskTest, documents

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from train.gguf_set import with_string  # noqa: E402

ANSWER = ["--max-new", "6", "--ordered"]
CALIBRATED = '{"copies":true,"confidence":{"ask":{"scale":1,"offset":3}}}'


class Card(AskTest):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.jsonl", documents(4))

    def with_card(self, card: str) -> str:
        data = pathlib.Path(self.model).read_bytes()
        return self.write("carded.gguf", with_string(data, "banyan.card", card))

    def test_copies_where_the_card_says_so(self):
        carded = self.with_card('{"copies":true}')
        copied, plain = self.answers(self.input, "--copy", *ANSWER), self.answers(self.input, *ANSWER)
        self.assertNotEqual(copied, plain)
        self.assertEqual(self.answers(self.input, *ANSWER, model=carded), copied)
        self.assertEqual(self.answers(self.input, "--no-copy", *ANSWER, model=carded), plain)
        # A shape of the user's own comes first.
        shaped = self.answers(self.input, "--regex", "[a-z]{3}", *ANSWER, model=carded)
        self.assertTrue(all(len(row["answer"]) == 3 for row in shaped))
        self.ask(self.input, "--copy", "--no-copy", *ANSWER, "--copy", "--regex", "a", model=carded, code=2)

    def test_confidence_is_claimed_by_the_card_alone(self):
        rows = self.answers(self.input, *ANSWER, "--logprobs", model=self.with_card(CALIBRATED))
        for row in rows:
            mean = sum(row["logprobs"]) / len(row["logprobs"])
            self.assertAlmostEqual(row["confidence"], 1 / (1 + 2.718281828 ** -(mean + 3)), delta=1e-4)
        self.assertTrue(all("confidence" not in row for row in self.answers(self.input, *ANSWER)))
        said = self.ask(self.input, "--min-confidence", "0.5", *ANSWER, code=2).stderr
        self.assertIn("--min-confidence: the model's card does not say", said)

    def test_unsure_answers_are_withheld_and_say_so(self):
        carded = self.with_card(CALIBRATED)
        rows = self.answers(self.input, *ANSWER, model=carded)
        found = sorted({row["confidence"] for row in rows})  # rounded: the bound lies between two
        bound = (found[len(found) // 2 - 1] + found[len(found) // 2]) / 2
        kept = self.answers(self.input, *ANSWER, "--min-confidence", bound, model=carded)
        self.assertEqual([row["confidence"] for row in kept], [row["confidence"] for row in rows])
        withheld = [(a, b) for a, b in zip(rows, kept) if a["confidence"] < bound and a["answer"] is not None]
        self.assertTrue(withheld)
        for sure, unsure in withheld:
            self.assertEqual((unsure["answer"], unsure["withheld"]), (None, sure["answer"]))
            self.assertNotIn("start", unsure)
        for a, b in zip(rows, kept):
            if a["confidence"] >= bound:
                self.assertEqual(a, b)

    def test_another_card_is_another_job(self):
        out = self.path("out.jsonl")
        self.ask(self.input, *ANSWER, "-o", out, model=self.with_card(CALIBRATED))
        said = self.ask(self.input, *ANSWER, "-o", out, "--resume",
                        model=self.with_card(CALIBRATED.replace("3", "4")), code=2).stderr
        self.assertIn("model card: was", said)

    def test_a_bad_card_is_refused_with_its_place(self):
        said = self.ask(self.input, *ANSWER, model=self.with_card('{"copies":"yes"}'), code=2).stderr
        self.assertIn("carded.gguf: 'banyan.card': 'copies': expected true or false, found string", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
