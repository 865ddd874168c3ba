"""Documents with their values as tokens, laid out as `banyan extract` lays them out: what `train.skeleton_lora` trains
on.

    python3 -m train.skeleton_data --docs FILE.jsonl --schema SCHEMA.json --model MODEL.gguf --out FILE.npz
        [--labels data | OUTPUT.jsonl | self] [--unlabelled null | skip] [--held 0.1]

FILE.jsonl and SCHEMA.json are what `banyan extract` takes. Labels come from the documents' own `values`, from a
teacher's output file (`banyan extract -o`, of any model), or from the model's own sequential output, which is made
first (`self`). Tokens, positions and slots are the engine's (`banyan extract --layout`), so nothing of the prompt is
rebuilt here. A share of the documents, chosen by a hash of their ids, is held out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from eval.banyan import Engine

AFTER, LAST = ",\n", "}"  # what the template goes on with after a value


MOST_CATEGORIES = 4000  # in a schema that the engine is given at once


def layouts(engine: Engine, docs: Path, schema: Path, options: list[str]) -> dict:
    """By document id: prompt, slots and pieces, as the engine is given them."""
    whole = json.loads(schema.read_text())
    if len(whole.get("categories", {})) <= MOST_CATEGORIES:
        return layouts_of(engine, docs, schema, options)
    out, records = {}, [json.loads(line) for line in docs.open(encoding="utf-8")]
    with tempfile.TemporaryDirectory() as folder:
        part, part_schema = Path(folder, "part.jsonl"), Path(folder, "schema.json")
        for at in range(0, len(records), MOST_CATEGORIES):
            some = records[at : at + MOST_CATEGORIES]
            part.write_text("".join(json.dumps(r) + "\n" for r in some))
            part_schema.write_text(
                json.dumps(dict(categories={r["category"]: whole["categories"][r["category"]] for r in some}))
            )
            out |= layouts_of(engine, part, part_schema, options)
    return out


def layouts_of(engine: Engine, docs: Path, schema: Path, options: list[str]) -> dict:
    command = [
        engine.binary,
        "extract",
        "-m",
        engine.model,
        str(docs),
        "--schema",
        str(schema),
        "--layout",
        "--quiet",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return {json.dumps(o["id"]): o for o in map(json.loads, done.stdout.splitlines())}


def is_held(name: str, share: float) -> bool:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") < share * 2**32


def attribute_types(schema: dict) -> dict[tuple[str, str], str]:
    """(category, attribute) → type; a JSON Schema has none here: its values are written as they are given."""
    if "attributes" in schema:
        return {("", a["name"]): a.get("type", "text") for a in schema["attributes"]}
    return {
        (c, a["name"]): a.get("type", "text")
        for c, of in schema.get("categories", {}).items()
        for a in of["attributes"]
    }


def label_text(value, kind: str) -> str:
    """A label as the JSON that is to be written. Several texts for one that is no list are spellings: the first is
    taken."""
    if isinstance(value, list) and kind != "list":
        value = value[0] if value else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = json.dumps(value)  # numbers are written as texts
    return json.dumps(value, ensure_ascii=False)


def value_tokens(whole: list[int], template: int, after: int, texts: list[str]) -> list[int]:
    """Of the tokens of piece, value and `after` characters of template: those from the slot to the value's end. The
    last may hold some of what follows."""
    end, left = len(whole), after
    while end > template + 1 and 0 < len(texts[whole[end - 1]]) <= left:
        end -= 1
        left -= len(texts[whole[end]])
    return whole[template:end]


def texts_of_tokens(engine: Engine, tokens: set[int]) -> list[str]:
    known = sorted(tokens)
    out = [""] * (known[-1] + 1)
    for t, row in zip(known, engine.ids([dict(kind="detokenize", ids=[t]) for t in known])):
        out[t] = row["text"]
    return out


def label_values(engine: Engine, a: argparse.Namespace, records: list[dict]) -> dict[str, dict]:
    """By document id: attribute → value, as far as there are labels."""
    if a.labels == "data":
        return {json.dumps(r["id"]): r["values"] for r in records}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(a.labels)
        if a.labels == "self":
            file = Path(folder, "self.jsonl")
            subprocess.run(
                [
                    engine.binary,
                    "extract",
                    "-m",
                    engine.model,
                    str(a.docs),
                    "--schema",
                    str(a.schema),
                    "--values",
                    "sequential",
                    "-o",
                    str(file),
                    "--overwrite",
                    "--quiet",
                ],
                check=True,
            )
        rows = [json.loads(line) for line in file.open(encoding="utf-8")]
    # What the model wrote, not what it was converted to: that is what a model is taught to write.
    return {json.dumps(o["id"]): {**o["values"], **o.get("raw", {})} for o in rows if "values" in o}


def encode(
    engine: Engine, records: list[dict], schema: dict, laid: dict, labels: dict, unlabelled: str, held: float
) -> dict[str, np.ndarray]:
    """Flat arrays. A document is a prompt, slots (template tokens, position, value tokens) and its sequential answer;
    `kept` says which slots have a label."""
    types = attribute_types(schema)
    plans = []
    for r in records:
        key = json.dumps(r["id"])
        if key not in laid or key not in labels:
            continue
        pieces = laid[key]["pieces"]
        category = r.get("category", "") if "categories" in schema else ""
        kinds = [types.get((category, p["name"]), types.get(("", p["name"]), "text")) for p in pieces]
        given = [p["name"] in labels[key] for p in pieces]
        values = [label_text(labels[key].get(p["name"]), kind) for p, kind in zip(pieces, kinds)]
        plans.append((key, values, kinds, [g or unlabelled == "null" for g in given]))
    wanted = {}
    for key, values, kinds, _ in plans:
        pieces = laid[key]["pieces"]
        for n, (p, v) in enumerate(zip(pieces, values)):
            wanted.setdefault(p["text"] + " " + v + (LAST if n == len(pieces) - 1 else AFTER))
        wanted.setdefault(sequential_text(pieces, values))
    tokens = dict(zip(wanted, engine.tokenize(list(wanted))))
    texts = texts_of_tokens(engine, {t for run in tokens.values() for t in run})
    flat: dict[str, list] = {name: [] for name in ("prompt", "template", "value", "answer", "answer_label")}
    ends: dict[str, list] = {name: [0] for name in flat}
    position, kept, slots, train = [], [], [0], []
    for key, values, kinds, keeps in plans:
        layout, pieces = laid[key], laid[key]["pieces"]
        made = []
        for n, (slot, p, v, kind) in enumerate(zip(layout["slots"], pieces, values, kinds)):
            after = LAST if n == len(pieces) - 1 else AFTER
            whole = tokens[p["text"] + " " + v + after]
            template = len(slot["tokens"])
            if whole[:template] != slot["tokens"]:
                break
            made.append(value_tokens(whole, template, len(after), texts)[: slot["max_tokens"]])
        if len(made) < len(pieces):
            continue
        answer = tokens[sequential_text(pieces, values)]
        marks = value_marks(answer, pieces, values, keeps, texts)
        if marks is None:
            continue
        rows = [
            ("prompt", layout["prompt"]),
            *(("template", s["tokens"]) for s in layout["slots"]),
            *(("value", v) for v in made),
            ("answer", answer),
            ("answer_label", marks),
        ]
        for name, run in rows:
            flat[name] += run
            ends[name].append(len(flat[name]))
        position += [s["position"] for s in layout["slots"]]
        kept += keeps
        slots.append(len(position))
        train.append(not is_held(key, held))
    small = np.uint16 if max(map(max, (flat["prompt"], flat["answer"]))) < 65536 else np.uint32
    out = {name: np.array(run, np.uint8 if name == "answer_label" else small) for name, run in flat.items()}
    out |= {name + "_end": np.array(run, np.int64) for name, run in ends.items() if name != "answer_label"}
    return out | dict(
        position=np.array(position, np.int32),
        kept=np.array(kept),
        slots=np.array(slots, np.int64),
        train=np.array(train),
    )


def sequential_text(pieces: list[dict], values: list[str]) -> str:
    return "".join(p["text"] + " " + v for p, v in zip(pieces, values)) + LAST


def value_marks(
    answer: list[int], pieces: list[dict], values: list[str], keeps: list[bool], texts: list[str]
) -> list[int] | None:
    """1 for the tokens of the sequential answer that hold some of a labelled value. None where tokens are no whole
    characters."""
    places, at = [], 0
    for p, v, keep in zip(pieces, values, keeps):
        begin = at + len(p["text"])
        at = begin + 1 + len(v)
        if keep:
            places.append((begin, at))
    marks, begin, n = [], 0, 0
    for token in answer:
        if "\ufffd" in texts[token]:
            return None
        end = begin + len(texts[token])
        while n < len(places) and places[n][1] <= begin:
            n += 1
        marks.append(1 if n < len(places) and end > places[n][0] else 0)
        begin = end
    return marks


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--docs", type=Path, required=True)
    p.add_argument("--schema", type=Path, required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--labels", default="data")
    p.add_argument(
        "--unlabelled",
        default="null",
        choices=["null", "skip"],
        help="attributes without a label are null, or teach nothing",
    )
    p.add_argument("--held", type=float, default=0.1)
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("options", nargs="*", help="options for `banyan extract`, after --: they change the layout")
    a = p.parse_args()
    records = [json.loads(line) for line in a.docs.open(encoding="utf-8")]
    engine = Engine(a.banyan, a.model)
    laid = layouts(engine, a.docs, a.schema, a.options)
    data = encode(
        engine, records, json.loads(a.schema.read_text()), laid, label_values(engine, a, records), a.unlabelled, a.held
    )
    np.savez_compressed(a.out, **data)
    print(
        f"{len(data['train'])} of {len(records)} documents, {data['train'].sum()} to train, {len(data['position'])}"
        f" slots, {a.out.stat().st_size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
