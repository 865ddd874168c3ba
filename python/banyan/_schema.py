"""One Arrow schema a task, whatever the rows hold: what Parquet files and `Rows.to_arrow` have. docs/python.md has it
as a table, which a test compares."""
from __future__ import annotations

import json
from typing import Any, Callable, Mapping, Sequence

from ._tables import pyarrow

# Column → type. "id" is the text of an id, whatever it was; "json" is the text of a value.
_ERROR = "struct<kind: string, message: string, file: string, line: int64>"
FIXED: dict[str, dict[str, str]] = {
    "ask": {"id": "id", "question_id": "id", "question": "string", "answer": "string", "confidence": "double",
            "start": "int64", "end": "int64", "choice": "int64", "probabilities": "list<double>",
            "finish_reason": "string", "tokens": "int64", "prompt_tokens": "int64", "error": _ERROR, "more": "json"},
    "extract": {"id": "id", "category": "string", "values": "json", "tokens": "int64", "prompt_tokens": "int64",
                "error": _ERROR, "more": "json"},
    "rag": {"id": "id", "question": "string", "answer": "string", "method": "string", "citations": "json",
            "finish_reason": "string", "tokens": "int64", "prompt_tokens": "int64", "first_token_seconds": "double",
            "seconds": "double", "error": _ERROR, "more": "json"},
    "embed": {"id": "id", "dense": "list<float>", "sparse": "json", "multi_vector": "list<list<float>>",
              "truncated": "bool", "error": _ERROR},
}
# Fields of rows that only some options give: they are in `more`.
_MORE = {
    "ask": {"withheld", "copied", "value", "thinking", "token_ids", "logprobs", "top_logprobs", "samples", "votes", "letter",
            "scores", "part", "parts", "read", "candidates", "reduced", "truncated_bytes"},
    "extract": {"confidence", "spans", "sources", "agreeing", "conflicts", "units", "raw", "reasons", "truncated", "parts",
                "stacked", "cut_bytes"},
    "rag": {"abstained", "stale", "verified", "dropped", "empty", "truncated", "trace"},
    "embed": set(),
}


def _arrow_type(name: str) -> Any:
    arrow = pyarrow()
    error = arrow.struct([("kind", arrow.string()), ("message", arrow.string()), ("file", arrow.string()),
                          ("line", arrow.int64())])
    return {"id": arrow.string(), "json": arrow.string(), "string": arrow.string(), "double": arrow.float64(),
            "int64": arrow.int64(), "bool": arrow.bool_(), "list<double>": arrow.list_(arrow.float64()),
            "list<float>": arrow.list_(arrow.float32()), "list<list<float>>": arrow.list_(arrow.list_(arrow.float32())),
            _ERROR: error}[name]


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def id_text(value: Any) -> str | None:
    """An id as a column has it: a text as it is, anything else as JSON writes it."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_FORM: dict[str, Callable[[Any], Any]] = {"id": id_text, "json": _json}


def _carried(values: Sequence[Any], wanted: Any) -> Any:
    """A column of the input: of its own type where it has one, else of the one type that all values have, else JSON."""
    arrow = pyarrow()
    present = [value for value in values if value is not None]
    if wanted is not None and not arrow.types.is_null(wanted):
        try:
            column = arrow.array(values, type=wanted)
            if column.to_pylist() == list(values):
                return column
        except (arrow.ArrowException, OverflowError, TypeError, ValueError):
            pass
        try:  # what JSON wrote as text: dates, decimals
            if present and all(isinstance(value, str) for value in present):
                return arrow.array(values, type=arrow.string()).cast(wanted)
        except arrow.ArrowException:
            pass
    for python, kind in ((bool, arrow.bool_()), (int, arrow.int64()), (float, arrow.float64()), (str, arrow.string())):
        if present and all(type(value) is python for value in present):
            try:
                return arrow.array(values, type=kind)
            except (arrow.ArrowException, OverflowError, ValueError):
                break
    if present and all(type(value) in (int, float) for value in present):
        return arrow.array([None if value is None else float(value) for value in values], type=arrow.float64())
    text = values if all(isinstance(value, str) for value in present) else [_json(value) for value in values]
    return arrow.array(text, type=arrow.string())


def arrow_table(task: str, rows: Sequence[Mapping[str, Any]], types: Mapping[str, Any] | None = None,
                facts: Mapping[str, str] | None = None) -> Any:
    """The task's columns, then those that the input carried. `types` are the input's own. `facts` go into the
    schema's metadata."""
    arrow = pyarrow()
    fixed, more = FIXED[task], _MORE[task]
    carried = list(dict.fromkeys(name for row in rows for name in row if name not in fixed and name not in more))
    columns: dict[str, Any] = {}
    for name, kind in fixed.items():
        if name == "more":
            values = [_json({one: row[one] for one in row if one in more} or None) for row in rows]
        else:
            form = _FORM.get(kind, lambda value: value)
            values = [form(row.get(name)) for row in rows]
        columns[name] = arrow.array(values, type=_arrow_type(kind))
    for name in carried:
        columns[name] = _carried([row.get(name) for row in rows], (types or {}).get(name))
    schema = arrow.schema([(name, column.type) for name, column in columns.items()],
                          metadata={"banyan": json.dumps({"task": task, **(facts or {})})})
    return arrow.Table.from_arrays(list(columns.values()), schema=schema)
