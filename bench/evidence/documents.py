"""Documents as experts beside its rivals, with real weights: ways to answer, and the parameters of the rule.

Every way gets the relevance that its user would have: the documents' own order is not one of its inputs. The paper's
setting is a way of its own: raw scores, no plausibility limit, no abstention, γ = 2.5, β by Jensen–Shannon divergence,
relevance of an encoder fused with a reranker where both are given, else of BM25, as the table says.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from bench.evidence.figures import figure
from bench.evidence.quality import percent, run
from bench.evidence.runner import ROOT
from bench.evidence.verdicts import CANNOT, Table, better, worst
from eval import form
from eval.data import read_checked
from eval.form import PAPER_RULE
from eval.sets import codes, two_hops
from eval.summaries import summarised
from train.lexicon import HELD, Lexicon

PAPER = "experts, the paper's rule"
SUMMARIES = "map-reduce of summaries"
# Ways to answer from documents: name → options of `banyan rag`. APE: kv-concat with a temperature and a scale of its
# own.
WAYS = {
    "experts": ["--method", "experts"],
    PAPER: ["--method", "experts", *PAPER_RULE],
    "one prompt (concat)": ["--method", "concat"],
    "one document (top1)": ["--method", "top1"],
    "map-reduce": ["--method", "map-reduce"],
    SUMMARIES: ["--method", "concat"],  # of notes that were made without the question
    "KV side by side (kv-concat)": ["--method", "kv-concat"],
    "APE (kv-concat, T = 0.9, S = 0.9)": ["--method", "kv-concat", "--ape-temperature", "0.9", "--ape-scale", "0.9"],
}


def relevance(a: argparse.Namespace) -> tuple[list[str], str]:
    """Options, and what they are in words."""
    if not a.encoder:
        return ["--relevance", "bm25"], "BM25"
    fused = ["--reranker", a.reranker] if a.reranker else []
    return (
        ["--relevance", "dense", "--encoder", a.encoder, *fused],
        f"{Path(a.encoder).name}{' with ' + Path(a.reranker).name if fused else ''}",
    )


def make_sets(questions: int, documents: int) -> dict[str, list[dict]]:
    lex = lambda name: Lexicon(random.Random(f"evidence {name}"), HELD)
    return {
        f"secret code among {documents}": codes(lex("codes"), questions, documents),
        f"two hops among {max(2, documents // 2)}": two_hops(lex("hops"), questions, max(2, documents // 2)),
    }


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def span(score: dict, key: str) -> str:
    low, high = score[key + "_interval"]
    return f"{percent(score[key])} ({100 * low:.0f} to {100 * high:.0f})"


def parameters(a: argparse.Namespace, questions: int, documents: int, ours: bool = True) -> Table:
    """β, γ, the rule and the number of experts, one at a time, by the paper's rule and, with `ours`, by the program's
    default: `banyan eval rag`."""
    out = Table(
        "rag_parameters",
        "Documents as experts: contrast, relevance, rule, number",
        ["set", "scores", "what", "value", "sub-span", "exact", "F1"],
    )
    judge, judge_text = relevance(a)
    number = f"2,{documents // 2},{documents}" if documents > 4 else f"2,{documents}"
    values_of = {
        "β": ("--beta", "expert,shared,0,0.5,1", "expert"),
        "γ": ("--gamma", "0,1,2.5,5", "2.5"),
        "rule": ("--rule", "max,mixture,product", "max"),
        "experts": ("--documents", number, str(documents)),
    }
    rules: dict[str, list[str]] = {"the paper's": PAPER_RULE} | ({"default": []} if ours else {})
    made: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in make_sets(questions, documents).items():
            gold = write(Path(folder, "gold.jsonl"), rows)
            for rule, options in rules.items():
                for what, (option, listed, theirs) in values_of.items():
                    fixed = [o for n, o in enumerate(options) if option not in (o, options[n - 1])]
                    command = [a.banyan, "eval", "rag", str(gold), "-m", a.model, *judge, *fixed, option, listed]
                    printed = run(
                        [*command, "--timed", "0", "--limit", str(questions), "--json", "--quiet", *a.options]
                    )
                    scores = dict(zip(listed.split(","), (json.loads(line) for line in printed.splitlines())))
                    for value, score in scores.items():
                        out.rows.append(
                            [
                                name,
                                rule,
                                what,
                                value,
                                span(score, "sub_span"),
                                span(score, "exact"),
                                f"{score['f1']:.3f}",
                            ]
                        )
                    made.setdefault(name, {}).setdefault(rule, {})[what] = scores
    for what, (_, listed, theirs) in values_of.items():
        told, verdicts = [], []
        for name, by_rule in made.items():
            scores = by_rule["the paper's"][what]
            told.append(f"{name}: " + ", ".join(f"{v} {percent(s['sub_span'])}" for v, s in scores.items()))
            verdicts += [better(scores[theirs], s, "sub_span", False) for v, s in scores.items() if v != theirs]
        out.facts[what] = "; ".join(told)
        out.facts[f"{what} verdict"] = worst(verdicts)
    out.commands = [
        f"banyan eval rag QUESTIONS.jsonl -m {a.model} {' '.join(judge)} {' '.join(options)} {option} {listed}"
        for options in rules.values()
        for option, listed, _ in values_of.values()
    ]
    out.note = (
        f"{questions} generated questions of each set, relevance of {judge_text}; what is not varied has the value of"
        " the paper's rule, or the program's default (docs/rag.md). Intervals: 95 % of the resamples of questions."
    )
    out.data = made
    return out


def answered(a: argparse.Namespace, folder: Path, rows: list[dict], way: str, judge: list[str]) -> tuple[Path, float]:
    """Rows of `banyan rag`, and the seconds that they took."""
    target, receipt = folder / "out.jsonl", folder / "receipt.json"
    seconds = 0.0
    if way == SUMMARIES:
        rows, seconds = summarised(a, rows)
    asked = write(folder / "asked.jsonl", rows)
    command = [a.banyan, "rag", str(asked), "-o", str(target), "--overwrite", "--receipt", str(receipt), "--quiet"]
    run([*command, "-m", a.model, *WAYS[way], *judge, "--too-long", "truncate", *a.options])
    return target, seconds + json.loads(receipt.read_text())["seconds"]["total"]


def ways(a: argparse.Namespace, questions: int, documents: int, repeat: int) -> Table:
    out = Table(
        "rag",
        "Documents as experts: quality beside speed",
        ["set", "way", "sub-span", "exact", "F1", "gold documents read", "job, s"],
    )
    judge, judge_text = relevance(a)
    made = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, rows in make_sets(questions, documents).items():
            gold = write(folder / "gold.jsonl", rows)
            jobs: dict[str, list[float]] = {}
            scores: dict[str, dict] = {}
            for _ in range(repeat):
                for way in WAYS:
                    output, seconds = answered(a, folder, rows, way, judge)
                    scores[way] = json.loads(run([a.banyan, "eval", "rag", str(gold), str(output), "--json"]))
                    jobs.setdefault(way, []).append(seconds)
            for way, score in scores.items():
                cells = [span(score, "sub_span"), span(score, "exact"), f"{score['f1']:.3f}"]
                out.rows.append([name, way, *cells, percent(score.get("recall_read")), figure(jobs[way]).text()])
            made[name] = dict(scores=scores, jobs=jobs)
    rivals = {
        "one prompt": "one prompt (concat)",
        "one document": "one document (top1)",
        "map-reduce": SUMMARIES,
        "KV side by side": "APE (kv-concat, T = 0.9, S = 0.9)",
    }
    for short, rival in rivals.items():
        told, verdicts = [], []
        for name, of_set in made.items():
            ours, theirs = of_set["scores"][PAPER], of_set["scores"][rival]
            told.append(
                f"{name}: the paper's rule {span(ours, 'sub_span')}, {rival} {span(theirs, 'sub_span')}, our default"
                f" {span(of_set['scores']['experts'], 'sub_span')}"
            )
            if short == "map-reduce" and theirs["sub_span"] == 0:
                verdicts.append(f"{CANNOT}: this model's summaries answer nothing, so the rival is none")
            else:
                verdicts.append(better(ours, theirs, "sub_span", strictly=short != "one prompt"))
        out.facts[short], out.facts[f"{short} verdict"] = "; ".join(told), worst(verdicts)
        out.facts[f"{short}, two hops"], out.facts[f"{short}, two hops verdict"] = told[-1], verdicts[-1]
    out.commands = [
        f"banyan rag QUESTIONS.jsonl -m {a.model} {' '.join([*options, *judge])} -o OUT.jsonl; banyan eval rag"
        " QUESTIONS.jsonl OUT.jsonl"
        for options in WAYS.values()
    ]
    out.note = (
        f"{questions} generated questions of each set (`eval.sets`), documents of 80 to 300 words, computed for each"
        f" question. All ways have the relevance of {judge_text}. {SUMMARIES}: notes are made once for each document,"
        " without the question. Brackets: 95 % of the resamples of questions."
    )
    out.data = made
    return out


def examples(a: argparse.Namespace, file: Path, limit: int) -> Table:
    """Examples with their answers as experts, beside all of them in one prompt: `python3 -m eval rag`."""
    out = Table(
        "examples",
        "Examples as experts",
        ["way", "exact", "sub-span", "questions/s"],
        commands=[
            f"python3 -m eval rag {file.relative_to(ROOT)} -m {a.model}" + (f" --limit {limit}" if limit else "")
        ],
    )
    rows = read_checked(file)[1][: limit or None]
    settings = argparse.Namespace(**dict(vars(a), repeat=1))
    made = form.summary(settings, form.rag_ways(settings, rows, form.WAYS["examples"].split(",")))
    share = lambda r: {"exact": r["scores"]["exact"], "exact_interval": r["intervals"]["exact"], "questions": len(rows)}
    by_way = {r["way"]: r for r in made}
    for r in made:
        low, high = r["intervals"]["sub-span"]
        spans = f"{percent(r['scores']['sub-span'])} ({100 * low:.0f} to {100 * high:.0f})"
        out.rows.append([r["way"], span(share(r), "exact"), spans, figure(r["rates"]).text()])
    out.facts["experts"] = ", ".join(f"{way} {span(share(r), 'exact')}" for way, r in by_way.items())
    ours, theirs = share(by_way["paper"]), share(by_way["one-prompt"])
    out.facts["experts verdict"] = (
        f"{CANNOT}: this model answers nothing by examples"
        if ours["exact"] == theirs["exact"] == 0
        else better(ours, theirs, "exact", strictly=False)
    )
    out.note = f"{len(rows)} questions with {len(rows[0]['examples'])} examples each. Brackets: 95 % of the resamples."
    out.data = made
    return out
