"""Product pages and their attributes: task 3, attribute values as JSON, missing ones null.

A page states some of a category's attributes in a title, in sentences and in a specification list; an extraction asks
for 4 to 16 of them, in any order. Values contain neither quotes nor commas, so the JSON needs no escapes.
"""

from __future__ import annotations

from train.filler import capital, filler
from train.lexicon import COLOURS, HELD, TRAIN, Lexicon
from train.relations import wrap
from train.sample import Extraction

CATEGORIES = (
    "jacket lamp kettle bicycle sofa tent backpack drill blender camera watch mattress desk chair toaster helmet guitar"
    " printer speaker keyboard suitcase umbrella stove freezer heater"
).split()
_STYLES = "Classic Trail Urban Home Pro Mini Prime Solo Terra Nova Quiet Swift Comfort".split()

# attribute names | kind of value | sentences about it
_TABLE = """
brand/maker/manufacturer | brand | It is made by {V}./The maker is {V}./{V} has built it with care./\
You buy a genuine {V}.
model/model name | model | The model is called {V}./It is sold as the {V}./This is the {V}.
model number/item number/article number | code | The item number is {V}./Please quote {V} when you order./\
Listed in our catalogue as {V}.
colour/color | colour | It comes in {V}./The colour is {V}./The surface is {V}./Delivered in {V}.
material | material | It is made of {V}./The body consists of {V}./Built from solid {V}.
weight | unit:kg/g/lbs | It weighs {V}./With a weight of {V} it is easy to carry./The scales show {V}.
width | unit:cm/mm/inches | It is {V} wide./The width comes to {V}./From side to side it measures {V}.
height | unit:cm/mm/inches | It is {V} high./It stands {V} tall./The height comes to {V}.
depth | unit:cm/mm/inches | It is {V} deep./From front to back it measures {V}.
length | unit:cm/m/feet | It is {V} long./Its full length is {V}.
price | price | It costs {V}./Yours for {V}./You pay only {V}./The price is {V}.
warranty/guarantee | unit:years/months | It comes with a warranty of {V}./We give a guarantee of {V}./\
It is covered for {V}.
country of origin/origin | country | It is made in {V}./It is produced in {V}./The factory is in {V}.
battery life/running time | unit:hours/minutes | The battery lasts {V}./One charge is enough for {V}.
charging time | unit:hours/minutes | It charges in {V}./Charging takes {V}.
power | unit:watts/kW | It draws {V}./The motor has {V}./It runs at {V}.
voltage | unit:volts | It needs {V}./It works on {V}.
capacity/volume | unit:litres/ml/gallons | It holds {V}./There is room for {V}./The tank takes {V}.
size | size | The size is {V}./It fits size {V}./This one is a {V}.
gender/target group | gender | It is made for {V}./Designed for {V}.
season | season | It is best worn in {V}./Ideal for {V}.
closure/fastening | closure | It closes with a {V}./A {V} keeps it shut.
lining | material | The inside is lined with {V}./Inside you find {V}.
pattern | pattern | It has a {V} pattern./The pattern is {V}.
noise level | unit:dB | It makes {V} of noise./At {V} it is pleasantly quiet.
number of speeds/speeds | number | It has {V} speeds./You can choose among {V} speeds.
number of pieces/pieces in the box | number | The set has {V} pieces./There are {V} pieces in the box.
screen size/display size | unit:inches | The screen measures {V}./It has a display of {V}.
resolution | resolution | It shows {V}./Pictures are taken at {V}.
memory/storage | unit:GB/MB | It stores {V}./There is {V} of space inside.
connection/interface | connection | It connects by {V}./The connection is {V}.
cable length | unit:m/cm/feet | The cable is {V} long./It has a cable of {V}.
maximum load/load limit | unit:kg/lbs | It carries up to {V}./Do not load more than {V}.
temperature range/temperature | unit:degrees | It works up to {V}./It can stand {V}.
energy class | letter | It is rated {V} for energy./It belongs to energy class {V}.
release year/year | year | It was released in {V}./It has been on sale since {V}.
delivery time | unit:days/weeks | It arrives within {V}./Delivery takes {V}.
rating | rating | Customers give it {V} stars./It is rated {V} by buyers.
designer | person | It was designed by {V}./{V} drew the shape.
seller/shop | company | It is sold by {V}./You can get it from {V}.
stock code/warehouse code | code | The warehouse code is {V}./You find it on shelf {V}.
certificate/safety mark | code | It carries the certificate {V}./Tested under {V}.
included accessory/accessory | accessory | It comes with a {V}./A {V} is included.
shape | shape | It has a {V} shape./The form is {V}.
scent | scent | It smells of {V}./The scent is {V}.
handle | material | The handle is made of {V}./You hold it by a handle of {V}.
"""
_VALUES = {
    "gender": ["men", "women", "children", "everyone", "boys", "girls"],
    "season": ["summer", "winter", "spring", "autumn", "all seasons"],
    "closure": ["zip", "button", "buckle", "cord", "magnet", "lace", "hook"],
    "pattern": ["striped", "dotted", "plain", "checked", "floral", "zigzag"],
    "connection": ["USB", "Bluetooth", "cable", "radio", "infrared", "HDMI"],
    "letter": ["A", "B", "C", "D", "A+", "A++", "E"],
    "size": ["S", "M", "L", "XL", "XXL", "XS", "36", "38", "40", "42", "44", "46", "one size"],
    "accessory": [
        "carry bag",
        "spare key",
        "cleaning brush",
        "wall hook",
        "power cord",
        "repair kit",
        "travel case",
        "spare lid",
    ],
    "shape": ["round", "square", "oval", "slim", "flat", "curved", "tall"],
    "scent": ["lavender", "pine", "lemon", "vanilla", "rose", "mint"],
}
_LABELS = {
    TRAIN: ["{A}: {V}", "- {A}: {V}", "{A} - {V}", "* {A}: {V}", "{A} = {V}"],
    HELD: ["{A} : {V}", "+ {A}: {V}", "{A}: {V}"],
}
_CLOSINGS = {
    TRAIN: [
        "Free shipping on orders above {P}.",
        "Customers also looked at the {B} {C}.",
        "Order today and return within 30 days.",
        "Compare with the {B} {C} in {K}.",
        "Read the manual before first use.",
        "Add to basket",
        "In stock",
        "Write a review",
    ],
    HELD: ["Often bought together with the {B} {C}.", "Shipping starts at {P}.", "See all offers"],
}
INSTRUCTIONS = {
    TRAIN: [
        "Extract the attributes from the text as JSON: {L}. Use null when the text does not say.",
        "Extract these attributes as JSON, null if missing: {L}.",
        "Read the product page and fill in: {L}. Reply with JSON.",
        "Return a JSON object with these keys: {L}. Write null for what is not stated.",
        "Attributes: {L}. Give their values as JSON.",
        "Extract the following attributes of the product as JSON.\n{N}",
        "List the values of {L} as JSON. Missing values are null.",
    ],
    HELD: ["Extract the attributes from the text as JSON: {L}. Use null when the text does not say."],
}
EXTRACT_INSTRUCTION = INSTRUCTIONS[HELD][0]


