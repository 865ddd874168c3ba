"""What a run will take: every part with its commands, whether the program reads their options, and minutes on an H200.

Minutes are by the sizes of the work alone: operations and bytes over the rates that an H200 reached in other runs
(docs/performance.md). They say whether a run fits into a time, and nothing else; no figure of the page is made of them.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass

from bench.evidence.runner import ROOT, Cell, Sweep
from bench.evidence.verdicts import Table

# Of an H200, in whole steps: the jobs and decode steps of docs/performance.md come out within 10 %.
FLOPS, BYTES = 5.0e14, 3.5e12
COMMAND, MODEL = 0.5, 5.0  # seconds: of a command, and of a new model; these are guesses
# Minutes of tables, which are many small runs of the shipped model: guesses, but for the first, which is told.
TABLES = {"planning": 0.5, "answers": 0.7, "planted": 0.8, "extraction": 0.7, "drafts": 0.3, "rag": 1.0}


@dataclass(frozen=True)
class Shape:
    """As `Model::ModelShapes` has it (src/load/random_model.cc)."""

    parameters: float
    layers: int
    heads: int
    kv_heads: int
    head_dim: int

    def attention(self, pairs: float) -> float:
        """Seconds of so many pairs of a query and a key, as matrix products."""
        return 4 * self.layers * self.heads * self.head_dim * pairs / FLOPS

    def reading(self, keys: float) -> float:
        return 4 * self.layers * self.kv_heads * self.head_dim * keys / BYTES

    def prompt(self, rows: float, pairs: float) -> float:
        return 2 * self.parameters * rows / FLOPS + self.attention(pairs)

    def step(self, rows: float) -> float:
        """The products of one decode step."""
        return max(2 * self.parameters / BYTES, 2 * self.parameters * rows / FLOPS)


SHAPES = {
    "qwen3-8b": Shape(8.2e9, 36, 32, 8, 128),
    "qwen3-8b-thin": Shape(8.4e8, 4, 32, 8, 128),
    "codellama-7b": Shape(6.7e9, 32, 32, 32, 128),
    "codellama-13b": Shape(1.3e10, 40, 40, 40, 128),
    "codellama-34b": Shape(3.37e10, 48, 64, 8, 128),
    "yi-6b": Shape(6.1e9, 32, 32, 4, 128),
    "llama-160m": Shape(1.6e8, 12, 12, 12, 64),
    "sheared-llama-1.3b": Shape(1.35e9, 24, 16, 16, 128),
}
JOBS = {  # instruction, document, questions, question, new tokens: apps/bench/bench_forest.cc
    "squad2": (47, 178, 9, 13, 4),
    "narrativeqa": (2754, 737, 30, 12, 6),
    "race": (40, 344, 4, 40, 1),
    "longhealth": (73, 11720, 20, 73, 1),
}


def option(command: list[str], name: str, default: str = "") -> str:
    return command[command.index(name) + 1] if name in command else default


def forest(literal: str) -> tuple[list[int], list[int]]:
    """(nodes of each level, their tokens) of `bench tree`. Raises ValueError."""
    counts, bar, lengths = literal.partition("|")
    branches = [int(n) for n in re.findall(r"\d+", counts)]
    tokens = [int(n) for n in re.findall(r"\d+", lengths)]
    if not bar or not branches or len(tokens) - len(branches) not in (0, 1) or 0 in branches + tokens:
        raise ValueError(f"'{literal}': expected such as '8 documents x 64 questions | 32, 2048, 256 tokens'")
    branches = [1] * (len(tokens) - len(branches)) + branches
    nodes, made = [], 1
    for count in branches:
        made *= count
        nodes.append(made)
    return nodes, tokens


def tree_seconds(shape: Shape, command: list[str], nodes: list[int], tokens: list[int], new: int) -> float:
    """Of all strategies, and of the untimed run before them."""
    streams, prompt = nodes[-1], sum(tokens)
    shared_rows = sum(n * t for n, t in zip(nodes, tokens))
    above = [sum(tokens[: level + 1]) for level in range(len(tokens))]
    shared_pairs = sum(n * t * (end - t / 2) for n, t, end in zip(nodes, tokens, above))
    most = int(option(command, "--flat-tokens", "60000"))
    flat = min(streams, max(1, most // prompt)) if most else streams
    private = "--private-stacks" in command or option(command, "--share-levels") == "1"

    def of(strategy: str) -> float:
        rows, pairs, count = shared_rows, shared_pairs, streams
        if strategy == "flat" or (private and strategy in ("stacked", "tree")):
            count = flat if strategy == "flat" else streams
            together = int(option(command, "--questions-per-stack", "1")) if strategy == "stacked" else 1
            root = tokens[0] if strategy == "tree" else 0  # shared by all
            rows = root + count / together * (prompt - root)
            pairs = rows * prompt / 2
        read = {"flat": count * prompt, "paged": count * prompt, "stacked": 2 * shared_rows}.get(strategy, shared_rows)
        scores = count * (prompt if strategy != "no-attention" else 0)
        step = shape.step(count) + shape.reading(read) + shape.attention(scores)
        return shape.prompt(rows, 0 if strategy == "no-attention" else pairs) + new * step

    strategies = option(command, "--strategies", "auto,paged,flat,no-attention").split(",")
    return sum(of(strategy) for strategy in [*strategies, strategies[0]])


def cell_seconds(command: list[str]) -> float:
    """Of one command, its model being there."""
    shape, kind = (
        SHAPES[option(command, "--shape", "codellama-7b" if command[0] == "hydragen" else "qwen3-8b")],
        command[0],
    )
    new = int(option(command, "--max-new", "16"))
    if kind == "attention":
        return COMMAND + 6.0
    if kind == "tree":
        return COMMAND + tree_seconds(shape, command, *forest(command[1]), new)
    if kind == "hydragen":
        literal = f"{option(command, '--streams', '1024')} streams | {option(command, '--prefix', '1024')}, 16"
        return COMMAND + tree_seconds(shape, command, *forest(literal), new)
    if kind in JOBS:
        instruction, document, questions, question, new = JOBS[kind]
        count = int(option(command, "--documents"))
        return COMMAND + tree_seconds(
            shape, command, [1, count, count * questions], [instruction, document, question], new
        )
    documents = int(option(command, "--documents", "16"))
    if kind == "extract":
        attributes = int(option(command, "--attributes", "16"))
        instruction, document, piece = (int(n) for n in option(command, "--lengths", "200,256,5").split(","))
        most = int(option(command, "--value-lengths", "1,12").split(",")[1])
        batch = int(option(command, "--batch", str(documents)))
        stacks = option(command, "--stack", "6").split(",")
        rows = instruction + documents * (document + attributes * piece)
        batches = -(-documents // batch)
        steps = most * sum(-(-documents // (batch * int(stack))) for stack in ["1", *stacks, "1"])
        steps += batches * attributes * (piece + most / 2)  # sequential
        return (
            COMMAND + (3 + len(stacks)) * shape.prompt(rows, rows * document) + steps * shape.step(batch * attributes)
        )
    if kind == "rag":
        tokens, count = int(option(command, "--document-tokens")), documents
        apart = shape.prompt(count * tokens, count * tokens**2 / 2)
        joined = shape.prompt(count * tokens, (count * tokens) ** 2 / 2)
        steps = 4 * new * (shape.step(count) + shape.reading(count * tokens))
        return COMMAND + 3 * apart + 2 * joined + steps
    raise ValueError(f"bench {kind}: no prediction")


def sweep_seconds(sweep: Sweep, rounds: int, before: str) -> tuple[float, str]:
    """Of all rounds, and the shape that is there afterwards; `before`: the one that is there."""
    made = 0.0
    for _ in range(rounds):
        for cell in sweep.cells:
            shape = option(cell.command, "--shape", before)
            made += cell_seconds(cell.command) + (MODEL if shape != before else 0.0)
            before = shape
    return made, before


def refused(banyan: str, cells: list[Cell]) -> dict[str, str]:
    """What the program's own parser says of commands that it does not take."""
    lines = "".join(json.dumps(cell.command) + "\n" for cell in cells)
    done = subprocess.run(
        [banyan, "bench", "lines", "--check"], input=lines, capture_output=True, text=True, cwd=ROOT, check=False
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    out = {cells[r["line"] - 1].command[0]: done.stderr.strip() for r in replies if r["exit"] != 0}
    if len(replies) != len(cells):
        out["lines"] = f"{len(replies)} of {len(cells)} commands were read: {done.stderr.strip()}"
    return out


def plan_text(banyan: str, sweeps: list[Sweep], tables: dict[str, Table], rounds: int) -> tuple[str, bool]:
    """A line for every part; and whether a command is refused."""
    lines, total, wrong, before = [f"{'part':16} commands  options  minutes on an H200"], 0.0, False, ""
    for sweep in sweeps:
        found = refused(banyan, sweep.cells)
        wrong = wrong or bool(found)
        known = all("cuda" in c.command and option(c.command, "--shape", "qwen3-8b") in SHAPES for c in sweep.cells)
        seconds, before = sweep_seconds(sweep, rounds, before) if known else (0.0, before)
        total += seconds
        minutes = f"{seconds / 60:7.1f}" if known else "      –"
        lines.append(f"{sweep.name:16} {len(sweep.cells):8}  {'right' if not found else 'REFUSED':7}  {minutes}")
        lines += [f"  {name}: {said}" for name, said in found.items()]
    of_sweeps = total
    for name, table in tables.items():
        minutes = TABLES.get(name, 0.0) if of_sweeps else 0.0
        total += 60 * minutes
        lines.append(f"{name:16} {len(table.commands):8}  {'–':7}  {f'{minutes:7.1f}' if minutes else '      –'}")
    if of_sweeps:
        lines.append(f"sweeps, {rounds} rounds: {of_sweeps / 60:.1f} minutes; all: {total / 60:.1f}")
    return "\n".join(lines), wrong
