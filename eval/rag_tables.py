"""How well one of many documents is found and answered from: ways of `rag` beside each other, over 4 to 256 documents.

    python3 -m eval rag-tables --questions FILE.jsonl.gz --shared SHARED --count 320 --draw
    python3 -m eval rag-tables --questions FILE.jsonl.gz --banyan build/cuda/banyan -m MODEL --out FOLDER
        [--documents 4,16,64,256] [--methods experts,concat,top1,map-reduce,kv-concat] [--limit 160] [--minutes 4]
        [-- --device cuda]

The first command draws questions (`eval.rag_questions`), the second asks them; options after `--` go to `banyan serve`,
which it starts and ends, and to `banyan rag`, which answers what is not offered over HTTP (kv-concat). --requests
requests are in flight, in the order of the questions, so that a job that ends early (--minutes) has all methods for its
first questions. Answers are appended to FOLDER/rows.jsonl; the same command goes on with what is missing, and asks
errors again. Before that, --timed questions of each method are asked one at a time: `alone_seconds` of a row. With
--without-gold 16 the experts are asked every other question again over 16 documents none of which has the answer: null
is right. kv-concat, one question at a time, comes last: with --minutes give it a command of its own.

Rows: `id`, `source`, `group`, `question`, `gold`, `documents` (how many), `method`, `gold_there`, `answer`,
`confidence`, `alternatives`, `seconds`, `first_token_seconds`, `reply_seconds` (as the client saw it, beside the
others), and of experts `joint` (what they say before a clearly surer document replaces it), `evidence` and `candidates`
as in the trace of `rag`. FOLDER/table.txt is what is printed: exact match and F1 (`eval.metrics`), intervals of 95 %
over articles; experts less the better one of top1 and concat on the questions that all three answered; and experts less
their joint answer, which is what the rule of the surer document changes, also for the sources that no rule was chosen on.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

from eval.data import default_folder
from eval.metrics import calibration_error, exact_match, interval, token_f1
from eval.rag_questions import (
    NEW_SOURCES,
    SOURCES,
    Paragraph,
    Question,
    documents_of,
    draw,
    held_by_readers,
    read_questions,
    write,
)
from eval.trained import read as trained_texts

METHODS = ("experts", "concat", "top1", "map-reduce", "kv-concat")
BY_PROGRAM = ("kv-concat",)  # not over HTTP
START_SECONDS = 600.0  # a model may be large
REPLY_SECONDS = 600.0
DRAWS = 2000


class Failed(RuntimeError):
    pass


class Cell(NamedTuple):
    """One question, as it is asked once."""

    id: str
    method: str
    documents: int
    gold_there: bool


def cell_of(row: dict) -> Cell:
    return Cell(row["id"], row["method"], row["documents"], row["gold_there"])


def cells(a: argparse.Namespace, questions: list[Question], block: int = 40) -> list[Cell]:
    """All that is to be asked: in blocks of questions, so that what is there is comparable at any time."""
    out = []
    for begin in range(0, len(questions), block):
        for count in a.documents:
            for method in a.methods:
                out += [Cell(q.id, method, count, True) for q in questions[begin : begin + block]]
            if count in a.without_gold and "experts" in a.methods:
                out += [Cell(q.id, "experts", count, False) for q in questions[begin : begin + block : 2]]
    return out


# --- The server
class Server:
    """`banyan serve` on a free port; ends with the block."""

    def __init__(self, a: argparse.Namespace) -> None:
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        words = [a.banyan, "serve", "-m", a.model, "--port", "0", "--max-requests", str(a.requests + 8)]
        words += ["--max-waiting", "1000000", *adapter_of(a), *a.options]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=self.errors)
        self.port = 0

    def __enter__(self) -> "Server":
        deadline = time.monotonic() + START_SECONDS
        while not self.port:
            found = re.search(r"http://[0-9.]+:(\d+)/", self.said())
            if found:
                self.port = int(found[1])
            elif self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise Failed(f"banyan serve did not start: {self.said()[-800:]}")
            else:
                time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()


def adapter_of(a: argparse.Namespace) -> list[str]:
    return ["--adapter", a.adapter] if a.adapter else []


class Client:
    """A connection that is kept; a busy server is asked again."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_SECONDS)

    def row(self, body: dict, deadline: float) -> dict:
        """The row of one question; {"error"} where there is none."""
        data, wait = json.dumps(body).encode(), 0.1
        while True:
            try:
                self.connection.request("POST", "/v1/rag", data)
                reply = self.connection.getresponse()
                said = reply.read()
            except (OSError, http.client.HTTPException) as wrong:
                self.connection.close()
                return {"error": f"{type(wrong).__name__}: {wrong}"}
            if reply.status in (429, 503) and time.monotonic() + wait < deadline:
                time.sleep(wait)
                wait = min(2 * wait, 5.0)
                continue
            try:
                found = json.loads(said)
                return found["rows"][0] if reply.status == 200 else {"error": found.get("error", found)}
            except (ValueError, LookupError, AttributeError, TypeError):
                return {"error": f"status {reply.status}, not understood: {said[:200]!r}"}


