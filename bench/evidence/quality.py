"""Quality beside speed, with real weights: answers, long documents, speculative decoding.

Each part gives a table: a head and rows of cells, and the figures that the papers' rows take from it. Times are
receipts' totals, without loading.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tempfile
from pathlib import Path

from bench.evidence.figures import Figure, compare, figure, ratio, significant
from bench.evidence.runner import ROOT, Failed
from bench.evidence.sets import DRAFT_LAYERS, shown
from bench.evidence.verdicts import CANNOT, CONTRADICTED, REPRODUCED, Table, better, judged, worst
from eval import planted, strategies


def after(a: argparse.Namespace) -> str:
    """Options of `banyan` behind a command of `eval`."""
    return f" -- {shlex.join(a.options)}" if a.options else ""


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


IDENTICAL = 0.91  # the least share of equal answers that Intra-Prompt Parallel Decoding reports


def as_good(ours: dict, theirs: dict, key: str) -> str:
    """Rows of `eval.strategies`."""
    shares = [
        {key: r[key], key + "_interval": r["intervals"][key], "questions": r["questions"]} for r in (ours, theirs)
    ]
    return better(*shares, key, strictly=False)


def degraded(alone: dict, merged: dict) -> str:
    """The verdict of “merged prompts give worse answers”. A model that cannot write numbered answers at all is no test
    of it."""
    if 2 * merged["failed"] > merged["questions"]:
        return (
            f"{CANNOT}: {merged['failed']} of {merged['questions']} answers unreadable: no model for numbered answers"
        )
    return better(*({"f1": r["f1"], "f1_interval": r["intervals"]["f1"]} for r in (alone, merged)), "f1")


def answers(
    a: argparse.Namespace, title: str, name: str, file: Path, limit: int, batches: list[int], repeat: int
) -> Table:
    """Strategies give the same answers; SeqBatch gives others."""
    out = Table(
        name,
        title,
        ["way", "exact", "F1", "ROUGE-L", "same as flat", "no answer", "questions/s", "cost of 1000"],
        commands=[
            f"python3 -m eval.strategies {shown(file)} -m {a.model}"
            + (f" --adapter {a.adapter}" if a.adapter else "")
            + (f" --limit {limit}" if limit else "")
            + f" --max-new {a.max_new} --strategies flat,paged,stacked,auto --batch={','.join(map(str, batches))}"
            + f" --repeat {repeat}"
            + (f" --price {a.price}" if a.price else "")
            + after(a)
        ],
    )
    if a.plan:
        return out
    records = [json.loads(line) for line in file.open(encoding="utf-8")][: limit or None]
    rows = strategies.compare(a, records, ["flat", "paged", "stacked", "auto"], batches, repeat)
    for r in rows:
        span = lambda k: f"{percent(r[k])} ({100 * r['intervals'][k][0]:.0f} to {100 * r['intervals'][k][1]:.0f})"
        rate = out.figures[r["way"]] = figure(r["rates"])
        out.rows.append(
            [
                r["way"],
                span("exact"),
                span("f1"),
                span("rouge_l"),
                percent(r["same"]),
                f"{r['failed']} of {r['questions']}",
                rate.text(),
                "–" if r["cost_of_1000"] is None else significant(r["cost_of_1000"]),
            ]
        )
        out.facts[r["way"]] = f"F1 {r['f1']:.3f}, {percent(r['same'])} the same as flat"
    auto = next(r for r in rows if r["way"] == "auto")
    by_way = {r["way"]: r for r in rows}
    same = min(by_way[way]["same"] for way in ("paged", "stacked", "auto"))
    out.facts["identical"] = f"{percent(same)} of {auto['questions']} answers identical by paged, stacked and auto"
    out.facts["identical verdict"] = REPRODUCED if same >= IDENTICAL else f"{CONTRADICTED}: {percent(same)}"
    told = (
        lambda r, key: f"{percent(r[key])} ({100 * r['intervals'][key][0]:.0f} to {100 * r['intervals'][key][1]:.0f})"
    )
    key, called = ("exact", "accuracy") if name == "choices" else ("f1", "F1")
    out.facts["quality"] = ", ".join(f"{way} {called} {told(by_way[way], key)}" for way in ("flat", "stacked", "auto"))
    out.facts["quality verdict"] = worst([as_good(by_way[way], by_way["flat"], key) for way in ("stacked", "auto")])
    merged = [by_way[f"SeqBatch, {n} in a prompt"] for n in batches]
    if merged:
        out.facts["SeqBatch"] = f"flat F1 {told(by_way['flat'], 'f1')}; " + "; ".join(
            f"{r['way']} {told(r, 'f1')}, {r['failed']} of {r['questions']} unreadable" for r in merged
        )
        out.facts["SeqBatch verdict"] = worst([degraded(by_way["flat"], r) for r in merged])
    out.facts["speed-up"] = compare(out.figures["auto"], out.figures["flat"])
    out.note = (
        f"{len(records)} texts, {auto['questions']} questions, answers of at most {a.max_new} tokens. Brackets: 95 % of"
        f" {a.draws} draws of texts; of rates, the least and the most of {repeat} runs."
    )
    out.data = rows
    return out


def long_document(a: argparse.Namespace, tokens: int, counts: list[int], repeat: int) -> Table:
    listed = ",".join(map(str, counts))
    book = f" --book {shown(Path(a.book))}" if a.book else ""
    out = Table(
        "planted",
        "Many questions on one long document",
        ["questions", "strategy", "seconds", "exact", "same as auto"],
        commands=[
            f"python3 -m eval.planted -m {a.model}{book} --tokens {tokens} --questions {listed} --strategies"
            f" auto,paged,flat --flat-questions 2 --repeat {repeat}" + after(a)
        ],
    )
    if a.plan:
        return out
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
                f"{percent(r['exact'])} of {r['ran']}",
                percent(r["same"]),
            ]
        )
    few, many = (
        next(r for r in rows if r["strategy"] == "auto" and r["questions"] == n) for n in (counts[0], counts[-1])
    )
    flat = next(r for r in rows if r["strategy"] == "flat" and r["questions"] == counts[-1])
    out.facts["growth"] = (
        f"{counts[0]} → {counts[-1]} questions: {figure(few['seconds']).text()} → {figure(many['seconds']).text()} s;"
        f" flat ~{significant(flat['median'])} s, by calculation from {flat['ran']}; {percent(many['exact'])} right"
    )
    same = min(r["same"] for r in rows)
    out.facts["exact"] = f"{percent(same)} of the answers by paged and flat are those of auto; {out.facts['growth']}"
    out.facts["exact verdict"] = REPRODUCED if same == 1 else f"{CONTRADICTED}: {percent(same)} the same"
    out.note = (
        f"A document of about {tokens} tokens{' of ' + Path(a.book).name if a.book else ''} with planted facts; one"
        " question in five has no answer. flat computes the"
        f" document for every question, so it ran {flat['ran']}."
    )
    out.data = rows
    return out


def drafts(a: argparse.Namespace, repeat: int) -> Table:
    """Speculative decoding, the rival of values at once: the same values, written in turn with guesses. And of
    questions that are branches."""
    jobs = {"values": ["draft-pages.jsonl", "--schema", "draft-pages-schema.json"], "answers": ["texts.jsonl"]}
    small = a.sets / "draft.gguf"
    words = {
        job: [w if w.startswith("--") else shown(a.sets / w) for w in files]
        + ["-m", a.model, "--draft-model", shown(small), "--repeat", str(repeat), *a.options]
        for job, files in jobs.items()
    }
    out = Table(
        "drafts",
        "Speculative decoding, the rival of parallel values and answers",
        ["job", "way", "documents/s", "new tokens of a stream in a step", "guesses that were right", "rows computed"],
        commands=[f"banyan bench draft {shlex.join(of_job)}" for of_job in words.values()],
    )
    if a.plan:
        return out
    figures_of: dict[str, dict[str, dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for job, of_job in words.items():
            target = Path(folder, f"{job}.json")
            run([a.banyan, "bench", "draft", *of_job, "--json", str(target)])
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
    rivals = [of("values", way) for way in figures_of["values"] if way.startswith("sequential, ")]
    gain = ratio(skeleton, max(rivals, key=lambda f: f.median))
    found = judged("", [gain], gain.least > 1, gain.most < 1, f"{gain.text()} times the best of them")
    out.facts["verdict"] = found.verdict + (f": {found.why}" if found.why else "")
    out.note = (
        "Generated product pages, and the questions of everyday texts (`bench.evidence.sets`). Ways that begin with"
        " “sequential”, and those of “answers”, give the same tokens and log-probabilities bit for bit, or the command"
        " fails. Guesses: what the template leaves no choice about; then prompt lookup (the words that followed the"
        f" last 3 tokens before), or {len(DRAFT_LAYERS)} of the model's 12 layers as a draft model: no smaller trained"
        " model has its vocabulary, so this one guesses worse than one of that size could. Up to 8 guesses for a"
        f" stream and step. {repeat} runs in turns."
    )
    out.data = figures_of
    return out


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in (0, 1):  # 1: some rows are errors, which the scores count
        raise Failed(f"{shlex.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout
