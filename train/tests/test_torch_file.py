"""Files of torch.save without PyTorch: made here as PyTorch makes them, with names that it would call."""

from __future__ import annotations

import collections
import io
import pickle
import sys
import tempfile
import types
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np

from train import safetensors, torch_file


def fake_torch() -> dict[str, types.ModuleType]:
    """Modules whose names stand in the pickles."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in torch_file.TYPES:
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*parts):
        return parts

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2, torch._utils = _rebuild_tensor_v2, utils
    return {"torch": torch, "torch._utils": utils}


class Stored:
    """Pickles as a tensor of PyTorch does."""

    def __init__(self, kind: str, key: str, offset: int, shape: tuple, strides: tuple) -> None:
        self.parts = kind, key, offset, shape, strides

    def __reduce__(self):
        kind, key, offset, shape, strides = self.parts
        storage = ("storage", getattr(sys.modules["torch"], kind), key, "cpu", 0)
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (Persistent(storage), offset, shape, strides, False, collections.OrderedDict())


class Persistent:
    def __init__(self, identity: tuple) -> None:
        self.identity = identity


class _Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        return thing.identity if isinstance(thing, Persistent) else None


def save(path: Path, state: object, storages: dict[str, bytes]) -> None:
    out = io.BytesIO()
    with mock.patch.dict(sys.modules, fake_torch()):
        _Pickler(out, protocol=2).dump(state)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", out.getvalue())
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)


class TorchFile(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_heads_become_safetensors(self):
        weight, bias = np.arange(6, dtype="<f4"), np.array([7, 8], "<f4")
        state = collections.OrderedDict(
            weight=Stored("FloatStorage", "0", 0, (2, 3), (3, 1)), bias=Stored("FloatStorage", "1", 0, (2,), (1,))
        )
        save(self.folder / "colbert_linear.pt", state, {"0": weight.tobytes(), "1": bias.tobytes()})
        self.assertEqual(torch_file.convert(self.folder, False), [f"{self.folder}/heads.safetensors: 2 tensors"])
        made = safetensors.read(self.folder / "heads.safetensors")
        self.assertEqual(made["colbert_linear.weight"].tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(made["colbert_linear.bias"].tolist(), [7, 8])
        with self.assertRaisesRegex(torch_file.BadFile, "is there already"):
            torch_file.convert(self.folder, False)

    def test_views_and_bits(self):
        data = np.arange(6, dtype="<u2").tobytes()
        state = dict(t=Stored("BFloat16Storage", "0", 1, (2, 2), (1, 2)))  # a transposed part of it
        save(self.folder / "pytorch_model.bin", state, {"0": data})
        found = torch_file.read(self.folder / "pytorch_model.bin")["t"]
        self.assertEqual((found.kind, found.values.tolist()), ("BF16", [[1, 3], [2, 4]]))

    def test_nothing_else_is_called(self):
        class Bad:
            def __reduce__(self):
                return print, ("called",)

        for state, said in (
            (dict(x=Bad()), "found __builtin__.print, which is not called"),
            (dict(x=1), "'x': expected a tensor, found int"),
            ([1], "expected a dictionary of tensors, found list"),
            (dict(x=Stored("FloatStorage", "9", 0, (1,), (1,))), "expected the member 'archive/data/9', found none"),
            (dict(x=Stored("FloatStorage", "0", 0, (3,), (1,))), r"a tensor of \[3\] goes beyond the 2 values"),
            (dict(x=Stored("FloatStorage", "0", 0, (2,), (-1,))), "goes beyond"),
            (dict(x=Stored("FloatStorage", "0", 0, (10**9,), (0,))), "goes beyond"),  # one value, repeated
            (dict(x=Stored("FloatStorage", "1", 0, (1,), (1,))), "not a pickle of tensors: buffer size"),
            (dict(x=Stored("FloatStorage", "0", 0, ("1",), (1,))), "not a pickle of tensors"),
        ):
            path = self.folder / "x.pt"
            save(path, state, {"0": bytes(8), "1": bytes(7)})
            with mock.patch("builtins.print") as called, self.assertRaisesRegex(torch_file.BadFile, said):
                torch_file.read(path)
            called.assert_not_called()
        with zipfile.ZipFile(self.folder / "z.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({}))
        with self.assertRaisesRegex(torch_file.BadFile, "'archive/data.pkl' compressed"):
            torch_file.read(self.folder / "z.pt")
        (self.folder / "y.pt").write_bytes(b"no zip")
        with self.assertRaisesRegex(torch_file.BadFile, "y.pt: expected a zip"):
            torch_file.read(self.folder / "y.pt")
        with self.assertRaisesRegex(torch_file.BadFile, "expected sparse_linear.pt"):
            torch_file.convert(self.folder, False)


if __name__ == "__main__":
    unittest.main()
