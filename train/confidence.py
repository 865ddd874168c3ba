"""Fits the confidence of a model's card: how likely an answer is right, from the log-probability of its tokens.

    python3 -m train.confidence CALIBRATION.jsonl … --task ask | extract --card models/smollm2-reader/banyan.json
    python3 -m train.confidence DEV.jsonl --task choice --test TEST.jsonl --card models/smollm2-reader/banyan.json
    python3 -m train.confidence ROWS.jsonl … --task rag --card models/smollm2-reader/banyan.json

CALIBRATION.jsonl is what the trainers write at their end: a line for every held-out answer, with its log-probabilities
and whether it was right. For each kind of answer P(right) = sigmoid(scale * x + offset) is fitted by least log-loss, x
the log-odds of the probability with which the model wrote it. A kind with few lines shares those of all. Prints the
expected calibration error on the other half of the lines, fitted on one half; what the card gets is fitted on all. The
card's other fields stay.

For `choice` the files are those of `eval.choices --rows`: every way of comparing options gets a fit of its own from the
log-odds of the chosen option's share, as the kinds `choice-sum`, `choice-mean`, `choice-prior` and `choice-letter` of
the task `ask`. The error is that of `--test`. The card says `"choices": "letter"` where letters are right at least five
times in a hundred more often than `sum`.

For `rag` the files are those of `python3 -m eval rag-tables`: the rows of experts, with the evidence of each answer (from
the confidence of `ask`; it chooses answers and alternatives, and the fit changes neither). Nulls are right where no
document has the answer (--without-gold); without such rows nulls get no fit. Both halves have all rows of a group.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from eval.metrics import calibration_error, exact_match

FEWEST = 150  # lines of a kind that has a fit of its own
LEAST, MOST = -30.0, 12.0  # log-odds beyond them say no more


def lines(path: Path, task: str) -> list[tuple[str, float, bool]]:
    """(kind, x, right)"""
    found = []
    for row in map(json.loads, path.open(encoding="utf-8")):
        if task == "choice":
            found += [
                (f"choice-{way}", math.log(max(one["probability"], 1e-300)), bool(one["right"]))
                for way, one in row["ways"].items()
            ]
        elif task == "ask":
            right = row["exact"] or (row["is_null"] and not row["answerable"])
            found.append(("null" if row["is_null"] else "answer", row["logprob"], bool(right)))
        else:
            found.append(("null" if row["null"] else row["type"], row["sum"], bool(row["right"])))
    return found


def rag_lines(path: Path) -> list[tuple[str, str, float, bool]]:
    """(group, kind, x, right) of answers of experts."""
    rows: dict[tuple, dict] = {}  # a row that was asked again stands later
    for row in map(json.loads, path.open(encoding="utf-8")):
        rows[row["id"], row["method"], row["documents"], row["gold_there"]] = row
    found = []
    for row in rows.values():
        if row["method"] != "experts" or row.get("evidence") is None:
            continue
        right = exact_match(row["answer"] or "null", row["gold"] if row["gold_there"] else [])
        kind = "null" if row["answer"] is None else "answer"
        found.append((row["group"], kind, math.log(max(row["evidence"], 1e-12)), right))
    return found


def rag_fits(found: list[tuple[str, float, bool]]) -> dict[str, tuple[float, float]]:
    """Each kind by itself: evidence of answers says nothing of nulls. A kind that was never right has no fit."""
    return {kind: made for kind, made in fits(found).items() if kind and any(r for k, _, r in found if k == kind)}


def fit_rag(files: list[Path], card: dict) -> str:
    found = [line for path in files for line in rag_lines(path)]
    groups = sorted({line[0] for line in found})
    first = set(groups[::2])
    half = rag_fits([line[1:] for line in found if line[0] in first])
    test = [line[1:] for line in found if line[0] not in first and line[1] in half]
    said = [f"{len(found)} answers of {len(groups)} groups"]
    for kind in sorted(half):
        of = [(x, float(right)) for k, x, right in test if k == kind]
        if of:
            x, right = np.array([one[0] for one in of]), np.array([one[1] for one in of])
            said.append(
                f"{kind}: {right.mean():.3f} of {len(of)} not fitted right; expected calibration error"
                f" {calibration_error(zip(probability(x, *half[kind]), right)):.3f}, of the evidence as it is"
                f" {calibration_error(zip(np.exp(x), right)):.3f}"
            )
    made = rag_fits([line[1:] for line in found])
    card.setdefault("confidence", {})["rag"] = {
        kind: dict(feature="log_odds", scale=round(scale, 4), offset=round(offset, 4))
        for kind, (scale, offset) in made.items()
    }
    return "\n".join(said)


def log_odds(logprob: np.ndarray) -> np.ndarray:
    below_one = np.minimum(np.asarray(logprob, float), -1e-9)
    return np.clip(below_one - np.log(-np.expm1(below_one)), LEAST, MOST)


def fit(x: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """scale, offset by Newton's method with halved steps, and a weak pull to (1, 0) so that a kind without errors has
    an end."""
    w = np.array([1.0, 0.0])
    a = np.stack([log_odds(x), np.ones_like(x)], 1)

    def loss(w: np.ndarray) -> float:
        z = a @ w
        return float((np.logaddexp(0.0, z) - right * z).sum() + 0.05 * ((w - np.array([1.0, 0.0])) ** 2).sum())

    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(a @ w, -30, 30)))
        gradient = a.T @ (p - right) + 0.1 * (w - np.array([1.0, 0.0]))
        hessian = (a * (p * (1 - p))[:, None]).T @ a + 0.1 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        while (
            loss(w - step) > loss(w) and np.abs(step).max() > 1e-9
        ):  # a whole step may overshoot where most answers are sure
            step = step / 2
        w = w - step
        if np.abs(step).max() < 1e-9:
            break
    return max(float(w[0]), 0.0), float(w[1])


def probability(x: np.ndarray, scale: float, offset: float) -> np.ndarray:
    return 1 / (1 + np.exp(-(scale * log_odds(x) + offset)))


def fits(found: list[tuple[str, float, bool]]) -> dict[str, tuple[float, float]]:
    kinds = sorted({k for k, _, _ in found})
    out = {}
    values = [f for f in found if f[0] != "null"]
    for kind in kinds:
        own = [f for f in found if f[0] == kind]
        use = own if len(own) >= FEWEST or kind == "null" or kind.startswith("choice-") else values
        out[kind] = fit(np.array([x for _, x, _ in use]), np.array([r for _, _, r in use], float))
    out[""] = fit(np.array([x for _, x, _ in values]), np.array([r for _, _, r in values], float))
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", type=Path, nargs="+")
    p.add_argument("--task", choices=["ask", "extract", "choice", "rag"], required=True)
    p.add_argument("--test", type=Path, help="for choice: answers that nothing is fitted on")
    p.add_argument("--card", type=Path, required=True)
    a = p.parse_args()
    card = json.loads(a.card.read_text()) if a.card.exists() else {}
    if a.task == "rag":
        print(fit_rag(a.files, card))
        a.card.write_text(json.dumps(card, indent=1) + "\n")
        return
    found = [f for path in a.files for f in lines(path, a.task) if math.isfinite(f[1])]
    if a.task == "choice":
        made = fits(found)
        del made[""]
        test = lines(a.test, "choice") if a.test else []
        for kind, (scale, offset) in made.items():
            x, right = np.array([x for k, x, _ in test if k == kind]), np.array(
                [r for k, _, r in test if k == kind], float
            )
            if len(x):
                print(
                    f"{kind}: {right.mean():.3f} of {len(x)} right; expected calibration error"
                    f" {calibration_error(zip(probability(x, scale, offset), right), 5):.3f}, of the shares as they are"
                    f" {calibration_error(zip(np.exp(x), right), 5):.3f} (5 bins)"
                )
            card.setdefault("confidence", {}).setdefault("ask", {})[kind] = dict(
                feature="log_odds", scale=round(scale, 4), offset=round(offset, 4)
            )
        of = lambda kind: np.mean([right for k, _, right in found if k == kind] or [0.0])
        card.pop("choices", None)
        if of("choice-letter") >= of("choice-sum") + 0.05:
            card["choices"] = "letter"
        a.card.write_text(json.dumps(card, indent=1) + "\n")
        return
    half = fits(found[::2])
    test = found[1::2]
    guessed = np.array([float(probability(np.array([x]), *half.get(k, half[""]))[0]) for k, x, _ in test])
    right = np.array([r for _, _, r in test], float)
    print(
        f"{len(found)} answers, {np.mean([r for _, _, r in found]):.3f} right; expected calibration error on"
        f" {len(test)} not fitted: {calibration_error(zip(guessed, right)):.3f}, uncalibrated"
        f" {calibration_error(zip(np.exp([x for _, x, _ in test]), right)):.3f}"
    )
    made = {k: dict(feature="log_odds", scale=round(s, 4), offset=round(o, 4)) for k, (s, o) in fits(found).items()}
    kept = {k: v for k, v in card.get("confidence", {}).get(a.task, {}).items() if k.startswith("choice-")}
    card.setdefault("confidence", {})[a.task] = {**made.pop(""), **made, **kept}
    a.card.write_text(json.dumps(card, indent=1) + "\n")


if __name__ == "__main__":
    main()
