"""A job of many rows on a local Ray cluster whose workers are killed again and again: no row is lost, none comes twice,
and the output is that of one machine, byte for byte.

    PYTHON tests/faults/ray_rows.py --banyan build/release/banyan --make-tiny-model build/release/make_tiny_model \\
        --rows 1000000 --kill-seconds 60

`make test-ray-faults ROWS=1000000` runs it. The model is tiny and random, documents are short and answers have one
token: what is tested is the way of the rows.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python" / "tests"))
from ray_cluster import LocalCluster  # noqa: E402

from banyan._digest import file_digest  # noqa: E402

OPTIONS = {"max_new": 1, "instruction": "x", "template": "{context} {question}", "chat": "off"}
DRIVER = textwrap.dedent("""
    import json, sys, ray, banyan.ray
    address, source, output, folder, model, workers, options = sys.argv[1:]
    ray.init(address=address, log_to_driver=False)
    summary = banyan.ray.ask(source, output, folder=folder, model=model, workers=int(workers), engine={"kv_memory": "64M"},
                             **json.loads(options))
    print(json.dumps({"rows": summary.rows, "blocks": summary.blocks, "this_run": summary.blocks_this_run,
                      "seconds": summary.seconds}))
    """)


def write_input(path: pathlib.Path, rows: int) -> int:
    """Records with one, two or three questions, until there are so many rows; how many records."""
    written = records = 0
    with open(path, "w") as file:
        while written < rows:
            count = min(records % 3 + 1, rows - written)
            questions = [f"q{number}" for number in range(count)]
            file.write(json.dumps({"id": f"d{records}", "context": f"t{records * 7919 % 1000003}", "questions": questions}) + "\n")
            written, records = written + count, records + 1
    return records


def one_machine(banyan: str, model: pathlib.Path, source: pathlib.Path, output: pathlib.Path) -> float:
    options = [word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    start = time.monotonic()
    subprocess.run([banyan, "ask", "-m", model, source, "--ordered", "--quiet", "--threads", "1", "--kv-memory", "64M",
                    "-o", output, *options], check=True)
    return time.monotonic() - start


class Killer:
    """Kills a worker of the cluster every so many seconds, and the driver once."""

    def __init__(self, cluster: LocalCluster, seconds: float) -> None:
        self.cluster, self.seconds = cluster, seconds
        self.random = random.Random(37)
        self.next = time.monotonic() + seconds
        self.workers = 0
        self.driver_kib = 0  # the most memory that a driver had

    def watch(self, driver: int) -> None:
        try:
            with open(f"/proc/{driver}/status") as file:
                most = [int(line.split()[1]) for line in file if line.startswith("VmHWM")]
        except OSError:
            return
        self.driver_kib = max([self.driver_kib, *most])

    def tick(self) -> None:
        if time.monotonic() < self.next:
            return
        found = self.cluster.processes(b"ray::BlockWorker")
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.workers += 1
            self.next = time.monotonic() + self.seconds


def share_done(job: pathlib.Path) -> float:
    """Of a job's blocks, those that have their parts."""
    if not (job / "manifest.json").exists():
        return 0.0
    blocks = len(list((job / "blocks").glob("*.jsonl")))
    return len(list((job / "parts").glob("*.json"))) / max(1, blocks)


def run_driver(command: list[str], log: pathlib.Path, killer: Killer, job: pathlib.Path, die_at: float) -> dict | None:
    """The driver's own words at its end; None: it was killed when this share of the job was done."""
    with open(log, "w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as driver:
        while driver.poll() is None:
            killer.tick()
            killer.watch(driver.pid)
            if share_done(job) >= die_at:
                driver.kill()
                driver.wait()
                return None
            time.sleep(0.5)
        if driver.returncode != 0:
            sys.exit(f"the driver failed:\n{log.read_text()[-4000:]}")
        assert driver.stdout is not None
        return json.loads(driver.stdout.read().splitlines()[-1])


def check_rows(output: pathlib.Path, rows: int) -> None:
    """Every row is there once, counted by its own words."""
    seen = set()
    count = 0
    with open(output, "rb") as file:
        for line in file:
            row = json.loads(line)
            if "error" in row:
                sys.exit(f"an error row: {line!r}")
            seen.add((row["id"], row["question_id"]))
            count += 1
    if (count, len(seen)) != (rows, rows):
        sys.exit(f"expected {rows} rows, found {count}, of which {len(seen)} are different")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banyan", required=True)
    parser.add_argument("--make-tiny-model", required=True)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kill-seconds", type=float, default=60.0)
    parser.add_argument("--keep-driver", action="store_true", help="do not kill the driver when a third is done")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", help="for the files; what one machine wrote there is used again. By default one that is removed at the end")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ray-rows-") as temporary:
        folder = pathlib.Path(arguments.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        model, source, whole, output = (folder / name for name in ("tiny.gguf", "in.jsonl", "one.jsonl", "many.jsonl"))
        subprocess.run([arguments.make_tiny_model, model, "1024"], check=True)
        if not whole.exists():
            records = write_input(source, arguments.rows)
            alone = one_machine(arguments.banyan, model, source, folder / "part.jsonl")
            os.replace(folder / "part.jsonl", whole)
            print(f"one machine: {arguments.rows} rows of {records} records in {alone:.0f} s", flush=True)
        cluster = LocalCluster(cpus=arguments.workers)
        try:
            cluster.connect()
            import ray
            ray.shutdown()
            killer = Killer(cluster, arguments.kill_seconds)
            command = [sys.executable, "-c", DRIVER, cluster.address, source, output, folder / "job", model,
                       arguments.workers, json.dumps(OPTIONS)]
            command = [str(word) for word in command]
            start = time.monotonic()
            said = run_driver(command, folder / "driver.log", killer, folder / "job", 9.0 if arguments.keep_driver else 0.33)
            drivers = 0
            if said is None:
                drivers, said = 1, run_driver(command, folder / "driver.log", killer, folder / "job", 9.0)
            seconds = time.monotonic() - start
        finally:
            cluster.stop()
        assert said is not None
        check_rows(output, arguments.rows)
        if file_digest(str(whole)) != file_digest(str(output)):
            sys.exit(f"{output}: is not what one machine wrote ({whole})")
        print(f"cluster: {said['rows']} rows in {seconds:.0f} s ({said['rows'] / seconds:.0f} rows/s) with {arguments.workers} "
              f"workers; killed: {killer.workers} workers, {drivers} drivers; {said['blocks']} blocks; driver at most "
              f"{killer.driver_kib / 1024:.0f} MiB; equal to one machine, byte for byte", flush=True)


if __name__ == "__main__":
    main()
