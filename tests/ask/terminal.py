"""A program on a pseudo-terminal: what a person sees, and what a person types."""
import os
import pathlib
import pty
import re
import select
import signal
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import processor_time  # noqa: E402

STYLE = b"\x1b["


class Terminal:
    """Starts a command with stdin, stdout and stderr on one terminal."""

    def __init__(self, command, env=None):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", "NO_COLOR": "1", **(env or {})})
        self.seen = b""
        self.code = None
        self.processor_seconds = None  # of the whole run, once it has ended

    def read(self, seconds):
        """Adds what comes within so long to `seen`; False at the end."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        self.seen += data
        return bool(data)

    def wait_for(self, text, seconds=120, after=0):
        """Reads until `text` was seen beyond the first `after` bytes; how many were seen up to its end."""
        end = time.monotonic() + seconds
        while text.encode() not in self.seen[after:]:
            if time.monotonic() > end or not self.read(0.1):
                raise AssertionError(f"waited for {text!r}, saw {self.text()!r}")
        return self.seen.index(text.encode(), after) + len(text.encode())

    def wait_for_prompt(self, after=0, seconds=120):
        """Until the prompt is shown and takes single keys, which the library does only a moment later."""
        at = self.wait_for("? ", seconds, after)
        end = time.monotonic() + seconds
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            if time.monotonic() > end or not self.read(0.02):
                raise AssertionError(f"the prompt takes no keys, saw {self.text()!r}")
        return at

    def type(self, text):
        os.write(self.master, text.encode())

    def interrupt(self):
        os.write(self.master, b"\x03")

    def processor_seconds_now(self):
        return processor_time.of_process(self.pid)

    def kill(self, number=signal.SIGTERM):
        os.kill(self.pid, number)

    def finish(self, seconds=120):
        """The exit code, once it has ended by itself."""
        end = time.monotonic() + seconds
        while self.read(0.1):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                break
        _, status, usage = os.wait4(self.pid, 0)
        self.processor_seconds = processor_time.of_usage(usage)
        self.code = os.waitstatus_to_exitcode(status)
        os.close(self.master)
        return self.code

    def text(self):
        """What is left on the screen: status lines that were cleared are gone."""
        return re.sub("\r[^\r\n]*\x1b\\[K", "", self.seen.decode(errors="replace").replace("\r\n", "\n"))
