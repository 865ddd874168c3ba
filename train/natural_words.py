"""Values for the slots of natural templates (`train.natural`): names, places, amounts, dates, in the many forms people
write them.

`value(lex, kind)` draws one. Everyday words are shared by both splits; of names, one in eight is made of syllables of
the split (`train.lexicon`), so that copying is learned for any name, not for a list.
"""

from __future__ import annotations

import re

from train.lexicon import ANIMALS, COLOURS, FOODS, INSTRUMENTS, JOBS, MATERIALS, MONTHS, SPORTS, WEEKDAYS, Lexicon

WOMEN = (
    "Aaliyah Abigail Adele Agnes Aisha Alma Amara Amelia Amina Ana Andrea Angela Anita Annika Antonia Aoife Asha Astrid"
    " Beatrice Bridget Camille Carmen Carol Catherine Celia Chloe Christine Ciara Claudia Colette Cora Dagmar Daphne"
    " Deborah Delia Diana Dolores Dorothy Edith Eileen Elaine Elena Elif Elise Esther Eunice Fatima Fiona Florence"
    " Frances Freya Gabriela Gemma Gerda Gloria Greta Hannah Harriet Hazel Heidi Hilda Ida Imogen Ingrid Irene Iris"
    " Isabel Ivana Jacqueline Jana Janet Jasmine Joan Johanna Joyce Judith Karen Katarina Keiko Kirsten Lakshmi Layla"
    " Leila Lena Leonie Linda Lorna Louise Lucia Lydia Mabel Magda Maeve Marion Marta Matilda Maya Meera Mei Mina Molly"
    " Monica Nadia Naomi Natalie Nicole Nina Noor Olga Olivia Padma Patricia Paula Petra Phoebe Polly Priya Rachel"
    " Rania Rebecca Renata Rhona Rosalind Sabine Salma Sandra Saoirse Sheila Shirin Silvia Simone Stella Sunita Sylvia"
    " Tamar Tessa Thea Theresa Tilda Ursula Valerie Vera Victoria Violet Wanda Wilma Winifred Yasmin Yuki Yvonne Zainab"
    " Zoe Zsofia"
).split()
MEN = (
    "Aaron Abdul Adrian Ahmed Aidan Alan Albert Alfred Ali Amir Anders Andrew Angus Anton Arjun Arne Arthur Ashok Axel"
    " Barnaby Bartek Basil Benedict Bernard Boris Brendan Bruno Callum Carlos Cedric Charles Chidi Christopher Cillian"
    " Clive Colin Conrad Cornelius Craig Cyril Damian Darius Declan Dennis Derek Diego Dimitri Dominic Donald Douglas"
    " Duncan Edgar Edmund Edward Eduardo Elias Emeka Emil Enrique Eric Ernest Ethan Eugene Felix Fergus Fernando Finn"
    " Francis Frederick Gareth Gavin Gerald Gilbert Giles Goran Gordon Graham Gregory Gustav Hamid Hans Harold Harry"
    " Hassan Hector Henrik Herbert Hiro Howard Hugh Ian Ibrahim Igor Ivan Ivo Jack Jakob Jamal Jan Jerome Joel Jonas"
    " Jonathan Jorge Joseph Julian Kamal Karl Keith Kenji Kevin Kofi Kurt Lars Laurence Lennart Leonard Liam Lloyd"
    " Louis Luca Magnus Malcolm Manuel Marcel Marco Marek Mateo Matthew Maurice Max Michael Miguel Mikhail Milan"
    " Mohammed Neil Nicholas Nigel Noah Oliver Omar Orlando Otto Owen Pascal Patrick Pavel Pedro Per Philip Pierre"
    " Rafael Raj Ralph Ravi Raymond Reginald Ricardo Richard Robin Roger Rohan Roland Rory Rupert Samir Samuel Sanjay"
    " Sean Sebastian Stanley Stefan Stephen Sven Tariq Terence Theo Tobias Tomas Trevor Vikram Vincent Walter Wilfred"
    " William Winston Wojtek Yusuf Zoltan"
).split()
LAST = (
    "Abbott Achterberg Adeyemi Ahmed Akhtar Albrecht Allen Andersson Appleby Arden Armitage Ashworth Atkins Aziz Bailey"
    " Banerjee Barker Barlow Barnes Bates Becker Begum Bennett Berger Bhatt Birch Blackwood Blake Bondarenko Booth"
    " Bradley Braun Brennan Briggs Brooks Bukowski Burgess Byrne Calloway Campbell Castillo Chandra Chapman Chen Cho"
    " Christensen Coleman Connolly Cortez Costa Crane Crawford Cruz Curtis Dahl Dalton Daly Davies Delgado Demir Desai"
    " Diaz Dixon Donnelly Doyle Drake Dubois Duffy Dunn Eastwood Eckhart Edwards Egan Ellis Eriksen Evans Farah Farrell"
    " Fernandes Ferreira Fischer Fleming Fletcher Flynn Fontaine Forster Fox Franklin Frost Fuchs Gallagher Garcia"
    " Gibbs Gill Glover Goldberg Gomez Goodwin Grant Greaves Gupta Hahn Haines Halloran Hammond Hansen Hardy Harper"
    " Harris Hartley Harvey Hassan Hayes Herrera Hobbs Hoffmann Holt Horvath Howell Hudson Hussain Ibrahim Ivanova"
    " Jackson Jansen Jennings Jensen Johansson Jones Joshi Kamara Kaplan Kaur Kaya Keane Keller Kelly Kemp Khan Kim"
    " Kirby Klein Knight Kobayashi Kowalski Kramer Krishnan Kruger Lambert Larsen Lawson Leblanc Lee Lindqvist Lloyd"
    " Lopez Lowe Lund Lynch Macdonald Mackenzie Maguire Malik Marchetti Marsh Martinez Mason Matthews Mbeki McAllister"
    " McCarthy Mendes Mensah Mercer Meyer Mills Mishra Mitchell Moore Moreno Moretti Mueller Mukherjee Nakamura Nash"
    " Nguyen Nielsen Nolan Novak Nowak Nwosu O'Brien O'Connor O'Neill Okafor Okoro Olsen Ortega Osborne Owusu Palmer"
    " Park Parsons Patel Pearce Pereira Petrov Phillips Pinto Popescu Porter Quigley Quinn Rahman Ramirez Rasmussen"
    " Reed Reeves Reid Ribeiro Richter Riley Rinaldi Rivera Roberts Robinson Rossi Rowe Russo Ryan Saito Salazar"
    " Sanchez Sandberg Santos Sato Schmidt Schneider Schultz Scott Sharma Shaw Sheikh Silva Simmons Singh Sinclair"
    " Sokolov Soto Spencer Stein Stevens Stone Suzuki Svensson Swift Szabo Tanaka Thompson Thorne Tran Tucker Turner"
    " Underwood Varga Vasquez Vaughan Visser Vogel Wagner Walsh Wang Weber Webster Whitaker Wolff Wong Wu Yamamoto"
    " Yates Yilmaz Zhang Zimmermann"
).split()
CITIES = (
    "Aberdeen Adelaide Amsterdam Antwerp Atlanta Auckland Austin Baltimore Bangkok Barcelona Basel Bath Belfast Bergen"
    " Birmingham Bologna Bordeaux Brisbane Bristol Brussels Budapest Calgary Cambridge Canterbury Cardiff Cologne"
    " Copenhagen Cork Coventry Dresden Dundee Durban Edinburgh Exeter Florence Galway Genoa Ghent Glasgow Gothenburg"
    " Granada Graz Hamburg Hanover Helsinki Houston Hull Innsbruck Istanbul Jakarta Krakow Kyoto Lagos Lancaster"
    " Leipzig Liverpool Ljubljana Lyon Malmo Manchester Manila Marseille Melbourne Memphis Montreal Munich Nantes"
    " Naples Nashville Newcastle Nice Norwich Nottingham Osaka Ottawa Oxford Palermo Perth Plymouth Portland Reykjavik"
    " Riga Rotterdam Salzburg Seville Sheffield Singapore Sofia Southampton Stockholm Stuttgart Tallinn Tampere Tartu"
    " Trieste Turin Utrecht Valencia Vancouver Venice Verona Vilnius Warsaw Wellington Winchester Zagreb"
).split()
COUNTRIES = (
    "Argentina Austria Belgium Bolivia Brazil Bulgaria Canada Chile China Colombia Croatia Cuba Denmark Ecuador Egypt"
    " Estonia Ethiopia Finland France Georgia Germany Ghana Greece Hungary Iceland India Indonesia Ireland Italy Japan"
    " Kenya Latvia Lithuania Madagascar Malaysia Malta Mexico Morocco Namibia Nepal Norway Pakistan Panama Peru Poland"
    " Portugal Romania Scotland Senegal Serbia Slovenia Spain Sweden Switzerland Tanzania Thailand Tunisia Turkey"
    " Uganda Uruguay Vietnam Wales Zambia"
).split() + ["New Zealand", "South Africa", "South Korea", "Costa Rica", "the Netherlands", "Sri Lanka"]
_TOWN_HEADS = (
    "Ash Alder Amber Barn Beck Birch Black Bram Brook Castle Chester Clay Cold Crow Dun East Elm Fair Fern Fox Glen"
    " Gold Grey Hart Haw Hazel High Holm Hunt King Lang Lime Little Long Marl Mel Mill Moor Nether New North Oak Old"
    " Over Pen Pick Port Quarry Red Ridge Rock Rush Salt Sand Shel South Stan Stone Strat Swan Thorn Up Wal Well West"
    " Whit Wild Win Wood Yar"
).split()
_TOWN_TAILS = (
    "bridge bury by combe cote dale den field ford gate ham haven hill holt hurst land ley low marsh mere minster mouth"
    " ness ney pool port shaw stead stock ton vale wall water well wick wood worth"
).split()
_STREETS = (
    "Station Church Mill Victoria Park Queen King Bridge Castle Chapel Garden Harbour High Hill Lake London Market"
    " Meadow North Orchard Oxford Priory Quay River School Spring Tower Union Water West Windsor York Albert Beech"
    " Cherry Cedar Chestnut Elm Maple Linden Foundry Granary Canal Abbey Saddler Tanner Rope Weaver"
).split()
_STREET_KINDS = (
    "Street Street Street Road Road Lane Avenue Close Square Terrace Way Drive Gardens Row Crescent Place"
).split()
_FIRM_HEADS = (
    "Acorn Alpine Anchor Apex Arrow Atlas Aurora Beacon Blue Bright Cascade Clear Compass Coral Crown Crystal Delta"
    " Eagle Ember Evergreen Falcon First Golden Granite Green Harbour Heron Horizon Juniper Kestrel Lantern Linden Lion"
    " Lunar Meridian Metro Nimbus Nordic Northern Nova Orchid Orion Pacific Peak Phoenix Pioneer Polar Quantum Raven"
    " Redwood Sapphire Sierra Silver Solar Stellar Summit Sunrise Swift Tempest Titan United Vector Velvet Vista Willow"
    " Zenith"
).split()
_FIRM_TAILS = (
    "Analytics,Bank,Brothers,Builders,Chemicals,Cleaning,Construction,Consulting,Couriers,Dairy,Design,Electric,"
    "Energy,Engineering,Farms,Finance,Foods,Freight,"
    "Furniture,Gardens,Glass,Group,Health,Holdings,Homes,Hotels,Industries,Instruments,Insurance,Labs,Laundry,"
    "Logistics,Media,Motors,Networks,Optics,Packaging,Partners,"
    "Pharma,Plumbing,Press,Properties,Publishing,Rail,Robotics,Security,Shipping,Software,Solutions,Steel,Studios,"
    "Supplies,Systems,Telecom,Textiles,Timber,Tools,Toys,"
    "Trading,Transport,Travel,Ventures,Water,Works"
).split(",")
_SHOPS = (
    "Bakery,Books,Bicycles,Café,Camera Shop,Chemist,Coffee House,Corner Shop,Deli,Electronics,Fish"
    " Market,Flowers,Garden Centre,Grocers,Hardware,Hats,Jewellers,Music,Outdoor,Paints,Pet"
    " Shop,Pharmacy,Records,Shoes,Stationers,Stores,Tea Room,Toys,Wine Merchants,Wool Shop"
).split(",")
_PRODUCTS = (
    "desk lamp,coffee machine,electric kettle,toaster,vacuum cleaner,hair dryer,washing"
    " machine,dishwasher,freezer,microwave,food mixer,rice cooker,bread maker,tent,rucksack,sleeping bag,camping"
    " stove,mountain bike,road"
    " bike,helmet,skateboard,kayak,laptop,tablet,printer,scanner,keyboard,monitor,router,headphones,speaker,camera,"
    "tripod,projector,armchair,bookcase,mattress,office"
    " chair,wardrobe,sofa bed,garden bench,lawn mower,hedge trimmer,wheelbarrow,drill,sander,ladder,paint roller,winter"
    " coat,rain jacket,hiking boots,running shoes,wrist watch,umbrella,suitcase,pushchair,car seat,fish tank,bird"
    " feeder,alarm clock,radiator,heater,fan,air purifier"
).split(",")
_PLANTS = (
    "oak,beech,birch,willow,rowan,hazel,lavender,rosemary,thyme,basil,mint,foxglove,bluebell,primrose,tulip,daffodil,"
    "peony,dahlia,orchid,fern,ivy,holly,nettle,clover,poppy,sunflower,"
    "lupin,iris,lily,rose,jasmine,magnolia,maple,larch,juniper,heather"
).split(",")
_VEHICLES = (
    "van,lorry,bus,tram,minibus,tractor,motorbike,bicycle,ferry,pickup truck,taxi,fire"
    " engine,ambulance,caravan,scooter,barge,milk float,forklift,camper van,estate car".split(",")
)
_BUILDINGS = (
    "town hall,library,museum,church,school,hospital,post office,police station,railway station,sports"
    " hall,theatre,cinema,swimming pool,warehouse,factory,water tower,windmill,lighthouse,community centre,fire"
    " station,bank,hotel,court house,observatory,boathouse"
).split(",")
_ROOMS = (
    "kitchen,cellar,attic,garage,library,meeting room,staff room,main hall,canteen,laboratory,workshop,reading"
    " room,basement,conference room,waiting room,conservatory,gymnasium,music room,studio,lecture theatre,room 12,room"
    " 204,the blue room"
).split(",")
_TOOLS = (
    "hammer,screwdriver,spanner,pliers,saw,chisel,file,drill,spirit level,tape measure,clamp,crowbar,hand"
    " plane,soldering iron,wire brush,Allen key,torque wrench,trowel,shovel,rake,axe,pruning saw,staple"
    " gun,sandpaper,ladder,paintbrush"
).split(",")
_ORGS = (
    "Historical Society,Rowing Club,Chess Club,Garden Society,Rotary Club,Youth Orchestra,Town Council,Parish"
    " Council,University,Institute of Technology,Museum,Art Gallery,Animal Shelter,Housing Association,Water"
    " Board,Football Club,Choral Society,Nature Trust,Food Bank,Tenants' Union,Medical Centre,Walking Group,Research"
    " Council,Film Festival"
).split(",")
_BOOK_A = (
    "The Last,A Quiet,The Glass,The Forgotten,Beyond the,Letters from a,The Paper,Under the,The Silent,A Winter,Songs"
    " of the,The Salt,Twelve,The Borrowed,Notes on a,The Long,No".split(",")
)
_BOOK_B = (
    "Harbour,Orchard,Lighthouse,Winter,Garden,River,Clockmaker,Summer,Island,Letters,Bridge,Mountain,Door,Station,"
    "Cartographer,Kitchen,Tide,Journey,Bell,Moon,Winds,Staircase"
).split(",")
_ADJ = (
    "wooden red old small heavy stainless folding woollen striped portable cordless " "second-hand large light blue"
).split()
_SMALL = "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty".split()


