import argparse
import unittest

from eval.seqbatch import arguments, batches, parse, table


class Words(unittest.TestCase):
    def test_those_after_the_dashes_are_for_the_program(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("file")
        parser.add_argument("-m")
        a = arguments(parser, ["FILE", "-m", "M", "--", "--threads", "2"])
        self.assertEqual((a.file, a.m, a.options), ("FILE", "M", ["--threads", "2"]))
        self.assertEqual(arguments(parser, ["FILE"]).options, [])


class SeqBatch(unittest.TestCase):
    def test_questions_are_numbered_in_each_prompt(self):
        record = dict(
            id="d",
            context="A text.",
            questions=[dict(id=f"q{n}", question=f"Which {n}?", answers=[]) for n in range(5)],
        )
        rows = batches([record], 2)
        self.assertEqual(
            [r["questions"][0]["question"] for r in rows],
            ["1. Which 0?\n2. Which 1?", "1. Which 2?\n2. Which 3?", "1. Which 4?"],
        )
        self.assertEqual([q for r in rows for q in r["asked"]], [("d", f"q{n}") for n in range(5)])
        self.assertEqual(len({r["id"] for r in rows}), 3)

    def test_answers_are_read_back(self):
        self.assertEqual(parse("1. Anna Walker\n2. at 7:45\n3. null", 3), ["Anna Walker", "at 7:45", "null"])
        self.assertEqual(parse("1) one\nA2: two", 2), ["one", "two"])
        self.assertEqual(parse("Answer 1: one", 1), ["one"])

    def test_what_cannot_be_read_is_a_failure_of_its_question_alone(self):
        self.assertEqual(parse("Anna Walker", 2), [None, None])
        self.assertEqual(parse("1. Anna\n3. Ben", 3), ["Anna", None, "Ben"])
        self.assertEqual(parse("1. Anna\n1. Ben\n2. Cy", 2), [None, "Cy"])  # which of the two?
        self.assertEqual(parse("1.\n2. Ben", 2), [None, "Ben"])
        self.assertEqual(parse("1. in 1990. 2. was a year", 2), ["in 1990. 2. was a year", None])  # numbers begin lines
        self.assertEqual(parse("", 1), [None])

    def test_table(self):
        row = dict(
            exact=0.5,
            f1=0.25,
            intervals=dict(f1=[0.1, 0.4]),
            failed=1,
            questions=2,
            seconds=1.25,
            prefilled=10,
            generated=3,
        )
        self.assertIn(
            "| 2 (SeqBatch) | 50.0 % | 0.250 (0.10 to 0.40) | 1 of 2 | 10 | 3 | 1.2 |", table({"2 (SeqBatch)": row})
        )


if __name__ == "__main__":
    unittest.main()
