#!/usr/bin/env python3
"""Arrows only down: every include of src/ and apps/ is one that src/layers.txt allows.

A folder of src/ may include itself and what its line names. include/banyan/ (installed) may include only
itself and the standard library, include/program/ that too; apps/ and python/ may include both and
themselves, examples/ include/banyan/ alone, nothing of src/. The table itself must list lower layers
first, so it cannot hold a cycle. A folder with a rooms.txt has the same rule for its own folders.
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


def check_rooms(folder: pathlib.Path) -> tuple[int, list[str]]:
    """A folder whose rooms.txt says which of its own folders may include which, and what of them."""
    rooms: dict[str, set[str]] = {}
    shown: dict[str, set[str]] = {}
    wrong, arrows = [], 0
    for line in (folder / "rooms.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        below, _, headers = rest.partition("|")
        if unknown := set(below.split()) - set(rooms):
            wrong.append(f"{folder.name}/rooms.txt: {name} names {sorted(unknown)}, which do not stand above it")
        rooms[name], shown[name] = set(below.split()), set(headers.split())
        wrong += [f"{folder.name}/rooms.txt: {name} has no {header}" for header in sorted(shown[name])
                  if not (folder / name / header).exists()]
    inside_src = folder.is_relative_to(ROOT / "src")
    prefix = folder.relative_to(ROOT / "src").as_posix() + "/" if inside_src else ""
    for path in sources(folder):
        inside = path.relative_to(folder).parts
        room = inside[0] if len(inside) > 1 else None
        if room is not None and room not in rooms:
            wrong.append(f"{path.relative_to(ROOT)}: {room} is not in rooms.txt")
            continue
        for target in INCLUDE.findall(path.read_text()):
            if not target.startswith(prefix) or target.count("/") != prefix.count("/") + 1:
                continue
            if not inside_src and not (folder / target).exists():
                continue
            arrows += 1
            other, header = target[len(prefix):].split("/")
            if other == room:
                continue
            if room is not None and other not in rooms[room] or header not in shown.get(other, ()):
                wrong.append(f"{path.relative_to(ROOT)} includes {target}: rooms.txt does not allow it")
    return arrows, wrong


def main() -> int:
    table = read_table(ROOT / "src/layers.txt")
    wrong: list[str] = []
    arrows = 0
    for name in table:
        for path in sources(ROOT / "src" / name):
            allowed = table[name] | {name, "banyan", "program"}
            if path.name.endswith(("_test.cc", "_fixture.h")):
                allowed |= {"support"}
            for target in INCLUDE.findall(path.read_text()):
                arrows += 1
                if target.split("/")[0] not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} includes {target}: {name} may not")
    for table_of_rooms in sorted([*(ROOT / "src").rglob("rooms.txt"), *(ROOT / "apps").rglob("rooms.txt")]):
        found, against = check_rooms(table_of_rooms.parent)
        arrows += found
        wrong += against
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        if folder not in table:
            wrong.append(f"src/{folder} is not in src/layers.txt")
    for path in sources(ROOT / "include"):
        for target in INCLUDE.findall(path.read_text()):
            arrows += 1
            if not target.startswith(("banyan/", f"{path.parent.name}/")):
                wrong.append(f"{path.relative_to(ROOT)} includes {target}: public headers stand alone")
    for folder in ("apps", "examples", "python"):
        for path in sources(ROOT / folder):
            if path.is_relative_to(ROOT / "apps/bench"):
                continue  # measures the inside, and sees it
            for target in INCLUDE.findall(path.read_text()):
                arrows += 1
                # The package's command is the whole program, by its one header.
                is_program = folder == "python" and target == "program.h"
                shelves = "banyan/" if folder == "examples" else ("banyan/", "program/")
                own = any((above / target).exists() for above in (path.parent, path.parent.parent))
                if not target.startswith(shelves) and not own and not is_program:
                    wrong.append(f"{path.relative_to(ROOT)} includes {target}: programs see only "
                                 "include/banyan and include/program")
    for line in wrong:
        print(line)
    print(f"check_layers: {arrows} includes, {len(wrong)} against the layers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
