"""What goes in and what comes out: formats, fields, prompts, choices, samples, errors."""
import csv
import gzip
import json
import math
import os
import pty
import re
import shutil
import subprocess
import threading
import unittest

from harness import AskTest, documents, same_rows, tiny_model

ANSWER = ["--max-new", "4"]


class Rows(AskTest):
    def test_answers_every_question_and_carries_fields(self):
        rows = [{"id": "a", "context": "Text.", "dataset": "x", "tokens": "mine",
                 "questions": [{"id": "q1", "question": "What?", "gold": ["t"]},
                               {"id": 7, "question": "Why?"}, "Plain?"]}]
        out = self.answers(self.write("in.jsonl", rows), *ANSWER)
        self.assertEqual([(r["id"], r["question_id"]) for r in out],
                         [("a", "q1"), ("a", 7), ("a", 3)])
        for row in out:
            self.assertIn(row["finish_reason"], ("stop", "length"))
            self.assertIsInstance(row["answer"], str)
            self.assertTrue(1 <= row["tokens"] <= 4)
            self.assertEqual(row["dataset"], "x")
            self.assertEqual(row["input_tokens"], "mine")
        self.assertEqual(out[0]["gold"], ["t"])

    def test_every_kind_of_bad_row_in_one_file(self):
        good = documents(1)[0]
        bad = [
            b'{"id":"half","context":\n',
            b'[1,2,3]\n',
            b'"text"\n',
            b'{"id":"utf8","context":"\xff\xfe","questions":["x"]}\n',
            b'{"id":["list"],"context":"odd id","questions":["x"]}\n',
            b'{"id":"no context","questions":["x"]}\n',
            b'{"id":"odd context","context":5,"questions":["x"]}\n',
            b'{"id":"no questions","context":"c"}\n',
            b'{"id":"empty questions","context":"c","questions":[]}\n',
            b'{"id":"odd questions","context":"c","questions":"x"}\n',
            b'{"id":"d0","context":"same id again","questions":["x"]}\n',
            b'{"id":"deep","context":' + b"[" * 5000 + b"]" * 5000 + b',"questions":["x"]}\n',
            b'\x00\x01\x02\n',
        ]
        mixed = {"id": "mixed", "context": "c", "questions": [
            {"id": "ok", "question": "x"}, {"id": "none"}, {"id": "odd", "question": 5},
            {"id": "blank", "question": "  "}, 17, {"id": "ok", "question": "again"},
            {"id": "bad choices", "question": "x", "choices": []}]}
        last = {"id": "last", "context": "c", "questions": ["x"]}
        lines = [json.dumps(good).encode() + b"\n", *bad, json.dumps(mixed).encode() + b"\n",
                 b"   \n", json.dumps(last).encode()]  # blank lines are none; no newline at the end
        path = self.write("in.jsonl", lines)
        out = self.answers(path, *ANSWER, "--ordered", code=1)
        errors = [r for r in out if "error" in r]
        self.assertEqual([r["id"] for r in out if "error" not in r], ["d0", "d0", "mixed", "last"])
        self.assertEqual(len(errors), len(bad) + 6)
        for number, row in enumerate(errors[:len(bad)]):
            self.assertEqual(row["error"]["file"], path)
            self.assertEqual(row["error"]["line"], number + 2)
            self.assertIn(f"line {number + 2}", row["error"]["message"])
            self.assertIn(row["error"]["kind"], ("input", "limit"))
            self.assertEqual(sorted(row), ["error", "id", "question_id"])
        self.assertEqual([r.get("question") for r in errors[len(bad):]], [None, None, "  ", None, "again", "x"])
        self.assertEqual([r["id"] for r in errors[:len(bad)]],
                         [None, None, None, "utf8", None, "no context", "odd context",
                          "no questions", "empty questions", "odd questions", "d0", None, None])
        self.assertEqual([r["question_id"] for r in errors[len(bad):]],
                         ["none", "odd", "blank", 5, "ok", "bad choices"])

    def test_answers_match_a_pattern_or_a_schema(self):
        path = self.write("in.jsonl", documents(6))
        for row in self.answers(path, "--max-new", 30, "--regex", "(yes|no), [0-9]{1,3}"):
            self.assertRegex(row["answer"], r"^(yes|no), [0-9]{1,3}$")
            self.assertEqual(row["finish_reason"], "stop")
        schema = self.write("schema.json", json.dumps({
            "type": "object", "required": ["name", "size"], "properties": {
                "name": {"type": "string", "maxLength": 5}, "size": {"type": ["integer", "null"], "minimum": 0},
                "kind": {"enum": ["a", "b c"]}}}))
        for strategy in ("flat", "tree", "stacked"):
            rows = self.answers(path, "--max-new", 120, "--json-schema", schema, "--strategy", strategy,
                                "--temperature", 1.5, "--ordered")
            for row in rows:
                self.assertEqual(row["finish_reason"], "stop")
                self.assertEqual(row["value"], json.loads(row["answer"]))
                self.assertLessEqual(len(row["value"]["name"]), 5)
                self.assertIsInstance(row["value"]["size"], (int, type(None)))
                self.assertIn(row["value"].get("kind", "a"), ("a", "b c"))
            self.assertEqual(rows, getattr(self, "first", rows))
            self.first = rows
        # Cut short it says nothing.
        row = self.answers(path, "--max-new", 2, "--json-schema", schema)[0]
        self.assertEqual((row["finish_reason"], row["value"]), ("length", None))
        for bad, why in ((("--regex", "a(b"), "character 2"), (("--regex", "x", "--json-schema", schema), "one of"),
                         (("--regex", "x", "--thinking", "on"), "thoughts"),
                         (("--json-schema", self.write("empty.json", "")), "empty"),
                         (("--json-schema", self.write("odd.json", '{"type":"thing"}')), "--json-schema")):
            refused = self.ask(path, *bad, "-o", self.path("refused.jsonl"), code=2)
            self.assertIn(why, refused.stderr)

    def test_max_errors_stops_the_job(self):
        rows = [b"bad\n"] * 5 + documents(3)
        result = self.ask(self.write("in.jsonl", rows), *ANSWER, "--max-errors", 2,
                          "-o", self.path("out.jsonl"), code=1)
        self.assertIn("--max-errors", result.stderr)
        self.assertEqual(len(self.rows("out.jsonl")), 3)
        self.answers(self.path("in.jsonl"), *ANSWER, "--max-errors", 5, code=1)

    def test_field_mapping_and_questions_file(self):
        docs = [{"nr": i, "body": f"Text {i}.", "lang": "en"} for i in range(3)]
        questions = self.write("q.txt", "What?\n\nWhy?\n")
        args = ["--field", "context=body", "--field", "id=nr", *ANSWER, "--ordered"]
        out = self.answers(self.write("in.jsonl", docs), *args, "--questions", questions)
        self.assertEqual([(r["id"], r["question_id"], r["lang"]) for r in out],
                         [(i, k, "en") for i in range(3) for k in (1, 2)])
        jsonl = self.write("q.jsonl", [{"id": "x", "question": "What?"},
                                       {"id": "y", "question": "Why?"}])
        again = self.answers(self.path("in.jsonl"), *args, "--questions", jsonl)
        self.assertEqual([r["answer"] for r in again], [r["answer"] for r in out])
        self.assertEqual([r["question_id"] for r in again], ["x", "y"] * 3)
        self.ask(self.path("in.jsonl"), "--field", "nonsense=body", code=2)
        self.ask(self.path("in.jsonl"), "--questions", self.write("none.txt", "\n"), code=2)

    def test_files_globs_and_standard_input(self):
        docs = documents(6)
        whole = self.answers(self.write("in.jsonl", docs), *ANSWER)
        self.write("part1.jsonl", docs[:2])
        self.write("part2.jsonl", docs[2:])
        out = self.answers(self.path("part*.jsonl"), *ANSWER)
        self.assertEqual(same_rows(out), same_rows(whole))
        piped = self.ask("-", *ANSWER, "--quiet", stdin=self.bytes("in.jsonl"))
        self.assertEqual(same_rows(map(json.loads, piped.stdout.splitlines())), same_rows(whole))
        missing = self.ask(self.path("absent.jsonl"), code=2)
        self.assertIn("absent.jsonl", missing.stderr)
        self.assertEqual(missing.stdout, b"")

    def test_packed_input_and_output(self):
        docs = documents(5)
        whole = self.answers(self.write("in.jsonl", docs), *ANSWER)
        raw = self.bytes("in.jsonl")
        # Two members in one file, and a name that does not say so.
        self.write("in.gz", gzip.compress(raw[:100]) + gzip.compress(raw[100:]))
        self.assertEqual(same_rows(self.answers(self.path("in.gz"), *ANSWER)), same_rows(whole))
        self.ask(self.path("in.gz"), *ANSWER, "-o", self.path("out.jsonl.gz"), "--checkpoint", 0)
        with gzip.open(self.path("out.jsonl.gz"), "rt") as file:
            self.assertEqual(same_rows(map(json.loads, file)), same_rows(whole))
        self.write("torn.jsonl.gz", gzip.compress(raw)[:-20])
        torn = self.answers(self.path("torn.jsonl.gz"), self.path("in.jsonl"), *ANSWER, code=1)
        self.assertTrue(any("gzip" in r.get("error", {}).get("message", "") for r in torn))
        self.assertIn("d4", [r["id"] for r in torn])  # the next file goes on

    @unittest.skipUnless(shutil.which("zstd"), "no zstd here: apt-get install zstd")
    def test_zstd_input_and_output(self):
        whole = self.answers(self.write("in.jsonl", documents(5)), *ANSWER)
        subprocess.run(["zstd", "-q", self.path("in.jsonl")], check=True)
        self.ask(self.path("in.jsonl.zst"), *ANSWER, "-o", self.path("out.jsonl.zst"),
                 "--checkpoint", 0)
        subprocess.run(["zstd", "-q", "-d", self.path("out.jsonl.zst")], check=True)
        self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(whole))

    def test_csv_in_and_out(self):
        text = 'id,context,question,lang\n1,"Line one,\nline ""two""",What?,en\n2,Plain,Why?,de\n' \
               '3,too,many,fields,here\n'
        path = self.write("in.csv", text)
        self.ask(path, *ANSWER, "-o", self.path("out.csv"), "--columns", "lang", "--ordered", code=1)
        with open(self.path("out.csv"), newline="", encoding="utf-8") as file:
            out = list(csv.DictReader(file))
        flat = [{"id": "1", "context": 'Line one,\nline "two"', "question": "What?"},
                {"id": "2", "context": "Plain", "question": "Why?"}]
        expected = self.answers(self.write("flat.jsonl", flat), *ANSWER, "--ordered")
        self.assertEqual([(r["id"], r["answer"], r["lang"]) for r in out[:2]],
                         [(e["id"], e["answer"], lang) for e, lang in zip(expected, ("en", "de"))])
        error = json.loads(out[2]["more"])["error"]
        self.assertEqual((error["kind"], error["line"], error["message"]), ("input", 5, out[2]["error"]))
        self.assertEqual(json.loads(out[0]["more"])["prompt_tokens"], expected[0]["prompt_tokens"])

    def test_ordered_equals_unordered_and_shards_make_the_whole(self):
        docs = documents(30, 3)
        docs[7] = b"broken\n"
        docs[12]["id"] = "d3"
        path = self.write("in.jsonl", docs)
        unordered = self.answers(path, *ANSWER, code=1)
        ordered = self.answers(path, *ANSWER, "--ordered", code=1)
        self.assertEqual(same_rows(ordered), same_rows(unordered))
        places = [r["id"] for r in ordered]
        expected = [i for n, d in enumerate(docs)
                    for i in ([None] if n == 7 else ["d3"] if n == 12 else [f"d{n}"] * 3)]
        self.assertEqual(places, expected)
        parts = [row for i in (1, 2) for row in self.answers(path, *ANSWER, "--shard", f"{i}/2",
                                                             code=1)]
        self.assertEqual(same_rows(parts), same_rows(unordered))
        for wrong in ("0/2", "3/2", "x", "1/2x"):
            self.ask(path, "--shard", wrong, code=2)

    def test_limit(self):
        path = self.write("in.jsonl", documents(9, 1))
        self.assertEqual(len(self.answers(path, *ANSWER, "--limit", 4)), 4)
        self.assertEqual(len(self.answers(path, *ANSWER, "--limit", 0)), 0)
        parts = [r["id"] for i in (1, 2)
                 for r in self.answers(path, *ANSWER, "--limit", 5, "--shard", f"{i}/2")]
        self.assertEqual(sorted(parts), [f"d{i}" for i in range(5)])

    def test_every_strategy_gives_the_same_answers(self):
        docs = documents(6, 4)
        docs[2]["questions"][1]["choices"] = ["red", "green and blue", "no"]
        path = self.write("in.jsonl", docs)
        receipts = []
        for strategy in ("auto", "flat", "paged", "stacked", "tree"):
            for more in ([], ["--one-by-one"], ["--batch-rows", "7"]):
                self.ask(path, *ANSWER, "--logprobs", "--strategy", strategy, *more, "--overwrite",
                         "-o", self.path("s.jsonl"), "--receipt", self.path("r.json"))
                receipts.append((same_rows(self.rows("s.jsonl")),
                                 self.json("r.json")["answers_hash"]))
        for other in receipts[1:]:
            self.assertEqual(other, receipts[0])

    def test_choices(self):
        rows = [{"id": 1, "context": "The sky is blue.", "questions": [
            {"id": "a", "question": "Colour?", "choices": ["blue", "dark red", "x"]}]}]
        path = self.write("in.jsonl", rows)
        for mode in (["--choices", "score"], ["--choices", "letter"],
                     ["--choices", "score", "--chat", "off"], ["--choice-score", "mean"], ["--choice-score", "prior"]):
            row = self.answers(path, *mode)[0]
            scores = row["scores"]["mean" if "mean" in mode else "sum"]
            if "prior" in mode:
                # What the options have without the document, asked alone.
                empty = self.answers(self.write("empty.jsonl", [dict(rows[0], context="")]))[0]
                self.assertEqual(row["scores"]["prior"], empty["scores"]["sum"])
                scores = [with_it - without for with_it, without in zip(scores, row["scores"]["prior"])]
            most = max(scores)
            shares = [math.exp(score - most) for score in scores]
            for share, probability in zip(shares, row["probabilities"]):
                self.assertAlmostEqual(share / sum(shares), probability, delta=1e-4)
            self.assertEqual(len(scores), 3)
            self.assertEqual(row["choice"], scores.index(max(scores)))
            self.assertEqual(row["answer"], rows[0]["questions"][0]["choices"][row["choice"]])
            if "letter" in mode:
                self.assertEqual(row["letter"], "ABC"[row["choice"]])
                self.assertEqual(row["scores"]["sum"], row["scores"]["mean"])

    def test_samples_do_not_depend_on_scheduling(self):
        path = self.write("in.jsonl", documents(6, 2))
        args = [*ANSWER, "--temperature", "1.5", "--samples", "3", "--seed", "5"]
        whole = self.answers(path, *args)
        self.assertTrue(all(len(r["samples"]) == 3 for r in whole))
        self.assertGreater(len({r["samples"][i]["answer"] for r in whole for i in range(3)}), 6)
        parts = [r for i in (1, 2) for r in self.answers(path, *args, "--shard", f"{i}/2")]
        self.assertEqual(same_rows(parts), same_rows(whole))
        other = self.answers(path, *ANSWER, "--temperature", "1.5", "--samples", "3", "--seed", "6")
        self.assertNotEqual(same_rows(other), same_rows(whole))
        voted = self.answers(path, *args, "--vote")
        for row in voted:
            self.assertIn(row["answer"], [s["answer"] for s in row["samples"]])
            self.assertGreaterEqual(row["votes"], 1)
        self.ask(path, "--samples", "3", code=2)

    def test_templates_and_few_shot(self):
        rows = [{"id": 1, "title": "T", "context": "C", "questions": ["Q?"]}]
        path = self.write("in.jsonl", rows)
        plain = self.answers(path, *ANSWER, "--chat", "off", "--template",
                             "{title}: {{{context}}} {question}")[0]
        self.assertEqual(plain["prompt_tokens"], len("T: {C} Q?"))
        shot = self.write("shots.txt", "Question: a\nAnswer: b\n")
        more = self.answers(path, *ANSWER, "--few-shot", shot)[0]
        base = self.answers(path, *ANSWER)[0]
        self.assertGreater(more["prompt_tokens"], base["prompt_tokens"])
        turns = self.write("shots.jsonl", [{"context": "c", "question": "a", "answer": "b"}])
        self.assertGreater(self.answers(path, *ANSWER, "--few-shot", turns)[0]["prompt_tokens"],
                           base["prompt_tokens"])
        thinking = self.answers(path, *ANSWER, "--thinking", "on")[0]
        self.assertEqual(thinking["prompt_tokens"] + 4, base["prompt_tokens"])
        missing = self.answers(path, *ANSWER, "--template", "{question} {nothing}", code=1)
        self.assertIn("nothing", missing[0]["error"]["message"])
        for bad in ("{question", "}{question}", "no variable", "{question} {}"):
            self.ask(path, "--template", bad, code=2)
        own = self.answers(self.write("own.jsonl", [dict(rows[0], instruction="Be brief.")]),
                           *ANSWER)[0]
        given = self.answers(path, *ANSWER, "--instruction", "Be brief.")[0]
        self.assertEqual(own, given)

    def test_documents_cannot_speak_control_tokens(self):
        def tokens(context):
            rows = [{"id": 1, "context": context, "questions": ["Q?"]}]
            return self.answers(self.write("in.jsonl", rows), *ANSWER)[0]["prompt_tokens"]
        self.assertGreater(tokens("a<|im_end|>b") - tokens("ab"), 5)

    def test_too_long(self):
        model = tiny_model(256)
        long = " ".join(f"word{i}" for i in range(200))
        docs = [{"id": "long", "context": long, "questions": ["What?", "Why?"]},
                {"id": "short", "context": "Short.", "questions": ["What?"]},
                {"id": "question", "context": "c", "questions": ["long " * 400]}]
        args = [self.write("in.jsonl", docs), *ANSWER, "--instruction", "Answer.", "--ordered"]
        failed = self.answers(*args, "--too-long", "fail", code=1, model=model)
        self.assertEqual([r.get("error", {}).get("kind") for r in failed],
                         ["limit", "limit", None, "limit"])
        cut = self.answers(*args, "--too-long", "truncate", code=1, model=model)
        self.assertEqual(["error" in r for r in cut], [False, False, False, True])
        self.assertGreater(cut[0]["truncated_bytes"], 500)
        self.assertTrue(200 < cut[0]["prompt_tokens"] <= 252)
        self.assertNotIn("truncated_bytes", cut[2])
        split = self.answers(*args, code=1, model=model)
        self.assertGreater(split[0]["parts"], 4)
        self.assertTrue(0 <= split[0]["part"] < split[0]["parts"])
        self.assertEqual(split[2], failed[2])
        # The questions of a document are asked of the same parts, and share them.
        self.assertEqual(split[0]["parts"], split[1]["parts"])
        many = [{"id": 1, "context": long, "questions": [f"{'why ' * (k % 3)}{k}?" for k in range(6)]}]
        self.ask(self.write("many.jsonl", many), *ANSWER, "--instruction", "Answer.", "--too-long",
                 "split", "-o", self.path("m.jsonl"), "--receipt", self.path("r.json"), model=model)
        receipt = self.json("r.json")
        self.assertGreater(receipt["shared_tokens"], 0.6 * receipt["prompt_tokens"])

    def test_stop_and_logprobs(self):
        path = self.write("in.jsonl", documents(1, 1))
        row = self.answers(path, "--max-new", 12, "--logprobs", "--token-ids",
                           "--top-logprobs", 2)[0]
        self.assertEqual(len(row["logprobs"]), row["tokens"])
        self.assertEqual(len(row["token_ids"]), row["tokens"])
        for top, value in zip(row["top_logprobs"], row["logprobs"]):
            self.assertEqual(len(top), 2)
            self.assertEqual(top[0]["logprob"], value)
        letters = [c for c in row["answer"] if c.isascii() and c.isalnum()]
        if letters:
            stopped = self.answers(path, "--max-new", 12, "--stop", letters[0])[0]
            self.assertEqual(stopped["finish_reason"], "stop")
            self.assertNotIn(letters[0], stopped["answer"])

    def test_dry_run_receipt_and_silence(self):
        docs = documents(10, 3)
        path = self.write("in.jsonl", docs)
        dry = self.ask(path, *ANSWER, "--dry-run")
        estimate = json.loads(dry.stdout)
        self.assertEqual((estimate["records"], estimate["rows"]), (10, 30))
        self.assertGreater(estimate["expected_seconds"], 0)
        self.assertIn("measured", dry.stderr)
        result = self.ask(path, *ANSWER, "-o", self.path("o.jsonl"), "--receipt", self.path("r.json"))
        receipt = self.json("r.json")
        self.assertEqual(receipt["rows"], 30)
        self.assertEqual(receipt["prompt_tokens"], estimate["prompt_tokens"])
        self.assertEqual(receipt["prefilled_tokens"], estimate["unique_tokens"])
        self.assertEqual(receipt["shared_tokens"],
                         receipt["prompt_tokens"] - receipt["prefilled_tokens"])
        # Memory as this job needs it, not all there is.
        self.assertGreaterEqual(2 * estimate["kv_bytes"], receipt["kv_bytes_peak"])
        self.assertLessEqual(estimate["kv_bytes"], 3 * receipt["kv_bytes_peak"])
        self.assertEqual(receipt["generated_tokens"], sum(r["tokens"] for r in self.rows("o.jsonl")))
        for name in ("seconds", "kv_bytes_peak", "memory_bytes_peak", "strategy", "precision",
                     "error_rows", "answers_hash", "fraction_of_limit"):
            self.assertIn(name, receipt)
        self.assertEqual(set(receipt["prediction"]), {"seconds", "error"})
        self.assertGreater(receipt["prediction"]["error"], -1.0)
        self.assertLessEqual(receipt["steps_apart"], receipt["steps"])
        self.assertIn("sharing", result.stderr)
        self.assertEqual(result.stdout, b"")
        self.assertEqual(self.ask(path, *ANSWER, "--quiet", "--overwrite",
                                  "-o", self.path("o.jsonl")).stderr, "")
        explained = self.ask(path, *ANSWER, "--explain", "--quiet", "-o", self.path("e.jsonl"))
        self.assertRegex(explained.stderr, r"costs +built in\n")
        self.assertRegex(explained.stderr, r"attention of one layer: .* together, .* apart, ")

    def test_progress_on_a_terminal(self):
        """A bar that is redrawn on a terminal; nothing but lines elsewhere; data only on stdout."""
        path = self.write("in.jsonl", documents(40, 3))
        terminal, its_end = pty.openpty()
        process = subprocess.Popen(self.command(path, "--max-new", "30"), stderr=its_end,
                                   stdout=subprocess.PIPE)
        os.close(its_end)
        shown = b""
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        try:
            while chunk := os.read(terminal, 4096):
                shown += chunk
        except OSError:  # how a terminal ends
            pass
        reader.join()
        self.assertEqual(process.wait(), 0)
        os.close(terminal)
        process.stdout.close()
        self.assertIn(b"[####################] 100 %", shown)
        self.assertIn(b"questions/s", shown)
        plain = self.ask(path, "--max-new", "30")
        self.assertNotIn("\r", plain.stderr)
        self.assertIn("100 %", plain.stderr)
        self.assertEqual(len(plain.stdout.splitlines()), 120)

    def test_help_and_usage(self):
        text = self.ask("--help-all").stdout.decode()
        for word in ("Examples", "--resume", "--too-long", "--field", "Exit code", "questions.txt"):
            self.assertIn(word, text)
        path = self.write("in.jsonl", documents(1))
        for arguments in (["--strategy", "odd"], ["--max-new", "0"], ["--chat", "maybe"],
                          ["--resume"], ["--vote"], ["--no-such-option"], ["--max-new", "x"]):
            self.ask(path, *arguments, code=2)
        self.ask(code=2)
        self.ask(path, model=self.path("absent.gguf"), code=2)

    def test_copies_stand_in_the_text(self):
        """A model of random weights says anything; held to the text it says what stands there, in whole words."""
        text = "Anna Walker steers the\n  ferry Marigold at 7:45.\tTom Reed mends it for 1,250.50 euros."
        rows = [{"id": 1, "context": text, "questions": [f"What about {n}?" for n in range(12)]}]
        path, line = self.write("in.jsonl", rows), " ".join(text.split())
        for most in ("2", "24"):
            copied = [r["answer"] for r in self.answers(path, "--copy", "--max-new", most)]
            words = [a for a in copied if a is not None]
            self.assertTrue(words or most == "2")
            for answer in words:
                begin, end = (r"\b" if re.match(r"\w", c) else "" for c in (answer[0], answer[-1]))
                self.assertRegex(line, begin + re.escape(answer) + end)
        self.assertNotIn(self.answers(path, "--max-new", "24")[0]["answer"], line)
        for other in (["--regex", "a"], ["--thinking", "on"]):
            self.ask(path, "--copy", *other, code=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
