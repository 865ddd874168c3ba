"""What the order of columns does to a table: tokens, rows a second, and the answers.

    python3 -m eval.column_order PROGRAM DATA… [--model MODEL] [--adapter ADAPTER] [--rows N] [--texts N] [--plan] [--repeat 3]
                                 [--no-plan] [--device cuda] [--vllm FOLDER [--dtype float32] [--llm JSON] [--turn FILE]]

DATA are JSONL files, packed or not: documents with questions ({"id","context","questions"}), or texts with values ({"id",
"category","attributes","text","values"}). Each becomes a table with a row for every question or value, in an order drawn
at random. Its columns: a number that never repeats, what the text is about, of values the attributes that are known (or,
where all texts have the same, a column of each, that is asked about left empty), and the text.

The plan: tokens of the cells alone, in the given order, in ours, in that of the published greedy algorithm (`eval.ggr`),
and the bound that no order beats. `--plan` ends there. Then `banyan ask` answers the same prompts as it would without
tables, and `banyan map` in the given order and with --order auto, in turns, `--repeat` times: rates are of processor time
without loading the model, which other programs on the machine disturb least, and of the clock; ratios are medians. With
another `--device` than cpu, only the clock's. F1 is
SQuAD's, with 95 % intervals by bootstrap over documents; the difference of F1 is paired; `null` answers every row by null.

`--vllm` adds vLLM (where Python can import it) with the same weights as a Hugging Face folder: the prompts of `map --order
auto` in the order in which they are computed, with prefix caching, up to as many tokens, and without it. `computed` and
`written` are tokens: what each program really did. An untimed run comes first, of Banyan too on another device than cpu.
`--turn` is that of bench/rivals/vllm.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
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
from typing import Any, Iterator

from bench.rivals import turns
from eval.ggr import ggr, tokens_shared
from eval.metrics import interval, token_f1

Table = list[dict[str, Any]]


def rows_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """A row for every question: its columns, what is asked, the gold answers, and the document that it belongs to."""
    text = gzip.open(path, "rt", encoding="utf-8").read() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    same = "values" in records[0] and len({record["category"] for record in records}) == 1
    every = list(dict.fromkeys(name for record in records for name in record.get("attributes", [])))
    for record in records:
        if "questions" in record:
            about = record["id"].removeprefix(record["dataset"] + "-").rsplit("-", 1)[0]
            for question in record["questions"]:
                yield {"document": record["id"], "columns": {"about": about, "text": record["context"]},
                       "question": question["question"], "gold": question["answers"]}
            continue
        for attribute, values in record["values"].items():
            others = {name: (record["values"].get(name) or [""])[0] if name != attribute else "" for name in every}
            known = others if same else {"attributes": ", ".join(record["attributes"])}
            yield {"document": record["id"], "columns": {"about": record["category"], **known, "text": record["text"]},
                   "question": f"What is the {attribute.lower()}?", "gold": values or []}


def table(path: pathlib.Path, count: int, texts: int) -> Table:
    rows = list(rows_of(path))
    draw = random.Random(1)
    names = sorted({row["document"] for row in rows})
    chosen = set(draw.sample(names, min(texts or len(names), len(names))))
    rows = [row for row in rows if row["document"] in chosen]
    draw.shuffle(rows)
    return [{**row, "id": number, "columns": {"number": f"A-{number:05}", **row["columns"]}}
            for number, row in enumerate(rows[:count])]


def lengths_of(program: str, model: list[str], cells: list[list[str]]) -> list[dict[str, int]]:
    """Tokens of the different texts of each column, as the program's tokenizer has them."""
    asked = [json.dumps({"id": text, "kind": "tokenize", "text": text}) for column in cells for text in dict.fromkeys(column)]
    found = subprocess.run([program, "ids", *model], input="\n".join(asked), capture_output=True, text=True, check=True)
    tokens = {row["id"]: len(row["ids"]) for row in map(json.loads, found.stdout.splitlines())}
    return [{text: tokens[text] for text in column} for column in cells]


def plan(program: str, rows: Table, mapped: list[str], model: list[str]) -> dict[str, int]:
    """Tokens by order. The program's own figures, and the reference's on the same cells."""
    said = subprocess.run([*mapped, "--order", "auto", "--explain", "--dry-run"], capture_output=True, text=True, check=True)
    numbers = [int(number) for number in re.findall(r"(\d+) (?:tokens as if|in the given|in this order)|fewer than (\d+)",
                                                    said.stderr + said.stdout) for number in number if number]
    found = dict(zip(("alone", "given", "auto", "bound"), numbers))
    names = list(rows[0]["columns"])
    cells = [[f"{name}: {row['columns'][name]}\n" for row in rows] for name in names] + [[row["question"] for row in rows]]
    lengths = lengths_of(program, model, cells)
    listed = list(zip(*cells))
    alone = sum(lengths[column][text] for row in listed for column, text in enumerate(row))
    if alone != found["alone"]:
        raise SystemExit(f"the program counts {found['alone']} tokens of the cells, this {alone}")
    found["ggr"] = tokens_shared(listed, lengths, ggr(listed, lengths, len(names)))
    return found


