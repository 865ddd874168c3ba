"""One form for all evaluations: data sets by name, ways as a list, quality beside speed, memory and cost.

    python3 -m eval ask SET … -m MODEL [--adapter DIR] [--ways flat,paged,stacked,auto,seqbatch-4,lookup] [--repeat 3]
        [--price 0.1] [--json FILE] [-- --threads 2]
    python3 -m eval extract SET … -m MODEL [--ways skeleton,isolated,sequential,null] …
    python3 -m eval rag SET … -m MODEL [--ways experts,paper,concat,top1,map-reduce,summaries,kv-concat] …

SET is a name of `python3 -m eval list`, or a file, also as it was published (`eval.published`). `paper` is the rule of
Parallel Context-of-Experts, `summaries` map-reduce with a summary of every document that is made without the question.
Rows of `rag` with "examples" have an expert for each example, or all in one prompt (`one-prompt`). A row, or question,
with "items" wants all of them: `recall` is the share that is found. With --turns questions are dialogues, as in QuAC:
before each stand earlier ones with their right answers. `null` writes no value. Relevance by an encoder and a reranker:
`-- --relevance dense --encoder MODEL --reranker MODEL`. The first way is what `same` compares with: the share of
answers, or values, that are equal letter for letter. Runs take turns; a rate is the median of --repeat runs with the
least and the most, by the receipt, without loading. `cost`: of 1000 answers or documents at --price for an hour of this
machine. Intervals hold 95 % of --draws draws of documents. `calibration`: the expected error of `confidence`, in ten
bins of equal count.

Documents that the model or its adapter was trained on (hashes beside their cards, `eval.trained`; rows marked by
`python3 -m eval get`) are left out. --trained mark keeps them and scores them in a table of their own, --trained refuse
ends with an error. Where a model does not say what it was trained on, the output says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from eval import strategies, trained
from eval.seqbatch import TOKENS_OF_AN_ANSWER, take_limit, with_given
from eval.data import SAMPLES, BadRow, default_folder, get, read_file
from eval.published import LIMITS
from eval.summaries import summarised
from eval.metrics import (
    calibration_error,
    chosen_text,
    code_similarity,
    exact_match,
    interval,
    items_found,
    right_answers,
    rouge_l,
    sub_span,
    token_f1,
)

KINDS = {"ask": ("questions",), "extract": ("values",), "rag": ("documents", "examples")}
WAYS = {
    "ask": "flat,paged,stacked,auto,seqbatch-4,lookup",
    "extract": "skeleton,isolated,sequential",
    "rag": "experts,concat,top1,map-reduce,kv-concat",
    "examples": "experts,paper,one-prompt",
}
STRATEGIES = ("flat", "paged", "stacked", "tree", "auto")
CODE = ("lcc", "repobench-p", "lcc_e", "repobench-p_e", "code_lines")  # sets whose answers are lines of code
CODE_INSTRUCTION = "You complete Python code. Write the line that comes next, and nothing else."
UNIT = {"ask": "questions", "extract": "documents", "rag": "questions"}


class WrongUse(ValueError):
    pass


@dataclass
class Way:
    """What one way gave: scores of every document's answers, all answers, and a rate for each run."""

    name: str
    judged: list[list[dict]] = field(default_factory=list)
    answers: dict = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    kv_mib: float = 0.0
    confidences: list[tuple[float, bool]] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)  # of the program, where it scores
    spans: dict[str, list[float]] = field(default_factory=dict)


def set_of(name: str, folder: Path | None) -> tuple[str, str, list[dict]]:
    """(name, kind, rows) of a name or a file."""
    return read_file(Path(name)) if Path(name).exists() else (name, *get(name, folder))


def with_turns(rows: list[dict], most: int) -> list[dict]:
    """Questions of a dialogue: before each stand up to `most` earlier ones with their first right answers. A dialogue
    is a text's questions whose ids are equal up to the last dash (d7-0, d7-1)."""
    out = []
    for row in rows:
        dialogues: dict[str, list[str]] = {}
        asked = []
        for q in row["questions"]:
            turns = dialogues.setdefault(str(q["id"]).rpartition("-")[0], [])
            asked.append(dict(q, question="".join(turns[-most:]) + q["question"]))
            turns.append(f"{q['question']} {next(iter(right_answers(q)), 'null')}\n")
        out.append(dict(row, questions=asked))
    return out


