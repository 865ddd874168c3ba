"""Data sets as they are published: a file or folder as it comes → rows of `ask`, `rag` or `extract`.

| set | what is read |
|---|---|
| squad2 | `dev-v2.0.json` (also SQuAD 1.1) |
| quac | `val_v0.2.json`: earlier turns of a dialogue, with their first answers, stand before a question |
| drop | `drop_dataset_dev.json`: an answer of several spans has `items`, all of which are wanted |
| narrativeqa | a folder with `qaps.csv` and `summaries.csv` (there or in `third_party/wikipedia`): questions on summaries |
| race | a folder of `.txt` files, each an article with its questions, at any depth |
| longhealth | `benchmark_v5.json`: a patient's documents are one context |
| hotpotqa, 2wikimultihopqa | `hotpot_dev_distractor_v1.json`, `dev.json` |
| musique | `musique_ans_v1.0_dev.jsonl` |
| oa_mine | a folder `annotations` of `.jsonl` files, each a category; or one such file |
| ae_110k | `publish_data.txt`: lines of title, attribute and value (or NULL), separated by the character U+0001 |
| longbench | `.jsonl` of a LongBench task: `context`, `input`, `answers`; classes become choices |

Which set it is follows from what is in it. A file may be compressed by gzip. What does not fit is an error that names
the file, the row, what was expected and what was found.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any, Callable, Iterator

LETTERS = "ABCDEFGH"
# The most tokens of an answer, as Intra-Prompt Parallel Decoding has them; other sets have the tools' own limits.
LIMITS = {"narrativeqa": 40, "squad2": 30, "race": 1, "longhealth": 1}


class BadFile(ValueError):
    """Names the file and the row, what was expected, and what was found."""


def field(row: Any, name: str, kind: type | tuple, where: str) -> Any:
    if not isinstance(row, dict):
        raise BadFile(f"{where}: expected an object, found {type(row).__name__}")
    found = row.get(name)
    if not isinstance(found, kind):
        words = {str: "a text", list: "a list", dict: "an object", int: "a number", (str, int): "a text or number"}
        what = type(found).__name__ if name in row else "nothing"
        raise BadFile(f"{where}: expected '{name}', {words.get(kind, kind)}, found {what}")
    return found


def text_of(path: Path) -> str:
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError) as wrong:
        raise BadFile(f"{path}: {wrong}") from None


def lines_of(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, row) of JSON lines."""
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if line.strip():
            try:
                yield f"{path}, line {number}", json.loads(line)
            except json.JSONDecodeError as wrong:
                raise BadFile(f"{path}, line {number}: {wrong}") from None


def unique(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(t.strip() for t in texts if t.strip()))


# --- Questions on one text
def squad(path: Path, data: dict) -> list[dict]:
    rows = []
    for a, article in enumerate(field(data, "data", list, str(path))):
        title = article.get("title", str(a)) if isinstance(article, dict) else str(a)
        for n, paragraph in enumerate(field(article, "paragraphs", list, f"{path}, article {a + 1}")):
            where = f"{path}, article '{title}', paragraph {n + 1}"
            questions = []
            for q in field(paragraph, "qas", list, where):
                texts = [field(answer, "text", str, where) for answer in field(q, "answers", list, where)]
                questions.append(
                    dict(
                        id=field(q, "id", (str, int), where),
                        question=field(q, "question", str, where),
                        answers=[] if q.get("is_impossible") else unique(texts),
                    )
                )
            context = field(paragraph, "context", str, where)
            rows.append(dict(id=f"squad2-{title}-{n:03}", dataset="squad2", context=context, questions=questions))
    return rows


NO_ANSWER = "CANNOTANSWER"  # QuAC: an answer, and the last word of every context