# --- Rows
def row_of(cell: Cell, question: Question, found: dict) -> dict:
    row: dict[str, Any] = dict(
        id=cell.id, source=question.source, group=question.group, question=question.question, gold=question.answers
    )
    row |= dict(documents=cell.documents, method=cell.method, gold_there=cell.gold_there)
    if "error" in found:
        return dict(row, error=found["error"])
    trace = found.get("trace", {})
    names = ("answer", "confidence", "alternatives", "reason", "dropped", "seconds", "first_token_seconds")
    row |= {name: found[name] for name in names if name in found}
    row |= {name: trace[name] for name in ("joint", "evidence", "candidates") if name in trace}
    if "dropped" in row:
        row["dropped"] = len(row["dropped"])
    return row


class Rows:
    """The rows so far, in a file that a later run goes on with."""

    def __init__(self, path: Path) -> None:
        self.lock, self.kept = threading.Lock(), dict[Cell, dict]()
        if path.is_file():
            whole = path.read_bytes()
            whole = whole[: whole.rfind(b"\n") + 1]  # a line that was cut short is asked again
            path.write_bytes(whole)
            for line in whole.decode().splitlines():
                row = json.loads(line)
                self.kept[cell_of(row)] = row
        self.file = path.open("a", encoding="utf-8")

    def add(self, row: dict) -> None:
        with self.lock:
            self.kept[cell_of(row)] = row
            self.file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self.file.flush()

    def missing(self, wanted: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in wanted if "error" in self.kept.get(cell, {"error": "not asked"})]


