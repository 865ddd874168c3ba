#!/usr/bin/env python3
"""Writes Python's share of the table of options: python/banyan/_option_rows.py, and with --types _option_types.py.

    banyan help --json | tools/python_options.py > python/banyan/_option_rows.py
    banyan help --json | tools/python_options.py --types > python/banyan/_option_types.py
"""
import json
import sys
import textwrap

TABLES = ("ask", "extract", "rag", "table", "job")


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


# Parameters of the calls themselves.
PARAMETERS = ("output", "schema")
RENAMED = {("extract", "max_tokens"): "max_new", ("table", "labels"): "choices"}
# Python takes open files, dicts and pairs here, or None for the library's own choice.
OWN_TYPES = {"few_shot": "Union[Path, Sequence[Mapping[str, Any]], None]", "shard": "Tuple[int, int]",
             "checkpoint": "Union[float, None]", "columns": "Sequence[str]", "kv_store": "Path"}
# (class, what it is, [(table, groups or None for all, but these)])
CLASSES = (("InputRows", "What is read.", [("job", ("Input", "Records"), ())]),
           ("OutputRows", "What is written.", [("job", ("Output",), ())]),
           ("AskRows", "Of `ask`.", [("ask", None, ())]), ("ExtractRows", "Of `extract`.", [("extract", None, ())]),
           ("RagRows", "Of `rag`.", [("rag", None, ())]),
           ("TableRows", "Of `map`, `filter`, `rank`, `group` and `join`.",
            [("job", ("Output",), ("columns", "ordered")), ("ask", None, ("template", "choices")), ("table", None, ())]),
           ("EngineRows", "Of the engine and the KV store.", [("engine", None, ()), ("kv", None, ())]))
# Values of a table that signatures use too.
ALIASES = {"device": "Device", "precision": "Precision", "kv_type": "KvType", "keep_weights": "KeepWeights"}


def literal(row):
    return f"Literal[{', '.join(json.dumps(name) for name in row['names'])}]"


def type_of(row):
    if row["name"] in OWN_TYPES:
        return OWN_TYPES[row["name"]]
    plain = {"flag": "bool", "whole": "int", "number": "float", "text": "str", "texts": "Union[str, Sequence[str]]",
             "json": "str, Mapping[str, Any]", "bytes": "Union[str, int]"}.get(row["kind"]) or literal(row)
    if row["kind"] == "name or number":
        return f"Union[{plain}, str, float]"
    chosen = row["kind"] not in ("texts", "bytes") and default(row) is None
    return f"Union[{plain}, None]" if chosen else plain


def types_page(rows):
    lines = ['"""Types of the options that Python has, from the table of options (src/tasks/options/).',
             "", 'Written by tools/python_options.py --types; a test compares it with the library."""',
             "import os", "from typing import Any, Literal, Mapping, Sequence, Tuple, TypedDict, Union", "",
             'Path = Union[str, "os.PathLike[str]"]']
    lines += [f"{ALIASES[row['name']]} = {literal(row) if row['names'] else 'str'}" for row in rows if row["table"] == "model" and row["name"] in ALIASES]
    for name, text, parts in CLASSES:
        lines += ["", "", f"class {name}(TypedDict, total=False):", f'    """{text}"""', ""]
        for table, groups, but in parts:
            lines += [f"    {RENAMED.get((table, row['name']), row['name'])}: {type_of(row)}" for row in rows
                      if row["table"] == table and row["python"] is not None and not row["for_comparison"]
                      and row["name"] not in (*PARAMETERS, *but) and (groups is None or row["group"] in groups)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write = types_page if sys.argv[1:] == ["--types"] else page
    sys.stdout.write(write(json.load(sys.stdin)))
