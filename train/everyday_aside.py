"""What stands beside a value in everyday documents and is not it: the weekday, an earlier value, another field's value
on the same line.

The value that is asked for stays a span of the document; only words tell it from what stands beside it.
"""

from __future__ import annotations

import re

from train.everyday_values import Value, draw
from train.lexicon import Lexicon

# {v}: the value as the document shows it; {w}: another one of its kind, which is not asked for
_DAYS = {
    "en": [
        "{v} (not {w})",
        "{v} instead of {w}",
        "{v} (originally {w})",
        "{v} (moved from {w})",
        "{v}, not {w} as first announced",
        "{v} rather than {w}",
    ],
    "de": ["{v} (nicht {w})", "{v} statt {w}", "{v} (ursprünglich {w})", "{v} (zuvor {w})"],
    "fr": ["{v} (et non {w})", "{v} au lieu de {w}", "{v} (initialement {w})"],
}
_AMOUNTS = {
    "en": [
        "{v} (not {w})",
        "{v} instead of {w}",
        "{v} (previously {w})",
        "{v} (was {w})",
        "{v} (last time {w})",
        "{v} rather than {w}",
    ],
    "de": ["{v} (bisher {w})", "{v} statt {w}", "{v} (zuvor {w})", "{v} (nicht {w})"],
    "fr": ["{v} (auparavant {w})", "{v} au lieu de {w}", "{v} (et non {w})"],
}
_PEOPLE = {
    "en": [
        "{v} (not {w})",
        "{v} (who took over from {w})",
        "{v} (standing in for {w})",
        "{v} (formerly {w})",
        "{v} in place of {w}",
        "{v}, not {w}",
    ],
    "de": ["{v} (nicht {w})", "{v} (in Vertretung von {w})", "{v} (früher {w})", "{v} statt {w}"],
    "fr": ["{v} (et non {w})", "{v} (qui remplace {w})", "{v} (auparavant {w})"],
}
_NOT = {
    "en": ["{v} (not {w})", "{v}, not {w}", "{v} (and not {w}, as was printed)"],
    "de": ["{v} (nicht {w})", "{v} und nicht {w}"],
    "fr": ["{v} (et non {w})", "{v} et non {w}"],
}
_LINES = {
    "en": ["~~{w}~~ {v}", "{v} (was {w})", "{v} (old: {w})", "now {v}, was {w}", "{w} -> {v}"],
    "de": ["~~{w}~~ {v}", "{v} (alt: {w})", "neu {v}, bisher {w}"],
    "fr": ["~~{w}~~ {v}", "{v} (ancien : {w})"],
}
_JOINS = {
    "en": [", and ", "; ", " – ", ", but ", ", while ", ", and "],
    "de": [", und ", "; ", ", aber ", " – "],
    "fr": [", et ", " ; ", ", mais ", " – "],
}
_LOWER = re.compile(
    r"(The|It|A|An|We|You|There|They|In|On|At|From|Our|Your|This|Please|Die|Der|Das|Es|Sie|Wir|Im|Am|Le|La|Les|Il|"
    r"Elle|Nous|Vous|Un|Une|On|Au)\b"
)


def with_weekday(lex: Lexicon, lang: str, made: Value) -> str:
    """A day, at times with its weekday in front, which is not part of what is copied."""
    if not made.weekday or not lex.chance(0.14):
        return made.text
    short = made.weekday[:3] if lang != "de" else made.weekday[:2] + "."
    return (
        lex.choice((f"{made.weekday} {made.text}", f"{made.weekday}, {made.text}", f"{short} {made.text}"))
        if lang != "fr"
        else f"{made.weekday} {made.text}"
    )


def corrected(lex: Lexicon, lang: str, kind: str, gen: str, text: str, shown: str, in_line: bool, has_old: bool) -> str:
    """The value with another one of its kind that it replaces, one time in twelve; where a field may ask for the
    replaced one (`has_old`), with one that was a mistake."""
    head = gen.split(" ")[0]
    forms = (
        _PEOPLE
        if head in ("person", "woman", "man")
        else (
            _DAYS
            if kind == "date" and head == "date" or head == "time"
            else (
                _AMOUNTS
                if kind in ("number", "integer") and head in ("money", "num", "count", "int", "year4") or head == "code"
                else None
            )
        )
    )
    if forms is None or not lex.chance(0.08):
        return shown
    other = draw(lex, lang, gen).text
    if other in text or text in other:
        return shown
    form = lex.choice(
        _NOT[lang] if has_old else _LINES[lang] if in_line and lex.chance(0.5) and forms is not _PEOPLE else forms[lang]
    )
    return form.replace("{w}", other).replace("{v}", shown)


def paired(lex: Lexicon, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """At times two neighbouring lines are one: "Check-in / Check-out: 14:00 / 11:00"."""
    out: list[tuple[str, str]] = []
    for label, text in rows:
        last = out[-1] if out else ("", "")
        likeness = lambda t: (any(c.isdigit() for c in t), len(t) > 24)
        if (
            last[0]
            and text
            and last[1]
            and " / " not in last[0] + last[1] + text
            and likeness(text) == likeness(last[1]) == (True, False)
            and lex.chance(0.06)
        ):
            out[-1] = (
                (f"{last[0]} / {label}", f"{last[1]} / {text}")
                if lex.chance(0.7)
                else (last[0], f"{last[1]} ({label}: {text})")
            )
        else:
            out.append((label, text))
    return out


def joined(lex: Lexicon, lang: str, sentences: list[str], values: list[str]) -> list[str]:
    """At times a sentence begins with a word that can be written small, which is not a value's, and continues the one
    before."""
    out: list[str] = []
    for s in sentences:
        if (
            out
            and out[-1].endswith(".")
            and not out[-1].endswith("..")
            and re.search(r"[^\W\d]{4,}\.$", out[-1])
            and len(out[-1]) < 110
            and _LOWER.match(s)
            and not s.startswith(tuple(values))
            and lex.chance(0.13)
        ):
            out[-1] = out[-1][:-1] + lex.choice(_JOINS[lang]) + s[0].lower() + s[1:]
        else:
            out.append(s)
    return out
