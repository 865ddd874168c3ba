"""Skeleton decoding and expert decoding of evaluation records by the slow reference (`train.reference`)."""

from __future__ import annotations

import json

from train.encode import prompt_ids, question_ids, skeleton_chunks
from train.products import EXTRACT_INSTRUCTION
from train.reference import Network, experts, skeleton
from train.sample import DEFAULT_INSTRUCTION
from train.tokenizer import Tokenizer


def extract_instruction(attributes: list[str]) -> str:
    return EXTRACT_INSTRUCTION.replace("{L}", ", ".join(attributes))


def value_ended(text: str) -> bool:
    """Has a JSON value reached its delimiter: the closing quote of a string, or any character after a bare literal?"""
    text = text.lstrip()
    if text.startswith('"'):
        at = 1
        while at < len(text):
            if text[at] == "\\":
                at += 2
                continue
            if text[at] == '"':
                return True
            at += 1
        return False
    return any(c in ",}\n" for c in text)


def parse_value(text: str) -> str | None:
    """The value before its delimiter; `null` is None, an unfinished string is kept as it stands."""
    text = text.lstrip()
    if not text.startswith('"'):
        bare = text.split(",")[0].split("}")[0].split("\n")[0].strip()
        return None if bare in ("null", "") else bare
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
        return value
    except json.JSONDecodeError:
        return text[1:]


def extract_skeleton(
    net: Network, tok: Tokenizer, record: dict, budget: int = 24, spaced: bool = True, isolated: bool = False
) -> list[str | None]:
    """All attribute values of one record at once. The token that ends a value is decoded for its text before the
    delimiter."""
    prompt = (
        prompt_ids(tok, extract_instruction(record["attributes"])) + tok.encode(record["text"]) + question_ids(tok, "")
    )
    chunks = skeleton_chunks(tok, record["attributes"], spaced)
    finals: dict[int, str] = {}  # the text with its delimiter, by the list that `skeleton` grows for the slot

    def ends(tokens: list[int]) -> bool:
        text = tok.decode(tokens)
        if tokens[-1] == tok.im_end or value_ended(text):
            finals[id(tokens)] = text
            return True
        return False

    values = skeleton(net, prompt, chunks, [budget] * len(chunks), ends, isolated)
    return [parse_value(finals.get(id(v), tok.decode(v))) for v in values]


def answer_experts(net: Network, tok: Tokenizer, record: dict, max_new: int = 40) -> tuple[str, list[int]]:
    """Expert decoding over the record's documents, all equally relevant: no retriever helps. (answer, winners)"""
    system = prompt_ids(tok, DEFAULT_INSTRUCTION)
    documents = [tok.encode(d["text"]) for d in record["documents"]]
    question = question_ids(tok, "\n\nQuestion: " + record["question"])
    tokens, winners, _ = experts(net, system, documents, question, [0.5] * len(documents), 2.5, max_new, {tok.im_end})
    return tok.decode(tokens), winners
