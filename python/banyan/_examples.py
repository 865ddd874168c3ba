"""Questions, examples and schemas as a caller may give them: texts, dicts, files."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Mapping, Sequence, Union

from ._errors import Error
from ._options import Path

Question = Union[str, Mapping[str, Any]]

# What a text that is meant as a path ends with; examples themselves do not.
_FILE_ENDINGS = (".jsonl", ".ndjson", ".json", ".txt", ".md", ".csv")


def text_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def question_list(questions: Question | Sequence[Question] | None) -> list[Question]:
    if questions is None:
        return []
    return [questions] if isinstance(questions, (str, Mapping)) else list(questions)


def question_options(questions: Question | Sequence[Question] | None) -> dict[str, Any]:
    """Questions for every document, as the library takes them: texts, or JSONL when some have ids or choices."""
    if questions is None:
        return {}
    listed = question_list(questions)
    if all(isinstance(question, str) for question in listed):
        return {"questions": listed}
    return {"questions_text": "".join(json.dumps(q if isinstance(q, str) else dict(q)) + "\n" for q in listed)}


def json_text(value: str | Mapping[str, Any] | None) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


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
        rows = [json.loads(line) for line in pathlib.Path(examples).read_text("utf-8").splitlines() if line.strip()]
    else:
        rows = examples
    return [(row["question"], row["answer"]) for row in rows]
