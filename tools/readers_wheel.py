#!/usr/bin/env python3
"""The wheels of adapters, which most people do not need and which would double the size of the package:
banyan-engine-readers, of the better reader (`banyan model better`), and banyan-engine-coder-readers, of the Qwen models
for code. Data alone, for every Python and every machine; both install into one folder.

    tools/readers_wheel.py FOLDER      writes FOLDER/banyan_engine_*readers-VERSION-py3-none-any.whl and prints their names
"""
import base64
import hashlib
import pathlib
import re
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHEELS = {
    "banyan-engine-readers": ("the better reader", ("smollm2-reader", "smollm2-extract")),
    "banyan-engine-coder-readers": (
        "the Qwen models for code", ("qwen2.5-coder-0.5b-reader", "qwen2.5-coder-1.5b-reader")),
}
NEEDED = ("README.md", "adapter_config.json", "adapter_model.safetensors", "banyan.json")
FOLDER = "banyan_engine_readers"  # where the package looks for adapters
WHEN = (1980, 1, 1, 0, 0, 0)  # two runs give the same bytes


def main() -> None:
    version = re.search(r'#define BANYAN_VERSION "(.*)"', (ROOT / "include/banyan/version.h").read_text())[1]
    for name, (what, adapters) in WHEELS.items():
        print(write_wheel(pathlib.Path(sys.argv[1]), name, version, what, adapters))


def write_wheel(folder: pathlib.Path, distribution: str, version: str, what: str, adapters: tuple) -> pathlib.Path:
    package = distribution.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    files = {f"{FOLDER}/{adapter}/{name}": (ROOT / "models" / adapter / name).read_bytes()
             for adapter in adapters for name in NEEDED}
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
                                 f"Summary: Adapters for banyan-engine: {what}\n").encode()
    # Beside banyan-engine, wherever a system puts packages with libraries.
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: banyan\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{package}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data)
    return path


if __name__ == "__main__":
    main()
