"""The published greedy order of columns and rows, as a reference that `banyan map --order auto` is compared with.

GGR (Liu et al., Optimizing LLM Queries in Relational Data Analytics Workloads, MLSys 2025, algorithm 1), without its
early stop: the value whose squared length, times the rows that repeat it, is largest begins the prompts of its rows;
columns that it determines follow it; both parts of the table are ordered the same way. Slow and plain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Sequence

Row = Sequence[str]


def determined(rows: Sequence[Row], columns: int) -> dict[int, list[int]]:
    """Of each column, those that have one value for each of its values (functional dependencies)."""
    found: dict[int, list[int]] = {}
    for a in range(columns):
        found[a] = [
            b for b in range(columns) if b != a and len({(row[a], row[b]) for row in rows}) == len({row[a] for row in rows})
        ]
    return found


def ggr(rows: Sequence[Row], lengths: Sequence[dict[str, int]], columns: int) -> list[tuple[int, list[int]]]:
    """(row, order of its first `columns` columns), as they are computed. `lengths`: tokens of a column's texts."""
    follow = determined(rows, columns)
    done: list[tuple[int, list[int]]] = []
    # Parts of the table that are still to be ordered, the next one last: rows, columns that are free, those before.
    parts = [(list(range(len(rows))), list(range(columns)), [])]
    while parts:
        numbers, free, before = parts.pop()
        best = (0.0, -1, "", [])
        for column in free if len(numbers) > 1 else ():
            with_it = [other for other in follow[column] if other in free]
            squares: dict[str, float] = defaultdict(float)
            counts = Counter(rows[number][column] for number in numbers)
            for number in numbers:
                value = rows[number][column]
                squares[value] += sum(lengths[other][rows[number][other]] ** 2 for other in with_it) / counts[value]
            for value, count in counts.items():
                hits = (lengths[column][value] ** 2 + squares[value]) * (count - 1)
                if hits > best[0]:
                    best = (hits, column, value, [column, *with_it])
        if best[1] < 0:  # nothing repeats
            done += [(number, before + free) for number in numbers]
            continue
        _, column, value, first = best
        parts.append(([number for number in numbers if rows[number][column] != value], free, before))
        rest = [other for other in free if other not in first]
        parts.append(([number for number in numbers if rows[number][column] == value], rest, before + first))
    return done


def tokens_shared(rows: Sequence[Row], lengths: Sequence[dict[str, int]], order: Sequence[tuple[int, list[int]]]) -> int:
    """Tokens of the cells if each row keeps what it has in common with the beginning of the row before, which is all that
    GGR counts on; columns that the order does not name follow in their places."""
    total = 0
    last: list[tuple[int, str]] = []
    for number, first in order:
        row = rows[number]
        cells = [(column, row[column]) for column in [*first, *(c for c in range(len(row)) if c not in first)]]
        same = 0
        while same < len(cells) and same < len(last) and cells[same] == last[same]:
            same += 1
        total += sum(lengths[column][value] for column, value in cells[same:])
        last = cells
    return total
