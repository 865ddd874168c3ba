#!/usr/bin/env python3
"""The steps of `banyan bench step` in llama.cpp on the same weights file, and the ratio of both.

usage: llama_cpp_steps.py MODEL.gguf [--library PATH] [--banyan PATH] [--threads N] [--streams 1,32]
                          [--prefix 256,1024,4096] [--own 256] [--job JOB.jsonl]
Programs run one after the other, each `--rounds` times in turn; the least time of each step counts. llama.cpp has its
own best settings for shared text: one sequence computes the prefix, the others take over its cells, and one batch has a
token of every sequence. With `--job` both also answer the questions of that file (`llama_cpp_job.py` makes one).
"""

import argparse
import json
import subprocess
import time

from llama_library import BATCH, Llama, find_library
from llama_cpp_job import compare_job


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def prefix_tokens(llama: Llama, count: int, first: int = 0) -> list[int]:
    return [((first + i) * 7919) % llama.tokens for i in range(count)]


def step_seconds(llama: Llama, streams: int, prefix: int, steps: int) -> float:
    """Seconds of a decode step of so many streams, whose prefixes are there already: the least."""
    least = float("inf")
    for number in range(steps):
        start = time.perf_counter()
        llama.decode([((s * 31 + number) % llama.tokens, prefix + number, s, True) for s in range(streams)])
        least = min(least, time.perf_counter() - start)
    return least


def prompt_seconds(llama: Llama, tokens: list[int]) -> float:
    llama.clear()
    start = time.perf_counter()
    llama.prompt(tokens)
    return time.perf_counter() - start


def ours(arguments) -> dict[str, float]:
    """Seconds of each step by name."""
    done = subprocess.run(
        [
            arguments.banyan,
            "bench",
            "step",
            "-m",
            arguments.model,
            "--threads",
            str(arguments.threads),
            "--streams",
            arguments.streams,
            "--prefix",
            arguments.prefix,
            "--own",
            arguments.own,
            "--prompt",
            "512",
            "--runs",
            str(arguments.steps),
            "--json",
            "-",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return {step["name"]: step["seconds"] for step in json.loads(done.stdout)["steps"]}


def theirs(llama: Llama, arguments) -> dict[str, float]:
    prompt = prefix_tokens(llama, 512)
    found = {"prompt of 512": min(prompt_seconds(llama, prompt) for _ in range(2))}
    for prefix in numbers(arguments.prefix):
        llama.clear()
        llama.prompt(prefix_tokens(llama, prefix))
        for streams in numbers(arguments.streams):
            for stream in range(1, streams):
                llama.share(0, stream)
            found[f"{streams} x {prefix}"] = step_seconds(llama, streams, prefix, arguments.steps)
            for stream in range(streams):
                llama.forget(stream, prefix if stream == 0 else -1)
    for own in numbers(arguments.own):
        streams = max(numbers(arguments.streams))
        llama.clear()
        for stream in range(streams):
            llama.prompt(prefix_tokens(llama, own, stream), stream)
        found[f"{streams} x {own}, nothing shared"] = step_seconds(llama, streams, own, arguments.steps)
    return found


def agreement(llama: Llama, arguments, count: int = 16) -> int:
    """Of `count` greedy tokens after one prompt, how many come before the first that differs."""
    prompt = prefix_tokens(llama, 40)
    row = json.dumps({"id": "a", "kind": "greedy", "ids": prompt, "max_new": count})
    done = subprocess.run(
        [arguments.banyan, "ids", "-m", arguments.model, "--precision", "mixed", "--threads", str(arguments.threads)],
        input=row + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    llama.clear()
    expected, rows = [], [(token, i, 0, i + 1 == len(prompt)) for i, token in enumerate(prompt)]
    for position in range(len(prompt), len(prompt) + count):
        expected.append(llama.feed(rows)[0])
        rows = [(expected[-1], position, 0, True)]
    found = json.loads(done.stdout)["tokens"]
    return next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--library", help="with llama.cpp's C functions; else the one of an installed package")
    parser.add_argument("--banyan", default="build/release/banyan")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--streams", default="1,32")
    parser.add_argument("--prefix", default="256,1024,4096")
    parser.add_argument("--own", default="256")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--job", help="token ids of pages and questions (llama_cpp_job.py)")
    arguments = parser.parse_args()
    streams, prefixes, own = (numbers(text) for text in (arguments.streams, arguments.prefix, arguments.own))
    room = max(streams) * (arguments.steps + 1)
    cells = max([p + room for p in prefixes] + [max(streams) * o + room for o in own] + [4096])
    cells = (cells + BATCH - 1) // BATCH * BATCH
    llama = Llama(
        arguments.library or find_library(), arguments.model, arguments.threads, cells, max(streams) + 1
    )  # one more has a job's instruction
    print(f"llama.cpp uses {llama.instructions()}")
    print(f"greedy tokens before the first that differs: {agreement(llama, arguments)} of 16", flush=True)
    banyan, rival = {}, {}
    for _ in range(arguments.rounds):
        for kept, found in ((banyan, ours(arguments)), (rival, theirs(llama, arguments))):
            for name, seconds in found.items():
                kept[name] = min(seconds, kept.get(name, seconds))
    print("| step | banyan ms | llama.cpp ms | ratio |\n|---|---|---|---|")
    for name, seconds in rival.items():
        print(f"| {name} | {banyan[name] * 1e3:.1f} | {seconds * 1e3:.1f} | {seconds / banyan[name]:.2f} |", flush=True)
    if arguments.job:
        compare_job(llama, arguments.job, arguments.banyan, arguments.model, arguments.threads, max(streams))


if __name__ == "__main__":
    main()
