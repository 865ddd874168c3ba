"""Does a value stand in a document? Texts word for word; numbers and dates in any usual notation of English, German and
French."""

from __future__ import annotations

import re

_WORDS = {
    "en": (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
        " seventeen eighteen nineteen twenty"
    ),
    "de": (
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn"
        " siebzehn achtzehn neunzehn zwanzig"
    ),
    "fr": (
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept"
        " dix-huit dix-neuf vingt"
    ),
}
_MORE = {
    "half": 0.5,
    "halb": 0.5,
    "halbe": 0.5,
    "demi": 0.5,
    "dozen": 12,
    "dutzend": 12,
    "douzaine": 12,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "dreißig": 30,
    "vierzig": 40,
    "fünfzig": 50,
    "sechzig": 60,
    "siebzig": 70,
    "achtzig": 80,
    "neunzig": 90,
    "hundert": 100,
    "tausend": 1000,
    "trente": 30,
    "quarante": 40,
    "cinquante": 50,
    "soixante": 60,
    "cent": 100,
    "mille": 1000,
    "first": 1,
    "second": 2,
    "third": 3,
    "once": 1,
    "twice": 2,
    "erste": 1,
    "zweite": 2,
    "dritte": 3,
    "premier": 1,
    "première": 1,
    "deuxième": 2,
}
# Without articles ("un"), and without a word that is no number elsewhere ("null").
NUMBER_WORDS = {
    w: n
    for w, n in [*((w, n) for line in _WORDS.values() for n, w in enumerate(line.split())), *_MORE.items()]
    if w not in ("un", "null")
}
_MONTHS = [
    "jan",
    "feb fév fev",
    "mar mär",
    "apr avr",
    "may mai",
    "jun juin",
    "jul juil",
    "aug août aou",
    "sep",
    "oct okt",
    "nov",
    "dec dez déc",
]
_NUMBER = re.compile(r"\d[\d.,'’\u00a0\u202f ]*\d|\d")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
# What may lie between a number as it stands in the text and the same in the unit that is asked for.
FACTORS = [10.0**k for k in range(-6, 7)] + [
    1 / 12,
    1 / 24,
    1 / 60,
    1 / 3600,
    7,
    12,
    24,
    52,
    60,
    3600,
    2.54,
    25.4,
    0.3048,
    0.45359237,
    1.609344,
    1 / 7,
]


def _readings(digits: str) -> set[float]:
    """1.234,50 → 1234.5; 1,234 → 1234 and 1.234; 12 30 → also 12 and 30."""
    found: set[float] = set()
    for text in {digits, *re.split(r"[ \u00a0\u202f]", digits), *re.split(r"[^\d]", digits)}:
        text = re.sub(r"[ \u00a0\u202f'’]", "", text).strip(".,")
        for group, point in ((",", "."), (".", ",")):
            plain = text.replace(group, "").replace(point, ".")
            if re.fullmatch(r"\d+(\.\d+)?", plain):
                found.add(float(plain))
    return found


def numbers(text: str) -> set[float]:
    """All numbers that the text may mean, in digits and in words."""
    found = {n for match in _NUMBER.finditer(text) for n in _readings(match.group())}
    for word in _WORD.findall(text.lower()):
        for part in {word, *word.split("-")}:
            if part in NUMBER_WORDS:
                found.add(float(NUMBER_WORDS[part]))
    return found


def plain(text: str) -> str:
    return " ".join(text.lower().split())


def stands_in(value, text: str, kind: str, factors: list[float] = FACTORS) -> bool:
    """`kind`: the attribute's type. True for what the schema allows on its own: booleans, enum values and null.
    `factors` [1]: no units."""
    if value is None or kind in ("boolean", "enum"):
        return True
    if isinstance(value, list):
        return all(stands_in(v, text, "text" if isinstance(v, str) else "number", factors) for v in value)
    if kind == "date" and isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        year, month, day = (int(p) for p in value.split("-"))
        found, words = numbers(text), [w.lower() for w in _WORD.findall(text)]
        named = month in found or any(w.startswith(m) for w in words for m in _MONTHS[month - 1].split())
        return named and day in found and (year in found or year % 100 in found)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (
            any(abs(value - n * f) <= 1e-9 * max(abs(value), 1e-9) for n in numbers(text) for f in factors)
            if value
            else 0.0 in numbers(text)
        )
    return plain(str(value)) in plain(text)
