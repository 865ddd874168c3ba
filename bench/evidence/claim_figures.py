"""Figures of single claims, which no general form of `bench.evidence.verdicts` has."""

from __future__ import annotations

from bench.evidence.figures import Figure, ratio
from bench.evidence.readers import MEMORY, RATE, RELAY, SECONDS
from bench.evidence.verdicts import (
    CANNOT,
    CONTRADICTED,
    NOT_REPRODUCED,
    REPRODUCED,
    Found,
    Results,
    fact,
    judged,
    judged_gain,
    peak,
    up_to,
    worst,
)

COPY, ONCE = "a copy for each prompt", "stored once"  # series of the sweep `prompts`
STACKED = "skeleton, stacked"


def prompts_gain(r: Results, claimed: float) -> Found | None:
    """The best P against P = 1: every question a prompt of its own, batched, with its own copy of the document."""
    points = r.points("prompts", COPY, SECONDS)
    if len(points) < 2:
        return None
    best = min((p for p in points if p > 1), key=lambda p: points[p].median)
    gain = ratio(points[1], points[best])
    text = f"P = 1: {points[1].text()} s, best of the others P = {best:g}: {points[best].text()} s: {gain.text()} times"
    return judged_gain(text, gain, claimed)


def prompts_rivals(r: Results, claimed: float) -> Found | None:
    """The best P against the other ways to answer as many questions on one document."""
    mine = r.points("prompts", COPY, SECONDS)
    rivals = {
        name: next(iter(points.values()))
        for name in ("paged", "tree", RELAY)
        if (points := r.points("rivals", name, SECONDS))
    }
    if not mine or not rivals:
        return None
    best = min(mine.values(), key=lambda f: f.median)
    other = min(rivals, key=lambda name: rivals[name].median)
    gain = ratio(rivals[other], best)
    told = ", ".join(f"{name} {f.text()}" for name, f in rivals.items())
    text = f"best P {best.text()} s; {told} s: {gain.text()} times the best of them ({other})"
    return judged_gain(text, gain, claimed)


def memory(r: Results) -> Found | None:
    copies, once = r.points("prompts", COPY, MEMORY), r.points("prompts", ONCE, MEMORY)
    if len(copies) < 2 or not once:
        return None
    few, many = copies[min(copies)], copies[max(copies)]
    text = (
        f"KV {few.text()} MiB at P = {min(copies):g}, {many.text()} at P = {max(copies):g}; stored once"
        f" {once[max(once)].text()}"
    )
    return judged(text, [few, many], many.most < few.least, many.least > few.most)


def larger_batch(r: Results) -> Found | None:
    """Streams that fit into what flat needs for its own, by memory of the largest number of streams."""
    ours, flat = r.points("streams", "auto", MEMORY), r.points("streams", "flat", MEMORY)
    both = [x for x in ours if x in flat]
    if not both:
        return None
    x = max(both)
    times = ratio(flat[x], ours[x])
    text = f"{x:g} streams take {ours[x].text()} MiB of KV, without sharing {flat[x].text()}: {times.text()} times"
    # Memory is counted, not timed: what part of the streams took is right for all.
    exact = Figure(times.median, times.least, times.most, times.runs)
    return judged(text, [exact], exact.least > 1, exact.most < 1)


def contexts(r: Results) -> Found | None:
    """Contexts in a prompt, and prompts at once: the best of the grid against one context in a prompt."""
    found = {
        (c, name): f
        for name in (r.sweeps["stacks"].values if "stacks" in r.sweeps else {})
        for c, f in r.points("stacks", name, RATE).items()
    }
    alone = {key: f for key, f in found.items() if key[0] == 1}
    if not alone or len(found) == len(alone):
        return None
    best = max(found, key=lambda key: found[key].median)
    one = max(alone, key=lambda key: alone[key].median)
    several = max((key for key in found if key[0] > 1), key=lambda key: found[key].median)
    gain = ratio(found[several], found[one])
    text = (
        f"best of the grid: {best[0]:g} contexts in a prompt, {best[1]}, {found[best].text()} questions/s; one context:"
        f" {found[one].text()} ({one[1]}); several: {gain.text()} times"
    )
    table = r.table("stack_costs")
    if table:
        text += f"; {table.facts['choice']}"
    return judged(text, [gain], gain.least > 1, gain.most < 1)


def values_gain(r: Results, claimed: float) -> Found | None:
    """The best of stacks and batches against sequential values of the same batch."""
    found = [
        up_to(r, sweep, series, ["sequential"], "documents/s", claimed)
        for sweep in ("values", "stack_batch")
        for series in (r.sweeps[sweep].values if sweep in r.sweeps else {})
        if series.startswith("skeleton")
    ]
    order = {REPRODUCED: 0, NOT_REPRODUCED: 1, CONTRADICTED: 2}
    told = sorted((f for f in found if f), key=lambda f: (order[f.verdict], -gain_of(f)))
    return told[0] if told else None


def gain_of(found: Found) -> float:
    """The last figure of what `up_to` says."""
    return float(found.text.rsplit(": ", 1)[1].split()[0].lstrip("~"))


def at_once(r: Results) -> Found | None:
    """Values that one prompt writes together, and the steps that they took."""
    points = r.points("values", STACKED, "values at once")
    if not points:
        return None
    most = max(points, key=lambda x: points[x].median)
    steps = [r.points("values", series, "steps").get(most) for series in (STACKED, "sequential")]
    if not all(steps):
        return None
    text = f"{points[most].median:.0f} values of a prompt at once: {steps[0].median:.0f} steps, sequential {steps[1].median:.0f}"
    return judged(text, [], points[most].median >= 96, False, f"{points[most].median:.0f} here")


def seqbatch(r: Results) -> Found | None:
    """Of a model that can write numbered answers, if there is one."""
    for name in ("real", "answers"):
        found = fact(r, name, ["SeqBatch"], "SeqBatch verdict")
        if found and (name == "answers" or found.verdict != CANNOT):
            return found
    return None


def of_documents(r: Results, key: str) -> Found | None:
    """Of the real model, if there is one."""
    return fact(r, "real_rag", [key], f"{key} verdict") or fact(r, "rag", [key], f"{key} verdict")


def of_jobs(r: Results, found: Found | None) -> Found | None:
    """With the names of the jobs."""
    return found and Found(f"{found.text} (jobs: {r.sweeps['jobs'].sweep.note})", found.verdict, found.why)


def shape_peaks(r: Results) -> Found | None:
    """Every shape of the sweep has its peak between one question in a prompt and all."""
    found = {
        shape: one
        for shape in (r.sweeps["prompt_shapes"].values if "prompt_shapes" in r.sweeps else {})
        if (one := peak(r, "prompt_shapes", shape, RATE, "P"))
    }
    if not found:
        return None
    told = "; ".join(f"{shape}: {one.text}" for shape, one in found.items())
    verdict, _, why = worst([f"{one.verdict}: {one.why}" for one in found.values()]).partition(": ")
    return Found(told, verdict, why)
