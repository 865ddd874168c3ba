"""Runs the banyan program on a tiny random model. Every test has a folder of its own.

REQUIRES: BANYAN and MAKE_TINY_MODEL in the environment, the paths of the two programs.
"""
import atexit
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
_SHARED = pathlib.Path(tempfile.mkdtemp(prefix="banyan-ask-"))
atexit.register(shutil.rmtree, _SHARED, True)


def tiny_model(context: int = 1024, layers: int = 2, padding: int = 0) -> str:
    path = _SHARED / f"tiny-{context}-{layers}-{padding}.gguf"
    if not path.exists():
        subprocess.run([os.environ["MAKE_TINY_MODEL"], path, str(context), str(layers), str(padding)], check=True)
    return str(path)


class AskTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=_SHARED))
        self.model = tiny_model()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, rows) -> str:
        """Rows as JSONL; bytes and strings as they are."""
        with open(self.path(name), "wb") as file:
            if isinstance(rows, bytes):
                file.write(rows)
            elif isinstance(rows, str):
                file.write(rows.encode())
            else:
                for row in rows:
                    file.write(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n")
        return self.path(name)

    def command(self, *arguments, model=None):
        return [BANYAN, "ask", "-m", model or self.model, "--threads", "1", *map(str, arguments)]

    def ask(self, *arguments, code=0, model=None, stdin=None, **more):
        """Runs `banyan ask`; the exit code must be `code`."""
        result = subprocess.run(self.command(*arguments, model=model), input=stdin,
                                capture_output=True, timeout=300, **more)
        self.assertEqual(result.returncode, code, result.stderr.decode(errors="replace"))
        result.stderr = result.stderr.decode(errors="replace")
        return result

    def rows(self, name: str):
        with open(self.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def bytes(self, name: str) -> bytes:
        return pathlib.Path(self.path(name)).read_bytes()

    def json(self, name: str):
        return json.loads(self.bytes(name))

    def answers(self, *arguments, code=0, **more):
        """Runs to a fresh output and returns its rows."""
        self.count = getattr(self, "count", 0) + 1
        name = f"answers{self.count}.jsonl"
        self.ask(*arguments, "-o", self.path(name), "--quiet", code=code, **more)
        return self.rows(name)


def documents(count: int, questions: int = 2, prefix: str = "d"):
    return [{"id": f"{prefix}{i}", "context": f"Document {i} is about thing {i * 7919 % 1000}.",
             "questions": [{"id": f"q{k}", "question": f"What is it about ({k})?"}
                           for k in range(questions)]} for i in range(count)]


def key(row):
    return json.dumps(row, sort_keys=True)


def same_rows(rows):
    """Rows in an order of their own, to compare outputs whose order may differ."""
    return sorted(map(key, rows))
