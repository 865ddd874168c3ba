#!/usr/bin/env python3
"""Arrows only down: every include of src/ and apps/ is one that src/layers.txt allows.

A folder of src/ may include itself and what its line names. include/banyan/ may include only itself
and the standard library; apps/, examples/ and python/ may include include/banyan/ and themselves, nothing of
src/. The table itself must list lower layers first, so it cannot hold a cycle.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SUFFIXES = {".cc", ".h", ".inc", ".cu", ".cuh"}


def read_table(path: pathlib.Path) -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, below = line.partition(":")
        unknown = set(below.split()) - set(table)
        if unknown:
            sys.exit(f"layers.txt: {name} names {sorted(unknown)}, which do not stand above it")
        table[name] = set(below.split())
    return table


def sources(folder: pathlib.Path):
    return [p for p in sorted(folder.rglob("*")) if p.suffix in SUFFIXES]


def main() -> int:
    table = read_table(ROOT / "src/layers.txt")
    wrong: list[str] = []
    arrows = 0
    for name in table:
        for path in sources(ROOT / "src" / name):
            allowed = table[name] | {name, "banyan"}
            if path.name.endswith(("_test.cc", "_fixture.h")):
                allowed |= {"support"}
            for target in INCLUDE.findall(path.read_text()):
                arrows += 1
                if target.split("/")[0] not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} includes {target}: {name} may not")
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        if folder not in table:
            wrong.append(f"src/{folder} is not in src/layers.txt")
    for path in sources(ROOT / "include"):
        for target in INCLUDE.findall(path.read_text()):
            arrows += 1
            if not target.startswith("banyan/"):
                wrong.append(f"{path.relative_to(ROOT)} includes {target}: public headers stand alone")
    for folder in ("apps", "examples", "python"):
        for path in sources(ROOT / folder):
            for target in INCLUDE.findall(path.read_text()):
                arrows += 1
                if not target.startswith("banyan/") and not (path.parent / target).exists():
                    wrong.append(f"{path.relative_to(ROOT)} includes {target}: programs see only "
                                 "include/banyan")
    for line in wrong:
        print(line)
    print(f"check_layers: {arrows} includes, {len(wrong)} against the layers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
