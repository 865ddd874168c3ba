"""The costs of a job on many machines, measured on this one in processor seconds: others may be running on it."""

from __future__ import annotations

import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Sequence

import banyan
from banyan._block_job import BlockWorker, plan
from banyan._job_folder import JobFolder
from banyan._plan import Line

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (
    "The ferry Marigold leaves at 7:45 every morning. It is painted yellow and has 64 seats. Anna Walker steers it, and"
    " her brother sells the tickets at the pier. "
)


class Folders:
    """A new folder for every job."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.count = root, 0

    def next(self) -> pathlib.Path:
        self.count += 1
        return self.root / str(self.count)


def documents(count: int, words: int, questions: int) -> list[dict[str, Any]]:
    text = " ".join((TEXT * (words // 25 + 1)).split()[:words])
    return [
        {"id": i, "context": f"{i} {text}", "questions": [f"What is thing {k} about?" for k in range(questions)]}
        for i in range(count)
    ]


def planned(
    folder: pathlib.Path, rows: Sequence[dict[str, Any]], model: str, max_new: int, block_tokens: int
) -> JobFolder:
    return plan(
        "ask", rows, folder, {"max_new": max_new}, model=model, model_options={}, workers=100, block_tokens=block_tokens
    )


def answered(worker: BlockWorker, job: JobFolder) -> tuple[float, dict[str, Any]]:
    """Processor seconds of all blocks, and what was computed."""
    worker.folder, worker.blocks = job, (job.manifest() or {})["blocks"]
    worker.options["max_new"] = job.manifest()["job"]["options"]["max_new"]
    start = time.process_time()
    for number in range(len(worker.blocks)):
        worker.answer(number)
    return time.process_time() - start, job.join(lambda text: None)


def job_costs(
    folders: Folders, model: str, words: str, length: int, questions: int, max_new: int, asked: int = 24, count: int = 2
) -> dict[str, Any]:
    """What a token costs: from a job that mostly reads (one question a document) and one that writes (`asked`)."""
    first = planned(folders.next(), documents(count, length, 1), model, 1, 10**9)
    start = time.process_time()
    worker = BlockWorker(
        str(first.path), {"model": model, "threads": 1}, "ask", {"max_new": 1}, {"kv_memory": "256M"}, {}
    )
    loaded = time.process_time() - start
    read_seconds, read = answered(worker, first)
    many = planned(folders.next(), documents(count, length, asked), model, max_new, 10**9)
    written_seconds, written = answered(worker, many)
    worker.model.close()
    # read_seconds = a·P1 + b·G1, written_seconds = a·P2 + b·G2
    p1, g1, p2, g2 = (
        read["prefilled_tokens"],
        read["generated_tokens"],
        written["prefilled_tokens"],
        written["generated_tokens"],
    )
    determinant = p1 * g2 - p2 * g1
    return {
        "words": words,
        "documents": 1_000_000,
        "rows": 1_000_000 * questions,
        "load_seconds": loaded,
        "prefill_seconds": (read_seconds * g2 - written_seconds * g1) / determinant,
        "generate_seconds": (p1 * written_seconds - p2 * read_seconds) / determinant,
        "prefilled_per_document": (p1 + (p2 - p1) * (questions - 1) / (asked - 1)) / count,
        "generated_per_document": g2 * questions / asked / count,
    }


def machine_costs(folders: Folders) -> dict[str, Any]:
    model = banyan._model.named_model(None)[0]
    many = documents(2000, 90, 3)
    start = time.process_time()
    planned(folders.next(), many, model, 16, 100_000)
    plan_seconds = (time.process_time() - start) / len(many)
    few = documents(24, 8, 1)
    one, apart = planned(folders.next(), few, model, 2, 10**9), planned(folders.next(), few, model, 2, 1)
    worker = BlockWorker(
        str(one.path), {"model": model, "threads": 1}, "ask", {"max_new": 2}, {"kv_memory": "256M"}, {}
    )
    together, _ = answered(worker, one)
    divided, _ = answered(worker, apart)
    equal = [answered(worker, planned(folders.next(), documents(4, 60, 1), model, 8, 10**9))[0] for _ in range(6)]
    worker.model.close()
    blocks = len((apart.manifest() or {})["blocks"])
    joined = join_seconds(folders.next())
    empty = JobFolder(folders.next())
    (empty.path / "parts").mkdir(parents=True)
    began = time.monotonic()
    for number in range(50):
        empty.write_part(number, [[0, 0, "rows", 1]], [b'{"id":1,"banyan:record":0}'], {"seconds": 0})
    files = 100 / (time.monotonic() - began)
    return {
        "plan_seconds_per_document": plan_seconds,
        "join_seconds_per_row": joined,
        "process_seconds": process_seconds(),
        "block_seconds": max(0.0, (divided - together) / (blocks - 1)),
        "speed_spread": statistics.stdev(equal) / statistics.mean(equal),
        "start_spread": 0.3,
        "hand_out_seconds": hand_out_seconds(),
        "files_per_second": files,
    }


def join_seconds(path: pathlib.Path, blocks: int = 20, records: int = 200, rows: int = 3) -> float:
    """A row's, of parts that are as large as a job's: three rows of two hundred bytes a record."""
    lines = [[Line(block * records + i, 0, "{}", "rows", i + 1) for i in range(records)] for block in range(blocks)]
    job = JobFolder(path)
    job.create({}, [(1, one) for one in lines], blocks * records)
    for number, one in enumerate(lines):
        texts = [
            b'{"id":%d,"answer":"%s","banyan:record":%d}' % (line.place, b"a" * 150, line.place)
            for line in one
            for _ in range(rows)
        ]
        job.write_part(
            number,
            [[line.place, 0, "rows", line.line] for line in one],
            texts,
            {"prompt_tokens": 0, "prefilled_tokens": 0, "generated_tokens": 0, "error_rows": 0, "seconds": 0},
        )
    with open(path / "joined", "wb") as file:
        start = time.process_time()
        facts = job.join(file.write)
        return (time.process_time() - start) / facts["rows"]


def process_seconds() -> float:
    """A worker's start: Python, Ray and the package."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import ray, ray.data, banyan.ray"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def hand_out_seconds(few: int = 20, many: int = 220) -> float:
    """Processor seconds of the driver, whose loop hands out one block after another, for one that costs nothing."""
    sys.path.append(str(ROOT / "python" / "tests"))
    from ray_cluster import LocalCluster

    class Nothing:
        def ready(self) -> str:
            return ""

        def work(self, number: int) -> int:
            return number

    cluster = LocalCluster(cpus=2)
    try:
        cluster.connect()
        import ray
        from banyan._ray_pool import WorkerPool, Workers

        seconds = []
        for blocks in (few, many):
            start = time.process_time()
            WorkerPool([Workers(1)], [1], lambda kind: ray.remote(Nothing).remote()).run(
                range(blocks), lambda number: None
            )
            seconds.append(time.process_time() - start)
        ray.shutdown()
    finally:
        cluster.stop()
    return max(1e-4, (seconds[1] - seconds[0]) / (many - few))


def processor() -> str:
    for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("Model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folders = Folders(pathlib.Path(name))
        machine = machine_costs(folders)
        jobs = {
            "SmolLM2-135M": job_costs(
                folders, "smollm2-135m-instruct", "a page each, 6 questions; a core a worker", 320, 6, 16
            ),
            "shipped reader": job_costs(
                folders, banyan.SHIPPED_MODEL, "a paragraph each, 3 questions; a core a worker", 90, 3, 16, count=6
            ),
        }
    for job in jobs.values():
        job["start_seconds"] = machine["process_seconds"] + job["load_seconds"]
    return {
        "where": f"one core of this machine ({platform.machine()}, {processor()})",
        "machine": machine,
        "jobs": jobs,
    }
