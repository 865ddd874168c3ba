"""Task 4: secret codes in one of several documents, and two-hop questions whose hops lie in different documents.

In expert decoding (methods section 6) every expert sees one document, and one prior sees none; all append the token
that one of them chose. So the model has to answer well from its own document, say `null` without it, and stay unsure
rather than confident when it is made to continue an answer that its document does not support.
"""

from __future__ import annotations

from dataclasses import dataclass

from train.documents import Entity, Fact, make_entity, make_world, state
from train.filler import capital, filler
from train.lexicon import HELD, TRAIN, Lexicon
from train.questions import ask, branches_for, phrase_question
from train.relations import BY_KIND, CODE, loose_words
from train.sample import DEFAULT_INSTRUCTION, INSTRUCTIONS, TWO_STEP_INSTRUCTIONS, Branch, Sample

_HOPS = {
    TRAIN: [
        "{B} And {q}",
        "{B} Also, {q}",
        "{B} {Q}",
        "{B} Then {q}",
        "{B} {Q}",
        "{B} And then: {q}",
        "{B}\n{Q}",
        "{B} After that, {q}",
        "{B} Finally, {q}",
        "{B} Besides, {q}",
        "{B} I also ask: {q}",
        "{B} Secondly, {q}",
        "{B} Now {q}",
        "1. {B} 2. {Q}",
        "{B} Moreover, {q}",
        "{B} More: {q}",
        "{B} {L} {q}",
        "{B} {L}, {q}",
        "{B} {L}: {q}",
        "First: {B} Second: {Q}",
    ],
    HELD: ["{B} Next: {q}", "{B} In addition, {q}"],
}
_PERSON = {
    TRAIN: [
        "that person",
        "this person",
        "the person",
        "that man",
        "that woman",
        "the person you found",
        "the named person",
        "the person in question",
        "this man",
        "the one named",
        "the person just named",
        "the latter",
        "that {L} person",
        "the {L} person",
        "the {L} one",
        "said woman",
        "this somebody",
    ],
    HELD: ["the same person", "that very person"],
}


@dataclass
class TwoHop:
    """first: something → a person (the bridge); second: that person → the answer."""

    first: Fact
    second: Fact
    question: str

    @property
    def answer(self) -> str:
        return f"{self.first.value}; {self.second.value}"


def document_with(lex: Lexicon, sentences: list[str], tokens: int) -> str:
    """The sentences, in order, somewhere in a document of about `tokens` tokens of facts and filler about others."""
    facts = max(1, int(tokens / 45))
    world = make_world(lex, facts)
    others = [state(lex, f) for f in world.facts] + [filler(lex) for _ in range(max(1, int(tokens / 26)))]
    lex.rng.shuffle(others)
    spots = sorted(lex.between(0, len(others)) for _ in sentences)
    for spot, sentence in reversed(list(zip(spots, sentences))):
        others.insert(spot, sentence)
    return " ".join(others)


def code_fact(lex: Lexicon) -> tuple[Entity, str, str, str]:
    """(thing, code, sentence, question)"""
    entity = make_entity(lex, lex.choice(("container", "project", "building", "container", "vehicle", "person")))
    fact = Fact(entity, CODE, lex.code())
    return entity, fact.value, state(lex, fact), ask(lex, entity, CODE)


def secret_code(lex: Lexicon, tokens: int) -> Sample:
    """One document with up to four codes, asked for along with codes that are not there."""
    items = [code_fact(lex) for _ in range(lex.between(1, 4))]
    context = document_with(lex, [i[2] for i in items], tokens)
    branches = [Branch(i[3], i[1], "code") for i in items]
    for _ in range(lex.between(1, 3)):
        stranger = code_fact(lex)
        if lex.chance(0.5):
            branches.append(Branch(stranger[3], "null", "null"))
        else:  # the code another document knows is fed after `null` was the right first token
            branches.append(Branch(stranger[3], stranger[1], "denied", denied=True, weight=0.3))
    return Sample(_instruction(lex, INSTRUCTIONS), context, branches)


