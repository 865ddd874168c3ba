"""A run of `train.adapter` as the adapter that ships: its folder with card, calibration and hashes of what it read.

    python3 -m train.adapter_card --run OUT/qwen15 --to models/qwen2.5-coder-1.5b-reader --model
        qwen2.5-coder-1.5b-instruct --texts texts.json --documents documents.json --trained texts.jsonl.xz
        documents.jsonl.xz [--reading reading.json] [--extraction FOLDER/table.json]

`--texts` and `--documents` are the reports of `train.reading_texts` and `train.task_documents`, `--reading` and
`--extraction` the scores through the program (`eval.reading --json`, `eval.extraction --out`). Every number of the card
comes from these files and the run's own answers.

Confidence is fitted for each kind of answer on all frozen sets (`train.confidence`). Its error is measured on sets that
the fit had nothing of: each set is left out once. `null_bias` is chosen on half of the held-out texts and reported on
the other half, as the program decides: between the first token of the answer and that of null. A bias that gains less
than 0.01 F1 on its half is left at 0.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np

from eval.metrics import calibration_error, interval
from eval.reading import table_of
from train import trained_on
from train.confidence import fits, log_odds, probability
from train.extract_publish import LICENCES as DOCUMENT_LICENCES
from train.extract_publish import MOST_BYTES
from train.reading_card import CARDS, GRAMS, WATTS, data_table, sums, wrapped

KEYS = ("accuracy", "strict_f1")
LEAST_GAIN = 0.01  # of F1, for a bias other than 0
NAMES = {
    "squad2": "SQuAD 2.0, held-out articles",
    "natural": "everyday texts (`natural.jsonl`)",
    "hops": "two hops (HotpotQA)",
    "english": "paragraphs, English",
    "german": "paragraphs, German",
    "spanish": "paragraphs, Spanish",
    "french": "paragraphs, French",
    "everyday": "everyday documents",
    "everyday-dev2": "hard everyday documents (for tuning)",
    "everyday-dev": "short everyday documents (for tuning)",
    "titles": "product titles (OA-Mine, tests)",
}


def answers(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def by_set(rows: list[dict]) -> dict[str, list[dict]]:
    out: dict[str, list[dict]] = defaultdict(list)
    for r in rows:
        out[r["set"]].append(r)
    return out


def task_of(row: dict) -> str:
    return "ask" if "question" in row else "extract"


def score_of(row: dict) -> float:
    """F1 of an answer; whether a slot is right."""
    return float(row["f1"] if task_of(row) == "ask" else row["right"])


# --- confidence


def point(row: dict) -> tuple[str, float, bool]:
    """(kind, log-probability, right) as `train.confidence` takes them."""
    if task_of(row) == "ask":
        return ("null" if row["null"] else "answer", row["logprob"], bool(row["exact"]))
    return ("null" if row["null"] else row["type"], row["logprob"], bool(row["right"]))


def points_of(rows: list[dict]) -> list[tuple[str, float, bool]]:
    """Answers of no token have no probability. OA-Mine does not say what a title lacks: only values of labelled
    attributes count."""
    counts = lambda r: r["set"] != "titles" or (r["known"] and not r["null"])
    return [point(r) for r in rows if r["first"] is not None and math.isfinite(r["logprob"]) and counts(r)]


def guesses(points: list[tuple[str, float, bool]], made: dict) -> list[tuple[float, bool]]:
    return [(float(probability(np.array([x]), *made.get(kind, made[""]))[0]), right) for kind, x, right in points]


def left_out_errors(sets: dict[str, list[dict]]) -> dict[str, float]:
    """Calibration error on each set, fitted on all others; "": of all sets together, each fitted without itself."""
    out, all_guesses = {}, []
    for name in sets:
        others = [p for other, rows in sets.items() if other != name for p in points_of(rows)]
        if not others:
            raise ValueError(f"expected at least two sets of a task, found {name} alone")
        found = guesses(points_of(sets[name]), fits(others))
        out[name] = calibration_error(found)
        all_guesses += found
    out[""] = calibration_error(all_guesses)
    return out


def calibrations(rows: list[dict]) -> dict:
    """Of a task, in the card's form."""
    made = {
        kind: dict(feature="log_odds", scale=round(scale, 4), offset=round(offset, 4))
        for kind, (scale, offset) in fits(points_of(rows)).items()
    }
    return {**made.pop(""), **made}


