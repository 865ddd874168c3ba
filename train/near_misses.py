"""Questions that look answerable and are not: a question on a text, changed in one word or name, as the people did who
wrote SQuAD 2.0's.

`near_miss` takes one of the rules that fit, by weight:

    a name            another name of the text, or one word of a longer name exchanged ("Twilight Princess" → "Radar
    Princess") a date or number  another one of the text, or one that is near it an opposite       OPPOSITES, SHIFTED
    ("first" → "second") a content word    another word of the text of the same ending and length, from a sentence far
    from the answer a negation        rarely: "n't" alone must not come to mean null

About one in ten is answerable after all; the mixture weighs them down.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

from train.cloze import sentences, spans

OPPOSITES = [
    p.split("/")
    for p in (
        "first/last largest/smallest biggest/smallest most/least highest/lowest oldest/youngest longest/shortest"
        " earliest/latest before/after more/less higher/lower larger/smaller increase/decrease increased/decreased"
        " increasing/decreasing won/lost north/south northern/southern east/west eastern/western started/ended"
        " began/ended begin/end born/died win/lose above/below best/worst rise/fall rose/fell early/late founded/closed"
        " opened/closed bought/sold buy/sell majority/minority maximum/minimum married/divorced arrive/leave"
        " included/excluded include/exclude like/dislike liked/disliked remember/forget cheap/expensive old/new"
        " positive/negative public/private official/unofficial major/minor male/female men/women man/woman"
        " father/mother son/daughter brother/sister king/queen husband/wife day/night morning/evening winter/summer"
        " support/opposition supported/opposed support/oppose accepted/rejected accept/reject allowed/forbidden"
        " allow/forbid succeeded/failed success/failure strong/weak stronger/weaker strongest/weakest fast/slow"
        " faster/slower hot/cold hotter/colder wet/dry heavy/light heavier/lighter hard/soft rich/poor richest/poorest"
        " common/rare modern/ancient inside/outside upper/lower top/bottom left/right front/back front/rear long/short"
        " tall/short wide/narrow deep/shallow high/low big/small large/small many/few always/never internal/external"
        " domestic/foreign urban/rural import/export imports/exports direct/indirect active/passive visible/invisible"
        " able/unable legal/illegal known/unknown likely/unlikely possible/impossible popular/unpopular"
        " successful/unsuccessful regular/irregular formal/informal equal/unequal temporary/permanent prequel/sequel"
        " hero/villain friend/enemy attack/defend attacked/defended gained/lost gain/lose added/removed add/remove"
        " built/destroyed created/destroyed create/destroy appeared/disappeared entered/left joined/left"
        " landed/departed arrived/departed raised/lowered expanded/reduced grew/shrank grow/shrink improve/worsen"
        " improved/worsened praised/criticized agree/disagree agreed/disagreed approve/reject approved/rejected"
        " connect/separate begins/ends started/stopped start/stop gave/took give/take sent/received send/receive"
        " lent/borrowed employer/employee buyer/seller winner/loser teacher/student beginning/end start/finish"
        " full/empty rough/smooth thick/thin guilty/innocent freedom/slavery peace/war victory/defeat profit/loss"
    ).split()
]
SHIFTED = [
    w.split()
    for w in (
        "first second third fourth fifth sixth seventh eighth ninth tenth",
        "one two three four five six seven eight nine ten eleven twelve",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "January February March April May June July August September October November December",
        "north south east west",
        "northern southern eastern western",
        "spring summer autumn winter",
        "hours days weeks months years",
        "red green blue yellow black white brown",
        "breakfast lunch dinner",
        "primary secondary tertiary",
    )
]
_OPPOSITE: dict[str, list[str]] = {}
for _a, _b in OPPOSITES:
    _OPPOSITE.setdefault(_a, []).append(_b)
    _OPPOSITE.setdefault(_b, []).append(_a)
_NEGATED = re.compile(r"\b(did|does|do|was|were|is|are|has|have|could|would|should)\b(?! not\b)", re.I)
_WORD = re.compile(r"[A-Za-z][a-z]{3,}")
_ENDINGS = ("ing", "ed", "tion", "ment", "ity", "ers", "er", "ly", "al", "ous", "ive", "es", "s", "")
_NO_CONTENT = set(
    "what when where which whose whom does have been were with that this from into than then they them their there"
    " these those about after before during between among under over some many much more most other such only also very"
    " just like used name type kind called known made make makes being could would should will shall must might upon"
    " both each every because while since until through within without against according another your mine ours hers"
    " being having doing long often year years time people person place country city".split()
)


def _ending(word: str) -> str:
    return next(e for e in _ENDINGS if word.endswith(e))


@lru_cache(maxsize=256)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


@lru_cache(maxsize=16)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(sentences(text))


@lru_cache(maxsize=1024)
def _spans(sentence: str) -> tuple[tuple[str, str], ...]:
    """(text, kind) of the names, dates and numbers."""
    return tuple((sentence[x.begin : x.end], x.kind) for x in spans(sentence))


def _has(text: str, word: str) -> bool:
    return word.lower() in _words(text)


def _replaced(question: str, word: str, other: str) -> str:
    """The first occurrence of the word; a capital stays one."""
    return re.sub(
        rf"\b{re.escape(word)}\b",
        lambda m: other[:1].upper() + other[1:] if m.group()[:1].isupper() else other,
        question,
        count=1,
    )


def _turned(rng: random.Random, question: str, text: str) -> str | None:
    """A word's opposite, or its neighbour in a row, that the text does not have."""
    ways = [
        (w, o) for w in re.findall(r"[A-Za-z]+", question) for o in _OPPOSITE.get(w.lower(), []) if not _has(text, o)
    ]
    ways += [
        (w, o)
        for w in re.findall(r"[A-Za-z]+", question)
        for row in SHIFTED
        if w in row or w.lower() in row
        for o in row
        if o not in (w, w.lower()) and not _has(text, o)
    ]
    if not ways:
        return None
    word, other = rng.choice(ways)
    return _replaced(question, word, other)


