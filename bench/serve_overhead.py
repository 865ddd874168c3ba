"""What the server costs over the engine alone: one job by `banyan ask` and over HTTP, in turns.

    python3 -m bench.serve_overhead MODEL [--banyan PATH] [--questions 64] [--rounds 5] [--threads 2] [--cores 10-13]

The job is one document with many questions: the engine computes the same steps on both sides, and the rows are compared
before anything counts. Over HTTP it is asked in three ways: one request for all, the same streamed, and a client for
every question, all at once. Each has a server of its own that has just started, so that nothing is in its cache.

Wall seconds are the command's own without loading (`--receipt`), and those from a client's first byte to its last.
Processor seconds are the processes' whole lives, loading included, on both sides: the figure for a machine that others
use too. The table has the medians of the rounds' ratios.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import threading
import time

from bench import serve_load

WAYS = ("one request", "streamed", "a client each")


def post(port: int, body: dict) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/ask", json.dumps(body))
    reply = connection.getresponse()
    data = reply.read()
    if reply.status != 200:
        raise RuntimeError(f"{reply.status}: {data[:300]!r}")
    return data


def rows_of(data: bytes, streamed: bool) -> list[dict]:
    if not streamed:
        return json.loads(data)["rows"]
    events = [
        json.loads(part[6:])
        for part in data.decode().split("\n\n")
        if part.startswith("data: ") and part != "data: [DONE]"
    ]
    answers = [event for event in events if event["type"] == "answer"]
    return [event["row"] for event in sorted(answers, key=lambda event: event["question"])]


def over_http(port: int, way: str, body: dict) -> tuple[list[dict], float]:
    """The rows in the questions' order and the wall seconds."""
    if way == "a client each":
        bodies = [{**body, "questions": [question]} for question in body["questions"]]
    else:
        bodies = [{**body, "stream": way == "streamed"}]
    replies: list[bytes] = [b""] * len(bodies)

    def client(i: int) -> None:
        replies[i] = post(port, bodies[i])

    threads = [threading.Thread(target=client, args=(i,)) for i in range(len(bodies))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    return [row for reply in replies for row in rows_of(reply, way == "streamed")], seconds


def processor_seconds(process: subprocess.Popen) -> float:
    """Of a process that is ending, all of its life."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


class Job:
    def __init__(self, arguments, seed: int):
        dice = random.Random(seed)
        self.arguments = arguments
        self.body = {
            "documents": [{"id": "d", "text": serve_load.text_of(arguments.words, dice)}],
            "questions": [
                {"id": i, "question": f"What did the {' '.join(dice.sample(serve_load.WORDS, 2))} do?"}
                for i in range(arguments.questions)
            ],
            "max_tokens": arguments.tokens,
        }

    def by_command(self, folder: pathlib.Path) -> tuple[list[dict], float, float]:
        """Rows, wall seconds without loading, processor seconds."""
        a = self.arguments
        source, output, receipt = (folder / name for name in ("in.jsonl", "out.jsonl", "receipt.json"))
        document = self.body["documents"][0]
        source.write_text(
            json.dumps({"id": document["id"], "context": document["text"], "questions": self.body["questions"]}) + "\n"
        )
        pinned = ["taskset", "-c", a.cores] if a.cores else []
        process = subprocess.Popen(
            pinned
            + [
                a.banyan,
                "ask",
                "-m",
                a.model,
                str(source),
                "-o",
                str(output),
                "--receipt",
                str(receipt),
                "--max-new",
                str(a.tokens),
                "--threads",
                str(a.threads),
                "--ordered",
                "--overwrite",
                "--quiet",
            ]
        )
        used = processor_seconds(process)
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        return rows, json.loads(receipt.read_text())["seconds"]["total"], used

    def by_server(self, way: str) -> tuple[list[dict], float, float]:
        a = self.arguments
        server, port = serve_load.banyan(a.banyan, a.model, a.threads, a.cores)
        rows, seconds = over_http(port, way, self.body)
        server.process.terminate()
        return rows, seconds, processor_seconds(server.process)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--banyan", default="build/release/banyan")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--words", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cores", default="")
    parser.add_argument("--seconds", type=float, default=600, help="no round begins later")
    arguments = parser.parse_args()
    found: dict[str, list] = {way: [] for way in WAYS}
    command = []
    end = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory(prefix="serve-overhead-") as folder:
        for number in range(arguments.rounds):
            if number > 0 and time.monotonic() > end:
                break
            job = Job(arguments, number)
            expected, *times = job.by_command(pathlib.Path(folder))
            command.append(times)
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                rows, *times = job.by_server(way)
                if rows != expected:
                    raise SystemExit(f"the rows differ: {way}")
                found[way].append(times)
    median = statistics.median
    print(
        f"{len(command)} rounds of {arguments.questions} questions, {arguments.threads} threads; all rows equal\n"
        "| | wall s | ratio (least to most) | processor s | ratio (least to most) |\n|---|---|---|---|---|\n"
        f"| `banyan ask` | {median(c[0] for c in command):.3f} | | {median(c[1] for c in command):.3f} | |"
    )
    for way, times in found.items():
        ratios = [[mine[kind] / alone[kind] for mine, alone in zip(times, command)] for kind in (0, 1)]
        cells = [
            f"{median(t[kind] for t in times):.3f} | **{median(ratios[kind]):.3f}** ({min(ratios[kind]):.3f} to "
            f"{max(ratios[kind]):.3f})"
            for kind in (0, 1)
        ]
        print(f"| {way} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