# --- null


def half_of(name: str) -> int:
    return hashlib.sha256(name.encode()).digest()[0] % 2


def f1_with(rows: list[dict], bias: float) -> float:
    """Where null begins with more than an answer's first token has, the bias counted in, null is answered, as the
    program does; 0: as it was written."""
    turned = lambda r: bias > 0.0 and not r["null"] and r["null_first"] + bias > r["first"]
    return float(np.mean([float(not r["known"]) if turned(r) else r["f1"] for r in rows])) if rows else 0.0


def null_bias(sets: dict[str, list[dict]]) -> dict:
    """The bias, and F1 on both halves of the texts without and with it; `tried` is the best on the half that chooses.
    Each set counts alike: what near misses gain, texts that answer lose."""
    mean = lambda some, bias: float(np.mean([f1_with(rows, bias) for rows in by_set(some).values()])) if some else 0.0
    rows = [r for some in sets.values() for r in some]
    chosen_on, kept = ([r for r in rows if half_of(json.dumps(r["id"])) == half] for half in (0, 1))
    best = max([0.25 * n for n in range(0, 17)], key=lambda bias: (mean(chosen_on, bias), -bias))
    plain, gained = mean(chosen_on, 0.0), mean(chosen_on, best)
    return dict(
        bias=best if gained - plain >= LEAST_GAIN else 0.0,
        tried=best,
        chosen_on=dict(questions=len(chosen_on), plain=plain, tried=gained),
        reported_on=dict(
            questions=len(kept),
            plain=mean(kept, 0.0),
            tried=mean(kept, best),
            interval=interval([[score_of(r) for r in text] for text in by_text(kept)]),
        ),
    )


# --- the card


def by_text(rows: list[dict]) -> list[list[dict]]:
    out: dict[str, list[dict]] = defaultdict(list)
    for r in rows:
        out[json.dumps(r["id"])].append(r)
    return list(out.values())


def score_table(before: dict, after: dict, sets: dict[str, list[dict]], task: str) -> str:
    what = "F1" if task == "ask" else "right"
    lines = [
        f"| | {'questions' if task == 'ask' else 'slots'} | {what} (95 %) | untrained | `null` to all |"
        " `null` where there is none | `null` where there is a value |",
        "|---|---|---|---|---|---|---|",
    ]
    shown = lambda value: "–" if value is None else f"{100 * value:.0f} %"
    for name, rows in sets.items():
        row, low_high = after[name], interval([[score_of(r) for r in text] for text in by_text(rows)])
        key = "f1" if task == "ask" else "right"
        lines.append(
            f"| {NAMES.get(name, name)} | {len(rows)} | {row[key]:.3f} ({low_high[0]:.2f} to {low_high[1]:.2f}) |"
            f" {before[name][key]:.3f} | {row['all_null']:.3f} | {shown(row['null_where_none'])} |"
            f" {shown(row['null_where_answer'])} |"
        )
    return "\n".join(lines)


def documents_table(counts: dict[str, int]) -> str:
    lines = ["| documents with values | licence | documents | held out |", "|---|---|---|---|"]
    for name, count in counts.items():
        source, _, form = name.partition(" ")
        if source not in DOCUMENT_LICENCES:
            continue
        about, licence = DOCUMENT_LICENCES[source]
        extra = {"stack": ", several in a prompt", "items": ", objects of a list"}.get(form, "")
        lines.append(f"| {about}{extra} | {licence} | {count} | {counts.get('held ' + name, 0)} |")
    return "\n".join(lines)


