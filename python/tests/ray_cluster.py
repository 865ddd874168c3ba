"""A Ray cluster of this machine's processes, for tests: one that outlives the drivers that are killed."""
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# Cluster and drivers know one another by it; it must be there before ray is imported.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class LocalCluster:
    """Started by `ray start`. Ports are given: a node that has to wait for its agents to choose theirs dies after 15
    seconds, which a busy machine takes to start them."""

    def __init__(self, cpus: int = 2, resources: "dict[str, float] | None" = None, store_bytes: int = 200_000_000) -> None:
        self.cpus, self.resources, self.store_bytes = cpus, resources or {}, store_bytes
        self._start()

    def _start(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        port, *others = free_ports(5)
        names = ("metrics-export-port", "dashboard-agent-grpc-port", "dashboard-agent-listen-port",
                 "runtime-env-agent-port")
        self.address = f"127.0.0.1:{port}"
        self.log = os.path.join(self.folder.name, "start.log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--node-ip-address=127.0.0.1",
                 f"--port={port}", f"--num-cpus={self.cpus}", "--include-dashboard=false", "--disable-usage-stats",
                 f"--object-store-memory={self.store_bytes}", f"--temp-dir={self.folder.name}",
                 f"--resources={json.dumps(self.resources)}",
                 *(f"--{name}={value}" for name, value in zip(names, others))],
                stdout=log, stderr=log, start_new_session=True)

    def connect(self, tries: int = 3) -> None:
        """Waits until the cluster answers. Ray gives a node 30 seconds to start; on a busy machine it is tried again."""
        import ray
        while True:
            try:
                ray.init(address=self.address, log_to_driver=False)
                return
            except ConnectionError:
                time.sleep(2)
            if self.process.poll() is None:
                continue
            tries -= 1
            if tries == 0:
                with open(self.log) as log:
                    raise RuntimeError(log.read())
            self.stop()
            self._start()

    def processes(self, words: bytes) -> list[int]:
        """Those of the cluster whose command line has the words."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    if words in file.read() and self._is_ours(int(entry)):
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def _is_ours(self, process: int) -> bool:
        while process > 1 and process != self.process.pid:
            with open(f"/proc/{process}/stat") as file:
                process = int(file.read().rsplit(")", 1)[1].split()[1])
        return process == self.process.pid

    @contextlib.contextmanager
    def watching_spilled(self, found: "list[str]"):
        """Names files that Ray writes because the object store is full, for as long as it is entered."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                for below, _, names in os.walk(self.folder.name):
                    if "spilled_objects" in below:
                        found.extend(os.path.join(below, name) for name in names)
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # what it leaves behind
        except ProcessLookupError:
            pass
        self.process.wait()
        self.folder.cleanup()
