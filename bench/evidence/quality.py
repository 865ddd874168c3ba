"""Quality beside speed, with real weights: answers, long documents, attribute values, documents as experts.

Each part gives a table: a head and rows of cells, and the figures that the papers' rows take from it. Times are receipts' totals, without loading.
"""
from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.evidence.figures import Figure, compare, figure, significant
from bench.evidence.runner import ROOT, Failed
from eval import planted, strategies
from eval.sets import codes, extractions, two_hops
from train.lexicon import HELD, Lexicon


@dataclass
class Table:
    name: str
    title: str
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    commands: list[str] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)  # for the papers' rows
    facts: dict[str, str] = field(default_factory=dict)
    data: object = None
    left_out: str = ""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _arguments(banyan: str, model: str, adapter: str, options: list[str], price: float, draws: int) -> argparse.Namespace:
    return argparse.Namespace(banyan=banyan, model=model, adapter=adapter, options=options, price=price, draws=draws)


def answers(a: argparse.Namespace, title: str, name: str, file: Path, limit: int, batches: list[int], repeat: int) -> Table:
    """Strategies give the same answers; SeqBatch gives others."""
    shown = file.resolve().relative_to(ROOT) if file.resolve().is_relative_to(ROOT) else file.name
    out = Table(name, title, ["way", "exact", "F1", "ROUGE-L", "same as flat", "no answer", "questions/s", "cost of 1000"],
                commands=[f"python3 -m eval.strategies {shown} -m {a.model}" + (f" --adapter {a.adapter}" if a.adapter else "") + (f" --limit {limit}" if limit else "")
                          + f" --strategies flat,paged,stacked,auto --batch {','.join(map(str, batches))} --repeat {repeat}" + (f" --price {a.price}" if a.price else "")])
    records = [json.loads(line) for line in file.open(encoding="utf-8")][:limit or None]
    rows = strategies.compare(a, records, ["flat", "paged", "stacked", "auto"], batches, repeat)
    for r in rows:
        span = lambda k: f"{_percent(r[k])} ({100 * r['intervals'][k][0]:.0f} to {100 * r['intervals'][k][1]:.0f})"
        rate = out.figures[r["way"]] = figure(r["rates"])
        out.rows.append([r["way"], span("exact"), span("f1"), span("rouge_l"), _percent(r["same"]), f"{r['failed']} of {r['questions']}", rate.text(), "–" if r["cost_of_1000"] is None else significant(r["cost_of_1000"])])
        out.facts[r["way"]] = f"F1 {r['f1']:.3f}, {_percent(r['same'])} the same as flat"
    auto = next(r for r in rows if r["way"] == "auto")
    out.facts["identical"] = f"{_percent(auto['same'])} of {auto['questions']} answers identical"
    out.facts["speed-up"] = compare(out.figures["auto"], out.figures["flat"])
    out.note = f"{len(records)} texts, {auto['questions']} questions. Brackets: 95 % of 1000 draws of texts; of rates, the least and the most of {repeat} runs."
    out.data = rows
    return out


def long_document(a: argparse.Namespace, tokens: int, counts: list[int], repeat: int) -> Table:
    listed = ",".join(map(str, counts))
    out = Table("planted", "Many questions on one long document", ["questions", "strategy", "seconds", "exact", "same as auto"],
                commands=[f"python3 -m eval.planted -m {a.model} --tokens {tokens} --questions {listed} --strategies auto,paged,flat --repeat {repeat}"])
    rows = planted.measure(a, tokens, counts, ["auto", "paged", "flat"], repeat, flat_questions=2)
    for r in rows:
        seconds = figure(r["seconds"])
        out.figures[f"{r['strategy']} {r['questions']}"] = seconds
        about = "" if r["ran"] == r["questions"] else f" (by calculation, from {r['ran']} questions)"
        out.rows.append([str(r["questions"]), r["strategy"], seconds.text() + about, f"{_percent(r['exact'])} of {r['ran']}", _percent(r["same"])])
    few, many = (next(r for r in rows if r["strategy"] == "auto" and r["questions"] == n) for n in (counts[0], counts[-1]))
    flat = next(r for r in rows if r["strategy"] == "flat" and r["questions"] == counts[-1])
    out.facts["growth"] = (f"{counts[0]} → {counts[-1]} questions: {significant(few['median'])} → {significant(many['median'])} s; flat would take {significant(flat['median'])} s; "
                           f"{_percent(many['exact'])} right")
    out.note = f"A document of about {tokens} tokens with planted facts; one question in five has no answer. flat computes the document for every question, so it ran {flat['ran']}."
    out.data = rows
    return out


