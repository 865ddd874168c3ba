"""The log of a run as JSON and as a picture: `python3 -m train.plot --in train/runs/model --json models/training-log.json --svg models/training.svg`;
of `train.reading_leg`: `--log OUT/small/log.jsonl` instead of `--in`.

Plain SVG, no plotting library: loss (left axis) and held-out scores per task (right axis) over training progress.
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 860, 420, 60, 30, 50, 230
SHOWN = {"fact": "#1f77b4", "fact@3k": "#17becf", "null": "#7f7f7f", "choice": "#2ca02c", "sequential": "#ff7f0e", "skeleton": "#d62728", "code": "#9467bd", "hop": "#8c564b", "natural": "#e377c2", "narrativeqa": "#bcbd22",
         "held": "#d62728", "everyday": "#1f77b4", "everyday stack": "#17becf", "oa_mine_train": "#2ca02c", "sgd_dialogues": "#9467bd"}
NAMES = {"fact": "facts, ≤ 1100 tokens", "fact@3k": "facts, 2200–3100 tokens", "null": "unanswerable", "choice": "multiple choice", "sequential": "attributes, sequential",
         "skeleton": "attributes, skeleton", "code": "secret code", "hop": "two hops, one text", "natural": "everyday texts", "narrativeqa": "NarrativeQA",
         "held": "all held-out values", "everyday": "everyday documents", "everyday stack": "stacks of them", "oa_mine_train": "product titles", "sgd_dialogues": "dialogues"}


def _line(points: list[tuple[float, float]], colour: str, width: float = 1.8, dash: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>'


KINDS = {"squad_train": "#1f77b4", "squadshifts_new_wiki": "#17becf", "joined": "#9467bd", "natural museum": "#e377c2", "natural rentals": "#8c564b", "natural support": "#ff7f0e",
         "doqa": "#2ca02c", "qasper_evidence": "#bcbd22", "tatqa_spans": "#7f7f7f"}
KIND_NAMES = {"squad_train": "SQuAD, other articles", "squadshifts_new_wiki": "Wikipedia, other articles", "joined": "six texts joined", "natural museum": "museum labels",
              "natural rentals": "rentals", "natural support": "support tickets", "doqa": "forum answers (DoQA)", "qasper_evidence": "papers (QASPER)", "tatqa_spans": "reports (TAT-QA)"}
TITLE = "Exact match on held-out names and wordings (answers fed), and training loss"
KIND_TITLE = "F1 on kinds of text that are held out (greedy answers), and training loss"


def draw(log: list[dict], colours: dict[str, str] = SHOWN, names: dict[str, str] = NAMES, title: str = TITLE) -> str:
    log = [e for e in log if "progress" in e]
    last = max(e["seconds"] for e in log)
    x = lambda e: LEFT + (WIDTH - LEFT - RIGHT) * e["seconds"] / last
    y = lambda share: TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for tick in (0, 0.25, 0.5, 0.75, 1):
        out.append(_line([(LEFT, y(tick)), (WIDTH - RIGHT, y(tick))], "#dddddd", 1))
        out.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.2f}</text>')
    for seconds in range(0, int(last) + 1, 60):
        out.append(f'<text x="{x(dict(seconds=seconds)):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{seconds}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">seconds on one H200, start and compilation included</text>')
    out.append(_line([(x(e), y(min(1.0, e["loss"]))) for e in log if "loss" in e], "#000000", 1.2, "3 2"))
    legend = [("training loss (cut at 1)", "#000000")]
    for task, colour in colours.items():
        points = [(x(e), y(e["held"][task][0])) for e in log if task in e.get("held", {})]
        if points:
            out.append(_line(points, colour))
            legend.append((names[task], colour))
    for n, (name, colour) in enumerate(legend):
        at = TOP + 20 * n
        out.append(_line([(WIDTH - RIGHT + 15, at), (WIDTH - RIGHT + 40, at)], colour, 2.5))
        out.append(f'<text x="{WIDTH - RIGHT + 46}" y="{at + 4}">{name}</text>')
    out.append(f'<text x="{LEFT}" y="18">{title}</text>')
    return "\n".join(out + ["</svg>", ""])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--in", dest="source", type=Path)
    p.add_argument("--log", type=Path)
    p.add_argument("--json", type=Path)
    p.add_argument("--svg", type=Path)
    a = p.parse_args()
    if bool(a.source) == bool(a.log):
        p.error("expected --in or --log")
    log = [json.loads(line) for line in a.log.read_text().splitlines()] if a.log else json.loads((a.source / "config.json").read_text())["state"]["log"]
    if a.json:
        a.json.write_text("[\n" + ",\n".join(json.dumps(e) for e in log) + "\n]\n")
    if a.svg:
        a.svg.write_text(draw(log, KINDS, KIND_NAMES, KIND_TITLE) if a.log else draw(log))


if __name__ == "__main__":
    main()