def quac(path: Path, data: dict) -> list[dict]:
    rows = []
    for a, article in enumerate(field(data, "data", list, str(path))):
        for paragraph in field(article, "paragraphs", list, f"{path}, dialogue {a + 1}"):
            where = f"{path}, dialogue {a + 1}"
            turns, questions = [], []
            for q in field(paragraph, "qas", list, where):
                asked = field(q, "question", str, where)
                texts = unique([field(answer, "text", str, where) for answer in field(q, "answers", list, where)])
                known = [t for t in texts if t != NO_ANSWER]
                questions.append(dict(id=field(q, "id", str, where), question="".join(turns) + asked, answers=known))
                first = q.get("orig_answer", {}).get("text") or (texts[0] if texts else NO_ANSWER)
                turns.append(f"{asked} {first if first != NO_ANSWER else 'null'}\n")
            context = field(paragraph, "context", str, where).removesuffix(NO_ANSWER).strip()
            name = paragraph.get("id", a)
            rows.append(dict(id=f"quac-{name}", dataset="quac", context=context, questions=questions))
    return rows


def drop_answer(answer: dict, where: str) -> list[str]:
    """The texts of one answer: several are wanted together."""
    if str(answer.get("number", "")).strip():
        return [str(answer["number"]).strip()]
    spans = unique(field(answer, "spans", list, where)) if "spans" in answer else []
    if spans:
        return spans
    date = answer.get("date") or {}
    return unique([" ".join(str(date.get(part, "")) for part in ("day", "month", "year"))])


def drop(path: Path, data: dict) -> list[dict]:
    rows = []
    for name, passage in data.items():
        where, questions = f"{path}, passage '{name}'", []
        for n, q in enumerate(field(passage, "qa_pairs", list, where)):
            given = [field(q, "answer", dict, where), *q.get("validated_answers", [])]
            all_of = [texts for one in given if (texts := drop_answer(one, where))]
            question = dict(
                id=q.get("query_id", f"{name}-{n}"),
                question=field(q, "question", str, where),
                answers=unique([", ".join(texts) for texts in all_of]),
            )
            if all_of and len(all_of[0]) > 1:
                question["items"] = [[text] for text in all_of[0]]
            questions.append(question)
        context = field(passage, "passage", str, where)
        rows.append(dict(id=f"drop-{name}", dataset="drop", context=context, questions=questions))
    return rows


def narrativeqa(path: Path) -> list[dict]:
    places = [path / "summaries.csv", path / "third_party" / "wikipedia" / "summaries.csv"]
    summaries = next((p for p in places if p.is_file()), None)
    if summaries is None:
        raise BadFile(f"{path}: expected summaries.csv beside qaps.csv or in third_party/wikipedia, found neither")
    read = lambda file: list(csv.DictReader(io.StringIO(text_of(file), newline="")))
    texts = {row["document_id"]: row for row in read(summaries) if row.get("summary")}
    rows: dict[str, dict] = {}
    for number, q in enumerate(read(path / "qaps.csv"), 2):
        where = f"{path / 'qaps.csv'}, row {number}"
        document = field(q, "document_id", str, where)
        if document not in texts:
            raise BadFile(f"{where}: expected a summary of '{document}' in {summaries}, found none")
        split = q.get("set") or texts[document].get("set", "")
        row = rows.setdefault(
            document,
            dict(
                id=f"narrativeqa-{document[:12]}",
                dataset="narrativeqa",
                split=split,
                context=texts[document]["summary"].strip(),
                questions=[],
            ),
        )
        answers = unique([field(q, "answer1", str, where), q.get("answer2") or ""])
        row["questions"].append(
            dict(id=f"q{len(row['questions'])}", question=field(q, "question", str, where), answers=answers)
        )
    chosen = next((s for s in ("test", "valid", "train") if any(r["split"] == s for r in rows.values())), None)
    return [r for r in rows.values() if chosen is None or r["split"] == chosen]


def race(path: Path) -> list[dict]:
    rows = []
    for file in sorted(path.rglob("*.txt")):
        for where, article in lines_of(file):
            options, right = field(article, "options", list, where), field(article, "answers", list, where)
            asked = field(article, "questions", list, where)
            if not len(options) == len(right) == len(asked):
                raise BadFile(
                    f"{where}: expected as many options and answers as questions ({len(asked)}), found {len(options)}"
                    f" and {len(right)}"
                )
            questions = []
            for n, (question, choices, letter) in enumerate(zip(asked, options, right)):
                if letter not in list(LETTERS[: len(choices)]):
                    raise BadFile(f"{where}: expected the letter of an option, found {letter!r}")
                questions.append(dict(id=f"q{n}", question=question, choices=choices, right=LETTERS.index(letter)))
            name = "-".join(file.relative_to(path).with_suffix("").parts)
            rows.append(
                dict(
                    id=f"race-{name}",
                    dataset="race",
                    context=field(article, "article", str, where),
                    questions=questions,
                )
            )
    return rows


