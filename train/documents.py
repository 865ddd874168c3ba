"""Documents made of facts about entities, in several layouts, and what each document states.

A `World` holds entities and their facts; `write` turns it into text. No value is invented for a question: every
answer is a string that stands in the text, and each (entity, relation) pair is stated once at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from train.filler import capital, filler, heading, opening
from train.lexicon import ANIMALS, Lexicon
from train.relations import BY_KIND, Relation

KINDS = {
    "building": [
        "museum",
        "library",
        "bakery",
        "hotel",
        "tower",
        "bridge",
        "school",
        "theatre",
        "mill",
        "castle",
        "hospital",
        "cafe",
    ],
    "vehicle": ["ferry", "train", "van", "boat", "bus", "ship", "truck", "tram", "yacht"],
    "container": ["chest", "box", "vault", "safe", "parcel", "cabinet", "trunk", "locker", "suitcase"],
    "event": ["festival", "race", "concert", "fair", "contest", "regatta", "exhibition", "tournament"],
    "company": ["company", "firm"],
    "project": ["project", "operation", "programme"],
}
_KIND_WEIGHTS = (
    ["person"] * 7
    + ["animal"] * 4
    + ["building"] * 3
    + ["vehicle"] * 3
    + ["container"] * 3
    + ["event"] * 3
    + ["company"] * 2
    + ["project"] * 2
)


@dataclass
class Entity:
    """`forms` are ways to mention it in running text; `name` is what a backward question is answered with."""

    kind: str
    name: str
    forms: list[str]
    pronoun: tuple[str, str]  # ("She", "Her")


@dataclass
class Fact:
    entity: Entity
    relation: Relation
    value: str


@dataclass
class World:
    facts: list[Fact] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)
    stated: set[tuple[int, int]] = field(default_factory=set)

    def states(self, entity: Entity, relation: Relation) -> bool:
        return (id(entity), id(relation)) in self.stated

    def add(self, entity: Entity, relation: Relation, value: str) -> Fact:
        self.stated.add((id(entity), id(relation)))
        self.facts.append(Fact(entity, relation, value))
        return self.facts[-1]


def make_entity(lex: Lexicon, kind: str | None = None, like: Entity | None = None) -> Entity:
    """A new entity; with `like`, one that shares a part of its name (a distractor that must be told apart)."""
    kind = like.kind if like else kind or lex.choice(_KIND_WEIGHTS)
    if kind == "person":
        first, last = lex.first(), lex.last()
        if like:
            theirs = like.name.split(" ")
            first, last = (theirs[0], last) if lex.chance(0.5) else (first, theirs[-1])
        name = f"{first} {last}"
        pronoun = lex.choice((("She", "Her"), ("He", "His")))
        return Entity(kind, name, [name], pronoun)
    name = lex.word() if kind != "company" or lex.chance(0.5) else lex.company()
    if kind == "animal":
        noun = lex.choice(ANIMALS)
        if like:
            name = like.name if lex.chance(0.5) else name
        forms = [f"the {noun} named {name}", f"the {noun} {name}", f"{name} the {noun}", f"the {noun} called {name}"]
        return Entity(kind, name, forms[:1] if lex.chance(0.3) else forms, ("It", "Its"))
    noun = lex.choice(KINDS[kind])
    forms = [f"the {noun} {name}", f"the {noun} called {name}", f"the {name} {noun}"]
    if kind in ("company", "project"):
        forms = [f"{noun} {name}", name] if kind == "project" else [name, f"the {noun} {name}"]
    return Entity(kind, name, forms, ("It", "Its"))


def _key(entity: Entity) -> str:
    return entity.forms[0].lower()


def make_world(lex: Lexicon, facts_wanted: int) -> World:
    """Entities with one to seven facts each until `facts_wanted` are there; a third have a near-namesake."""
    world, seen = World(), set()
    focus = lex.choice(_KIND_WEIGHTS) if lex.chance(0.25) else None  # some documents are about one kind of thing
    depth = lex.choice((1, 2, 3, 5, 7))
    while len(world.facts) < facts_wanted:
        like = lex.choice(world.entities) if world.entities and lex.chance(0.25) else None
        entity = make_entity(lex, focus, like)
        if _key(entity) in seen:
            continue
        seen.add(_key(entity))
        world.entities.append(entity)
        table = BY_KIND[entity.kind]
        for _ in range(min(lex.between(1, depth), facts_wanted - len(world.facts))):
            relation = lex.choice(table)
            if not world.states(entity, relation):
                world.add(entity, relation, lex.value(relation.value))
    return world


def state(lex: Lexicon, fact: Fact, pronoun: bool = False) -> str:
    """The fact as a sentence; `pronoun` replaces the subject where the sentence starts with it."""
    wording = fact.relation.fact_wording(lex)
    if pronoun and wording.startswith("{S}"):
        subject, owner = fact.entity.pronoun
        wording = owner + wording[5:] if wording.startswith("{S}'s") else subject + wording[3:]
    return capital(wording.replace("{S}", lex.choice(fact.entity.forms)).replace("{V}", fact.value))


def _records(lex: Lexicon, world: World) -> str:
    """A list of blocks, one per entity, `Noun: value` per line."""
    blocks, bullet = [], lex.choice(("", "- ", "* "))
    for entity in world.entities:
        lines = [capital(lex.choice(entity.forms))]
        lines += [
            f"{bullet}{capital(lex.choice(f.relation.nouns))}: {f.value}" for f in world.facts if f.entity is entity
        ]
        if len(lines) > 1:
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def write(lex: Lexicon, world: World, hay: float) -> str:
    """The document's text. `hay` = filler sentences per fact. Begins and ends with a visible character."""
    if lex.chance(0.07) and hay < 1.0:
        return _records(lex, world)
    sentences: list[str] = []
    by_entity = lex.chance(0.5)
    facts = list(world.facts)
    if not by_entity:
        lex.rng.shuffle(facts)
    with_pronouns = by_entity and lex.chance(0.6)
    before = None
    for fact in facts:
        count = int(hay) + lex.chance(hay - int(hay))
        if count and lex.chance(0.5):
            count = lex.between(0, 2 * count)
        for _ in range(count):
            sentences.append(filler(lex))
            before = None
        sentences.append(state(lex, fact, with_pronouns and before is fact.entity and lex.chance(0.6)))
        before = fact.entity
    if hay:
        sentences.append(filler(lex))
    return layout(lex, sentences)


def layout(lex: Lexicon, sentences: list[str]) -> str:
    """Sentences as running text, paragraphs, or a bullet list, sometimes under a heading or an opening."""
    style = lex.rng.random()
    head = heading(lex) + "\n\n" if lex.chance(0.15) else opening(lex) + "\n\n" if lex.chance(0.05) else ""
    if style < 0.08:
        return head + "\n".join("- " + s for s in sentences)
    if style < 0.14:
        return head + "\n".join(sentences)
    if style < 0.5:
        return head + " ".join(sentences)
    out, size = [], lex.between(3, 9)
    for start in range(0, len(sentences), size):
        out.append(" ".join(sentences[start : start + size]))
    return head + "\n\n".join(out)
