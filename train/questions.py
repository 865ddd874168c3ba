"""Questions about a world: forward, backward, unanswerable, multiple choice, yes/no, two hops in one text."""

from __future__ import annotations

from train.documents import Entity, Fact, World, make_entity, make_world, write
from train.filler import capital
from train.lexicon import HELD, TRAIN, Lexicon
from train.relations import BY_KIND, QUESTION_LEADS, Relation
from train.sample import (
    CHOICE_INSTRUCTIONS,
    DEFAULT_INSTRUCTION,
    INSTRUCTIONS,
    Branch,
    Sample,
    choice_letters,
    with_choices,
)

_CHOICE_STYLES = {TRAIN: ["{L}) {C}", "{L}) {C}", "{L}. {C}", "({L}) {C}", "{L}: {C}"], HELD: ["{L}) {C}"]}
_YES_NO = {
    TRAIN: [
        "Is the {A} of {S} {V}?",
        "Is {V} the {A} of {S}?",
        "Is it true that {S}'s {A} is {V}?",
        "Does the text say that the {A} of {S} is {V}?",
        "Is {S}'s {A} really {V}?",
        "Yes or no: the {A} of {S} is {V}.",
        "Would you say that {V} is {S}'s {A}?",
        "{S} has {V} as {A}, right?",
        "Is {V} {S}'s {A}?",
    ],
    HELD: ["Is {S}'s {A} {V}?", "Is it correct that the {A} of {S} is {V}?"],
}
_QUESTION_MARKS = {TRAIN: ["\n\nQuestion: "] * 7 + ["\n\n", "\n\nQ: "], HELD: ["\n\nQuestion: "]}


def phrase_question(lex: Lexicon, wording: str, subject: str, value: str = "") -> str:
    """A wording with its subject (or value) put in, sometimes behind a lead such as `According to the text,`."""
    lead = lex.choice(QUESTION_LEADS[TRAIN]) if lex.split == TRAIN else ""  # held-out wordings carry their own leads
    if lead.endswith(", ") and not wording.startswith("{S}"):
        wording = wording[0].lower() + wording[1:]
    text = lead + wording.replace("{S}", subject).replace("{V}", value)
    return text if text.startswith("what is") else capital(text)


def ask(lex: Lexicon, entity: Entity, relation: Relation) -> str:
    return phrase_question(lex, relation.question_wording(lex), lex.choice(entity.forms))


def forward(lex: Lexicon, fact: Fact) -> Branch:
    return Branch(ask(lex, fact.entity, fact.relation), fact.value, "fact")


def backward(lex: Lexicon, world: World, fact: Fact) -> Branch | None:
    """`Who lives in V?`, only where exactly one subject fits."""
    wordings = fact.relation.backward[lex.split]
    if not wordings or sum(f.value == fact.value and f.relation.value == fact.relation.value for f in world.facts) != 1:
        return None
    return Branch(phrase_question(lex, lex.choice(wordings), "", fact.value), fact.entity.name, "fact")


def unanswerable(lex: Lexicon, world: World) -> Branch | None:
    """Asks for what the text does not say: a known entity's missing relation, a near-namesake, or a stranger."""
    kind = lex.rng.random()
    if world.entities and kind < 0.5:
        entity = lex.choice(world.entities)
        relation = lex.choice(BY_KIND[entity.kind])
        if lex.chance(0.5):  # a relation that the text states of somebody else is the hard case
            relation = lex.choice(world.facts).relation
    elif world.entities and kind < 0.8:
        fact = lex.choice(world.facts)
        entity, relation = make_entity(lex, like=fact.entity), fact.relation
    else:
        entity = make_entity(lex)
        relation = lex.choice(BY_KIND[entity.kind])
    if entity.kind != relation.kind or world.states(entity, relation):
        return None
    if any(e is not entity and e.forms[0] == entity.forms[0] for e in world.entities):
        return None
    for f in world.facts:  # places and rooms answer each other's questions too well to be called missing
        if (
            f.entity is entity
            and {f.relation.value, relation.value} <= {"place", "room", "town", "company", "job"}
            and f.relation.value != relation.value
        ):
            return None
        if f.entity is entity and f.relation.value == relation.value and (set(f.relation.nouns) & set(relation.nouns)):
            return None
    return Branch(ask(lex, entity, relation), "null", "null")


