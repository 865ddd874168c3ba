"""Sentences that carry no fact anyone is asked about: the hay of the haystack, letters' openings, headings."""

from __future__ import annotations

from train.lexicon import (
    ADJECTIVES,
    COLOURS,
    FOODS,
    GOODS,
    HELD,
    JOBS,
    MONTHS,
    ROOMS,
    TRAIN,
    WEEKDAYS,
    Lexicon,
    split_list,
)

_PEOPLE = [
    "the neighbours",
    "two visitors",
    "a few children",
    "the old postman",
    "several guests",
    "the cleaners",
    "some travellers",
    "the twins next door",
    "a tired courier",
    "the market women",
    "the students",
    "a group of hikers",
    "the night guard",
]
_ACTS = [
    "walked slowly",
    "talked for a long time",
    "waited without a word",
    "laughed about the weather",
    "drank tea",
    "looked for shelter",
    "counted the steps",
    "sang an old song",
    "argued about the bill",
    "took a short rest",
    "admired the view",
    "went home early",
]
_WHERE = [
    "by the river",
    "in the square",
    "at the corner",
    "near the station",
    "along the canal",
    "behind the market",
    "under the trees",
    "outside the gate",
    "on the bench",
    "in front of the bakery",
    "across the street",
    "at the edge of the village",
]
_WHEN = [
    "in the morning",
    "after lunch",
    "late at night",
    "before sunset",
    "during the storm",
    "at the weekend",
    "last winter",
    "all afternoon",
    "once a week",
    "now and then",
    "as usual",
    "for the first time",
]
_WEATHER = ["mild", "windy", "cold", "warm", "wet", "grey", "calm", "foggy", "bright", "harsh"]
_PATTERNS = [
    "{people} {act} {where}.",
    "{when}, {people} {act}.",
    "The weather was {weather} {when}.",
    "Nobody could remember why {people} {act}.",
    "It was {weather} and {people} {act} {where}.",
    "A {adj} sign hung {where}.",
    "There were {adj} {goods} {where}.",
    "Someone had left {adj} {goods} in the {room}.",
    "The price of {goods} went up in {month}.",
    "People say that {month} is the best month for {goods}.",
    "On {day} the market sells {food} and {goods}.",
    "Many people like {colour} walls, but not everyone does.",
    "A {job} repaired the {adj} roof {when}.",
    "The {room} had been swept {when}.",
    "Nothing else happened {where} that {day}.",
    "The path {where} is {adj} and easy to miss.",
    "{people} asked for {food}, and {people} brought {goods}.",
    "It is not known how long this will last.",
    "The smell of {food} came from the {room}.",
    "{when} the lights went out for an hour.",
    "Visitors are kindly asked to close the gate.",
    "Every {job} in the village knows the story of the {adj} {goods}.",
    "The rest of the page is hard to read.",
    "{people} {act} while {people} {act}.",
    "More about this can be read in the next chapter.",
    "The old map shows a road {where}.",
    "No one paid attention to the {adj} {goods} {where}.",
    "A letter arrived in {month}, but it was blank.",
    "Some {goods} were sold {where} for a good price.",
    "It took {people} the whole {day} to find the {room}.",
]
_PATTERNS_OF = {s: split_list(_PATTERNS, s, 3) for s in (TRAIN, HELD)}
_HEADS = [
    "Notes",
    "Report",
    "News of the week",
    "From the archive",
    "Diary",
    "Summary",
    "Overview",
    "Letter to the editor",
    "Local stories",
    "Minutes of the meeting",
    "Guide",
    "What we know so far",
    "Questions and answers",
    "Inventory",
]
_OPENINGS = ["Dear reader,", "Dear {w},", "Hello everyone,", "To whom it may concern,", "Good morning,", "My dear {w},"]
_FILLS = {
    "people": _PEOPLE,
    "act": _ACTS,
    "where": _WHERE,
    "when": _WHEN,
    "weather": _WEATHER,
    "adj": ADJECTIVES,
    "goods": GOODS,
    "room": ROOMS,
    "month": MONTHS,
    "day": WEEKDAYS,
    "food": FOODS,
    "colour": COLOURS,
    "job": JOBS,
}


def _compile(pattern: str) -> list[tuple[str, list[str] | None]]:
    """`a {b} c` → [(a, options of b), (c, None)]: literal text, then the slot after it."""
    out: list[tuple[str, list[str] | None]] = []
    for piece in pattern.split("{"):
        if "}" not in piece:
            out.append((piece, None))
            continue
        name, rest = piece.split("}", 1)
        out[-1] = (out[-1][0], _FILLS[name])
        out.append((rest, None))
    return out


_COMPILED = {s: [_compile(p) for p in patterns] for s, patterns in _PATTERNS_OF.items()}


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def filler(lex: Lexicon) -> str:
    """One sentence of hay."""
    parts = []
    for literal, options in lex.choice(_COMPILED[lex.split]):
        parts.append(literal)
        if options is not None:
            parts.append(lex.choice(options))
    return capital("".join(parts))


def heading(lex: Lexicon) -> str:
    head = lex.choice(_HEADS)
    return head if lex.chance(0.6) else f"{head}: {lex.word()}"


def opening(lex: Lexicon) -> str:
    return lex.choice(_OPENINGS).replace("{w}", lex.word())
