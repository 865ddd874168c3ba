"""Quality beside speed, with real weights: answers, long documents, attribute values, documents as experts.

Each part gives a table: a head and rows of cells, and the figures that the papers' rows take from it. Times are
receipts' totals, without loading.
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

from bench.cut_model import cut
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


def answers(
    a: argparse.Namespace, title: str, name: str, file: Path, limit: int, batches: list[int], repeat: int
) -> Table:
    """Strategies give the same answers; SeqBatch gives others."""
    shown = file.resolve().relative_to(ROOT) if file.resolve().is_relative_to(ROOT) else file.name
    out = Table(
        name,
        title,
        ["way", "exact", "F1", "ROUGE-L", "same as flat", "no answer", "questions/s", "cost of 1000"],
        commands=[
            f"python3 -m eval.strategies {shown} -m {a.model}"
            + (f" --adapter {a.adapter}" if a.adapter else "")
            + (f" --limit {limit}" if limit else "")
            + f" --strategies flat,paged,stacked,auto --batch {','.join(map(str, batches))} --repeat {repeat}"
            + (f" --price {a.price}" if a.price else "")
        ],
    )
    records = [json.loads(line) for line in file.open(encoding="utf-8")][: limit or None]
    rows = strategies.compare(a, records, ["flat", "paged", "stacked", "auto"], batches, repeat)
    for r in rows:
        span = lambda k: f"{_percent(r[k])} ({100 * r['intervals'][k][0]:.0f} to {100 * r['intervals'][k][1]:.0f})"
        rate = out.figures[r["way"]] = figure(r["rates"])
        out.rows.append(
            [
                r["way"],
                span("exact"),
                span("f1"),
                span("rouge_l"),
                _percent(r["same"]),
                f"{r['failed']} of {r['questions']}",
                rate.text(),
                "–" if r["cost_of_1000"] is None else significant(r["cost_of_1000"]),
            ]
        )
        out.facts[r["way"]] = f"F1 {r['f1']:.3f}, {_percent(r['same'])} the same as flat"
    auto = next(r for r in rows if r["way"] == "auto")
    out.facts["identical"] = f"{_percent(auto['same'])} of {auto['questions']} answers identical"
    out.facts["speed-up"] = compare(out.figures["auto"], out.figures["flat"])
    out.note = (
        f"{len(records)} texts, {auto['questions']} questions. Brackets: 95 % of 1000 draws of texts; of rates, the"
        f" least and the most of {repeat} runs."
    )
    out.data = rows
    return out


def long_document(a: argparse.Namespace, tokens: int, counts: list[int], repeat: int) -> Table:
    listed = ",".join(map(str, counts))
    out = Table(
        "planted",
        "Many questions on one long document",
        ["questions", "strategy", "seconds", "exact", "same as auto"],
        commands=[
            f"python3 -m eval.planted -m {a.model} --tokens {tokens} --questions {listed} --strategies auto,paged,flat"
            f" --repeat {repeat}"
        ],
    )
    rows = planted.measure(a, tokens, counts, ["auto", "paged", "flat"], repeat, flat_questions=2)
    for r in rows:
        seconds = figure(r["seconds"])
        out.figures[f"{r['strategy']} {r['questions']}"] = seconds
        about = "" if r["ran"] == r["questions"] else f" (by calculation, from {r['ran']} questions)"
        out.rows.append(
            [
                str(r["questions"]),
                r["strategy"],
                seconds.text() + about,
                f"{_percent(r['exact'])} of {r['ran']}",
                _percent(r["same"]),
            ]
        )
    few, many = (
        next(r for r in rows if r["strategy"] == "auto" and r["questions"] == n) for n in (counts[0], counts[-1])
    )
    flat = next(r for r in rows if r["strategy"] == "flat" and r["questions"] == counts[-1])
    out.facts["growth"] = (
        f"{counts[0]} → {counts[-1]} questions: {significant(few['median'])} → {significant(many['median'])} s; flat"
        f" would take {significant(flat['median'])} s; {_percent(many['exact'])} right"
    )
    out.note = (
        f"A document of about {tokens} tokens with planted facts; one question in five has no answer. flat computes the"
        f" document for every question, so it ran {flat['ran']}."
    )
    out.data = rows
    return out


def write_pages(documents: int, folder: str) -> tuple[list[dict], Path, Path]:
    """Generated pages whose attributes differ from page to page: each is a category. (rows, file, schema)"""
    rows = extractions(Lexicon(random.Random("evidence values"), HELD), documents)
    schema = {"categories": {r["id"]: {"attributes": [{"name": n} for n in r["attributes"]]} for r in rows}}
    docs, schema_file = Path(folder, "pages.jsonl"), Path(folder, "schema.json")
    docs.write_text("".join(json.dumps(dict(r, category=r["id"])) + "\n" for r in rows), encoding="utf-8")
    schema_file.write_text(json.dumps(schema))
    return rows, docs, schema_file


def values(a: argparse.Namespace, documents: int, repeat: int) -> Table:
    out = Table(
        "extraction", "Attribute values: quality beside speed", ["values", "strict F1", "slots right", "documents/s"]
    )
    with tempfile.TemporaryDirectory() as folder:
        rows, docs, schema_file = write_pages(documents, folder)
        rates: dict[str, list[float]] = {}
        outputs: dict[str, Path] = {}
        for _ in range(repeat):
            for mode in ("skeleton", "isolated", "sequential"):
                outputs[mode] = Path(folder, f"{mode}.jsonl")
                command = [
                    a.banyan,
                    "extract",
                    "-m",
                    a.model,
                    str(docs),
                    "--schema",
                    str(schema_file),
                    "--values",
                    mode,
                    "-o",
                    str(outputs[mode]),
                    "--overwrite",
                    "--quiet",
                    "--receipt",
                    str(Path(folder, "receipt.json")),
                    *a.options,
                ]
                _run(command)
                rates.setdefault(mode, []).append(
                    documents / json.loads(Path(folder, "receipt.json").read_text())["seconds"]["total"]
                )
        command = [a.banyan, "eval", "extract", str(docs), "--schema", str(schema_file), "--json"]
        for mode, output in outputs.items():
            command += ["--run", f"{mode}={output}"]
        scores = {s["name"]: s for s in json.loads(_run(command))["runs"]}
    for mode, seen in rates.items():
        rate, score = figure(seen), scores[mode]
        out.figures[mode] = rate
        low, high = score["intervals"]["strict_f1"]
        out.rows.append(
            [
                mode,
                f"{score['all']['strict_f1']:.3f} ({low:.2f} to {high:.2f})",
                _percent(score["all"]["accuracy"]),
                rate.text(),
            ]
        )
        out.facts[mode] = f"strict F1 {score['all']['strict_f1']:.3f}"
    out.facts["speed-up"] = compare(out.figures["skeleton"], out.figures["sequential"])
    out.commands = [
        f"banyan extract -m {a.model} PAGES.jsonl --schema SCHEMA.json --values MODE; banyan eval extract PAGES.jsonl"
        " --schema SCHEMA.json --run MODE=OUT.jsonl"
    ]
    out.note = (
        f"{documents} generated product pages (`eval.sets.extractions`), {sum(len(r['attributes']) for r in rows)}"
        " slots."
    )
    out.data = {"rates": rates, "scores": scores}
    return out


# The layers of the shipped model that a draft model is made of here.
DRAFT_LAYERS = [0, 1, 2, 10, 11]


def drafts(a: argparse.Namespace, documents: int, texts: int, repeat: int) -> Table:
    """Speculative decoding, the rival of values at once: the same values, written in turn with guesses. And of
    questions that are branches."""
    out = Table(
        "drafts",
        "Speculative decoding, the rival of parallel values and answers",
        ["job", "way", "documents/s", "new tokens of a stream in a step", "guesses that were right", "rows computed"],
    )
    with tempfile.TemporaryDirectory() as folder:
        _, docs, schema_file = write_pages(documents, folder)
        questions = Path(folder, "questions.jsonl")
        lines = (ROOT / "eval" / "samples" / "natural.jsonl").read_text(encoding="utf-8").splitlines()
        questions.write_text("\n".join(lines[:texts]) + "\n", encoding="utf-8")
        small = Path(folder, "draft.gguf")
        cut(ROOT / a.model, small, DRAFT_LAYERS)
        figures_of: dict[str, dict[str, dict]] = {}
        for job, file, more in (("values", docs, ["--schema", str(schema_file)]), ("answers", questions, [])):
            target = Path(folder, f"{job}.json")
            _run(
                [
                    a.banyan,
                    "bench",
                    "draft",
                    str(file),
                    "-m",
                    a.model,
                    *more,
                    "--draft-model",
                    str(small),
                    "--repeat",
                    str(repeat),
                    "--json",
                    str(target),
                    *a.options,
                ]
            )
            figures_of[job] = {w["way"]: w for w in json.loads(target.read_text())["ways"]}
    for job, ways in figures_of.items():
        for way, w in ways.items():
            rate = out.figures[f"{job}: {way}"] = Figure(
                w["documents_per_second"],
                *(w["documents_per_second"] * w["seconds"] / w[k] for k in ("most_seconds", "least_seconds")),
                repeat,
            )
            at_once = way in ("skeleton", "isolated")
            out.rows.append(
                [
                    job,
                    way,
                    rate.text(),
                    "1, of all values" if at_once else f"{w['tokens_per_turn']:.2f}",
                    f"{w['kept']} of {w['guessed']}" if w["guessed"] else "–",
                    str(w["rows"]),
                ]
            )
    of = lambda job, way: out.figures.get(f"{job}: {way}")
    skeleton = of("values", "skeleton")
    for short, way in (
        ("the template known", "sequential, template known"),
        ("prompt lookup", "sequential, prompt lookup"),
        ("a draft model", "sequential, draft model"),
    ):
        out.facts[short] = (
            f"{figures_of['values'][way]['tokens_per_turn']:.2f} tokens a step; values at once over it:"
            f" {compare(skeleton, of('values', way))}"
        )
    out.commands = [
        f"python3 -m bench.cut_model {a.model} DRAFT.gguf --layers {','.join(map(str, DRAFT_LAYERS))}",
        f"banyan bench draft PAGES.jsonl --schema SCHEMA.json -m {a.model} --draft-model DRAFT.gguf --repeat {repeat}",
        f"banyan bench draft QUESTIONS.jsonl -m {a.model} --draft-model DRAFT.gguf --repeat {repeat}",
    ]
    out.note = (
        f"{documents} generated product pages, and the questions of {texts} everyday texts. Ways that begin with"
        " “sequential”, and those of “answers”, give the same tokens and log-probabilities bit for bit, or the command"
        " fails. Guesses: what the template leaves no choice about; then prompt lookup (the words that followed the"
        f" last 3 tokens before), or {len(DRAFT_LAYERS)} of the model's 12 layers as a draft model: no smaller trained"
        " model has its vocabulary, so this one guesses worse than one of that size could. Up to 8 guesses for a"
        f" stream and step. {repeat} runs in turns."
    )
    out.data = figures_of
    return out


def rag_sets(questions: int, documents: int) -> dict[str, list[dict]]:
    lex = lambda name: Lexicon(random.Random(f"evidence {name}"), HELD)
    return {
        f"secret code among {documents}": codes(lex("codes"), questions, documents),
        f"two hops among {documents // 2}": two_hops(lex("hops"), questions, documents // 2),
    }


# Ways to answer from documents: name → options of `banyan rag`. APE: kv-concat with a temperature and a scale of its
# own.
RAG_WAYS = {
    "experts": ["--method", "experts"],
    "one prompt (concat)": ["--method", "concat"],
    "one document (top1)": ["--method", "top1"],
    "map-reduce": ["--method", "map-reduce"],
    "KV side by side (kv-concat)": ["--method", "kv-concat"],
    "APE (kv-concat, T = 0.9, S = 0.9)": ["--method", "kv-concat", "--ape-temperature", "0.9", "--ape-scale", "0.9"],
}


def rag_parameters(a: argparse.Namespace, questions: int, documents: int) -> Table:
    """β, γ, the rule and the number of experts, one at a time: `banyan eval rag`."""
    out = Table(
        "rag_parameters",
        "Documents as experts: contrast, relevance, rule, number",
        ["set", "what", "value", "sub-span", "exact", "F1"],
    )
    values_of = {
        "β": ("--beta", "expert,shared,0,0.5,1"),
        "γ": ("--gamma", "0,1,2.5,5"),
        "rule": ("--rule", "max,mixture,product"),
        "scores": ("--scores", "normalised,raw"),
        "experts": ("--documents", f"2,{documents // 2},{documents}" if documents > 4 else f"2,{documents}"),
    }
    made: dict[str, dict[str, dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in list(rag_sets(questions, 2 * documents).items())[1:]:  # two hops: one document is not enough
            gold = Path(folder, "gold.jsonl")
            gold.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
            for what, (option, listed) in values_of.items():
                printed = _run(
                    [
                        a.banyan,
                        "eval",
                        "rag",
                        str(gold),
                        "-m",
                        a.model,
                        "--relevance",
                        "bm25",
                        option,
                        listed,
                        "--timed",
                        "0",
                        "--limit",
                        str(questions),
                        "--json",
                        "--quiet",
                        *a.options,
                    ]
                )
                scores = [json.loads(line) for line in printed.splitlines()]
                for value, score in zip(listed.split(","), scores):
                    span = lambda k: (
                        f"{_percent(score[k])} ({100 * score[k + '_interval'][0]:.0f} to"
                        f" {100 * score[k + '_interval'][1]:.0f})"
                    )
                    out.rows.append([name, what, value, span("sub_span"), span("exact"), f"{score['f1']:.3f}"])
                made.setdefault(name, {})[what] = dict(zip(listed.split(","), scores))
                least, most = min(scores, key=lambda s: s["sub_span"]), max(scores, key=lambda s: s["sub_span"])
                apart = least["sub_span_interval"][1] < most["sub_span_interval"][0]
                shown = lambda s: f"{listed.split(',')[scores.index(s)]} {_percent(s['sub_span'])}"
                out.facts[what] = (
                    f"{shown(least)} to {shown(most)}"
                    if apart
                    else (
                        f"{_percent(least['sub_span'])} to {_percent(most['sub_span'])}, no difference beyond the"
                        " intervals"
                    )
                )
    out.commands = [
        f"banyan eval rag QUESTIONS.jsonl -m {a.model} --relevance bm25 {option} {listed}"
        for option, listed in values_of.values()
    ]
    out.note = (
        f"{questions} generated questions, {documents} documents each; what is not varied has the program's default"
        " (docs/rag.md). Intervals: 95 % of the resamples of questions, so that few questions tell little."
    )
    out.data = made
    return out


def experts(a: argparse.Namespace, questions: int, documents: int, repeat: int) -> Table:
    out = Table(
        "rag",
        "Documents as experts: quality beside speed",
        ["set", "method", "sub-span", "F1", "median wait for the first token, s", "job, s"],
    )
    sets = rag_sets(questions, documents)
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in sets.items():
            gold = Path(folder, "gold.jsonl")
            gold.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
            waits: dict[str, list[float]] = {}
            jobs: dict[str, list[float]] = {}
            scores = {}
            for _ in range(repeat):
                for method, options in RAG_WAYS.items():
                    answered, receipt = Path(folder, "out.jsonl"), Path(folder, "receipt.json")
                    _run(
                        [
                            a.banyan,
                            "rag",
                            str(gold),
                            "-o",
                            str(answered),
                            "--overwrite",
                            "--receipt",
                            str(receipt),
                            "--quiet",
                            "-m",
                            a.model,
                            *options,
                            "--relevance",
                            "equal",
                            "--too-long",
                            "truncate",
                            *a.options,
                        ]
                    )
                    scores[method] = json.loads(_run([a.banyan, "eval", "rag", str(gold), str(answered), "--json"]))
                    waits.setdefault(method, []).append(scores[method]["first_token_median"])
                    jobs.setdefault(method, []).append(json.loads(receipt.read_text())["seconds"]["total"])
            for method, score in scores.items():
                out.rows.append(
                    [
                        name,
                        method,
                        _percent(score["sub_span"]),
                        f"{score['f1']:.3f}",
                        figure(waits[method]).text(),
                        figure(jobs[method]).text(),
                    ]
                )
                out.facts[f"{name}, {method}"] = f"sub-span {_percent(score['sub_span'])}"
            made[name] = dict(scores=scores, waits=waits, jobs=jobs)
    out.commands = [
        f"banyan rag QUESTIONS.jsonl -m {a.model} {' '.join(options)} --relevance equal -o OUT.jsonl; banyan eval rag"
        " QUESTIONS.jsonl OUT.jsonl"
        for options in RAG_WAYS.values()
    ]
    out.note = (
        f"{questions} generated questions of each set (`eval.sets`), documents of 80 to 300 words, computed for each"
        " question; relevance is not used."
    )
    out.data = made
    return out


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in (0, 1):  # 1: some rows are errors, which the scores count
        raise Failed(f"{shlex.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout
