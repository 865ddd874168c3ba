"""Runs `banyan rag` on the model that ships with the repository.

REQUIRES: BANYAN in the environment, the path of the program; test_answers.py, test_copy.py: MAKE_TINY_MODEL, too.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import file_permissions  # noqa: E402,F401 (tests take it from here)

BANYAN = os.environ["BANYAN"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "models" / "banyan-reader-34m.gguf")
SAMPLES = ROOT / "eval" / "samples"
READS_HTML = os.environ.get("BANYAN_READS_HTML", "1") == "1"  # built with libxml2


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def timeless(row):
    """A row without what is measured."""
    return {name: value for name, value in row.items() if name not in ("first_token_seconds", "seconds")}


class RagTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-rag-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.count = 0

    def path(self, name):
        return str(self.folder / name)

    def write(self, name, rows):
        """Rows as JSONL; strings as they are."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_banyan(self, *arguments, code=0, stdin=None, **more):
        result = subprocess.run([BANYAN, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                                timeout=800, cwd=self.folder, **more)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def rag(self, *arguments, code=0, model=MODEL):
        """Runs to a fresh output and returns its rows."""
        self.count += 1
        output = self.path(f"out{self.count}.jsonl")
        self.run_banyan("rag", "-m", model, "--quiet", "--ordered", "-o", output, *arguments, code=code)
        return read_rows(output)