def null_text(found: dict) -> str:
    chosen, kept = found["chosen_on"], found["reported_on"]
    low, high = kept["interval"]
    if found["tried"] == 0.0:
        what = "no bias towards null gains on the half that chooses"
    elif found["bias"] == 0.0:
        what = (
            f"the best bias on the half that chooses, {found['tried']:g}, gains {chosen['tried'] - chosen['plain']:.3f}"
            f" there ({chosen['plain']:.3f} → {chosen['tried']:.3f}) and makes {kept['plain']:.3f} →"
            f" {kept['tried']:.3f} of the other: too little, it stays 0"
        )
    else:
        what = (
            f"{found['bias']:g}, chosen where it makes {chosen['plain']:.3f} → {chosen['tried']:.3f}; on the other half"
            f" {kept['plain']:.3f} → {kept['tried']:.3f}"
        )
    return wrapped(
        f"`null_bias`, on two halves of all texts with questions, each set counting alike ({chosen['questions']} and {kept['questions']} questions): {what}."
        f" F1 of the half that chose nothing is {kept['plain']:.3f} ({low:.2f} to {high:.2f}) without a bias."
    )


def errors_text(errors: dict[str, dict[str, float]]) -> str:
    parts = []
    for task, found in errors.items():
        own = ", ".join(f"{NAMES.get(n, n).split(' (')[0]} {e:.3f}" for n, e in found.items() if n)
        parts.append(f"`{task}` {found['']:.3f} of all ({own})")
    return wrapped(
        "Calibration error on sets that the fit had nothing of, each left out once: " + "; ".join(parts) + "."
    )


def program_tables(reading: dict | None, extraction: dict | None) -> str:
    """What was measured through the program; tables of `eval.reading` and `eval.extraction`."""
    out = []
    sets = reading or {}
    if sets and not all(isinstance(next(iter(v.values())), dict) for v in sets.values()):
        sets = {"questions": sets}
    out += [table_of(name, rows) for name, rows in sets.items()]
    rows = []
    for name, found in (extraction or {}).get("sets", {}).items():
        for run in found.values():
            score = run["score"]
            spans = {k: "{:.{}f} to {:.{}f}".format(*(v for x in score["intervals"][k] for v in (x, 2))) for k in KEYS}
            rows.append(
                f"| {NAMES.get(name, name)} | {score['all']['slots']} | {score['all']['accuracy']:.3f}"
                f" ({spans['accuracy']}) | {score['all_null']['accuracy']:.3f} |"
                f" {score['all']['strict_f1']:.3f} ({spans['strict_f1']}) |"
            )
    if rows:
        head = "| | slots | right (95 %) | `null` to all | strict F1 (95 %) |\n|---|---|---|---|---|\n"
        out.append(head + "\n".join(rows) + "\n")
    if not out:
        return ""
    return "Through `banyan ask` and `banyan extract` on the CPU:\n\n" + "\n".join(out) + "\n"


def limits(before: dict, after: dict) -> str:
    """The worst of what it was measured on, and where training made it worse."""
    asked = {n: r["f1"] for n, r in after.items() if isinstance(r, dict) and "f1" in r}
    slots = {n: r["right"] for n, r in after.items() if isinstance(r, dict) and "right" in r}
    worst, poor = min(asked, key=asked.get), min(slots, key=slots.get)
    held, key = after["squad2"], lambda n: "f1" if n in asked else "right"
    lost = [n for n in (*asked, *slots) if after[n][key(n)] < before[n][key(n)]]
    worse = ", ".join(f"{NAMES.get(n, n)} ({before[n][key(n)]:.3f} → {after[n][key(n)]:.3f})" for n in lost)
    points = (
        f"- It reads worst of the sets above: {NAMES.get(worst, worst)} (F1 {asked[worst]:.2f}), and extracts worst"
        f" from {NAMES.get(poor, poor)} ({100 * slots[poor]:.0f} % right).",
        f"- Of near misses (SQuAD 2.0) it answers {100 * (1 - held['null_where_none']):.0f} % though the text does not"
        " say.",
        f"- Training made it worse on {worse}." if worse else "",
        "- It does not reason, count or compute.",
    )
    return "\n".join(wrapped(p, "  ") for p in points if p)


