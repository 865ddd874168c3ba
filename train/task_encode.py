"""Questions and extraction documents as tokens, exactly as `banyan ask`, `rag` and `extract` lay them out, for any
tokenizer whose chat template is ChatML.

`ask` tokenises a prompt as a whole: in some vocabularies a full stop and the line breaks after the text are one token,
which then belongs to the question's branch. `rag` tokenises instruction, document and question apart. A sample is
encoded either way (`apart`).
"""

from __future__ import annotations

from itertools import takewhile

from train.encode import Encoded, encode_tree
from train.extract_layout import TOKENS, Laid, Slot
from train.lexicon import Lexicon
from train.sample import DEFAULT_INSTRUCTION, Sample
from train.tokenizer import Tokenizer

APART = 0.25  # share of the samples that are laid out as `rag` does
ROOMS = (
    dict(TOKENS),
    {**TOKENS, "number": 24, "integer": 16, "date": 24, "boolean": 8},
    {**TOKENS, "number": 32, "integer": 32, "date": 32, "boolean": 8, "enum": 32},
    {**TOKENS, "number": 16, "integer": 16, "date": 16, "enum": 16, "list": 64, "items": 128},
)
ANSWER_BEGINS = "<|im_end|>\n<|im_start|>assistant\n"


def last_cut(text: str) -> int:
    """A place before which all tokens are the same whatever follows it: a space between two words; 0 where none is."""
    for at in range(len(text) - 2, 0, -1):
        if text[at] == " " and text[at + 1].isalpha() and not text[at - 1].isspace():
            return at
    return 0


def common(runs: list[list[int]]) -> int:
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*runs)))


def asked_parts(tok: Tokenizer, system: str, context: str, questions: list[str]) -> tuple[list[int], list[list[int]]]:
    """(tokens that all questions share, the rest of each prompt), the whole prompt tokenised at once."""
    cut = last_cut(context)
    head = tok.encode_chat(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>") + tok.encode(
        "user\n" + context[:cut]
    )
    if not cut:
        head = tok.encode_chat(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>")
    tail = context[cut:] if cut else "user\n" + context
    rest = [tok.encode(f"{tail}\n\nQuestion: {q}") + tok.encode_chat(ANSWER_BEGINS) for q in questions]
    shared = common(rest) if len(rest) > 1 else 0
    return head + rest[0][:shared], [r[shared:] for r in rest]


def encode_asked(tok: Tokenizer, sample: Sample, apart: bool) -> Encoded:
    """One branch for each question."""
    if apart or sample.context is None or any(b.given or b.tail or b.denied for b in sample.branches):
        return encode_tree(tok, sample)
    out = Encoded()
    system = DEFAULT_INSTRUCTION if sample.system is None else sample.system
    shared, rest = asked_parts(tok, system, sample.context, [b.question for b in sample.branches])
    out.add(shared, 0)
    for number, (b, question) in enumerate(zip(sample.branches, rest), start=1):
        target = tok.encode(b.answer) + [tok.im_end]
        at = len(out.ids) + len(question) - 1
        out.add(question + target[:-1], len(shared), number)
        for k, token in enumerate(target):
            out.predict(at + k, token, b.weight, len(out.answers))
        out.answers.append(b.task)
    return out


def slot_runs(tok: Tokenizer, slot: Slot) -> tuple[list[int], list[int]] | None:
    """(template, value); the value's last token may hold some of what follows. None where the piece does not end
    between tokens."""
    template = tok.encode(slot.piece)
    whole = tok.encode(slot.piece + " " + (slot.value or "null") + slot.after)
    if whole[: len(template)] != template:
        return None
    end, left = len(whole), len(slot.after.encode())
    while end > len(template) + 1 and 0 < len(tok.bytes_of(whole[end - 1])) <= left:
        end -= 1
        left -= len(tok.bytes_of(whole[end]))
    return template, whole[len(template) : end]


def room_of(lex: Lexicon) -> dict[str, int]:
    if lex.chance(0.12):
        return dict.fromkeys(TOKENS, lex.choice((16, 24, 32, 48)))
    return dict(TOKENS) if lex.chance(0.5) else lex.choice(ROOMS)


def encode_laid(tok: Tokenizer, laid: Laid, room: dict[str, int]) -> Encoded | None:
    """The gapped template with values in its slots. Slots without a label are empty and teach nothing."""
    out = Encoded()
    out.add(tok.encode_chat(laid.prompt), 0)
    cursor = len(out.ids)
    for s in laid.slots:
        runs = slot_runs(tok, s)
        if runs is None:
            return None
        template, value = runs
        out.add(template, cursor)
        cursor += len(template)
        if s.value is not None:
            at = len(out.ids) - 1
            out.add(value[:-1], cursor, 0, 1)  # the last token ends the value: predicted, never fed
            for k, token in enumerate(value):
                out.predict(at + k, token, 1.0, len(out.answers))
            out.answers.append(s.type)
        cursor += max(room[s.type], len(value))
    return out if out.answers else None


def encode_in_sequence(tok: Tokenizer, laid: Laid) -> Encoded | None:
    """The same as ordinary JSON, one value after another."""
    out = Encoded()
    out.add(tok.encode_chat(laid.prompt), 0)
    text, spans = "", []
    for s in laid.slots:
        begin = len((text + s.piece).encode())
        text += s.piece + " " + (s.value or "null")
        spans.append((begin, len(text.encode()), s.value is not None))
    answer, begin, n = tok.encode(text + laid.slots[-1].after), 0, 0
    out.add(answer, len(out.ids))
    at = len(out.ids) - len(answer) - 1
    for k, token in enumerate(answer):
        end = begin + len(tok.bytes_of(token))
        while n < len(spans) and spans[n][1] <= begin:
            n += 1
        if n < len(spans) and spans[n][2] and end > spans[n][0]:
            out.predict(at + k, token, 1.0, n)
        begin = end
    out.answers = [s.type for s in laid.slots]
    return out


def encode_task(tok: Tokenizer, sample, lex: Lexicon) -> Encoded | None:
    """A question sample or an extraction document; one document in eight is written in sequence."""
    if isinstance(sample, Sample):
        return encode_asked(tok, sample, lex.chance(APART))
    single = not sample.source.endswith(("stack", "items"))
    if single and lex.chance(0.12):
        return encode_in_sequence(tok, sample)
    return encode_laid(tok, sample, room_of(lex))