class _Attribute:
    def __init__(self, line: str) -> None:
        names, self.kind, sentences = (c.strip() for c in line.split("|"))
        self.names = names.split("/")
        parts = [p if p.endswith(".") else p + "." for p in sentences.split("./")]
        self.sentences = {
            TRAIN: parts * 5 + [w for p in parts for w in wrap(p, TRAIN)],
            HELD: [w for p in parts for w in wrap(p, HELD)],
        }


ATTRIBUTES = [_Attribute(line) for line in _TABLE.strip().splitlines()]


def _value(lex: Lexicon, kind: str) -> str:
    if kind in _VALUES:
        return lex.choice(_VALUES[kind])
    if kind in ("brand", "country"):
        return lex.word() if lex.chance(0.7) else lex.word() + " " + lex.word()
    if kind == "model":
        return lex.choice(
            (
                f"{lex.choice(_STYLES)} {lex.between(2, 990)}",
                lex.word(),
                f"{lex.word()} {lex.choice(_STYLES)}",
                f"{lex.choice(_STYLES)} {lex.code()}",
            )
        )
    if kind == "resolution":
        return (
            f"{lex.between(3, 90)} megapixels"
            if lex.chance(0.5)
            else f"{lex.between(400, 4000)} x {lex.between(300, 3000)}"
        )
    if kind == "rating":
        return f"{lex.between(1, 4)}.{lex.between(0, 9)}"
    return lex.value(kind)


def _title(lex: Lexicon, stated: dict[str, str], category: str) -> tuple[str, set[str]]:
    """`Kelvora Trail 200 jacket moss green` from what the page states anyway; returns the attributes it used."""
    order = [k for k in ("brand", "model") if k in stated and "brand" in stated] + [category]
    order += [k for k in ("colour", "size", "material", "model number") if k in stated and lex.chance(0.5)]
    joint = lex.choice((" ", " ", ", ", " - "))
    words = [stated[k] if k in stated else capital(k) for k in order]
    # brand and model run together in a title, so the model is always said again below
    return joint.join([" ".join(words[: order.index(category) + 1])] + words[order.index(category) + 1 :]), {
        k for k in order if k in stated and k != "model"
    }


def page(lex: Lexicon, tokens: int) -> Extraction:
    """A product page of about `tokens` tokens and the attributes to take from it."""
    category = lex.choice(CATEGORIES)
    pool = list(ATTRIBUTES)
    lex.rng.shuffle(pool)
    asked = pool[: lex.between(4, 16)]
    silent = {id(a) for a in asked if lex.chance(0.3)}
    extra = pool[len(asked) : len(asked) + lex.between(0, 6)]
    values = {id(a): _value(lex, a.kind) for a in asked + extra}
    present = [a for a in asked + extra if id(a) not in silent]
    stated = {a.names[0]: values[id(a)] for a in present}
    lines, used = [], set()
    if lex.chance(0.75):
        title, used = _title(lex, stated, category)
        lines.append(title)
    if lex.chance(0.4):
        used = {u for u in used if lex.chance(0.5)}  # the rest is said once more below
    rest = [a for a in present if a.names[0] not in used]
    lex.rng.shuffle(rest)
    cut = int(len(rest) * lex.choice((0.0, 0.3, 0.5, 0.7, 1.0)))
    hay = max(0, (tokens - 14 * len(present)) // 13)
    prose = [capital(lex.choice(a.sentences[lex.split]).replace("{V}", values[id(a)])) for a in rest[:cut]]
    prose += [filler(lex) for _ in range(min(hay, lex.between(0, 1 + hay)))]
    lex.rng.shuffle(prose)
    label = lex.choice(_LABELS[lex.split])
    specs = [label.replace("{A}", capital(lex.choice(a.names))).replace("{V}", values[id(a)]) for a in rest[cut:]]
    blocks = [" ".join(prose[: len(prose) // 2]), "\n".join(specs), " ".join(prose[len(prose) // 2 :])]
    if lex.chance(0.3):
        blocks[0], blocks[1] = blocks[1], blocks[0]
    lines += [b for b in blocks if b]
    for _ in range(lex.between(0, 2)):
        lines.append(
            lex.choice(_CLOSINGS[lex.split])
            .replace("{P}", lex.price())
            .replace("{B}", lex.word())
            .replace("{C}", lex.choice(CATEGORIES))
            .replace("{K}", lex.choice(COLOURS))
        )
    names = [lex.choice(a.names) if lex.chance(0.5) else a.names[0] for a in asked]
    if lex.chance(0.1):
        names = [capital(n) for n in names]
    instruction = (
        lex.choice(INSTRUCTIONS[lex.split])
        .replace("{L}", ", ".join(names))
        .replace("{N}", "\n".join("- " + n for n in names))
    )
    context = lex.choice(("\n\n", "\n")).join(lines)
    return Extraction(
        instruction, context, names, [None if id(a) in silent else values[id(a)] for a in asked], category
    )


def json_text(extraction: Extraction) -> str:
    """The sequential answer: one attribute per line, exactly the text that the skeleton form cuts into pieces."""
    rows = [f'"{n}": ' + ("null" if v is None else f'"{v}"') for n, v in zip(extraction.attributes, extraction.values)]
    return "{" + ",\n".join(rows) + "}"
