"""Which files a table reads that is computed when it is asked: never written to, as files that are named are not."""
from __future__ import annotations

import glob
import json
import os
import re
import warnings
from typing import Any, Iterator

from ._tables import Data, as_paths

# 'a path' and "a path", with doubled quotation marks inside.
_QUOTED = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")


def input_files(data: Data) -> list[tuple[str, str]]:
    """What a job on `data` reads, for `check_output`."""
    paths = as_paths(data)
    if paths is not None:
        return [("the input", path) for path in paths]
    found: list[str] = []
    for path in files_read(data):
        found += glob.glob(os.path.join(path, "**"), recursive=True) if os.path.isdir(path) else [path]
    return [("the input", path) for path in found]


def files_read(data: Any) -> list[str]:
    """Files, folders and patterns that a Dataset of Arrow or Ray, a lazy frame of Polars or a relation of DuckDB reads, as
    far as it says. What only looks like a file is among them."""
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if kind.startswith("pyarrow.") and kind.endswith("Dataset"):
        return [*getattr(data, "files", []), *(file for child in getattr(data, "children", []) for file in files_read(child))]
    if kind.startswith("ray.data.") and hasattr(data, "input_files"):
        return [file.removeprefix("file://") for file in [*data.input_files(), *_listed_by_ray(data)]]
    if kind.startswith("polars.") and kind.endswith("LazyFrame"):
        return _of_polars(data)
    if kind.endswith("DuckDBPyRelation"):
        return _of_duckdb(data)
    return []


def _listed_by_ray(dataset: Any) -> Iterator[str]:
    """Paths that steps of a Dataset's plan will list when it runs: newer versions leave them out of `input_files`."""
    try:
        steps = list(dataset._logical_plan.dag.post_order_iter())
    except AttributeError:  # a plan of another form
        return
    for step in steps:
        for path in [*(getattr(step, "paths", None) or ()), *(getattr(step, "source_paths", None) or ())]:
            if isinstance(path, (str, os.PathLike)):
                yield os.fspath(path)


def _of_polars(frame: Any) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the form may change: what is not understood is not found
            plan = json.loads(frame.serialize(format="json"))
    except Exception:  # a plan with functions of Python has no such form
        found: list[str] = []
        for shown in re.findall(r"SCAN \[([^\]]+)\]", frame.explain(optimized=False)):
            first, *others = shown.split(", ")  # the last may be "... 4 other sources", which are beside the first
            found += [first, *(os.path.join(os.path.dirname(first), "*") if one.startswith("...") else one for one in others)]
        return found
    return list(_scanned(plan))


def _scanned(plan: Any) -> Iterator[str]:
    """The paths of all scans in a plan."""
    if isinstance(plan, list):
        for one in plan:
            yield from _scanned(one)
    elif isinstance(plan, dict):
        for name, value in plan.items():
            if name in ("Paths", "paths") and isinstance(value, list):
                for path in value:
                    found = path.get("inner") if isinstance(path, dict) else path
                    if isinstance(found, str):
                        yield found.removeprefix("file://")
            else:
                yield from _scanned(value)


def _of_duckdb(relation: Any) -> list[str]:
    """Quoted words of the query, and of the views that it names: a path is one of them."""
    try:
        views = dict(relation.query("banyan_relation", "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall())
        texts = [relation.sql_query()]
    except Exception:  # of a connection that is closed, or a relation without a query
        return []
    for text in texts:  # which grows
        for name in [name for name in views if name.lower() in text.lower()]:
            texts.append(views.pop(name) or "")
    words = (single.replace("''", "'") or double.replace('""', '"') for text in texts for single, double in _QUOTED.findall(text))
    return [word for word in dict.fromkeys(words) if word and "\n" not in word]
