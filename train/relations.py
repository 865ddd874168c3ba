"""What can be said of whom: the table of relations, and their wordings split into training and held-out ones.

One row: kind of subject | nouns | kind of value | ways to state it | ways to ask for it | ways to ask back.
`{S}` is the subject, `{V}` the value. General frames around the noun add many more wordings to each row. A wording
(frame with its noun filled in) belongs to one split only: see `Relation.facts` and `Relation.questions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from train.lexicon import HELD, TRAIN, split_list

_TABLE = """
person | birthplace/place of birth | town | {S} was born in {V}./{S} is a native of {V}./\
{V} is where {S} was born. | Where was {S} born?/In which town was {S} born?/What town was {S} born in? | \
Who was born in {V}?
person | home town/place of residence | town | {S} lives in {V}./{S} has a house in {V}./\
{S} moved to {V} and still lives there. | Where does {S} live?/In which town does {S} live?/\
What town does {S} live in? | Who lives in {V}?
person | job/occupation/profession | job | {S} works as a {V}./{S} earns a living as a {V}./\
{S} is a {V} by trade. | What does {S} do for a living?/What kind of work does {S} do?/What does {S} work as? | \
Who works as a {V}?
person | favourite colour/preferred colour | colour | {S} likes the colour {V} best./\
{S} prefers {V} to every other colour./{S} always chooses {V}. | \
Which colour does {S} like best?/What colour does {S} prefer?/What is the colour {S} likes most? |
person | favourite food/preferred dish | food | {S} loves eating {V}./{S} likes {V} more than any other food./\
{S} would eat {V} every day. | What does {S} love eating?/Which food does {S} like most?/\
What would {S} eat every day? | Who loves eating {V}?
person | age | unit:years | {S} is {V} old./{S} has just turned {V} old. | How old is {S}?/What age is {S}? |
person | birthday/date of birth | date | {S} was born on {V}./{S} came into the world on {V}. | \
When was {S} born?/On which date was {S} born? | Who was born on {V}?
person | phone number/telephone number | phone | {S} can be reached at {V}./{S} can be called on {V}. | \
How can {S} be reached by phone?/Which number should be called to reach {S}? | Who can be reached at {V}?
person | instrument | instrument | {S} plays the {V}./{S} has been learning the {V} for years./\
{S} practises the {V} every evening. | Which instrument does {S} play?/What does {S} play? | Who plays the {V}?
person | sport/hobby | sport | {S} spends every weekend on {V}./{S} enjoys {V}./{S} is very good at {V}. | \
What does {S} enjoy?/What is {S} good at? |
person | employer/company | company | {S} works for {V}./{S} is employed by {V}./{V} employs {S}. | \
Who does {S} work for?/Which company employs {S}?/Where does {S} work? | Who works for {V}?
person | eye colour | colour | {S} has {V} eyes./{S} looks at the world with {V} eyes. | \
What colour are {S}'s eyes?/Which colour of eyes does {S} have? |
person | badge number/badge code | code | {S} wears badge {V}./{S} was given the badge {V}. | \
Which badge does {S} wear?/What badge was {S} given? | Who wears badge {V}?
person | locker code/locker combination | code | {S} opens the locker with {V}./{S} uses {V} for the locker. | \
How does {S} open the locker?/What opens the locker of {S}? | Whose locker opens with {V}?
person | teacher/mentor | person | {S} was taught by {V}./{S} learned everything from {V}./\
{V} was the one who taught {S}. | Who taught {S}?/From whom did {S} learn everything? | Who was taught by {V}?
person | neighbour | person | {S} lives next door to {V}./{S} shares a fence with {V}. | \
Who lives next door to {S}?/With whom does {S} share a fence? |
person | shoe size | number | {S} wears shoes in size {V}./{S} takes size {V} in shoes. | \
What size of shoes does {S} wear?/Which size does {S} take in shoes? |
person | native language/mother tongue | language | {S} grew up speaking {V}./{S} speaks {V} at home. | \
Which language does {S} speak at home?/What did {S} grow up speaking? | Who speaks {V} at home?
person | pet | animal | {S} keeps a {V}./{S} owns a {V}. | What animal does {S} keep?/Which animal does {S} own? | \
Who keeps a {V}?
animal | age | unit:years/months | {S} is {V} old. | How old is {S}? |
animal | weight | unit:kg/pounds/grams | {S} weighs {V}./{S} was weighed at {V}. | \
How much does {S} weigh?/How heavy is {S}? |
animal | owner | person | {S} belongs to {V}./{S} is owned by {V}./{V} is the proud owner of {S}. | \
Who owns {S}?/Whom does {S} belong to? | Which animal belongs to {V}?
animal | favourite food/preferred food | food | {S} likes {V} best./{S} will do anything for {V}. | \
What does {S} like best?/What will {S} do anything for? |
animal | sleeping place | place | {S} sleeps {V}./{S} spends the night {V}. | \
Where does {S} sleep?/Where does {S} spend the night? |
animal | tag/tag number | code | {S} carries the tag {V}./{S} is registered under {V}. | \
Which tag does {S} carry?/Under which tag is {S} registered? | Which animal carries the tag {V}?
building | opening year/year of opening | year | {S} opened in {V}./{S} has been open since {V}. | \
When did {S} open?/In which year did {S} open?/Since when has {S} been open? |
building | height | unit:metres/feet | {S} is {V} tall./{S} rises to {V}. | How tall is {S}?/How high is {S}? |
building | architect | person | {S} was designed by {V}./{V} drew the plans for {S}. | \
Who designed {S}?/Who drew the plans for {S}? | What did {V} design?
building | number of rooms/room count | number | {S} has {V} rooms./{S} counts {V} rooms. | \
How many rooms does {S} have?/How many rooms are there in {S}? |
building | location/town | town | {S} stands in {V}./{S} is located in {V}./{S} can be found in {V}. | \
Where is {S}?/In which town does {S} stand?/Where can {S} be found? | What stands in {V}?
building | door colour | colour | {S} has a {V} door./{S} is entered through a {V} door. | \
What colour is the door of {S}?/Which colour does the door of {S} have? |
building | entry price/ticket price/admission | price | {S} charges {V} for entry./{S} costs {V} to visit./\
A visit to {S} costs {V}. | How much does it cost to visit {S}?/What does entry to {S} cost?/\
What does {S} charge for entry? |
building | opening time/opening hour | time | {S} opens at {V} every morning./{S} lets visitors in from {V}. | \
At what time does {S} open?/When does {S} open in the morning? |
building | director/manager | person | {S} is run by {V}./{S} is managed by {V}./{V} manages {S}. | \
Who runs {S}?/Who manages {S}?/Who is in charge of {S}? | What is run by {V}?
building | closing day | weekday | {S} is closed on {V}./{S} stays shut every {V}. | \
On which day is {S} closed?/Which day does {S} stay shut? |
vehicle | colour | colour | {S} is painted {V}./{S} was given a coat of {V} paint. | \
What colour is {S}?/Which colour is {S} painted? |
vehicle | captain/driver | person | {S} is steered by {V}./{S} is under the command of {V}./{V} steers {S}. | \
Who steers {S}?/Who commands {S}? | What does {V} steer?
vehicle | top speed/maximum speed | unit:km per hour/knots | {S} reaches {V}./{S} can go as fast as {V}. | \
How fast can {S} go?/What speed does {S} reach? |
vehicle | destination | town | {S} is bound for {V}./{S} travels to {V}./{S} is on its way to {V}. | \
Where is {S} going?/Where does {S} travel to?/To which town is {S} bound? | What is bound for {V}?
vehicle | number of seats/seat count | number | {S} has {V} seats./{S} offers {V} seats. | \
How many seats does {S} have?/How many seats are there on {S}? |
vehicle | registration/registration number | code | {S} is registered as {V}./{S} carries the plate {V}. | \
How is {S} registered?/Which plate does {S} carry? | What is registered as {V}?
vehicle | departure time | time | {S} leaves at {V}./{S} departs at {V}./{S} sets off at {V}. | \
At what time does {S} leave?/When does {S} depart?/When does {S} set off? |
vehicle | cargo/load | phrase | {S} carries {V}./{S} is loaded with {V}./{S} transports {V}. | \
What does {S} carry?/What is {S} loaded with?/What does {S} transport? |
container | secret code/code | code | {S} opens with the code {V}./{S} is locked with the code {V}./\
The code {V} opens {S}. | Which code opens {S}?/With which code does {S} open?/What code is {S} locked with? | \
What does the code {V} open?
container | location/hiding place | place | {S} is kept {V}./{S} stands {V}./{S} was hidden {V}. | \
Where is {S} kept?/Where was {S} hidden? |
container | room | room | {S} can be found in {V}./{S} is stored in {V}. | \
In which room is {S} stored?/In which room can {S} be found? |
container | owner | person | {S} belongs to {V}./{S} is the property of {V}./{V} owns {S}. | \
Who owns {S}?/Whose property is {S}?/To whom does {S} belong? | What does {V} own?
container | material | material | {S} is made of {V}./{S} was built from {V}. | \
What is {S} made of?/From what was {S} built? |
container | contents/content | phrase | {S} contains {V}./{S} is filled with {V}./There are {V} in {S}. | \
What is in {S}?/What does {S} contain?/What is {S} filled with? |
container | weight | unit:kg/pounds/grams | {S} weighs {V}./{S} is {V} in weight. | \
How much does {S} weigh?/How heavy is {S}? |
container | keeper/guardian | person | {S} is guarded by {V}./{S} is looked after by {V}./\
The key to {S} is kept by {V}. | Who guards {S}?/Who looks after {S}?/Who keeps the key to {S}? | \
What is guarded by {V}?
event | date | date | {S} takes place on {V}./{S} will be held on {V}. | \
When does {S} take place?/On which date will {S} be held? | What takes place on {V}?
event | winner | person | {S} was won by {V}./{V} won {S}./{V} took first prize at {S}. | \
Who won {S}?/Who took first prize at {S}? | What did {V} win?
event | venue/town | town | {S} takes place in {V}./{S} is held in {V} this year. | \
Where does {S} take place?/In which town is {S} held? | What takes place in {V}?
event | ticket price/entrance fee | price | {S} costs {V} to attend./A ticket for {S} costs {V}. | \
How much is a ticket for {S}?/What does it cost to attend {S}? |
event | starting time/start | time | {S} starts at {V}./{S} begins at {V}. | \
At what time does {S} start?/When does {S} begin? |
event | host/organiser | person | {S} is organised by {V}./{S} is hosted by {V}./{V} organises {S}. | \
Who organises {S}?/Who hosts {S}? | What does {V} organise?
event | prize | phrase | {S} gives {V} to the winner./The winner of {S} receives {V}. | \
What does the winner of {S} receive?/What does {S} give to the winner? |
company | founder | person | {S} was founded by {V}./{V} started {S}./{V} founded {S}. | \
Who founded {S}?/Who started {S}? | What did {V} found?
company | headquarters/head office | town | {S} is based in {V}./{S} has its head office in {V}. | \
Where is {S} based?/In which town does {S} have its head office? | Which company is based in {V}?
company | number of employees/staff size | number | {S} employs {V} people./{S} has a staff of {V}. | \
How many people does {S} employ?/How many people work at {S}? |
company | main product/product | shop | {S} makes {V}./{S} is known for its {V}./{S} produces {V}. | \
What does {S} make?/What does {S} produce?/What is {S} known for? | Which company makes {V}?
company | founding year | year | {S} was founded in {V}./{S} has existed since {V}. | \
When was {S} founded?/Since when has {S} existed?/In which year was {S} founded? |
company | director/head | person | {S} is led by {V}./{S} is headed by {V}./{V} leads {S}. | \
Who leads {S}?/Who heads {S}? | Which company is led by {V}?
project | access code/password | code | {S} is protected by the password {V}./{S} can be entered with {V}. | \
Which password protects {S}?/How can {S} be entered? | What is protected by the password {V}?
project | budget | price | {S} may cost {V}./{S} was granted {V}. | How much may {S} cost?/How much was {S} granted? |
project | leader/coordinator | person | {S} is led by {V}./{S} is coordinated by {V}./{V} coordinates {S}. | \
Who leads {S}?/Who coordinates {S}? | What does {V} coordinate?
project | deadline | date | {S} must be finished by {V}./{S} is due on {V}. | \
By when must {S} be finished?/When is {S} due? |
project | meeting room/room | room | {S} meets in {V}./{S} is discussed in {V}. | \
Where does {S} meet?/In which room is {S} discussed? |
project | status colour | colour | {S} is marked {V} on the board./{S} shows {V} on the chart. | \
Which colour marks {S} on the board?/What colour does {S} show on the chart? |
"""

_FACT_FRAMES = """
The {A} of {S} is {V}. / {S}'s {A} is {V}. / As for {S}, the {A} is {V}. / {V} is the {A} of {S}. / \
According to the records, the {A} of {S} is {V}.
It is well known that the {A} of {S} is {V}. / In the case of {S}, the {A} is {V}. / \
The list gives {V} as the {A} of {S}. / For {S} the {A} reads {V}.
Note that the {A} of {S} is {V}. / When asked about the {A} of {S}, they answered: {V}. / The {A} of {S}: {V}. / \
They wrote down {V} as the {A} of {S}.
The {A} for {S} is {V}. / We were told that {S}'s {A} is {V}. / The {A} that belongs to {S} is {V}. / \
{S} has the following {A}: {V}. / With {S}, the {A} is {V}.
{S} gave {V} as the {A}. / On the form, the {A} of {S} was filled in as {V}. / \
The {A} of {S} has been {V} for a long time. / The {A} of {S} turned out to be {V}.
Under {A}, the file of {S} says {V}. / The file of {S} lists {V} under {A}. / \
Someone asked for the {A} of {S}; it is {V}. / There is no doubt that {V} is the {A} of {S}.
If you look for the {A} of {S}, you will find {V}. / Whoever wants to know the {A} of {S} is told {V}. / \
The {A} of {S} (which is {V}) was mentioned twice.
The {A} of {S}, {V}, is written on the wall. / {V}: that is the {A} of {S}. / About {S} we know the {A}: {V}. / \
The clerk noted the {A} of {S} as {V}.
The {A} of {S} was changed to {V}. / Regarding the {A} of {S}, the answer is {V}. / \
{S} ({A}: {V}) was also there. / They call {V} the {A} of {S}.
You can trust that {S}'s {A} is {V}. / The book says that {V} is {S}'s {A}. / The {A} of {S} must be {V}. / \
The {A} of {S} remains {V}. / {V} was entered as the {A} of {S}.
Speaking of {S}, the {A} happens to be {V}. / Do not forget that the {A} of {S} is {V}. / \
The {A} which {S} has is {V}. / {V}, the {A} of {S}, is easy to remember.
What is the {A} of {S}? It is {V}. / Question: the {A} of {S}? Answer: {V}. / \
At last we learned the {A} of {S}, namely {V}. / The sign gives the {A} of {S}: {V}.
I wrote {V} next to the {A} of {S}. / The {A} is {V} for {S}. / The {A} is {V} in the case of {S}. / \
{S} comes with {V} as {A}. / Here is the {A} of {S}: {V}.
""".replace("\n", " / ").split(" / ")
_FACT_FRAMES = [f for f in _FACT_FRAMES if f]
_QUESTION_FRAMES = """
What is the {A} of {S}? / What is {S}'s {A}? / Tell me the {A} of {S}. / Which {A} does {S} have? / \
Give the {A} of {S}. / Do you know the {A} of {S}? / Find the {A} of {S}.
Please name {S}'s {A}. / What does the text say about the {A} of {S}? / {S}: what is the {A}? / \
I need the {A} of {S}. / Could you tell me {S}'s {A}? / What {A} is given for {S}?
State the {A} of {S}. / What's the {A} of {S}? / What was the {A} of {S}? / Look up the {A} of {S}. / \
The {A} of {S} is what? / For {S}, what is the {A}? / {A} of {S}?
Please tell me what the {A} of {S} is. / Can you find {S}'s {A}? / what is the {A} of {S} / \
Which is the {A} of {S}? / Say the {A} of {S}. / Show me the {A} of {S}.
I would like to know the {A} of {S}. / Let me know {S}'s {A}. / What {A} does {S} have? / Return the {A} of {S}. / \
{S}'s {A}? / What is listed as the {A} of {S}?
What is said about {S}'s {A}? / Which {A} belongs to {S}? / Read out the {A} of {S}. / \
How is the {A} of {S} given? / Give me {S}'s {A}, please. / I am looking for the {A} of {S}.
Do we know {S}'s {A}? / Answer with the {A} of {S}. / What is the {A} for {S}? / With {S}, what is the {A}? / \
Tell us about the {A} of {S}. / Name the {A} of {S}.
""".replace("\n", " / ").split(" / ")
_QUESTION_FRAMES = [f for f in _QUESTION_FRAMES if f]
# What only evaluation uses: whole frames, and wrappers put around the natural wordings of the table.
_HELD_FACT_FRAMES = ["One more detail about {S}: the {A} is {V}.", "Ask for the {A} of {S} and you will hear {V}."]
_HELD_QUESTION_FRAMES = [
    "Can anyone say what the {A} of {S} is?",
    "What do we know about the {A} of {S}?",
    "Write down the {A} of {S}.",
]
_WRAPPERS = {
    TRAIN: [
        "People say that {F}.",
        "As far as anyone knows, {F}.",
        "{F}, as everybody knows.",
        "It is true that {F}.",
        "By the way, {F}.",
        "Of course {F}.",
        "{F}, which surprised nobody.",
        "It turned out that {F}.",
        "I heard that {F}.",
        "They told us that {F}.",
        "You may know that {F}.",
        "The guide says that {F}.",
        "{F}, I am told.",
        "{F}, and that has not changed.",
        "To be exact, {F}.",
        "In fact, {F}.",
        "Some people still doubt it, but {F}.",
        "Last week we read that {F}.",
        "{F}, the neighbours say.",
        "No one was surprised that {F}.",
        "Remember that {F}.",
        "As the letter says, {F}.",
        "After all, {F}.",
    ],
    HELD: [
        "Reports say that {F}.",
        "{F}, or so the story goes.",
        "As it happens, {F}.",
        "Everyone here can tell you that {F}.",
    ],
}
QUESTION_LEADS = {
    TRAIN: [
        "",
        "",
        "",
        "",
        "",
        "",
        "According to the text, ",
        "From the text: ",
        "Quick question: ",
        "In this document, ",
        "Please answer: ",
        "Tell me, ",
        "Question for you: ",
        "",
        "",
        "Hi, ",
        "I wonder: ",
        "Look at the text. ",
        "Using the text, ",
        "Based on the passage, ",
        "Read carefully: ",
        "Help me with this: ",
        "Can you tell me: ",
    ],
    HELD: ["As the text has it, ", "One thing: ", "Going by the document, ", "Next question: "],
}


# Loose words for training only: frames nobody would write, so that what counts is noun, subject and value, not the
# words between.
_LOOSE = (
    "and you will hear see then so it was gives shows has with as by read says for here there which that found asked"
    " one more thing about know known as told to be in this case can say still always just now called at last we they"
    " he she who whoever anyone someone if when or not is are were had have all only also even like such other first"
    " next after before under over from into on off out up down"
).split()


def loose_words(lex, low: int, high: int) -> str:
    """`low` to `high` random words; now and then a made-up one, as unknown to the model as a new word would be."""
    return " ".join(
        lex.choice(_LOOSE) if lex.chance(0.85) else lex.word().lower() for _ in range(lex.between(low, high))
    )


def loose_fact(lex, noun: str) -> str:
    """A fact frame of random words around noun, {S} and {V}."""
    words = lambda low, high: loose_words(lex, low, high)
    core = lex.choice(
        (f"the {noun} of {{S}}", f"{{S}}'s {noun}", f"the {noun} for {{S}}", f"{{S}} {words(0, 2)} the {noun}")
    )
    first, last = (core, "{V}") if lex.chance(0.8) else ("{V}", core)
    return (
        " ".join(
            f"{words(0, 4)} {first}{lex.choice(('', '', ',', ':'))} {words(1, 4)} {last}"
            f" {words(0, 3) if lex.chance(0.4) else ''}".split()
        )
        + "."
    )


def loose_question(lex, noun: str) -> str:
    words = lambda low, high: loose_words(lex, low, high)
    core = lex.choice(
        (f"the {noun} of {{S}}", f"{{S}}'s {noun}", f"{{S}} {words(0, 2)} {noun}", f"{noun} {words(0, 2)} {{S}}")
    )
    return " ".join(f"{words(0, 4)} {core} {words(0, 3)}".split()) + lex.choice("??.")


@dataclass(frozen=True)
class Relation:
    """One row of the table. `facts`, `questions` and `backward` map a split to full wordings with {S} and {V} left."""

    kind: str
    nouns: tuple[str, ...]
    value: str
    facts: dict[str, list[str]]
    questions: dict[str, list[str]]
    backward: dict[str, list[str]]

    def fact_wording(self, lex) -> str:
        if lex.split == TRAIN and lex.chance(0.06):
            return loose_fact(lex, lex.choice(self.nouns))
        wording = lex.choice(self.facts[lex.split])
        if lex.split == TRAIN and lex.chance(0.04):  # a lead of random words before an ordinary sentence
            wording = loose_words(lex, 1, 4) + lex.choice((", ", " that ", ": ", " ")) + wording
        return wording

    def question_wording(self, lex) -> str:
        if lex.split == TRAIN and lex.chance(0.06):
            return loose_question(lex, lex.choice(self.nouns))
        wording = lex.choice(self.questions[lex.split])
        if lex.split == TRAIN and lex.chance(0.05):
            wording = loose_words(lex, 1, 4) + lex.choice((", ", ": ", " ")) + wording
        return wording


def _parts(cell: str) -> list[str]:
    """Alternatives of a cell are separated by `/` after sentence ends (units keep theirs)."""
    out = [p.strip() for p in cell.replace("./", ".\n").replace("?/", "?\n").split("\n")]
    return [p for p in out if p]


def _part_frames(part: str) -> tuple[list[str], list[str]]:
    """Wordings for the colour of an animal's part: the classic haystack sentence comes first and is trained on."""
    facts = [
        "{S} has %s that is {V}.",
        "{S} has {V} %s.",
        "The %s of {S} is {V}.",
        "{S}'s %s is {V}.",
        "{S} is known for {V} %s.",
    ]
    asks = [
        "What colour is the %s of {S}?",
        "Which colour is the %s of {S}?",
        "What is the colour of the %s of {S}?",
        "What colour is {S}'s %s?",
        "Tell me the colour of {S}'s %s.",
    ]
    return [f % part for f in facts], [a % part for a in asks]


