"""Good and hostile clients (soak_clients.py, soak_attacks.py) together on loopback in a bad world (soak_world.py): no wrong
answer, no error of the server that nobody caused, no growth after a warm-up. Memory, descriptors, threads and latencies are
sampled every second.

usage: BANYAN=build/release/banyan soak.py [--seconds 60] [--pace 1] [--plot FILE.svg] [--samples FILE.jsonl]
BANYAN_TEST_ENCODER names an encoder for /v1/embeddings; without it there is a small one that is made here.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import harness
import tiny_encoder
from harness import ASK, QUESTIONS, Server, mixed_requests
from soak_attacks import ATTACKS
from soak_clients import BATCH_LINES, CLIENTS, good_client
from soak_plot import draw
from soak_world import World
from test_batches import lines, upload

MEMORY_MIB = 512  # of the container
# The server's for heads, bodies and writing: a machine with other work may be slower than its clients are elsewhere.
SLOW_SECONDS = 20


class Soak:
    def __init__(self, options):
        self.options, self.over = options, threading.Event()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-soak-"))
        self.world = World(self.folder, MEMORY_MIB)
        self.lock = threading.Lock()
        self.counts, self.wrong = collections.Counter(), []
        self.latencies, self.all_latencies = [], collections.defaultdict(list)
        self.samples, self.last_kv_mib = [], None
        self.start()

    def start(self):
        arguments = ["--threads", 1, "--state", self.world.state, "--max-requests", 64, "--request-seconds", 300]
        for limit in ("header", "body", "write"):
            arguments += [f"--{limit}-seconds", SLOW_SECONDS]
        index = self.folder / "index"
        source = self.folder / "documents.jsonl"
        source.write_text("".join(json.dumps(document) + "\n" for document in ASK["documents"]), encoding="utf-8")
        subprocess.run([harness.BANYAN, "rag", "index", "--quiet", index, source], check=True)
        arguments += ["--encoder", os.environ.get("BANYAN_TEST_ENCODER") or tiny_encoder.write(self.folder / "letters")]
        harness.BANYAN = self.world.program(harness.BANYAN)
        self.server = Server(*arguments, "--index", index)
        requests = mixed_requests() + [("/v1/rag", {"questions": QUESTIONS})]
        self.encoder = self.server.json("/v1/models")[1]["data"][1]["id"]
        requests.append(("/v1/embeddings", {"model": self.encoder, "input": ["a ferry in the morning", QUESTIONS[0]]}))
        self.requests = [(path, body, self.essence(self.server.json(path, body)[1])) for path, body in requests]
        self.batch_rows = sorted((row["custom_id"], self.server.json(row["url"], row["body"])[1]["choices"])
                                 for row in lines(BATCH_LINES, 6))

    def essence(self, reply):
        return reply["data"] if "data" in reply else harness.essence(reply)

    def count(self, name, more=1):
        with self.lock:
            self.counts[name] += more

    def say_wrong(self, *what):
        with self.lock:
            self.wrong.append(what)
        print("wrong:", *(str(part)[:600] for part in what), flush=True)

    def pause(self, dice, seconds=1.0):
        self.over.wait(self.options.pace * seconds * 2 * dice.random())

    def ask(self, path, body=None, name=None, method=None):
        """(status, bytes). Whatever is not 200 must be a promise kept: 429, or 503 while the disk is full."""
        name, began, sent = name or path, time.monotonic(), None
        try:
            with contextlib.closing(self.server.connect(600)) as connection:
                connection.request(method or ("GET" if body is None else "POST"), path, None if body is None else json.dumps(body)
                                   if isinstance(body, dict) else body)
                sent = time.monotonic()
                reply = connection.getresponse()
                status, data = reply.status, reply.read()
        except OSError as error:
            if (sent or time.monotonic()) - began > SLOW_SECONDS:  # the client had no processor, and was closed as promised
                self.count("too slow to ask")
                return self.ask(path, body, name, method)
            self.say_wrong(name, repr(error))
            return 0, b""
        seconds = time.monotonic() - began
        self.count(f"{name} {status}")
        with self.lock:
            self.all_latencies[name].append(seconds)
            if status == 200:
                self.latencies.append(seconds)
        if status == 429:
            self.over.wait(1)
        elif status == 503:
            self.excuse_disk(name, data.decode(), began)
        elif status != 200:
            self.say_wrong(name, status, data)
        return status, data

    def excuse_disk(self, name, message, began):
        """A refusal for a full disk is right while it is full, and only then."""
        self.count(f"{name} refused")
        if "429" in message or "too many" in message or "rate_limit" in message:
            return
        if "disk" not in message or not self.world.had("full disk", began):
            self.say_wrong(name, message)

    def upload(self, rows):
        """The file's id; None while the disk is full."""
        began = time.monotonic()
        try:
            return upload(self.server, rows)
        except AssertionError as refused:
            self.excuse_disk("upload", str(refused), began)
        except OSError as error:
            if time.monotonic() - began > SLOW_SECONDS:
                self.count("too slow to ask")
            else:
                self.say_wrong("upload", repr(error))
        return None

    def delete(self, path):
        """Also while the disk is full: deleting needs no room."""
        status = 0
        while status != 200:
            status, data = self.ask(path, method="DELETE", name=path.rsplit("/", 1)[0] + "/ID deleted")
            if status not in (200, 429):
                return self.say_wrong("delete", path, status, data)

    def faults(self):
        for number in range(10 ** 9):
            if self.over.wait(self.options.between_faults):
                return
            fault = World.FAULTS[number % len(World.FAULTS)]
            fault(self.world, self.server.process.pid, lambda: self.over.wait(self.options.fault_seconds))
            self.count("fault: " + fault.__name__.replace("_", " "))

    def sample(self, began):
        pid = self.server.process.pid
        with open(self.options.samples or os.devnull, "w", encoding="utf-8") as file:
            while not self.over.is_set() and self.server.process.poll() is None:
                with self.lock:
                    latencies, self.latencies = self.latencies, []
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                field = {name: int(re.search(name + r":\s+(\d+)", status).group(1)) for name in ("VmRSS", "RssAnon", "Threads")}
                self.samples.append({
                    "seconds": round(time.monotonic() - began, 2), "resident_mib": field["VmRSS"] / 1024,
                    "anonymous_mib": field["RssAnon"] / 1024, "group_mib": self.world.group.used() / 2**20 if self.world.group else None,
                    "kv_mib": self.kv_mib(len(self.samples)),
                    "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": field["Threads"],
                    "median_s": statistics.median(latencies) if latencies else None, "slowest_s": max(latencies, default=None)})
                file.write(json.dumps(self.samples[-1]) + "\n")
                file.flush()
                self.over.wait(1)

    def kv_mib(self, number):
        """The most that documents took so far, so that growth of memory can be told from it; asked for every tenth time."""
        if number % 10 == 0:
            with contextlib.suppress(OSError, AssertionError, http.client.HTTPException):  # refused while there is no room
                self.last_kv_mib = self.server.metric("banyan_kv_bytes_peak") / 2**20
        return self.last_kv_mib

    def guarded(self, target, *arguments):
        try:
            target(*arguments)
        except Exception as error:  # a client that ends early would look like success
            self.say_wrong(getattr(target, "__name__", "?"), "ended with", repr(error))

    def run(self):
        began = time.monotonic()
        work = [(good_client, self, seed) for seed in range(self.options.good)]
        work += [(client, self, 100 + number) for number, client in enumerate(CLIENTS + ATTACKS)] + [(self.faults,), (self.sample, began)]
        threads = [threading.Thread(target=self.guarded, args=what, daemon=True) for what in work]
        for thread in threads:
            thread.start()
        signal.signal(signal.SIGTERM, lambda *_: self.over.set())
        while not self.over.wait(1):
            if time.monotonic() - began > self.options.seconds or self.server.process.poll() is not None:
                self.over.set()
        self.lasted = time.monotonic() - began
        for thread in threads:
            thread.join(180)
        self.settle()

    def settle(self):
        """What is right after all of it: everybody's room is free, answers are the same, nothing is left on the disk."""
        server = self.server
        if server.process.poll() is not None:
            return self.say_wrong("the server ended with", server.process.returncode, server.said()[-2000:])
        self.guarded(server.wait_until, lambda: server.metric("banyan_bodies_bytes") == 0, 60)
        self.guarded(server.wait_until, lambda: server.metric("banyan_connections") < 10, 60)
        for path, body, expected in self.requests:
            if self.essence(server.json(path, body)[1]) != expected:
                self.say_wrong("afterwards", path)
        self.judge_statuses()
        left = [str(path) for path in self.world.state.rglob("*") if path.is_file() and path.name != "lock"]
        if left:
            self.say_wrong("left on the disk", left)
        if self.world.group and self.world.group.kills():
            self.say_wrong("killed for memory", self.world.group.kills())
        code = server.stop()
        if code != 0:
            self.say_wrong("the server ended with", code)

    def judge_statuses(self):
        """What the server itself counted, hostile clients included: 500 never; 503 and 504 only where a client knows why."""
        text = self.server.ask("GET", "/metrics")[2].decode()
        served = collections.Counter()
        for status, number in re.findall(r'banyan_http_requests_total\{path="[^"]*",status="(\d+)"\} (\d+)', text):
            served[int(status)] += int(number)
        self.served = dict(sorted(served.items()))
        known = {503: sum(number for name, number in self.counts.items() if name.endswith(" refused")),
                 504: self.counts["attack: out of time"]}
        bad = {status: number for status, number in served.items() if status >= 500}
        if any(number > known.get(status, 0) for status, number in bad.items()):
            self.say_wrong("errors of the server", bad, "clients know of", known)

    def growth(self, name):
        """The median of the last quarter against that of the second: the first is for warming up."""
        values = [sample[name] for sample in self.samples]
        quarter = max(1, len(values) // 4)
        return statistics.median(values[quarter:2 * quarter] or values), statistics.median(values[-quarter:])

    def report(self):
        group = [sample["group_mib"] for sample in self.samples if sample["group_mib"] is not None]
        result = {"seconds": round(self.lasted), "counts": dict(sorted(self.counts.items())), "served": getattr(self, "served", None),
                  "early and late": {name: [round(value, 1) for value in self.growth(name)] for name in
                                     ("anonymous_mib", "resident_mib", "descriptors", "threads")},
                  "most": {name: round(max(sample[name] for sample in self.samples), 1) for name in
                           ("anonymous_mib", "resident_mib", "descriptors", "threads")},
                  "most of the container": [round(max(group)), MEMORY_MIB] if group else None,
                  "latency: number, median, 99 %, most": {name: [len(times), *(round(sorted(times)[int(q * (len(times) - 1))], 3)
                                                                               for q in (0.5, 0.99, 1))]
                                                          for name, times in sorted(self.all_latencies.items())},
                  "left out": self.world.left_out, "wrong": len(self.wrong)}
        print(json.dumps(result, indent=1))

    def end(self):
        with contextlib.suppress(Exception):
            self.server.process.kill()
            self.server.process.wait(30)
        self.world.end()
        shutil.rmtree(self.folder, True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pace", type=float, default=0.3, help="seconds that a good client waits between requests, on average")
    parser.add_argument("--good", type=int, default=4, help="good clients")
    parser.add_argument("--between-faults", type=float, default=4)
    parser.add_argument("--fault-seconds", type=float, default=3)
    parser.add_argument("--plot")
    parser.add_argument("--samples")
    soak = Soak(parser.parse_args())
    try:
        soak.run()
        soak.report()
        if soak.options.plot:
            pathlib.Path(soak.options.plot).write_text(draw(soak.samples), encoding="utf-8")
        assert not soak.wrong, soak.wrong[:3]
        assert soak.counts["batches"] > 0 and soak.counts["fault: clock jump"] > 0, "nothing was done"
        memory, descriptors, threads = map(soak.growth, ("anonymous_mib", "descriptors", "threads"))
        assert memory[1] < 1.1 * memory[0] + 24, "memory grew"
        assert descriptors[1] < descriptors[0] + 20, "descriptors grew"
        assert threads[1] < threads[0] + 20, "threads grew"
    finally:
        soak.end()


if __name__ == "__main__":
    main()