def _digits(lex: Lexicon, n: int) -> str:
    return "".join(str(lex.between(0, 9)) for _ in range(n))


def _letters(lex: Lexicon, n: int) -> str:
    return "".join(lex.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(n))


def _made(lex: Lexicon) -> bool:
    return lex.chance(0.125)


def first_name(lex: Lexicon, kind: str = "") -> str:
    return (
        lex.word()
        if _made(lex)
        else lex.choice(WOMEN if kind == "woman" or (kind != "man" and lex.chance(0.5)) else MEN)
    )


def last_name(lex: Lexicon) -> str:
    return (
        lex.word() if _made(lex) else lex.choice(LAST) if lex.chance(0.95) else f"{lex.choice(LAST)}-{lex.choice(LAST)}"
    )


def person(lex: Lexicon, kind: str = "") -> str:
    return f"{first_name(lex, kind)} {last_name(lex)}"


def town(lex: Lexicon) -> str:
    if _made(lex):
        return lex.town()
    name = lex.choice(_TOWN_HEADS) + lex.choice(_TOWN_TAILS)
    return (
        name
        if lex.chance(0.85)
        else lex.choice(
            (
                f"Upper {name}",
                f"{name} St Mary",
                f"Great {name}",
                f"{name}-on-Sea",
                f"St {lex.choice(MEN)}",
                f"{name} Bay",
            )
        )
    )


