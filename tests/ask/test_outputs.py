"""No file is replaced unasked: the output, and everything that is written beside it, of every command."""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import unittest

from harness import BANYAN, AskTest, documents, same_rows

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rag"))
import tiny_encoder  # noqa: E402

ANSWER = ["--max-new", "4"]


class FinishedOutputs(AskTest):
    def setUp(self):
        super().setUp()
        self.first = self.write("a.txt", "The ferry leaves at seven.")
        self.other = self.write("b.txt", "The yacht is blue.")
        self.out = self.path("x.csv")
        self.ask(self.first, *ANSWER, "-q", "When?", "-o", self.out)
        self.before = self.bytes("x.csv"), self.bytes("x.csv.journal")

    def refused(self, *arguments):
        said = self.ask(*arguments, "-o", self.out, code=2).stderr
        self.assertIn("--overwrite", said)
        self.assertIn("another output", said)
        self.assertIn("1 row of a finished job", said)
        self.assertEqual((self.bytes("x.csv"), self.bytes("x.csv.journal")), self.before)
        return said

    def test_another_job_is_refused(self):
        said = self.refused(self.other, *ANSWER, "-q", "Which colour?")
        self.assertIn("Which colour?", said)
        self.assertIn("When?", said)
        self.assertIn("b.txt", self.refused(self.other, *ANSWER, "-q", "When?"))
        self.assertIn("--max-new", self.refused(self.first, "-q", "When?", "--max-new", "5"))
        self.ask(self.other, *ANSWER, "-q", "Which colour?", "-o", self.out, "--overwrite")
        self.assertNotEqual(self.bytes("x.csv"), self.before[0])

    def test_more_input_is_refused_and_can_be_added(self):
        self.assertIn("--resume", self.refused(self.first, self.other, *ANSWER, "-q", "When?"))

    def test_less_input_is_refused(self):
        rows, out = self.write("in.jsonl", documents(5)), self.path("out.jsonl")
        self.ask(rows, *ANSWER, "-o", out)
        before = self.bytes("out.jsonl")
        said = self.ask(rows, *ANSWER, "-o", out, "--limit", "1", code=2).stderr
        self.assertIn("4 records of it are not in this input (--limit 1)", said)
        self.assertEqual(self.bytes("out.jsonl"), before)

    def test_the_same_job_is_recognised(self):
        for _ in range(2):
            said = self.ask(self.first, *ANSWER, "-q", "When?", "-o", self.out).stderr
            self.assertIn("this job is finished: 1 row there, 0 to do", said)
            self.assertEqual((self.bytes("x.csv"), self.bytes("x.csv.journal")), self.before)
        self.assertEqual(self.ask(self.first, *ANSWER, "-q", "When?", "-o", self.out, "--quiet").stderr, "")

    def test_the_same_job_from_a_pipe(self):
        text, out = b"".join(json.dumps(d).encode() + b"\n" for d in documents(4)), self.path("p.jsonl.gz")
        self.ask("-", *ANSWER, "-o", out, stdin=text)
        before = self.bytes("p.jsonl.gz")
        self.assertIn("is finished", self.ask("-", *ANSWER, "-o", out, stdin=text).stderr)
        self.ask("-", *ANSWER, "-o", out, stdin=text.replace(b"thing", b"place"), code=2)
        self.ask("-", *ANSWER, "-o", out, stdin=text[:text.index(b"\n") + 1], code=2)
        self.assertEqual(self.bytes("p.jsonl.gz"), before)

    def test_error_rows_are_still_told_by_the_exit_code(self):
        rows, out = self.write("in.jsonl", documents(3) + [b"not JSON\n"]), self.path("out.jsonl")
        self.ask(rows, *ANSWER, "-o", out, code=1)
        said = self.ask(rows, *ANSWER, "-o", out, code=1).stderr
        self.assertIn("is finished: 7 rows there, 0 to do; 1 error among them", said)

    def test_the_receipt_of_a_finished_job_stays(self):
        rows, out, receipt = self.write("in.jsonl", documents(3)), self.path("out.jsonl"), self.path("r.json")
        self.ask(rows, *ANSWER, "-o", out, "--receipt", receipt)
        before = self.bytes("r.json")
        self.ask(rows, *ANSWER, "-o", out, "--receipt", receipt)
        self.assertEqual(self.bytes("r.json"), before)
        self.ask(rows, *ANSWER, "-o", out, "--receipt", self.path("new.json"))
        self.assertEqual((self.json("new.json")["rows"], self.json("new.json")["rows_this_run"]), (6, 0))

    def test_an_output_that_lost_its_end_is_not_finished(self):
        self.write("x.csv", self.before[0][:-5])
        self.assertIn("--resume", self.ask(self.first, *ANSWER, "-q", "When?", "-o", self.out, code=2).stderr)


