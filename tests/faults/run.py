"""Breaks jobs in every way that we know and looks whether the promises of docs/ask-reference.md hold.

run.py [--seconds S] [--seed N] [KIND …]: without --seconds a short run, which `make test` makes; with it every
kind goes on for S seconds (`make test-faults`). Prints how often each kind was tried and held, and fails when
any did not.

REQUIRES: BANYAN, MAKE_TINY_MODEL and FAULT_SHIM in the environment: two programs and the shim's library.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import generators

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import fault_library  # noqa: E402

BANYAN = os.environ["BANYAN"]
ANSWER = ["--max-new", "3", "--temperature", "1", "--threads", "1", "--quiet", "--checkpoint", "0"]
ENTRY = 64  # bytes of a journal's entry
SHAPES = [("out.jsonl", []), ("out.jsonl", ["--ordered"]), ("out.csv", []), ("out.jsonl.gz", []),
          ("out.md", [])]


class Broken(Exception):
    """A promise that did not hold."""


class Workshop:
    """A folder, a model, an input, and what its answers are when nothing goes wrong."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.model = str(root / "model.gguf")
        subprocess.run([os.environ["MAKE_TINY_MODEL"], self.model, "512", "1"], check=True)
        docs = [{"id": f"d{i}", "context": f"Text {i}.", "questions": ["What?", {"id": "q", "question": "Why?"}]}
                for i in range(10)]
        docs[3]["questions"].append({"id": "bad"})
        docs[6]["id"] = "d2"
        self.input = root / "in.jsonl"
        self.input.write_text("".join(json.dumps(doc) + "\n" for doc in docs) + "no JSON\n")
        self.expected = {}
        for name, more in SHAPES:
            folder = self.fresh()
            self.run(folder, name, more, codes=(1,))
            self.expected[name] = self.rows(folder / name)
        self.count = 0

    def fresh(self) -> pathlib.Path:
        folder = self.root / "work"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def command(self, folder, name, more, input_file=None):
        source = str(input_file or self.input)
        if not (folder / name).exists():  # killed before it had an output: there is nothing to go on with
            more = [option for option in more if option not in ("--resume", "--retry-errors")]
        return [BANYAN, "ask", "-m", self.model, source, *ANSWER, "-o", str(folder / name), *more]

    def run(self, folder, name, more, codes=None, input_file=None, **faults):
        env = dict(os.environ)
        if faults:
            env |= {"LD_PRELOAD": fault_library.PATH, "FAULT_UNDER": str(folder)}
            env |= {f"FAULT_{key.upper()}": str(value) for key, value in faults.items()}
        result = subprocess.run(self.command(folder, name, more, input_file), env=env, capture_output=True, timeout=120)
        if codes is not None and result.returncode not in codes:
            raise Broken(f"exit {result.returncode}, expected {codes}: {result.stderr.decode(errors='replace')}")
        return result

    @staticmethod
    def rows(path):
        """In an order of their own, so that outputs can be compared."""
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        if path.suffix == ".csv":
            return sorted(map(str, csv.reader(text.splitlines())))
        if path.suffix == ".md":
            return sorted(text.splitlines())
        return sorted(json.dumps(json.loads(line), sort_keys=True) for line in text.splitlines())

    def check(self, folder, name, more):
        """After whatever happened: --resume ends with every row, once."""
        self.run(folder, name, [*more, "--resume"], codes=(1,))
        if self.rows(folder / name) != self.expected[name]:
            raise Broken(f"{name} has other rows")
        left = sorted(p.name for p in folder.iterdir())
        if left != sorted([name, name + ".journal"]):
            raise Broken(f"left behind: {left}")

    def calls(self, folder, name, more):
        count = self.root / "count"
        self.run(folder, name, more, count=count)
        return int(count.read_text())


def begin(shop, generator):
    """A shape of the job, in a folder where it is to run or has begun; its arguments."""
    name, more = generator.choice(SHAPES)
    folder = shop.fresh()
    if generator.random() < 0.4:  # something to replace
        shop.run(folder, name, more)
        return folder, name, more, ["--resume", "--retry-errors"]
    return folder, name, more, []


def crash(shop, generator):
    folder, name, more, extra = begin(shop, generator)
    copy = shop.root / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    calls = shop.calls(folder, name, [*more, *extra])
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    kind = generator.choice(["kill", "after", "torn"])
    shop.run(folder, name, [*more, *extra], at=generator.randint(1, calls), kind=kind)
    while generator.random() < 0.4:  # and again while it goes on
        shop.run(folder, name, [*more, "--resume"], at=generator.randint(1, calls), kind=kind)
    shop.check(folder, name, more)


