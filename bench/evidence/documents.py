"""Documents as experts beside its rivals, with real weights: ways to answer, and the parameters of the rule.

Every way gets the relevance that its user would have: the documents' own order is not one of its inputs. The paper's
setting is a way of its own: raw scores, no plausibility limit, no abstention, γ = 2.5, β by Jensen–Shannon divergence,
relevance of an encoder fused with a reranker where both are given, else of BM25, as the table says.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from bench.evidence.figures import figure
from bench.evidence.quality import after, percent
from bench.evidence.runner import ROOT
from bench.evidence.sets import shown
from bench.evidence.verdicts import CANNOT, Table, better, worst
from eval import form
from eval.data import read_checked

PAPER = "experts, the paper's rule"
SUMMARIES = "map-reduce of summaries"
# Ways to answer from documents, as `python3 -m eval rag` has them. APE: kv-concat with a temperature and a scale.
WAYS = {
    "experts": "experts",
    PAPER: "paper",
    "one prompt (concat)": "concat",
    "one document (top1)": "top1",
    "map-reduce": "map-reduce",
    SUMMARIES: "summaries",  # notes that were made without the question
    "KV side by side (kv-concat)": "kv-concat",
    "APE (kv-concat, T = 0.9, S = 0.9)": "kv-concat:0.9:0.9",
}
PUBLISHED = ("hotpotqa", "musique")  # read where the folder of data sets has them


def relevance(a: argparse.Namespace) -> tuple[list[str], str]:
    """Options, and what they are in words."""
    if not a.encoder:
        return ["--relevance", "bm25"], "BM25"
    fused = ["--reranker", a.reranker] if a.reranker else []
    return (
        ["--relevance", "dense", "--encoder", a.encoder, *fused],
        f"{Path(a.encoder).name}{' with ' + Path(a.reranker).name if fused else ''}",
    )


def span(score: dict, key: str) -> str:
    low, high = score[key + "_interval"]
    return f"{percent(score[key])} ({100 * low:.0f} to {100 * high:.0f})"


# Parameters of the rule: option, values, the paper's own.
PARAMETERS = {
    "β": ("--beta", ("expert", "shared", "0", "0.5", "1"), "expert"),
    "γ": ("--gamma", ("0", "1", "2.5", "5"), "2.5"),
    "rule": ("--rule", ("max", "mixture", "product"), "max"),
}


def parameters(a: argparse.Namespace) -> Table:
    """β, γ and the rule, one at a time, by the paper's rule."""
    out = Table(
        "rag_parameters",
        "Documents as experts: contrast, relevance, rule",
        ["set", "what", "value", "sub-span", "exact", "F1"],
    )
    judge, judge_text = relevance(a)
    files = {"secret code": a.sets / "codes-few.jsonl", "two hops": a.sets / "two-hops-few.jsonl"}
    runs = [
        (name, file, what, value, [*judge, option, value, *a.options])
        for name, file in files.items()
        for what, (option, values, _) in PARAMETERS.items()
        for value in values
    ]
    out.commands = [
        f"python3 -m eval rag {shown(file)} -m {a.model} --ways paper -- {shlex.join(options)}"
        for _, file, _, _, options in runs
    ]
    if a.plan:
        return out
    made: dict[str, dict[str, dict[str, dict]]] = {}
    for name, file, what, value, options in runs:
        rows = read_checked(file)[1]
        settings = argparse.Namespace(**dict(vars(a), repeat=1, options=options))
        score = share_of(form.summary(settings, form.rag_ways(settings, rows, ["paper"]))[0], len(rows))
        out.rows.append([name, what, value, span(score, "sub_span"), span(score, "exact"), f"{score['f1']:.3f}"])
        made.setdefault(name, {}).setdefault(what, {})[value] = score
    for what, (_, _, theirs) in PARAMETERS.items():
        told, verdicts = [], []
        for name, by_parameter in made.items():
            scores = by_parameter[what]
            told.append(f"{name}: " + ", ".join(f"{v} {percent(s['sub_span'])}" for v, s in scores.items()))
            verdicts += [better(scores[theirs], s, "sub_span", False) for v, s in scores.items() if v != theirs]
        out.facts[what] = "; ".join(told)
        out.facts[f"{what} verdict"] = worst(verdicts)
    out.note = (
        f"Generated questions (`bench.evidence.sets`), relevance of {judge_text}; what is not varied has the value of"
        " the paper's rule. Intervals: 95 % of the resamples of questions."
    )
    out.data = made
    return out


