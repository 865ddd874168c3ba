"""Values of everyday documents (`train.everyday`) in the notations that people write: amounts of money, measures,
counts, dates, names.

`draw(lex, lang, spec)` gives a value for a generator's name with its arguments, such as `money 20-900`, `num 0.5-8 kg`,
`count 1-6`. The text is what stands in the document and what is to be copied: a unit or currency beside the number
belongs to it, a counted noun does not.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field

from train import natural_words as words
from train.lexicon import Lexicon

MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
}
SHORT = {
    "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(),
    "de": "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.".split(),
    "fr": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.".split(),
}
WEEKDAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
}
COUNTS = {
    "en": "one two three four five six seven eight nine ten eleven twelve".split(),
    "de": "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split(),
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze".split(),
}
UNITS = {
    "kg": ["kg", "kg", "kilograms", "kilos", "KG"],
    "g": ["g", "g", "grams", "gr"],
    "mg": ["mg", "mg", "milligrams"],
    "km": ["km", "km", "kilometres", "miles", "mi"],
    "m": ["m", "metres"],
    "cm": ["cm", "cm", "centimetres", "inches", "in"],
    "mm": ["mm", "mm", "millimetres"],
    "m²": ["m²", "m²", "sqm", "square metres", "sq m", "m2", "qm"],
    "min": ["min", "minutes", "mins", "min."],
    "hours": ["hours", "h", "hrs", "hours"],
    "l": ["l", "litres", "L"],
    "ml": ["ml", "ml", "millilitres"],
    "W": ["W", "watts", "watt", "W"],
    "°C": ["°C", "°C", "degrees", "°", "C"],
    "hp": ["hp", "PS", "kW", "bhp"],
    "%": ["%", "%", "percent", "per cent"],
    "kWh": ["kWh", "kWh", "kilowatt hours"],
    "km/h": ["km/h", "km/h", "kph", "mph"],
    "kcal": ["kcal", "calories"],
    "years": ["years", "years", "yrs"],
    "months": ["months", "months"],
    "weeks": ["weeks"],
    "days": ["days"],
    "nights": ["nights"],
}
LOCAL_UNITS = {
    "de": {"min": ["Minuten", "min", "Min."], "kg": ["kg", "Kilo", "kg"], "m²": ["m²", "qm", "m²", "Quadratmeter"]},
    "fr": {
        "min": ["min", "minutes", "mn"],
        "kg": ["kg", "kilos"],
        "m²": ["m²", "mètres carrés", "m2"],
        "jours": ["jours"],
    },
}
_CARS = (
    "Toyota,Volkswagen Golf,Ford Focus,Opel Corsa,Renault Clio,Škoda Octavia,Fiat Panda,Mazda 3,Honda Civic,Volvo"
    " V60,Peugeot 208,Seat Ibiza,Nissan Leaf,Hyundai i20,BMW 320d,Kia Picanto,Dacia Duster".split(",")
)
_TITLES = (
    "nurse,bus driver,software developer,cook,electrician,sales assistant,warehouse worker,accountant,primary"
    " teacher,receptionist,carpenter,project manager,data analyst,dental assistant,gardener,cleaner,mechanic,social"
    " worker,graphic designer,baker,lorry driver,lab technician,night porter,office"
    " clerk,plumber,barista,hairdresser,civil engineer"
).split(",")
_JOBS_DE = (
    "Koch (m/w/d),Bürokauffrau,Elektriker,Pflegekraft,Lagerhelfer,Verkäuferin,Maurer,Busfahrer,Erzieherin,"
    "Softwareentwickler,Tischler,Buchhalter,Gärtnerin,Mechaniker,Reinigungskraft"
).split(",")
_PRODUCTS_DE = (
    "Schreibtischlampe,Bürostuhl,Wasserkocher,Fahrrad,Kommode,Drucker,Bücherregal,Kaffeemaschine,Zelt,Rucksack,"
    "Teppich,Heckenschere,Waschmaschine,Kinderwagen,Gitarre,Bohrmaschine,Sofa,Spiegel"
).split(",")
_PRODUCTS_FR = (
    "un vélo,une lampe de bureau,une armoire,un lave-linge,une table basse,un canapé,une guitare,une poussette,un"
    " aspirateur,une imprimante,une tente,un miroir,une perceuse,un fauteuil".split(",")
)
_DISHES = (
    "mushroom risotto,lentil soup,apple pie,chicken curry,potato salad,carrot cake,fish stew,onion tart,banana"
    " bread,vegetable lasagne,lemon biscuits,bean chilli,plum crumble,cheese scones,pumpkin soup".split(",")
)
_DISHES_FR = (
    "une quiche aux poireaux,un gâteau au yaourt,une tarte aux pommes,une soupe à l'oignon,un gratin de courgettes,des"
    " crêpes,une ratatouille,un clafoutis aux cerises,un pain d'épices".split(",")
)
_FOODS = (
    "Whole milk,Rye bread,Bananas,Free-range eggs,Butter 250g,Olive oil,Tomatoes,Spaghetti,Cheddar,Orange juice,Oat"
    " flakes,Dark chocolate,Green tea,Yoghurt,Washing powder,Toilet paper,Apples,Coffee beans,Rice 1kg,Dish soap".split(
        ","
    )
)
_COURSES = (
    "Spanish for travellers,Watercolour painting,Introduction to bookkeeping,Yoga for the back,Sourdough baking,Digital"
    " photography,Guitar basics,First aid,Creative writing,Web design,Sewing,Astronomy,Italian I,Chess openings".split(
        ","
    )
)
_PETS = (
    "Milo,Luna,Felix,Bella,Oscar,Nala,Simba,Rocky,Mimi,Charlie,Coco,Lucky,Minka,Balu,Pepper,Ginger,Smokey,Tiger".split(
        ","
    )
)
_AIRLINES = (
    "Lufthansa,KLM,Ryanair,easyJet,Air France,Iberia,SAS,Finnair,Swiss,TAP,Aer Lingus,Norwegian,Wizz Air,Turkish"
    " Airlines".split(",")
)
_RUES = (
    "rue de la Gare,avenue Victor Hugo,rue du Moulin,boulevard Voltaire,place du Marché,rue des Lilas,chemin du"
    " Lac,quai des Belges,rue de Bretagne".split(",")
)
_LIEUX = (
    "la salle des fêtes,le théâtre municipal,le parc du château,la médiathèque,l'église Saint-Martin,la place de la"
    " mairie,le gymnase Jean Moulin".split(",")
)
_TITRES = (
    "Le Bal des étoiles,Nuit blanche,La Dernière Valse,Voix d'ailleurs,Un hiver à Paris,Les Quatre Vents,Contes du"
    " fleuve,Le Petit Orchestre".split(",")
)
_STREETS_DE = (
    "Hauptstraße,Bahnhofstraße,Gartenweg,Lindenallee,Schulstraße,Am"
    " Markt,Mühlenweg,Goethestraße,Rosenweg,Bergstraße,Kirchplatz".split(",")
)
_VENUES = (
    "the town hall,the old brewery,St Mary's church,the city library,the market square,Café Central,the sports hall,the"
    " harbour stage,the community centre,the Royal Theatre,the botanical garden".split(",")
)
_VENUES_DE = (
    "Stadthalle,Alte Brauerei,Marktplatz,Schlosspark,Bürgerhaus,Stadtbücherei,Turnhalle,Kulturzentrum"
    " Mitte,Freilichtbühne".split(",")
)
_CURRENCY = {
    "EUR": ["EUR", "€", "euros", "euro", "Euro"],
    "USD": ["$", "USD", "dollars", "US$"],
    "GBP": ["£", "GBP", "pounds"],
    "CHF": ["CHF", "Fr.", "francs"],
}


@dataclass
class Value:
    """`text` stands in the document; `items` of a list; `unit` that a schema may ask for; `bare` the number alone;
    `order` of a day, a time or an amount among its like; `weekday` of a day."""

    text: str
    unit: str = ""
    bare: str = ""
    items: list[str] = field(default_factory=list)
    order: float = 0.0
    weekday: str = ""


def habits(lex: Lexicon, lang: str) -> None:
    """What a document's writer keeps to, mostly: dates near each other and written alike, one currency. Values that
    compete look alike."""
    lex.habits = (
        dict(year=lex.between(2018, 2029), form=lex.rng.random(), currency=_currency(lex, lang))
        if lex.chance(0.8)
        else {}
    )


def _currency(lex: Lexicon, lang: str) -> str:
    return (
        lex.choice(["EUR", "EUR", "USD", "GBP", "GBP", "USD", "CHF"])
        if lang == "en"
        else lex.choice(["EUR"] * 5 + ["CHF"])
    )


def grouped(lex: Lexicon, n: float, lang: str, decimals: int) -> str:
    """A number as one writes it in the language; several ways."""
    whole, _, part = f"{n:.{decimals}f}".partition(".")
    if len(whole) > 3 and lex.chance(0.75):
        mark = lex.choice(
            {"en": [",", ",", ",", " ", "'"], "de": [".", ".", " "], "fr": [" ", " ", "\u202f", "."]}[lang]
        )
        whole = re.sub(r"(?<=\d)(?=(\d{3})+$)", mark, whole)
    return whole + ((("." if lang == "en" else ",") + part) if part else "")


def money(lex: Lexicon, lang: str, low: float, high: float) -> Value:
    n = low + (high - low) * lex.rng.random() ** 2
    cents = high < 3000 and lex.chance(0.45)
    n = round(n, 2) if cents else float(round(n, -1 if n > 100 and lex.chance(0.5) else 0) or 1)
    currency = lex.habits.get("currency") if lex.habits and lex.chance(0.9) else _currency(lex, lang)
    if low < 900 < high * 9 and currency != "CHF" and lex.chance(0.05) and (said := _in_words(lex, lang, low, high)):
        name = {"EUR": {"en": "euros", "de": "Euro", "fr": "euros"}[lang], "USD": "dollars", "GBP": "pounds"}[currency]
        return Value(f"{said[1]} {name}", currency, order=said[0])
    text = grouped(lex, n, lang, 2 if cents else 0)
    sign = lex.choice(_CURRENCY[currency][:2] * 2 + _CURRENCY[currency][2:])
    if lang != "en" and currency == "EUR":
        sign = lex.choice(["€", "€", "EUR", "Euro" if lang == "de" else "euros"])
    if not cents and lex.chance(0.06):
        text += ",-" if lang != "en" else ".00"
    before = (
        sign in ("$", "£", "US$") or sign in ("€", "EUR", "CHF", "USD") and lex.chance(0.4 if lang == "en" else 0.05)
    ) and sign not in ("dollars", "pounds")
    space = (
        ""
        if sign in ("$", "£", "US$") or before and sign == "€" and lex.chance(0.7) or sign == "€" and lex.chance(0.2)
        else " "
    )
    return Value(sign + space + text if before else text + space + sign, currency, text, order=n)


_WORDS = {
    20: ("twenty", "zwanzig", "vingt"),
    30: ("thirty", "dreißig", "trente"),
    40: ("forty", "vierzig", "quarante"),
    50: ("fifty", "fünfzig", "cinquante"),
    60: ("sixty", "sechzig", "soixante"),
    100: ("a hundred", "hundert", "cent"),
    150: ("a hundred and fifty", "hundertfünfzig", "cent cinquante"),
    200: ("two hundred", "zweihundert", "deux cents"),
    300: ("three hundred", "dreihundert", "trois cents"),
    500: ("five hundred", "fünfhundert", "cinq cents"),
    800: ("eight hundred", "achthundert", "huit cents"),
    1000: ("one thousand", "tausend", "mille"),
    2000: ("two thousand", "zweitausend", "deux mille"),
    3000: ("three thousand", "dreitausend", "trois mille"),
    5000: ("five thousand", "fünftausend", "cinq mille"),
}


def _in_words(lex: Lexicon, lang: str, low: float, high: float) -> tuple[float, str] | None:
    """A round number between the two, as a word."""
    fitting = [n for n in _WORDS if low <= n <= high]
    n = lex.choice(fitting) if fitting else None
    return n and (float(n), _WORDS[n][("en", "de", "fr").index(lang)])


def number(lex: Lexicon, lang: str, low: str, high: str, unit: str) -> Value:
    a, b = float(low), float(high)
    if lang == "en" and unit in ("min", "hours") and lex.chance(0.07):
        for minutes, said in ((30, "half an hour"), (90, "an hour and a half"), (150, "two and a half hours")):
            if a <= minutes / (60 if unit == "hours" else 1) <= b and lex.chance(0.6):
                return Value(said, unit, order=minutes / (60 if unit == "hours" else 1))
    n = a + (b - a) * lex.rng.random() ** 1.5
    decimals = (
        (2 if b < 1 else 1 if b <= 60 and lex.chance(0.3 if a >= 1 else 0.7) else 0)
        if unit not in ("nights", "days", "Tage", "Tagen", "jours", "years", "months", "weeks")
        else 0
    )
    if decimals == 0 and n > 2000 and lex.chance(0.6):
        n = round(n, -3)
    written = lex.choice(LOCAL_UNITS.get(lang, {}).get(unit, UNITS.get(unit, [unit])))
    if unit == "hp" and lang != "en":
        written = "PS"
    whole = int(round(n))
    text = grouped(lex, n, lang, decimals)
    if decimals == 0 and 1 <= whole <= 12 and len(written) > 2 and lex.chance(0.3):
        text = COUNTS[lang][whole - 1]
    if decimals == 0 and whole == 1 and written in ("years", "months", "weeks", "days", "nights", "hours", "minutes"):
        written = written[:-1]
    space = " " if len(written) > 3 or lex.chance(0.8) else ""
    return Value((text + space + written.strip()).strip(), unit, text, order=n)


def date(lex: Lexicon, lang: str, first: int = 2018, last: int = 2029) -> Value:
    day, month, year = lex.between(1, 28), lex.between(1, 12), lex.between(first, last)
    if lex.habits and (first, last) == (2018, 2029):
        year = lex.habits["year"] + (lex.choice((-1, 1)) if lex.chance(0.15) else 0)
    name, short = MONTHS[lang][month - 1], SHORT[lang][month - 1]
    nth = f"{day}{'th' if 11 <= day <= 13 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    common = [f"{day:02}.{month:02}.{year}", f"{year}-{month:02}-{day:02}", f"{day:02}/{month:02}/{year}"]
    if lang == "en":
        forms = (
            [f"{day} {name} {year}"] * 3
            + [f"{name} {day}, {year}"] * 2
            + [
                f"{short} {day}, {year}",
                f"{day} {short} {year}",
                f"{nth} {name} {year}",
                f"{nth} of {name} {year}",
                f"{day} {name}",
                f"{name} {nth}",
                f"{day}/{month}/{year}",
                f"{day}.{month}.{year}",
                f"{month}/{day}/{year}",
                f"{day:02}-{short}-{year}",
                f"{day} {name[:3].upper()} {year}",
                f"{day}.{month}.{year % 100:02}",
            ]
            + common
        )
    elif lang == "de":
        forms = [f"{day}. {name} {year}"] * 4 + [
            f"{day}. {short} {year}",
            f"{day}.{month}.{year}",
            f"{day}.{month}.{year % 100:02}",
            f"{day}. {name}",
            common[0],
            common[0],
            common[1],
        ]
    else:
        first_day = "1er" if day == 1 else str(day)
        forms = [f"{first_day} {name} {year}"] * 4 + [
            f"{day} {short} {year}",
            f"{day}/{month:02}/{year}",
            f"{first_day} {name}",
            common[2],
            common[2],
            common[0],
        ]
    form = forms[int(lex.habits["form"] * len(forms))] if lex.habits and lex.chance(0.75) else lex.choice(forms)
    that = datetime.date(year, month, day)
    return Value(form, order=that.toordinal(), weekday=WEEKDAYS[lang][that.weekday()] if "-" not in form else "")


def clock(lex: Lexicon, lang: str) -> Value:
    hour, minute = lex.between(6, 22), lex.choice(("00", "00", "15", "30", "30", "45", "10", "20"))
    half = hour % 12 or 12
    forms = {
        "en": [
            f"{hour}:{minute}",
            f"{hour:02}:{minute}",
            f"{half}:{minute} {'am' if hour < 12 else 'pm'}",
            f"{half} {'am' if hour < 12 else 'pm'}",
            f"{half}{'am' if hour < 12 else 'pm'}",
            f"{half}.{minute} {'a.m.' if hour < 12 else 'p.m.'}",
            f"{hour}.{minute}",
        ],
        "de": [f"{hour}:{minute} Uhr", f"{hour}.{minute} Uhr", f"{hour} Uhr", f"{hour}:{minute}"],
        "fr": [f"{hour}h{minute}", f"{hour} h {minute}", f"{hour} h", f"{hour}:{minute}"],
    }
    if lex.chance(0.12):
        after, before = COUNTS["en"][half - 1], COUNTS["de"][half % 12]
        said = {
            "en": {"00": f"{after} o'clock", "15": f"a quarter past {after}", "30": f"half past {after}"},
            "de": {"30": f"halb {before}"},
            "fr": {"00": f"{hour} heures", "30": f"{hour} heures trente"},
        }[lang].get(minute)
        if said:
            return Value(said, order=hour * 60 + int(minute))
    return Value(lex.choice(forms[lang]), order=hour * 60 + int(minute))


def count(lex: Lexicon, lang: str, low: int, high: int) -> Value:
    n = lex.between(low, high)
    if n <= 12 and not (lang != "en" and n == 1) and lex.chance(0.4):
        return Value(COUNTS[lang][n - 1], order=n)
    if n in (20, 30, 40, 50, 60) and lex.chance(0.3):
        return Value(_WORDS[n][("en", "de", "fr").index(lang)], order=n)
    return Value(str(n), order=n)


def several(lex: Lexicon, options: list[str], low: int, high: int) -> Value:
    some = lex.rng.sample(options, min(lex.between(low, high), len(options)))
    return Value("", items=some)


def _people(lex: Lexicon, low: int, high: int) -> Value:
    return Value("", items=list(dict.fromkeys(words.person(lex) for _ in range(lex.between(low, high)))))


def _postcode(lex: Lexicon) -> str:
    d = lambda n: "".join(str(lex.between(0, 9)) for _ in range(n))
    return lex.choice(
        [
            d(5),
            d(5),
            (
                f"{lex.choice('ABCDEGLMNS')}{lex.choice('ABEHLNRSW')}{d(1)}"
                f" {d(1)}{lex.choice('ABDEFGH')}{lex.choice('JLNPQRST')}"
            ),
            d(4),
            f"{d(4)} {lex.choice('ABCDEFG')}{lex.choice('HJKLM')}",
        ]
    )


def _street(lex: Lexicon, lang: str) -> str:
    if lang == "de":
        return f"{lex.choice(_STREETS_DE)} {lex.between(1, 150)}" + ("a" if lex.chance(0.08) else "")
    return f"{lex.between(1, 150)} {lex.choice(_RUES)}" if lang == "fr" else words.street(lex)


def draw(lex: Lexicon, lang: str, spec: str) -> Value:
    name, _, rest = spec.partition(" ")
    if name == "pick":
        return Value(lex.choice(rest.split(",")))
    if m := re.fullmatch(r"pick(\d)", name):
        return several(lex, rest.split(","), 1, int(m[1]) + 2)
    if m := re.fullmatch(r"person(\d)", name):
        return _people(lex, 1, int(m[1]) + 1)
    if name == "sport2":
        return several(lex, [*words._LISTS["sport"]], 1, 3)
    if name == "num":
        span, _, unit = rest.partition(" ")
        return number(lex, lang, *span.split("-"), unit)
    if name in ("money", "count", "int", "year4"):
        low, high = rest.split("-")
        if name == "money":
            return money(lex, lang, float(low), float(high))
        if name == "count":
            return count(lex, lang, int(low), int(high))
        n = lex.between(int(low), int(high))
        return Value(grouped(lex, n, lang, 0) if name == "int" and n > 9999 else str(n), order=n)
    local = {
        "jobde": _JOBS_DE,
        "produkt": _PRODUCTS_DE,
        "produitfr": _PRODUCTS_FR,
        "platfr": _DISHES_FR,
        "dish": _DISHES,
        "food": _FOODS if lang == "en" else _PRODUCTS_DE,
        "coursename": _COURSES,
        "petname": _PETS,
        "airline": _AIRLINES,
        "jobtitle": _TITLES,
        "carmake": _CARS,
        "car": _CARS,
        "titrefr": _TITRES,
        "lieufr": _LIEUX,
        "venue": _VENUES if lang == "en" else _VENUES_DE,
    }
    if name in local:
        return Value(lex.choice(local[name]))
    made = {
        "date": lambda: date(lex, lang),
        "birthdate": lambda: date(lex, lang, 1940, 2012),
        "time": lambda: clock(lex, lang),
        "year": lambda: Value(str(lex.between(1960, 2024))),
        "weekday": lambda: Value(lex.choice(WEEKDAYS[lang])),
        "postcode": lambda: Value(_postcode(lex)),
        "street": lambda: Value(_street(lex, lang)),
        "ruefr": lambda: Value(_street(lex, "fr")),
        "buyer": lambda: Value(words.person(lex) if lex.chance(0.5) else words.company(lex)),
        "hotel": lambda: Value(
            f"{lex.choice(('Hotel', 'Pension', 'Gasthof', 'The', 'Grand Hotel'))} {lex.choice(words._FIRM_HEADS)}"
        ),
        "seat": lambda: Value(
            f"{lex.between(1, 90)}{lex.choice('ABCDEF')}" if lex.chance(0.6) else str(lex.between(10, 110))
        ),
        "flightno": lambda: Value(
            f"{lex.choice(('LH', 'BA', 'KL', 'AF', 'FR', 'U2', 'SK', 'AY'))}"
            f"{lex.choice((' ', ''))}{lex.between(100, 9999)}"
        ),
        "medicine": lambda: Value(
            lex.word().capitalize()
            + lex.choice(("ol", "in", "ex", "al", "ux"))
            + lex.choice(("", " forte", f" {lex.between(1, 8)}00"))
        ),
        "errcode": lambda: Value(
            lex.choice(
                (
                    f"E{lex.between(1, 99):02}",
                    f"0x{lex.between(16, 4095):04X}",
                    f"ERR-{lex.between(100, 999)}",
                    f"F{lex.between(1, 40)}",
                )
            )
        ),
        "org": lambda: Value(words.value(lex, "organisation")),
        "roomname": lambda: Value(words.value(lex, "room")),
        "bigmoney": lambda: _big(lex),
    }
    return made[name]() if name in made else Value(words.value(lex, name))


def _big(lex: Lexicon) -> Value:
    n, sign = lex.between(1, 90), lex.choice(("€", "$", "£"))
    return Value(
        lex.choice(
            (
                f"{sign}{n} million",
                f"{n}.{lex.between(1, 9)} million euros",
                f"{sign}{n}.{lex.between(1, 9)}m",
                f"{sign}{n},{lex.between(100, 999)},000",
            )
        ),
        {"€": "EUR", "$": "USD", "£": "GBP"}[sign],
    )
