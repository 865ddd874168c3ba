import tempfile
import unittest
from pathlib import Path

import numpy as np

from train.adapter_mean import WEIGHTS, between
from train.safetensors import read, write_bf16


class AdapterMean(unittest.TestCase):
    def test_weights_lie_between(self):
        with tempfile.TemporaryDirectory() as name:
            old, new, out = (Path(name, n) for n in ("old", "new", "out"))
            for folder, value in ((old, 1.0), (new, 3.0)):
                folder.mkdir()
                write_bf16(
                    folder / WEIGHTS, {"a": np.full((2, 3), value, np.float32), "b": np.full(2, -value, np.float32)}
                )
                (folder / "adapter_config.json").write_text(folder.name)
            between(old, new, 0.75, out)
            made = read(out / WEIGHTS)
            self.assertEqual(made["a"].tolist(), [[2.5] * 3] * 2)
            self.assertEqual(made["b"].tolist(), [-2.5] * 2)
            self.assertEqual((out / "adapter_config.json").read_text(), "new")

    def test_other_shapes_are_refused(self):
        with tempfile.TemporaryDirectory() as name:
            for folder, size in (("old", 2), ("new", 3)):
                Path(name, folder).mkdir()
                write_bf16(Path(name, folder, WEIGHTS), {"a": np.zeros(size, np.float32)})
            with self.assertRaisesRegex(SystemExit, "same names and shapes"):
                between(Path(name, "old"), Path(name, "new"), 0.5, Path(name, "out"))


if __name__ == "__main__":
    unittest.main()
