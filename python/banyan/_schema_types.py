"""The SQL types that a schema of `extract` gives its values."""
from __future__ import annotations

import json
from typing import Any, Mapping

from ._errors import Error

_SQL = {"text": "VARCHAR", "enum": "VARCHAR", "number": "DOUBLE", "integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE"}


def _of(attribute: Mapping[str, Any], where: str) -> Any:
    kind = attribute.get("type", "text")
    if kind == "list":
        of = attribute.get("of", "text")
        return [_of({"type": of} if isinstance(of, str) else of, f"{where}/of")]
    if kind == "object":
        return _members(attribute.get("attributes", []), f"{where}/attributes")
    if kind in ("number", "integer") and "units" in attribute:
        return "VARCHAR"  # with its unit: 2.5 kg
    if kind not in _SQL:
        raise Error(f"schema: at {where}/type: expected one of {', '.join(_SQL)}, list, object; found '{kind}'")
    return _SQL[kind]


def _members(attributes: Any, where: str) -> dict[str, Any]:
    if not isinstance(attributes, list) or not attributes:
        raise Error(f"schema: at {where}: expected a list of attributes")
    found: dict[str, Any] = {}
    for number, attribute in enumerate(attributes):
        name = attribute.get("name") if isinstance(attribute, Mapping) else None
        if not isinstance(name, str):
            raise Error(f"schema: at {where}/{number}: expected an attribute with a name")
        found[name] = _of(attribute, f"{where}/{number}")
    return found


def sql_structure(schema: str | Mapping[str, Any]) -> dict[str, Any]:
    """Name → type, as DuckDB's json_transform takes it: ``{"brand": "VARCHAR", "sizes": ["DOUBLE"]}``. Categories and
    JSON schemas have no one type: an Error."""
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else schema
    except ValueError as error:
        raise Error(f"schema: not valid JSON: {error}", "input") from error
    if not isinstance(parsed, Mapping) or "attributes" not in parsed:
        raise Error("schema: expected one with 'attributes'; values of categories and JSON schemas have no one type: take "
                    "extract_json")
    return _members(parsed["attributes"], "/attributes")
