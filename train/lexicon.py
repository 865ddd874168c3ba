"""Words, names and values of the generated texts, split into a training and a held-out half.

Names are made of syllables. Every syllable belongs to exactly one split, and a name uses syllables of its own split
only, so no held-out name (or part of it) is ever seen in training. Everyday words (colours, foods, jobs) are shared:
they are vocabulary, and which of them is the right answer still has to be read from the text.
"""

from __future__ import annotations

import random
import re
import zlib
from typing import Callable

TRAIN, HELD = "train", "held"


def is_held(text: str, one_in: int) -> bool:
    """True for about one in `one_in` strings; a fixed function of the string, so that the split never moves."""
    return zlib.crc32(text.encode()) % one_in == 0


def split_list(options: list[str], split: str, one_in: int = 6) -> list[str]:
    """The options of one split; two or more options always leave at least one for each split."""
    held = [o for o in options if is_held(o, one_in)] or (options[-1:] if len(options) > 1 else [])
    if len(held) == len(options) and len(options) > 1:
        held = held[:1]
    return held if split == HELD else [o for o in options if o not in held]


_ONSETS = ("b br c ch cl d dr f fr g gl gr h j k kl kr l m n p pl pr qu r s sh sk sl st t th tr v w y z").split()
_VOWELS = "a e i o u a e i o ai ea ie oa ou".split()
_CODAS = ["", "", "", "l", "n", "r", "s", "m", "nd", "lt", "rk", "st", "x", "th"]
SYLLABLES = sorted({o + v + c for o in _ONSETS for v in _VOWELS for c in _CODAS})
SYLLABLES_OF = {
    TRAIN: [s for s in SYLLABLES if not is_held("syllable " + s, 6)],
    HELD: [s for s in SYLLABLES if is_held("syllable " + s, 6)],
}
_OPEN_OF = {k: [s for s in v if s[-1] in "aeiou"] for k, v in SYLLABLES_OF.items()}
_TOWN_ENDS = {
    TRAIN: ["by", "ford", "ham", "wick", "mouth", "ville", "ton", "", "", "berg"],
    HELD: ["stead", "dale", "", ""],
}
_OF_HELD_SYLLABLES = re.compile("(?:" + "|".join(sorted(SYLLABLES_OF[HELD], key=len, reverse=True)) + ")+$")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_UPPER = "ABCDEFGHJKLMNPQRSTUVWXYZ"

COLOURS = (
    "red blue green yellow black white brown grey orange purple pink silver gold turquoise violet crimson beige "
    "maroon navy olive teal ivory scarlet amber copper cream lilac indigo magenta rust"
).split() + [
    "dark green",
    "pale blue",
    "light grey",
    "bright red",
    "deep purple",
    "sky blue",
    "lemon yellow",
    "moss green",
]
FOODS = (
    "bread cheese soup rice honey apples pears plums cherries walnuts almonds porridge pancakes noodles beans lentils "
    "carrots mushrooms olives figs dates salmon trout herring lamb pasta dumplings waffles yoghurt custard"
).split() + [
    "apple pie",
    "lemon cake",
    "tomato soup",
    "fried rice",
    "onion tart",
    "smoked trout",
    "roast potatoes",
    "plum jam",
    "corn bread",
    "bean stew",
    "carrot cake",
    "goat cheese",
    "pumpkin seeds",
    "oat biscuits",
]
JOBS = (
    "baker teacher nurse carpenter plumber gardener pilot painter tailor farmer fisher weaver potter miner sailor clerk"
    " lawyer doctor dentist singer dancer writer editor cook waiter driver mechanic engineer librarian florist butcher"
    " barber beekeeper shepherd surveyor translator glazier blacksmith architect chemist"
).split()
INSTRUMENTS = "violin flute piano harp drum trumpet cello guitar oboe banjo organ lute accordion clarinet horn".split()
SPORTS = (
    "rowing chess tennis swimming fencing archery skating cycling sailing running climbing judo golf hockey darts"
).split()
MATERIALS = (
    "oak pine steel brass copper leather cotton wool linen glass clay marble granite bamboo silk iron tin cork".split()
)
PARTS = "tail nose ears eyes collar paws back legs neck coat belly feet wings beak mane whiskers horns hooves".split()
ANIMALS = (
    "goat dog cat horse donkey sheep cow pig rabbit fox owl parrot goose duck hen llama otter badger camel turtle "
    "pony hamster ferret crow swan"
).split()
ROOMS = (
    "cellar attic kitchen library pantry garage workshop hall study bedroom garden shed chapel office laundry stable "
    "greenhouse ballroom"
).split()
PLACES = [
    "under the stairs",
    "behind the clock",
    "next to the stove",
    "on the top shelf",
    "in the blue cupboard",
    "below the window",
    "inside the piano",
    "beside the old well",
    "near the back door",
    "above the fireplace",
]
GOODS = (
    "candles ropes tiles bricks carpets lamps kettles blankets mirrors bells clocks saddles hammers baskets barrels "
    "boots gloves buttons maps stamps coins spoons ladders nails books paints shells pearls seeds onions"
).split()
ADJECTIVES = (
    "old new small large heavy light dusty shiny broken painted dried fresh wooden plain striped round narrow "
    "quiet bright cheap rare simple folded rusty clean"
).split()
CONTAINERS = "crates boxes sacks barrels baskets bags trays jars bundles chests".split()
COUNTS = "two three four five six seven eight nine ten eleven twelve twenty thirty forty".split()
MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
LANGUAGES = "Danish Polish Greek Welsh Finnish Turkish Spanish Italian Dutch Irish Latin Hindi Arabic Swahili".split()
SHOPKINDS = (
    "shoes furniture bicycles bread cameras toys tools hats soap paper engines boats kites tents chocolate".split()
)

