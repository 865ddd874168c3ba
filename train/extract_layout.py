"""Records as the engine lays them out (`banyan extract --layout`): the prompt's text, the pieces of the template and
what follows each value.

The engine's own layout is the reference: a test compares both. What is written here beside it: nested objects, lists of
objects, and a choice of the room after each piece.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from train.extract_records import UNLABELLED, Attribute, Record

INSTRUCTION = "Extract the attributes from the text as JSON: {names}. Use null when the text does not say."
STACK_INSTRUCTION = (
    "Extract the attributes from each document as JSON, by the document's number: {names}. Use null when the document"
    " does not say."
)
TOKENS = {
    "text": 32,
    "number": 16,
    "integer": 16,
    "boolean": 5,
    "date": 20,
    "enum": 48,
    "list": 96,
    "items": 96,
}  # the engine's room


@dataclass
class Slot:
    piece: str
    value: str | None  # JSON; None: teaches nothing
    after: str
    type: str


@dataclass
class Laid:
    """One prompt and its slots. `text` of the documents for checks."""

    id: str
    source: str
    prompt: str
    slots: list[Slot]
    held: bool = False
    text: str = ""


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def written(value) -> str | None:
    return None if value is UNLABELLED else json.dumps(value, ensure_ascii=False)


def pieces(attributes: list[Attribute], opening: str = "{") -> list[tuple[str, str]]:
    """(the piece before each value, the beginning of what follows it)"""
    out, group = [], None
    for n, a in enumerate(attributes):
        own, _, rest = a.name.partition(".") if a.nested else ("", "", a.name)
        before = opening if n == 0 else ("}" if group and own != group else "") + ",\n"
        if own and own != group:
            before += f"{quoted(own)}: {{"
        out.append(before + quoted(rest) + ":")
        group = own
    closing = "}" * (2 if group else 1)
    follows = [p[: p.index("\n") + 1] for p in out[1:]] + [closing]
    return list(zip(out, follows))


def details(r: Record, stacked: bool) -> str:
    if not (r.about or r.shots) and all(a.is_text and not a.description and not a.examples for a in r.attributes):
        return ""
    out = (f"Category: {r.category}\n" if r.category else "") + (r.about + "\n" if r.about else "")
    shots = "".join(
        f"Text:\n{documents([s]) if stacked else s.text}\n\nAnswer:\n{answer(s, stacked)}\n\n" for s in r.shots
    )
    return (
        (out + "\n" if out else "")
        + "Attributes:\n"
        + "\n".join(a.line() for a in r.attributes)
        + "\n\n"
        + shots
        + "Text:\n"
    )


def documents(records: list[Record]) -> str:
    return "\n\n".join(f"Document {n}:\n{r.text}" for n, r in enumerate(records, 1))


def answer(r: Record, stacked: bool = False) -> str:
    made = pieces(r.attributes, '{"1": {' if stacked else "{")
    values = ["null" if v is UNLABELLED else written(v) for v in r.values]
    return "".join(p + " " + v for (p, _), v in zip(made, values)) + made[-1][1] + ("}" if stacked else "")


def chat(system: str, user: str) -> str:
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


def prompt_of(records: list[Record]) -> str:
    r, stacked = records[0], len(records) > 1
    names = ", ".join(a.name for a in r.attributes)
    system = (STACK_INSTRUCTION if stacked else INSTRUCTION).replace("{names}", names)
    return chat(system, details(r, stacked) + (documents(records) if stacked else r.text))


def lay(r: Record) -> Laid:
    slots = [
        Slot(p, written(v), after, a.type) for (p, after), a, v in zip(pieces(r.attributes), r.attributes, r.values)
    ]
    return Laid(r.id, r.source, prompt_of([r]), slots, r.held, r.text)


def lay_items(r: Record) -> list[Laid]:
    """For each object of a list its other values, after the first."""
    out = []
    for a in r.attributes:
        if a.type != "items":
            continue
        for n, item in enumerate(r.items):
            opening = f"{{{quoted(a.name)}: [{{{quoted(a.parts[0].name)}: {quoted(item[0])},\n"
            rest = pieces(a.parts[1:], opening)
            slots = [Slot(p, written(v), after, part.type) for (p, after), part, v in zip(rest, a.parts[1:], item[1:])]
            out.append(Laid(f"{r.id}-item{n}", r.source + " items", prompt_of([r]), slots, r.held, r.text))
    return out


def lay_stack(records: list[Record]) -> Laid:
    slots = []
    for n, r in enumerate(records):
        last = n == len(records) - 1
        made = pieces(
            r.attributes,
            f'{{"{n + 1}": {{' if n == 0 else f'{"}" if r.attributes[-1].nested else ""}}},\n"{n + 1}": {{',
        )
        for k, ((p, after), a, v) in enumerate(zip(made, r.attributes, r.values)):
            if k == len(made) - 1:
                after += "}" if last else ",\n"
            slots.append(Slot(p, written(v), after, a.type))
    first = records[0]
    return Laid(
        first.id, first.source + " stack", prompt_of(records), slots, first.held, "\n".join(r.text for r in records)
    )
