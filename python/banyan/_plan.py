"""A job cut into blocks of about equal numbers of tokens. Records with the same document, or the same id, are in one
block; one document with more questions than a block holds is split, into no more pieces than there are workers."""
from __future__ import annotations

import dataclasses
import json
from typing import Any, Callable, Iterable, Mapping, Sequence

from ._json_text import elements, members, with_member
from ._records import Record


BLOCKS_PER_WORKER, MOST_BLOCK_TOKENS, LEAST_BLOCK_TOKENS = 40, 200_000, 2_000


@dataclasses.dataclass
class Line:
    """A record, or a piece of one, in a block."""

    place: int
    piece: int
    text: str
    file: str
    line: int
    is_object: bool = True
    own_questions: bool = False  # all its questions are in it: those of the job are not asked again


def _whole(record: Record) -> Line:
    return Line(record.place, 0, record.text, record.file, record.line, record.fields is not None)


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
        words = question.get("question") if isinstance(question, (dict, Mapping)) else question
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


def split_questions(record: Record, common: Sequence[Any], pieces: int) -> list[str] | None:
    """A record with many questions as several with some of them, ids as one job would give them; None where it must
    stay whole, because it is to become an error."""
    assert record.fields is not None
    own = record.fields.get("questions")
    if not isinstance(own, list) or len(own) > 100_000 or any(name in record.fields for name in ("question_id",)):
        return None
    spans = members(record.text)
    raw = [json.dumps(question, ensure_ascii=False) for question in common]
    for name, begin, end in spans:
        if name == "questions":
            raw += elements(record.text[begin:end][record.text[begin:end].index(":"):])
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
    others = ",".join(record.text[begin:end] for name, begin, end in spans if name not in ("questions", "question", "choices"))
    size = -(-len(numbered) // pieces)
    return [f'{{{others},"questions":[{",".join(numbered[at:at + size])}]}}' for at in range(0, len(numbered), size)]


def plan_blocks(records: Iterable[Record], cost: Cost, common: Sequence[Any], document_field: str,
                block_tokens: int | None, workers: int) -> tuple[list[tuple[int, list[Line]]], int]:
    """Blocks as (tokens, lines), and how many records there are. All of the input's text is in memory.

    `block_tokens` of None: so many that every worker gets BLOCKS_PER_WORKER blocks, within bounds; with few of them the
    last ones leave workers idle, with many their beginnings and ends count.
    """
    groups: dict[int, list[Record]] = {}
    group_of: dict[str, int] = {}
    count = 0
    for record in records:
        count += 1
        group = group_of.get(record.identity, group_of.get(record.document, record.place))
        group_of.setdefault(record.identity, group)
        group_of.setdefault(record.document, group)
        groups.setdefault(group, []).append(record)
    weighed = []
    for group_records in groups.values():
        first = group_records[0]
        document = cost.text((first.fields or {}).get(document_field))
        weighed.append((group_records, document, [cost.own(record.fields) for record in group_records]))
    if block_tokens is None:
        total = sum(document + sum(costs) for _, document, costs in weighed)
        block_tokens = min(MOST_BLOCK_TOKENS, max(LEAST_BLOCK_TOKENS, total // (workers * BLOCKS_PER_WORKER)))
    blocks: list[tuple[int, list[Line]]] = []
    open_lines: list[Line] = []
    open_tokens = 0
    for group_records, document, costs in weighed:
        tokens = document + sum(costs)
        pieces = min(workers, -(-tokens // block_tokens))
        if pieces > 1:
            blocks += _split_group(group_records, costs, document, common, pieces)
            continue
        if open_tokens + tokens > block_tokens and open_lines:
            blocks.append((open_tokens, open_lines))
            open_lines, open_tokens = [], 0
        open_lines += [_whole(record) for record in group_records]
        open_tokens += tokens
    if open_lines:
        blocks.append((open_tokens, open_lines))
    return [(tokens, sorted(lines, key=lambda line: (line.place, line.piece))) for tokens, lines in blocks], count


def _split_group(group: list[Record], costs: list[int], document: int, common: Sequence[Any],
                 pieces: int) -> list[tuple[int, list[Line]]]:
    """One document with many questions, for several workers; rows with an id that came before stay with it."""
    total = sum(costs)
    bins: list[tuple[int, list[Line]]] = [(document, []) for _ in range(pieces)]
    home: dict[str, int] = {}
    for record, own in zip(group, costs):
        if record.identity in home:
            bins[home[record.identity]][1].append(_whole(record))
            continue
        share = max(1, round(own * pieces / max(1, total)))
        parts = split_questions(record, common, share) if share > 1 else None
        texts = parts or [record.text]
        emptiest = sorted(range(pieces), key=lambda number: (bins[number][0], number))
        home[record.identity] = emptiest[0]
        for piece, text in enumerate(texts):  # each in another bin: an id may come only once in a block
            tokens, lines = bins[emptiest[piece]]
            lines.append(Line(record.place, piece, text, record.file, record.line, record.fields is not None,
                              parts is not None))
            bins[emptiest[piece]] = (tokens + own // len(texts), lines)
    return [one for one in bins if one[1]]
