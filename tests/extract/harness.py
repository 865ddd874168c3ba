"""Runs `banyan extract` on a tiny random model. Every test has a folder of its own.

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

BANYAN = os.environ["BANYAN"]
_SHARED = pathlib.Path(tempfile.mkdtemp(prefix="banyan-extract-"))
atexit.register(shutil.rmtree, _SHARED, True)

SCHEMA = {"attributes": [{"name": "brand"}, {"name": "weight", "type": "number", "unit": "kg"},
                         {"name": "colour", "type": "enum", "values": ["black", "white", "deep red"]},
                         {"name": "new", "type": "boolean", "nullable": False},
                         {"name": "ports", "type": "list", "of": "text", "max_items": 3, "max_tokens": 24}]}


def tiny_model(context: int = 2048) -> str:
    path = _SHARED / f"tiny-{context}.gguf"
    if not path.exists():
        subprocess.run([os.environ["MAKE_TINY_MODEL"], path, str(context), "2", "0"], check=True)
    return str(path)


def documents(count: int, start: int = 0) -> list:
    words = ["Sony", "black", "2.5 kg", "new", "HDMI", "made in Spain", "größer", "12 ports", "\"quoted\"", "日本"]
    return [{"id": f"d{i}", "text": " ".join(words[(i * 7 + k * k) % 10] for k in range(3 + i % 6)) + f" no. {i}"}
            for i in range(start, start + count)]


class ExtractTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=_SHARED))
        self.model = tiny_model()
        self.count = 0

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, content) -> str:
        """A list as JSONL, another value as JSON, text as it is."""
        text = content if isinstance(content, str) else json.dumps(content)
        if isinstance(content, list):
            text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in content)
        pathlib.Path(self.path(name)).write_text(text, encoding="utf-8")
        return self.path(name)

    def run_banyan(self, *arguments, code=0):
        result = subprocess.run([BANYAN, *map(str, arguments)], capture_output=True, timeout=300)
        result.stderr = result.stderr.decode(errors="replace")
        if code is None:  # some rows may have failed
            self.assertIn(result.returncode, (0, 1), result.stderr)
        else:
            self.assertEqual(result.returncode, code, result.stderr)
        return result

    def extract(self, docs, schema, *arguments, code=0, **more):
        """Rows of a fresh output, in the input's order."""
        self.count += 1
        inputs = docs if isinstance(docs, str) else self.write(f"in{self.count}.jsonl", docs)
        schemas = schema if isinstance(schema, str) else self.write(f"schema{self.count}.json", schema)
        output = self.path(f"out{self.count}.jsonl")
        self.run_banyan("extract", "-m", more.get("model", self.model), inputs, "--schema", schemas, "-o", output,
                        "--quiet", "--ordered", "--threads", "1", *arguments, code=code)
        return self.rows(output)

    @staticmethod
    def rows(path: str) -> list:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
