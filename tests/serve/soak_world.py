"""The bad world of a soak: a small disk that is full now and then, a slow disk, a wall clock that jumps, a converter that
hangs and is killed, a process that is stopped, and a container's memory limit. What this machine does not allow is left out,
and `left_out` says why."""
import contextlib
import mmap
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

SHIM = pathlib.Path(__file__).resolve().parents[1] / "faults" / "world_shim.c"
DISK_BYTES = 24 << 20
SLOW_US = 150_000  # of every write, fsync, rename
DAY = 86_400
JUMPS = (-DAY, 400 * DAY, -40 * 365 * DAY, 3_600, -3_600)  # seconds; one goes to before 1990
CONVERTER = """#!/bin/sh
# Documents that say so hang; others are read.
if head -c 64 /dev/stdin | grep -q HANG; then exec sleep 300; fi
exec {program} "$@"
"""


class Group:
    """A control group with a memory limit; version 1 or 2."""

    def __init__(self, limit):
        root = pathlib.Path("/sys/fs/cgroup")
        self.first = (root / "memory").is_dir()
        self.path = (root / "memory" if self.first else root) / f"banyan-soak-{os.getpid()}"
        self.path.mkdir()
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if self.first else ("memory.max", "memory.swap.max")
        try:
            (self.path / names[0]).write_text(str(limit))
        except OSError:
            self.path.rmdir()
            raise
        with contextlib.suppress(OSError):  # nothing is swapped out, where swapping is counted
            (self.path / names[1]).write_text(str(limit if self.first else 0))

    def used(self):
        return int((self.path / ("memory.usage_in_bytes" if self.first else "memory.current")).read_text())

    def kills(self):
        text = (self.path / ("memory.oom_control" if self.first else "memory.events")).read_text()
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))

    def remove(self):
        with contextlib.suppress(OSError):
            self.path.rmdir()


class World:
    def __init__(self, folder, memory_mib):
        self.folder, self.left_out, self.spans = folder, [], {}
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "banyan-soak", self.disk],
                                      capture_output=True).returncode == 0
        if not self.mounted:
            self.left_out.append("a disk of its own (mounting needs root): files that may not grow stand for a full one")
        self.state = self.disk / "state"
        self.group = None
        try:
            self.group = Group(memory_mib << 20)
        except OSError as error:
            self.left_out.append(f"a container's memory limit (no control group: {error.strerror})")
        self.control = mmap.mmap(self.open_control(), 16)
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.make_program("pdftotext", CONVERTER.format(program=shutil.which("pdftotext") or "false"))

    def open_control(self):
        descriptor = os.open(self.folder / "control", os.O_RDWR | os.O_CREAT)
        os.write(descriptor, bytes(16))
        return descriptor

    def make_program(self, name, text):
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def program(self, banyan):
        """A program that runs `banyan` in this world."""
        shim = self.folder / "world_shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, SHIM, "-ldl"], check=True)
        enter = f"echo $$ > {self.group.path}/cgroup.procs" if self.group else ":"
        return self.make_program("banyan", f"""#!/bin/sh
{enter}
export PATH='{self.tools}':"$PATH" WORLD_CONTROL='{self.folder}/control' WORLD_UNDER='{self.disk}' LD_PRELOAD='{shim}'
exec '{banyan}' "$@"
""")

    @contextlib.contextmanager
    def fault(self, name):
        """Notes when it was, so that a refusal can be excused."""
        span = [time.monotonic(), None]
        self.spans.setdefault(name, []).append(span)
        try:
            yield
        finally:
            span[1] = time.monotonic()

    def had(self, name, began, grace=3.0):
        """Whether there was such a fault since then."""
        return any(span[1] is None or span[1] + grace > began for span in list(self.spans.get(name, [])))

    def set_control(self, delay_us=0, clock_s=0):
        struct.pack_into("<qq", self.control, 0, delay_us, clock_s)

    def full_disk(self, pid, wait):
        with self.fault("full disk"):
            if not self.mounted:
                unlimited = resource.RLIM_INFINITY
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (2048, unlimited))
                wait()
                return resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
            ballast = self.disk / "ballast"
            with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            wait()
            ballast.unlink()

    def slow_disk(self, pid, wait):
        with self.fault("slow disk"):
            self.set_control(delay_us=SLOW_US)
            wait()
            self.set_control()

    def clock_jump(self, pid, wait):
        with self.fault("clock jump"):
            for jump in random.sample(JUMPS, 2):
                self.set_control(clock_s=jump)
                wait()
            self.set_control()

    def stall(self, pid, wait):
        with self.fault("stall"):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1)
            os.kill(pid, signal.SIGCONT)

    FAULTS = (full_disk, slow_disk, clock_jump, stall)

    def end(self):
        self.set_control()
        if self.mounted:
            subprocess.run(["umount", "-l", self.disk])
        if self.group:
            self.group.remove()
