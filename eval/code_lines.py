"""The next line of code, where it calls what other files define: questions on this project's own Python files.

    python3 -m eval get code_lines [--out FOLDER]

Like RepoBench-P: a row asks for the line that follows some lines of a file, and its documents are functions of other
files, one of which the line calls (`gold`). Scored by `code similarity`, as LongBench scores code. No published model
has seen these files.
"""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "eval", "tools", "train")
BEFORE = 12  # lines that are given
LEAST = 24  # characters of a line that is asked for
LONGEST = 40  # lines of a function that is a document


def functions(root: Path) -> dict[str, tuple[str, str]]:
    """Name → (file, source) of every function at the top of a file whose name no other has."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*.py") if "tests" not in p.parts):
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno < LONGEST:
                source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                found.setdefault(node.name, []).append((path.relative_to(root).as_posix(), source))
    return {name: places[0] for name, places in found.items() if len(places) == 1 and len(name) > 4}


def calls(root: Path, known: dict[str, tuple[str, str]]) -> list[tuple[str, int, str]]:
    """(file, number of the line from 0, name) of lines that call a function of another file."""
    out = []
    for path in sorted({file for file, _ in known.values()}):
        for n, line in enumerate((root / path).read_text(encoding="utf-8").splitlines()):
            named = [
                name for name in re.findall(r"(?<![.\w])(\w+)\(", line) if name in known and known[name][0] != path
            ]
            if n >= BEFORE and len(line.strip()) >= LEAST and named and not line.lstrip().startswith(("#", "def ")):
                out.append((path, n, named[0]))
    return out


def rows(rng: random.Random, count: int, documents: int, root: Path = ROOT) -> list[dict]:
    known = functions(root)
    asked = calls(root, known)
    out = []
    for path, n, name in rng.sample(asked, min(count, len(asked))):
        others = [other for other, (file, _) in known.items() if other != name and file != path]
        chosen = [name, *rng.sample(others, documents - 1)]
        rng.shuffle(chosen)
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        before = "\n".join(lines[n - BEFORE : n])
        out.append(
            dict(
                id=f"code_lines-{len(out)}",
                dataset="code_lines",
                question=f"Write the next line of this Python code, and nothing else.\n{before}\n",
                answers=[lines[n].strip()],
                documents=[dict(id=one, title=known[one][0], text=known[one][1], gold=one == name) for one in chosen],
            )
        )
    return out
