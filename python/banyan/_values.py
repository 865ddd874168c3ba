"""Values of Python as JSON: what rows in memory are written as."""
from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import os
import uuid
from typing import Any, Container, Mapping

#: Why a row cannot be asked, carried in the row itself; the library makes an error row of it.
PROBLEM = "banyan:problem"


class NoJson(ValueError):
    """A value that JSON has no form for. `column` is empty where the whole row is meant."""

    def __init__(self, reason: str, column: str = "") -> None:
        super().__init__(reason)
        self.reason, self.column = reason, column


def _duration(value: datetime.timedelta) -> str:
    """ISO 8601, exact to the microsecond: P1DT3.5S."""
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    seconds = f"{value.seconds}.{value.microseconds:06d}".rstrip("0").rstrip(".")
    return f"{sign}P{value.days}DT{seconds}S"


def plain(value: Any) -> Any:
    """What `json` cannot write by itself: numpy's numbers and arrays, dates, durations, decimals, bytes, paths, UUIDs."""
    if type(value).__name__ in ("NAType", "NaTType"):
        raise NoJson("a missing value of pandas has no form in JSON; give None")
    if isinstance(value, datetime.timedelta):
        return value.isoformat() if hasattr(value, "isoformat") else _duration(value)  # pandas has nanoseconds
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if type(value).__name__ in ("timedelta64", "datetime64"):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError as error:
            raise NoJson("bytes that are not UTF-8 have no form in JSON; give them as base64") from error
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NoJson(f"a value of type {type(value).__name__} has no form in JSON")


def json_text(value: Any) -> str:
    """One value as JSON. Throws NoJson."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=plain)
    except ValueError as error:
        if isinstance(error, NoJson):
            raise
        raise NoJson(_reason(value, error)) from error
    except (TypeError, RecursionError) as error:
        raise NoJson(f"{error}") from error


def nan_as_null(value: Any) -> Any:
    """A list, an array or a dict with null for each NaN in it, at any depth; anything else as it is."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if type(value).__module__ == "numpy":
        return nan_as_null(value.tolist()) if type(value).__name__ != "datetime64" else value
    if isinstance(value, (list, tuple)):
        return [nan_as_null(one) for one in value]
    if isinstance(value, Mapping):
        return {name: nan_as_null(one) for name, one in value.items()}
    return value


def _reason(value: Any, error: ValueError) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return f"{name} has no form in JSON; give None"
    if "not JSON compliant" in str(error):
        return "it has a NaN or an infinity, which have no form in JSON; give None"
    return str(error)


def _bad_column(row: Mapping[Any, Any]) -> NoJson:
    """The column that cannot be written, and why."""
    for name, value in row.items():
        try:
            json_text({name: value} if not isinstance(name, str) else value)
        except NoJson as error:
            return NoJson(error.reason, str(name))
    return NoJson("it cannot be written as JSON")


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSONL. Throws NoJson, which names the column."""
    try:
        text = json_text(row if isinstance(row, dict) else dict(row))
    except NoJson:
        raise _bad_column(row) from None
    return text.encode("utf-8", "surrogatepass") + b"\n"


def row_line(row: Mapping[str, Any], place: int, lost: dict[str, int] | None = None, needed: Container[str] = ()) -> bytes:
    """The same of a job's input: a row that cannot be written becomes one that says why, with what else it has. `lost`:
    the row is of a table, whose columns are kept elsewhere; then NaN is null, also in lists, only a column that is
    `needed` is missed, and `lost` counts the others."""
    try:
        return json_line(row)
    except NoJson as error:
        problem = error if lost is None else None
        kept: dict[str, Any] = {}
        for name, value in row.items():
            try:
                shown = value if lost is None else nan_as_null(value)
                json_text(shown)
                kept[str(name)] = shown
            except NoJson as reason:
                if lost is not None and name in needed:
                    problem = NoJson(reason.reason, str(name))
                elif lost is not None:
                    kept[str(name)] = None
                    lost[str(name)] = lost.get(str(name), 0) + 1
        if problem is None:
            return json_line(kept)
        where = f"row {place}, column '{problem.column}'" if problem.column else f"row {place}"
        return json_line({**kept, PROBLEM: f"{where}: {problem.reason}"})
