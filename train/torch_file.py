"""Files of `torch.save`, read without PyTorch and without executing them, and written as safetensors.

    python3 -m train.torch_file FOLDER [--overwrite]

BGE-M3 is published with `pytorch_model.bin`, `sparse_linear.pt` and `colbert_linear.pt`. In FOLDER the heads become
`heads.safetensors`, which `banyan embed --sparse` and `--multi-vector` read, and the network becomes
`model.safetensors` where there is none. A file is a zip with a pickle that names tensors, and their bytes. A pickle can
name any function to be called; here it gets the few that tensors need, and everything else is refused by its name.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import pickle
import struct
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Of a storage's class: numpy's type of its bytes, and the name in safetensors. bf16 stays as bits.
TYPES = {
    "FloatStorage": ("<f4", "F32"),
    "HalfStorage": ("<f2", "F16"),
    "BFloat16Storage": ("<u2", "BF16"),
    "DoubleStorage": ("<f8", "F64"),
    "LongStorage": ("<i8", "I64"),
    "IntStorage": ("<i4", "I32"),
    "ByteStorage": ("<u1", "U8"),
}
HEADS = ("sparse_linear", "colbert_linear")


class BadFile(ValueError):
    pass


@dataclass(frozen=True)
class Tensor:
    kind: str  # as safetensors names it
    values: np.ndarray


class _Reader(pickle.Unpickler):
    """Tensors and dictionaries alone."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(archive.open(f"{root}/data.pkl"))
        self.path, self.archive, self.root = path, archive, root

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, requires_grad, hooks: data
        if module == "torch" and name in TYPES:
            return name
        raise BadFile(f"{self.path}: expected tensors in dictionaries, found {module}.{name}, which is not called")

    def persistent_load(self, identity: Any) -> tuple[str, bytes]:
        if not isinstance(identity, tuple) or len(identity) < 3 or identity[0] != "storage":
            raise BadFile(f"{self.path}: expected a storage, found {str(identity)[:60]}")
        name = f"{self.root}/data/{identity[2]}"
        try:
            return identity[1], self.archive.read(name)
        except KeyError:
            raise BadFile(f"{self.path}: expected the member '{name}', found none") from None

    def tensor(self, storage: tuple[str, bytes], offset: int, shape: tuple, strides: tuple, *_: Any) -> Tensor:
        kind, data = storage
        flat = np.frombuffer(data, TYPES[kind][0])
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides)) if 0 not in shape else offset - 1
        # More elements than values: a view that repeats them, which a small file could make as large as it likes.
        if offset < 0 or min((0, *shape, *strides)) < 0 or last >= flat.size or math.prod(shape) > flat.size:
            raise BadFile(f"{self.path}: a tensor of {list(shape)} goes beyond the {flat.size} values of its storage")
        bytes_each = [step * flat.itemsize for step in strides]
        return Tensor(TYPES[kind][1], np.lib.stride_tricks.as_strided(flat[offset:], shape, bytes_each).copy())


def read(path: Path) -> dict[str, Tensor]:
    """A state's tensors by name. Raises BadFile."""
    if not zipfile.is_zipfile(path):
        raise BadFile(f"{path}: expected a zip, as torch.save writes it, found another file")
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise BadFile(f"{path}: expected one data.pkl, found {len(pickles)}")
        packed = [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise BadFile(f"{path}: expected members as torch.save stores them, found '{packed[0]}' compressed")
        try:
            found = _Reader(path, archive, pickles[0].split("/")[0]).load()
        except BadFile:
            raise
        except (
            pickle.UnpicklingError,
            zipfile.BadZipFile,
            EOFError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as wrong:
            raise BadFile(f"{path}: not a pickle of tensors: {wrong}") from None
    if not isinstance(found, dict):
        raise BadFile(f"{path}: expected a dictionary of tensors, found {type(found).__name__}")
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise BadFile(f"{path}: '{name}': expected a tensor, found {type(tensor).__name__}")
    return dict(found)


def write(path: Path, tensors: dict[str, Tensor]) -> None:
    """As safetensors, in the types that they have."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.values.nbytes
        header[name] = dict(dtype=tensor.kind, shape=list(tensor.values.shape), data_offsets=[offset, end])
        offset = end
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        for tensor in tensors.values():
            file.write(tensor.values.tobytes())


def convert(folder: Path, overwrite: bool) -> list[str]:
    """What was written. Raises BadFile."""
    heads = {
        f"{head}.{name}": tensor
        for head in HEADS
        if (folder / f"{head}.pt").is_file()
        for name, tensor in read(folder / f"{head}.pt").items()
    }
    network = folder / "pytorch_model.bin"
    made = {folder / "heads.safetensors": heads} if heads else {}
    if network.is_file() and not any(folder.glob("model*.safetensors")):
        made[folder / "model.safetensors"] = read(network)
    if not made:
        raise BadFile(
            f"{folder}: expected {', '.join(f'{head}.pt' for head in HEADS)} or pytorch_model.bin, found none"
        )
    for path in made:
        if path.exists() and not overwrite:
            raise BadFile(f"{path}: is there already; --overwrite replaces it")
    for path, tensors in made.items():
        write(path, tensors)
    return [f"{path}: {len(tensors)} tensors" for path, tensors in made.items()]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--overwrite", action="store_true")
    a = p.parse_args()
    try:
        print("\n".join(convert(a.folder, a.overwrite)))
    except BadFile as wrong:
        print(wrong, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
