"""A finished run as the adapter that ships: `python3 -m train.extract_publish --run OUT/lora --mix mix-*.json --out
models/smollm2-extract`.

Copies the adapter, writes its card with the data, their licences and the scores of `scores.json`, and keeps log and
curve out of it. An adapter of more than 20 MB is refused. `--full scores.json` adds the run with all weights for
comparison. `--trained FILE …` writes the hashes of the texts of these files beside the card (`train.trained_on`): all
of them, though the mix takes a part, so that nothing that was learnt counts as new.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from train import trained_on

MOST_BYTES = 20_000_000
LICENCES = {
    "oa_mine_train": ("product titles, OA-Mine as ExtractGPT publishes it", "Apache-2.0"),
    "sgd_dialogues": ("Schema-Guided Dialogue", "CC BY-SA 4.0"),
    "crossner": ("CrossNER", "MIT"),
    "references_anystyle": ("reference strings, AnyStyle", "BSD 2-clause"),
    "e2e_restaurants": ("E2E, cleaned", "CC BY-SA 4.0"),
    "us_addresses": ("usaddress", "MIT"),
    "squad_train": ("SQuAD 1.1", "CC BY-SA 4.0"),
    "unanswerable_constructed": ("derived from SQuAD and SquadShifts", "CC BY-SA 4.0"),
    "unanswerable_constructed_informal": ("derived from SquadShifts", "CC BY 4.0"),
    "squadshifts_amazon": ("SquadShifts", "CC BY 4.0"),
    "squadshifts_new_wiki": ("SquadShifts", "CC BY 4.0"),
    "squadshifts_reddit": ("SquadShifts", "CC BY 4.0"),
    "nq_short": ("Natural Questions", "CC BY-SA 3.0"),
    "afriqa_en": ("AfriQA", "CC BY 4.0"),
    "tatqa_spans": ("TAT-QA", "CC BY 4.0"),
    "wikitablequestions_cell": ("WikiTableQuestions", "CC BY-SA 4.0"),
    "qamr": ("QAMR", "MIT"),
    "fairytaleqa_span": ("FairytaleQA", "Apache-2.0"),
    "doqa": ("DoQA", "CC BY-SA 4.0"),
    "iirc": ("IIRC", "CC BY 4.0"),
    "piaf": ("PIAF (French)", "MIT"),
    "adversarialqa_unanswerable": ("AdversarialQA", "MIT; texts CC BY-SA"),
    "clapnq_unanswerable": ("CLAPNQ", "Apache-2.0"),
    "everyday": ("generated, `train/everyday`", "Apache-2.0"),
    "natural": ("generated, `train/natural`", "Apache-2.0"),
    "foreign": (
        "empty documents, and parts of US government pages, OneStopEnglish, GUM, with nothing to find",
        "public domain, CC BY-SA 4.0, CC BY",
    ),
}
SOURCES = {
    "everyday": "everyday documents of five kinds held out",
    "everyday stack": "stacks of them",
    "everyday items": "their line items",
    "oa_mine_train": "product titles",
    "sgd_dialogues": "dialogues",
    "crossner": "entities",
    "references_anystyle": "references",
    "e2e_restaurants": "restaurants",
    "us_addresses": "addresses",
}


def counts_of(files: list[Path]) -> dict[str, int]:
    out: dict[str, int] = {}
    for file in files:
        for name, count in json.loads(file.read_text()).items():
            out[name] = out.get(name, 0) + count
    return out


def data_table(counts: dict[str, int]) -> str:
    rows = ["| source | rows | held out | tokens | licence |", "|---|---|---|---|---|"]
    tokens = sum(v for k, v in counts.items() if k.startswith("tokens "))
    for name in sorted({k.removeprefix("tokens ") for k in counts if k.startswith("tokens ")}):
        about, licence = LICENCES[name.split(" ")[0]]
        extra = {"stack": ", several in a prompt", "items": ", objects of a list"}.get(name.split(" ")[-1], "")
        rows.append(
            f"| {about}{extra} | {counts.get(name, 0)} | {counts.get('held ' + name, 0)} |"
            f" {100 * counts['tokens ' + name] / tokens:.1f} % | {licence} |"
        )
    return "\n".join(rows)


def score_table(written: dict[str, dict], names: dict[str, str]) -> str:
    number = lambda x: "–" if x is None else f"{x:.3f}"
    rows = ["| | slots | right | all null | F1 | null P | null R |", "|---|---|---|---|---|---|---|"]
    rows += [
        f"| {names.get(k, k)} | {s['slots']} | {number(s['right'])} | {number(s['all_null'])} | {number(s['f1'])} |"
        f" {number(s['null_precision'])} | {number(s['null_recall'])} |"
        for k, s in written.items()
    ]
    return "\n".join(rows)


def card(result: dict, counts: dict[str, int], size: int, full: dict | None) -> str:
    settings, written = result["settings"], result["written"]
    other = (
        f"\nAll weights trained on the same data (not shipped): right {full['written']['all']['right']:.3f}, F1"
        f" {full['written']['all']['f1']:.3f} on the same documents.\n"
        if full
        else ""
    )
    return f"""# smollm2-extract

