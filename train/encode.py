"""Samples as token rows: ids, positions, visibility marks, labels. The contract between generator, trainer and engine.

A token carries `pos` (RoPE position), `branch` (0 = shared by all) and `step` (0 = ordinary or template token, k = k-th
token of a skeleton value). Within one sample key j is visible to query i iff
    j <= i  and  (branch[j] == 0 or branch[j] == branch[i])  and  step[j] <= step[i].
With tokens in this order that is methods section 1 for trees and section 5's training mask for skeletons:

    tree      p p c c c c | x x y y | x x x y        positions continue after c in every branch
    skeleton  p p c c a1 v v . . a2 v . . . a3 v v   `.` = gap: positions skipped, no tokens
"""

from __future__ import annotations

from dataclasses import dataclass, field

from train.lexicon import Lexicon
from train.products import json_text
from train.sample import Extraction, Sample
from train.tokenizer import Tokenizer

DOCUMENT_WEIGHT = 0.02  # of predicting a product page itself
KEY_WEIGHT = 0.1  # of the JSON keys in sequential output: they are copied from the instruction
GUESS_WEIGHT = 0.3


@dataclass
class Encoded:
    """Parallel lists, one entry per token; `label` -1 where nothing is predicted. `answers[n]` = task of answer n,
    `answer[i]` = n where the prediction at i belongs to answer n and counts for its exact match, else -1."""

    ids: list[int] = field(default_factory=list)
    pos: list[int] = field(default_factory=list)
    branch: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def add(self, ids: list[int], start: int, branch: int = 0, first_step: int = 0) -> None:
        n = len(ids)
        self.ids += ids
        self.pos += range(start, start + n)
        self.branch += [branch] * n
        self.step += range(first_step, first_step + n) if first_step else [0] * n
        self.label += [-1] * n
        self.weight += [0.0] * n
        self.answer += [-1] * n

    def predict(self, at: int, label: int, weight: float, answer: int = -1) -> None:
        self.label[at], self.weight[at], self.answer[at] = label, weight, answer

    def predict_text(self, start: int, end: int, weight: float = DOCUMENT_WEIGHT) -> None:
        """Little-weighted next-token prediction inside the shared text [start, end)."""
        self.label[start : end - 1] = self.ids[start + 1 : end]
        self.weight[start : end - 1] = [weight] * max(0, end - 1 - start)


def prompt_ids(tok: Tokenizer, system: str | None) -> list[int]:
    """Everything before the context: the system message and the start of the user's."""
    out: list[int] = []
    if system is not None:
        out = [tok.im_start, *tok.encode("system\n" + system), tok.im_end, *tok.encode("\n")]
    return out + [tok.im_start, *tok.encode("user\n")]


def question_ids(tok: Tokenizer, text: str) -> list[int]:
    """The question (with its lead) and the start of the answer."""
    return [*tok.encode(text), tok.im_end, *tok.encode("\n"), tok.im_start, *tok.encode("assistant\n")]


def encode_tree(tok: Tokenizer, sample: Sample) -> Encoded:
    """Instruction and context once, then one branch per question."""
    out = Encoded()
    out.add(prompt_ids(tok, sample.system), 0)
    if sample.context is not None:
        begin = len(out.ids)
        out.add(tok.encode(sample.context), begin)
        out.predict_text(begin, len(out.ids), sample.text_weight)
    shared = len(out.ids)
    null = tok.encode("null")[0]
    for number, b in enumerate(sample.branches, start=1):
        question = question_ids(tok, sample.question_lead + b.question)
        given, answer, tail = (tok.encode(text) for text in (b.given, b.answer, b.tail))
        target = given + answer + tail + [tok.im_end]
        begin = len(out.ids)
        out.add(question + target[:-1], shared, number)
        at = begin + len(question) - 1  # target[k] is predicted at `at + k`
        unit = len(out.answers)
        out.answers.append(b.task + ("" if shared <= 1100 else "@2k" if shared <= 2200 else "@3k"))
        for k in range(1, len(given)):  # a name that another document knows: guessed, so that guessing stays calibrated
            out.predict(at + k, target[k], GUESS_WEIGHT)
        for k in range(len(given), len(target)):
            guess = len(given) + len(answer) <= k and bool(tail)
            out.predict(
                at + k, target[k], GUESS_WEIGHT if guess else b.weight, -1 if guess or b.task == "denied" else unit
            )
        if b.denied:
            out.predict(at, null, 1.0, unit)
    return out