def run(a: argparse.Namespace, command: str, rows: list[dict], options: list[str]) -> tuple[list[dict], dict]:
    """(rows, receipt) of `banyan COMMAND`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target, receipt = Path(folder, "in.jsonl"), Path(folder, "out.jsonl"), Path(folder, "receipt.json")
        source.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        words = [
            a.banyan,
            command,
            "-m",
            a.model,
            str(source),
            "-o",
            str(target),
            "--receipt",
            str(receipt),
            "--quiet",
            "--adapter", a.adapter or "none",
            *with_given(options, a.options),
        ]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode not in (0, 1):  # 1: some rows are errors, which count as wrong
            raise WrongUse(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
        return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()], json.loads(
            receipt.read_text()
        )


def judge_answer(answer: str | None, right: list[str], items: list[list[str]] | None = None, **more) -> dict:
    """`items`: things that are wanted together, each with its names; recall is the share of them that is there."""
    more["recall"] = None if items is None else items_found(answer or "", items)
    if answer is None:
        return dict(exact=0.0, f1=0.0, rouge_l=0.0, sub_span=0.0, failed=True, **more)
    return dict(
        exact=float(exact_match(answer, right)),
        f1=token_f1(answer, right),
        rouge_l=rouge_l(answer, right),
        sub_span=float(sub_span(answer, right)),
        failed=False,
        **more,
    )


# --- ask
def ask_ways(a: argparse.Namespace, rows: list[dict], names: list[str]) -> list[Way]:
    count = sum(len(r["questions"]) for r in rows)
    made = {name: Way(name) for name in names}
    for n in range(a.repeat):
        for name, way in made.items():
            written: list[dict] = []
            if name in STRATEGIES:
                written, receipt = run(a, "ask", rows, ["--strategy", name, "--max-new", str(a.max_new), "--no-copy"])
                found = {
                    (r.get("id"), r.get("question_id")): None if "error" in r else (r.get("answer") or "null").strip()
                    for r in written
                }
            elif name.startswith("seqbatch-") and name.removeprefix("seqbatch-").isdigit():
                found, _, receipt = strategies.seqbatch(a, rows, int(name.removeprefix("seqbatch-")))
            elif name == "lookup":
                found = next((w.answers for other, w in made.items() if other in STRATEGIES and w.answers), None)
                if found is None:
                    raise WrongUse("lookup: expected a strategy before it, whose answers it is checked to give")
                receipt = {"seconds": {"total": strategies.drafted(a, rows, "prompt lookup")["seconds"]}}
            else:
                raise WrongUse(f"--ways: expected {', '.join(STRATEGIES)}, seqbatch-N or lookup, found '{name}'")
            way.rates.append(count / receipt["seconds"]["total"])
            if n > 0:
                continue
            way.answers, way.kv_mib = found, receipt.get("kv_bytes_peak", 0) / 2**20
            sure = {(r.get("id"), r.get("question_id")): r["confidence"] for r in written if "confidence" in r}
            for r in rows:
                way.judged.append([])
                for q in r["questions"]:
                    key = (r["id"], q["id"])
                    answer = found.get(key)
                    scores = judge_answer(
                        None if answer is None else chosen_text(q, answer),
                        right_answers(q),
                        q.get("items"),
                        choice="choices" in q,
                    )
                    if r.get("dataset") in CODE:
                        scores["code"] = code_similarity(answer or "", q["answers"])
                    way.judged[-1].append(scores)
                    if key in sure:
                        way.confidences.append((sure[key], scores["exact"] == 1.0))
    return list(made.values())


# --- rag
# The rule of Parallel Context-of-Experts, where it is not the program's own.
PAPER_RULE = ["--scores", "raw", "--plausibility", "0", "--abstention", "0", "--gamma", "2.5", "--beta", "expert",
              "--switch", "token", "--no-copy"]


def rag_options(name: str, rows: list[dict]) -> list[str]:
    """Of a way: a method; `paper`, experts by the paper's rule; `summaries`, one prompt of summaries that were made
    without the question; kv-concat:T:S, Adaptive Parallel Encoding. Of rows with examples: `experts`, one for each
    example, or `one-prompt`, all examples before the question."""
    if "examples" in rows[0]:
        of_examples = ["--method", "experts", "--experts", "examples"]
        most = str(max(len(r["examples"]) for r in rows))
        known = {
            "experts": of_examples,
            "paper": [*of_examples, *PAPER_RULE],
            "one-prompt": [*of_examples, "--examples-per-expert", most, "--beta", "0", "--abstention", "0"],
        }
        if name not in known:
            raise WrongUse(f"--ways: expected {', '.join(known)} for rows with examples, found '{name}'")
        return known[name]
    method, *more = name.split(":")
    if more and (method != "kv-concat" or len(more) != 2):
        raise WrongUse(f"--ways: expected METHOD or kv-concat:TEMPERATURE:SCALE, found '{name}'")
    ape = ["--ape-temperature", more[0], "--ape-scale", more[1]] if more else []
    options = {"paper": ["--method", "experts", *PAPER_RULE], "summaries": ["--method", "concat"]}
    return options.get(name, ["--method", method, *ape])


def rag_ways(a: argparse.Namespace, rows: list[dict], names: list[str]) -> list[Way]:
    made = {name: Way(name) for name in names}
    for n in range(a.repeat):
        for name, way in made.items():
            asked, before = summarised(a, rows) if name == "summaries" else (rows, 0.0)
            code = rows[0].get("dataset") in CODE
            options = ["--instruction", CODE_INSTRUCTION, "--no-copy"] if code else []
            written, receipt = run(a, "rag", asked, [*rag_options(name, rows), *options, "--too-long", "truncate"])
            way.rates.append(len(rows) / (before + receipt["seconds"]["total"]))
            if n > 0:
                continue
            way.kv_mib = receipt.get("kv_bytes_peak", 0) / 2**20
            way.answers = {r.get("id"): None if "error" in r else (r.get("answer") or "null").strip() for r in written}
            way.judged = [[judge_answer(way.answers.get(r["id"]), r["answers"], r.get("items"))] for r in rows]
            for r, (scores,) in zip(rows, way.judged if code else ()):
                scores["code"] = code_similarity(way.answers.get(r["id"]) or "", r["answers"])
            sure = {r.get("id"): r["confidence"] for r in written if "confidence" in r}
            way.confidences = [
                (sure[r["id"]], way.judged[i][0]["exact"] == 1.0) for i, r in enumerate(rows) if r["id"] in sure
            ]
    return list(made.values())


# --- extract
def schema_of(rows: list[dict]) -> tuple[list[dict], dict]:
    """Rows with a category each, and a schema of what they name: attributes of one category are those of all its
    documents."""
    categories: dict[str, dict[str, None]] = {}
    out = []
    for r in rows:
        name = r.get("category") or "document"
        categories.setdefault(name, {}).update(dict.fromkeys(r.get("attributes") or r["values"]))
        out.append(dict(r, category=name))
    return out, {"categories": {c: {"attributes": [{"name": n} for n in names]} for c, names in categories.items()}}


def extract_ways(a: argparse.Namespace, rows: list[dict], names: list[str]) -> list[Way]:
    with_categories, schema = schema_of(rows)
    made = {name: Way(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        usual = SAMPLES / f"{a.set_name}-schema.json"
        given = a.schema or (usual if usual.is_file() else None)
        gold, schema_file = Path(folder, "gold.jsonl"), given or Path(folder, "schema.json")
        if not given:
            rows = with_categories
        gold.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        if not given:
            schema_file.write_text(json.dumps(schema), encoding="utf-8")
        for n in range(a.repeat):
            for name, way in made.items():
                if name == "null":  # what saying nothing gives
                    written, receipt = [dict(id=r["id"], values={}) for r in rows], {}
                else:
                    written, receipt = run(a, "extract", rows, ["--schema", str(schema_file), "--values", name])
                way.rates.append(len(rows) / receipt["seconds"]["total"] if receipt else 0.0)
                if n > 0:
                    continue
                way.kv_mib = receipt.get("kv_bytes_peak", 0) / 2**20
                way.answers = {(r.get("id"), k): v for r in written for k, v in r.get("values", {}).items()}
                output = Path(folder, f"{name}.jsonl")
                output.write_text("".join(json.dumps(r) + "\n" for r in written), encoding="utf-8")
        words = [
            a.banyan,
            "eval",
            "extract",
            str(gold),
            "--schema",
            str(schema_file),
            "--bootstrap",
            str(a.draws),
            "--json",
        ]
        for name in made:
            words += ["--run", f"{name}={Path(folder, name + '.jsonl')}"]
        scored = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    for score in scored["runs"]:
        way = made[score["name"]]
        way.scores = {
            "strict F1": score["all"]["strict_f1"],
            "labelled F1": score["labelled"]["f1"],
            "accuracy": score["all"]["accuracy"],
        }
        way.spans = {"strict F1": score["intervals"]["strict_f1"]}
        if "calibration" in score:
            way.scores["calibration"] = score["calibration"]["expected_error"]
    return list(made.values())


# --- The table
ANSWER_COLUMNS = {"exact": "exact", "f1": "F1", "rouge_l": "ROUGE-L", "sub_span": "sub-span"}


def summary(a: argparse.Namespace, ways: list[Way]) -> list[dict]:
    out = []
    for way in ways:
        row: dict = dict(way=way.name, scores=dict(way.scores), intervals=dict(way.spans), failed=0)
        if way.judged:
            flat = [one for document in way.judged for one in document]
            mean = lambda key, of=flat: sum(one[key] for one in of) / len(of) if of else None
            row["scores"] |= {name: mean(key) for key, name in ANSWER_COLUMNS.items()}
            for key, name in ANSWER_COLUMNS.items():
                if span := interval([[one[key] for one in document] for document in way.judged], a.draws):
                    row["intervals"][name] = span
            if any(one["recall"] is not None for one in flat):  # one thing is wanted: found or not
                whole = [one["sub_span"] if one["recall"] is None else one["recall"] for one in flat]
                row["scores"]["recall"] = sum(whole) / len(whole)
            if code := [one for one in flat if "code" in one]:
                row["scores"]["code similarity"] = mean("code", code)
                parts = [[one["code"] for one in document if "code" in one] for document in way.judged]
                row["intervals"]["code similarity"] = interval(parts, a.draws)
            choices = [one for one in flat if one.get("choice")]
            if choices:
                row["scores"]["accuracy"] = mean("exact", choices)
            row["failed"] = sum(one["failed"] for one in flat)
            if (error := calibration_error(way.confidences)) is not None:
                row["scores"]["calibration"] = error
        first = ways[0].answers
        row["same"] = sum(way.answers.get(k) == v for k, v in first.items()) / len(first) if first else None
        row["rates"], row["rate"] = way.rates, statistics.median(way.rates)
        row["kv_mib"] = way.kv_mib or None
        row["cost_of_1000"] = a.price / 3600 * 1000 / row["rate"] if a.price and row["rate"] else None
        out.append(row)
    return out


def table(task: str, rows: list[dict]) -> str:
    measures = list(dict.fromkeys(m for r in rows for m in r["scores"]))
    lines = [
        "| way | " + " | ".join(measures) + f" | same | failed | {UNIT[task]}/s | KV MiB | cost of 1000 |",
        "|---" * (len(measures) + 6) + "|",
    ]
    for r in rows:
        cells = []
        for m in measures:
            value, span = r["scores"].get(m), r["intervals"].get(m)
            cells.append(
                "–" if value is None else f"{value:.3f}" + (f" ({span[0]:.2f} to {span[1]:.2f})" if span else "")
            )
        spread = f" ({min(r['rates']):.2f} to {max(r['rates']):.2f})" if len(r["rates"]) > 1 else ""
        same = "–" if r["same"] is None else f"{100 * r['same']:.0f} %"
        memory = "–" if r["kv_mib"] is None else f"{r['kv_mib']:.1f}"
        cost = "–" if r["cost_of_1000"] is None else f"{r['cost_of_1000']:.4f}"
        lines.append(
            f"| {r['way']} | "
            + " | ".join(cells)
            + f" | {same} | {r['failed']} | {r['rate']:.2f}{spread} | {memory} | {cost} |"
        )
    return "\n".join(lines) + "\n"


def parts_of(a: argparse.Namespace, name: str, rows: list[dict]) -> dict[str, list[dict]]:
    """What is scored together: rows that are a test and, with --trained mark, those that are none."""
    seen = trained.read(a.model, a.adapter)
    rows, marked = trained.mark(rows, seen)
    if not all(one.known for one in seen):
        print(f"{name}: the model does not say all that it was trained on", file=sys.stderr)
    if marked and a.trained == "refuse":
        raise WrongUse(f"{name}: {marked} of {len(rows)} documents are of the model's training")
    if marked:
        print(
            f"{name}: {marked} of {len(rows)} documents are of the model's training:"
            f" {'a table of their own' if a.trained == 'mark' else 'left out'}",
            file=sys.stderr,
        )
    parts = {name: [r for r in rows if not r.get("trained_on")][: a.limit or None]}
    if marked and a.trained == "mark":
        parts[f"{name}, trained on: no test"] = [r for r in rows if r.get("trained_on")][: a.limit or None]
    return {k: [{f: v for f, v in r.items() if f != "trained_on"} for r in part] for k, part in parts.items() if part}


def main(task: str, arguments: list[str]) -> int:
    p = argparse.ArgumentParser(
        prog=f"python3 -m eval {task}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("sets", nargs="+", metavar="SET", help="a name of `python3 -m eval list`, or a file")
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument(
        "--ways",
        help="separated by commas; the first is what others are compared with (default:"
        f" {WAYS[task]}{'; of rows with examples ' + WAYS['examples'] if task == 'rag' else ''})",
    )
    p.add_argument("--data", type=Path, default=default_folder(), help="folder of data sets")
    p.add_argument(
        "--schema",
        type=Path,
        help="extract: the schema (default: NAME-schema.json beside a sample, else what the rows name, as text)",
    )
    p.add_argument(
        "--trained", choices=("skip", "mark", "refuse"), default="skip", help="documents that the model was trained on"
    )
    p.add_argument("--limit", type=int, default=0, help="documents; 0: all")
    p.add_argument(
        "--max-new",
        type=int,
        default=0,
        help=f"ask: tokens of an answer (default: {', '.join(f'{n} of {s}' for s, n in LIMITS.items())},"
        f" {TOKENS_OF_AN_ANSWER} of others)",
    )
    p.add_argument("--turns", type=int, default=0, help="ask: earlier questions of a dialogue before each")
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--price", type=float, default=0.0, help="of an hour of this machine, in any currency")
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    a = p.parse_args(own)
    a.options = arguments[len(own) + 1 :]
    limit = take_limit(a.options) or a.max_new
    ways = {"ask": ask_ways, "extract": extract_ways, "rag": rag_ways}[task]
    made: dict[str, list[dict]] = {}
    try:
        for given in a.sets:
            name, kind, rows = set_of(given, a.data)
            a.set_name = name
            if kind not in KINDS[task]:
                raise WrongUse(f"{name}: has rows of {kind}; {task} reads rows of {' or '.join(KINDS[task])}")
            a.max_new = limit or LIMITS.get(name, TOKENS_OF_AN_ANSWER)
            named = (a.ways or WAYS["examples" if kind == "examples" else task]).split(",")
            if a.turns and kind != "questions":
                raise WrongUse(f"{name}: --turns: expected questions on a text, found rows of {kind}")
            for title, part in parts_of(a, name, rows).items():
                part = with_turns(part, a.turns) if a.turns else part
                made[title] = summary(a, ways(a, part, named))
                print(f"**{title}**, {len(part)} rows\n\n{table(task, made[title])}", flush=True)
    except (WrongUse, BadRow, trained.BadHashes, KeyError) as wrong:
        print(wrong.args[0], file=sys.stderr)
        return 2
    if a.json:
        a.json.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0
