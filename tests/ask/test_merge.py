#!/usr/bin/env python3
"""Shards become one output: the same bytes as one job's, and nothing when anything is wrong."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import BANYAN, AskTest, documents


class Merge(AskTest):
    def shards(self, rows, count=3, ending="jsonl", *more):
        """Runs every shard; returns the names of outputs and receipts."""
        source = self.write("in.jsonl", rows)
        outputs, receipts = [], []
        for i in range(1, count + 1):
            outputs.append(self.path(f"part.{i}.{ending}"))
            receipts.append(self.path(f"receipt.{i}.{ending}.json"))
            self.ask(source, "--shard", f"{i}/{count}", "-o", outputs[-1], "--receipt", receipts[-1], "--quiet",
                     "--max-new", 6, "--ordered", *more)
        return outputs, receipts

    def merge(self, *arguments, code=0):
        result = subprocess.run([BANYAN, "merge", *map(str, arguments)], capture_output=True, timeout=60)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr.decode()

    def whole(self, ending="jsonl", *more):
        self.ask(self.path("in.jsonl"), "-o", self.path(f"whole.{ending}"), "--receipt", self.path(f"whole.{ending}.json"),
                 "--quiet", "--max-new", 6, "--ordered", *more)
        return self.bytes(f"whole.{ending}")

    def test_the_merged_output_is_the_one_of_one_job(self):
        rows = documents(11)
        outputs, receipts = self.shards(rows)
        self.merge(outputs[2], outputs[0], outputs[1], "-o", self.path("all.jsonl"), "--ordered",
                   "--receipts", *receipts, "--receipt", self.path("all.json"), "--quiet")
        self.assertEqual(self.bytes("all.jsonl"), self.whole())
        merged, one = self.json("all.json"), self.json("whole.jsonl.json")
        for name in ("task", "rows", "error_rows", "records", "answers_hash", "generated_tokens", "prompt_tokens"):
            self.assertEqual(merged[name], one[name], name)

    def test_without_order_shard_follows_shard(self):
        outputs, _ = self.shards(documents(5), 2)
        self.merge(*outputs, "-o", self.path("all.jsonl"))
        self.assertEqual(self.bytes("all.jsonl"), self.bytes("part.1.jsonl") + self.bytes("part.2.jsonl"))

    def test_tables_have_one_header_and_packed_shards_are_unpacked(self):
        outputs, _ = self.shards(documents(4), 2, "csv")
        self.merge(*outputs, "-o", self.path("all.csv"), "--ordered")
        self.assertEqual(self.bytes("all.csv"), self.whole("csv"))
        outputs, _ = self.shards(documents(4), 2, "jsonl.gz")
        self.merge(*outputs, "-o", self.path("all.jsonl"), "--ordered")
        self.assertEqual(self.bytes("all.jsonl"), self.whole())

    def test_a_grown_input_goes_on_with_the_merged_output(self):
        outputs, _ = self.shards(documents(5), 2)
        self.merge(*outputs, "-o", self.path("all.jsonl"), "--ordered")
        self.write("in.jsonl", documents(7))
        self.ask(self.path("in.jsonl"), "-o", self.path("all.jsonl"), "--resume", "--ordered", "--max-new", 6, "--quiet")
        self.assertEqual(self.bytes("all.jsonl"), self.whole())

    def refused(self, words, *arguments):
        before = set(os.listdir(self.folder))
        message = self.merge(*arguments, "-o", self.path("all.jsonl"), code=2)
        self.assertIn(words, message)
        self.assertEqual(set(os.listdir(self.folder)), before)

    def test_what_is_not_one_whole_job_is_refused(self):
        outputs, receipts = self.shards(documents(7))
        self.refused("missing: 2/3", outputs[0], outputs[2])
        shutil.copy(outputs[0], self.path("copy.jsonl"))
        shutil.copy(outputs[0] + ".journal", self.path("copy.jsonl.journal"))
        self.refused("both shard 1/3", *outputs, self.path("copy.jsonl"))
        self.refused("no such file", *outputs[:2], self.path("none.jsonl"))
        self.refused("expected the receipts of all 3 shards", *outputs, "--receipts", receipts[0])
        self.refused("comes twice", *outputs, "--receipts", receipts[0], receipts[0])
        with open(outputs[1], "r+b") as file:
            file.seek(20)
            file.write(b"X")
        self.refused("was changed since it was written", *outputs)
        os.remove(outputs[1] + ".journal")
        self.refused("has no journal", *outputs)

    def test_other_parameters_and_other_inputs_are_refused(self):
        outputs, _ = self.shards(documents(6), 2)
        self.ask(self.path("in.jsonl"), "--shard", "2/2", "-o", self.path("other.jsonl"), "--quiet", "--ordered",
                 "--max-new", 7)
        self.refused("--max-new: 6 and 7", outputs[0], self.path("other.jsonl"))
        self.write("more.jsonl", documents(9, prefix="e"))
        self.ask(self.path("more.jsonl"), "--shard", "2/2", "-o", self.path("third.jsonl"), "--quiet", "--ordered",
                 "--max-new", 6)
        self.refused("not made from the same input", outputs[0], self.path("third.jsonl"))
        self.write("same.jsonl", documents(6)[:1] + documents(6))
        self.ask(self.path("in.jsonl"), "--shard", "1/2", "-o", self.path("fourth.jsonl"), "--quiet", "--max-new", 6)
        self.ask(self.path("in.jsonl"), "--shard", "2/2", "-o", self.path("fifth.jsonl"), "--quiet", "--max-new", 6)
        self.refused("run the shards with --ordered", self.path("fourth.jsonl"), self.path("fifth.jsonl"), "--ordered")

    def test_equal_ids_do_not_make_two_inputs_one(self):
        rows = documents(4)
        self.write("one.jsonl", rows)
        self.write("two.jsonl", [{**row, "context": "Another text."} for row in rows])
        for name, shard in (("one", "1/2"), ("two", "2/2")):
            self.ask(self.path(f"{name}.jsonl"), "--shard", shard, "-o", self.path(f"out.{name}.jsonl"), "--quiet")
        self.refused("were not made from the same input", self.path("out.one.jsonl"), self.path("out.two.jsonl"))

    def test_a_record_that_is_in_two_shards_is_refused(self):
        rows = documents(4)
        self.write("one.jsonl", rows)
        self.write("two.jsonl", [rows[1], rows[0], *rows[2:]])
        for name, shard in (("one", "1/2"), ("two", "2/2")):
            self.ask(self.path(f"{name}.jsonl"), "--shard", shard, "-o", self.path(f"out.{name}.jsonl"), "--quiet")
        self.refused("in another shard too", self.path("out.one.jsonl"), self.path("out.two.jsonl"))

    def test_unfinished_shards_and_full_outputs_are_refused(self):
        outputs, _ = self.shards(documents(4), 2)
        pathlib.Path(self.path("all.jsonl")).write_text("mine\n")
        message = self.merge(*outputs, "-o", self.path("all.jsonl"), code=2)
        self.assertIn("is there already", message)
        self.assertEqual(self.bytes("all.jsonl"), b"mine\n")
        self.merge(*outputs, "-o", self.path("all.jsonl"), "--ordered", "--overwrite")
        self.assertEqual(len(self.rows("all.jsonl")), 8)
        journal = pathlib.Path(outputs[0] + ".journal")
        journal.write_bytes(journal.read_bytes()[:-64])  # the last entry says that all was done
        message = self.merge(*outputs, "-o", self.path("next.jsonl"), code=2)
        self.assertIn("not finished", message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