def _value_text(value: str | None, last: bool, space: str) -> str:
    """A value with the delimiter that the sequential form would write after it."""
    return space + ("null" if value is None else f'"{value}"') + ("}" if last else ",")


def _extraction_prompt(tok: Tokenizer, sample: Extraction) -> Encoded:
    out = Encoded()
    out.add(prompt_ids(tok, sample.system), 0)
    begin = len(out.ids)
    out.add(tok.encode(sample.context), begin)
    out.predict_text(begin, len(out.ids))
    out.add(question_ids(tok, ""), len(out.ids))
    return out


def encode_sequential(tok: Tokenizer, sample: Extraction) -> Encoded:
    """Ordinary JSON output, one attribute per line."""
    out = _extraction_prompt(tok, sample)
    tail: list[tuple[list[int], bool]] = []  # (ids, is value)
    for n, (name, value) in enumerate(zip(sample.attributes, sample.values)):
        tail.append((tok.encode(("{" if n == 0 else "\n") + f'"{name}":'), False))
        tail.append((tok.encode(_value_text(value, n == len(sample.values) - 1, " ")), True))
    assert sum((ids for ids, _ in tail), []) == tok.encode(json_text(sample))
    tail.append(([tok.im_end], False))
    for ids, is_value in tail:
        unit = len(out.answers) if is_value else -1
        if is_value:
            out.answers.append("sequential")
        for token in ids:
            out.predict(len(out.ids) - 1, token, 1.0 if is_value else KEY_WEIGHT, unit)
            out.add([token], out.pos[-1] + 1)
    return out


def skeleton_chunks(tok: Tokenizer, names: list[str], spaced: bool = True) -> list[list[int]]:
    """The template cut at its slots: `{"brand": `, `,\\n"colour": ` … (`spaced`), or without the last space."""
    end = '": ' if spaced else '":'
    return [tok.encode(("{" if n == 0 else ",\n") + '"' + name + end) for n, name in enumerate(names)]


def encode_skeleton(tok: Tokenizer, sample: Extraction, budget: list[int], spaced: bool, isolated: bool) -> Encoded:
    """Gapped template with values in their slots. `budget[n]` = K_n; `isolated` values see no other value."""
    out = _extraction_prompt(tok, sample)
    cursor = len(out.ids)  # next template position
    count = len(sample.values)
    for n, chunk in enumerate(skeleton_chunks(tok, sample.attributes, spaced)):
        out.add(chunk, cursor)
        cursor += len(chunk)
        value = tok.encode(_value_text(sample.values[n], n == count - 1, "" if spaced else " "))[: budget[n]]
        at, unit = len(out.ids) - 1, len(out.answers)
        out.answers.append("skeleton")
        # the last token ends the value: predicted, never fed
        out.add(value[:-1], cursor, n + 1 if isolated else 0, 1)
        for k, token in enumerate(value):
            out.predict(at + k, token, 1.0, unit)
        cursor += budget[n]
    return out


def encode(tok: Tokenizer, sample: Sample | Extraction, lex: Lexicon) -> Encoded:
    """Any sample; extractions are drawn to be sequential (45 %) or a skeleton (55 %, one in six with isolated
    values)."""
    if isinstance(sample, Sample):
        return encode_tree(tok, sample)
    if lex.chance(0.45):
        return encode_sequential(tok, sample)
    budget = [lex.between(8, 32)] * len(sample.values)
    if lex.chance(0.2):
        budget = [lex.between(8, 32) for _ in sample.values]
    return encode_skeleton(tok, sample, budget, spaced=lex.chance(0.6), isolated=lex.chance(0.16))