class Asking:
    """What workers share: what is asked next, until when, and how far it is."""

    def __init__(
        self, a: argparse.Namespace, paragraphs: list[Paragraph], questions: list[Question], rows: Rows, deadline: float
    ) -> None:
        self.a, self.paragraphs, self.rows, self.deadline = a, paragraphs, rows, deadline
        self.by_id = {q.id: q for q in questions}
        self.began, self.done, self.said = time.monotonic(), 0, 0.0

    def record(self, cell: Cell) -> dict:
        question = self.by_id[cell.id]
        documents = documents_of(self.paragraphs, question, cell.documents, cell.gold_there)
        return {"id": cell.id, "question": question.question, "documents": documents}

    def ask(self, client: Client, cell: Cell, **more: Any) -> None:
        record = self.record(cell)
        body = {"documents": record["documents"], "questions": [{"id": cell.id, "question": record["question"]}]}
        body |= {"method": cell.method, "relevance": "bm25", "too_long": "truncate", "max_tokens": self.a.max_new}
        began = time.monotonic()
        found = client.row(body, self.deadline)
        spent = time.monotonic() - began
        names = {"reply_seconds": round(spent, 4)} | {name: round(spent, 4) for name in more}
        self.rows.add(row_of(cell, self.by_id[cell.id], found) | names)

    def count(self, of: int) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.said > 5 or self.done == of:
            self.said = now
            rate = self.done / max(1e-9, now - self.began)
            print(f"{self.done} of {of} answers, {rate:.1f} a second", file=sys.stderr, flush=True)

    def over_http(self, port: int, wanted: list[Cell]) -> None:
        waiting, lock = iter(wanted), threading.Lock()

        def work() -> None:
            client = Client(port)
            while time.monotonic() < self.deadline:
                with lock:
                    cell = next(waiting, None)
                if cell is None:
                    return
                self.ask(client, cell)
                with lock:
                    self.count(len(wanted))

        workers = [threading.Thread(target=work) for _ in range(self.a.requests)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def one_at_a_time(self, port: int, wanted: list[Cell]) -> list[Cell]:
        """Asks --timed cells of each method and count, of different questions; returns the other ones."""
        client, taken = Client(port), set[Cell]()
        for count in self.a.documents:
            for n, method in enumerate(self.a.methods):
                like = lambda c: c.method == method and c.documents == count and c.gold_there
                have = sum("alone_seconds" in row for c, row in self.rows.kept.items() if like(c))
                same = [cell for cell in wanted if like(cell)][n * self.a.timed :]
                for cell in same[: max(0, self.a.timed - have)]:
                    if time.monotonic() < self.deadline:
                        self.ask(client, cell, alone_seconds=True)
                        taken.add(cell)
        return [cell for cell in wanted if cell not in taken]

    def by_program(self, method: str, wanted: list[Cell]) -> None:
        """One job for each number of documents; its rows count as soon as they are written."""
        for count in self.a.documents:
            asked = [cell for cell in wanted if cell.method == method and cell.documents == count]
            if not asked or time.monotonic() >= self.deadline:
                continue
            with tempfile.TemporaryDirectory() as folder:
                source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
                source.write_text("".join(json.dumps(self.record(c)) + "\n" for c in asked), encoding="utf-8")
                words = [self.a.banyan, "rag", "-m", self.a.model, str(source), "-o", str(target), "--quiet"]
                words += ["--method", method, "--relevance", "bm25", "--too-long", "truncate"]
                words += ["--max-new", str(self.a.max_new), *adapter_of(self.a), *self.a.options]
                job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    job.wait(max(1.0, self.deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    job.send_signal(signal.SIGINT)
                    try:
                        job.wait(20)
                    except subprocess.TimeoutExpired:
                        job.kill()
                said = job.communicate()[1]
                found = target.read_text(encoding="utf-8").splitlines() if target.is_file() else []
                for line in found:
                    row = json.loads(line)
                    cell = Cell(row["id"], method, count, True)
                    # A job answers one question after the other here: nothing else is in flight.
                    alone = {"alone_seconds": row["seconds"]} if "seconds" in row else {}
                    self.rows.add(row_of(cell, self.by_id[cell.id], row) | alone)
                if not found:
                    print(f"{method}, {count} documents: {said.strip()[-300:]}", file=sys.stderr)


# --- The tables
def scores(row: dict, answer: str | None) -> tuple[float, float]:
    """(exact, F1); without the right document null is right."""
    said, right = answer or "null", row["gold"] if row["gold_there"] else []
    return float(exact_match(said, right)), token_f1(said, right)


def over_groups(rows: Iterable[dict], value: dict[str, float]) -> list[list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[row["group"]].append(value[row["id"]])
    return list(groups.values())


def measured(rows: list[dict], value: dict[str, float]) -> str:
    """A mean in percent with its interval."""
    found = interval(over_groups(rows, value), DRAWS)
    mean = 100 * sum(value[row["id"]] for row in rows) / len(rows)
    return f"{mean:5.1f} ({100 * found[0]:.1f} to {100 * found[1]:.1f})" if found else f"{mean:5.1f}"


def median(values: Iterable[float]) -> str:
    found = list(values)
    return f"{statistics.median(found):.3f}" if found else "-"


def tables(rows: list[dict]) -> Iterator[str]:
    """Lines of text."""
    parts: dict[tuple, dict[str, dict]] = defaultdict(dict)  # (documents, gold is there, method) -> id -> row
    for row in rows:
        parts[row["documents"], row["gold_there"], row["method"]][row["id"]] = row
    exact = {key: {i: scores(r, r.get("answer"))[0] for i, r in of.items()} for key, of in parts.items()}
    f1 = {key: {i: scores(r, r.get("answer"))[1] for i, r in of.items()} for key, of in parts.items()}
    known = lambda method: METHODS.index(method) if method in METHODS else len(METHODS)
    yield f"{'documents, method':32} {'asked':>5} {'exact match, %':>22} {'F1':>5} {'null':>5} {'alone, s':>9} errors"
    for key in sorted(parts, key=lambda k: (k[0], not k[1], known(k[2]))):
        of = list(parts[key].values())
        name = f"{key[0]} {key[2]}" + ("" if key[1] else ", none right")
        null = sum("error" not in r and r["answer"] is None for r in of) / len(of)
        alone = median(r["alone_seconds"] for r in of if "alone_seconds" in r)
        yield (
            f"{name:32} {len(of):5} {measured(of, exact[key]):>22} {100 * sum(f1[key].values()) / len(of):5.1f}"
            f" {100 * null:5.1f} {alone:>9} {sum('error' in r for r in of):6}"
        )
    yield ""
    for count in sorted({key[0] for key in parts}):
        of = {m: parts.get((count, True, m), {}) for m in ("experts", "top1", "concat")}
        both = [i for i in of["experts"] if i in of["top1"] and i in of["concat"]]
        for name, new in (("", False), (", sources no rule was chosen on", True)):
            ids = [i for i in both if not new or of["experts"][i]["source"] in NEW_SOURCES]
            if not ids:
                continue
            total = {m: sum(exact[count, True, m][i] for i in ids) for m in ("top1", "concat")}
            best = max(total, key=lambda m: total[m])
            less = {i: exact[count, True, "experts"][i] - exact[count, True, best][i] for i in ids}
            chosen = [of["experts"][i] for i in ids]
            yield f"{count}: experts less {best}{name}, {len(ids)} questions: {measured(chosen, less)} points"
    yield ""
    for key in sorted(k for k in parts if k[2] == "experts"):
        for name, new in (("", False), (", sources no rule was chosen on", True)):
            of = [r for r in parts[key].values() if "error" not in r and "joint" in r]
            of = [r for r in of if not new or r["source"] in NEW_SOURCES]
            if not of:
                continue
            less = {r["id"]: exact[key][r["id"]] - scores(r, r["joint"])[0] for r in of}
            changed = sum(r["answer"] != r["joint"] for r in of)
            yield (
                f"{key[0]}{'' if key[1] else ', none right'}: with the surer document less without{name}, {len(of)}"
                f" questions, {changed} changed: {measured(of, less)} points"
            )
    for key in sorted(k for k in parts if k[2] == "experts"):
        sure = [(r["confidence"], exact[key][r["id"]] == 1.0) for r in parts[key].values() if "confidence" in r]
        if sure:
            yield f"{key[0]}{'' if key[1] else ', none right'}: error of confidence {calibration_error(sure):.3f}"


# --- The command
def options_of(arguments: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="python3 -m eval rag-tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = lambda text: [int(n) for n in text.split(",") if n]
    p.add_argument("--questions", type=Path, required=True, help="file of questions")
    p.add_argument("--draw", action="store_true", help="draw that file and end")
    p.add_argument("--shared", type=Path, default=(default_folder() or Path("shared/data")).parent)
    p.add_argument("--sources", type=lambda text: text.split(","), default=list(SOURCES))
    p.add_argument("--count", type=int, default=320, help="questions to draw")
    p.add_argument("--others", type=int, default=256, help="other paragraphs of a question")
    p.add_argument("--seed", type=int, default=20261119)
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("-m", "--model", default="")
    p.add_argument("--adapter", default="", help="default: the one that ships for the model")
    p.add_argument("--out", type=Path)
    p.add_argument("--documents", type=numbers, default=[4, 16, 64, 256])
    p.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    p.add_argument("--without-gold", type=numbers, default=[16], help="numbers of documents, none of them right")
    p.add_argument("--limit", type=int, default=0, help="ask so many questions; 0: all")
    p.add_argument("--minutes", type=float, default=0.0, help="ask nothing new after so long; 0: to the end")
    p.add_argument("--requests", type=int, default=32, help="requests in flight")
    p.add_argument("--timed", type=int, default=4, help="questions that are asked one at a time first")
    p.add_argument("--max-new", type=int, default=32)
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    a = p.parse_args(arguments[:cut])
    a.options = arguments[cut + 1 :]
    unknown = [m for m in a.methods if m not in METHODS]
    if unknown:
        p.error(f"--methods: expected {', '.join(METHODS)}, found '{unknown[0]}'")
    if not a.draw and not (a.model and a.out):
        p.error("expected -m and --out, or --draw")
    return a


def settings_of(a: argparse.Namespace, data: bytes) -> dict:
    """What rows of one folder have in common."""
    common = dict(model=a.model, adapter=a.adapter, options=a.options, max_new=a.max_new)
    return dict(common, questions=hashlib.sha256(data).hexdigest())


def main(arguments: list[str]) -> int:
    a = options_of(arguments)
    try:
        if a.draw:
            paragraphs, questions = draw(a.shared, a.sources, a.count, a.others, a.seed, held_by_readers())
            write(a.questions, paragraphs, questions)
            print(f"{a.questions}: {len(questions)} questions, {len(paragraphs)} paragraphs to choose from")
            return 0
        return run(a)
    except (Failed, OSError, ValueError) as wrong:
        print(f"rag-tables: {wrong}", file=sys.stderr)
        return 2


def run(a: argparse.Namespace) -> int:
    deadline = time.monotonic() + (60 * a.minutes if a.minutes else 1e9)
    paragraphs, questions = read_questions(a.questions)
    seen = trained_texts(a.model, a.adapter)
    count = len(questions)
    questions = [q for q in questions if not any(paragraphs[q.gold].text in one for one in seen)]
    if len(questions) < count:
        print(f"{count - len(questions)} questions are of texts that the model was trained on: left out", file=sys.stderr)
    questions = questions[: a.limit or None]
    a.out.mkdir(parents=True, exist_ok=True)
    settings, kept = settings_of(a, a.questions.read_bytes()), a.out / "settings.json"
    if kept.is_file() and json.loads(kept.read_text()) != settings:
        raise Failed(f"{a.out}: rows of other settings ({kept}); choose another folder")
    kept.write_text(json.dumps(settings) + "\n")
    rows = Rows(a.out / "rows.jsonl")
    wanted = rows.missing(cells(a, questions))
    asking = Asking(a, paragraphs, questions, rows, deadline)
    over_http = [cell for cell in wanted if cell.method not in BY_PROGRAM]
    if over_http:
        with Server(a) as server:
            asking.began = time.monotonic()
            asking.over_http(server.port, asking.one_at_a_time(server.port, over_http))
    for method in BY_PROGRAM:
        asking.by_program(method, wanted)
    made = cells(a, questions)
    lines = list(tables([rows.kept[cell] for cell in made if cell in rows.kept]))
    left = len(rows.missing(made))
    lines.append(f"{len(made) - left} of {len(made)} answers")
    (a.out / "table.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 1 if left else 0
