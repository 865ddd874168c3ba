"""Does planning choose well? `banyan bench grid`: many small forests, `auto` beside the fixed strategies."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess

from bench.evidence.quality import Table
from bench.evidence.runner import Failed

MOST_ROWS = 12  # of the forests, those where `auto` was slowest against the best


def planning(a: argparse.Namespace, shape: str, forests: int, minutes: float) -> Table:
    command = ["bench", "grid", "--shape", shape, "--forests", str(forests), "--minutes", f"{minutes:g}", *a.options]
    if a.plan:
        return Table("planning", "Planning", commands=[shlex.join(["banyan", *command])])
    done = subprocess.run([a.banyan, *command, "--json", "-"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"banyan {shlex.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return table_of(json.loads(done.stdout), shlex.join(["banyan", *command]))


def table_of(found: dict, command: str) -> Table:
    out = Table(
        "planning",
        "Planning: auto beside the best fixed strategy",
        ["forest", "together (tree), ms", "apart (paged), ms", "auto, ms", "auto / best", "steps read apart"],
        commands=[command],
        data=found,
    )
    for cell in sorted(found["cells"], key=lambda c: -c["auto_over_best"])[:MOST_ROWS]:
        milliseconds = {name: f"{1000 * seconds:.2f}" for name, seconds in cell["seconds"].items()}
        out.rows.append(
            [
                cell["work"],
                milliseconds.get("tree", "–"),
                milliseconds.get("paged", "–"),
                milliseconds["auto"],
                f"{cell['auto_over_best']:.3f} ± {cell['spread']:.3f}",
                f"{cell['steps_apart']} of {cell['steps']}",
            ]
        )
    out.note = (
        f"{found['measured']} of {found['forests']} forests; shown are those where auto was slowest against the best."
        " Medians of runs in turns; ±: half the distance of the quartiles. More than 3 % slower than the best fixed"
        f" strategy: {found['slower']}; more, but within the spread: {found['undecided']}. In {found['same_plans']}"
        " tree was best and auto made the same plans: what differs there is noise. Something was read apart in"
        f" {found['apart']}."
    )
    out.facts["worst"] = (
        f"auto / best fixed strategy at worst {found['worst']:.3f} ± {found['worst_spread']:.3f} of {found['measured']}"
        f" forests; {found['slower']} clearly more than 3 % slower"
    )
    return out
