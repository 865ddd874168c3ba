#!/usr/bin/env python3
"""Runs the libFuzzer programs of `make fuzz`, one after another, and prints a table of them. New inputs stay beside the
build; seeds in the repository are read only.

usage: tests/fuzz/run.py [--runs 10000000] [--seconds 60] [--build build/fuzz] [NAME…]
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DICTIONARIES = {"json": "json", "jsonl": "json", "card": "json", "config": "json", "serve": "schema", "extract": "schema",
                "schema": "schema", "http": "http", "html": "html", "adapter": "json", "safetensors": "json"}


def fuzz(program, name, options):
    corpus = options.build / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [program, f"-runs={options.runs}", f"-max_total_time={options.seconds}", "-timeout=20", "-rss_limit_mb=3000",
               "-print_final_stats=1", f"-artifact_prefix={options.build}/{name}-", corpus, HERE / "seeds" / name]
    if name in DICTIONARIES:
        command.append(f"-dict={HERE / 'dictionaries' / DICTIONARIES[name]}.dict")
    environment = dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1")
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", env=environment).stderr
    (options.build / f"{name}.log").write_text(said)

    def last(pattern):
        found = re.findall(pattern, said)
        return int(found[-1]) if found else 0
    finding = re.search(r"^(SUMMARY: .*)$", said, re.MULTILINE)
    numbers = (last(r"number_of_executed_units: *(\d+)"), last(r"average_exec_per_sec: *(\d+)"), last(r"cov: (\d+)"),
               len(list(corpus.iterdir())))
    print(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} | {finding.group(1) if finding else 'none'} |", flush=True)
    return finding is None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "fuzz")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.build = options.build.resolve()
    programs = {path.name[:-5]: path for path in sorted(options.build.glob("*_fuzz"))}
    print("| target | executions | a second | edges | corpus | findings |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    results = [fuzz(programs[name], name, options) for name in options.names or programs]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
