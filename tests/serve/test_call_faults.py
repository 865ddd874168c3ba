"""A system without memory, descriptors or threads for a moment: every allocation and every system call of a request fails
once, in turn, and some many times in a row. Whoever asked gets a reply or the end of the connection, without a limit in
time that helps; afterwards the server answers as before.

REQUIRES: FAULT_SHIM in the environment, the library of tests/faults/call_shim.c. Of long series every CALL_FAULTS-th
fault is tried (default: so that there are 12); 1 tries all.
"""

import contextlib
import json
import mmap
import os
import re
import socket
import struct
import tempfile
import unittest

from harness import FERRY, NAME, PATIENCE, Server, essence  # and tests/support is found
import fault_library

ALLOCATIONS, CALLS, WAKEUPS = 1, 2, 3
ALWAYS = 1 << 40
KINDS = {ALLOCATIONS: "allocation", CALLS: "call"}
ASK = {"documents": [FERRY], "questions": ["Who steers the ferry Marigold?"]}
CHAT = {
    "model": NAME,
    "messages": [{"role": "user", "content": FERRY + " Who steers?"}],
    "temperature": 0,
    "max_tokens": 3,
}


def post(path, body, more=b""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s" % (
        path,
        more,
        len(data),
        data,
    )


def is_whole(reply):
    head, _, body = reply.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    return body.endswith(b"0\r\n\r\n") if length is None else len(body) == int(length[1])


# Without the engine: these may fail in a row.
LIGHT = {
    "the page": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "models": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "a document": post(b"/v1/documents?name=a.txt", b"A text of some words. " * 5000),
    "no request": post(b"/v1/ask", {"documents": [1, {"a": [[], {}, "x"]}], "questions": [{}], "other": None}),
    "chunks": b"POST /v1/documents?name=a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    + (b"1000\r\n" + b"x" * 0x1000 + b"\r\n") * 20
    + b"0\r\nX: y\r\n\r\n",
    "no http": b"GET nothing\r\n\r\n",
}
HEAVY = {
    "ask": post(b"/v1/ask", ASK),
    "a chat": post(b"/v1/chat/completions", dict(CHAT, logprobs=True, top_logprobs=2)),
    "a stream": post(b"/v1/chat/completions", dict(CHAT, stream=True)),
    "a schema": post(
        b"/v1/completions",
        {
            "model": NAME,
            "prompt": "A",
            "max_tokens": 4,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {"enum": ["x", "yz"]}}}},
            },
        },
    ),
}


# None of them ends a connection whose end was lost.
LIMITS = ("--request-seconds", "--header-seconds", "--body-seconds", "--idle-seconds", "--write-seconds")


class CallFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="banyan-calls-")
        cls.addClassCleanup(cls.folder.cleanup)
        path = os.path.join(cls.folder.name, "control")
        with open(path, "wb") as file:
            file.write(bytes(40))
        with open(path, "r+b") as file:
            cls.control = mmap.mmap(file.fileno(), 40)
        cls.addClassCleanup(cls.control.close)
        names = {"LD_PRELOAD": fault_library.PATH, "CALLS_CONTROL": path}
        os.environ.update(names)
        try:
            cls.server = Server(*(word for name in LIMITS for word in (name, 3600)))
        finally:
            for name in names:
                del os.environ[name]
        cls.expected = essence(cls.server.json("/v1/ask", ASK)[1])

    @classmethod
    def tearDownClass(cls):
        cls.arm(WAKEUPS, 1, ALWAYS)  # it hears the signal nevertheless
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"the server ended with {code}: {cls.server.last_words}")

    @classmethod
    def arm(cls, kind, first=0, count=1):
        cls.control[:8] = bytes(8)
        cls.control[8:32] = struct.pack("<3q", first, count, 0)
        cls.control[:8] = struct.pack("<q", kind)

    def seen(self):
        return struct.unpack("<q", self.control[24:32])[0]

    def talk(self, data):
        """The reply, or what there was of it when the server ended the connection."""
        reply = b""
        with contextlib.closing(
            socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
        ) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                while piece := connection.recv(65536):
                    reply += piece
        return reply

    def check_alive(self, what):
        self.assertIsNone(self.server.process.poll(), (what, self.server.said()[-2000:]))
        self.assertEqual(self.server.json("/health")[0], 200, what)

    def check_whole(self):
        status, reply = self.server.json("/v1/ask", ASK)
        self.assertEqual((status, essence(reply)), (200, self.expected))
        self.server.wait_until(lambda: self.server.metric("banyan_requests") == 1)  # the one that asks
        self.server.wait_until(lambda: self.server.metric("banyan_connections") <= 2)
        self.server.wait_until(lambda: self.server.metric("banyan_running_answers") == 0)
        self.server.wait_until(lambda: self.server.metric("banyan_bodies_bytes") < 1 << 20)

    def fail_in_turn(self, requests, kinds, count=1):
        refused = dict.fromkeys(kinds, 0)
        for name, data in requests.items():
            for kind, kind_name in kinds.items():
                with self.subTest(request=name, kind=kind_name, count=count):
                    self.arm(kind)
                    first_line = self.talk(data).split(b"\r\n")[0]
                    total = self.seen()
                    self.assertGreater(total, 5)
                    step = int(os.environ.get("CALL_FAULTS", 0)) or max(1, total // 12)
                    for first in range(1, total + 1, step):
                        self.arm(kind, first, count)
                        refused[kind] += self.talk(data).split(b"\r\n")[0] != first_line
                        self.arm(0)
                        self.check_alive((name, kind_name, first))
                    self.check_whole()
        return refused

    def test_no_thread_needs_memory_for_its_end(self):
        """A thread that registered the destructor of a thread_local object while memory was missing ended the server:
        the first request that a worker encoded, which no other test can choose."""
        self.talk(HEAVY["a chat"])
        self.assertEqual(struct.unpack("<q", self.control[32:])[0], 0)

    def test_each_once(self):
        # Some are felt. Which, and in which request, depends on the moment: calls are made by several threads.
        self.assertGreater(self.fail_in_turn({**LIGHT, **HEAVY}, KINDS)[CALLS], 0)

    def test_many_in_a_row(self):
        """More than the program's reserve has blocks: it ended in the destructor of a JSON value, or accepted nobody.
        Allocations alone: who is not accepted for want of descriptors is accepted a moment later, hundreds of times."""
        self.fail_in_turn(LIGHT, {ALLOCATIONS: "allocations"}, count=300)

    def test_nobody_is_woken(self):
        """Asio does not notice when a wakeup fails: the reply of a worker was sent to nobody."""
        for name, data in {**LIGHT, **HEAVY}.items():
            expected = self.talk(data)
            if len(expected) > 1 << 15:
                continue  # to wait until the client has read some takes one of these calls, which fails
            with self.subTest(request=name):
                self.arm(WAKEUPS, 1, ALWAYS)
                reply = self.talk(data)
                failed = self.seen()
                self.arm(0)
                self.assertEqual(reply.split(b"\r\n")[0], expected.split(b"\r\n")[0])
                self.assertTrue(is_whole(reply), reply)
                if name != "no http":  # refused without a worker
                    self.assertGreater(failed, 0)
        self.check_whole()

    def test_who_leaves_is_missed_without_a_wakeup(self):
        endless = dict(CHAT, max_tokens=2000, n=16, temperature=1, regex="[a-z ]{6000,}")
        self.arm(WAKEUPS, 1, ALWAYS)
        with self.server.raw(post(b"/v1/chat/completions", endless)):
            self.server.wait_until(lambda: self.server.metric("banyan_running_answers") > 0)
        self.server.wait_until(lambda: self.server.metric("banyan_running_answers") == 0)
        self.arm(0)
        self.check_whole()


if __name__ == "__main__":
    unittest.main(verbosity=2)