def wrap(sentence: str, split: str) -> list[str]:
    """The sentence inside each wrapper of the split, its own capital and full stop gone."""
    core = sentence[:-1]
    if core.startswith(("The ", "A ", "It ", "There ", "With ", "You ", "One ", "From ")):
        core = core[0].lower() + core[1:]
    return [w.replace("{F}", core) for w in _WRAPPERS[split]]


def split_wordings(natural: list[str], frames: list[str], held_frames: list[str]) -> dict[str, list[str]]:
    """Wordings per split. Training: the natural ones (a quarter as often as wrapped ones), wrapped, and most frames.
    Held out: the natural ones in wrappers of their own, frames with nouns that training never pairs, and new frames.
    Words are shared between the splits, wordings never: a model cannot guess a verb that it has never met."""
    train_wrapped = [w for n in natural for w in wrap(n, TRAIN)]
    natural = natural * max(1, len(train_wrapped) // max(1, len(natural)) // 4)
    return {
        TRAIN: natural + train_wrapped + split_list(frames, TRAIN),
        HELD: [w for n in dict.fromkeys(natural) for w in wrap(n, HELD)] + split_list(frames, HELD) + held_frames,
    }


def _load() -> list[Relation]:
    from train.lexicon import PARTS

    rows = []
    for line in _TABLE.strip().splitlines():
        kind, nouns, value, facts, questions, back = (cell.strip() for cell in line.split("|"))
        names = tuple(nouns.split("/"))
        fill = lambda frames: [f.replace("{A}", a) for f in frames for a in names]
        asks = fill(_QUESTION_FRAMES)
        held_asks = split_list(asks, HELD) + fill(_HELD_QUESTION_FRAMES)
        questions_of = {
            TRAIN: _parts(questions) * 9 + split_list(asks, TRAIN),
            HELD: with_leads(_parts(questions)) + held_asks,
        }
        backward = {TRAIN: _parts(back), HELD: with_leads(_parts(back))}
        rows.append(
            Relation(
                kind,
                names,
                value,
                split_wordings(_parts(facts), fill(_FACT_FRAMES), fill(_HELD_FACT_FRAMES)),
                questions_of,
                backward,
            )
        )
    for part in PARTS:
        facts, asks = _part_frames(part)
        facts_of = {
            TRAIN: facts[:1] * 4 + facts * 2 + wrap(facts[0], TRAIN),
            HELD: wrap(facts[0], HELD) + wrap(facts[2], HELD),
        }
        rows.append(
            Relation(
                "animal",
                (f"colour of the {part}",),
                "colour",
                facts_of,
                {TRAIN: asks[:1] * 2 + asks, HELD: with_leads(asks)},
                {TRAIN: [], HELD: []},
            )
        )
    return rows


def with_leads(questions: list[str]) -> list[str]:
    """Held-out forms of natural questions: each behind a lead that training never uses."""
    return [
        lead + (q if lead.endswith(": ") or q.startswith("{S}") else q[0].lower() + q[1:])
        for q in questions
        for lead in QUESTION_LEADS[HELD]
    ]


def _code_relation() -> Relation:
    """The secret code of anything: task 4."""
    facts = [
        "{S} has the secret code {V}.",
        "To open {S}, use the secret code {V}.",
        "Remember the secret code of {S}: {V}.",
        "Only {V} is accepted as the secret code of {S}.",
        "The secret code for {S} is {V}.",
        "The secret code of {S} is {V}.",
    ]
    fill = lambda frames: [f.replace("{A}", "secret code") for f in frames]
    asks = [
        "What is the secret code of {S}?",
        "What is the secret code for {S}?",
        "Which secret code does {S} have?",
        "Give me the secret code for {S}.",
    ]
    questions = {
        TRAIN: asks * 5 + split_list(fill(_QUESTION_FRAMES), TRAIN),
        HELD: with_leads(asks) + fill(_HELD_QUESTION_FRAMES),
    }
    return Relation(
        "any",
        ("secret code",),
        "code",
        split_wordings(facts, fill(_FACT_FRAMES), fill(_HELD_FACT_FRAMES)),
        questions,
        {TRAIN: [], HELD: []},
    )


CODE = _code_relation()
RELATIONS: list[Relation] = _load()
BY_KIND: dict[str, list[Relation]] = {}
for _r in RELATIONS:
    BY_KIND.setdefault(_r.kind, []).append(_r)