def disk_errors(shop, generator):
    folder, name, more, extra = begin(shop, generator)
    at = generator.randint(1, 40)
    kind = generator.choice(["eio", "enospc", "full"])
    result = shop.run(folder, name, [*more, *extra], at=at, kind=kind, codes=(1, 2))
    if result.returncode == 2 and not result.stderr:
        raise Broken("an error without a word")
    shop.check(folder, name, more)


def short_writes(shop, generator):
    folder, name, more, extra = begin(shop, generator)
    shop.run(folder, name, [*more, *extra], at=generator.randint(1, 40), kind="short", codes=(1,))
    if shop.rows(folder / name) != shop.expected[name]:
        raise Broken(f"{name} has other rows")


def kills(shop, generator):
    folder, name, more, extra = begin(shop, generator)
    for _ in range(generator.randint(1, 4)):
        process = subprocess.Popen(shop.command(folder, name, [*more, *extra]), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0.0, 0.25))
        process.send_signal(generator.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        process.wait()
        extra = generator.choice([["--resume"], ["--resume", "--retry-errors"]])
    shop.check(folder, name, more)


def sorted_inputs(shop, generator):
    """The input is sorted otherwise, and has grown, when the job goes on: each record has its rows once."""
    folder = shop.fresh()
    docs = [json.dumps({"id": i, "context": f"Text {i}.", "questions": ["What?", "Why?"]}) for i in range(12)]
    path = shop.root / "sorted.jsonl"
    given = docs[:generator.randint(1, len(docs))]
    for _ in range(generator.randint(1, 3)):
        path.write_text("\n".join(given) + "\n")
        shop.run(folder, "out.jsonl", ["--resume"], input_file=path, at=generator.randint(1, 60), kind="kill")
        given = generator.sample(docs, generator.randint(1, len(docs)))
    path.write_text("\n".join(generator.sample(docs, len(docs))) + "\n")
    shop.run(folder, "out.jsonl", ["--resume"], input_file=path, codes=(0,))
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    keys = sorted((row["id"], row["question_id"]) for row in rows)
    if keys != [(i, q) for i in range(len(docs)) for q in (1, 2)] or any("error" in row for row in rows):
        raise Broken(f"rows of {keys}")


def changed_inputs(shop, generator):
    """Records are edited, go and come between runs that are killed: the output has the last input's rows, no others, and
    in its order where that is asked for."""
    folder = shop.fresh()
    name, more = generator.choice([("out.jsonl", []), ("out.jsonl", ["--ordered"]), ("out.jsonl.gz", ["--ordered"])])
    path = shop.root / "changed.jsonl"

    def write_input():
        docs = [json.dumps({"id": i, "context": f"Text {i}, {generator.choice(['old', 'new'])}.", "questions": ["What?"]})
                for i in generator.sample(range(8), generator.randint(1, 8))]
        path.write_text("\n".join(docs) + "\n")
    for _ in range(generator.randint(1, 3)):
        write_input()
        shop.run(folder, name, [*more, "--resume"], input_file=path, at=generator.randint(1, 90),
                 kind=generator.choice(["kill", "torn", "eio"]))
    write_input()
    shop.run(folder, name, [*more, "--resume"], input_file=path, codes=(0,))
    shop.run(folder, "fresh.jsonl", ["--ordered"], input_file=path, codes=(0,))
    opened = gzip.open if name.endswith(".gz") else open
    with opened(folder / name, "rb") as file:
        found = file.read().splitlines()
    wanted = (folder / "fresh.jsonl").read_bytes().splitlines()
    if (found if more else sorted(found)) != (wanted if more else sorted(wanted)):
        raise Broken(f"{name}: {len(found)} rows, expected {len(wanted)}")


def overwritten(shop, generator):
    """--overwrite begins anew whatever is there, also what a killed --overwrite left."""
    name, more = generator.choice(SHAPES)
    folder = shop.fresh()
    generator.choice([
        lambda: shop.run(folder, name, [*more, "--seed", "9"], codes=(1,)),
        lambda: (folder / name).write_bytes(generator.randbytes(300)),
        lambda: (folder / (name + ".journal")).write_bytes(generator.randbytes(300)),
    ])()
    for _ in range(generator.randint(1, 2)):
        shop.run(folder, name, [*more, "--overwrite"], at=generator.randint(1, 25),
                 kind=generator.choice(["kill", "torn", "eio"]))
    shop.run(folder, name, [*more, "--overwrite"], codes=(1,))
    shop.check(folder, name, more)


def edited_outputs(shop, generator):
    """Edits are refused and left alone, or have cost nothing."""
    name, more = generator.choice(SHAPES)
    folder = shop.fresh()
    shop.run(folder, name, more)
    victim = folder / generator.choice([name, name + ".journal"])
    whole = victim.read_bytes()
    data = generators.mutated(whole, generator, piece=ENTRY if victim.name.endswith(".journal") else None)
    victim.write_bytes(data)
    output = (folder / name).read_bytes()
    result = shop.run(folder, name, [*more, "--resume"], codes=(1, 2))
    if result.returncode == 2:
        if (folder / name).read_bytes() != output:
            raise Broken("refused, and changed")
        shop.run(folder, name, [*more, "--resume", "--overwrite"], codes=(1, 2))
        shop.run(folder, name, [*more, "--overwrite"], codes=(1,))
    if shop.rows(folder / name) != shop.expected[name]:
        raise Broken(f"{victim.name}: {name} has other rows")


def odd_rows(shop, generator):
    folder = shop.fresh()
    lines = [generators.odd_row(generator) for _ in range(20)]
    path = shop.root / "odd.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    result = subprocess.run([BANYAN, "ask", "-m", shop.model, str(path), *ANSWER, "-o", str(folder / "out.jsonl")],
                            capture_output=True, timeout=120)
    if result.returncode not in (0, 1):
        shutil.copy(path, tempfile.gettempdir())
        raise Broken(f"exit {result.returncode}: {result.stderr.decode(errors='replace')}")
    rows = (folder / "out.jsonl").read_bytes().splitlines()
    wanted = sum(1 for line in b"\n".join(lines).split(b"\n") if line.strip(b" \t\r"))
    if len(rows) < wanted:
        raise Broken(f"{wanted} lines, {len(rows)} rows")
    for row in rows:
        json.loads(row)


