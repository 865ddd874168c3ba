"""Names that a caller gives: aliases understood, mistyped ones refused at once, with the nearest one that there is."""
from __future__ import annotations

import difflib
from typing import Any, Callable, Iterable, Mapping, TypeVar

from . import _native
from ._errors import Error
from ._option_table import ALIASES, NATIVE_NAMES, PARAMETERS, TABLE_TASKS, job_names, option_tables, options_of

#: What a job's rows may have, by our names: what `fields` can say.
FIELDS = {
    "ask": ("id", "context", "question", "questions", "question_id", "choices", "instruction", "adapter"),
    "extract": ("id", "text", "documents", "category", "adapter"),
    "rag": ("id", "question", "documents", "examples", "adapter"),
    "embed": ("id", "text"),
    **dict.fromkeys(TABLE_TASKS, ("id",)),  # and the columns of the prompt
}
#: The document itself has a name in every task; each is understood in all of them.
DOCUMENT_FIELD = {"ask": "context", "extract": "text", "rag": "question", "embed": "text", **dict.fromkeys(TABLE_TASKS, "text")}
_DOCUMENT_NAMES = ("context", "text")

F = TypeVar("F", bound=Callable[..., Any])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'context'?``: the nearest of the known names; empty: none is near."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean '{near[0]}'?" if near else ""


def check_names(given: Iterable[str], known: Iterable[str], what: str, where: str = "") -> None:
    """Raises an Error for the first name that is not known. `where` stands before it: "engine: "."""
    names = sorted(known)
    for name in given:
        if name in names:
            continue
        meant = did_you_mean(str(name), names) or f"; there are {', '.join(names)}"
        raise Error(f"{where}{name}: there is no such {what}{meant}")


def without_aliases(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options by the names that we call them. An option that is given by two names is refused."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        ours = ALIASES[task].get(name, name)
        if ours in found:
            raise Error(f"{name}: is another name of {ours}; give one of them")
        found[ours] = value
    return found


def canonical_fields(task: str, fields: Mapping[str, str] | str | None) -> dict[str, str] | None:
    """`fields` by our names: one name alone is the document's column. A name that is none of ours would be ignored,
    and is refused."""
    if fields is None:
        return None
    if isinstance(fields, str):
        fields = {DOCUMENT_FIELD[task]: fields}
    if not isinstance(fields, Mapping):
        raise Error(f"fields: expected the name of a column, or a dict of names, found {type(fields).__name__}")
    found: dict[str, str] = {}
    for ours, theirs in fields.items():
        has_own_columns = task in TABLE_TASKS and task != "join"  # whose names are the prompt's
        name = DOCUMENT_FIELD[task] if ours in _DOCUMENT_NAMES and task != "rag" and task not in TABLE_TASKS else ours
        if not has_own_columns:
            check_names([name], FIELDS[task], "field", "fields: ")
        if not isinstance(theirs, str):
            raise Error(f"fields: {ours}: expected the name of a column, found {type(theirs).__name__}")
        if name in found:
            raise Error(f"fields: {ours}: is another name of {name}; give one of them")
        found[name] = theirs
    return found


def check_engine(engine: Mapping[str, object] | None) -> None:
    if engine is not None and not isinstance(engine, Mapping):
        raise Error(f"engine: expected a dict of EngineOptions, found {type(engine).__name__}")
    check_names(engine or {}, _native.option_names("engine"), "option", "engine: ")


def task_options(task: str, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a call: (the task's, the job's), with our names and defaults. `more`, the call's keywords, count
    before `options`."""
    if options is not None and not isinstance(options, Mapping):
        raise Error(f"options: expected a dict of {task.capitalize()}Options, found {type(options).__name__}")
    table = options_of(task)
    for given, where in ((options or {}, "options: "), (more, "")):
        check_names(given, [*table, *ALIASES[task]], "option", where)
    found = {name: option.default for name, option in table.items()}
    found.update(without_aliases(task, options or {}))
    found.update(without_aliases(task, more))
    found["fields"] = canonical_fields(task, found["fields"])
    of_job = job_names(task)
    return ({name: value for name, value in found.items() if name not in of_job},
            {name: value for name, value in found.items() if name in of_job})


def own_options(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of calls that read and write in their own way: the task's options that were given, by our names. Those of input
    and output are refused."""
    of_job = job_names(task)
    names = {name for name in options_of(task) if name not in of_job}
    aliases = {name for name, ours in ALIASES[task].items() if ours in names}
    check_names(given, names | aliases, "option")
    return without_aliases(task, given)


def native_names(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """As the library calls them."""
    names = NATIVE_NAMES[task]
    return {names.get(name, name): value for name, value in options.items()}


def documented(task: str) -> Callable[[F], F]:
    """Ends the docstring of a task's function, whose last lines are a table of its own parameters, with the common
    ones and the tables of options."""
    def add(function: F) -> F:
        common = "".join(f"    | `{name}` | {text} |\n" for name, text in PARAMETERS.items())
        words = "    Options, as keywords or in `options`:"
        function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n{common}\n{words}\n\n{option_tables(task)}    "
        return function
    return add
