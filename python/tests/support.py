"""The package beside the command line: both on a tiny random model.

REQUIRES: BANYAN and MAKE_TINY_MODEL in the environment, the paths of the two programs.
"""
import atexit
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import banyan

BANYAN = os.environ["BANYAN"]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_SHARED = pathlib.Path(tempfile.mkdtemp(prefix="banyan-python-"))
atexit.register(shutil.rmtree, _SHARED, True)


def tiny_model(context: int = 1024) -> str:
    path = _SHARED / f"tiny-{context}.gguf"
    if not path.exists():
        subprocess.run([os.environ["MAKE_TINY_MODEL"], path, str(context)], check=True)
    return str(path)


def documents(count: int, questions: int = 2):
    return [{"id": f"d{i}", "context": f"Document {i} is about thing {i * 7919 % 1000}.", "extra": i,
             "questions": [{"id": f"q{k}", "question": f"What is it about ({k})?"} for k in range(questions)]}
            for i in range(count)]


class PackageTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.model_path = tiny_model()
        cls.model = banyan.Model(cls.model_path, threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=_SHARED))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, rows) -> str:
        with open(self.path(name), "w", encoding="utf-8") as file:
            for row in rows:
                file.write((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n")
        return self.path(name)

    def command(self, *arguments, code=0) -> bytes:
        """What the program writes to standard output."""
        result = subprocess.run([BANYAN, *map(str, arguments)], capture_output=True, timeout=300)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout

    def command_lines(self, task, *arguments, code=0):
        return self.command(task, "-m", self.model_path, "--threads", 1, "--ordered", "--quiet", *arguments,
                            code=code).splitlines()
