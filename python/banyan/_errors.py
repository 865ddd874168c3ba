"""The one exception of the library, in the words of Python."""
from __future__ import annotations

import re
from typing import Any

from ._option_table import TASKS, options_of

_TABLE = {option.name: option for task in TASKS for option in options_of(task).values()}
# Options of the command line that are flags there and True here.
_FLAGS = {name for name, option in _TABLE.items() if option.default is False} - {"thinking"} | {"copy", "fast", "kv_save", "ordered"}
# Options with a value, by the names of parameters. Other words with two hyphens are of other programs.
_VALUES = set(_TABLE) - _FLAGS | {
    "abstention_scope", "adapter", "batch_rows", "device", "keep_weights", "kv_bits", "kv_memory", "kv_store", "kv_type", "layout",
    "max_streams", "max_tokens", "precision", "questions", "schema", "strategy", "thinking", "threads", "vectors", "yarn_factor"}
_CHOICES = (r"auto|on|off|fail|truncate|split|experts|examples|documents|skeleton|isolated|sequential|mixed|f32|given|"
            r"tokens|kv-concat|letter|score|multi-vector|rerank|exact|UTF-16|latin-1|windows-1252")
_PATTERNS = (
    # Rows in memory count from 0, and some say themselves which they are.
    (re.compile(r"^rows, line (\d+): (row \d+(?=[,:]))?"), lambda m: m[2] or f"row {int(m[1]) - 1}: "),
    (re.compile(r"^(left|right), line (\d+): "), lambda m: f"{m[1]}, row {int(m[2]) - 1}: "),
    (re.compile(r"--field (\S+?)=NAME"), r'fields={"\1": NAME}'),
    (re.compile(r"'banyan rag index --encoder MODEL'"), "Index.build(…, encoder=MODEL)"),
    (re.compile(r"'banyan rag index'"), "Index.build(…)"),
    (re.compile(r"'banyan rag index ([^']+)'"), r"Index('\1').update()"),
    (re.compile(r"--[a-z-]+, in requests ([a-z_]+)"), r"\1"),
    (re.compile(r"-q TEXT, or --questions FILE"), "or the parameter questions"),
    (re.compile(r" \(-o FILE(?:\.jsonl)?\)"), " (output=FILE)"),
    (re.compile(r" \(-o\)"), " (output)"),
    (re.compile(r"--resume --overwrite"), "resume=True and overwrite=True"),
    (re.compile(r"--(encoder|reranker) MODEL"), r"\1=MODEL"),
    (re.compile(rf"--([a-z][a-z-]*[a-z]) ({_CHOICES})\b"), lambda m: f"{_name(m[1])}={m[2]!r}" if _name(m[1]) in _VALUES else m[0]),
    (re.compile(r"--([a-z][a-z-]*[a-z])(?: (?:FILE|NAME|TEXT|FOLDER|N|DIR)\b)?"), lambda m: _parameter(m)),
)


def _name(option: str) -> str:
    return "id_column" if option == "id" else option.replace("-", "_")


def _parameter(match: re.Match[str]) -> str:
    name = _name(match[1])
    if name in _FLAGS:
        return f"{name}=True" + match[0][2 + len(match[1]):]
    return name if name in _VALUES else match[0]


def in_words_of_python(message: str) -> str:
    """Options of the command line as the parameters that they are here: ``--too-long split`` is ``too_long='split'``."""
    if "-" not in message and not message.startswith(("rows, ", "left, ", "right, ")):
        return message
    for pattern, words in _PATTERNS:
        message = pattern.sub(words, message)
    return message


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A job's row, whose error speaks of parameters."""
    error = row.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        error["message"] = in_words_of_python(error["message"])
    return row


_BACK = (
    (re.compile(r'fields=\{"(\w+)": NAME\}'), r"--field \1=NAME"),
    (re.compile(r"\b([a-z_]+)='([^']*)'"), lambda m: f"{_option(m[1])} {m[2]}" if m[1] in _VALUES else m[0]),
    (re.compile(r"\b([a-z_]+)=True\b"), lambda m: _option(m[1]) if m[1] in _FLAGS else m[0]),
    (re.compile(r"^([a-z_]+)(?=: )"), lambda m: _option(m[1]) if m[1] in _VALUES | _FLAGS else m[0]),
)


def _option(name: str) -> str:
    return "--id" if name == "id_column" else "--" + name.replace("_", "-")


def in_words_of_the_program(message: str) -> str:
    """The reverse, for the command: ``overwrite=True`` is ``--overwrite``."""
    for pattern, words in _BACK:
        message = pattern.sub(words, message)
    return message


class Error(Exception):
    """Bad input or a bad environment, told so that you can mend it.

    `kind` is one of ``usage``, ``input``, ``not_found``, ``io``, ``format``, ``unsupported`` and ``limit``. Where one
    row is to blame, `row` is its id or its place, and `reason` says what is wrong with it; else `row` is None and
    `reason` is the message.
    """

    def __init__(self, message: str, kind: str = "usage", *, row: object = None, reason: str | None = None) -> None:
        message = in_words_of_python(message)
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.row = row
        self.reason = message if reason is None else in_words_of_python(reason)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _again, (type(self), self.message, self.kind, self.row, self.reason)


def _again(error: type[Error], message: str, kind: str, row: object, reason: str) -> Error:
    return error(message, kind, row=row, reason=reason)
