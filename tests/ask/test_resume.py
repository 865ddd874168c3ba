"""Nothing lost, nothing twice: interruptions of every kind, and going on after them."""
import gzip
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from harness import AskTest, documents, same_rows, tiny_model

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import processor_time  # noqa: E402

# Draws are keyed by ids, so sampled answers differ from row to row and are the same in every run.
ANSWER = ["--max-new", "6", "--temperature", "1", "--quiet"]


class Resume(AskTest):
    def setUp(self):
        super().setUp()
        docs = documents(150, 2)
        docs[10] = b"this is not JSON\n"
        docs[20]["id"] = "d3"
        docs[30]["questions"][1] = {"id": "q1"}
        self.input = self.write("in.jsonl", docs)
        self.expected = None

    def uninterrupted(self, *arguments):
        return self.answers(self.input, *ANSWER, *arguments, code=1)

    def kill_until_done(self, output, kills, arguments=(), seconds=0.4):
        """Kills the job at random moments, resumes it, and at last lets it end."""
        generator = random.Random(7)
        killed = 0
        command = self.command(self.input, *ANSWER, "-o", output, "--checkpoint", "0.01", *arguments)
        while killed < kills:
            resume = ["--resume"] if os.path.exists(output) else []
            process = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                process.communicate(timeout=generator.uniform(0.0, seconds))
                self.assertEqual(process.returncode, 1)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
            killed += 1
            if process.returncode == 1 and killed < kills:
                # Done too early: begin anew, so that every kill has something to destroy.
                for name in (output, output + ".journal"):
                    os.remove(name)
        resume = ["--resume"] if os.path.exists(output) else []
        self.ask(self.input, *ANSWER, "-o", output, *resume, *arguments, code=1)

    def test_nothing_to_go_on_with(self):
        output = self.path("absent.jsonl")
        refused = self.ask(self.input, *ANSWER, "-o", output, "--resume", code=2).stderr
        self.assertIn(f"{output}: there is nothing to go on with: no such file; without --resume the job begins", refused)
        self.assertFalse(os.path.exists(output))
        self.assertIn("--resume needs an output file", self.ask(self.input, *ANSWER, "--resume", code=2).stderr)
        # Whatever there is, or is not: begun or gone on with.
        self.ask(self.input, *ANSWER, "-o", output, "--resume", "--overwrite", code=1)
        self.assertEqual(same_rows(self.rows("absent.jsonl")), same_rows(self.uninterrupted()))
        # What a job left that was killed before its first row.
        open(self.path("empty.jsonl"), "w").close()
        self.ask(self.input, *ANSWER, "-o", self.path("empty.jsonl"), "--resume", code=1)

    def test_killed_fifty_times(self):
        expected = same_rows(self.uninterrupted())
        self.kill_until_done(self.path("out.jsonl"), 40)
        self.assertEqual(same_rows(self.rows("out.jsonl")), expected)
        self.kill_until_done(self.path("ordered.jsonl"), 10, ["--ordered"])
        self.assertEqual(self.rows("ordered.jsonl"), self.uninterrupted("--ordered"))

    def test_killed_with_packed_output(self):
        self.kill_until_done(self.path("out.jsonl.gz"), 8)
        with gzip.open(self.path("out.jsonl.gz"), "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        self.assertEqual(same_rows(rows), same_rows(self.uninterrupted()))

    def test_receipt_counts_and_hashes_the_whole_output(self):
        self.uninterrupted("--receipt", self.path("whole.json"))
        process = subprocess.Popen(self.command(self.input, *ANSWER, "-o", self.path("out.jsonl"),
                                                "--checkpoint", "0"))
        time.sleep(0.25)
        process.kill()
        process.wait()
        self.ask(self.input, *ANSWER, "-o", self.path("out.jsonl"), "--resume",
                 "--receipt", self.path("resumed.json"), code=1)
        whole, resumed = self.json("whole.json"), self.json("resumed.json")
        for name in ("rows", "error_rows", "answers_hash"):
            self.assertEqual(resumed[name], whole[name])
        self.assertEqual(resumed["records"] + resumed["records_finished_before"], whole["records"])

    def test_control_c_ends_at_once_and_says_how_to_go_on(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            # A pipe that stays open: however slow this process is, the job is not over when it is told to stop.
            output, data = self.path(f"out{int(number)}.jsonl"), self.bytes("in.jsonl")
            process = subprocess.Popen(
                self.command("-", "--max-new", "40", "--batch-rows", "4", "-o", output),
                stdin=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdin.write(data)
            process.stdin.flush()
            while not os.path.exists(output) or os.path.getsize(output) == 0:
                time.sleep(0.01)
            before = processor_time.of_process(process.pid) + processor_time.of_children()
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=120), code)
            self.assertLess(processor_time.of_children() - before, 2.0)
            message = process.communicate()[1].decode()
            self.assertIn("banyan: stopping", message)
            self.assertIn("--resume", message)
            self.assertGreater(len(self.rows(os.path.basename(output))), 0)
            self.ask("-", "--max-new", "40", "-o", output, "--resume", "--quiet", stdin=data, code=1)
            whole = self.answers("-", "--max-new", "40", stdin=data, code=1)
            self.assertEqual(same_rows(self.rows(os.path.basename(output))), same_rows(whole))

    def test_unfinished_output_is_not_overwritten(self):
        output = self.path("out.jsonl")
        self.ask(self.input, *ANSWER, "-o", output, "--max-errors", 0, code=1)
        refused = self.ask(self.input, *ANSWER, "-o", output, code=2)
        self.assertIn("--resume", refused.stderr)
        self.ask(self.input, *ANSWER, "-o", output, "--overwrite", code=1)
        # Neither is a finished one: the same job has nothing to do.
        self.ask(self.input, *ANSWER, "-o", output, code=1)
        self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(self.uninterrupted()))

    def test_changed_parameters_are_refused_by_name(self):
        output = self.path("out.jsonl")
        self.ask(self.input, *ANSWER, "-o", output, code=1)
        before = self.bytes("out.jsonl")
        for arguments, name in ((["--max-new", "7"], "--max-new: was 6, is 7"),
                                (["--instruction", "Other."], "--instruction"),
                                (["--temperature", "2"], "--temperature: was 1.0, is 2.0"),
                                (["--ordered"], "ordered"),
                                (["--strategy", "no-attention"], "--strategy"),
                                (["--precision", "f32"], "model"),
                                (["--shard", "1/2"], '--shard: was "1/1", is "1/2"')):
            kept = ["--max-new", "6"] if arguments[0] != "--max-new" else []
            kept += ["--temperature", "1"] if arguments[0] != "--temperature" else []
            refused = self.ask(self.input, "--quiet", *kept, *arguments, "-o", output, "--resume", code=2)
            self.assertIn(name, refused.stderr)
            self.assertEqual(self.bytes("out.jsonl"), before)
        other = self.ask(self.input, *ANSWER, "-o", output, "--resume", code=2,
                         model=tiny_model(512, 1))
        self.assertIn("model", other.stderr)
        # What does not change answers may change.
        self.ask(self.input, *ANSWER, "--strategy", "flat", "-o", output, "--resume", code=1)

    def test_torn_lines_and_journals_are_repaired(self):
        expected = same_rows(self.uninterrupted())
        output, journal = self.path("out.jsonl"), self.path("out.jsonl.journal")
        self.ask(self.input, *ANSWER, "-o", output, "--checkpoint", "0", code=1)
        whole, notes = self.bytes("out.jsonl"), self.bytes("out.jsonl.journal")
        for cut_output, cut_journal in ((0, 30), (10, 0), (700, 0), (0, 2000), (5000, 300),
                                        (len(whole), 0), (100, 100)):
            self.write("out.jsonl", whole[:len(whole) - cut_output])
            self.write("out.jsonl.journal", notes[:len(notes) - cut_journal])
            self.ask(self.input, *ANSWER, "-o", output, "--resume", code=1)
            self.assertEqual(same_rows(self.rows("out.jsonl")), expected, (cut_output, cut_journal))
        # A row that no journal speaks of, half written.
        self.write("out.jsonl", whole + b'{"id":"d1","answ')
        self.write("out.jsonl.journal", notes)
        self.ask(self.input, *ANSWER, "-o", output, "--resume", code=1)
        self.assertEqual(same_rows(self.rows("out.jsonl")), expected)
        # A flipped bit in the journal: what follows it does not count.
        damaged = bytearray(notes)
        damaged[len(notes) * 2 // 3] ^= 4
        self.write("out.jsonl.journal", bytes(damaged))
        self.write("out.jsonl", whole)
        self.ask(self.input, *ANSWER, "-o", output, "--resume", code=1)
        self.assertEqual(same_rows(self.rows("out.jsonl")), expected)
        # Without a journal nothing is known.
        os.remove(journal)
        self.assertIn("journal", self.ask(self.input, *ANSWER, "-o", output, "--resume",
                                          code=2).stderr)
        self.write("out.jsonl.journal", b"something else")
        self.assertIn("journal", self.ask(self.input, *ANSWER, "-o", output, "--resume",
                                          code=2).stderr)

    def test_retry_errors_replaces_rows(self):
        for name in ("out.jsonl", "out.jsonl.gz", "out.csv"):
            output = self.path(name)
            small = tiny_model(200)
            docs = documents(20, 2)
            for i in (3, 9):
                docs[i]["context"] += " x" * 150
            path = self.write("long.jsonl", docs)
            args = [path, *ANSWER, "--instruction", "Answer.", "--too-long", "fail", "-o", output]
            self.ask(*args, model=small, code=1)
            again = self.ask(*args, "--resume", "--retry-errors", "--receipt", self.path(f"{name}.r.json"),
                             model=small, code=1)
            receipt = self.json(f"{name}.r.json")
            self.assertEqual((receipt["rows"], receipt["error_rows"], receipt["rows_this_run"]),
                             (40, 4, 4), again.stderr)
        # The rows that failed are mended in the input: they are other records now.
        output = self.path("out.jsonl")
        self.write("long.jsonl", documents(20, 2))
        self.ask(path, *ANSWER, "--instruction", "Answer.", "--too-long", "fail", "-o", output, "--resume",
                 "--retry-errors", model=small)
        whole = self.answers(path, *ANSWER, "--instruction", "Answer.", model=small)
        self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(whole))

    def test_killed_while_replacing_error_rows(self):
        output = self.path("out.jsonl")
        self.ask(self.input, *ANSWER, "-o", output, code=1)
        command = self.command(self.input, *ANSWER, "-o", output, "--resume", "--retry-errors",
                               "--checkpoint", "0")
        generator = random.Random(3)
        for _ in range(15):
            process = subprocess.Popen(command)
            time.sleep(generator.uniform(0.0, 0.06))
            process.kill()
            process.wait()
        self.ask(self.input, *ANSWER, "-o", output, "--resume", code=1)
        self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(self.uninterrupted()))

    def test_output_to_a_device(self):
        self.ask(self.input, *ANSWER, "-o", "/dev/null", code=1)
        self.assertFalse(os.path.exists("/dev/null.journal"))
        full = self.ask(self.input, *ANSWER, "-o", "/dev/full", code=2)
        self.assertIn("No space left", full.stderr)

    def test_input_may_grow(self):
        docs = documents(8, 1)
        path = self.write("grow.jsonl", docs[2:6])
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"))
        self.write("grow.jsonl", docs)
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"), "--resume",
                 "--receipt", self.path("r.json"))
        self.assertEqual(self.json("r.json")["rows_this_run"], 4)
        self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(self.answers(path, *ANSWER)))

    def test_rows_of_records_that_are_gone_or_changed_are_removed(self):
        docs = documents(6, 1)
        for name in ("out.jsonl", "out.jsonl.gz", "out.csv"):
            for more in ([], ["--ordered"]):
                path = self.write("in.jsonl", docs)
                out = self.path(name)
                self.ask(path, *ANSWER, "-o", out, "--overwrite", *more)
                changed = [docs[4], docs[1], dict(docs[0], context="Another text."), docs[2], docs[5]]
                self.write("in.jsonl", changed)
                said = self.ask(path, *ANSWER, "-o", out, "--resume", "--receipt", self.path(f"{name}.json"), *more).stderr
                self.assertIn("2 rows of an earlier run were removed", said)
                receipt = self.json(f"{name}.json")
                self.assertEqual([receipt[n] for n in ("rows", "rows_this_run", "rows_removed", "records_not_in_input")], [5, 1, 2, 2])
                self.ask(path, *ANSWER, "-o", self.path("new." + name), "--overwrite", "--receipt", self.path("n.json"), *more)
                self.assertEqual(receipt["answers_hash"], self.json("n.json")["answers_hash"])
                if more and not name.endswith(".gz"):
                    self.assertEqual(self.bytes(name), self.bytes("new." + name))
                again = self.ask(path, *ANSWER, "-o", out, "--resume", "--receipt", self.path(f"{name}.json"), *more).stderr
                self.assertNotIn("removed", again.replace("0 rows removed", ""))
                self.assertEqual(self.json(f"{name}.json")["rows_this_run"], 0)

    def test_one_record_that_is_edited_comes_once(self):
        path = self.write("in.jsonl", [dict(documents(1, 1)[0], id=7)])
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"))
        self.write("in.jsonl", [dict(documents(1, 1)[0], id=7, context="Another text.")])
        said = self.ask(path, *ANSWER, "-o", self.path("out.jsonl"), "--resume").stderr
        self.assertIn("1 row of an earlier run was removed", said)
        self.assertEqual(len(self.rows("out.jsonl")), 1)

    def test_with_a_limit_nothing_is_removed(self):
        docs = documents(6, 1)
        path = self.write("in.jsonl", docs)
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"))
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"), "--resume", "--limit", 2)
        self.assertEqual(len(self.rows("out.jsonl")), 6)

    def test_equal_lines_without_ids_are_as_many_records(self):
        line = {"context": "Text.", "question": "why?"}
        path = self.write("in.jsonl", [line])
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"))
        self.write("in.jsonl", [line] * 3)
        self.ask(path, *ANSWER, "-o", self.path("out.jsonl"), "--resume")
        self.assertEqual([row["id"] for row in self.rows("out.jsonl")], [1, 2, 3])

    def test_full_disk(self):
        """A file size limit stands for a disk without room; a small tmpfs where one can be made."""
        expected = same_rows(self.uninterrupted())
        output = self.path("out.jsonl")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

        failed = self.ask(self.input, *ANSWER, "-o", output, "--checkpoint", "0", code=2,
                          preexec_fn=limit)
        self.assertIn("--resume", failed.stderr)
        self.assertIn("out.jsonl", failed.stderr)
        self.ask(self.input, *ANSWER, "-o", output, "--resume", code=1)
        self.assertEqual(same_rows(self.rows("out.jsonl")), expected)

        disk = self.path("disk")
        os.mkdir(disk)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk],
                              capture_output=True)
        if made.returncode != 0:
            print("full disk: no tmpfs can be mounted here, the file size limit alone was tested")
            return
        try:
            failed = self.ask(self.input, *ANSWER, "-o", f"{disk}/out.jsonl", "--checkpoint", "0",
                              code=2)
            self.assertIn("No space left", failed.stderr)
            for name in os.listdir(disk):
                shutil.copy(f"{disk}/{name}", self.path("copy-" + name))
        finally:
            subprocess.run(["umount", disk], check=True)
        self.ask(self.input, *ANSWER, "-o", self.path("copy-out.jsonl"), "--resume", code=1)
        self.assertEqual(same_rows(self.rows("copy-out.jsonl")), expected)

    def test_unwritable_output(self):
        for output in (self.path("no/such/folder/out.jsonl"), self.path(""), self.input):
            refused = self.ask(self.input, *ANSWER, "-o", output, code=2)
            self.assertIn(output.rstrip("/"), refused.stderr)
        self.ask(self.input, *ANSWER, "-o", self.path("out.jsonl"), "--receipt",
                 self.path("no/such/receipt.json"), code=2)

    def test_two_jobs_on_one_output(self):
        output = self.path("out.jsonl")
        first = subprocess.Popen(self.command("-", *ANSWER, "-o", output), stdin=subprocess.PIPE)
        while not os.path.exists(output + ".journal"):
            time.sleep(0.01)
        refused = self.ask(self.input, *ANSWER, "-o", output, code=2)
        self.assertIn("another job", refused.stderr)
        first.communicate(self.bytes("in.jsonl"), timeout=60)
        rows = json.dumps(self.rows("out.jsonl")).replace("standard input", self.input)
        self.assertEqual(same_rows(json.loads(rows)), same_rows(self.uninterrupted()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
