#!/usr/bin/env python3
"""The size of the house: files, lines, largest class of every room, words of the pages; and the limits that hold.

usage: check_shape.py [--table] [ROOT]

Rules: a source file has at most 500 lines, a class at most 25 functions (an interface and its implementations have as
many as the interface), <nlohmann/json.hpp> comes through one header, README.md at most 130 lines, docs/ at most
40 500 words, no line of a page is wider than 120 columns unless it is a table, a link or a command. --table prints the
counts of every room in Markdown.
"""

import pathlib
import re
import statistics
import subprocess
import sys

LONGEST_FILE = 500
MOST_FUNCTIONS = 25
README_LINES = 130
DOCS_WORDS = 40_500
WIDEST = 120
# One function per operation of a device: the interface, those that implement it, and those that tests wrap it with;
# a builder with one function per property of an option.
INTERFACES = {
    "Kernels", "CpuKernels", "CudaKernels", "ReferenceKernels", "ShardedKernels", "ForwardingKernels", "QueuedKernels",
    "Row",
}
SOURCES = {".cc", ".h", ".cu", ".cuh", ".inc"}
# Values of the library itself may end the program where no memory is left. Examples are programs of other people.
JSON_LIBRARY = "include/program/json_library.h"
# Pages that a program writes (`banyan help --reference`) or that are data.
WRITTEN = {"docs/options.md"}


def tracked(root: pathlib.Path):
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [pathlib.PurePosixPath(name) for name in sorted(set(names)) if (root / name).is_file()]


def without_comments(text: str) -> str:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def body_after(text: str, brace: int) -> str:
    """The text between the brace at `brace` and its partner."""
    depth = 0
    for at in range(brace, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[brace + 1 : at]
    return text[brace + 1 :]


def top_level(body: str) -> str:
    """A class body without what is in nested braces."""
    kept, depth = [], 0
    for character in body:
        if character == "{":
            depth += 1
        if depth == 0:
            kept.append(character)
        if character == "}":
            depth -= 1
            if depth == 0:
                kept.append(";")
    return "".join(kept)


def classes(text: str):
    """(name, functions) of the classes and structs that a text defines; constructors, and what is defaulted or
    deleted, do not count."""
    text = without_comments(text)
    for match in re.finditer(
        r"^[ \t]*(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^;{]*)?\{", text, re.MULTILINE
    ):
        declared = top_level(body_after(text, match.end() - 1))
        functions = set()
        for statement in declared.split(";"):
            statement = re.sub(r"\b(public|private|protected)\s*:", "", statement).strip()
            statement = re.sub(r"^\[\[\w+\]\]\s*", "", statement)
            if re.search(r"=\s*(default|delete)\s*$", statement) or statement.startswith(
                ("using", "friend", "typedef")
            ):
                continue
            name = re.match(r"(?:[^(=]*?[\s&*])?(~?\w+|operator[^(]*)\s*\(", statement)
            if (
                name
                and name.group(1).lstrip("~") != match.group(1)
                and "=" not in statement[: name.start(1)]
                and "std::function<" not in statement[: name.start(1)]
            ):
                functions.add(name.group(1))
        yield match.group(1), len(functions)


def room_of(path: pathlib.PurePosixPath) -> str:
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] in ("src", "apps", "include", "bench", "python", "tests") else parts[0]


def words(root, paths) -> int:
    return sum(len((root / path).read_text(encoding="utf-8").split()) for path in paths)


def main() -> int:
    arguments = [a for a in sys.argv[1:] if a != "--table"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    rooms: dict[str, list] = {}
    wrong = []
    files = tracked(root)
    for path in files:
        if path.suffix not in SOURCES or path.name.endswith("_test.cc"):
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = text.count("\n")
        largest = max(classes(text), key=lambda c: c[1], default=("", 0))
        rooms.setdefault(room_of(path), []).append((lines, path, largest))
        if "<nlohmann/json.hpp>" in text and str(path) != JSON_LIBRARY and path.parts[0] != "examples":
            wrong.append(f"{path}: includes <nlohmann/json.hpp>, expected {JSON_LIBRARY}")
        if lines > LONGEST_FILE:
            wrong.append(f"{path}: {lines} lines, at most {LONGEST_FILE}")
        for name, functions in classes(text):
            if functions > MOST_FUNCTIONS and name not in INTERFACES:
                wrong.append(f"{path}: {name} has {functions} functions, at most {MOST_FUNCTIONS}")
    pages = [
        p for p in files if p.suffix == ".md" and (p.parts[0] == "docs" or p.name == "README.md" and len(p.parts) == 1)
    ]
    docs = [p for p in pages if p.parts[0] == "docs"]
    count = words(root, docs)
    if count > DOCS_WORDS:
        wrong.append(f"docs/: {count} words, at most {DOCS_WORDS}")
    readme = (root / "README.md").read_text(encoding="utf-8").count("\n")
    if readme > README_LINES:
        wrong.append(f"README.md: {readme} lines, at most {README_LINES}")
    for page in pages:
        code = False
        for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
            code ^= line.startswith("```")
            if (
                len(line) > WIDEST
                and not code
                and not line.startswith("|")
                and "](" not in line
                and str(page) not in WRITTEN
            ):
                wrong.append(f"{page}:{number}: {len(line)} columns, at most {WIDEST}")
    every = [entry for entries in rooms.values() for entry in entries]
    if "--table" in sys.argv:
        print("| room | files | lines | longest file | largest class |\n|---|---:|---:|---|---|")
        for room, entries in sorted(rooms.items()):
            lines, path, _ = max(entries)
            name, functions = max((e[2] for e in entries), key=lambda c: c[1])
            print(
                f"| {room} | {len(entries)} | {sum(e[0] for e in entries)} | {path.name} {lines} | {name} {functions} |"
            )
        alone = sum(
            1
            for _, p, _ in every
            if p.suffix in (".cc", ".cu") and not any((root / p).with_suffix(s).exists() for s in (".h", ".cuh"))
        )
        print(
            f"\n{len(every)} files, {sum(e[0] for e in every)} lines, median {statistics.median(e[0] for e in every):.0f}; "
            f"{alone} sources without a header of their name; docs {count} words, {words(root, WRITTEN)} of them "
            f"written by the program; README {readme} lines"
        )
    for line in wrong:
        print(line)
    print(f"check_shape: {len(every)} source files, {count} words of docs, {len(wrong)} beyond the limits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
