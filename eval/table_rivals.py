"""`banyan filter`, `map` and `rank` beside LOTUS's operators: rows a second, and quality. `eval.column_order` has vLLM.

    python3 -m eval.table_rivals PROGRAM DATA --model MODEL [--rows 150] [--repeat 2] [-- OPTIONS OF BANYAN]

DATA is a JSONL file of products with values ({"category","text","values"}). The statement is true of one category
(`--category`), the ranking wants it first, and the question of the map is its brand. Trivial answers stand beside: every
row kept, rows in a drawn order, null.

LOTUS (`pip install lotus-ai`) runs in this Python and asks `banyan serve` on this machine through its OpenAI API: the
same model and the same words, each in its own prompt. Its filter and its ranking may write 8 tokens, of which it reads
the first word; more would only make it slower. It ranks by its heap: its quicksort takes n^2 comparisons where a small
model always prefers the first. Both run in turns. Seconds are of the clock and of the processor (for LOTUS its own and
the server's). Without LOTUS, Banyan runs alone, and a line says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import pathlib
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

from eval.metrics import interval, token_f1

Row = dict[str, Any]


def rows_of(path: pathlib.Path, count: int) -> list[Row]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        rows.append({"category": record["category"], "title": record["text"], "brand": record["values"].get("Brand")})
    random.Random(3).shuffle(rows)
    return [{"id": number, **row} for number, row in enumerate(rows[:count])]


def ticks_of(process: int) -> float:
    fields = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_ticks() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def percent(values: list[float]) -> str:
    low, high = interval([[value] for value in values]) or (0.0, 0.0)
    return f"{100 * sum(values) / len(values):.1f} % ({100 * low:.1f} to {100 * high:.1f})"


class Measure:
    """What each way of an operator took and found."""

    def __init__(self, rows: list[Row], category: str, top: int):
        self.rows, self.category, self.top = rows, category, top
        self.true = [row["category"] == category for row in rows]
        self.seconds: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self.quality: dict[tuple[str, str], str] = {}
        draw = list(range(len(rows)))
        random.Random(5).shuffle(draw)
        self.filtered("trivial: all", set(range(len(rows))))
        self.ranked("trivial: drawn", draw[:top])
        self.mapped("trivial: null", [""] * len(rows))

    def time(self, operator: str, way: str, clock: float, processor: float) -> None:
        self.seconds.setdefault((operator, way), []).append((clock, processor))

    def filtered(self, way: str, kept: set[int]) -> None:
        right = [float((number in kept) == true) for number, true in enumerate(self.true)]
        hits = sum(self.true[number] for number in kept)
        precision, recall = hits / max(1, len(kept)), hits / max(1, sum(self.true))
        self.quality["filter", way] = (f"right {percent(right)}; precision {100 * precision:.0f} %, recall "
                                       f"{100 * recall:.0f} %")

    def ranked(self, way: str, first: list[int]) -> None:
        self.quality["rank", way] = f"true of the first {self.top}: {percent([float(self.true[number]) for number in first])}"

    def mapped(self, way: str, answers: list[str]) -> None:
        scores = [token_f1(answer, row["brand"]) for answer, row in zip(answers, self.rows) if row["brand"]]
        self.quality["map", way] = f"F1 {percent(scores)}"

    def print(self) -> None:
        for operator in ("filter", "rank", "map"):
            print(f"{operator}, {len(self.rows)} rows")
            for (of, way), quality in self.quality.items():
                if of != operator:
                    continue
                times = self.seconds.get((of, way))
                rate = "" if times is None else "".join(
                    f"{len(self.rows) / statistics.median(column):8.2f} rows/s of {what}"
                    for what, column in zip(("the clock", "a processor"), zip(*times)))
                print(f"  {way:<20} {rate}  {quality}")


class Ours:
    def __init__(self, options: argparse.Namespace, folder: pathlib.Path, rows: list[Row]):
        self.options, self.folder = options, folder
        self.table = folder / "table.jsonl"
        self.table.write_text("".join(json.dumps({"id": row["id"], "title": row["title"]}) + "\n" for row in rows))

    def command(self, operator: str, *arguments: str) -> list[str]:
        return [self.options.program, operator, str(self.table), *arguments, "-m", self.options.model,
                "--threads", str(self.options.threads), *self.options.ours]

    def run(self, operator: str, *arguments: str) -> tuple[list[Row], float, float]:
        out, receipt = self.folder / "out.jsonl", self.folder / "receipt.json"
        for left in [*self.folder.glob("out.jsonl*"), *self.folder.glob("receipt.json")]:
            left.unlink()
        process = subprocess.Popen([*self.command(operator, *arguments), "-o", str(out), "--receipt", str(receipt), "--quiet"])
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(f"banyan {operator} ended with {os.waitstatus_to_exitcode(status)}")
        said = json.loads(receipt.read_text())["seconds"]
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        return rows, said["total"], usage.ru_utime + usage.ru_stime - said["load"]


def run_ours(ours: Ours, measure: Measure, statement: str, question: str) -> None:
    found, clock, processor = ours.run("filter", "--columns", "title", statement)
    measure.filtered("banyan", {row["id"] for row in found})
    measure.time("filter", "banyan", clock, processor)
    for way, more in (("banyan", []), ("banyan --pairwise", ["--pairwise"])):
        found, clock, processor = ours.run("rank", "--columns", "title", statement, "--top", str(measure.top), *more)
        measure.ranked(way, [row["id"] for row in found])
        measure.time("rank", way, clock, processor)
    found, clock, processor = ours.run("map", "--columns", "title", question, "--max-new", "24")
    measure.mapped("banyan", [row["answer"] or "" for row in found])
    measure.time("map", "banyan", clock, processor)


class Server:
    """`banyan serve` on a free port of this machine."""

    def __init__(self, options: argparse.Namespace):
        self.process = subprocess.Popen([options.program, "serve", "-m", options.model, "--port", "0", "--threads",
                                         str(options.threads), *options.ours], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.url = ""
        for line in self.process.stderr or ():
            found = re.search(r"http://[\w.\[\]:-]+:\d+", line)
            if found:
                self.url = found.group(0)
                break
        if not self.url:
            raise SystemExit("banyan serve did not say where it listens")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def run_lotus(server: Server, measure: Measure, name: str, statement: str, question: str) -> None:
    import lotus
    import pandas

    def limit(tokens: int) -> None:
        lotus.settings.configure(lm=lotus.models.LM(model=f"openai/{name}", api_base=server.url + "/v1", api_key="none",
                                                    max_tokens=tokens, temperature=0.0))

    logging.getLogger("lotus").setLevel(logging.ERROR)  # it warns of each answer that reached the limit
    frame = pandas.DataFrame([{"id": row["id"], "title": row["title"]} for row in measure.rows])

    def timed(operator: str, work: Callable[[], Any]) -> Any:
        clock, ticks = time.monotonic(), ticks_of(server.process.pid) + own_ticks()
        found = work()
        measure.time(operator, "LOTUS", time.monotonic() - clock, ticks_of(server.process.pid) + own_ticks() - ticks)
        return found

    limit(8)
    found = timed("filter", lambda: frame.sem_filter("{title}: " + statement))
    measure.filtered("LOTUS", set(found["id"]))
    found = timed("rank", lambda: frame.sem_topk("Of which {title} is this more true: " + statement, K=measure.top,
                                                        method="heap"))
    measure.ranked("LOTUS", list(found["id"]))
    limit(24)
    found = timed("map", lambda: frame.sem_map("{title}: " + question, suffix="answer"))
    measure.mapped("LOTUS", [str(one) for one in found["answer"]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--category", default="Coffee")
    parser.add_argument("--top", type=int, default=15)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    arguments = sys.argv[1:]
    ours = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    options = parser.parse_args(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    options.ours = ours
    beside = importlib.util.find_spec("lotus") is not None
    if not beside:
        print("skipped: lotus is not installed")
    statement, question = f"The product is of the kind {options.category.lower()}.", "What is the brand?"
    rows = rows_of(options.data, options.rows)
    measure = Measure(rows, options.category, options.top)
    with tempfile.TemporaryDirectory() as name:
        banyan = Ours(options, pathlib.Path(name), rows)
        for _ in range(options.repeat):
            run_ours(banyan, measure, statement, question)
            if beside:
                with Server(options) as server:
                    run_lotus(server, measure, pathlib.Path(options.model).stem, statement, question)
    measure.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
