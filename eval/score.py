"""Prints the score table of the shipped model, on held-out data, through Banyan on the CPU:

    python3 -m eval.score [-m models/banyan-reader-34m.gguf] [--scale 1.0] [--json scores.json] [-- --threads 2]

Rows marked `engine` are decoded by Banyan (`ids`, or `ask` with --through ask). Rows marked `reference` are decoded by
`train.reference`, the slow form of methods sections 5 and 6.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from eval.banyan import Engine
from eval.metrics import exact_match
from eval.sets import make_sets
from eval.skeletons import answer_experts, extract_instruction, extract_skeleton
from train.reference import load_gguf
from train.tokenizer import load_tokenizer

TARGETS = {
    "haystack ≤ 1000 tokens, exact match": 0.97,
    "haystack 3000 tokens, exact match": 0.93,
    "unanswerable": 0.95,
    "multiple choice": 0.95,
    "attributes, sequential, F1": 0.95,
    "attributes, skeleton, F1": 0.95,
    "secret code, right document": 0.95,
    "secret code among 16, experts": 0.95,
    "two-hop, right documents": 0.80,
    "two-hop among 16, experts": 0.80,
}


class Table:
    def __init__(self) -> None:
        self.rows: list[dict] = []

    def add(self, name: str, score: float, count: int, by: str, began: float) -> None:
        self.rows.append(
            dict(
                task=name,
                score=round(score, 4),
                answers=count,
                decoded_by=by,
                target=TARGETS.get(name),
                seconds=round(time.time() - began, 1),
            )
        )
        row = self.rows[-1]
        verdict = (
            ""
            if row["target"] is None
            else f"target {row['target']:.2f} {'met' if score >= row['target'] else 'MISSED'}"
        )
        print(f"{name:40} {score:7.3f}  of {count:4} answers  {by:9} {row['seconds']:7.1f} s  {verdict}", flush=True)


def score_questions(records: list[dict], answers: list[list[str]], wrong: list[dict]) -> tuple[list[bool], list[bool]]:
    """(answerable right?, unanswerable right?)"""
    known, unknown = [], []
    for r, given in zip(records, answers):
        for q, a in zip(r["questions"], given):
            right = exact_match(a, q["answers"])
            (known if q["answers"] else unknown).append(right)
            if not right:
                wrong.append(dict(id=r["id"], question=q["question"], answers=q["answers"], given=a))
    return known, unknown


def score_engine(engine: Engine, sets: dict[str, list[dict]], table: Table, through: str, wrong: list[dict]) -> None:
    mean = lambda flags: sum(flags) / len(flags)
    ask = engine.answer_ask if through == "ask" else engine.answer_ids
    nulls: list[bool] = []
    for name, label in (
        ("haystack_1k", "haystack ≤ 1000 tokens, exact match"),
        ("haystack_3k", "haystack 3000 tokens, exact match"),
    ):
        began = time.time()
        known, unknown = score_questions(sets[name], ask(sets[name], 40), wrong)
        nulls += unknown
        table.add(label, mean(known), len(known), "engine", began)
    table.add("unanswerable", mean(nulls), len(nulls), "engine", time.time())
    for name, label in (
        ("choice", "multiple choice"),
        ("code", "secret code, right document"),
        ("two_hop_joined", "two-hop, right documents"),
    ):
        began = time.time()
        known, _ = score_questions(sets[name], ask(sets[name], 40), wrong)
        table.add(label, mean(known), len(known), "engine", began)
    began, given = time.time(), []
    outputs = engine.complete([(extract_instruction(r["attributes"]), r["text"]) for r in sets["extract"]], 500)
    for r, text in zip(sets["extract"], outputs):
        try:
            values = json.loads(text)
        except json.JSONDecodeError:
            values = None
        given.append(values if isinstance(values, dict) else {})
    add_values(engine, "attributes, sequential, F1", "engine", began, sets["extract"], given, table, wrong)


def add_values(
    engine: Engine,
    label: str,
    by: str,
    began: float,
    records: list[dict],
    given: list[dict],
    table: Table,
    wrong: list[dict],
) -> None:
    score = engine.score_values(records, given)
    table.add(label, score["f1"], score["slots"], by, began)
    for r, values in zip(records, given):
        for a, gold in r["values"].items():
            value = values.get(a)
            if value is not None and not (gold and exact_match(str(value), gold)) or value is None and gold:
                wrong.append(dict(id=r["id"], attribute=a, answers=gold, given=value))


def score_skeletons(engine: Engine, model: Path, sets: dict[str, list[dict]], table: Table, wrong: list[dict]) -> None:
    net, tok = load_gguf(model), load_tokenizer(model)
    for label, options in (
        ("attributes, skeleton, F1", {}),
        ("  … template without last space", dict(spaced=False)),
        ("  … isolated values", dict(isolated=True)),
    ):
        began = time.time()
        given = [dict(zip(r["attributes"], extract_skeleton(net, tok, r, **options))) for r in sets["extract"]]
        add_values(engine, label, "reference", began, sets["extract"], given, table, wrong)


def score_experts(model: Path, sets: dict[str, list[dict]], table: Table, wrong: list[dict]) -> None:
    net, tok = load_gguf(model), load_tokenizer(model)
    for name, label in (("code_16", "secret code among 16, experts"), ("two_hop_16", "two-hop among 16, experts")):
        began, right = time.time(), []
        for r in sets[name]:
            answer, winners = answer_experts(net, tok, r)
            right.append(exact_match(answer, r["answers"]))
            if not right[-1]:
                wrong.append(
                    dict(
                        id=r["id"],
                        question=r["question"],
                        answers=r["answers"],
                        given=answer,
                        winners=winners,
                        gold=[d["gold"] for d in r["documents"]],
                    )
                )
        table.add(label, sum(right) / len(right), len(right), "reference", began)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", default="models/banyan-reader-34m.gguf")
    p.add_argument("--binary", default="build/release/banyan")
    p.add_argument("--precision", default="mixed", choices=("mixed", "f32"))
    p.add_argument("--through", default="ids", choices=("ids", "ask"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--scale", type=float, default=1.0, help="size of the sets; 0.1 is a quick look")
    p.add_argument("--only", choices=("engine", "skeletons", "experts"))
    p.add_argument("--json", type=Path, help="write the table here")
    p.add_argument("--wrong", type=Path, help="write every wrong answer here (JSONL)")
    p.add_argument("options", nargs="*", help="passed on to banyan, after --")
    a = p.parse_args()
    sets, table, wrong = make_sets(a.seed, a.scale), Table(), []
    engine = Engine(a.binary, a.model, ("--precision", a.precision, *a.options))
    if a.only in (None, "engine"):
        score_engine(engine, sets, table, a.through, wrong)
    if a.only in (None, "skeletons"):
        score_skeletons(engine, Path(a.model), sets, table, wrong)
    if a.only in (None, "experts"):
        score_experts(Path(a.model), sets, table, wrong)
    if a.json:
        a.json.write_text(
            json.dumps(
                dict(seed=a.seed, scale=a.scale, precision=a.precision, through=a.through, rows=table.rows),
                indent=1,
                ensure_ascii=False,
            )
            + "\n"
        )
    if a.wrong:
        a.wrong.write_text("".join(json.dumps(w, ensure_ascii=False) + "\n" for w in wrong))


if __name__ == "__main__":
    main()
