"""Hostile and slow clients by the thousand, on loopback, while good ones ask: all good requests are answered right and
the server's memory stays bounded.

usage: BANYAN=build/release/banyan hostile.py [--clients 10000] [--at-once 800]
"""
import argparse
import json
import os
import random
import resource
import selectors
import socket
import threading
import time

from harness import FERRY, NAME, Server

GOOD = {"documents": [FERRY], "questions": ["Who steers the ferry Marigold?"]}
LONG = json.dumps({"model": NAME, "messages": [{"role": "user", "content": FERRY}], "max_tokens": 1000, "stream": True,
                   "regex": "[a-z ]{3000,}"}).encode()


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
    }[kind]


KINDS = ("silent", "half a head", "no end of heads", "half a body", "huge promise", "too large", "garbage", "deep",
         "leaves a stream", "no json")


def attack(port, count, at_once, dice):
    """Each client opens, sends, and is held for a while or until the server ends it."""
    open_sockets = []
    for i in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
        selector = selectors.DefaultSelector()
        selector.register(connection, selectors.EVENT_WRITE)
        if selector.select(5):
            try:
                connection.send(opening(KINDS[i % len(KINDS)], dice))
            except OSError:
                pass
        selector.close()
        open_sockets.append(connection)
        if len(open_sockets) > at_once:
            open_sockets.pop(dice.randrange(len(open_sockets))).close()
    for connection in open_sockets:
        connection.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=10000)
    parser.add_argument("--at-once", type=int, default=800)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.at_once + 500), hard))
    server = Server("--header-seconds", 2, "--body-seconds", 2, "--write-seconds", 3, "--max-requests", 64)
    expected = server.json("/v1/ask", GOOD)[1]["rows"]
    before = server.resident_kib()
    good, wrong, busy, slowest, peak = 0, [], 0, 0.0, before
    attackers = [threading.Thread(target=attack, args=(server.port, options.clients // 2, options.at_once // 2, random.Random(seed)))
                 for seed in (1, 2)]
    for thread in attackers:
        thread.start()
    while any(thread.is_alive() for thread in attackers) or good == 0:
        began = time.monotonic()
        try:
            status, reply = server.json("/v1/ask", GOOD)
        except OSError as error:
            wrong.append(str(error))
            continue
        if status in (429, 503):  # told to come again: as it was promised
            busy += 1
            time.sleep(0.1)
            continue
        good += 1
        slowest = max(slowest, time.monotonic() - began)
        peak = max(peak, server.resident_kib())
        if status != 200 or reply["rows"] != expected:
            wrong.append((status, reply))
    server.wait_until(lambda: server.metric("banyan_running_answers") == 0, 60)
    server.wait_until(lambda: server.metric("banyan_connections") < 20, 60)
    assert server.json("/v1/ask", GOOD)[1]["rows"] == expected
    print(f"{options.clients} hostile clients: {good} good requests answered (slowest {slowest:.2f} s), {busy} told to come again, "
          f"{len(wrong)} wrong; memory {before // 1024} MiB before, {peak // 1024} MiB at most, "
          f"{server.resident_kib() // 1024} MiB after")
    assert not wrong, wrong[:3]
    assert peak < before + 512 * 1024, "memory grew"
    assert server.stop() == 0
    os._exit(0)


if __name__ == "__main__":
    main()
