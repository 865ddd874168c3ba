"""The notebook runs from its first cell to its last and draws its pictures; the page's snippets run one after another."""
import contextlib
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


class Page(unittest.TestCase):
    def test_every_snippet_runs_after_those_before_it(self):
        text = (ROOT / "docs" / "python.md").read_text()
        snippets = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(snippets), 4)
        names, printed, before = {"__name__": "page"}, io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                with contextlib.redirect_stdout(printed):
                    for snippet in snippets:
                        exec(compile(snippet, "docs/python.md", "exec"), names)
            finally:
                os.chdir(before)
        for words in ("Anna Walker", "Ivan Petrov", "Norda", "7:45"):
            self.assertIn(words, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
