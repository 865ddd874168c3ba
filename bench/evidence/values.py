"""Attribute values, with real weights: two sets, models of several sizes with and without adapters, and a judge."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.evidence.figures import compare, figure
from bench.evidence.quality import after, percent, run
from bench.evidence.runner import ROOT
from bench.evidence.sets import shown
from bench.evidence.verdicts import CANNOT, Table, better, worst
from eval import form, judge
from eval.data import read_checked, read_file
from eval.extraction import is_test


def by_mode(
    a: argparse.Namespace, file: Path, schema: Path, modes: list[str], repeat: int, limit: int = 0
) -> list[dict]:
    """Rows of `python3 -m eval extract`."""
    rows = read_checked(file)[1][: limit or None]
    settings = argparse.Namespace(**dict(vars(a), repeat=repeat, schema=schema, set_name=file.stem))
    return [dict(r, questions=len(rows)) for r in form.summary(settings, form.extract_ways(settings, rows, modes))]


def extract_command(
    a: argparse.Namespace, file: Path, schema: Path, modes: list[str], repeat: int, limit: int = 0
) -> str:
    return (
        f"python3 -m eval extract {shown(file)} -m {a.model} --schema {shown(schema)}"
        + (f" --adapter {a.adapter}" if a.adapter else "")
        + f" --ways {','.join(modes)} --repeat {repeat}"
        + (f" --limit {limit}" if limit else "")
        + after(a)
    )


MODES = ["skeleton", "isolated", "sequential"]


def values(a: argparse.Namespace, repeat: int, limit: int) -> Table:
    """Two sets: generated pages, and documents by hand with typed slots; the first `limit` of each, or all of them."""
    samples = ROOT / "eval" / "samples"
    sets = {
        "generated pages": (a.sets / "pages.jsonl", a.sets / "pages-schema.json"),
        "everyday": (samples / "everyday.jsonl", samples / "everyday-schema.json"),
    }
    out = Table(
        "extraction",
        "Attribute values: quality beside speed",
        ["set", "values", "strict F1", "slots right", "documents/s"],
        commands=[extract_command(a, *files, MODES, repeat, limit) for files in sets.values()],
    )
    if a.plan:
        return out
    found: dict[str, dict[str, dict]] = {}
    for name, files in sets.items():
        found[name] = {r["way"]: r for r in by_mode(a, *files, MODES, repeat, limit)}
        for mode, r in found[name].items():
            rate = out.figures[f"{name}: {mode}"] = figure(r["rates"])
            out.rows.append([name, mode, strict(r), percent(r["scores"]["accuracy"]), rate.text()])
    for mode in MODES:
        out.facts[mode] = ", ".join(f"{name} strict F1 {strict(of[mode])}" for name, of in found.items())
    for verdict, mode in (("quality", "skeleton"), ("independent", "isolated")):
        out.facts[f"{verdict} verdict"] = worst(
            [better(share(of[mode]), share(of["sequential"]), "f1", strictly=False) for of in found.values()]
        )
    out.facts["speed-up"] = "; ".join(
        f"{name} {compare(*(out.figures[f'{name}: {mode}'] for mode in ('skeleton', 'sequential')))}" for name in sets
    )
    out.note = "; ".join(f"{name}: {next(iter(of.values()))['questions']} documents" for name, of in found.items())
    out.note += ". Everyday documents are by hand, with typed slots (eval/samples/README.md)."
    out.data = found
    return out


def strict(r: dict) -> str:
    low, high = r["intervals"]["strict F1"]
    return f"{r['scores']['strict F1']:.3f} ({low:.2f} to {high:.2f})"


def share(r: dict) -> dict:
    return {"f1": r["scores"]["strict F1"], "f1_interval": r["intervals"]["strict F1"], "questions": r["questions"]}


FEW = 16  # documents of each set that an extractor reads: a CPU of two cores has minutes for a model of 1.5 billion


def held_out(a: argparse.Namespace) -> dict[str, list[dict]]:
    """Sets that no extractor here was trained on: product titles for tests, reference strings that training left out
    (`train.extract_real.held_name`)."""
    found = {}
    if a.data and (a.data / "oa_mine.jsonl").is_file():
        found["oa_mine"] = [r for r in read_file(a.data / "oa_mine.jsonl")[2] if is_test(r["id"])]
    references = a.data / "../train/references_anystyle.jsonl.gz" if a.data else Path()
    if references.is_file():
        found["references"] = [r for r in read_file(references)[2] if not r.get("trained_on")]
    return {name: rows[:FEW] for name, rows in found.items()}


def write_held_out(a: argparse.Namespace) -> None:
    """The sets of `extractors` as files, so that its commands can be run by hand."""
    for name, rows in held_out(a).items():
        rows, schema = form.schema_of(rows)
        (a.sets / f"held-{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        (a.sets / f"held-{name}-schema.json").write_text(json.dumps(schema) + "\n", encoding="utf-8")


def extractors(a: argparse.Namespace) -> Table:
    """Models with and without their adapters, at several sizes: the skeleton beside sequential values, and no values.
    `a.extractors`: MODEL or MODEL=ADAPTER."""
    samples = ROOT / "eval" / "samples"
    sets = {name: (a.sets / f"held-{name}.jsonl", a.sets / f"held-{name}-schema.json") for name in held_out(a)} | {
        "everyday": (samples / "everyday.jsonl", samples / "everyday-schema.json")
    }
    modes = ["skeleton", "sequential", "null"]
    models = [(m, t) for given in a.extractors for m, _, adapter in [given.partition("=")] for t in ("", adapter)]
    models = list(dict.fromkeys(models))
    of = lambda model, adapter: argparse.Namespace(**dict(vars(a), model=model, adapter=adapter))
    out = Table(
        "extractors",
        "Attribute values: base and tuned, by size of the model",
        ["set", "model", "adapter", "values", "strict F1", "slots right", "documents/s"],
        commands=[
            extract_command(of(*pair), *files, modes, 1, FEW)
            for pair in models or [("MODEL.gguf", "")]
            for files in sets.values()
        ],
    )
    if a.plan:
        return out
    if not models:
        out.left_out = "no models: --extractor MODEL=ADAPTER"
        return out
    write_held_out(a)
    verdicts, told, counts = [], [], {}
    for name, files in sets.items():
        for n, (model, adapter) in enumerate(models):
            rows = {r["way"]: r for r in by_mode(of(model, adapter), *files, modes if n == 0 else modes[:2], 1, FEW)}
            size, tuned = Path(model).stem, Path(adapter).name or "none"
            counts[name] = rows["skeleton"]["questions"]
            if n == 0:
                out.rows.append([name, "–", "–", "null", *cells_of(rows.pop("null"))[:2], "–"])
            out.rows += [[name, size, tuned, mode, *cells_of(r)] for mode, r in rows.items()]
            verdicts.append(better(share(rows["skeleton"]), share(rows["sequential"]), "f1", strictly=False))
            told.append(
                f"{name}, {size}, adapter {tuned}: skeleton {strict(rows['skeleton'])}, sequential"
                f" {strict(rows['sequential'])}"
            )
    out.facts["skeleton"], out.facts["verdict"] = "; ".join(told), worst(verdicts)
    out.note = (
        f"{', '.join(f'{n} documents of {name}' for name, n in counts.items())}. A model without an adapter was not"
        " trained on gaps. oa_mine: product titles of OA-Mine for tests; references: reference strings that no adapter"
        " was trained on, though checkpoints were chosen by them. null: no value is written."
    )
    return out


def cells_of(r: dict) -> list[str]:
    return [strict(r), percent(r["scores"]["accuracy"]), figure(r["rates"]).text()]


AGREES = 0.6  # Cohen's kappa with labels by hand: below it a judge says nothing


def judgement(a: argparse.Namespace, limit: int = 0) -> Table:
    """Values by a judge, after the judge itself: its agreement with labels by hand. Without --judge it is the words
    that two values share. `limit`: documents; 0: all."""
    everyday = [ROOT / "eval" / "samples" / f"everyday{end}" for end in (".jsonl", "-schema.json")]
    modes = ["skeleton", "sequential"]
    outputs = {mode: a.sets / f"everyday-{mode}.jsonl" for mode in modes}
    runs = " ".join(f"--run {mode}={shown(path)}" for mode, path in outputs.items())
    by = (f" -m {a.judge}" if a.judge else "") + after(a)
    few = f" --limit {limit}" if limit else ""
    out = Table(
        "judge",
        "Attribute values by a judge",
        ["run", "by", "precision", "recall", "F1", *judge.ALL],
        commands=[
            f"python3 -m eval.judge {shown(everyday[0])} --schema {shown(everyday[1])} {runs}{by}",
            f"python3 -m eval.judge --check{by}",
        ]
        + [
            f"banyan extract {shown(everyday[0])} -m {a.model} --schema {shown(everyday[1])} --values {mode} --adapter"
            f" none -o {shown(path)} --overwrite{few}"
            for mode, path in outputs.items()
        ],
    )
    if a.plan:
        return out
    settings = argparse.Namespace(**dict(vars(a), model=a.judge, adapter=""))
    name = judge.judge_name(settings)
    checked = judge.check(settings)
    part = "rows" if "rows" in checked else "test"  # values that models wrote, where their texts are
    agreed, least = checked[part][name], checked[part][judge.MOST_FREQUENT]
    low, high = agreed["interval"]
    of_judge = (
        f"{name} agrees with {100 * agreed['agreement']:.0f} % ({100 * low:.0f} to {100 * high:.0f}) of"
        f" {agreed['labels']} labels by hand, kappa {agreed['kappa']:.2f} ({agreed['kappa_interval'][0]:.2f} to"
        f" {agreed['kappa_interval'][1]:.2f}); always the most frequent {100 * least['agreement']:.0f} %"
    )
    gold = read_checked(everyday[0])[1][: limit or None]
    made = {}
    for mode, path in outputs.items():
        words = [a.banyan, "extract", str(everyday[0]), "-m", a.model, "--schema", str(everyday[1]), "--values", mode]
        run([*words, "--adapter", "none", "-o", str(path), "--overwrite", "--quiet", *few.split(), *a.options])
        made[mode] = judge.lines_of(path)
    rows = judge.judge_runs(settings, gold, json.loads(everyday[1].read_text(encoding="utf-8")), made)
    for row in rows:
        for way in ("judge", "exact"):
            s = row[way]
            low, high = s["interval"]
            cells = [f"{s['precision']:.3f}", f"{s['recall']:.3f}", f"{s['f1']:.3f} ({low:.2f} to {high:.2f})"]
            out.rows.append(
                [row["run"], name if way == "judge" else way, *cells, *(str(s["counts"][v]) for v in judge.ALL)]
            )
    by_run = {
        row["run"]: {**row["judge"], "f1_interval": row["judge"]["interval"], "questions": len(gold)} for row in rows
    }
    told = ", ".join(
        f"{mode} F1 {s['f1']:.3f} ({s['f1_interval'][0]:.2f} to {s['f1_interval'][1]:.2f})"
        for mode, s in by_run.items()
    )
    out.facts["judged"] = f"{told}; {of_judge}"
    out.facts["verdict"] = (
        better(by_run["skeleton"], by_run["sequential"], "f1", strictly=False)
        if agreed["kappa"] >= AGREES
        else f"{CANNOT}: the judge agrees too little with labels by hand, kappa {agreed['kappa']:.2f} of {AGREES}"
    )
    out.note = f"{of_judge}. The everyday documents, values of the shipped model. Exact: equal texts alone are matches."
    out.data = rows
    return out
