#!/usr/bin/env python3
"""The wheel banyan-engine-readers: the adapters of the better reader (`banyan model better`), which most people do not
need and which would double the size of the package. Data alone: for every Python and every machine.

    tools/readers_wheel.py FOLDER      writes FOLDER/banyan_engine_readers-VERSION-py3-none-any.whl and prints its name
"""
import base64
import hashlib
import pathlib
import re
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ADAPTERS = ("smollm2-reader", "smollm2-extract")
NEEDED = ("README.md", "adapter_config.json", "adapter_model.safetensors", "banyan.json")
PACKAGE = "banyan_engine_readers"
WHEN = (1980, 1, 1, 0, 0, 0)  # two runs give the same bytes


def main() -> None:
    version = re.search(r'#define BANYAN_VERSION "(.*)"', (ROOT / "include/banyan/version.h").read_text())[1]
    info = f"{PACKAGE}-{version}.dist-info"
    files = {f"{PACKAGE}/{adapter}/{name}": (ROOT / "models" / adapter / name).read_bytes()
             for adapter in ADAPTERS for name in NEEDED}
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: banyan-engine-readers\nVersion: {version}\n"
                                 "Summary: Adapters of the better reader of banyan-engine\n").encode()
    # Beside banyan-engine, wherever a system puts packages with libraries.
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: banyan\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = pathlib.Path(sys.argv[1]) / f"{PACKAGE}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main()