def values(a: argparse.Namespace, documents: int, repeat: int) -> Table:
    """Generated pages whose attributes differ from page to page: each is a category."""
    out = Table("extraction", "Attribute values: quality beside speed", ["values", "strict F1", "slots right", "documents/s"])
    rows = extractions(Lexicon(random.Random("evidence values"), HELD), documents)
    schema = {"categories": {r["id"]: {"attributes": [{"name": n} for n in r["attributes"]]} for r in rows}}
    with tempfile.TemporaryDirectory() as folder:
        docs, schema_file = Path(folder, "pages.jsonl"), Path(folder, "schema.json")
        docs.write_text("".join(json.dumps(dict(r, category=r["id"])) + "\n" for r in rows), encoding="utf-8")
        schema_file.write_text(json.dumps(schema))
        rates: dict[str, list[float]] = {}
        outputs: dict[str, Path] = {}
        for _ in range(repeat):
            for mode in ("skeleton", "isolated", "sequential"):
                outputs[mode] = Path(folder, f"{mode}.jsonl")
                command = [a.banyan, "extract", "-m", a.model, str(docs), "--schema", str(schema_file), "--values", mode, "-o", str(outputs[mode]), "--overwrite", "--quiet",
                           "--receipt", str(Path(folder, "receipt.json")), *a.options]
                _run(command)
                rates.setdefault(mode, []).append(documents / json.loads(Path(folder, "receipt.json").read_text())["seconds"]["total"])
        command = [a.banyan, "eval", "extract", str(docs), "--schema", str(schema_file), "--json"]
        for mode, output in outputs.items():
            command += ["--run", f"{mode}={output}"]
        scores = {s["name"]: s for s in json.loads(_run(command))["runs"]}
    for mode, seen in rates.items():
        rate, score = figure(seen), scores[mode]
        out.figures[mode] = rate
        low, high = score["intervals"]["strict_f1"]
        out.rows.append([mode, f"{score['all']['strict_f1']:.3f} ({low:.2f} to {high:.2f})", _percent(score["all"]["accuracy"]), rate.text()])
        out.facts[mode] = f"strict F1 {score['all']['strict_f1']:.3f}"
    out.facts["speed-up"] = compare(out.figures["skeleton"], out.figures["sequential"])
    out.commands = [f"banyan extract -m {a.model} PAGES.jsonl --schema SCHEMA.json --values MODE; banyan eval extract PAGES.jsonl --schema SCHEMA.json --run MODE=OUT.jsonl"]
    out.note = f"{documents} generated product pages (`eval.sets.extractions`), {sum(len(r['attributes']) for r in rows)} slots."
    out.data = {"rates": rates, "scores": scores}
    return out


def experts(a: argparse.Namespace, questions: int, documents: int, repeat: int) -> Table:
    out = Table("rag", "Documents as experts: quality beside speed", ["set", "method", "sub-span", "F1", "median wait for the first token, s", "job, s"])
    lex = lambda name: Lexicon(random.Random(f"evidence {name}"), HELD)
    sets = {f"secret code among {documents}": codes(lex("codes"), questions, documents), f"two hops among {documents // 2}": two_hops(lex("hops"), questions, documents // 2)}
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in sets.items():
            gold = Path(folder, "gold.jsonl")
            gold.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
            waits: dict[str, list[float]] = {}
            jobs: dict[str, list[float]] = {}
            scores = {}
            for _ in range(repeat):
                for method in ("experts", "concat", "top1"):
                    answered, receipt = Path(folder, "out.jsonl"), Path(folder, "receipt.json")
                    _run([a.banyan, "rag", str(gold), "-o", str(answered), "--overwrite", "--receipt", str(receipt), "--quiet", "-m", a.model, "--method", method, "--relevance", "equal",
                          "--too-long", "truncate", *a.options])
                    scores[method] = json.loads(_run([a.banyan, "eval", "rag", str(gold), str(answered), "--json"]))
                    waits.setdefault(method, []).append(scores[method]["first_token_median"])
                    jobs.setdefault(method, []).append(json.loads(receipt.read_text())["seconds"]["total"])
            for method, score in scores.items():
                out.rows.append([name, method, _percent(score["sub_span"]), f"{score['f1']:.3f}", figure(waits[method]).text(), figure(jobs[method]).text()])
                out.facts[f"{name}, {method}"] = f"sub-span {_percent(score['sub_span'])}"
            made[name] = dict(scores=scores, waits=waits, jobs=jobs)
    out.commands = [f"banyan rag QUESTIONS.jsonl -m {a.model} --method METHOD --relevance equal -o OUT.jsonl; banyan eval rag QUESTIONS.jsonl OUT.jsonl"]
    out.note = f"{questions} generated questions of each set (`eval.sets`), documents of 80 to 300 words, computed for each question; relevance is not used."
    out.data = made
    return out


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in (0, 1):  # 1: some rows are errors, which the scores count
        raise Failed(f"{shlex.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout
