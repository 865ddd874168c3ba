"""banyan map: a prompt for every row, in any order of columns and rows the same answers as alone."""
import csv
import json
import os
import re
import signal
import subprocess
import time
import unittest

from tables import BANYAN, TableTest, reviews

COLUMNS = ["--columns", "number,review,product,city", "What is it about?", "--max-new", "5", "--logprobs"]
FEW = ["--columns", "review,product,city", "What is it about?", "--max-new", "5", "--logprobs"]


class Rows(TableTest):
    def test_rows_come_in_the_inputs_order_with_its_fields(self):
        rows = reviews(60)
        self.write("in.jsonl", rows)
        for order in ("given", "auto"):
            found = self.printed("map", self.path("in.jsonl"), *FEW, "--order", order)
            self.assertEqual([row["id"] for row in found], [row["id"] for row in rows])
            for row, given in zip(found, rows):
                self.assertEqual({name: row[name] for name in given}, given)
                self.assertNotIn("error", row)

    def test_a_file_has_the_order_of_standard_output(self):
        self.write("in.jsonl", reviews(60))
        printed = self.table("map", self.path("in.jsonl"), *FEW, "--order", "auto", "--quiet").stdout
        self.table("map", self.path("in.jsonl"), *FEW, "--order", "auto", "--quiet", "-o", self.path("out.jsonl"))
        self.assertEqual(self.bytes("out.jsonl"), printed)

    def test_every_answer_is_that_of_its_prompt_alone(self):
        """Bit for bit: one row in a file of its own, with the columns in the order that the plan chose."""
        rows = reviews(24)
        self.write("in.jsonl", rows)
        explained = self.table("map", self.path("in.jsonl"), *COLUMNS, "--order", "auto", "--explain", "-o",
                               self.path("auto.jsonl")).stderr
        orders = [line.split("order", 1)[1].rsplit(":", 1)[0].strip().replace(", ", ",")
                  for line in explained.splitlines() if line.startswith("order ")]
        self.assertNotIn("number,review,product,city", orders, "auto chose the given order: nothing is compared")
        together = self.rows("auto.jsonl")
        for row, one in zip(rows, together):
            alone = []
            for order in orders:
                self.write("one.jsonl", [row])
                alone += self.printed("map", self.path("one.jsonl"), "--columns", order, *COLUMNS[2:])
            self.assertIn(one, alone)
        given = self.printed("map", self.path("in.jsonl"), *COLUMNS)
        for row, one in zip(rows[:8], given):
            self.write("one.jsonl", [row])
            self.assertEqual(self.printed("map", self.path("one.jsonl"), *COLUMNS), [one])

    def test_a_template_is_the_whole_message(self):
        self.write("in.jsonl", [{"id": 1, "a b": "x{y}", "n": 3.5, "list": [1, {"k": None}]}])
        shown = self.table("map", self.path("in.jsonl"), "Say {a b}, {{n}} is {n} of {list}.", "--show-prompt").stdout
        self.assertIn('Say x{y}, {n} is 3.5 of [1,{"k":null}].', shown.decode())

    def test_a_question_from_a_column_is_asked_as_ask_asks_it(self):
        rows = [{"id": 1, "about": "a boat", "text": "It is blue.", "question": "Which colour?"},
                {"id": 2, "about": "a boat", "text": "It is blue.", "question": "What is it?"}]
        self.write("in.jsonl", rows)
        self.write("ask.jsonl", [{"id": row["id"], "context": f"about: {row['about']}\ntext: {row['text']}",
                                  "question": row["question"]} for row in rows])
        asked = self.answers(self.path("ask.jsonl"), "--max-new", 5, "--logprobs", "--ordered")
        found = self.printed("map", self.path("in.jsonl"), "{question}", "--columns", "about,text", "--max-new", 5, "--logprobs")
        self.assertEqual([(row["answer"], row["prompt_tokens"], row["logprobs"]) for row in found],
                         [(row["answer"], row["prompt_tokens"], row["logprobs"]) for row in asked])

    def test_equal_prompts_are_asked_once(self):
        rows = reviews(80)
        different = len({(row["review"], row["product"]) for row in rows})
        self.assertLess(different, 70)
        self.write("in.jsonl", rows)
        template = "{product}: {review} What is it?"
        for order in ("given", "auto"):
            self.table("map", self.path("in.jsonl"), template, "--max-new", 4, "--order", order, "-o",
                       self.path(f"{order}.jsonl"), "--receipt", self.path(f"{order}.json"))
            receipt = self.json(f"{order}.json")
            self.assertEqual(receipt["equal_prompts"], 80 - different)
            self.assertEqual(receipt["rows"], 80)
            found = self.rows(f"{order}.jsonl")
            self.assertEqual(receipt["generated_tokens"],
                             sum({(row["review"], row["product"]): row["tokens"] for row in found}.values()))
        self.assertEqual(self.bytes("given.jsonl"), self.bytes("auto.jsonl"))

    def test_sampled_rows_draw_for_themselves(self):
        self.write("in.jsonl", [{"id": i, "text": "one"} for i in range(12)])
        found = self.printed("map", self.path("in.jsonl"), "{text}", "--temperature", 1.5, "--max-new", 6)
        self.assertGreater(len({row["answer"] for row in found}), 1)

    def test_choices_have_probabilities(self):
        self.write("in.jsonl", reviews(5))
        found = self.printed("map", self.path("in.jsonl"), "{review} So it was", "--choices", "good,broken")
        for row in found:
            self.assertIn(row["answer"], ("good", "broken"))
            self.assertAlmostEqual(sum(row["probabilities"]), 1.0, delta=0.001)
            self.assertEqual(row["answer"], ("good", "broken")[row["choice"]])

    def test_tables_keep_their_columns(self):
        with open(self.path("in.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow(["text", "answer", "context"])
            writer.writerows([["one", "old", "c"], ["two", "older", "d"], ["one", "", "e"]])
        self.table("map", self.path("in.csv"), "{text} {context}", "--max-new", 3, "-o", self.path("out.csv"))
        with open(self.path("out.csv"), newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file, delimiter=";"))
        self.assertEqual([(row["text"], row["input_answer"], row["context"]) for row in found],
                         [("one", "old", "c"), ("two", "older", "d"), ("one", "", "e")])

    def test_the_order_shows_what_it_saves(self):
        self.write("in.jsonl", reviews(60))
        text = self.table("map", self.path("in.jsonl"), *COLUMNS, "--order", "auto", "--dry-run", "--explain").stderr
        lines = text.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("columns"))
        alone, given, planned, bound = (int(re.search("[0-9]+", line).group()) for line in lines[first:first + 4])
        self.assertGreaterEqual(alone, given)  # the first column has a number of its own in every row
        self.assertGreater(given, planned)
        self.assertGreaterEqual(planned, bound)


class Errors(TableTest):
    def test_rows_that_cannot_be_asked(self):
        self.write("in.jsonl", [{"id": 1, "text": "one"}, {"id": 2, "txt": "two"}, b"no json\n", {"id": 1, "text": "three"},
                                {"id": 4, "text": " "}, {"id": 5, "text": None}, {"id": 6, "text": "six"}])
        for order in ("given", "auto"):
            found = self.printed("map", self.path("in.jsonl"), "{text}", "--max-new", 2, "--order", order, code=1)
            messages = [row.get("error", {}).get("message", "") for row in found]
            self.assertEqual([bool(message) for message in messages], [False, True, True, True, True, True, False])
            for line, message in enumerate(messages, 1):
                if message:
                    self.assertTrue(message.startswith(f"{self.path('in.jsonl')}, line {line}: "), message)
            self.assertIn("expected the column 'text', found id, txt; did you mean 'text' by 'txt'?", messages[1])
            self.assertIn("an earlier row has the same id", messages[3])
            self.assertIn("expected a text in {text}, found an empty one", messages[4])

    def test_what_is_wrong_is_said_before_the_model_is_loaded(self):
        self.write("in.jsonl", [{"a": 1}])
        self.write("in.csv", "a,b\n1,2\n")
        self.write("no-model.gguf", b"this is no model")
        for arguments, wanted in (
                ([self.path("in.csv"), "{c}"], "expected a column 'c'; the header has a, b"),
                ([self.path("in.csv"), "--columns", "a,c", "What?"], "expected a column 'c'; the header has a, b"),
                ([self.path("in.jsonl"), "What?"], "the prompt names no column"),
                ([self.path("in.jsonl")], "expected a prompt after the table"),
                ([self.path("in.jsonl"), self.path("in.csv")], "found the file"),
                ([self.path("in.jsonl"), "{a"], "expected {column} at byte 0"),
                ([self.path("in.jsonl"), "a}"], "closes nothing"),
                ([self.path("in.jsonl"), "{a}", "--columns", "a,a"], "'a' comes twice"),
                ([self.path("in.jsonl"), "{a}", "--choices", "one"], "expected two or more"),
                ([self.path("in.jsonl"), "{a}", "--choices", "one,one"], "'one' comes twice"),
                ([self.path("in.jsonl"), "{a}", "--order", "best"], "expected one of given, auto"),
                ([self.path("in.jsonl"), "{a}", "--all"], "no option '--all'"),
                ([self.path("absent.jsonl"), "{a}"], "no such input file")):
            with self.subTest(arguments=arguments):
                result = subprocess.run([BANYAN, "map", *arguments, "-m", self.path("no-model.gguf")], capture_output=True,
                                        text=True, timeout=60)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(wanted, result.stderr)

    def test_a_misspelt_column_of_standard_input(self):
        """The table was read as prose."""
        for options in (("--columns", "prodct,review", "Why?"), ("{product} {revew}",)):
            result = self.table("map", "-", *options, code=2, stdin=b"product,review\na kettle,It broke.\n")
            self.assertRegex(result.stderr, "standard input: expected a column '(prodct|revew)'; the header has product, review "
                                            ".*did you mean '(product|review)'?")
        prose = b"Anna, who steers the ferry, tells of the texts.\n"
        [row] = self.printed("map", "-", "{text}", "--max-new", 2, stdin=prose)
        self.assertEqual(row["text"], prose.decode())

    def test_empty_tables(self):
        self.write("in.jsonl", b"")
        self.assertEqual(self.printed("map", self.path("in.jsonl"), "{a}"), [])
        self.write("in.csv", "a,b\n")
        self.table("map", self.path("in.csv"), "{a}", "--order", "auto", "-o", self.path("out.csv"))
        self.assertTrue(self.bytes("out.csv").startswith(b"a,b,"))

    def test_a_row_that_is_too_long_is_one_error(self):
        self.write("in.jsonl", [{"id": 1, "text": "word " * 3000}, {"id": 2, "text": "short"}])
        found = self.printed("map", self.path("in.jsonl"), "{text}", "--max-new", 2, code=1)
        self.assertIn("too long", found[0]["error"]["message"])
        self.assertIn("answer", found[1])


