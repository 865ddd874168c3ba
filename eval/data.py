"""Data sets by name: where they are found, and what a file of one must look like.

    python3 -m eval list [--data FOLDER]
    python3 -m eval get NAME [--data FOLDER] [--out FOLDER] [--overwrite]

`get` writes NAME.jsonl after every row of it was checked. Four kinds of names: files of FOLDER (default: BANYAN_DATA
of the environment, else ../shared/data where it is), the samples that ship here (`eval/samples`), sets that are
generated from a seed (`eval.sets`), which no model can have been trained on word for word, and the path of a file or
folder as it was published (`eval.published`: SQuAD 2.0, QuAC, DROP, NarrativeQA, RACE, LongHealth, HotpotQA, 2Wiki,
MuSiQue, OA-Mine, AE-110k, LongBench). Rows that are not of a known
form are an error with file and line; nothing is written then. A question file may have documents that a model was
trained on: for the models trained here, `get` marks rows that training may use with "trained_on": true
(`train.reader_data.is_held`, `train.extract_real.held_name`), and says how many.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from pathlib import Path

from eval import published
from eval.sets import lines_of_code, make_sets
from train.extract_real import held_name
from train.reader_data import is_held

SAMPLES = Path(__file__).parent / "samples"
GENERATED = ("haystack_1k", "haystack_3k", "choice", "extract", "code_16", "code", "two_hop_16", "two_hop_joined", "code_lines")
TRAINED = (
    "squad2",
    "narrativeqa",
    "drop",
    "covidqa",
    "fairytaleqa",
)  # files of which train.reader_data knows what is held out
TRAINED_VALUES = (
    "crossner",
    "e2e_restaurants",
    "oa_mine_train",
    "references_anystyle",
    "sgd_dialogues",
    "us_addresses",
)  # and those of which train.extract_real does


class BadRow(ValueError):
    pass


def _text(row: dict, name: str) -> bool:
    return isinstance(row.get(name), str)


def kind_of(row: object) -> str:
    """questions, documents (one question over several), examples (one question after several with their answers) or
    values. Raises BadRow, which says what is missing."""
    if not isinstance(row, dict) or "id" not in row:
        raise BadRow("expected an object with an 'id'")
    if "questions" in row:
        if not _text(row, "context") or not isinstance(row["questions"], list):
            raise BadRow("'questions' without a 'context', or no list")
        for q in row["questions"]:
            if not isinstance(q, dict) or not _text(q, "question"):
                raise BadRow("a question without the text 'question'")
            right = isinstance(q.get("answers"), list) or (
                "choices" in q and isinstance(q.get("right"), int) and 0 <= q["right"] < len(q["choices"])
            )
            if not right:
                raise BadRow(
                    f"question {q.get('id')!r}: expected 'answers', a list, or 'choices' and the number of the"
                    " 'right' one"
                )
        return "questions"
    if "documents" in row:
        if (
            not _text(row, "question")
            or not isinstance(row.get("answers"), list)
            or not all(isinstance(d, dict) and _text(d, "text") for d in row["documents"])
        ):
            raise BadRow("expected 'question', 'answers' and 'documents' with a 'text' each")
        return "documents"
    if "examples" in row:
        if (
            not _text(row, "question")
            or not isinstance(row.get("answers"), list)
            or not isinstance(row["examples"], list)
            or not all(isinstance(e, dict) and _text(e, "question") and _text(e, "answer") for e in row["examples"])
        ):
            raise BadRow("expected 'question', 'answers' and 'examples' with a 'question' and an 'answer' each")
        return "examples"
    if "attributes" in row or "values" in row:  # what is asked for may stand in a schema instead
        if not _text(row, "text") or not isinstance(row.get("values"), dict):
            raise BadRow("expected 'text' and 'values'")
        return "values"
    raise BadRow("expected 'questions', 'documents', 'examples' or 'values'")


def read_checked(path: Path) -> tuple[str, list[dict]]:
    """(kind, rows). Raises BadRow with file and line."""
    rows, kinds = [], set()
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                rows.append(json.loads(line))
                kinds.add(kind_of(rows[-1]))
            except (BadRow, json.JSONDecodeError) as bad:
                raise BadRow(f"{path}, line {number}: {bad}") from None
            if len(kinds) > 1:
                raise BadRow(f"{path}, line {number}: a row of another kind: {sorted(kinds)}")
    if not rows:
        raise BadRow(f"{path}: no rows")
    return kinds.pop(), rows


def marked(name: str, rows: list[dict]) -> list[dict]:
    """Rows of documents that the models here may have been trained on have "trained_on": true."""
    if name in TRAINED:
        return [r if is_held(name, r["id"]) else dict(r, trained_on=True) for r in rows]
    if name in TRAINED_VALUES:
        return [r if held_name(r["id"]) else dict(r, trained_on=True) for r in rows]
    return rows


def read_file(path: Path) -> tuple[str, str, list[dict]]:
    """(name, kind, rows) of a file of our own form, or as it was published. Raises BadRow."""
    try:
        found = published.read(path)
    except published.BadFile as wrong:
        raise BadRow(str(wrong)) from None
    if found is None:
        name = path.name.removesuffix(".gz").removesuffix(".jsonl")
        kind, rows = read_checked(path)
        return name, kind, marked(name, rows)
    name, rows = found
    kinds = set()
    for row in rows:
        try:
            kinds.add(kind_of(row))
        except BadRow as wrong:
            raise BadRow(f"{path}, '{row['id']}': {wrong}") from None
    return name, kinds.pop(), rows


def default_folder() -> Path | None:
    named = os.environ.get("BANYAN_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(named) if named else beside if beside.is_dir() else None


def names(folder: Path | None) -> dict[str, str]:
    """Name → where it comes from."""
    found = {name: "generated (eval.sets)" for name in GENERATED}
    for path in sorted(SAMPLES.glob("*.jsonl")):
        found.setdefault(path.stem, "sample (eval/samples)")
    for path in sorted(folder.glob("*.jsonl")) if folder else []:
        found[path.stem] = f"file of {folder.name}"
    return found


def get(name: str, folder: Path | None, seed: int = 1, scale: float = 1.0) -> tuple[str, list[dict]]:
    """(kind, rows); rows of documents that training may use are marked."""
    if Path(name).exists():
        return read_file(Path(name))[1:]
    known = names(folder)
    if name not in known:
        raise KeyError(f"no data set '{name}'; there are: {', '.join(sorted(known))}")
    if folder and (folder / f"{name}.jsonl").is_file():
        kind, rows = read_checked(folder / f"{name}.jsonl")
    elif (SAMPLES / f"{name}.jsonl").is_file() and name not in GENERATED:
        kind, rows = read_checked(SAMPLES / f"{name}.jsonl")
    else:
        rows = lines_of_code(seed, scale) if name == "code_lines" else make_sets(seed, scale)[name]
        kind = kind_of(rows[0])
    return kind, marked(name, rows)


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(
        prog="python3 -m eval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("command", choices=("list", "get"))
    p.add_argument("name", nargs="?")
    p.add_argument("--data", type=Path, default=default_folder())
    p.add_argument("--out", type=Path, default=Path("."))
    p.add_argument("--overwrite", action="store_true")
    p.add_argument("--scale", type=float, default=1.0, help="size of a generated set")
    a = p.parse_args(arguments)
    if a.command == "list":
        for name, source in sorted(names(a.data).items()):
            print(f"{name:20} {source}")
        return 0
    if not a.name:
        p.error("get: expected a name; 'list' shows them")
    target = a.out / f"{Path(a.name).name.split('.')[0]}.jsonl"
    if target.exists() and not a.overwrite:
        print(f"{target}: is there already; --overwrite replaces it", file=sys.stderr)
        return 2
    try:
        kind, rows = get(a.name, a.data, scale=a.scale)
    except (BadRow, KeyError) as wrong:
        print(wrong.args[0], file=sys.stderr)
        return 2
    a.out.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    answers = sum(len(r.get("questions", r.get("attributes", [0]))) for r in rows)
    marked = sum(r.get("trained_on", False) for r in rows)
    print(
        f"{target}: {len(rows)} rows of {kind}, {answers} answers"
        + (f"; {marked} rows are of documents that the models here may have been trained on" if marked else "")
    )
    return 0