def company(lex: Lexicon) -> str:
    form = lex.rng.random()
    tail = lex.choice(_FIRM_TAILS)
    if form < 0.35:
        name = f"{lex.choice(_FIRM_HEADS)} {tail}"
    elif form < 0.5:
        name = f"{lex.choice(LAST)} & {lex.choice((lex.choice(LAST), 'Sons', 'Daughters', 'Partners', 'Co'))}"
    elif form < 0.65:
        name = f"{lex.choice(LAST)} {tail}"
    elif form < 0.8:
        name = f"{lex.choice(_FIRM_HEADS)}{lex.choice(_TOWN_TAILS)} {tail}"
    else:
        name = f"{lex.word() if lex.chance(0.5) else town(lex)} {tail}"
    return name + (lex.choice((" Ltd", " GmbH", " Inc", " plc", " AG", " & Co", " LLC")) if lex.chance(0.25) else "")


def street(lex: Lexicon) -> str:
    number = str(lex.between(1, lex.choice((30, 220)))) + (lex.choice("ABC") if lex.chance(0.1) else "")
    return (
        f"{number} {lex.choice(_STREETS)} {lex.choice(_STREET_KINDS)}"
        if lex.chance(0.9)
        else f"{lex.choice(_STREETS)} {lex.choice(_STREET_KINDS)} {number}"
    )