A LoRA adapter for SmolLM2-135M-Instruct that writes the values of `banyan extract`: all at once, several documents in a
prompt (`--stack`), or one after another. It writes what stands in the document (`"60 EUR"`, `"31. Mai 2024"`, `"two"`),
`true` or `false`, a value of an enum, a list of spans, or null; the program converts. Rank {settings['rank']} on \
all projections,
{size / 1e6:.1f} MB. Second edition.

<!-- not run: needs a network -->
```console
$ make model
$ banyan extract -m smollm2-135m-instruct --adapter smollm2-extract pages.jsonl --schema schema.json -o values.jsonl
```

## Scores
Held-out documents, values written greedily and without any constraint by the trainer's own arithmetic; `right` is the
share of slots with the very value, `all null` what null everywhere would get, F1 strict (nulls are not counted).

{score_table(dict(all=written['all'], **written['by_source']), SOURCES)}

Everyday documents of held-out kinds by type:

{score_table(written['everyday_by_type'], {})}
{other}
`docs/results.md` has the scores through the program.

## Training
`train/README.md` has the recipe: {result['documents']} rows, {result['steps']} steps of about \
{settings['batch_tokens']} tokens in {result['seconds']:.0f} s on an H200 that two
runs shared; the weights of step {result['best_step']}, the best on held-out kinds. One row in eight is sequential.

{data_table(counts)}

No text of the evaluation sets is in it (by hash and by 13 words in a row; \
{counts.get('left out: in the evaluation', 0)} rows were left out for that). None of
the texts is in this folder. The base model is Apache-2.0; the adapter was trained against its Q4_1 weights,
dequantised. Licence of the adapter: Apache-2.0.
"""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run", type=Path, required=True)
    p.add_argument("--mix", type=Path, nargs="+", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--full", type=Path, help="scores.json of the run with all weights")
    p.add_argument("--trained", type=Path, nargs="*", default=[], help="files of what it was trained on")
    a = p.parse_args()
    adapter = a.run / "adapter"
    size = (adapter / "adapter_model.safetensors").stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{adapter}: expected at most {MOST_BYTES} bytes, found {size}")
    a.out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(adapter / "adapter_model.safetensors", a.out / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["target_modules"] = sorted(config["target_modules"])
    (a.out / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    full = json.loads(a.full.read_text()) if a.full else None
    (a.out / "README.md").write_text(
        card(json.loads((a.run / "scores.json").read_text()), counts_of(a.mix), size, full), encoding="utf-8"
    )
    if a.trained:
        trained_on.write(a.out, trained_on.trained_texts(a.trained, None))
    print(f"{a.out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
