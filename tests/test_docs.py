#!/usr/bin/env python3
"""The documentation is true: its commands run and print what it says, and every path it names exists.

A ```console block holds commands after `$ ` and their output below them. It is run with bash in the
repository's root, one block after another of a page in one temporary HOME; `banyan` is the release
binary. An output line `…` stands for any lines; `…` inside a line for any text. Blocks after a line
`<!-- not run: REASON -->` are shown only (they need a network or a GPU). Usage: test_docs.py BANYAN PAGE…
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^(<!-- not run: .+? -->\n)?```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:src|include|apps|tests|docs|tools|cmake|examples|eval|train|models)/[\w./*-]+)`")


def commands(block: str):
    """(command, expected output) pairs; a command may go on over lines that end in a backslash."""
    command, output, result = None, [], []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command is not None:
                result.append((command, output))
            command, output = line[2:], []
        elif command is not None and command.endswith("\\"):
            command += "\n" + line.removeprefix("> ")
        else:
            output.append(line)
    if command is not None:
        result.append((command, output))
    return result


def matches(expected: list[str], found: list[str]) -> bool:
    pattern = ""
    for line in expected:
        pattern += r"(?:.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, line.rstrip().split("…"))) + r"\s*\n"
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in found)) is not None


def current_text(page: pathlib.Path) -> str:
    """What a page says of this version: of the changelog, what is not yet released and not removed."""
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":
        text = re.split(r"^## \[\d", text, flags=re.MULTILINE)[0]
        text = re.sub(r"^### Removed\n.*?(?=^##|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def check_page(page: pathlib.Path, environment: dict) -> list[str]:
    wrong, text = [], current_text(page)
    for name in PATH.findall(text):
        if not list(ROOT.glob(name.rstrip("/"))):
            wrong.append(f"names {name}, which is not there")
    for not_run, block in BLOCK.findall(text):
        if not_run:
            continue
        # What stands in /tmp there may be somebody else's here.
        for command, expected in commands(block.replace("/tmp/", environment["HOME"] + "/tmp/")):
            done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            found = done.stdout.splitlines()
            if not matches(expected, found):
                wrong.append(f"$ {command}\n  expected:\n    " + "\n    ".join(expected) +
                             "\n  found:\n    " + "\n    ".join(found))
    return wrong


def main() -> int:
    banyan, pages = sys.argv[1], sys.argv[2:]
    failed = 0
    # Commands of the pages write $T without quotes.
    place = "/tmp" if " " in tempfile.gettempdir() else None
    with tempfile.TemporaryDirectory(dir=place) as home:
        environment = dict(os.environ, HOME=home, T=home, LC_ALL="C.UTF-8",  # bash complains of a locale that is not there
                           PATH=str(pathlib.Path(banyan).resolve().parent) + ":" + os.environ["PATH"])
        os.mkdir(os.path.join(home, "tmp"))
        for name in pages:
            for problem in check_page(ROOT / name, environment):
                failed += 1
                print(f"FAIL {name}: {problem}")
    print(f"docs_test: {len(pages)} pages, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