def date(lex: Lexicon) -> str:
    day, month, year, weekday = lex.between(1, 28), lex.choice(MONTHS), lex.between(1990, 2029), lex.choice(WEEKDAYS)
    nth = f"{day}{'th' if 11 <= day <= 13 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    number = MONTHS.index(month) + 1
    return lex.choice(
        (
            f"{day} {month} {year}",
            f"{day} {month} {year}",
            f"{day} {month}",
            f"{day} {month}",
            f"{month} {day}",
            f"{month} {day}, {year}",
            f"{nth} {month}",
            f"{nth} of {month}",
            f"the {nth} of {month}",
            f"{weekday}, {day} {month}",
            f"{weekday} {day} {month}",
            f"{day:02}.{number:02}.{year}",
            f"{year}-{number:02}-{day:02}",
            f"{day}/{number}/{year}",
            f"{month[:3]} {day}, {year}",
            f"{day} {month[:3]} {year}",
            f"{weekday} the {nth}",
        )
    )


def time(lex: Lexicon) -> str:
    hour, minute = lex.between(1, 12), lex.choice(("00", "05", "10", "15", "20", "30", "40", "45", "50"))
    half = lex.choice(("am", "pm"))
    return lex.choice(
        (
            f"{lex.between(6, 23)}:{minute}",
            f"{lex.between(6, 23):02}:{minute}",
            f"{hour}:{minute} {half}",
            f"{hour} {half}",
            f"{hour}{half}",
            f"{hour}.{minute} {half}",
            f"{hour} o'clock",
            f"half past {lex.choice(_SMALL[:11])}",
            f"a quarter to {lex.choice(_SMALL[:11])}",
            f"{lex.choice(_SMALL[3:11])} in the evening",
            f"{hour}:{minute} {half[0]}.m.",
        )
    )


