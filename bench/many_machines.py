"""What 1 to 1000 workers give on a job of many documents, from costs that were measured on one machine.

    python3 -m bench.many_machines                 measures, simulates, draws and writes docs/many-machines.md's part
    python3 -m bench.many_machines COSTS.json      the same with costs that were measured before

The Python package, ray and the models must be there. The simulation is of events: the driver plans (one record after
another), hands out blocks (one after another), workers start, load the model, answer blocks (side by side, each a
little faster or slower) and write parts (through one disk), the driver joins the rows.
"""

from __future__ import annotations

import heapq
import json
import pathlib
import random
import sys
import textwrap
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SHOWN = (1, 10, 100, 1000)  # rows of the table; the picture has them all
BLOCKS_PER_WORKER, MOST_BLOCK_TOKENS, LEAST_BLOCK_TOKENS = 40, 200_000, 2_000  # as banyan._plan has them


def simulate(workers: int, blocks: list[float], costs: dict[str, Any], seed: int = 1) -> dict[str, float]:
    """Seconds of a job whose blocks take so long to answer, and where they went."""
    draw = random.Random(seed)
    plan = costs["plan_seconds_per_document"] * costs["documents"]
    join = costs["join_seconds_per_row"] * costs["rows"]
    write = 2.0 / costs["files_per_second"] if costs["files_per_second"] else 0.0  # a part is two files
    waiting = sorted(blocks)  # the largest is handed out first
    driver = disk = plan
    events = [
        (plan + costs["start_seconds"] * draw.lognormvariate(0.0, costs["start_spread"]), 0, worker, False)
        for worker in range(workers)
    ]
    heapq.heapify(events)
    end, number = plan, 0
    while events:
        now, _, worker, answered = heapq.heappop(events)
        number += 1
        if answered:  # the part is written, then the worker asks for more
            disk = max(disk, now) + write
            end = max(end, disk)
            heapq.heappush(events, (disk, number, worker, False))
        elif waiting:
            driver = max(driver, now) + costs["hand_out_seconds"]
            work = waiting.pop() * draw.lognormvariate(0.0, costs["speed_spread"]) + costs["block_seconds"]
            heapq.heappush(events, (driver + work, number, worker, True))
    return {"workers": workers, "seconds": end + join, "plan": plan, "join": join}


def block_count(costs: dict[str, Any], workers: int) -> int:
    tokens = costs["documents"] * (costs["prefilled_per_document"] + costs["generated_per_document"])
    size = min(MOST_BLOCK_TOKENS, max(LEAST_BLOCK_TOKENS, tokens / (workers * BLOCKS_PER_WORKER)))
    return max(1, round(tokens / size))


def document_seconds(costs: dict[str, Any]) -> float:
    return (
        costs["prefilled_per_document"] * costs["prefill_seconds"]
        + costs["generated_per_document"] * costs["generate_seconds"]
    )


def study(costs: dict[str, Any], limits: tuple[int, ...] = WORKERS) -> list[dict[str, float]]:
    """One simulation for every number of workers. Linear is what one worker takes, for everything, in equal parts."""
    alone = document_seconds(costs) * costs["documents"]
    rows = []
    for workers in limits:
        count = block_count(costs, workers)
        row = simulate(workers, [alone / count] * count, costs)
        row.update(blocks_per_worker=count / workers)
        rows.append(row)
    for row in rows:
        row["speedup"] = rows[0]["seconds"] * rows[0]["workers"] / row["seconds"]
        row["linear"] = row["speedup"] / row["workers"]
    return rows


