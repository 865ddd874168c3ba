"""Hostile and slow clients by the thousand, on loopback, while good ones ask: all good requests are answered, bit for
bit as when they are asked alone, and the server's memory stays bounded.

usage: BANYAN=build/release/banyan hostile.py [--clients 10000] [--at-once 800] [--good 10]
"""
import argparse
import dataclasses
import itertools
import json
import os
import random
import resource
import selectors
import socket
import threading
import time

from harness import FERRY, NAME, Server, essence, mixed_requests

LONG = json.dumps({"model": NAME, "messages": [{"role": "user", "content": FERRY}], "max_tokens": 1000, "stream": True,
                   "regex": "[a-z ]{3000,}"}).encode()
MAY_GROW_KIB = 512 * 1024  # 256 MiB of bodies that are being read, replies that nobody reads, and threads


def post(path, body, length=None):
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (path, length or len(body), body)


def opening(kind, dice):
    """What a client of the kind sends; it never reads."""
    return {
        "silent": b"",
        "half a head": b"POST /v1/ask HTTP/1.1\r\nHost: localh",
        "no end of heads": b"GET / HTTP/1.1\r\n" + b"X-%d: y\r\n" % dice.randrange(10**9) * 400,
        "half a body": post(b"/v1/ask", b'{"documents":[', 1 << 20),
        "huge promise": post(b"/v1/ask", b"{", 30 << 20),
        "too large": post(b"/v1/ask", b"{", 1 << 40),
        "garbage": dice.randbytes(300),
        "deep": post(b"/v1/ask", b"[" * 20000),
        "leaves a stream": post(b"/v1/chat/completions", LONG),
        "no json": post(b"/v1/extract", dice.randbytes(100)),
        "drips a head": b"GET /v1/models HTTP/1.1\r\nX-Slow: ",
        "drips a body": post(b"/v1/ask", b'{"documents":["', 1 << 16),
    }[kind]


KINDS = ("silent", "half a head", "no end of heads", "half a body", "huge promise", "too large", "garbage", "deep",
         "leaves a stream", "no json", "drips a head", "drips a body")


def connect(port):
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_WRITE)
        selector.select(5)
    return connection


def send(connection, data):
    try:
        connection.send(data)
    except OSError:  # the server has ended it
        pass


def attack(port, count, at_once, dice):
    """Each client opens, sends, and is held for a while or until the server ends it; some add a byte now and then."""
    held = []
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        held.append((connect(port), kind))
        send(held[-1][0], opening(kind, dice))
        for connection, slow in dice.sample(held, min(len(held), 8)):
            if slow.startswith("drips"):
                send(connection, b"a")
        if len(held) > at_once:
            held.pop(dice.randrange(len(held)))[0].close()
    for connection, _ in held:
        connection.close()


@dataclasses.dataclass(eq=False)
class GoodClient(threading.Thread):
    """Asks its own requests one after another until it is told to stop, each at least once."""
    server: Server
    requests: list  # (path, body, what is right)
    over: threading.Event
    answered: int = 0
    told_to_wait: int = 0
    slowest: float = 0.0
    wrong: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def run(self):
        for number, (path, body, expected) in enumerate(itertools.cycle(self.requests)):
            if self.over.is_set() and number >= len(self.requests):
                return
            began = time.monotonic()
            while not self.answer(path, body, expected):
                time.sleep(0.1)
            self.slowest = max(self.slowest, time.monotonic() - began)

    def answer(self, path, body, expected):
        """False: told to come again, as is promised."""
        try:
            status, reply = self.server.json(path, body)
        except OSError as error:
            self.wrong.append((path, repr(error)))
            return True
        if status in (429, 503):
            self.told_to_wait += 1
            return False
        self.answered += 1
        if status != 200 or essence(reply) != expected:
            self.wrong.append((path, status, reply))
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=10000)
    parser.add_argument("--at-once", type=int, default=800)
    parser.add_argument("--good", type=int, default=10)
    parser.add_argument("--any-memory", action="store_true", help="for sanitized builds, whose memory says nothing")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.at_once + 500), hard))
    server = Server("--header-seconds", 2, "--body-seconds", 2, "--write-seconds", 3, "--max-requests", 64)
    requests = [(path, body, essence(server.json(path, body)[1])) for path, body in mixed_requests()]
    before, began = server.resident_kib(), time.monotonic()
    over = threading.Event()
    good = [GoodClient(server, requests[i % len(requests):] + requests[:i % len(requests)], over) for i in range(options.good)]
    attackers = [threading.Thread(target=attack, args=(server.port, options.clients // 2, options.at_once // 2, random.Random(seed)))
                 for seed in (1, 2)]
    for thread in attackers + good:
        thread.start()
    for thread in attackers:
        thread.join()
    over.set()
    for thread in good:
        thread.join()
    seconds = time.monotonic() - began
    server.wait_until(lambda: server.metric("banyan_running_answers") == 0, 60)
    server.wait_until(lambda: server.metric("banyan_connections") < 20, 60)
    again = [(path, essence(server.json(path, body)[1]) == expected) for path, body, expected in requests]
    after, peak = server.resident_kib(), server.resident_kib("VmHWM")
    # Whatever they promised or sent, its room is free again: a request of full size is read.
    server.wait_until(lambda: server.metric("banyan_bodies_bytes") == 0, 60)
    full = json.dumps(dict(requests[0][1], padding=" " * ((32 << 20) - 4096))).encode()
    assert len(full) > 31 << 20
    status, reply = server.json(requests[0][0], full)
    assert (status, reply["error"]["param"]) == (400, "padding"), (status, reply)
    wrong = [problem for client in good for problem in client.wrong] + [path for path, same in again if not same]
    print(f"{options.clients} hostile clients in {seconds:.0f} s, {options.at_once} at once: {options.good} good clients had "
          f"{sum(client.answered for client in good)} requests answered (the slowest in {max(c.slowest for c in good):.2f} s, "
          f"{sum(client.told_to_wait for client in good)} times told to come again first), {len(wrong)} wrong; "
          f"memory {before // 1024} MiB before, {peak // 1024} MiB at most, {after // 1024} MiB after")
    assert not wrong, wrong[:3]
    server.wait_until(lambda: server.metric("banyan_bodies_bytes") == 0, 10)
    assert options.any_memory or peak < before + MAY_GROW_KIB, "memory grew"
    assert server.stop() == 0
    os._exit(0)


if __name__ == "__main__":
    main()
