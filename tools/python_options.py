#!/usr/bin/env python3
"""Writes python/banyan/_option_rows.py from the table of options: banyan help --json | tools/python_options.py

With --check FILE: exits with 1 where the file is another.
"""
import json
import pathlib
import sys
import textwrap

TABLES = ("ask", "extract", "rag", "job")


def default(row):
    """None is what the library chooses itself."""
    found = row.get("default")
    if row["kind"] in ("text", "json") or found == "":
        return None
    return tuple(found) if isinstance(found, list) else found


def text(row):
    words = row["help"]
    if row["kind"] in ("whole", "number") and "most" in row:
        words += f" ({row['range']})"
    unsaid = [name for name in row["names"] if name not in words]
    return f"{', '.join(row['names'])}: {words}" if unsaid else words


def page(rows):
    lines = ['"""What the table of options (src/tasks/options/) says of those that Python has: (group, name, default, text).',
             "", 'Written by tools/python_options.py; a test compares it with the library."""',
             "from __future__ import annotations", "", "from typing import Any, Mapping, Tuple", "",
             "Row = Tuple[str, str, Any, str]", "", "ROWS: Mapping[str, Tuple[Row, ...]] = {"]
    for table in TABLES:
        lines.append(f'    "{table}": (')
        for row in rows:
            if row["table"] != table or row["python"] is None:
                continue
            group = "Input" if row["group"] == "Records" else row["group"]
            entry = ", ".join([json.dumps(group), json.dumps(row["name"]), repr(default(row)), json.dumps(text(row), ensure_ascii=False)])
            lines += textwrap.wrap(f"({entry}),", 118, initial_indent=" " * 8, subsequent_indent=" " * 9,
                                   break_long_words=False, break_on_hyphens=False) if len(entry) < 100 else [
                f"        ({json.dumps(group)}, {json.dumps(row['name'])}, {default(row)!r},",
                f"         {json.dumps(text(row), ensure_ascii=False)}),"]
        lines.append("    ),")
    return "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    found = page(json.load(sys.stdin))
    if sys.argv[1:2] == ["--check"]:
        sys.exit(0 if pathlib.Path(sys.argv[2]).read_text() == found else f"{sys.argv[2]} is not current: tools/python_options.py writes it")
    sys.stdout.write(found)