def breaking_points(costs: dict[str, Any]) -> dict[str, float]:
    """From how many workers on a shared part takes more than 5 % of what one worker's share takes."""
    alone = document_seconds(costs) * costs["documents"]
    serial = costs["plan_seconds_per_document"] * costs["documents"] + costs["join_seconds_per_row"] * costs["rows"]
    shared = costs["hand_out_seconds"] + (2.0 / costs["files_per_second"] if costs["files_per_second"] else 0.0)
    return {
        "planning and joining, which the driver does alone": 0.05 * alone / serial if serial else float("inf"),
        "starting workers and loading the model": (
            0.05 * alone / costs["start_seconds"] if costs["start_seconds"] else float("inf")
        ),
        # Every worker wants BLOCKS_PER_WORKER blocks, one after another from one driver and onto one disk.
        "handing out blocks and writing parts": (alone / BLOCKS_PER_WORKER / shared) ** 0.5 if shared else float("inf"),
    }


def table(studies: dict[str, list[dict[str, float]]]) -> str:
    names = list(studies)
    lines = [
        "| workers | " + " | ".join(f"{name} | of linear" for name in names) + " |",
        "|---" * (1 + 2 * len(names)) + "|",
    ]
    for number, workers in enumerate(row["workers"] for row in studies[names[0]]):
        if workers not in SHOWN:
            continue
        cells = [
            f"{_time(studies[name][number]['seconds'])} | {100 * studies[name][number]['linear']:.1f} %"
            for name in names
        ]
        lines.append(f"| {workers} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(costs: dict[str, Any]) -> str:
    """The part of docs/many-machines.md that this program writes."""
    machine, jobs = costs["machine"], costs["jobs"]
    studies = {name: study({**machine, **job}) for name, job in jobs.items()}
    lines = [
        f"Measured on {costs['where']}:",
        "",
        "| what | seconds |",
        "|---|---|",
        f"| planning, a document | {machine['plan_seconds_per_document']:.2g} |",
        f"| joining, a row | {machine['join_seconds_per_row']:.2g} |",
        f"| handing out a block (Ray's driver; the object is the block's number) | {machine['hand_out_seconds']:.2g} |",
        f"| a part written and on the disk, two files | {2 / machine['files_per_second']:.2g} |",
        f"| an engine's beginning and end, a block | {machine['block_seconds']:.2g} |",
        f"| a worker's start without the model | {machine['process_seconds']:.2g} |",
        "",
        f"Equal blocks differ by {100 * machine['speed_spread']:.1f} %.",
        "",
    ]
    lines += [
        (
            "| job: a million documents | tokens a document: computed, written | seconds: loading; a token computed, "
            "written |"
        ),
        "|---|---|---|",
    ]
    for name, job in jobs.items():
        lines.append(
            f"| {name} ({job['words']}) | {job['prefilled_per_document']:.0f}, {job['generated_per_document']:.0f} "
            f"| {job['load_seconds']:.2g}; {job['prefill_seconds']:.2g}, {job['generate_seconds']:.2g} |"
        )
    lines += ["", table(studies), "", "![Speed against workers](images/many-machines.svg)", ""]
    for name, job in jobs.items():
        points = sorted(breaking_points({**machine, **job}).items(), key=lambda one: one[1])
        first, workers = points[0]
        text = (
            f"- **{name}**: what breaks first is {first}: more than 5 % from {_number(workers)} workers on; then "
            + ", ".join(f"{what} (from {_number(count)})" for what, count in points[1:])
            + "."
        )
        lines += textwrap.wrap(text, 118, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"


def _number(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}".replace(",", " ")


def main() -> int:
    from bench.many_machines_plot import draw

    if len(sys.argv) > 1:
        costs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    else:
        from bench.many_machines_costs import measure

        costs = measure()
        (ROOT / "bench" / "many_machines_costs.json").write_text(json.dumps(costs, indent=1) + "\n")
    studies = {name: study({**costs["machine"], **job}) for name, job in costs["jobs"].items()}
    (ROOT / "docs" / "images" / "many-machines.svg").write_text(draw(studies))
    page = ROOT / "docs" / "many-machines.md"
    begin, end = "<!-- bench.many_machines begins -->\n", "<!-- bench.many_machines ends -->\n"
    text = page.read_text()
    head, rest = text.split(begin)
    page.write_text(head + begin + report(costs) + end + rest.split(end)[1])
    print(report(costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
