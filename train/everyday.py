"""Generated everyday documents with typed values: `train/everyday/*.txt` names the kinds of documents, their fields and
how people say them.

A file has kinds, a kind has fields:

    # kind | language | title || title          I: beginnings   O: endings   D: sentences with other numbers and dates
    @ key@group | type | generator | names; …   the schema's names, the document's labels, descriptions
    S: sentences with {v}   T:, F: sentences that say true and false   X: sentences that speak of it and do not say it
    @+ key key                                  fields of common.txt
    P: sentences with {=key} of two or more fields, side by side   L: label = generator: lines with values that no field
    asks for <: key key key                              dates, times or amounts that grow in this order

A document is rendered as prose, as lines with labels, as a table, as a list, as a mail or a chat, or as a mixture. What
is expected of a field is a span of the document (a list: spans; true or false; an enum's value, also for another word
for it), or null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from train import everyday_aside as aside
from train.everyday_values import Value, draw, habits
from train.lexicon import Lexicon

FOLDER = Path(__file__).parent / "everyday"
HELD_KINDS = ("holiday-home", "delivery-note", "school-letter", "kleinanzeige", "recette")
_DRAWN = re.compile(r"\{(\w[\w ,.%²°/äöüßéè-]*)\}")
NO_VALUE = {
    "en": ["-", "n/a", "tbd", "", "unknown", "to be confirmed", "—", "on request", "not specified", "?"],
    "de": ["-", "k. A.", "", "auf Anfrage", "unbekannt", "—"],
    "fr": ["-", "n.c.", "", "à définir", "inconnu", "—"],
}
YES = {
    "en": ["yes", "Yes", "YES", "y", "✓", "allowed", "available", "true", "x", "of course"],
    "de": ["ja", "Ja", "✓", "vorhanden", "möglich", "erlaubt"],
    "fr": ["oui", "Oui", "✓", "possible", "disponible"],
}
NO = {
    "en": ["no", "No", "NO", "n", "✗", "not allowed", "none", "not available", "false", "no way"],
    "de": ["nein", "Nein", "✗", "nicht vorhanden", "nicht möglich", "nicht erlaubt"],
    "fr": ["non", "Non", "✗", "impossible", "non disponible"],
}
AND = {"en": " and ", "de": " und ", "fr": " et "}


@dataclass
class Field:
    key: str
    group: str
    type: str
    gen: str
    names: list[str]
    labels: list[str]
    descriptions: list[str]
    say: list[str] = field(default_factory=list)
    true: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)

    @property
    def choices(self) -> dict[str, list[str]]:
        """Of an enum: value → words for it."""
        return {v: [w.strip() for w in ws.split(",")] for v, ws in (part.split("=") for part in self.gen.split(";"))}


@dataclass
class Kind:
    name: str
    lang: str
    titles: list[str]
    fields: list[Field] = field(default_factory=list)
    intro: list[str] = field(default_factory=list)
    outro: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)

    @property
    def has_old(self) -> bool:
        """Whether a field may ask for a value that another one replaces."""
        return bool(self.pairs) or any(
            re.match(r"(old|previous|original|former|regular|list)_", n) for f in self.fields for n in f.names
        )


@dataclass
class Said:
    """A field of a document: `value` as it is to be written, None for null; `label` and `text` of a line, or a
    `sentence`; `shown`: the value as a sentence about several fields says it."""

    field: Field
    value: object
    label: str
    text: str
    sentence: str
    unit: str = ""
    shown: str = ""


@dataclass
class Document:
    kind: Kind
    text: str
    said: list[Said]
    items: list[dict] = field(default_factory=list)
    item_unit: str = ""


def _split(text: str, mark: str) -> list[str]:
    return [t.strip() for t in text.split(mark) if t.strip()]


def parse(text: str, common: dict[str, Field]) -> list[Kind]:
    kinds: list[Kind] = []
    for number, line in enumerate(text.splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if mark == "#":
            name, lang, *titles = _split(rest, " | ") if " | " in rest else [rest]
            kinds.append(Kind(name, lang, _split(titles[0], "||") if titles else []))
        elif mark == "@":
            parts = [p.strip() for p in rest.split("|")]
            if len(parts) != 6:
                raise ValueError(f"line {number}: expected six parts, found {len(parts)}: {line[:60]}")
            key, _, group = parts[0].partition("@")
            kinds[-1].fields.append(Field(key, group, parts[1], parts[2], *(_split(p, ";") for p in parts[3:])))
        elif mark == "@+":
            kinds[-1].fields += [common[k] for k in rest.split()]
        elif mark in ("I:", "O:", "D:", "P:", "L:"):
            of_kind = kinds[-1]
            dict(
                zip(
                    ("I:", "O:", "D:", "P:", "L:"),
                    (of_kind.intro, of_kind.outro, of_kind.other, of_kind.pairs, of_kind.lines),
                )
            )[mark].extend(_split(rest, "||"))
        elif mark == "<:":
            kinds[-1].orders.append(rest.split())
        elif mark in ("S:", "T:", "F:", "X:"):
            of = kinds[-1].fields[-1]
            dict(zip(("S:", "T:", "F:", "X:"), (of.say, of.true, of.false, of.near)))[mark].extend(_split(rest, "||"))
        elif line.strip():
            raise ValueError(f"line {number}: not known: {line[:60]}")
    return kinds


@lru_cache
def kinds() -> tuple[Kind, ...]:
    common = {f.key: f for f in parse((FOLDER / "common.txt").read_text(encoding="utf-8"), {})[0].fields}
    return tuple(
        k
        for file in sorted(FOLDER.glob("*.txt"))
        if file.name != "common.txt"
        for k in parse(file.read_text(encoding="utf-8"), common)
    )


def fill(lex: Lexicon, lang: str, text: str) -> str:
    def one(m: re.Match) -> str:
        made = draw(lex, lang, m[1])
        return made.text or ", ".join(made.items)

    return _DRAWN.sub(one, text)


def framing(lex: Lexicon, kind: Kind, options: list[str], said: list[Said]) -> str:
    """A title, beginning or end. What it names is what the document says; it never names what a field of the kind would
    have to be."""
    told = {s.field.gen: s.text if s.field.type == "enum" else s.value for s in said if isinstance(s.value, str)}
    shared = [f.gen for f in kind.fields]  # a name that two fields could have would say nothing of which it is
    gens = {g for g in shared if g not in told or shared.count(g) > 1}
    fitting = [o for o in options if not gens.intersection(_DRAWN.findall(o))]
    return fill(lex, kind.lang, _DRAWN.sub(lambda m: told.get(m[1], m[0]), lex.choice(fitting))) if fitting else ""


def put(sentence: str, mark: str, text: str) -> str:
    """The sentence with the text for its mark; a text that ends in a point needs no other one."""
    return (
        sentence.replace(mark + ".", text) if text.endswith(".") and sentence.endswith(mark + ".") else sentence
    ).replace(mark, text)


def value_of(lex: Lexicon, kind: Kind, f: Field) -> Value:
    """One for the field; a whole number where it wants one."""
    made = draw(lex, kind.lang, f.gen)
    for _ in range(8):
        if f.type != "integer" or not re.search(r"\d[.,]\d{1,2}(?!\d)|half", made.text):
            break
        made = draw(lex, kind.lang, f.gen)
    return made


def say(lex: Lexicon, kind: Kind, f: Field, made: Value | None = None) -> Said:
    """A value for the field, or the given one, and how the document says it."""
    lang, label = kind.lang, lex.choice(f.labels or f.names)
    if f.type == "boolean":
        value = lex.chance(0.5)
        return Said(
            f,
            value,
            label,
            lex.choice((YES if value else NO)[lang]),
            fill(lex, lang, lex.choice(f.true if value else f.false)),
        )
    if f.type == "enum":
        value = lex.choice(list(f.choices))
        word = lex.choice(f.choices[value])
        return Said(f, value, label, word, lex.choice(f.say).replace("{v}", word), shown=word)
    made = made or value_of(lex, kind, f)
    if f.type == "list":
        items = made.items
        joined = items[0] if len(items) == 1 else ", ".join(items[:-1]) + AND[lang] + items[-1]
        return Said(
            f,
            items,
            label,
            lex.choice((", ", ", ", "; ", " / ", ",")).join(items),
            lex.choice(f.say).replace("{v}", joined),
        )
    text = made.text
    shown = aside.with_weekday(lex, lang, made)
    sentence = put(
        lex.choice(f.say), "{v}", aside.corrected(lex, lang, f.type, f.gen, text, shown, False, kind.has_old)
    )
    if (
        made.bare and not made.bare.isalpha() and lex.chance(0.12)
    ):  # the unit stands with the label: the number alone is the value
        return Said(
            f,
            made.bare,
            f"{label} ({made.unit})" if lex.chance(0.7) else f"{label} in {made.unit}",
            made.bare,
            "",
            made.unit,
        )
    return Said(
        f,
        text,
        label,
        aside.corrected(lex, lang, f.type, f.gen, text, shown, True, kind.has_old),
        sentence,
        made.unit,
        shown,
    )


def absent(lex: Lexicon, kind: Kind, f: Field) -> Said:
    """The field without a value: nothing, a label with nothing behind it, or a sentence that does not say it."""
    label = lex.choice(f.labels or f.names)
    near = lex.choice(f.near) if f.near and lex.chance(0.5) else ""
    if near and re.search(r"\bfree\b|\bfrei\b|libre", near) and f.type != "date":
        near = "" if lex.chance(0.5) else near
    return Said(f, None, label if lex.chance(0.25) else "", lex.choice(NO_VALUE[kind.lang]), fill(lex, kind.lang, near))


def item_lines(lex: Lexicon, kind: Kind, f: Field) -> tuple[list[dict], list[str], str]:
    """(items with description, quantity and price as written, their lines, unit of the price)"""
    n, unit, items = lex.between(1, 5), "EUR", []
    style, sign = lex.between(0, 5), lex.choice(("€", "EUR", "$", "£", ""))
    for _ in range(n):
        name = draw(lex, kind.lang, f.gen).text
        name = name[0].upper() + name[1:] if lex.chance(0.7) else name
        if any(name == i["description"] for i in items):
            continue
        amount = lex.between(1, 400) + lex.between(0, 99) / 100
        number = f"{amount:.2f}".replace(".", "." if kind.lang == "en" else ",")
        price = number if not sign else sign + number if sign in "$£" else f"{number} {sign}"
        items.append(dict(description=name, quantity=str(lex.between(1, 12)), price=price))
    head = lex.choice(
        {
            "en": ["Item | Qty | Price", "Description | Quantity | Amount", "Article | Pcs | Unit price"],
            "de": ["Artikel | Menge | Preis", "Bezeichnung | Anzahl | Einzelpreis"],
            "fr": ["Article | Quantité | Prix", "Désignation | Qté | P.U."],
        }[kind.lang]
    )
    line = {
        0: lambda i, k: f"{i['description']} | {i['quantity']} | {i['price']}",
        1: lambda i, k: f"{i['quantity']} x {i['description']}  {i['price']}",
        2: lambda i, k: f"- {i['description']}, {i['quantity']} × {i['price']}",
        3: lambda i, k: f"{k}. {i['description']}\t{i['quantity']}\t{i['price']}",
        4: lambda i, k: f"| {i['description']} | {i['quantity']} | {i['price']} |",
        5: lambda i, k: (
            f"{i['description']} ({i['quantity']} à {i['price']})"
            if kind.lang != "en"
            else f"{i['description']}: {i['quantity']} at {i['price']} each"
        ),
    }[style]
    lines = ([head] if style == 0 else [f"| {head} |", "|---|---|---|"] if style == 4 else []) + [
        line(i, k) for k, i in enumerate(items, 1)
    ]
    return items, lines, {"$": "USD", "£": "GBP"}.get(sign, unit)


def labelled(lex: Lexicon, rows: list[tuple[str, str]]) -> str:
    """(label, text) as lines, a table or one line."""
    mark = lex.choice((": ", ": ", ": ", " : ", " - ", " = ", ":\n  ", "\t", " – ", ":"))
    style = lex.between(0, 9)
    if style == 0:
        return "\n".join(f"| {a} | {b} |" for a, b in rows)
    if style == 1 and len(rows) > 1:
        cell = lex.choice((" | ", ";", ",", "\t"))
        return (
            cell.join(a for a, _ in rows) + "\n" + cell.join(b for _, b in rows)
            if not any(cell.strip() and cell.strip() in b for _, b in rows)
            else "\n".join(f"{a}: {b}" for a, b in rows)
        )
    if style == 2:
        return "\n".join(
            lex.choice(("- ",)) + f"{a}{mark.strip() if mark.strip() == ':' else ':'} {b}" for a, b in rows
        )
    if style == 3:
        return lex.choice((" | ", "; ", ", ", " · ")).join(f"{a}: {b}" for a, b in rows)
    if style == 4:
        width = max(len(a) for a, _ in rows) + 2
        return "\n".join(f"{a:<{width}}{b}" for a, b in rows)
    if style == 5:
        return "\n".join(f"**{a}:** {b}" for a, b in rows)
    if style == 6:
        return "\n".join(f"{a.upper()}{mark}{b}" for a, b in rows)
    return "\n".join(f"{a}{mark}{b}" for a, b in rows)


def prose(lex: Lexicon, sentences: list[str], chat: bool) -> str:
    if chat:
        who = [
            lex.choice(("Anna", "Ben", "Mia", "Tom", "Customer", "Agent", "Lea", "Paul", "A", "B", "Nina", "Omar"))
            for _ in range(2)
        ]
        return "\n".join(f"{who[i % 2]}: {s}" for i, s in enumerate(sentences))
    if lex.chance(0.12):
        return "\n".join(f"{lex.choice(('- ', '* ', '• '))[:2]}{s}" for s in sentences)
    out, rest = [], list(sentences)
    while rest:
        size = lex.between(2, 6)
        out.append(" ".join(rest[:size]))
        rest = rest[size:]
    return lex.choice(("\n\n", "\n", "\n\n")).join(out)


def in_order(lex: Lexicon, kind: Kind, fields: list[Field]) -> dict[str, Value]:
    """Values of the fields that have an order, by key."""
    out: dict[str, Value] = {}
    for keys in kind.orders:
        ordered = sorted((f for f in fields if f.key in keys and f.key not in out), key=lambda f: keys.index(f.key))
        if len(ordered) > 1:
            made = sorted((value_of(lex, kind, f) for f in ordered), key=lambda v: v.order)
            out |= {f.key: v for f, v in zip(ordered, made)}
    return out


def together(lex: Lexicon, kind: Kind, said: list[Said]) -> dict[int, str]:
    """Sentences of the kind that say two or more of the fields at once: id of a Said → the sentence, or "" for the
    others that it says."""
    known, out = {s.field.key: s for s in said if isinstance(s.value, str) and s.sentence and s.shown}, {}
    for pattern in lex.rng.sample(kind.pairs, len(kind.pairs)):
        keys = re.findall(r"\{=(\w+)\}", pattern)
        if all(k in known and id(known[k]) not in out for k in keys) and lex.chance(0.7):
            sentence = fill(lex, kind.lang, pattern)
            for k in keys:
                sentence = put(sentence, "{=" + k + "}", known[k].shown)
            out |= {id(known[k]): "" for k in keys[1:]} | {id(known[keys[0]]): sentence}
    return out


def document(lex: Lexicon, kind: Kind, missing: float = 0.2) -> Document:
    """One of the kind: 4 to all of its fields, some without a value."""
    habits(lex, kind.lang)
    fields = [f for f in kind.fields if f.type != "items"]
    chosen = lex.rng.sample(fields, min(len(fields), lex.between(4, 14)))
    chosen.sort(key=fields.index)
    empty = [lex.chance(missing) for _ in chosen]
    values = in_order(lex, kind, [f for f, none in zip(chosen, empty) if not none])
    said = [absent(lex, kind, f) if none else say(lex, kind, f, values.get(f.key)) for f, none in zip(chosen, empty)]
    seen: set[str] = set()
    # Two fields with one text (a total and a net that are equal) are still two fields: keep them apart.
    for s in said:
        if isinstance(s.value, str) and s.field.type != "enum":
            for _ in range(6):
                if s.value in seen:
                    other = say(lex, kind, s.field)
                    s.value, s.label, s.text, s.sentence, s.unit, s.shown = (
                        other.value,
                        other.label,
                        other.text,
                        other.sentence,
                        other.unit,
                        other.shown,
                    )
            seen.add(s.value)
    share = lex.choice((0.0, 0.0, 1.0, 1.0, 0.5, 0.3, 0.7))  # of the fields with labels
    rows, sentences = [], []
    pairs = together(lex, kind, said) if share < 1 or lex.chance(0.5) else {}
    for s in said:
        if id(s) in pairs:
            sentences += [pairs[id(s)]] if pairs[id(s)] else []
            continue
        if not s.sentence and s.value is None and not s.label:
            continue
        if (
            s.label
            and (not s.sentence or lex.chance(share))
            and not (s.value is None and s.sentence and lex.chance(0.5))
        ):
            rows.append((s.label, s.text))
        elif s.sentence:
            sentences.append(s.sentence)
    if rows and kind.lines:
        more = [
            line.partition("=")
            for line in lex.rng.sample(kind.lines, min(len(kind.lines), lex.choice((0, 1, 1, 2, 3))))
        ]
        rows += [(name.strip(), fill(lex, kind.lang, "{" + gen.strip() + "}")) for name, _, gen in more]
    if lex.chance(0.5 if kind.lines else 0.4):
        lex.rng.shuffle(rows)
    rows = aside.paired(lex, rows)
    others = [
        fill(lex, kind.lang, t)
        for t in lex.rng.sample(
            kind.other, min(len(kind.other), lex.choice((0, 1, 1, 2, 3) if len(kind.other) < 7 else (0, 1, 2, 3, 4, 5)))
        )
    ]
    sentences += others
    if lex.chance(0.7):
        lex.rng.shuffle(sentences)
    sentences = aside.joined(
        lex,
        kind.lang,
        sentences,
        [v for s in said for v in (s.value if isinstance(s.value, list) else [s.text]) if v and s.value is not None],
    )
    items, lines, unit = [], [], ""
    of_items = next((f for f in kind.fields if f.type == "items"), None)
    if of_items and lex.chance(0.55):
        items, lines, unit = item_lines(lex, kind, of_items)
    chat = kind.name == "chat" and lex.chance(0.7) or lex.chance(0.03)
    body = [labelled(lex, rows)] if rows else []
    if sentences:
        body.insert(lex.between(0, len(body)), prose(lex, sentences, chat))
    if lines:
        body.insert(lex.between(0, len(body)), "\n".join(lines))
    intro = framing(lex, kind, kind.intro, said) if lex.chance(0.45) else ""
    outro = framing(lex, kind, kind.outro, said) if lex.chance(0.35) else ""
    title = framing(lex, kind, kind.titles, said) if lex.chance(0.7) else ""
    head = lex.choice((title, f"# {title}", f"Subject: {title}" if kind.lang == "en" else title)) if title else ""
    text = lex.choice(("\n\n", "\n\n", "\n")).join(part for part in (head, intro, *body, outro) if part).strip()
    return Document(kind, text, said, items, unit)
