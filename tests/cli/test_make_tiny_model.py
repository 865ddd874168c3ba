#!/usr/bin/env python3
"""make_tiny_model: says how it is called, and writes no file named like an option.

Usage: test_make_tiny_model.py MAKE_TINY_MODEL
"""
import os
import subprocess
import sys
import tempfile


def main() -> None:
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments: str) -> subprocess.CompletedProcess:
            return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)

        asked = run("--help")
        assert asked.returncode == 0 and asked.stdout.startswith("usage: "), asked
        for wrong in ([], ["--context", "64"], ["-x"], ["m.gguf", "many"], ["m.gguf", "0"], ["m.gguf", "64", "1", "-1"],
                      ["m.gguf", "64", "1", "0", "more"]):
            refused = run(*wrong)
            assert refused.returncode == 2 and refused.stderr.startswith("usage: "), (wrong, refused)
        assert os.listdir(folder) == [], os.listdir(folder)
        assert run("m.gguf", "64", "1", "8").returncode == 0
        with open(os.path.join(folder, "m.gguf"), "rb") as file:
            assert file.read(4) == b"GGUF"


if __name__ == "__main__":
    main()
