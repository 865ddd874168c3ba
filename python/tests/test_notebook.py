"""The notebook runs from its first cell to its last, and draws its pictures."""
import pathlib
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


if __name__ == "__main__":
    unittest.main()
