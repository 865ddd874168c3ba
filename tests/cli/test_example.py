#!/usr/bin/env python3
"""examples/ask_many answers questions about a text. Usage: test_example.py PROGRAM MODEL"""
import subprocess
import sys
import tempfile

PROGRAM, MODEL = sys.argv[1:3]
TEXT = ("The ferry Marigold leaves at 7:45 every morning. It is painted yellow. Anna Walker steers the ferry "
        "Marigold. The chest Orlando opens with the code KT-4821. The museum Tamberley opened in 1887.")
EXPECTED = {"Who steers the ferry Marigold?": "Anna Walker", "Which code opens the chest Orlando?": "KT-4821"}

with tempfile.NamedTemporaryFile("w", suffix=".txt") as questions:
    questions.write("".join(question + "\n" for question in EXPECTED))
    questions.flush()
    done = subprocess.run([PROGRAM, MODEL, questions.name], input=TEXT, capture_output=True, text=True, timeout=60)
found = dict(line.split("\t") for line in done.stdout.splitlines())
print(found, done.stderr.strip())
refused = subprocess.run([PROGRAM, "no-such-model", "x"], input="", capture_output=True, text=True, timeout=60)
sys.exit(0 if found == EXPECTED and refused.returncode == 2 and "no-such-model" in refused.stderr else 1)
