"""The options of ask, extract, rag and the tasks of tables: name, default and what each means, in groups. The rows are those of the table
that all interfaces share (`_option_rows`). Docstrings, defaults and the refusal of unknown names come from
here; types are in `_options`."""
from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Tuple

from ._option_rows import ROWS


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a task."""

    name: str
    default: Any
    text: str


Group = Tuple[Option, ...]


def _group(*rows: tuple[str, Any, str]) -> Group:
    return tuple(Option(*row) for row in rows)


#: Where Python has another default or other words than the table of all interfaces: it takes dicts, pairs and open objects.
_OWN: Mapping[str, tuple[Any, str]] = {
    "few_shot": (None, "examples: a file (text, or JSONL), such a text, or a list of dicts"),
    "json_schema": (None, "what answers must match: a JSON schema, as a dict or text"),
    "shard": ((1, 1), "(i, n): every n-th record from the i-th on; `banyan merge` joins the outputs"),
    "delimiter": (None, "between the cells of CSV; None: what the header has, else a comma"),
    "ordered": (True, "rows in the order of the input"),
    "resume": (False, "True: go on with an interrupted job; rows of records that changed or are gone are made anew or removed"),
    "max_errors": (None, "more error rows than this end the job with an `Error`"),
    "strict": (False, "True: a file or a row that cannot be read ends the job with an `Error` instead of an error row"),
    "checkpoint": (None, "seconds of work that an interruption may cost; None: 1"),
    "overwrite": (False, "True: begin anew whatever the output holds"),
}
# Options that are parameters of the calls themselves.
_PARAMETERS = ("output", "schema")


def _rows(table: str, *groups: str, renamed: Mapping[str, str] = {}) -> Group:
    """Rows of the table of all interfaces (`_option_rows`), in its order."""
    return tuple(Option(renamed.get(name, name), *_OWN.get(name, (default, text)))
                 for group, name, default, text in ROWS[table] if group in groups and name not in _PARAMETERS)


def _input(document: str) -> Group:
    return _group(("fields", None, f'what the input calls a field: `{{"{document}": "body"}}`')) + _rows("job", "Input")


_OUTPUT = _rows("job", "Output")

_ASK: Mapping[str, Group] = {
    "Input": _input("context"), "Output": _OUTPUT, "Prompt": _rows("ask", "Prompt"), "Answer": _rows("ask", "Answers")}

_EXTRACT: Mapping[str, Group] = {
    "Input": _input("text"), "Output": _OUTPUT, "Prompt": _rows("extract", "Input", "Prompt"),
    "Values": _rows("extract", "Values", renamed={"max_tokens": "max_new"})}

_RAG: Mapping[str, Group] = {
    "Input": _input("question"), "Output": _OUTPUT,
    "Retrieval": _rows("rag", "Documents") + _group(
        ("index", None, "an `Index`, or its folder"),
        ("encoder", None, "an `Encoder`, or a model that is loaded for the call"),
        ("reranker", None, "the same, for the order of what was found")),
    "Answer": _rows("rag", "Answers", "Output") + _group(
        ("examples", None, "with experts='examples': dicts of question and answer, or a JSONL file"))}

#: Tasks that ask the same of every row of a table.
TABLE_TASKS = ("map", "filter", "rank", "group", "join")
# Options of tables that not all of these tasks have, by the library's names.
_OF_SOME: Mapping[str, Tuple[str, ...]] = {
    "labels": ("map", "rank", "group"), "top": ("rank",), "threshold": ("filter", "join"), "all": ("filter", "join"),
    "label": ("map", "filter"), "pairwise": ("rank",),
    **dict.fromkeys(("recall", "precision", "confidence", "sample"), ("filter",))}
_OWN_OF_TABLES: Mapping[str, tuple[Any, str]] = {
    "columns": ((), "columns that stand before the prompt, each on a line with its name; only these may be reordered"),
    "labels": ((), "map, group: the answer is one of these. rank: numbers, whose expected value is the score")}


def _without(group: Group, *names: str) -> Group:
    return tuple(option for option in group if option.name not in names)


def _of_tables(task: str) -> Mapping[str, Group]:
    """Rows come in the input's order with all of its columns, and the prompt is all that is asked."""
    own = tuple(Option({"labels": "choices"}.get(name, name), *_OWN_OF_TABLES.get(name, (default, text)))
                for _, name, default, text in ROWS["table"] if task in _OF_SOME.get(name, TABLE_TASKS))
    return {"Input": _input("id"), "Output": _without(_OUTPUT, "columns", "ordered"), "Tables": own,
            "Prompt": _without(_ASK["Prompt"], "template"), "Answer": _without(_ASK["Answer"], "choices")}


TASKS: Mapping[str, Mapping[str, Group]] = {
    "ask": _ASK, "extract": _EXTRACT, "rag": _RAG, **{task: _of_tables(task) for task in TABLE_TASKS}}

#: Other names that are understood, as the options that they mean.
ALIASES: Mapping[str, Mapping[str, str]] = {
    "ask": {"max_tokens": "max_new", "max_new_tokens": "max_new", "field": "fields"},
    "extract": {"max_tokens": "max_new", "max_new_tokens": "max_new", "field": "fields"},
    "rag": {"max_tokens": "max_new", "max_new_tokens": "max_new", "field": "fields"},
    **{task: {**({"labels": "choices"} if task in _OF_SOME["labels"] else {}), "max_tokens": "max_new",
              "max_new_tokens": "max_new", "field": "fields"} for task in TABLE_TASKS},
}

#: What the library calls an option that has another name there.
NATIVE_NAMES: Mapping[str, Mapping[str, str]] = {
    "ask": {}, "extract": {"max_new": "max_tokens"}, "rag": {}, **dict.fromkeys(TABLE_TASKS, {"choices": "labels"})}


#: What all tasks take beside their options.
PARAMETERS: Mapping[str, str] = {
    "model": "a `Model`, or what it takes: a path, a name, None for the default of the command line (`banyan model better`), which is then loaded for this call",
    "output": "a file or URL for the rows (.jsonl, .csv, .tsv, .md, with .gz or .zst behind it, or .parquet); one that is there is kept",
    "engine": "the engine's options, a dict of `EngineOptions`: strategy, kv_memory, kv_store …",
    "progress": "called with a dict a few times a second; True: a bar of tqdm; None: a bar in notebooks",
    "timeout": "seconds after which the job ends with `Timeout`; finished rows are in the output",
    "options": "any of the options below, to be kept and given again; a keyword of the call counts before it",
}


def options_of(task: str) -> dict[str, Option]:
    """All of a task, by name."""
    return {option.name: option for group in TASKS[task].values() for option in group}


def job_names(task: str) -> set[str]:
    """Those of input and output; the others are the task's own."""
    return {option.name for group in ("Input", "Output") for option in TASKS[task][group]}


def option_tables(task: str) -> str:
    """A table for every group, for docstrings."""
    lines: list[str] = []
    for name, group in TASKS[task].items():
        lines += [f"{name}:", "", "| option | default | |", "|---|---|---|"]
        lines += [f"| `{one.name}` | `{one.default!r}` | {one.text} |" for one in group]
        lines.append("")
    return "\n".join(f"    {line}" if line else "" for line in lines).rstrip() + "\n"
