"""The type hints: mypy in strict mode over the package, pyright over a program, and the stub against the module."""
import ast
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
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

    def test_pyright_finds_a_program_right_in_strict_mode(self):
        if shutil.which("pyright") is None or shutil.which("node") is None:
            self.skipTest("no pyright and Node here: apt-get install nodejs; pip install pyright")
        here = pathlib.Path(__file__).resolve().parent
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(here / "typed_program.py", folder)
            settings = {"include": ["typed_program.py"], "strict": ["typed_program.py"], "pythonVersion": "3.10",
                        "extraPaths": [str(ROOT / "python")]}
            (pathlib.Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings))
            result = subprocess.run(["pyright", "--pythonpath", sys.executable], capture_output=True, text=True, cwd=folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_pyright_finds_the_doors_right_in_strict_mode(self):
        if shutil.which("pyright") is None or shutil.which("node") is None:
            self.skipTest("no pyright and Node here: apt-get install nodejs; pip install pyright")
        doors = [f"banyan/{name}.py" for name in ("stream", "aio", "pandas", "polars", "duckdb")]
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "python" / "banyan", pathlib.Path(folder) / "banyan")
            settings = {"include": doors, "typeCheckingMode": "strict", "pythonVersion": "3.10",
                        "reportMissingTypeStubs": False}  # pandas has none of its own
            (pathlib.Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings))
            result = subprocess.run(["pyright", "--pythonpath", sys.executable], capture_output=True, text=True, cwd=folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_streams_and_coroutines_complete_as_the_functions_do(self):
        import banyan
        for name in ("ask", "extract", "rag", "embed", "map", "rank", "group", "join"):
            wanted = list(inspect.signature(getattr(banyan, name)).parameters)
            for module in (banyan.stream, banyan.aio) if name in ("ask", "extract", "rag") else (banyan.aio,):
                self.assertEqual(list(inspect.signature(getattr(module, name)).parameters), wanted, (module, name))

    def test_a_wrong_name_and_a_wrong_value_are_found_by_the_checker(self):
        program = ("import banyan\nbanyan.ask([], temprature=1)\nbanyan.ask([], chat='maybe')\n"
                   "banyan.rag([], options=banyan.RagOptions(top='three'))\nbanyan.extract([], {}, stack='x')\n"
                   "banyan.stream.ask([], temprature=1)\nbanyan.aio.rag([], top='three')\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "wrong.py"
            path.write_text(program)
            result = subprocess.run([sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", path],
                                    capture_output=True, text=True, cwd=ROOT)
        for line in (2, 3, 4, 5, 6, 7):
            self.assertIn(f"wrong.py:{line}: error", result.stdout)

    def test_the_stub_says_what_the_module_has(self):
        """Names, and how many parameters functions take: mypy's own comparison knows no functions of nanobind."""
        from banyan import _native
        stub = ast.parse((ROOT / "python" / "banyan" / "_native.pyi").read_text())
        self.compare(stub.body, _native, "_native")

    def compare(self, body, found, name):
        declared = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        public = {one for one in vars(found) if not one.startswith("_") and one != "version"}
        self.assertEqual({one for one in declared if not one.startswith("_")}, public, name)
        for one, node in declared.items():
            value = getattr(found, one)
            if isinstance(node, ast.ClassDef):
                self.compare(node.body, value, f"{name}.{one}")
            elif hasattr(value, "__nb_signature__"):
                text = value.__nb_signature__[0][0]
                there = ast.parse(f"{text}: ...").body[0].args
                self.assertEqual(len(there.posonlyargs) + len(there.args),
                                 len(node.args.posonlyargs) + len(node.args.args), f"{name}.{one}: {text}")


if __name__ == "__main__":
    unittest.main()