class Receipts(AskTest):
    def test_only_a_job_that_goes_on_writes_its_receipt_anew(self):
        rows, receipt = self.write("in.jsonl", documents(3)), self.path("r.json")
        self.ask(rows, *ANSWER, "--receipt", receipt)
        before = self.bytes("r.json")
        for more in ([], ["-o", self.path("other.jsonl")], ["-o", self.path("other.jsonl"), "--resume"]):
            said = self.ask(rows, *ANSWER, "--receipt", receipt, *more, code=2).stderr
            self.assertIn("r.json: is there already", said)
            self.assertIn("--receipt another name", said)
            self.assertIn("--overwrite", said)
            self.assertEqual(self.bytes("r.json"), before)
            self.assertFalse(os.path.exists(self.path("other.jsonl")))
        out = self.path("out.jsonl")
        self.ask(rows, *ANSWER, "-o", out, "--receipt", receipt, "--overwrite")
        self.write("in.jsonl", documents(4))
        self.ask(rows, *ANSWER, "-o", out, "--resume", "--receipt", receipt)
        self.assertEqual(self.json("r.json")["rows"], 8)
        self.write("r.json", "mine")
        self.ask(rows, *ANSWER, "-o", out, "--resume", "--receipt", receipt, code=2)
        self.assertEqual(self.bytes("r.json"), b"mine")


class OtherCommands(AskTest):
    def run_banyan(self, *arguments, code=0, **more):
        result = subprocess.run([BANYAN, *map(str, arguments)], capture_output=True, text=True, timeout=300, **more)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def guarded(self, option, path, *command, **more):
        """The command refuses to replace the file, and does so with --overwrite."""
        pathlib.Path(path).write_text("mine")
        said = self.run_banyan(*command, option, path, code=2, **more).stderr
        self.assertIn(f"{path}: is there already (4 bytes of ", said)
        self.assertIn("--overwrite", said)
        self.assertIn("another name", said)
        self.assertEqual(pathlib.Path(path).read_text(), "mine")
        self.run_banyan(*command, option, path, "--overwrite", **more)
        self.assertNotIn(b"mine", pathlib.Path(path).read_bytes())
        self.assertEqual([p for p in os.listdir(self.folder) if p.endswith(".part")], [])

    def test_the_report_of_extract(self):
        docs = self.write("docs.jsonl", [{"id": 1, "text": "Sony, 2 kg"}])
        schema = self.write("schema.json", '{"attributes":[{"name":"brand"}]}')
        command = ["extract", "-m", self.model, docs, "--schema", schema, "-o", self.path("v.jsonl"), "--threads", "1"]
        self.guarded("--report", self.path("page.html"), *command)
        page = self.bytes("page.html")
        self.run_banyan(*command, "--report", self.path("page.html"))  # finished before: nothing is touched
        self.assertEqual(self.bytes("page.html"), page)
        self.write("docs.jsonl", [{"id": 1, "text": "Sony, 2 kg"}, {"id": 2, "text": "Bosch"}])
        self.run_banyan(*command, "--report", self.path("page.html"), "--resume")
        self.assertIn(b"Bosch", self.bytes("page.html"))

    def test_a_proposed_schema(self):
        docs = self.write("docs.jsonl", [{"text": f"Brand: Sony{i}\nWeight: {i} kg"} for i in range(4)])
        pathlib.Path(self.path("s.json")).write_text("mine")
        said = self.run_banyan("extract", "schema", docs, "-o", self.path("s.json"), code=2).stderr
        self.assertIn("s.json: is there already", said)

    def test_the_trace_of_rag(self):
        rows = self.write("q.jsonl", [{"id": 1, "question": "When?", "documents": [{"id": "d", "text": "At 7."}]}])
        command = ["rag", "-m", self.model, rows, "-o", self.path("o.jsonl"), "--max-new", "2", "--threads", "1"]
        self.guarded("--trace", self.path("t.html"), *command)

    def test_vectors(self):
        encoder = tiny_encoder.write(pathlib.Path(self.path("encoder")), [["ferry", "boat"], ["blue"]])
        rows = self.write("t.jsonl", [{"id": 1, "text": "ferry"}])
        for name in ("v.npy", "v.jsonl"):
            self.guarded("-o", self.path(name), "embed", "-m", encoder, rows)

    def test_exported_kv(self):
        store, doc = self.path("store"), self.write("a.txt", "The ferry leaves at seven.")
        self.run_banyan("kv", "add", store, doc, "-m", self.model, "--threads", "1")
        segment = json.loads(self.run_banyan("kv", "ls", store, "--json").stdout.splitlines()[0])["id"]
        self.guarded("-o", self.path("kv.safetensors"), "kv", "export", store, segment)

    def test_merged_receipts(self):
        rows = self.write("in.jsonl", documents(4))
        for i in (1, 2):
            self.ask(rows, *ANSWER, "--shard", f"{i}/2", "-o", self.path(f"{i}.jsonl"))
        merge = ["merge", self.path("1.jsonl"), self.path("2.jsonl"), "-o", self.path("all.jsonl")]
        self.guarded("--receipt", self.path("r.json"), *merge)
        self.assertIn("is there already", self.run_banyan(*merge, code=2).stderr)

    def test_pictures_of_eval(self):
        gold = self.write("gold.jsonl", [{"id": "d0", "questions": [{"id": "q0", "answers": ["x"]}]}])
        out = self.write("out.jsonl", [{"id": "d0", "question_id": "q0", "answer": "x", "confidence": 0.9}])
        self.guarded("--reliability", self.path("r.svg"), "eval", "ask", gold, out)


