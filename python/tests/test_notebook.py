"""The notebook runs from its first cell to its last and draws its pictures; the page's snippets run one after another."""
import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest

from support import ROOT


class Notebook(unittest.TestCase):
    def test_every_cell_runs(self):
        import nbclient
        import nbformat
        path = ROOT / "docs" / "python.ipynb"
        notebook = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        pictures = [output for output in outputs if "image/png" in output.get("data", {})]
        self.assertEqual(len(pictures), 2)
        text = "".join(output.get("text", "") for output in outputs)
        self.assertIn("Anna Walker", text)
        self.assertIn("3 computed; 3 after asking again", text)


class Page(unittest.TestCase):
    def printed(self, page: str, least: int) -> str:
        """What the snippets of a page print, run one after another."""
        text = (ROOT / "docs" / page).read_text()
        snippets = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(snippets), least)
        names, printed, before = {"__name__": "page"}, io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                with contextlib.redirect_stdout(printed):
                    for snippet in snippets:
                        exec(compile(snippet, f"docs/{page}", "exec"), names)
            finally:
                os.chdir(before)
        return printed.getvalue()

    def test_python(self):
        printed = self.printed("python.md", 5)
        for words in ("Anna Walker", "Ivan Petrov", "Norda", "7:45"):
            self.assertIn(words, printed)

    @unittest.skipUnless(importlib.util.find_spec("duckdb") and importlib.util.find_spec("polars"), "needs duckdb and polars")
    def test_tables(self):
        printed = self.printed("tables.md", 3)
        for words in ("Lisbon", "Marigold", "Anna Walker", "Ivan Petrov", "ferry", "a day", "no order needs fewer"):
            self.assertIn(words, printed)


if __name__ == "__main__":
    unittest.main()
