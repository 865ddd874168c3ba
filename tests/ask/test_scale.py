"""A hundred thousand documents: memory stays flat, from a file and from a pipe."""
import os
import signal
import subprocess
import sys
import time
import unittest

from harness import AskTest, tiny_model

DOCUMENTS = int(os.environ.get("BANYAN_SCALE_DOCUMENTS", "100000"))


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


class Scale(AskTest):
    def test_flat_memory(self):
        output = self.path("out.jsonl")
        # Little text and few tokens a document: what is measured is the runner.
        process = subprocess.Popen(
            self.command("-", "--chat", "off", "--template", "{context}{question}", "--max-new",
                         "1", "--kv-memory", "4M", "--questions", self.write("q.txt", "?\n"),
                         "-o", output, "--quiet", model=tiny_model(64, 1)),
            stdin=subprocess.PIPE)
        sizes = []
        for i in range(DOCUMENTS):
            process.stdin.write(b'{"id":%d,"context":"d%d"}\n' % (i, i))
            if i % (DOCUMENTS // 20) == DOCUMENTS // 20 - 1:
                process.stdin.flush()
                sizes.append(resident(process.pid))
        process.stdin.close()
        self.assertEqual(process.wait(timeout=280), 0)
        with open(output, "rb") as file:
            ids = {line.split(b",", 1)[0] for line in file}
        self.assertEqual(len(ids), DOCUMENTS)
        # From a tenth of the way on, only hashes of records may add up: 16 bytes each in a set that
        # doubles.
        growth = max(sizes[2:]) - sizes[1]
        allowed = 64 * DOCUMENTS + (4 << 20)
        self.assertLess(growth, allowed, [s >> 20 for s in sizes])
        print("resident MiB along the way:", [s >> 20 for s in sizes], file=sys.stderr)

    def cost(self, *arguments, code=0):
        """Processor seconds and bytes of memory at most."""
        process = subprocess.Popen(self.command(*arguments, "--quiet", "--kv-memory", "16M"))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, code)
        return usage.ru_utime, usage.ru_maxrss * 1024

    def test_a_long_line_takes_four_times_its_size_at_most(self):
        small = {"id": "small", "context": "Text.", "questions": ["What?"]}
        long = dict(small, id="long", context="The quick brown fox jumps over the lazy dog. " * 800_000)
        path = self.write("in.jsonl", [small])
        _, base = self.cost(path, "--max-new", "2", "-o", self.path("small.jsonl"))
        self.write("in.jsonl", [long, small])
        for mode, code in (("fail", 1), ("truncate", 0)):
            output = self.path(f"{mode}.jsonl")
            _, most = self.cost(path, "--max-new", "2", "--too-long", mode, "-o", output, code=code)
            self.assertLess(most - base, 4 * len(long["context"]))
            self.assertEqual(len(self.rows(f"{mode}.jsonl")), 2)

    def test_the_cost_of_choices_grows_with_their_number(self):
        seconds = []
        for count in (1000, 8000):
            choices = [f"option {i}" for i in range(count)]
            path = self.write("in.jsonl", [{"id": 1, "context": "Text. " * 20, "questions": [
                {"id": 1, "question": "Which?", "choices": choices}]}])
            used, _ = self.cost(path, "-o", self.path(f"{count}.jsonl"))
            seconds.append(used)
            self.assertEqual(len(self.rows(f"{count}.jsonl")[0]["scores"]["sum"]), count)
        self.assertLess(seconds[1], 2 * 8 * seconds[0])  # eight times as many

    def test_answers_come_while_the_pipe_is_open(self):
        output = self.path("out.jsonl")
        process = subprocess.Popen(self.command("-", "--max-new", "2", "-o", output, "--quiet"),
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(1, 4):
            process.stdin.write(b'{"id":%d,"context":"c","questions":["x","y"]}\n' % number)
            process.stdin.flush()
            deadline = time.time() + 120
            while not os.path.exists(output) or self.bytes("out.jsonl").count(b"\n") < 2 * number:
                self.assertLess(time.time(), deadline, "no answer while the pipe is open")
                time.sleep(0.01)
        # Half a row holds nothing up either.
        process.stdin.write(b'{"id":4,')
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=120), 130)
        self.assertIn("--resume", process.communicate()[1].decode())
        self.assertEqual(len(self.rows("out.jsonl")), 6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
