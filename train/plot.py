"""The log of a training run as a picture: loss (left axis) and held-out scores (right axis) over time, as plain SVG."""

from __future__ import annotations

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 860, 420, 60, 30, 50, 230
VALUES = {
    "held": "#d62728",
    "everyday": "#1f77b4",
    "everyday stack": "#17becf",
    "oa_mine_train": "#2ca02c",
    "sgd_dialogues": "#9467bd",
}
VALUE_NAMES = {
    "held": "all held-out values",
    "everyday": "everyday documents",
    "everyday stack": "stacks of them",
    "oa_mine_train": "product titles",
    "sgd_dialogues": "dialogues",
}


def _line(points: list[tuple[float, float]], colour: str, width: float = 1.8, dash: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}"'
        f' stroke-width="{width}"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>'
    )


KINDS = {
    "squad_train": "#1f77b4",
    "squadshifts_new_wiki": "#17becf",
    "joined": "#9467bd",
    "natural museum": "#e377c2",
    "natural rentals": "#8c564b",
    "natural support": "#ff7f0e",
    "doqa": "#2ca02c",
    "qasper_evidence": "#bcbd22",
    "tatqa_spans": "#7f7f7f",
}
KIND_NAMES = {
    "squad_train": "SQuAD, other articles",
    "squadshifts_new_wiki": "Wikipedia, other articles",
    "joined": "six texts joined",
    "natural museum": "museum labels",
    "natural rentals": "rentals",
    "natural support": "support tickets",
    "doqa": "forum answers (DoQA)",
    "qasper_evidence": "papers (QASPER)",
    "tatqa_spans": "reports (TAT-QA)",
}
VALUE_TITLE = "Exact match on held-out documents (values fed), and training loss"
KIND_TITLE = "F1 on kinds of text that are held out (greedy answers), and training loss"


def draw(
    log: list[dict], colours: dict[str, str] = VALUES, names: dict[str, str] = VALUE_NAMES, title: str = VALUE_TITLE
) -> str:
    log = [e for e in log if "progress" in e]
    last = max(e["seconds"] for e in log)
    x = lambda e: LEFT + (WIDTH - LEFT - RIGHT) * e["seconds"] / last
    y = lambda share: TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
            ' font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        out.append(_line([(LEFT, y(tick)), (WIDTH - RIGHT, y(tick))], "#dddddd", 1))
        out.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.2f}</text>')
    for seconds in range(0, int(last) + 1, 60):
        out.append(
            f'<text x="{x(dict(seconds=seconds)):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{seconds}</text>'
        )
    out.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">seconds on one H200, start and'
        " compilation included</text>"
    )
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