def ways(a: argparse.Namespace, limit: int, published: bool, name: str = "rag", of: str = "") -> Table:
    """Generated questions, and with `published` so many of each set that is there. `of`: the model in words."""
    judge, judge_text = relevance(a)
    sets = {
        "secret code": shown(a.sets / "codes.jsonl"),
        "two hops": shown(a.sets / "two-hops.jsonl"),
        **{name: name for name in PUBLISHED if published and a.data and (a.data / f"{name}.jsonl").is_file()},
    }
    out = Table(
        name,
        f"Documents as experts: quality beside speed{of}",
        ["set", "way", "sub-span", "exact", "F1", "questions/s"],
        commands=[
            f"python3 -m eval rag {given} -m {a.model}"
            + (f" --adapter {a.adapter}" if a.adapter else "")
            + f" --ways {','.join(WAYS.values())} --limit {limit} -- {shlex.join([*judge, *a.options])}"
            for given in sets.values()
        ],
    )
    if a.plan:
        return out
    settings = argparse.Namespace(**dict(vars(a), repeat=1, options=[*judge, *a.options]))
    made: dict[str, dict[str, dict]] = {}
    counts = {}
    for one, given in sets.items():
        rows = form.set_of(given if given in PUBLISHED else str(ROOT / given), a.data)[2][:limit]
        found = form.summary(settings, form.rag_ways(settings, rows, list(WAYS.values())))
        counts[one] = len(rows)
        made[one] = {way: share_of(r, len(rows)) for way, r in zip(WAYS, found)}
        for way, score in made[one].items():
            spans = [span(score, "sub_span"), span(score, "exact"), f"{score['f1']:.3f}"]
            out.rows.append([one, way, *spans, figure(score["rates"]).text()])
    rivals = {
        "one prompt": "one prompt (concat)",
        "one document": "one document (top1)",
        "map-reduce": SUMMARIES,
        "KV side by side": "APE (kv-concat, T = 0.9, S = 0.9)",
    }
    for short, rival in rivals.items():
        told, verdicts = {}, {}
        for one, scores in made.items():
            ours, theirs = scores[PAPER], scores[rival]
            told[one] = (
                f"{one}: the paper's rule {span(ours, 'sub_span')}, {rival} {span(theirs, 'sub_span')}, our default"
                f" {span(scores['experts'], 'sub_span')}"
            )
            if short == "map-reduce" and theirs["sub_span"] == 0:
                verdicts[one] = f"{CANNOT}: this model's summaries answer nothing, so the rival is none"
            else:
                verdicts[one] = better(ours, theirs, "sub_span", strictly=short != "one prompt")
        hops = [one for one in made if one != "secret code"]
        out.facts[short], out.facts[f"{short} verdict"] = "; ".join(told.values()), worst(list(verdicts.values()))
        out.facts[f"{short}, two hops"] = "; ".join(told[one] for one in hops)
        out.facts[f"{short}, two hops verdict"] = worst([verdicts[one] for one in hops])
    out.note = (
        f"Questions: {', '.join(f'{n} of {one}' for one, n in counts.items())}; the first two sets are generated"
        f" (`bench.evidence.sets`). Documents are computed for each question. All ways have the relevance of"
        f" {judge_text}. {SUMMARIES}: notes are made once for each document, without the question. Brackets: 95 % of the"
        " resamples of questions."
    )
    out.data = made
    return out


def share_of(r: dict, questions: int) -> dict:
    """Scores of a row of `eval rag` as `verdicts.better` reads them."""
    out = {"questions": questions, "f1": r["scores"]["F1"], "rates": r["rates"]}
    for key, name in (("sub_span", "sub-span"), ("exact", "exact")):
        out |= {key: r["scores"][name], key + "_interval": r["intervals"][name]}
    return out


def examples(a: argparse.Namespace, file: Path, limit: int) -> Table:
    """Examples with their answers as experts, beside all of them in one prompt: `python3 -m eval rag`."""
    out = Table(
        "examples",
        "Examples as experts",
        ["way", "exact", "sub-span", "questions/s"],
        commands=[
            f"python3 -m eval rag {file.relative_to(ROOT)} -m {a.model}"
            + f" --ways {form.WAYS['examples']}"
            + (f" --limit {limit}" if limit else "")
            + after(a)
        ],
    )
    if a.plan:
        return out
    rows = read_checked(file)[1][: limit or None]
    settings = argparse.Namespace(**dict(vars(a), repeat=1))
    made = form.summary(settings, form.rag_ways(settings, rows, form.WAYS["examples"].split(",")))
    by_way = {r["way"]: share_of(r, len(rows)) for r in made}
    for way, r in by_way.items():
        out.rows.append([way, span(r, "exact"), span(r, "sub_span"), figure(r["rates"]).text()])
    out.facts["experts"] = ", ".join(f"{way} {span(r, 'exact')}" for way, r in by_way.items())
    ours, theirs = by_way["paper"], by_way["one-prompt"]
    out.facts["experts verdict"] = (
        f"{CANNOT}: this model answers nothing by examples"
        if ours["exact"] == theirs["exact"] == 0
        else better(ours, theirs, "exact", strictly=False)
    )
    out.note = f"{len(rows)} questions with {len(rows[0]['examples'])} examples each. Brackets: 95 % of the resamples."
    out.data = made
    return out


CODE_WAYS = ("experts", "paper", "concat", "top1")


def code(a: argparse.Namespace, limit: int) -> Table:
    """The next line of code, from functions of other files: `eval.code_lines`."""
    judge, judge_text = relevance(a)
    out = Table(
        "code",
        f"Documents as experts: lines of code, {Path(a.model).stem}",
        ["way", "code similarity", "exact", "questions/s"],
        commands=[
            f"python3 -m eval rag code_lines -m {a.model} --ways {','.join(CODE_WAYS)} --limit {limit} --"
            f" {shlex.join([*judge, *a.options])}"
        ],
    )
    if a.plan:
        return out
    rows = form.set_of("code_lines", None)[2][:limit]
    settings = argparse.Namespace(**dict(vars(a), adapter="", repeat=1, options=[*judge, *a.options]))
    by_way = {r["way"]: r for r in form.summary(settings, form.rag_ways(settings, rows, list(CODE_WAYS)))}
    told, shares = {}, {}
    for way, r in by_way.items():
        similar, (low, high) = r["scores"]["code similarity"], r["intervals"]["code similarity"]
        shares[way] = {"code": similar, "code_interval": [low, high], "questions": len(rows)}
        told[way] = f"{100 * similar:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
        out.rows.append([way, told[way], percent(r["scores"]["exact"]), figure(r["rates"]).text()])
    out.facts["experts"] = "code similarity: " + ", ".join(f"{way} {text}" for way, text in told.items())
    out.facts["experts verdict"] = better(shares["paper"], shares["concat"], "code", strictly=False)
    out.note = (
        f"{len(rows)} lines of this project's Python files, six functions of other files each; relevance of"
        f" {judge_text}. Code similarity: characters in common, as LongBench counts them. Brackets: 95 % of the resamples"
        " of questions."
    )
    out.data = list(by_way.values())
    return out