def write(a: argparse.Namespace) -> dict:
    """The folder; returns what was found."""
    read = lambda path: json.loads(path.read_text(encoding="utf-8")) if path else None
    run, texts, documents = read(a.run / "run.json"), read(a.texts), read(a.documents)
    before, after, rows = (
        read(a.run / "before.json"),
        read(a.run / "after.json"),
        answers(a.run / "after-answers.jsonl"),
    )
    weights = a.run / "adapter" / "adapter_model.safetensors"
    size = weights.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{weights}: expected at most {MOST_BYTES} bytes, found {size}")
    tasks = {t: by_set([r for r in rows if task_of(r) == t]) for t in ("ask", "extract")}
    bias = null_bias(tasks["ask"])
    errors = {t: left_out_errors(sets) for t, sets in tasks.items()}
    card = dict(copies=True, null_text="null", model=a.model)
    card["confidence"] = {t: calibrations([r for some in sets.values() for r in some]) for t, sets in tasks.items()}
    card["null_bias"] = bias["bias"]
    card["reader"] = dict(tasks=["ask", "extract", "rag"])  # a size and what it gets right are the publisher's to add
    a.to.mkdir(parents=True, exist_ok=True)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        shutil.copyfile(a.run / "adapter" / name, a.to / name)
    (a.to / "banyan.json").write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if a.trained:
        trained_on.write(a.to, trained_on.trained_texts(a.trained, None))
    log = (a.run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    (a.to / "training-log.json").write_text("[\n" + ",\n".join(log) + "\n]\n", encoding="utf-8")
    settings, hours = run["settings"], run["seconds"] / 3600
    page = (
        (CARDS / "adapter.md")
        .read_text(encoding="utf-8")
        .format(
            name=a.to.name,
            model=a.model,
            base=settings["base_name"],
            rank=settings["rank"],
            megabytes=f"{size / 1e6:.1f}",
            program=program_tables(read(a.reading), read(a.extraction)),
            asked=score_table(before, after, tasks["ask"], "ask"),
            slots=score_table(before, after, tasks["extract"], "extract"),
            errors=errors_text(errors),
            null=null_text(bias),
            limits=limits(before, after),
            minutes=f"{run['seconds'] / 60:.0f}",
            device=run["device"],
            million=f"{run['tokens'] / 1e6:.0f}",
            steps=run["steps"],
            rate=settings["rate"],
            extraction=f"{100 * settings['extraction']:.0f}",
            null_weight=settings["null_weight"],
            seed=settings["seed"],
            energy=f"{hours * WATTS / 1000:.2f}",
            carbon=f"{math.ceil(hours * WATTS / 1000 * GRAMS)}",
            unsettled=before["unsettled"],
            answers=len(rows),
            files="\n".join(f"| `{n}` | `{h}` |" for n, h in run["files"].items()),
            data=data_table(texts, True),
            documents=documents_table(documents["documents"]),
            held=wrapped(
                f"Kinds of everyday documents that were held out whole: {', '.join(documents['held_kinds'])}. What scores are"
                " measured on was left out by hash and by sequences of 13 words (`train/reading_texts.py`)."
                " `trained-on.bin` has the hashes of all texts. The base model is Apache-2.0. Licence of the adapter:"
                " Apache-2.0. None of the texts is in this folder."
            ),
        )
    )
    (a.to / "README.md").write_text(page, encoding="utf-8")
    list_hashes(a.to)
    return dict(null_bias=bias, calibration_error=errors, bytes=size)


def list_hashes(folder: Path) -> None:
    """SHA256SUMS of the folder above has this adapter, too, with the hashes that all its files have now."""
    path = folder.parent / "SHA256SUMS"
    lines = path.read_text().splitlines() if path.exists() else []
    listed = {line.split()[-1] for line in lines}
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        if f"{folder.name}/{name}" not in listed:
            lines.append(f"{'0' * 64}  {folder.name}/{name}")
    path.write_text("".join(line + "\n" for line in lines))
    sums(folder.parent)


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run", type=Path, required=True)
    p.add_argument("--to", type=Path, required=True)
    p.add_argument("--model", required=True, help="the base model's name for -m")
    p.add_argument("--texts", type=Path, required=True)
    p.add_argument("--documents", type=Path, required=True)
    p.add_argument("--trained", type=Path, nargs="*", default=[], help="files of what it was trained on")
    p.add_argument("--reading", type=Path)
    p.add_argument("--extraction", type=Path)
    return p


def main() -> None:
    print(json.dumps(write(arguments().parse_args()), indent=1))


if __name__ == "__main__":
    main()
