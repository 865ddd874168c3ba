"""The type hints: mypy in strict mode over the package, and the stub against the module."""
import pathlib
import subprocess
import sys
import unittest

from support import ROOT


class Types(unittest.TestCase):
    def run_module(self, *arguments):
        result = subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_package_and_a_program_that_uses_it(self):
        here = pathlib.Path(__file__).resolve().parent
        self.run_module("mypy", "--config-file", ROOT / "pyproject.toml", "-p", "banyan")
        self.run_module("mypy", "--config-file", ROOT / "pyproject.toml", here / "typed_program.py")

    def test_the_stub_says_what_the_module_has(self):
        self.run_module("mypy.stubtest", "banyan._native", "--ignore-missing-stub", "--mypy-config-file",
                        ROOT / "pyproject.toml")


if __name__ == "__main__":
    unittest.main()