class Resume(TableTest):
    def setUp(self):
        super().setUp()
        rows = [json.dumps(row).encode() + b"\n" for row in reviews(150)]
        rows[20] = b"no json\n"
        rows[30] = rows[3]
        self.input = self.write("in.jsonl", rows)
        self.job = ["map", self.input, *COLUMNS, "--order", "auto", "--quiet"]

    def test_killed_and_resumed(self):
        self.table(*self.job, "-o", self.path("whole.jsonl"), code=1)
        output = self.path("out.jsonl")
        killed_midway = 0
        for attempt in range(12):
            process = subprocess.Popen([BANYAN, *self.job, "-m", self.model, "--threads", "1", "-o", output, "--checkpoint",
                                        "0.001", *(["--resume"] if os.path.exists(output) else [])], stderr=subprocess.DEVNULL)
            while process.poll() is None and not (os.path.exists(output) and
                                                  os.path.getsize(output) > (attempt + 1) * 1500):
                time.sleep(0.001)
            ended = process.poll() is not None
            process.send_signal(signal.SIGKILL)
            process.wait()
            if ended:
                break
            killed_midway += 1
        self.assertGreater(killed_midway, 1)
        self.table(*self.job, "-o", output, "--resume", code=1)
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))
        finished = self.table(*[one for one in self.job if one != "--quiet"], "-o", output, code=1).stderr
        self.assertIn("this job is finished", finished)

    def test_interrupted_by_ctrl_c(self):
        output = self.path("out.jsonl")
        process = subprocess.Popen([BANYAN, *self.job, "-m", self.model, "--threads", "1", "-o", output, "--checkpoint", "0.001"],
                                   stderr=subprocess.PIPE)
        while process.poll() is None and not (os.path.exists(output) and os.path.getsize(output) > 1500):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        self.assertIn(b"--resume", process.communicate()[1])
        self.assertEqual(process.returncode, 130)
        self.table(*self.job, "-o", output, "--resume", code=1)
        self.table(*self.job, "-o", self.path("whole.jsonl"), code=1)
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))

    def test_the_first_rows_then_all(self):
        output = self.path("out.jsonl")
        self.table(*self.job, "-o", output, "--limit", 25, code=1)
        self.assertEqual([row["id"] for row in self.rows("out.jsonl")][:20], [f"r{i}" for i in range(20)])
        self.table(*self.job, "-o", output, "--resume", code=1)
        self.table(*self.job, "-o", self.path("whole.jsonl"), code=1)
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))

    def test_a_table_that_grew(self):
        output = self.path("out.jsonl")
        self.table(*self.job, "-o", output, code=1)
        with open(self.input, "ab") as file:
            for row in reviews(20, seed=5):
                file.write(json.dumps({**row, "id": "new" + row["id"]}).encode() + b"\n")
        self.table(*self.job, "-o", output, "--resume", code=1)
        self.table(*self.job, "-o", self.path("whole.jsonl"), code=1)
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))

    def test_another_prompt_is_another_job(self):
        output = self.path("out.jsonl")
        self.table(*self.job, "-o", output, code=1)
        for other in (["--columns", "number,review,product", "What is it about?"], ["--columns", "number,review,product,city",
                      "Who is it about?"], [*COLUMNS[:3], "--order", "given"]):
            refused = self.table("map", self.input, *other, "--max-new", 5, "--logprobs", "-o", output, "--resume", code=2)
            self.assertIn("were made with other parameters", refused.stderr)

    def test_shards_are_the_whole(self):
        for shard, code in ((1, 1), (2, 0)):  # both bad rows are of the first shard
            self.table(*self.job, "--shard", f"{shard}/2", "-o", self.path(f"{shard}.jsonl"), code=code)
        self.table(*self.job, "-o", self.path("whole.jsonl"), code=1)
        merged = sorted(map(json.dumps, self.rows("1.jsonl") + self.rows("2.jsonl")))
        self.assertEqual(merged, sorted(map(json.dumps, self.rows("whole.jsonl"))))


if __name__ == "__main__":
    unittest.main()
