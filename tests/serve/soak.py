"""Good and hostile clients together on loopback, while faults are injected: no wrong answer, no error of the server that
nobody caused, no growth after a warm-up. Memory, descriptors and latencies are sampled every second.

Faults: files of the server may not grow (a full disk), the PDF converter hangs or is killed, the process is stopped for a
second and goes on (a stall), clients vanish in every way of hostile.py.

usage: BANYAN=build/release/banyan soak.py [--seconds 60] [--plot FILE.svg] [--samples FILE.json]
"""
import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import statistics
import tempfile
import threading
import time

from harness import Server, essence, mixed_requests
from hostile import attack
from soak_plot import draw
from test_batches import lines, rows_of, upload


class Soak:
    def __init__(self, seconds):
        self.seconds, self.over = seconds, threading.Event()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-soak-"))
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        converter = self.tools / "pdftotext"
        converter.write_text("#!/bin/sh\nexec sleep 300\n")
        converter.chmod(0o755)
        os.environ["PATH"] = f"{self.tools}:{os.environ['PATH']}"
        self.server = Server("--state", self.folder / "state", "--header-seconds", 2, "--body-seconds", 2, "--write-seconds", 3,
                             "--max-requests", 64, "--request-seconds", 30)
        self.requests = [(path, body, essence(self.server.json(path, body)[1])) for path, body in mixed_requests()]
        self.lock = threading.Lock()
        self.counts, self.wrong, self.latencies = collections.Counter(), [], []
        self.samples = []

    def count(self, name):
        with self.lock:
            self.counts[name] += 1

    def say_wrong(self, *what):
        with self.lock:
            self.wrong.append(what)

    def good_client(self, seed):
        dice = random.Random(seed)
        while not self.over.is_set():
            path, body, expected = dice.choice(self.requests)
            began = time.monotonic()
            try:
                status, reply = self.server.json(path, body)
            except OSError as error:
                self.say_wrong(path, repr(error))
                continue
            with self.lock:
                self.latencies.append(time.monotonic() - began)
            self.count(f"good {status}")
            if status == 429:  # told to come again, as is promised
                time.sleep(0.2)
            elif status != 200 or essence(reply) != expected:
                self.say_wrong(path, status, reply)

    def batch_client(self):
        """Uploads, a batch, its rows, and everything deleted; while the disk is full an upload may be refused with 503."""
        while not self.over.is_set():
            try:
                file = upload(self.server, lines(12, 6))
                status, batch = self.server.json("/v1/batches", {"input_file_id": file, "endpoint": "/v1/chat/completions"})
            except AssertionError as refused:
                if "disk" not in str(refused) and "429" not in str(refused) and "too many" not in str(refused):
                    self.say_wrong("upload", str(refused))
                self.count("upload refused")
                time.sleep(0.5)
                continue
            if status == 200:
                self.watch_batch(batch["id"])
            self.server.json("/v1/files/" + file, method="DELETE")

    def watch_batch(self, name):
        while not self.over.is_set():
            batch = self.server.json("/v1/batches/" + name)[1]
            if batch.get("status") in ("completed", "failed"):
                break
            time.sleep(0.3)
        else:
            return
        if batch["status"] != "completed":
            return self.say_wrong("batch", batch)
        rows = rows_of(self.server, batch["output_file_id"])
        if sorted(row["custom_id"] for row in rows) != sorted(f"line-{i}" for i in range(12)):
            self.say_wrong("rows", rows)
        self.count("batches")
        self.server.json("/v1/files/" + batch["output_file_id"], method="DELETE")
        self.server.json("/v1/batches/" + name, method="DELETE")

    def pdf_client(self):
        """The converter hangs: some leave, some are there when it is killed."""
        request = b"POST /v1/documents?name=a.pdf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n%PDF-1.4"
        for number in range(10 ** 9):
            if self.over.is_set():
                return
            try:
                connection = self.server.raw(request)
                time.sleep(0.5)
                if number % 2:
                    self.kill_converters()
                    connection.settimeout(10)
                    connection.recv(100)
                connection.close()
                self.count("converters killed" if number % 2 else "converters left")
            except OSError:
                pass
            time.sleep(1)

    def kill_converters(self):
        for children in pathlib.Path(f"/proc/{self.server.process.pid}/task").glob("*/children"):
            try:
                for child in children.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            except OSError:  # it has ended
                pass

    def hostile_clients(self):
        dice = random.Random(1)
        while not self.over.is_set():
            attack(self.server.port, 60, 30, dice)
            self.count("bursts of 60 hostile clients")
            time.sleep(0.5)

    def faults(self):
        pid, hard = self.server.process.pid, resource.RLIM_INFINITY
        for number in range(10 ** 9):
            if self.over.wait(7):
                break
            if number % 2 == 0:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (2048, hard))
                self.over.wait(3)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
                self.count("full disks")
            else:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(1)
                os.kill(pid, signal.SIGCONT)
                self.count("stalls")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    def sample(self, began):
        while not self.over.is_set():
            with self.lock:
                latencies, self.latencies = self.latencies, []
            self.samples.append({
                "seconds": time.monotonic() - began, "resident_mib": self.server.resident_kib() / 1024,
                "descriptors": len(os.listdir(f"/proc/{self.server.process.pid}/fd")),
                "median_s": statistics.median(latencies) if latencies else None, "slowest_s": max(latencies, default=None)})
            self.over.wait(1)

    def run(self):
        began = time.monotonic()
        threads = [threading.Thread(target=self.good_client, args=(seed,)) for seed in range(4)]
        threads += [threading.Thread(target=target) for target in (self.batch_client, self.pdf_client, self.hostile_clients, self.faults)]
        threads.append(threading.Thread(target=self.sample, args=(began,)))
        for thread in threads:
            thread.start()
        time.sleep(self.seconds)
        self.over.set()
        for thread in threads:
            thread.join()
        self.settle()

    def settle(self):
        server = self.server
        server.wait_until(lambda: server.metric("banyan_bodies_bytes") == 0, 60)
        server.wait_until(lambda: server.metric("banyan_connections") < 10, 60)
        for path, body, expected in self.requests:
            if essence(server.json(path, body)[1]) != expected:
                self.say_wrong("afterwards", path)
        code = server.stop()
        if code != 0:
            self.say_wrong("the server ended with", code)
        shutil.rmtree(self.folder, True)

    def growth(self, name):
        """The median of the last quarter against that of the second: the first is for warming up."""
        values = [sample[name] for sample in self.samples]
        quarter = max(1, len(values) // 4)
        return statistics.median(values[quarter:2 * quarter] or values), statistics.median(values[-quarter:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--plot")
    parser.add_argument("--samples")
    options = parser.parse_args()
    soak = Soak(options.seconds)
    soak.run()
    memory, descriptors = soak.growth("resident_mib"), soak.growth("descriptors")
    print(f"{options.seconds:.0f} s: {dict(sorted(soak.counts.items()))}; memory {memory[0]:.0f} MiB early, {memory[1]:.0f} MiB "
          f"late; descriptors {descriptors[0]:.0f} early, {descriptors[1]:.0f} late; {len(soak.wrong)} wrong")
    if options.samples:
        pathlib.Path(options.samples).write_text(json.dumps(soak.samples), encoding="utf-8")
    if options.plot:
        pathlib.Path(options.plot).write_text(draw(soak.samples), encoding="utf-8")
    assert not soak.wrong, soak.wrong[:3]
    assert soak.counts["good 200"] > 0 and soak.counts["batches"] > 0, "nothing was done"
    assert memory[1] < 1.2 * memory[0] + 32, "memory grew"
    assert descriptors[1] < descriptors[0] + 60, "descriptors grew"
    os._exit(0)


if __name__ == "__main__":
    main()