def longhealth(path: Path, data: dict) -> list[dict]:
    rows = []
    for name, patient in data.items():
        where, questions = f"{path}, '{name}'", []
        texts = field(patient, "texts", dict, where)
        for n, q in enumerate(field(patient, "questions", list, where)):
            choices = [field(q, f"answer_{letter}", str, where) for letter in "abcde"]
            correct = field(q, "correct", str, where).strip()
            if correct not in choices:
                raise BadFile(
                    f"{where}, question {n + 1}: expected 'correct' to be one of its answers, found '{correct}'"
                )
            questions.append(
                dict(
                    id=f"q{q.get('No', n)}",
                    question=field(q, "question", str, where),
                    choices=choices,
                    right=choices.index(correct),
                )
            )
        rows.append(
            dict(
                id=f"longhealth-{name}", dataset="longhealth", context="\n\n".join(texts.values()), questions=questions
            )
        )
    return rows


def longbench(path: Path) -> list[dict]:
    rows = []
    for n, (where, row) in enumerate(lines_of(path)):
        name = field(row, "dataset", str, where)
        question: dict[str, Any] = dict(id="q0", question=field(row, "input", str, where) or "What is the summary?")
        question["answers"] = unique(field(row, "answers", list, where))
        if row.get("all_classes"):
            question["choices"] = row["all_classes"]
        rows.append(
            dict(
                id=f"longbench-{row.get('_id', n)}",
                dataset=name,
                context=field(row, "context", str, where),
                questions=[question],
            )
        )
    return rows


# --- One question on several documents
def hotpot(path: Path, data: list) -> list[dict]:
    rows = []
    for n, row in enumerate(data):
        where = f"{path}, question {n + 1}"
        gold = {title for title, *_ in row.get("supporting_facts", [])}
        documents = []
        for d, entry in enumerate(field(row, "context", list, where)):
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list)):
                raise BadFile(f"{where}, document {d + 1}: expected [title, [sentences]], found {str(entry)[:60]}")
            text = " ".join(s.strip() for s in entry[1])
            documents.append(dict(id=f"{d}", title=entry[0], text=text, gold=entry[0] in gold))
        name = "2wikimultihopqa" if "evidences" in row else "hotpotqa"
        rows.append(
            dict(
                id=f"{name}-{row.get('_id', n)}",
                dataset=name,
                question=field(row, "question", str, where),
                answers=unique([field(row, "answer", str, where)]),
                documents=documents,
            )
        )
    return rows


def musique(path: Path) -> list[dict]:
    rows = []
    for where, row in lines_of(path):
        documents = [
            dict(
                id=str(d.get("idx", n)),
                title=d.get("title", ""),
                text=field(d, "paragraph_text", str, where),
                gold=bool(d.get("is_supporting")),
            )
            for n, d in enumerate(field(row, "paragraphs", list, where))
        ]
        known = row.get("answerable", True)
        rows.append(
            dict(
                id=f"musique-{field(row, 'id', str, where)}",
                dataset="musique",
                question=field(row, "question", str, where),
                answers=unique([field(row, "answer", str, where), *row.get("answer_aliases", [])]) if known else [],
                documents=documents,
            )
        )
    return rows


# --- Values
def oa_mine(path: Path) -> list[dict]:
    rows, attributes = [], {}
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        category = file.name.split(".")[0].replace("_", " ").title()
        for where, row in lines_of(file):
            values: dict[str, list[str]] = {}
            for entity in field(row, "entities", list, where):
                label, value = field(entity, "label", str, where), entity.get("value")
                if value is None:
                    value = row["title"][entity["startOffset"] : entity["endOffset"]]
                values.setdefault(label, []).append(value)
                attributes.setdefault(category, {})[label] = None
            rows.append(
                dict(
                    id=f"oa_mine-{row.get('asin', len(rows))}",
                    dataset="oa_mine",
                    category=category,
                    text=field(row, "title", str, where),
                    values={label: unique(found) for label, found in values.items()},
                )
            )
    return [dict(r, attributes=sorted(attributes.get(r["category"], {}))) for r in rows]


def ae_110k(path: Path) -> list[dict]:
    rows: dict[str, dict] = {}
    for number, line in enumerate(text_of(path).split("\n"), 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.rstrip("\r").split("\u0001")]
        if len(parts) != 3:
            raise BadFile(
                f"{path}, line {number}: expected title, attribute and value, separated by U+0001, found {len(parts)}"
                f" part{'' if len(parts) == 1 else 's'}"
            )
        title, attribute, value = parts
        row = rows.setdefault(
            title, dict(id=f"ae_110k-{len(rows)}", dataset="ae_110k", text=title, attributes=[], values={})
        )
        if attribute not in row["values"]:
            row["attributes"].append(attribute)
        found = row["values"].setdefault(attribute, [])
        if value != "NULL":
            found.append(value)
    # Each product is asked for its own attributes: all products together have thousands.
    return [dict(r, category=r["id"]) for r in rows.values()]


# --- Which it is
def _of_object(path: Path, data: Any) -> tuple[str, list[dict]]:
    """Of a JSON file that is one value."""
    first = next(iter(data.values()), None) if isinstance(data, dict) else data[0] if data else None
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        head = data["data"][0] if data["data"] else {}
        paragraphs = head.get("paragraphs", []) if isinstance(head, dict) else []
        turns = paragraphs[0].get("qas", []) if paragraphs and isinstance(paragraphs[0], dict) else []
        return ("quac", quac(path, data)) if turns and "followup" in turns[0] else ("squad2", squad(path, data))
    if isinstance(data, dict) and isinstance(first, dict):
        for name, mark, read in (("drop", "qa_pairs", drop), ("longhealth", "texts", longhealth)):
            if mark in first:
                return name, read(path, data)
    if isinstance(data, list) and isinstance(first, dict) and "context" in first and "question" in first:
        rows = hotpot(path, data)
        return rows[0]["dataset"], rows
    raise BadFile(
        f"{path}: expected a published file of SQuAD, QuAC, DROP, LongHealth, HotpotQA or 2Wiki, found"
        f" {'an object with ' + ', '.join(map(repr, list(data)[:4])) if isinstance(data, dict) else type(data).__name__}"
    )


OF_LINES: dict[str, tuple[str, Callable[[Path], list[dict]]]] = {
    "paragraphs": ("musique", musique),
    "entities": ("oa_mine", oa_mine),
    "all_classes": ("longbench", longbench),
}


def of_lines(path: Path) -> tuple[str, list[dict]] | None:
    """Of a file of JSON lines; None: it is not one of the published ones, such as rows of our own form."""
    _, first = next(lines_of(path), ("", {}))
    for mark, (name, read) in OF_LINES.items():
        if isinstance(first, dict) and mark in first:
            rows = read(path)
            return (rows[0]["dataset"] if name == "longbench" else name), rows
    return None


def read(path: Path) -> tuple[str, list[dict]] | None:
    """(name, rows); None: a file of JSON lines that is not a published one. Raises BadFile."""
    if path.is_dir():
        found: tuple[str, list[dict]] = (
            ("narrativeqa", narrativeqa(path))
            if (path / "qaps.csv").is_file()
            else ("oa_mine", oa_mine(path)) if any(path.rglob("*.jsonl")) else ("race", race(path))
        )
        if not found[1]:
            raise BadFile(f"{path}: expected qaps.csv (NarrativeQA), .jsonl (OA-Mine) or .txt (RACE), found none")
        return found
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        return of_lines(path)
    if name.endswith(".csv"):
        return "narrativeqa", narrativeqa(path.parent)
    content = text_of(path)
    if "\u0001" in content.split("\n", 1)[0]:
        return "ae_110k", ae_110k(path)
    try:
        return _of_object(path, json.loads(content))
    except json.JSONDecodeError as wrong:
        raise BadFile(f"{path}: expected JSON, or lines separated by U+0001 (AE-110k): {wrong}") from None
