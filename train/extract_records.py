"""What the extraction adapter learns from, before it becomes tokens: a document, the attributes of a schema, and the
values to be written.

Everyday documents (`train.everyday`) get a schema here: names in several styles, types, units, descriptions, examples
that are not in the text, attributes that the document does not have.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace

from train.everyday import Document, Field, Kind, document, kinds
from train.everyday_values import draw
from train.lexicon import Lexicon

UNLABELLED = object()  # nothing is known of the value: the slot teaches nothing
TYPES = ("text", "number", "integer", "date", "boolean", "enum", "list", "items")


@dataclass
class Attribute:
    name: str  # nested: "address.street"
    type: str = "text"
    words: str = "text"  # the type as the prompt says it
    description: str = ""
    examples: list = field(default_factory=list)
    nested: bool = False
    parts: list["Attribute"] = field(default_factory=list)  # of a list of objects

    @property
    def is_text(self) -> bool:
        return self.type == "text" and self.words == "text"

    def line(self) -> str:
        examples = (
            " Examples: " + ", ".join(json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in self.examples)
            if self.examples
            else ""
        )
        return f"- {self.name} ({self.words})" + (f": {self.description}" if self.description else "") + examples


@dataclass
class Record:
    """Values are parallel to the attributes: None is null; a text, a truth value, a list of texts; UNLABELLED. `items`:
    the objects of the attribute whose type is `items`, a text for each part, in order."""

    id: str
    source: str
    text: str
    attributes: list[Attribute]
    values: list
    category: str = ""
    about: str = ""  # description of the category
    items: list[list] = field(default_factory=list)
    shots: list["Record"] = field(default_factory=list)  # examples in the prompt
    held: bool = False


@dataclass
class Schema:
    fields: list[Field | None]  # None: of another kind of document, always null
    attributes: list[Attribute]
    category: str
    about: str


def style_name(lex: Lexicon, name: str, style: str) -> str:
    words = re.split(r"[_ ]", re.sub(r"(?<=[a-zäöü])(?=[A-Z])", "_", name))
    if style == "camel":
        return words[0].lower() + "".join(w[:1].upper() + w[1:].lower() for w in words[1:])
    if style == "title":
        return " ".join(w[:1].upper() + w[1:] for w in words)
    if style == "spaces":
        return " ".join(w.lower() for w in words)
    if style == "kebab":
        return "-".join(w.lower() for w in words)
    if style == "upper":
        return "_".join(w.upper() for w in words)
    return "_".join(w.lower() for w in words)


def type_words(lex: Lexicon, dialect: float, kind: str, unit: str = "", choices: list[str] = ()) -> str:
    old = dialect < 0.4
    if kind == "number":
        return "number" + (f" in {unit}" if unit else "")
    if kind == "integer":
        return ("whole number" if old else "integer") + (f" in {unit}" if unit else "")
    if kind == "boolean":
        return "true or false" if old or dialect < 0.75 else "boolean"
    if kind == "date":
        return "date as YYYY-MM-DD" if old else "date"
    if kind == "enum":
        return "one of " + ", ".join(choices)
    return {"list": "list of text", "text": "text"}[kind]


def example_of(lex: Lexicon, kind: Kind, f: Field, text: str):
    """Values like the wanted one, none of them in the text."""
    if f.type in ("boolean", "enum", "items"):
        return []
    out = []
    for _ in range(lex.between(1, 3)):
        made = draw(lex, kind.lang, f.gen)
        value = made.items if f.type == "list" else made.text
        if not any(v in text for v in (value if isinstance(value, list) else [value])):
            out.append(value)
    return out


def make_schema(lex: Lexicon, kind: Kind, docs: list[Document]) -> Schema:
    said = {s.field.key: s for d in docs for s in d.said if s.value is not None} | {}
    known = [f for f in kind.fields if f.type != "items" and any(f is s.field for d in docs for s in d.said)]
    plain = lex.chance(0.14)  # texts alone: the prompt has no list of attributes
    chosen: list[Field | None] = [f for f in known if lex.chance(0.88)] or known[:3]
    rest = [f for f in kind.fields if f not in known and f.type != "items"]
    chosen += lex.rng.sample(rest, min(len(rest), lex.choice((0, 0, 1, 2))))
    if any(d.items for d in docs) or lex.chance(0.1):
        chosen += [f for f in kind.fields if f.type == "items" and len(docs) == 1]
    if plain:
        chosen = [f for f in chosen if f.type not in ("boolean", "items")] or chosen[:2]
        plain = all(f.type not in ("boolean", "items") for f in chosen)
    foreign = []
    if lex.chance(0.3):
        other = lex.choice([k for k in kinds() if k.lang == kind.lang and k is not kind])
        mine = {n for f in kind.fields for n in f.names} | {f.key for f in kind.fields}
        foreign = [
            f
            for f in other.fields
            if f.type in ("number", "integer", "boolean", "enum", "list")
            and not mine.intersection((*f.names, f.key))
            and not (plain and f.type == "boolean")
        ]
        foreign = lex.rng.sample(foreign, min(len(foreign), lex.between(1, 2)))
    order = [(f, f) for f in chosen] + [(None, f) for f in foreign]
    nest = not plain and lex.chance(0.3) and len({f.group for f, _ in order if f and f.group}) > 0
    if lex.chance(0.4):
        lex.rng.shuffle(order)
    if nest:
        order.sort(key=lambda p: (p[0] is not None and p[0].group) or "")
        if lex.chance(0.5):
            order.reverse()
    style, dialect = (
        lex.choice(("snake", "snake", "snake", "camel", "title", "spaces", "spaces", "as", "upper", "kebab")),
        lex.rng.random(),
    )
    described, exemplified = lex.choice((0.0, 0.0, 0.35, 1.0)), lex.choice((0.0, 0.0, 0.0, 0.4))
    whole = "\n".join(d.text for d in docs)
    fields, attributes, names = [], [], set()
    for own, f in order:
        name = (
            lex.choice(f.names[:-1] if lex.chance(0.5) and len(f.names) > 1 else f.names)
            if lex.chance(0.9)
            else lex.choice(f.labels or f.names)
        )
        name = name if style == "as" else style_name(lex, name, style)
        group = (
            {
                "address": lex.choice(("address", "location", "place")),
                "person": lex.choice(("person", "applicant", "holder")),
                "contact": "contact",
            }.get(f.group, "")
            if own and nest
            else ""
        )
        if group:
            group = next(
                (
                    a.name.split(".")[0]
                    for a in attributes
                    if a.nested and fields[attributes.index(a)] and fields[attributes.index(a)].group == f.group
                ),
                group,
            )
            name = f"{group}.{name.replace('.', '')}"
        if name in names or any(n.split(".")[0] == name for n in names) or not group and "." in name:
            continue
        names.add(name)
        kind_of = f.type
        if (
            plain
            or f.type in ("number", "integer", "date")
            and lex.chance(0.06)
            or f.type == "enum"
            and lex.chance(0.05)
        ):
            kind_of = "text"
        s = said.get(f.key) if own else None
        choices = list(f.choices) if f.type == "enum" else []
        if choices and len(docs) == 1 and len(choices) > 2 and lex.chance(0.4):
            keep = s.value if s else choices[0]
            choices = [c for c in choices if c == keep or lex.chance(0.6)]
        lex.rng.shuffle(choices)
        unit = s.unit if s and s.unit and lex.chance(0.5) else ""
        attribute = Attribute(name, kind_of, "", nested=bool(group))
        if kind_of == "items":
            parts = [("description", "text"), ("quantity", "integer"), ("price", "number")]
            if lex.chance(0.25):
                parts = [("description", "text"), ("price", "number")]
            spelled = {
                "description": lex.choice(("description", "name", "article", "item", "product")),
                "quantity": lex.choice(("quantity", "qty", "count", "pieces")),
                "price": lex.choice(("price", "amount", "unit_price")),
            }
            money_unit = next((d.item_unit for d in docs if d.item_unit), "")
            attribute.parts = [
                Attribute(
                    style_name(lex, spelled[n], style),
                    t,
                    type_words(lex, dialect, t, money_unit if n == "price" and lex.chance(0.4) else ""),
                )
                for n, t in parts
            ]
            attribute.words = "list of objects: " + ", ".join(f"{p.name} ({p.words})" for p in attribute.parts)
        else:
            attribute.words = type_words(
                lex, dialect, kind_of, unit if kind_of in ("number", "integer") else "", choices
            )
        if not plain and lex.chance(described) and f.descriptions:
            attribute.description = lex.choice(f.descriptions)
            if lex.chance(0.3):
                attribute.description = (
                    attribute.description[0].upper()
                    + attribute.description[1:]
                    + ("" if attribute.description.endswith("?") else ".")
                )
        if not plain and lex.chance(exemplified):
            attribute.examples = example_of(lex, kind, f, whole)
        fields.append(own)
        attributes.append(attribute)
    named = lex.chance(0.25)
    return Schema(
        fields,
        attributes,
        kind.name.replace("-", " ") if named else "",
        lex.choice(kind.titles).split("{")[0].strip() if named and lex.chance(0.2) else "",
    )


def record_of(schema: Schema, d: Document, name: str, source: str) -> Record:
    said = {s.field.key: s for s in d.said}
    values, items = [], []
    for f, a in zip(schema.fields, schema.attributes):
        s = said.get(f.key) if f else None
        if a.type == "items":
            keys = ["description", "quantity", "price"] if len(a.parts) == 3 else ["description", "price"]
            items = [[i[k] for k in keys] for i in d.items]
            values.append([i["description"] for i in d.items] or None)
        elif s is None or s.value is None:
            values.append(None)
        elif f.type == "enum" and a.type == "text":
            values.append(s.text)
        elif f.type == "list" and a.type == "text":
            values.append(s.value[0] if len(s.value) == 1 else UNLABELLED)
        elif f.type == "enum" and s.value not in a.words.removeprefix("one of ").split(", "):
            values.append(None)
        else:
            values.append(s.value)
    return Record(name, source, d.text, schema.attributes, values, schema.category, schema.about, items)


def everyday_record(lex: Lexicon, kind: Kind, name: str) -> Record:
    d = document(lex, kind)
    schema = make_schema(lex, kind, [d])
    made = record_of(schema, d, name, f"everyday/{kind.name}")
    if lex.chance(0.04) and not any(a.type == "items" or a.nested for a in schema.attributes):
        made.shots = [record_of(schema, document(lex, kind), "", "") for _ in range(lex.between(1, 3))]
    return made


def everyday_stack(lex: Lexicon, kind: Kind, name: str, size: int) -> list[Record]:
    docs = [document(lex, kind) for _ in range(size)]
    schema = make_schema(lex, kind, docs)
    return [record_of(schema, d, f"{name}-{n}", f"everyday/{kind.name}") for n, d in enumerate(docs)]


def emptied(r: Record, text: str, name: str) -> Record:
    """The schema with a document that says nothing of it."""
    return replace(r, id=name, source="foreign", text=text, values=[None] * len(r.values), items=[], shots=[])