# Ordinary names, in training texts only, so that they are not strange to the model; held-out texts use none of them.
FIRST_NAMES = (
    "Anna Peter Maria John Sarah Thomas Laura David Emma James Julia Robert Alice Henry Clara Martin Sofia Daniel Nora "
    "Lucas Helen Simon Eva George Ruth Paul Lily Oscar Rosa Victor Ella Hugo Mary Frank Grace Leo Susan Adam Kate Mark"
).split()
LAST_NAMES = (
    "Smith Brown Miller Wilson Taylor Clark Lewis Walker Young King Wright Hill Green Baker Adams Carter Parker Cook "
    "Morgan Bell Murphy Cooper Ward Gray James Watson Wood Price Long Ross Foster Powell Hughes Butler"
).split()
CITIES = (
    "London Paris Berlin Madrid Rome Vienna Lisbon Dublin Oslo Prague Athens Warsaw Boston Chicago Denver Dallas"
    " Seattle Toronto Sydney Tokyo Delhi Cairo Nairobi Lima Zurich Geneva Milan Porto Leeds York"
).split()
ORDINARY_NAMES = {*FIRST_NAMES, *LAST_NAMES, *CITIES}


class Lexicon:
    """Draws words and values from one split with one random stream. Same seed and split, same draws."""

    def __init__(self, rng: random.Random, split: str) -> None:
        self.rng, self.split = rng, split
        self.habits: dict = {}  # of the document that is being written (train.everyday_values)
        self._syllables, self._open = SYLLABLES_OF[split], _OPEN_OF[split]

    def choice(self, options: list | tuple | str):
        return options[int(self.rng.random() * len(options))]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def between(self, low: int, high: int) -> int:
        """Whole number in [low, high]."""
        return low + int(self.rng.random() * (high - low + 1))

    def word(self) -> str:
        """A made-up capitalised name of one to three syllables (held out: of six letters or more, and no ordinary
        name)."""
        if self.split == TRAIN and self.chance(0.1):  # odd letter strings teach copying of any token sequence
            odd = "".join(self.choice(_LETTERS) for _ in range(self.between(3, 8)))
            if not _OF_HELD_SYLLABLES.match(odd):
                return odd.capitalize()
        n = 1 + self.chance(0.9) + self.chance(0.3)
        name = "".join([self.choice(self._open) for _ in range(n - 1)] + [self.choice(self._syllables)]).capitalize()
        if self.split == HELD and (len(name) < 6 or name in ORDINARY_NAMES):
            return self.word()
        return name

    def first(self) -> str:
        return self.choice(FIRST_NAMES) if self.split == TRAIN and self.chance(0.12) else self.word()

    def last(self) -> str:
        return self.choice(LAST_NAMES) if self.split == TRAIN and self.chance(0.12) else self.word()

    def person(self) -> str:
        return self.first() + " " + self.last()

    def town(self) -> str:
        if self.split == TRAIN and self.chance(0.1):
            return self.choice(CITIES)
        return self.word() + self.choice(_TOWN_ENDS[self.split])

    def company(self) -> str:
        return (
            self.word()
            + " "
            + self.choice(("Works", "Brothers", "Trading", "Group", "Mills", "Industries", "Foods", "Labs"))
        )

    def code(self) -> str:
        pattern = self.choice(
            ("AA-####", "####", "A#A#", "AAA-##", "###-###", "A####", "##-A-##", "AAAA", "######", "a#a#", "AA##")
        )
        return "".join(
            (
                self.choice(_UPPER)
                if c == "A"
                else self.choice("abcdef") if c == "a" else str(self.between(0, 9)) if c == "#" else c
            )
            for c in pattern
        )

    def number(self) -> str:
        return str(self.between(2, self.choice((20, 99, 999))))

    def year(self) -> str:
        return str(self.between(1700, 2029))

    def date(self) -> str:
        day, month = str(self.between(1, 28)), self.choice(MONTHS)
        return self.choice((f"{day} {month} {self.year()}", f"{day} {month}", f"{month} {day}", f"{day} {month}"))

    def price(self) -> str:
        n = self.between(2, self.choice((30, 400, 990)))
        return self.choice(
            (
                f"${n}",
                f"${n}.{self.between(10, 99)}",
                f"{n} euros",
                f"£{n}",
                f"{n} dollars",
                f"{n}.{self.between(10, 99)} euros",
            )
        )

    def time(self) -> str:
        return self.choice(
            (
                f"{self.between(1, 23)}:{self.between(10, 59)}",
                f"{self.between(1, 12)}:{self.choice(('15', '30', '45'))}",
                f"{self.between(1, 12)} o'clock",
            )
        )

    def phone(self) -> str:
        return (
            f"{self.between(100, 999)} {self.between(1000, 9999)}"
            if self.chance(0.5)
            else f"0{self.between(10, 99)}-{self.between(10000, 99999)}"
        )

    def phrase(self) -> str:
        """An open phrase such as `three crates of dried figs`: values that must be copied word by word."""
        noun = self.choice(GOODS)
        return self.choice(
            (
                f"{self.choice(COUNTS)} {self.choice(CONTAINERS)} of {self.choice(ADJECTIVES)} {noun}",
                f"{self.choice(ADJECTIVES)} {noun}",
                f"{self.choice(COUNTS)} {self.choice(ADJECTIVES)} {noun}",
                f"{self.choice(ADJECTIVES)} {noun} and {self.choice(ADJECTIVES)} {self.choice(GOODS)}",
            )
        )

    def quantity(self, units: str) -> str:
        """`units` holds alternatives separated by `/`; the number and its unit are one value."""
        n = str(self.between(2, self.choice((9, 60, 900))))
        if self.chance(0.2):
            n += "." + str(self.between(1, 9))
        return n + " " + self.choice(units.split("/"))

    def value(self, kind: str) -> str:
        """A value of the named kind; `unit:kg/pounds` is a quantity, other kinds are in `_LISTS` or methods."""
        if kind in _LISTS:
            return self.choice(_LISTS[kind])
        if kind.startswith("unit:"):
            return self.quantity(kind[5:])
        return _METHODS[kind](self)


_LISTS: dict[str, list[str]] = {
    "colour": COLOURS,
    "food": FOODS,
    "job": JOBS,
    "instrument": INSTRUMENTS,
    "sport": SPORTS,
    "material": MATERIALS,
    "room": ["the " + r for r in ROOMS],
    "place": PLACES,
    "weekday": WEEKDAYS,
    "language": LANGUAGES,
    "shop": SHOPKINDS,
    "animal": ANIMALS,
}
_METHODS: dict[str, Callable[[Lexicon], str]] = {
    "person": Lexicon.person,
    "town": Lexicon.town,
    "company": Lexicon.company,
    "code": Lexicon.code,
    "number": Lexicon.number,
    "year": Lexicon.year,
    "date": Lexicon.date,
    "price": Lexicon.price,
    "time": Lexicon.time,
    "phone": Lexicon.phone,
    "phrase": Lexicon.phrase,
    "word": Lexicon.word,
}