def duration(lex: Lexicon) -> str:
    n, unit = lex.between(2, lex.choice((12, 60))), lex.choice(("minutes", "hours", "days", "weeks", "months", "years"))
    return lex.choice(
        (
            f"{n} {unit}",
            f"{n} {unit}",
            f"{lex.choice(_SMALL)} {unit}",
            f"{lex.choice(_SMALL)} {unit}",
            f"{lex.between(1, 5)} hours and {lex.between(5, 55)} minutes",
            "half an hour",
            "an hour and a half",
            f"{n} to {n + lex.between(1, 9)} {unit}",
            f"about {n} {unit}",
            "a fortnight",
            "six and a half weeks",
        )
    )


def money(lex: Lexicon) -> str:
    big = lex.between(1, 999)
    grouped = f"{lex.between(1, 999)},{_digits(lex, 3)}"
    return lex.choice(
        (
            price(lex),
            price(lex),
            f"${grouped}",
            f"£{grouped}",
            f"€{grouped}",
            f"{grouped} euros",
            f"{grouped} dollars",
            f"{grouped}.{_digits(lex, 2)} GBP",
            f"£{big} million",
            f"${lex.between(1, 90)}.{lex.between(1, 9)} million",
            f"{big} thousand pounds",
            f"€{grouped}.{_digits(lex, 2)}",
            f"CHF {grouped}",
            f"{grouped} kronor",
        )
    )