def _near_number(rng: random.Random, kept: str) -> str | None:
    """The number's own notation with another last digits: 1985 → 1981, $6.4 million → $8.4 million."""
    m = re.search(r"\d+", kept)
    if m is None:
        return None
    old, digits = int(m.group()), len(m.group())
    year = digits == 4 and 1000 <= old <= 2100
    new = (
        old + rng.choice((-30, -20, -10, -5, -3, -2, -1, 1, 2, 3, 5, 10, 20))
        if year
        else rng.choice([n for n in {old + 1, old + 2, max(1, old - 1), old * 2, old + 10, old + 5} if n != old])
    )
    return kept[: m.start()] + str(new).zfill(digits if m.group().startswith("0") else 0) + kept[m.end() :]


def _swapped(
    rng: random.Random,
    question: str,
    text: str,
    home: str,
    golds: list[str],
    pool: dict[str, list[str]],
    names: list[str],
) -> str | None:
    """A name, date or number of the question, exchanged."""
    named = [
        s
        for s in spans(question)
        if question[s.begin : s.end] in text and not any(question[s.begin : s.end] in g for g in golds)
    ]
    if not named:
        return None
    s = rng.choice(named)
    kept = question[s.begin : s.end]
    put = lambda new, span=s: question[: span.begin] + new + question[span.end :]
    if s.kind in ("year", "number", "date") and rng.random() < 0.5:
        near = _near_number(rng, kept)
        return put(near) if near and near not in text else None
    words = kept.split()
    if s.kind == "name" and len(words) > 1 and rng.random() < 0.4:  # one word of a longer name
        at = rng.randrange(len(words))
        other = [
            w
            for n in names
            for w in n.split()
            if w[:1].isupper() and len(w) > 2 and w not in question and w not in home and not any(w in g for g in golds)
        ]
        if other and words[at][:1].isupper():
            words[at] = rng.choice(other)
            return put(" ".join(words))
    here = [
        t
        for line in _sentences(text)
        if line != home
        for t, kind in _spans(line)
        if kind == s.kind and t not in home and t not in question and t not in golds and kept not in t and t not in kept
    ]
    others = pool[s.kind]
    other = here or [t for t in (rng.choice(others) for _ in range(min(8, len(others)))) if t not in text]
    return put(rng.choice(other)) if other else None


def _exchanged(rng: random.Random, question: str, text: str, home: str, golds: list[str]) -> str | None:
    """A content word that stands near the answer, exchanged for one of the same ending from elsewhere in the text."""
    asked = [w for w in _WORD.findall(question)[1:] if w.islower() and w not in _NO_CONTENT and _has(text, w)]
    if not asked:
        return None
    word = rng.choice([w for w in asked if _has(home, w)] or asked)
    far = " ".join(s for s in _sentences(text) if s != home)
    other = [
        w
        for w in set(_WORD.findall(far))
        if w.islower()
        and w not in _NO_CONTENT
        and _ending(w) == _ending(word)
        and abs(len(w) - len(word)) <= 4
        and w[:4] != word[:4]
        and not _has(home, w)
        and not _has(question, w)
        and not any(_has(g, w) for g in golds)
    ]
    return _replaced(question, word, rng.choice(sorted(other))) if other else None


def _negated(rng: random.Random, question: str, home: str) -> str | None:
    m = _NEGATED.search(question)
    if m is None or re.search(r"\bnot\b|n't\b", home):
        return None
    return question[: m.end()] + ("n't" if rng.random() < 0.5 else " not") + question[m.end() :]


def near_miss(
    rng: random.Random, text: str, question: str, answer: str, golds: list[str], pool: dict[str, list[str]]
) -> str | None:
    """The question changed so that the text answers it no more; None where no rule fits. `pool`: names, dates and
    numbers of other texts by kind."""
    home = next((s for s in _sentences(text) if answer in s), "")
    names = [t for line in _sentences(text) for t, kind in _spans(line) if kind == "name"]
    if rng.random() < 0.04 and (made := _negated(rng, question, home)):
        return made
    rules = [
        (0.4, lambda: _swapped(rng, question, text, home, golds, pool, names)),
        (0.3, lambda: _turned(rng, question, text)),
        (0.3, lambda: _exchanged(rng, question, text, home, golds)),
    ]
    while rules:
        at = rng.choices(range(len(rules)), [w for w, _ in rules])[0]
        made = rules.pop(at)[1]()
        if made and made != question:
            return made
    return None
