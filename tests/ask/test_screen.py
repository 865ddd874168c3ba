"""What a person sees: lines that fit the terminal, silence where it was asked for, and messages that help."""
import fcntl
import json
import os
import pathlib
import re
import struct
import subprocess
import termios
import unittest

from harness import BANYAN, AskTest, documents
from terminal import Terminal

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSWER = ["--max-new", "4"]


def wide(columns, command):
    """The command on a terminal of so many columns; what it wrote."""
    screen = Terminal(["sh", "-c", 'read ready; exec "$@"', "sh", *command])
    fcntl.ioctl(screen.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    screen.type("\n")
    screen.finish()
    return screen


class Lines(AskTest):
    def test_the_progress_line_fits(self):
        rows = self.write("in.jsonl", documents(400, 3))
        for columns in (20, 40, 80, 110, 200):
            screen = wide(columns, self.command(rows, "--max-new", "24", "-o", self.path(f"{columns}.jsonl")))
            self.assertEqual(screen.code, 0)
            drawn = re.findall("\r([^\r\n]*)\x1b\\[K", screen.seen.decode())
            self.assertGreater(len(drawn), 1)
            for line in drawn:
                self.assertLess(len(line), columns, line)
                if columns >= 40:
                    self.assertRegex(line, r"rows?\b")
            if columns == 200:
                self.assertIn("saved by sharing", drawn[-1])

    def test_quiet_is_quiet(self):
        rows = self.write("in.jsonl", documents(2))
        result = self.ask(rows, *ANSWER, "--dry-run", "--quiet")
        self.assertEqual(result.stderr, "")
        self.assertEqual(json.loads(result.stdout)["rows"], 4)
        self.assertEqual(self.ask(rows, *ANSWER, "--quiet").stderr, "")

    def test_one_row(self):
        rows = self.write("in.jsonl", documents(1, 1))
        said = self.ask(rows, *ANSWER, "-o", self.path("o.jsonl")).stderr
        self.assertIn("1 row ", said)
        self.assertNotRegex(said, r"(?<![\d.])1 (rows|errors|records|tokens|documents)\b(?!/s)")  # a rate may be 1 rows/s
        self.assertNotIn("(1 errors)", self.ask(self.write("bad.jsonl", "x\n"), *ANSWER, code=1).stderr)

    def test_questions_may_come_first(self):
        text = self.write("a.txt", "The ferry leaves at seven.")
        rows = [json.loads(line) for line in self.ask("When does it leave?", text, *ANSWER, "--quiet").stdout.splitlines()]
        self.assertEqual([row["question"] for row in rows], ["When does it leave?"])
        self.assertIn("no such input file", self.ask("What is this?", *ANSWER, code=2).stderr)


class Names(AskTest):
    def run_banyan(self, *arguments, code=0):
        result = subprocess.run([BANYAN, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_models(self):
        text = self.write("a.txt", "The ferry leaves at seven.")
        said = self.run_banyan("ask", "-m", "banyan-raeder-34m", text, "When?", code=2).stderr
        self.assertIn("did you mean 'banyan-reader-34m'?", said)
        said = self.run_banyan("ask", "-m", "qqqqqqqqqqqq", text, "When?", code=2).stderr
        self.assertIn("'banyan model list'", said)

    def test_an_adapter_says_whose_it_is(self):
        text = self.write("a.txt", "The ferry leaves at seven.")
        adapter = ROOT / "models" / "smollm2-reader"
        said = self.run_banyan("ask", "-m", self.model, "--adapter", adapter, text, "When?", code=2).stderr
        self.assertIn("this adapter is for HuggingFaceTB/SmolLM2-135M-Instruct", said)
        self.assertIn("-m smollm2-135m-instruct", said)

    def test_a_store_that_is_too_small(self):
        text = self.write("a.txt", "The ferry leaves at seven. " * 30)
        said = subprocess.run([BANYAN, "kv", "add", self.path("store"), text, "-m", self.model, "--limit", "1K"],
                              capture_output=True, text=True, timeout=120).stderr
        self.assertRegex(said, r"the store is full: a segment of \d+\.\d KiB is more than all that it may hold, 1.0 KiB")

    def test_what_completion_expects(self):
        self.assertIn("expected 'shell': The shell: bash, zsh or fish", self.run_banyan("completion", code=2).stderr)

    def test_help_is_short_and_can_be_long(self):
        for command, option in (("ask", "--choice-score"), ("extract", "--gap"), ("rag", "--ape-scale")):
            text = self.run_banyan(command, "--help").stdout
            self.assertLessEqual(len(re.findall(r"^  -", text.split(" more options: ")[0], re.M)), 20)
            self.assertNotIn(option, text)
            self.assertIn(f"banyan {command} --help-all", text)
            everything = self.run_banyan(command, "--help-all").stdout
            self.assertIn(option, everything)
            self.assertGreater(len(re.findall(r"^  -", everything, re.M)), 40)

    def test_no_help_is_longer_than_people_read(self):
        for command in ("serve", "ids", "embed", "merge", "extract schema", "rag index", "rag search", "kv add", "eval ask",
                        "eval extract", "eval rag", "model get", "model better"):
            text = self.run_banyan(*command.split(), "--help").stdout
            self.assertLessEqual(len(re.findall(r"^  -", text.split(" more options: ")[0], re.M)), 20, command)
            everything = self.run_banyan(*command.split(), "--help-all").stdout
            hidden = re.search(r"^(\d+) more options: banyan (.*) --help-all$", text, re.M)
            if hidden:
                self.assertEqual(hidden[2], command)
                self.assertGreater(len(re.findall(r"^  +-", everything, re.M)), 20, command)

    def test_alone_it_says_how_to_begin(self):
        alone = self.run_banyan(code=2).stderr
        begin = alone[alone.index("To begin:"):alone.index("Commands:")]
        self.assertEqual(len(re.findall(r"^  banyan ", begin, re.M)), 5)


class Prompt(AskTest):
    def test_rows_are_saved_and_confidence_is_shown(self):
        text = self.write("report.txt", "The ferry Marigold leaves at 7:45. Anna Walker steers the ferry Marigold.")
        environment = {k: v for k, v in os.environ.items() if k != "BANYAN_MODEL"}
        environment.update(XDG_STATE_HOME=self.path("state"), BANYAN_CACHE=self.path("cache"), BANYAN_OFFER="no")
        question = "When does the ferry Marigold leave?"
        for again in (False, True):
            screen = Terminal([BANYAN, "ask", text], env=environment)
            at = screen.wait_for_prompt()
            self.assertEqual("Asked before:\n  " + question in screen.text(), again)
            screen.type("/save nothing.jsonl\n")
            at = screen.wait_for("nothing was asked yet", after=at)
            screen.type(question + "\n")
            at = screen.wait_for("  7:45", after=at)
            at = screen.wait_for("% sure)", after=at)
            if again:
                screen.type(f"/save {self.path('saved.csv')}\n")
                at = screen.wait_for("is there already", after=at)
                screen.type(f"/save! {self.path('saved.csv')}\n")
            else:
                screen.type(f"/save {self.path('saved.csv')}\n")
            at = screen.wait_for("1 row written to", after=at)
            screen.type("/quit\n")
            self.assertEqual(screen.finish(), 0)
        self.assertIn("7:45", self.bytes("saved.csv").decode().splitlines()[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