def multiple_choice(lex: Lexicon, world: World, fact: Fact) -> Branch:
    """The right value among others of its kind, from the text where there are some, else invented."""
    count = lex.choice((4, 4, 4, 3, 5, 2))
    others = list({f.value for f in world.facts if f.relation.value == fact.relation.value} - {fact.value})
    others.sort()
    lex.rng.shuffle(others)
    others = others[: count - 1 if lex.chance(0.5) else 1]
    while len(others) < count - 1:
        value = lex.value(fact.relation.value)
        if value != fact.value and value not in others:
            others.append(value)
    at = lex.between(0, count - 1)
    choices = others[:at] + [fact.value] + others[at:]
    question = ask(lex, fact.entity, fact.relation)
    return Branch(
        with_choices(question, choices, lex.choice(_CHOICE_STYLES[lex.split])),
        choice_letters(count)[at],
        "choice",
        choices=choices,
        plain=question,
    )


def yes_no(lex: Lexicon, world: World, fact: Fact) -> Branch:
    right = lex.chance(0.5)
    value = fact.value
    while not right and value == fact.value:
        same = [f.value for f in world.facts if f.relation.value == fact.relation.value]
        value = lex.choice(same) if lex.chance(0.4) else lex.value(fact.relation.value)
    wording = lex.choice(_YES_NO[lex.split]).replace("{A}", lex.choice(fact.relation.nouns)).replace("{V}", value)
    return Branch(capital(wording.replace("{S}", lex.choice(fact.entity.forms))), "yes" if right else "no", "yesno")


def branches_for(lex: Lexicon, world: World, count: int, choice_share: float) -> list[Branch]:
    """`count` questions on the world in random order, spread over all of its facts."""
    order = list(world.facts)
    lex.rng.shuffle(order)
    out: list[Branch] = []
    for i in range(count):
        fact, kind = order[i % len(order)], lex.rng.random()
        branch: Branch | None = None
        if kind < choice_share:
            branch = multiple_choice(lex, world, fact)
        elif kind < choice_share + 0.2:
            branch = unanswerable(lex, world)
            if branch and lex.split == TRAIN and lex.chance(0.25):
                invented = lex.value(lex.choice(world.facts).relation.value)
                branch = Branch(branch.question, invented, "denied", denied=True, weight=0.3)
        elif kind < choice_share + 0.27:
            branch = backward(lex, world, fact)
        elif kind < choice_share + 0.31:
            branch = yes_no(lex, world, fact)
        out.append(branch or forward(lex, fact))
    return out


def haystack(lex: Lexicon, tokens: int) -> Sample:
    """A document of about `tokens` tokens with questions at every depth. A fact is ~16 tokens, a filler ~13."""
    hay = lex.choice((0.0, 0.3, 1.0, 2.0, 4.0)) if tokens > 120 else lex.choice((0.0, 0.3, 1.0))
    facts = max(2, int(tokens / (16 + 13 * hay)))
    world = make_world(lex, facts)
    context = write(lex, world, hay)
    only_choice = lex.chance(0.12)
    share = 1.0 if only_choice else lex.choice((0.0, 0.0, 0.25))
    room = int(
        (3900 - 1.1 * tokens) / 36
    )  # a question with its answer is ~32 tokens, and all must fit one training row
    count = max(3, min(int(facts * 0.9), lex.between(4, 10) if tokens < 300 else lex.between(14, 44), room))
    system = (
        lex.choice(CHOICE_INSTRUCTIONS if only_choice else INSTRUCTIONS) if lex.split == TRAIN else DEFAULT_INSTRUCTION
    )
    if lex.split == TRAIN and lex.chance(0.08):
        system = None
    return Sample(system, context, branches_for(lex, world, count, share), lex.choice(_QUESTION_MARKS[lex.split]))
