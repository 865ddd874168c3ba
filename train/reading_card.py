"""What a run of `train/readers.sh` left → `models/`: the adapter or the model file, its card, log and curve.

    python3 -m train.reading_card --result OUT/result/large --texts texts.json --scores ask.json --to
        models/smollm2-reader
    python3 -m train.reading_card --result OUT/result/small --texts texts.json --scores ask.json --to models

`--texts` is the report of `train.reading_texts`, `--scores` the JSON of `eval.reading` on the new model. Every number
of a card comes from these files. `--trained texts.jsonl.xz` writes the hashes of the training texts beside the card
(`train.trained_on`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import textwrap
from pathlib import Path

from eval.reading import table_of
from train import trained_on
from train.plot import KIND_NAMES, KIND_TITLE, KINDS, draw
from train.reading_texts import OTHER_LANGUAGES

CARDS = Path(__file__).parent / "cards"
WATTS, GRAMS = 700, 400  # of an H200; CO₂ of a kWh
# File → (name, licence).
LICENCES = {
    "squad_train": ("SQuAD 1.1 and 2.0 (training articles)", "CC BY-SA 4.0"),
    "squadshifts_new_wiki": ("SQuADShifts, new Wikipedia", "CC BY 4.0; text CC BY-SA"),
    "squadshifts_amazon": ("SQuADShifts, reviews", "CC BY 4.0"),
    "squadshifts_reddit": ("SQuADShifts, forum", "CC BY 4.0"),
    "qamr": ("QAMR", "MIT"),
    "afriqa_en": ("AfriQA, English", "CC BY 4.0; text CC BY-SA"),
    "afriqa_fr": ("AfriQA, French", "CC BY 4.0; text CC BY-SA"),
    "wikitablequestions_cell": ("WikiTableQuestions", "CC BY-SA 4.0"),
    "doqa": ("DoQA", "CC BY-SA 4.0"),
    "iirc": ("IIRC", "CC BY 4.0"),
    "fairytaleqa_span": ("FairytaleQA", "Apache-2.0"),
    "nq_short": ("Natural Questions (QED, lost-in-the-middle)", "CC BY-SA 3.0; MIT"),
    "tatqa_spans": ("TAT-QA", "CC BY 4.0"),
    "qasper_evidence": ("QASPER", "CC BY 4.0"),
    "adversarialqa_unanswerable": ("AdversarialQA, without an answer", "MIT; text CC BY-SA"),
    "clapnq_unanswerable": ("CLAPNQ, without an answer", "Apache-2.0; text CC BY-SA"),
    "hotpotqa_train": ("HotpotQA", "CC BY-SA 4.0"),
    "musique_train": ("MuSiQue", "CC BY 4.0"),
    "xquad_de": ("XQuAD, German", "CC BY-SA 4.0"),
    "xquad_es": ("XQuAD, Spanish", "CC BY-SA 4.0"),
    "piaf": ("PIAF, French", "MIT; text CC BY-SA"),
    "ewt": ("UD English-EWT: mails, reviews, answers", "CC BY-SA 4.0"),
    "gum": ("GUM: news, interviews, travel", "CC BY 2.5 to CC BY-SA 3.0"),
    "onestopenglish": ("OneStopEnglish: news", "CC BY-SA 4.0"),
    "us_gov_pages": ("US government pages", "public domain, CC0"),
    "recipes": ("based.cooking", "public domain"),
}


def data_table(report: dict, languages: bool) -> str:
    lines = ["| texts | licence | texts | questions with an answer | without |", "|---|---|---|---|---|"]
    for name, row in report["rows"].items():
        source, split = name.rsplit(", ", 1)
        if split == "train" and source in LICENCES and (languages or source not in OTHER_LANGUAGES):
            lines.append(
                f"| {LICENCES[source][0]} | {LICENCES[source][1]} | {row['texts']} | {row['answered']} |"
                f" {row['null']} |"
            )
    held = ", ".join(
        LICENCES[n.rsplit(", ", 1)[0]][0]
        for n in report["rows"]
        if n.endswith(", held") and n.rsplit(", ", 1)[0] in LICENCES
    )
    rest = (
        "Questions without an answer include near misses made by rules and questions put to other texts; passages"
        " without people's questions have cloze questions."
    )
    return "\n".join(lines) + "\n\n" + wrapped(f"{rest} Held out, in whole or one article in twenty: {held}.") + "\n"


def wrapped(text: str, further: str = "") -> str:
    """Lines of prose as the pages have them; `further` stands before all but the first."""
    return "\n".join(
        textwrap.wrap(text, 118, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
    )


def kinds_table(run: dict) -> str:
    lines = [
        "| | questions | F1 where there is an answer | `null` where there is none | `null` where there is an answer |",
        "|---|---|---|---|---|",
    ]
    shown = lambda value: "–" if value is None else f"{100 * value:.0f} %"
    for kind, after in run["held"].items():
        before = run["before"][kind]
        cells = [
            f"{shown(before[k])} → {shown(after[k])}" if after[k] is not None else "–"
            for k in ("answerable_f1", "null", "denied")
        ]
        lines.append(f"| {KIND_NAMES.get(kind, kind)} | {after['questions']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def limits(run: dict) -> str:
    """The kinds that it reads worst, and how often it denies."""
    held = {k: v for k, v in run["held"].items() if v["answerable_f1"] is not None}
    worst = sorted(held, key=lambda k: held[k]["answerable_f1"])[:2]
    denied = max(held, key=lambda k: held[k]["denied"] or 0.0)
    poor = " and ".join(
        f"{KIND_NAMES.get(k, k)} (F1 {held[k]['answerable_f1']:.2f} where there is an answer)" for k in worst
    )
    points = (
        f"- It reads worst of the held-out kinds: {poor}.",
        (
            f"- It says `null` to {100 * (held[denied]['denied'] or 0):.0f} % of the questions with an answer on"
            f" {KIND_NAMES.get(denied, denied)}, the most of all kinds."
        ),
        "- It does not reason, count or compute; what needs two sentences joined is often wrong.",
    )
    return "\n".join(wrapped(point, "  ") for point in points)


def card(template: str, run: dict, report: dict, scored: dict, size: int, small: bool) -> str:
    hours = run["seconds"] / 3600
    sets = scored if all(isinstance(next(iter(v.values())), dict) for v in scored.values()) else {"questions": scored}
    natural = sets.get("natural", {})
    best = next((row for label, row in natural.items() if label.endswith("--copy")), None) or next(
        (r for label, r in natural.items() if "null" not in label), None
    )
    first = (
        ""
        if best is None
        else (
            "Of a hundred questions about everyday English texts that it was not tuned to"
            f" (`eval/samples/natural.jsonl`) it answers {100 * best['exact']:.0f} right; `null` to every question gets"
            f" {100 * natural['`null` to all']['exact']:.0f}."
        )
    )
    return template.format(
        rank=run["settings"]["rank"],
        megabytes=f"{size / 1e6:.1f}",
        tables="\n".join(table_of(n, rows) for n, rows in sets.items()),
        kinds=kinds_table(run),
        limits=limits(run),
        minutes=f"{run['seconds'] / 60:.0f}",
        device=run["device"],
        million=f"{run['tokens'] / 1e6:.0f}",
        steps=run["steps"],
        energy=f"{hours * WATTS / 1000:.2f}",
        carbon=f"{hours * WATTS / 1000 * GRAMS:.0f}",
        data=data_table(report, not small),
        first=first,
    )


def sums(folder: Path) -> None:
    """SHA256SUMS with the hashes that the files have now."""
    path = folder / "SHA256SUMS"
    names = [line.split()[-1] for line in path.read_text().splitlines()]
    path.write_text("".join(f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--result", type=Path, required=True)
    p.add_argument("--texts", type=Path, required=True)
    p.add_argument("--scores", type=Path, required=True)
    p.add_argument("--to", type=Path, required=True)
    p.add_argument("--trained", type=Path, nargs="*", default=[], help="files of what it was trained on")
    a = p.parse_args()
    run, report, scored = (json.loads(f.read_text()) for f in (a.result / "run.json", a.texts, a.scores))
    log = [json.loads(line) for line in (a.result / "log.jsonl").read_text().splitlines()]
    small = (a.result / "reader.gguf").exists()
    a.to.mkdir(parents=True, exist_ok=True)
    if small:
        model = a.to / "banyan-reader-34m.gguf"
        shutil.copyfile(a.result / "reader.gguf", model)
    else:
        model = a.to / "adapter_model.safetensors"
        for f in (a.result / "adapter").iterdir():
            shutil.copyfile(f, a.to / f.name)
    own = CARDS / f"{a.to.name}.md"
    template = (
        CARDS / "banyan-reader-34m.md" if small else own if own.exists() else CARDS / "smollm2-reader.md"
    ).read_text()
    (a.to / "README.md").write_text(card(template, run, report, scored, model.stat().st_size, small))
    (a.to / "training-log.json").write_text("[\n" + ",\n".join(json.dumps(e) for e in log) + "\n]\n")
    (a.to / "training.svg").write_text(draw(log, KINDS, KIND_NAMES, KIND_TITLE))
    if a.trained:
        trained_on.write(model if small else a.to, trained_on.trained_texts(a.trained, None))
    sums(a.to if small else a.to.parent)
    print(f"{a.to}: {model.stat().st_size} bytes")


if __name__ == "__main__":
    main()