def run(arguments: list[str], folder: pathlib.Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and the receipt, with the processor's time."""
    out, receipt = folder / "out.jsonl", folder / "receipt.json"
    process = subprocess.Popen([*arguments, "-o", str(out), "--overwrite", "--receipt", str(receipt), "--quiet"])
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"this command ended with {os.waitstatus_to_exitcode(status)}: {' '.join(arguments)}")
    said = json.loads(receipt.read_text())
    said["processor"] = usage.ru_utime + usage.ru_stime - said["seconds"]["load"]
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()], said


def mean_of(values: list[float], documents: list[str]) -> tuple[float, float, float]:
    """The mean, in percent, and the ends of its interval over documents."""
    groups: dict[str, list[float]] = {}
    for value, document in zip(values, documents):
        groups.setdefault(document, []).append(value)
    low, high = interval(list(groups.values())) or (0.0, 0.0)
    return 100 * sum(values) / len(values), 100 * low, 100 * high


def write(rows: Table, folder: pathlib.Path) -> None:
    with open(folder / "table.jsonl", "w", encoding="utf-8") as table_file, open(folder / "ask.jsonl", "w", encoding="utf-8") as ask:
        for row in rows:
            table_file.write(json.dumps({"id": row["id"], **row["columns"], "question": row["question"]}) + "\n")
            context = "\n".join(f"{name}: {value}" for name, value in row["columns"].items())
            ask.write(json.dumps({"id": row["id"], "context": context, "question": row["question"]}) + "\n")


