"""A job cut into blocks of about equal numbers of tokens. Records with the same document, or the same id, are in one
block; one document with more questions than a block holds is split, into no more pieces than there are workers."""
from __future__ import annotations

import hashlib
import json
import tempfile
from typing import Any, Callable, Iterable, Mapping, Sequence

from ._json_text import elements, members, with_member
from ._records import Record


BLOCKS_PER_WORKER, MOST_BLOCK_TOKENS, LEAST_BLOCK_TOKENS = 40, 200_000, 2_000


class Span:
    """Where a text is in a spool."""

    __slots__ = ("spool", "begin", "size")

    def __init__(self, spool: Spool, begin: int, size: int) -> None:
        self.spool, self.begin, self.size = spool, begin, size

    @property
    def text(self) -> str:
        return self.spool.get(self.begin, self.size)


class Line:
    """A record, or a piece of one, in a block. `own_questions`: all its questions are in it, and those of the job are
    not asked again."""

    __slots__ = ("place", "piece", "content", "file", "line", "own_questions")

    def __init__(self, place: int, piece: int, content: str | Span, file: str, line: int, own_questions: bool = False) -> None:
        self.place, self.piece, self.content, self.file, self.line = place, piece, content, file, line
        self.own_questions = own_questions

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else self.content.text


class Cost:
    """Tokens that a record costs: of its document once, of its questions and answers each. Texts are weighed by their
    bytes; `count`, which may be None, says how many tokens the first of them have."""

    def __init__(self, count: Callable[[str], int] | None, common: Sequence[Any], max_new: int) -> None:
        self.count = count
        self.max_new = max_new
        self.bytes = self.tokens = 0
        self.common = sum(self.question(question) for question in common)
        self.common_count = len(common)

    def text(self, text: Any) -> int:
        if not isinstance(text, str):
            return 1
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size and self.count is not None and self.bytes < 100_000:
            self.bytes += size
            self.tokens += self.count(text.encode("utf-8", "replace").decode())
        return int(size * (self.tokens / self.bytes if self.bytes else 0.25)) + 1

    def question(self, question: Any) -> int:
        # Texts first: whether something is a Mapping takes long to say.
        words = question.get("question") if not isinstance(question, str) and isinstance(question, Mapping) else question
        return self.text(words) + self.max_new + 8

    def own(self, fields: Mapping[str, Any] | None) -> int:
        """Of a record without its document."""
        if fields is None:
            return 1
        documents = fields.get("documents")
        if isinstance(documents, list):
            return sum(self.text(one.get("text")) for one in documents if isinstance(one, Mapping)) + self.max_new
        questions = fields.get("questions")
        if isinstance(questions, list):
            return self.common + sum(self.question(question) for question in questions)
        return self.common + (self.question(fields["question"]) if "question" in fields else 0)