def _instruction(lex: Lexicon, options: list[str]) -> str | None:
    if lex.split == HELD:
        return DEFAULT_INSTRUCTION
    return None if lex.chance(0.08) else lex.choice(options)


def two_hop(lex: Lexicon) -> TwoHop:
    first_entity = make_entity(
        lex, lex.choice(("building", "vehicle", "container", "event", "company", "project", "animal"))
    )
    first_relation = lex.choice([r for r in BY_KIND[first_entity.kind] if r.value == "person"])
    bridge = make_entity(lex, "person")
    second_relation = lex.choice(BY_KIND["person"])
    first = Fact(first_entity, first_relation, bridge.name)
    second = Fact(bridge, second_relation, lex.value(second_relation.value))
    subject, noun = lex.choice(first_entity.forms), lex.choice(first_relation.nouns)
    if lex.chance(0.5):  # nested: any question about a person, asked of `the captain of the ferry X`
        return TwoHop(
            first, second, phrase_question(lex, second_relation.question_wording(lex), f"the {noun} of {subject}")
        )
    ask_first = ask(lex, first_entity, first_relation)
    ask_second = second_relation.question_wording(lex).replace("{S}", lex.choice(_PERSON[lex.split]))
    joint = (
        lex.choice(_HOPS[lex.split])
        .replace("{q}", ask_second[0].lower() + ask_second[1:])
        .replace("{Q}", capital(ask_second))
    )
    while "{L}" in joint:
        joint = joint.replace("{L}", loose_words(lex, 1, 2), 1)
    return TwoHop(first, second, joint.replace("{B}", ask_first))


def hop_branch(lex: Lexicon, hop: TwoHop, has_first: bool, has_second: bool) -> Branch:
    """What a document that states the given hops should do with the question."""
    if has_first and has_second:
        return Branch(hop.question, hop.answer, "hop")
    if has_first:  # knows the bridge; anything of the right kind may follow, so it learns to be unsure
        return Branch(hop.question, hop.first.value + ";", "hop1", tail=" " + lex.value(hop.second.relation.value))
    given = hop.first.value + ";"
    if has_second:
        return Branch(hop.question, " " + hop.second.value, "hop2", given=given, denied=True)
    return Branch(
        hop.question, " " + lex.value(hop.second.relation.value), "denied", given=given, denied=True, weight=0.3
    )


def two_hop_document(lex: Lexicon, tokens: int) -> Sample:
    """A document that states the first hop, the second, both or neither of a few two-hop questions."""
    sentences, branches = [], []
    for _ in range(lex.between(1, 5)):
        hop = two_hop(lex)
        kind = lex.rng.random()
        has_first, has_second = kind < 0.65, kind >= 0.35 and kind < 0.9
        parts = ([state(lex, hop.first)] if has_first else []) + ([state(lex, hop.second)] if has_second else [])
        if lex.chance(0.5):
            parts.reverse()
        sentences += parts
        branches.append(hop_branch(lex, hop, has_first, has_second))
    lex.rng.shuffle(sentences)
    return Sample(_instruction(lex, TWO_STEP_INSTRUCTIONS), document_with(lex, sentences, tokens), branches)


def no_document(lex: Lexicon) -> Sample:
    """The prior: questions with no text at all. The answer is null; a continuation is anybody's guess."""
    world = make_world(lex, 6)
    branches = []
    for b in branches_for(lex, world, 5, 0.0):
        if b.task == "fact":
            branches.append(
                Branch(b.question, b.answer, "denied", denied=True, weight=0.3)
                if lex.chance(0.6)
                else Branch(b.question, "null", "null")
            )
    hop, item = two_hop(lex), code_fact(lex)
    branches.append(hop_branch(lex, hop, False, False))
    branches.append(Branch(item[3], item[1], "denied", denied=True, weight=0.3))
    return Sample(_instruction(lex, INSTRUCTIONS), None, branches)
