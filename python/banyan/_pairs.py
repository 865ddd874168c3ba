"""The columns of both tables of a join, beside its pairs: left.NAME and right.NAME, in the types that they came with."""
from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, Sequence

from ._columns import InputColumns, Places, json_array, nullable_series
from ._columns import check_needed
from ._errors import Error

LEFT, RIGHT = "left.", "right."


class SideColumns(InputColumns):
    """One table's: all of them come back, the id too."""

    def check(self, names: Sequence[str]) -> None:
        check_needed(self.task, self.fields, names, columns=self._wanted)
        self._shown = {name: name for name in names}

    def kept(self, names: Sequence[str]) -> list[str]:
        return list(names)

    def carried(self) -> dict[str, str]:
        return {} if self.store is None else {name: name for name in self.store.names}


class _Pairs(Places):
    """Places of rows of both tables, and of the pair itself."""

    def __init__(self, columns: PairColumns) -> None:
        super().__init__()
        self._columns = columns

    def of(self, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
        self._columns.rows = list(rows)
        return [self._pair(row, number) for number, row in enumerate(self._columns.rows)]

    def _pair(self, row: Mapping[str, Any], number: int) -> tuple[int | None, int | None, int]:
        if "error" in row and LEFT not in "".join(row):  # a row of one table that has no pair
            return None, None, number
        left, right = json.loads(row["id"])
        return self._columns.left.places.first(left), self._columns.right.places.first(right), number


class _PairStore:
    """Columns of both tables by the names that pairs have for them."""

    def __init__(self, columns: PairColumns) -> None:
        self._columns = columns

    @property
    def names(self) -> list[str]:
        found: list[str] = []
        for prefix, side in ((LEFT, self._columns.left), (RIGHT, self._columns.right)):
            if side.store is not None:
                found += [prefix + name for name in side.store.names]
            else:  # a file that the library reads: pairs have what it had
                found += list(dict.fromkeys(name for row in self._columns.rows for name in row if name.startswith(prefix)))
        return found

    def _column(self, name: str, places: Sequence[Any], form: str) -> Any:
        at = 0 if name.startswith(LEFT) else 1
        side = self._columns.right if at else self._columns.left
        if side.store is not None:
            return getattr(side.store, form)(name[len(RIGHT if at else LEFT):], [place[at] for place in places])
        values = [self._columns.rows[place[2]].get(name) for place in places]
        if form == "pandas":
            return nullable_series(values)
        if form == "arrow":
            return json_array(values)
        import polars

        return polars.Series(name, polars.from_arrow(json_array(values)))

    def arrow(self, name: str, places: Sequence[Any]) -> Any:
        return self._column(name, places, "arrow")

    def pandas(self, name: str, places: Sequence[Any]) -> Any:
        return self._column(name, places, "pandas")

    def polars(self, name: str, places: Sequence[Any]) -> Any:
        return self._column(name, places, "polars")


class PairColumns(InputColumns):
    """Of a join. `columns`: those of its statement, as left.NAME and right.NAME."""

    def __init__(self, fields: Mapping[str, str], columns: Sequence[str]) -> None:
        super().__init__("join", fields)
        for name in columns:
            if not name.startswith((LEFT, RIGHT)):
                raise Error(f"the statement: expected columns as {{left.NAME}} and {{right.NAME}}, found '{name}'")
        self.left = SideColumns("join", fields, needed=[one[len(LEFT):] for one in columns if one.startswith(LEFT)])
        self.right = SideColumns("join", {}, needed=[one[len(RIGHT):] for one in columns if one.startswith(RIGHT)])
        self.right_file = ""  # which the library reads
        self.rows: list[Mapping[str, Any]] = []
        self.store = _PairStore(self)
        self.places = _Pairs(self)

    def parts(self) -> list[InputColumns]:
        return [self.left, self.right]

    def carried(self) -> dict[str, str]:
        return {name: name for name in self.store.names}

    def has_column(self, ours: str) -> str | None:
        return None  # a pair's id has both