def split_questions(text: str, fields: Mapping[str, Any], common: Sequence[Any], pieces: int) -> list[str] | None:
    """A record with many questions as several with some of them, ids as one job would give them; None where it must
    stay whole, because it is to become an error. `text` is the record's JSON, `fields` the same read."""
    own = fields.get("questions")
    if not isinstance(own, list) or len(own) > 100_000 or "question_id" in fields:
        return None
    spans = members(text)
    raw = [json.dumps(question, ensure_ascii=False) for question in common]
    for name, begin, end in spans:
        if name == "questions":
            raw += elements(text[begin:end][text[begin:end].index(":"):])
    parsed = [json.loads(one) for one in raw]
    seen: set[str] = set()
    for question in parsed:
        if isinstance(question, Mapping) and question.get("id") is not None:
            written = json.dumps(question["id"])
            if written in seen:
                return None
            seen.add(written)
        elif not isinstance(question, (str, Mapping)):
            return None
    numbered = []
    for number, (one, question) in enumerate(zip(raw, parsed), 1):
        if isinstance(question, Mapping) and question.get("id") is not None:
            numbered.append(one)
            continue
        while str(number) in seen:
            number += 1
        seen.add(str(number))
        if isinstance(question, str):
            numbered.append(json.dumps({"id": number, "question": question}, ensure_ascii=False))
        elif "id" in question:
            numbered.append(json.dumps({**question, "id": number}, ensure_ascii=False))
        else:
            numbered.append(with_member(one, "id", number))
    others = ",".join(text[begin:end] for name, begin, end in spans if name not in ("questions", "question", "choices"))
    size = -(-len(numbered) // pieces)
    return [f'{{{others},"questions":[{",".join(numbered[at:at + size])}]}}' for at in range(0, len(numbered), size)]


class Spool:
    """Texts on disk: a plan of a million records holds where they are, not what they say."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="banyan-plan-")
        self._end = 0
        self._at_end = True

    def add(self, text: str) -> Span:
        data = text.encode("utf-8", "surrogatepass")
        if not self._at_end:
            self._file.seek(self._end)
            self._at_end = True
        self._file.write(data)
        self._end += len(data)
        return Span(self, self._end - len(data), len(data))

    def __del__(self) -> None:
        self._file.close()

    def get(self, begin: int, size: int) -> str:
        self._at_end = False
        self._file.seek(begin)
        return self._file.read(size).decode("utf-8", "surrogatepass")


class _Kept:
    """What a plan remembers of a record."""

    __slots__ = ("place", "span", "file", "line", "was_read", "own_tokens", "identity")

    def __init__(self, record: Record, span: Span, own_tokens: int, identity: bytes) -> None:
        self.place, self.span, self.file, self.line = record.place, span, record.file, record.line
        self.was_read, self.own_tokens, self.identity = record.fields is not None, own_tokens, identity

    def whole(self) -> Line:
        return Line(self.place, 0, self.span, self.file, self.line)

    def pieces(self, common: Sequence[Any], count: int) -> list[str] | None:
        text = self.span.text
        return split_questions(text, json.loads(text), common, count) if self.was_read and count > 1 else None


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def plan_blocks(records: Iterable[Record], cost: Cost, common: Sequence[Any], document_field: str,
                block_tokens: int | None, workers: int) -> tuple[list[tuple[int, list[Line]]], int]:
    """Blocks as (tokens, lines), and how many records there are. The texts wait on disk.

    `block_tokens` of None: so many that every worker gets BLOCKS_PER_WORKER blocks, within bounds; with few of them the
    last ones leave workers idle, with many their beginnings and ends count.
    """
    spool = Spool()
    groups: dict[int, list[_Kept]] = {}
    documents: dict[int, int] = {}  # tokens of each group's
    group_of: dict[bytes, int] = {}
    count = 0
    for record in records:
        count += 1
        identity, document = _key(record.identity), _key(record.document)
        group = group_of.get(identity, group_of.get(document, record.place))
        group_of.setdefault(identity, group)
        group_of.setdefault(document, group)
        if group not in groups:
            documents[group] = cost.text((record.fields or {}).get(document_field))
        groups.setdefault(group, []).append(_Kept(record, spool.add(record.text), cost.own(record.fields), identity))
    if block_tokens is None:
        total = sum(documents.values()) + sum(one.own_tokens for group in groups.values() for one in group)
        block_tokens = min(MOST_BLOCK_TOKENS, max(LEAST_BLOCK_TOKENS, total // (workers * BLOCKS_PER_WORKER)))
    blocks: list[tuple[int, list[Line]]] = []
    open_lines: list[Line] = []
    open_tokens = 0
    for number, kept in groups.items():
        tokens = documents[number] + sum(one.own_tokens for one in kept)
        pieces = min(workers, -(-tokens // block_tokens))
        if pieces > 1:
            blocks += _split_group(kept, documents[number], common, pieces)
            continue
        if open_tokens + tokens > block_tokens and open_lines:
            blocks.append((open_tokens, open_lines))
            open_lines, open_tokens = [], 0
        open_lines += [one.whole() for one in kept]
        open_tokens += tokens
    if open_lines:
        blocks.append((open_tokens, open_lines))
    return [(tokens, sorted(lines, key=lambda line: (line.place, line.piece))) for tokens, lines in blocks], count


def _split_group(group: list[_Kept], document: int, common: Sequence[Any], pieces: int) -> list[tuple[int, list[Line]]]:
    """One document with many questions, for several workers; rows with an id that came before stay with it."""
    total = sum(one.own_tokens for one in group)
    bins: list[tuple[int, list[Line]]] = [(document, []) for _ in range(pieces)]
    home: dict[bytes, int] = {}
    for record in group:
        if record.identity in home:
            bins[home[record.identity]][1].append(record.whole())
            continue
        own = record.own_tokens
        parts = record.pieces(common, max(1, round(own * pieces / max(1, total))))
        emptiest = sorted(range(pieces), key=lambda number: (bins[number][0], number))
        home[record.identity] = emptiest[0]
        texts: Sequence[str | Span] = parts or [record.span]
        for piece, text in enumerate(texts):  # each in another bin: an id may come only once in a block
            tokens, lines = bins[emptiest[piece]]
            lines.append(Line(record.place, piece, text, record.file, record.line, parts is not None))
            bins[emptiest[piece]] = (tokens + own // len(texts), lines)
    return [one for one in bins if one[1]]
