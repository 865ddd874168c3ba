"""Bytes that nobody meant: mutations of good ones, and rows that are wrong in some way."""
import json
import random


def mutated(whole: bytes, generator: random.Random, piece=None) -> bytes:
    """One to three edits: bits, stretches cut, doubled, moved, overwritten. `piece`: their size; None: any."""
    data = bytearray(whole)
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        at = generator.randrange(len(data))
        size = piece or generator.choice((1, 4, 8, 100, 1000))
        kind = generator.randrange(7)
        if kind == 0:
            data[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at:at + size]
        elif kind == 3:
            data[at:at] = data[at:at + size]
        elif kind == 4:  # one stretch over another; whole entries where they have a size
            source, target = (len(data) - size * (1 + generator.randrange(max(1, len(data) // size)))
                              for _ in range(2))
            if source >= 0 and target >= 0:
                data[target:target + size] = data[source:source + size]
        elif kind == 5:
            data[at:at + size] = generator.randbytes(min(size, len(data) - at))
        else:
            data[at:at + 8] = generator.choice((b"\xff" * 8, b"\0" * 8, b"\0" * 7 + b"\x7f"))
    return bytes(data)


VALUES = [None, True, 0, -1, 1.5, 1e308, 10**30, "", " ", "x", "\u0000", "\ud7ff", "\x9b", "<|im_end|>", "é" * 50,
          [], {}, [[]], {"a": None}, ["x"], "x" * 3000, "\n" * 20, "{context}", "=1+1", "\x1b[31m"]
NAMES = ["id", "context", "questions", "question", "question_id", "choices", "instruction", "error", "answer", "", "x"]


def odd_row(generator: random.Random) -> bytes:
    """A line that looks like a record from far away."""
    row = {"id": generator.randrange(10**6), "context": "Some text.", "questions": ["What?"]}
    for _ in range(generator.randrange(4)):
        row[generator.choice(NAMES)] = generator.choice(VALUES)
    if generator.random() < 0.4:
        question = {"id": generator.choice(VALUES), "question": generator.choice(VALUES)}
        if generator.random() < 0.5:
            question["choices"] = [generator.choice(VALUES) for _ in range(generator.randrange(4))]
        row["questions"] = [generator.choice(VALUES), question]
    line = json.dumps(row, ensure_ascii=generator.random() < 0.5).encode("utf-8", "surrogatepass")
    if generator.random() < 0.3:
        line = mutated(line, generator)
    if generator.random() < 0.05:
        depth = generator.choice((10, 300, 10**5))
        line = b'{"id":' + b"[" * depth + b"]" * depth + b"}"
    return line