class StoppedJobs(AskTest):
    def test_the_receipt_counts_what_was_written(self):
        rows, out, receipt = self.write("in.jsonl", documents(400, 2)), self.path("out.jsonl"), self.path("r.json")
        process = subprocess.Popen(self.command(rows, "--max-new", "40", "-o", out, "--receipt", receipt,
                                                "--checkpoint", "0"), stderr=subprocess.PIPE)
        while not os.path.exists(out) or os.path.getsize(out) == 0:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        written, told = self.rows("out.jsonl"), self.json("r.json")
        self.assertTrue(0 < len(written) < 800, len(written))
        self.assertEqual(told["rows_this_run"], len(written))
        self.assertEqual(told["prompt_tokens"], sum(row["prompt_tokens"] for row in written))
        self.assertEqual(told["generated_tokens"], sum(row["tokens"] for row in written))
        self.assertGreater(told["unwritten_tokens"], 0)
        self.assertGreaterEqual(told["memory_bytes_peak"], told["kv_bytes_peak"])
        self.ask(rows, "--max-new", "40", "-o", out, "--resume", "--quiet")
        self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(self.answers(rows, "--max-new", "40")))

    def test_a_pipe_that_nobody_opens(self):
        """A job that waits for the other end of a named pipe hears a signal, and meets who comes later."""
        rows = self.write("in.jsonl", documents(1, 1))
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        reads, writes = (pipe, "-q", "Who?", "-o", self.path("out.jsonl")), (rows, "-o", pipe)
        for words in (reads, writes):
            process = subprocess.Popen(self.command(*words, *ANSWER, "--quiet"), stderr=subprocess.PIPE)
            self.assertFalse(select.select([process.stderr], [], [], 2)[0])  # it waits, and says nothing
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 143, said)
        process = subprocess.Popen(self.command(*writes, *ANSWER, "--quiet"))
        time.sleep(1)
        with open(pipe, encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 1)
        self.assertEqual(process.wait(60), 0)
        process = subprocess.Popen(self.command(*reads, *ANSWER, "--quiet", "--overwrite"))
        time.sleep(1)
        with open(pipe, "w", encoding="utf-8") as file:
            file.write("The ferry leaves at seven.")
            file.flush()
            time.sleep(0.2)
            file.write(" Anna steers it.")
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(len(self.rows("out.jsonl")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