def damaged_models(shop, generator):
    folder = shop.fresh()
    model = folder / "model.gguf"
    model.write_bytes(generators.mutated(pathlib.Path(shop.model).read_bytes(), generator))
    for command in ([BANYAN, "model", "show", str(model)],
                    [BANYAN, "ask", "-m", str(model), str(shop.input), *ANSWER, "-o", str(folder / "out.jsonl")]):
        result = subprocess.run(command, capture_output=True, timeout=120)
        if result.returncode not in (0, 1, 2):
            shutil.copy(model, tempfile.gettempdir())
            raise Broken(f"{command[1]}: exit {result.returncode}: {result.stderr[-500:].decode(errors='replace')}")


def has_open(process, path):
    folder = f"/proc/{process.pid}/fd"
    try:
        return any(os.path.realpath(f"{folder}/{fd}") == str(path) for fd in os.listdir(folder))
    except OSError:
        return False


def two_jobs(shop, generator):
    """A job that opened the output, and locks it only after another has put a new file in its place."""
    name, more = generator.choice(SHAPES)
    folder = shop.fresh()
    shop.run(folder, name, more)
    delay = generator.randint(0, 100) if generator.random() < 0.3 else 1500
    env = dict(os.environ, LD_PRELOAD=fault_library.PATH, FAULT_LOCK_DELAY_MS=str(delay))
    retry = [*more, "--resume", "--retry-errors"]
    delayed = subprocess.Popen(shop.command(folder, name, [*more, "--resume"]), env=env, stderr=subprocess.PIPE)
    while delay == 1500 and delayed.poll() is None and not has_open(delayed, (folder / name).resolve()):
        time.sleep(0.005)
    others = [subprocess.Popen(shop.command(folder, name, retry), stderr=subprocess.DEVNULL) for _ in range(2)]
    codes = {process.wait() for process in others}
    said = delayed.communicate(timeout=120)[1].decode(errors="replace")
    codes.add(delayed.returncode)
    if not codes <= {1, 2}:
        raise Broken(f"exit codes {codes}")
    # Nobody else was left when it locked, so it had the output for itself, and knew which one.
    if delayed.returncode == 2 and "another job" not in said:
        raise Broken(said)
    shop.check(folder, name, more)


KINDS = {f.__name__: f for f in (crash, disk_errors, short_writes, kills, sorted_inputs, changed_inputs, overwritten,
                                 edited_outputs, odd_rows, damaged_models, two_jobs)}
SHORT_ROUNDS = {"crash": 12, "disk_errors": 10, "edited_outputs": 12}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else (1 if options.seconds is None else time.time_ns() % 10**9)
    failed = 0
    print(f"faults: seed {seed}")
    with tempfile.TemporaryDirectory(prefix="banyan-faults-") as root:
        shop = Workshop(pathlib.Path(root))
        for kind in options.kinds:
            tried = held = 0
            end = time.time() + (options.seconds or 0)
            while (time.time() < end) if options.seconds else (tried < SHORT_ROUNDS.get(kind, 5)):
                generator = random.Random(f"{seed} {kind} {tried}")
                tried += 1
                try:
                    KINDS[kind](shop, generator)
                    held += 1
                except (Broken, subprocess.TimeoutExpired, ValueError) as e:
                    print(f"  {kind}, round {tried - 1} of seed {seed}: {e}")
            print(f"  {kind:<16} tried {tried:>6}  held {held:>6}", flush=True)
            failed += tried - held
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