class Vllm:
    """vLLM with or without prefix caching, as a way to answer."""

    def __init__(self, options: argparse.Namespace) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # its time is this process's
        from vllm import LLM

        self.llm = LLM(model=options.vllm, **{"enable_prefix_caching": True, "dtype": options.dtype, "max_model_len": 4096,
                                              **options.llm})
        self.ids: list[int] = []
        self.prompts: list[str] = []

    def read(self, mapped: list[str], count: int) -> None:
        """The prompts of a table, in the order in which Banyan computes them."""
        said = subprocess.run([*mapped, "--order", "auto", "--show-prompt", "--limit", str(count)],
                              capture_output=True, text=True, check=True).stdout
        parts = re.split(r"^--- (.*, line \d+): \d+ tokens\n", said, flags=re.M)[1:]
        self.ids = [int(name.rsplit(" ", 1)[-1]) - 1 for name in parts[::2]]
        self.prompts = [text.removesuffix("\n") for text in parts[1::2]]
        if sorted(self.ids) != list(range(count)):
            raise SystemExit(f"--show-prompt shows {len(self.ids)} prompts of {count} rows")

    def run(self, cached: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """As `run`. Not cached: every prompt has a salt of its own, so that nothing is found."""
        from vllm import SamplingParams

        self.llm.reset_prefix_cache()
        sampling = SamplingParams(temperature=0.0, max_tokens=24)
        asked = [{"prompt": text, **({} if cached else {"cache_salt": str(row)})} for row, text in zip(self.ids, self.prompts)]
        before, clock = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        found = self.llm.generate(asked, sampling, use_tqdm=False)
        seconds, after = time.monotonic() - clock, resource.getrusage(resource.RUSAGE_SELF)
        texts = {row: one.outputs[0].text.strip() for row, one in zip(self.ids, found)}
        tokens = sum(len(one.prompt_token_ids or ()) for one in found)
        return [{"answer": texts[row]} for row in sorted(texts)], {
            "prompt_tokens": tokens, "prefilled_tokens": tokens - sum(one.num_cached_tokens or 0 for one in found),
            "generated_tokens": sum(len(one.outputs[0].token_ids) for one in found),
            "seconds": {"total": seconds}, "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def answer(options: argparse.Namespace, rows: Table, mapped: list[str], model: list[str], folder: pathlib.Path,
           vllm: Vllm | None) -> None:
    documents = [row["document"] for row in rows]
    gold = [row["gold"] for row in rows]
    how = [*model, "--device", options.device, "--threads", str(options.threads), "--max-new", "24"]
    ways = {"ask": [options.program, "ask", str(folder / "ask.jsonl"), "--ordered", *how], "given": [*mapped, *how],
            "auto": [*mapped, *how, "--order", "auto"]}
    scores = {"null": [token_f1("null", one) for one in gold]}
    cached = {"vLLM": True, "vLLM, no cache": False} if vllm else {}
    receipts: dict[str, list[dict[str, Any]]] = {name: [] for name in (*ways, *cached)}
    by_clock = options.device != "cpu"
    if by_clock:
        run(ways["auto"], folder)  # untimed: it measures the device
    if vllm:
        vllm.read([*mapped, *model, "--max-new", "24"], len(rows))
        vllm.run(True)
    for _ in range(options.repeat):
        for name in receipts:
            answers, receipt = vllm.run(cached[name]) if vllm and name in cached else run(ways[name], folder)
            receipts[name].append(receipt)
            scores[name] = [token_f1(found["answer"] or "null", one) for found, one in zip(answers, gold)]
    for name, values in scores.items():
        mean, low, high = mean_of(values, documents)
        line = f"  {name:<{14 if vllm else 6}} F1 {mean:5.1f} ({low:.1f} to {high:.1f})"
        if name in receipts:
            first = receipts[name][0]
            seconds = statistics.median(one["seconds"]["total"] if by_clock else one["processor"] for one in receipts[name])
            line += (f"   {first['prompt_tokens']:8} tokens, {first['prefilled_tokens']:8} computed, "
                     f"{first['generated_tokens']:6} written   {len(rows) / seconds:7.2f} rows per second"
                     f"{'' if by_clock else ' of a core'}")
        print(line)
    for name, other in (("given", "ask"), ("auto", "ask"), ("auto", "given"), *(("auto", name) for name in cached)):
        ratios = [[b["processor"] / a["processor"], b["seconds"]["total"] / a["seconds"]["total"]]
                  for a, b in zip(receipts[name], receipts[other])]
        processor, clock = zip(*ratios)
        said = f"{statistics.median(processor):.2f} times the rows ({min(processor):.2f} to {max(processor):.2f}); "
        print(f"  {name} / {other}: {'' if by_clock else said}by the clock {statistics.median(clock):.2f} ({min(clock):.2f} to "
              f"{max(clock):.2f})")
    mean, low, high = mean_of([b - a for a, b in zip(scores["given"], scores["auto"])], documents)
    changed = sum(a != b for a, b in zip(scores["given"], scores["auto"]))
    print(f"  auto minus given: F1 {mean:+.1f} ({low:+.1f} to {high:+.1f}); {changed} rows score otherwise", flush=True)


def measure(path: pathlib.Path, options: argparse.Namespace, vllm: Vllm | None) -> None:
    rows = table(path, options.rows, options.texts)
    texts = len({row["document"] for row in rows})
    print(f"{path.name}: {len(rows)} rows, {texts} texts, {len(rows[0]['columns'])} columns", flush=True)
    model = [*(["-m", options.model] if options.model else []), *(["--adapter", options.adapter] if options.adapter else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(rows, folder)
        mapped = [options.program, "map", str(folder / "table.jsonl"), "{question}", "--columns", ",".join(rows[0]["columns"])]
        if not options.no_plan:
            begun = time.monotonic()
            found = plan(options.program, rows, [*mapped, *model], [part for part in model[:2]] or ["-m", options.reader])
            shares = ", ".join(f"{order} {found[order]} ({100 * found[order] / found['alone']:.1f} %)"
                               for order in ("given", "ggr", "auto", "bound"))
            print(f"  tokens of the cells: alone {found['alone']}, {shares}; {time.monotonic() - begun:.0f} s", flush=True)
        if not options.plan:
            answer(options, rows, mapped, model, folder, vllm)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data", nargs="+", type=pathlib.Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--adapter", default="")
    parser.add_argument("--reader", default="models/banyan-reader-34m.gguf", help="the model that is used without --model")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=0, help="draw so many texts with all their rows; 0: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--plan", action="store_true", help="count tokens, answer nothing")
    parts.add_argument("--no-plan", action="store_true", help="only answer")
    parser.add_argument("--vllm", default="", metavar="FOLDER", help="the model as a Hugging Face folder: vLLM beside")
    parser.add_argument("--dtype", default="auto", help="of vLLM's weights")
    parser.add_argument("--llm", type=json.loads, default={}, metavar="JSON", help="options of vllm.LLM")
    parser.add_argument("--device", default="cpu", help="of Banyan")
    parser.add_argument("--turn", type=argparse.FileType("w"), metavar="FILE", help="measure alone: others name it too")
    options = parser.parse_args()
    with turns.loading(options.turn):
        vllm = Vllm(options) if options.vllm and not options.plan else None
    with turns.measuring(options.turn):
        for path in options.data:
            measure(path, options, vllm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
