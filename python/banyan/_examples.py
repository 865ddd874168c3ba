"""Questions, examples and schemas as a caller may give them: texts, dicts, files."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Iterable, Mapping, Sequence, Union

from ._errors import Error
from ._options import Path

Question = Union[str, Mapping[str, Any]]
#: A schema of `extract`: a dict or JSON text, a .json file, or a class of pydantic.
Schema = Union[str, "os.PathLike[str]", Mapping[str, Any], type]
#: A question, several, or a dict of names and questions: the names are the answers' ``question_id``.
Questions = Union[Question, Sequence[Question], None]

# What a text that is meant as a path ends with; examples themselves do not.
_FILE_ENDINGS = (".jsonl", ".ndjson", ".json", ".txt", ".md", ".csv")


def text_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def question_list(questions: Questions) -> list[Question]:
    """Questions one by one; a dict of names and questions gives them their names as ids."""
    if questions is None:
        return []
    if isinstance(questions, str) or isinstance(questions, Mapping) and "question" in questions:
        return [questions]
    if not isinstance(questions, Mapping):
        listed = list(questions) if isinstance(questions, Iterable) and not isinstance(questions, bytes) else [questions]
        for question in listed:
            if not isinstance(question, (str, Mapping)):
                raise Error(f"questions: expected a text or a dict with 'question', found {type(question).__name__}")
        return listed
    named: list[Question] = []
    for name, question in questions.items():
        if not isinstance(question, str) and not (isinstance(question, Mapping) and "question" in question):
            raise Error(f"questions: '{name}': expected a question, found {type(question).__name__}; a dict is one question "
                        "(with 'question'), or names with questions")
        named.append({**({"question": question} if isinstance(question, str) else question), "id": str(name)})
    return named


def question_options(questions: Questions) -> dict[str, Any]:
    """Questions for every document, as the library takes them: texts, or JSONL when some have ids or choices."""
    if questions is None:
        return {}
    listed = question_list(questions)
    if all(isinstance(question, str) for question in listed):
        return {"questions": listed}
    return {"questions_text": "".join(json.dumps(q if isinstance(q, str) else dict(q)) + "\n" for q in listed)}


def json_text(value: Any) -> str | None:
    """A schema as JSON: a text as it is, a dict, a class of pydantic (or anything with ``model_json_schema``), a dataclass
    or TypedDict that pydantic understands."""
    if isinstance(value, os.PathLike) or isinstance(value, str) and _names_a_schema(value):
        try:
            return pathlib.Path(value).read_text("utf-8")
        except OSError as error:
            raise Error(f"schema: {os.fspath(value)}: {error.strerror}", "not_found") from error
        except UnicodeDecodeError as error:
            raise Error(f"schema: {os.fspath(value)}: not valid UTF-8", "input") from error
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "model_json_schema"):
        value = value.model_json_schema()
    elif isinstance(value, type):
        try:
            import pydantic
        except ImportError as error:
            raise Error(f"schema: a class ({value.__name__}) needs pydantic: pip install pydantic", "unsupported") from error
        value = pydantic.TypeAdapter(value).json_schema()
    try:
        return json.dumps(value)
    except TypeError as error:
        raise Error(f"schema: expected a dict, JSON text or a class of pydantic, found {type(value).__name__}") from error


def _names_a_schema(text: str) -> bool:
    """A file is meant, not JSON."""
    return text.endswith(".json") and "\n" not in text and not text.lstrip().startswith(("{", "[", '"'))


def examples_file(value: Path | Sequence[Mapping[str, Any]] | None) -> str | None:
    """The file that `few_shot` names, as ``--few-shot FILE`` does; None: it holds the examples themselves."""
    if value is None or not isinstance(value, (str, os.PathLike)):
        return None
    text = os.fspath(value)
    one_line = "\n" not in text and not text.lstrip().startswith("{") and len(text) < 4096
    is_path = isinstance(value, os.PathLike) or (one_line and (text.endswith(_FILE_ENDINGS) or os.path.isfile(text)))
    if is_path and not os.path.isfile(text):
        raise Error(f"few_shot: {text}: no such file", "not_found")
    return text if is_path else None


def examples_read(few_shot: Path | Sequence[Mapping[str, Any]] | None) -> list[tuple[str, str]]:
    """The file of examples, which is never written to."""
    file = examples_file(few_shot)
    return [] if file is None else [("few_shot", file)]


def examples_text(value: Path | Sequence[Mapping[str, Any]] | None) -> str | None:
    """Examples as the library takes them: the content of a file, a text as it is, or rows as JSONL."""
    file = examples_file(value)
    if file is not None:
        return pathlib.Path(file).read_text("utf-8", "surrogateescape")
    if value is None or isinstance(value, str):
        return value
    return "".join(json.dumps(dict(example), ensure_ascii=False) + "\n" for example in value)  # type: ignore[union-attr]


def example_pairs(examples: Path | Sequence[Mapping[str, str]] | None) -> list[tuple[str, str]]:
    """Questions with their answers: rows, or a JSONL file of them."""
    if examples is None:
        return []
    rows: Sequence[Mapping[str, str]]
    if isinstance(examples, (str, os.PathLike)):
        try:
            rows = [json.loads(line) for line in pathlib.Path(examples).read_text("utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise Error(f"examples: {os.fspath(examples)}: {error.strerror}", "not_found") from error
        except ValueError as error:
            raise Error(f"examples: {os.fspath(examples)}: expected JSONL: {error}", "input") from error
    else:
        rows = examples
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping) or not all(isinstance(row.get(name), str) for name in ("question", "answer")):
            raise Error(f"examples: row {place}: expected a dict with the texts 'question' and 'answer', found {row!r:.80}", "input")
    return [(row["question"], row["answer"]) for row in rows]