def price(lex: Lexicon) -> str:
    n, cents = lex.between(1, lex.choice((20, 99, 900))), _digits(lex, 2)
    return lex.choice(
        (
            f"${n}",
            f"£{n}",
            f"€{n}",
            f"${n}.{cents}",
            f"£{n}.{cents}",
            f"€{n}.{cents}",
            f"{n} euros",
            f"{n} pounds",
            f"{n}.{cents}",
            f"{n}.{cents} EUR",
            f"{n},{cents} €",
            f"{n} dollars",
            f"USD {n}.{cents}",
            f"{n}.{cents} euros",
        )
    )


def percent(lex: Lexicon) -> str:
    n = lex.between(1, 98)
    return lex.choice(
        (
            f"{n}%",
            f"{n} %",
            f"{n} percent",
            f"{n} per cent",
            f"{n}.{lex.between(1, 9)}%",
            f"{lex.choice(_SMALL)} percent",
        )
    )


def phone(lex: Lexicon) -> str:
    d = lambda n: _digits(lex, n)
    return lex.choice(
        (
            f"0{d(4)} {d(6)}",
            f"0{d(3)} {d(3)} {d(4)}",
            f"({d(3)}) {d(3)}-{d(4)}",
            f"{d(3)}-{d(4)}",
            f"+44 {d(4)} {d(6)}",
            f"+{lex.between(1, 99)} {d(2)} {d(3)} {d(2)} {d(2)}",
            f"0{d(2)}-{d(7)}",
            f"{d(3)} {d(4)}",
            f"555-{d(4)}",
        )
    )


def email(lex: Lexicon) -> str:
    host = re.sub(r"[^a-z]", "", lex.choice((company(lex), town(lex), lex.choice(_FIRM_HEADS))).lower())
    who = lex.choice(
        (
            lex.choice(WOMEN + MEN).lower(),
            f"{lex.choice(WOMEN + MEN).lower()}.{lex.choice(LAST).lower()}",
            "info",
            "office",
            "support",
            "orders",
            "bookings",
            "hello",
            "jobs",
        )
    )
    return f"{re.sub(chr(39), '', who)}@{host}.{lex.choice(('com', 'org', 'net', 'co.uk', 'de', 'example', 'eu'))}"


def url(lex: Lexicon) -> str:
    host = re.sub(r"[^a-z]", "", lex.choice((company(lex), town(lex))).lower())
    return (
        lex.choice(("www.", "", "https://", "https://www."))
        + f"{host}.{lex.choice(('com', 'org', 'net', 'co.uk', 'example'))}"
        + lex.choice(("", "", "/help", "/book", "/orders", "/contact"))
    )


