"""JSON as text: parts of objects and arrays as they are written, so that what is carried through keeps its bytes."""
from __future__ import annotations

import json
import re
from typing import Any

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_EMPTY = re.compile(r"[ \t\r\n]*}")


def members(text: str) -> list[tuple[str, int, int]]:
    """The members of a JSON object in a text: name, and where the member begins and ends. The object is valid."""
    found: list[tuple[str, int, int]] = []
    at = text.index("{") + 1
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at] == "}":
            return found
        if text[at] == ",":
            at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        begin = at
        name, at = _DECODER.raw_decode(text, at)
        at = _SPACE.match(text, at).end() + 1  # type: ignore[union-attr]  # the colon
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        _, at = _DECODER.raw_decode(text, at)
        found.append((name, begin, at))


def elements(text: str) -> list[str]:
    """The elements of a JSON array, each as it is written."""
    found: list[str] = []
    at = _SPACE.match(text, text.index("[") + 1).end()  # type: ignore[union-attr]
    while text[at] != "]":
        if text[at] == ",":
            at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        begin = at
        _, at = _DECODER.raw_decode(text, at)
        found.append(text[begin:at])
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return found


def with_member(text: str, name: str, value: Any) -> str:
    """The object with one more member, before the others; nothing else of it changes."""
    at = text.index("{") + 1
    rest = text[at:]
    comma = "" if _EMPTY.match(rest) else ","
    return f"{text[:at]}{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}{comma}{rest}"
