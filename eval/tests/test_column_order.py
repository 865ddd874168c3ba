"""eval.column_order on a small table, with a stand-in for vLLM (skipped where BANYAN does not name the program)."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
# It answers everything by "red", and finds the half of a prompt in its cache unless that has a salt.
VLLM = '''
from types import SimpleNamespace as Some
class SamplingParams:
    def __init__(self, **how): assert how["max_tokens"] == 24
class LLM:
    def __init__(self, model, **options): assert options["swap"] == 0 and options["dtype"] == "bfloat16"
    def reset_prefix_cache(self): pass
    def generate(self, asked, sampling, use_tqdm):
        for one in asked: assert "Question: What is the colour?" in one["prompt"], one
        return [Some(prompt_token_ids=[0] * 10, num_cached_tokens=0 if "cache_salt" in one else 5,
                     outputs=[Some(text=" red", token_ids=[7, 8])]) for one in asked]
'''


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN does not name the program")
class ColumnOrder(unittest.TestCase):
    def test_tokens_and_rates_of_both_programs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "vllm.py").write_text(VLLM)
            texts = [{"id": f"t{i}", "category": "Cup", "attributes": ["Colour"], "text": f"A red cup, number {i}.",
                      "values": {"Colour": ["red"]}} for i in range(3)]  # fmt: skip
            (folder / "cups.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
            command = [sys.executable, "-m", "eval.column_order", os.environ["BANYAN"], str(folder / "cups.jsonl"),
                       "--repeat", "1", "--vllm", "MODEL", "--dtype", "bfloat16", "--llm", '{"swap": 0}',
                       "--turn", str(folder / "turn"), "--no-plan"]  # fmt: skip
            done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": name}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("tokens of the cells", done.stdout)
        self.assertRegex(done.stdout, r"cups.jsonl: 3 rows, 3 texts, 4 columns")
        ours = re.search(r"auto +F1 .* (\d+) tokens, +(\d+) computed, +(\d+) written .* rows per second of a core", done.stdout)
        self.assertGreater(int(ours[1]), int(ours[2]))
        self.assertRegex(done.stdout, r"vLLM +F1 100.0 .* 30 tokens, +15 computed, +6 written")
        self.assertRegex(done.stdout, r"vLLM, no cache +F1 100.0 .* 30 tokens, +30 computed, +6 written")
        self.assertRegex(done.stdout, r"auto / vLLM: .* by the clock")


if __name__ == "__main__":
    unittest.main()