def code(lex: Lexicon) -> str:
    l, d = lambda n: _letters(lex, n), lambda n: _digits(lex, n)
    return lex.choice(
        (
            f"{l(2)}-{d(5)}",
            f"{l(3)}{d(4)}",
            f"{l(1)}{d(6)}",
            f"{d(4)}-{d(4)}",
            f"{l(2)}{d(2)}-{l(1)}{d(3)}",
            f"#{d(5)}",
            f"{d(6)}",
            f"{d(8)}",
            f"{l(3)}-{d(3)}-{l(2)}",
            f"{l(2)}/{d(4)}/{d(2)}",
            f"{l(4)}{d(2)}",
            f"{d(3)}-{l(2)}-{d(2)}",
            f"{l(1)}-{d(3)}",
            f"20{lex.between(10, 29)}-{d(4)}",
            f"{d(2)}{l(2)}{d(3)}",
        )
    )


def measure(lex: Lexicon, units: str) -> str:
    n = lex.between(2, lex.choice((12, 80, 950)))
    number = f"{n}.{lex.between(1, 9)}" if lex.chance(0.25) else str(n)
    unit = lex.choice(units.split("/"))
    return f"{number} {unit}" if lex.chance(0.9) or len(unit) > 3 else f"{number}{unit}"


_LISTS = {
    "city": CITIES,
    "country": COUNTRIES,
    "weekday": WEEKDAYS,
    "month": MONTHS,
    "product": _PRODUCTS,
    "material": MATERIALS + ["plastic", "aluminium", "rubber", "concrete", "ceramic"],
    "colour": COLOURS,
    "food": FOODS,
    "animal": ANIMALS,
    "plant": _PLANTS,
    "job": JOBS,
    "sport": SPORTS + ["football", "rugby", "volleyball", "badminton"],
    "instrument": INSTRUMENTS,
    "vehicle": _VEHICLES,
    "building": _BUILDINGS,
    "room": _ROOMS,
    "tool": _TOOLS,
}
_DRAWS = {
    "person": person,
    "woman": lambda x: person(x, "woman"),
    "man": lambda x: person(x, "man"),
    "first": first_name,
    "last": last_name,
    "company": company,
    "town": town,
    "street": street,
    "shop": lambda x: (
        f"{x.choice((x.choice(LAST) + chr(39) + 's', town(x), x.choice(_FIRM_HEADS), 'The ' + x.choice(_FIRM_HEADS)))}"
        f" {x.choice(_SHOPS)}"
    ),
    "date": date,
    "year": lambda x: str(x.between(1700, 2029)),
    "time": time,
    "duration": duration,
    "money": money,
    "price": price,
    "percent": percent,
    "phone": phone,
    "email": email,
    "url": url,
    "code": code,
    "organisation": lambda x: f"{x.choice((town(x), x.choice(CITIES), x.choice(_FIRM_HEADS)))} {x.choice(_ORGS)}",
    "book": lambda x: f"{x.choice(_BOOK_A)} {x.choice(_BOOK_B)}",
    "temperature": lambda x: measure(x, "°C/degrees/degrees Celsius/°F/C"),
    "weight": lambda x: measure(x, "kg/g/kilograms/grams/tonnes/pounds/lb"),
    "length": lambda x: measure(x, "m/cm/mm/km/metres/centimetres/miles/feet/inches"),
    "volume": lambda x: measure(x, "litres/ml/l/cubic metres/gallons/cl"),
}
KINDS = {*_LISTS, *_DRAWS, "int"}


def value(lex: Lexicon, kind: str) -> str:
    """One value; `kind` is a key of `KINDS`, `int` with its range: `int(3-12)`."""
    if m := re.fullmatch(r"int\((\d+)-(\d+)\)", kind):
        return str(lex.between(int(m[1]), int(m[2])))
    if kind == "product" and lex.chance(0.4):
        return f"{lex.choice(_ADJ)} {lex.choice(_PRODUCTS)}"
    return lex.choice(_LISTS[kind]) if kind in _LISTS else _DRAWS[kind](lex)
