"""Hostile clients of a soak that know this server: what test_memory.py, test_attacks.py and test_batch_limits.py try once,
again and again beside everybody else. Each is a function of the soak that runs until it is over; see soak.py."""

import contextlib
import itertools
import json
import random
import socket
import time

from harness import FERRY, NAME
from hostile import post
from test_batches import lines

MIB = 1 << 20
TEXT = {"model": NAME, "prompt": "The ferry", "max_tokens": 1}
QUESTION = "Who steers the ferry Marigold?"
OVER = ("completed", "failed", "cancelled")


def schema(value):
    return dict(TEXT, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": value}})


# Small requests that would become gigabytes: name → path and what makes the body.
GROWING = {
    "stop texts": ("/v1/completions", lambda: dict(TEXT, n=4096, stop=["x" * 800_000])),
    "a long id": (
        "/v1/ask",
        lambda: {
            "documents": [{"id": "x" * 1_000_000, "text": FERRY}],
            "questions": [f"{QUESTION} {i}" for i in range(600)],
            "max_tokens": 1,
        },
    ),
    "a long constant": ("/v1/completions", lambda: schema({"const": "x" * 15_000_000})),
    "an enumeration": ("/v1/completions", lambda: schema({"enum": [f"v{i}" for i in range(500_000)]})),
    "a template": (
        "/v1/ask",
        lambda: {"documents": ["x" * MIB], "questions": [QUESTION], "template": "{context}" * 1000 + "{question}"},
    ),
    "a long prompt": ("/v1/completions", lambda: dict(TEXT, prompt="a b c d " * 2_000_000)),
}


def attempt(soak, name, path, body):
    """A request that may be answered, refused or out of time."""
    began = time.monotonic()
    try:
        status, _, data = soak.server.ask("POST", path, body)
    except OSError:  # refused while it was being sent
        return soak.count(f"attack: {name}, ended")
    soak.count(f"attack: {name} {status}")
    if status == 503:
        soak.excuse_disk(name, data.decode(), began)
    elif status == 504:
        soak.count("attack: out of time")
    elif status not in (200, 400, 413, 429):
        soak.say_wrong(name, status, data)


def growing_requests(soak, seed):
    """To the end, and by clients that leave at any time."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        name = dice.choice(list(GROWING))
        path, make = GROWING[name]
        body = json.dumps(make()).encode()
        attempt(soak, name, path, body)
        with contextlib.suppress(OSError), contextlib.closing(soak.server.raw(post(path.encode(), body))):
            time.sleep(2 * dice.random())
        soak.count("attack: a client that leaves a growing request")
        soak.pause(dice, 10)


def new_schemas(soak, seed):
    """Each is another: a cache that keeps their texts would grow without end."""
    dice = random.Random(seed)
    for number in itertools.count():
        if soak.over.is_set():
            return
        value = {"type": "string", "maxLength": 3, "description": str(number) + "x" * 3_000_000}
        attempt(soak, "a schema with a long description", "/v1/completions", json.dumps(schema(value)))
        soak.pause(dice, 5)


def endless_heads(soak, seed):
    """Chunk heads and trailers without end, and bodies where none is read."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        for start in (b"5;a=", b"2\r\n{}\r\n0\r\nX-A: "):
            head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            with contextlib.suppress(OSError), contextlib.closing(soak.server.raw(head + start)) as connection:
                for _ in range(64):
                    connection.sendall(b"x" * 65536)
            soak.count("attack: a head without end")
        for target in (b"OPTIONS /v1/ask", b"GET /health", b"GET /"):
            head = target + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554432\r\n\r\n"
            with contextlib.suppress(OSError), contextlib.closing(soak.server.raw(head)) as connection:
                reply = connection.recv(100)
                soak.count(f"attack: a body that no path reads {reply[9:12].decode() or 'ended'}")
                if reply and reply[9:12] not in (b"413", b"429"):
                    soak.say_wrong("a body that no path reads", target, reply)
        soak.pause(dice, 4)


def unread_replies(soak, seed):
    """Large ones, held for a while by clients that do not read."""
    dice = random.Random(seed)
    text = b"All that is asked for comes back. " * (2 * MIB // 34)
    while not soak.over.is_set():
        held = []
        for _ in range(12):
            with contextlib.suppress(OSError):
                held.append(socket.socket())
                held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                held[-1].settimeout(5)
                held[-1].connect(("127.0.0.1", soak.server.port))
                held[-1].sendall(post(b"/v1/documents?name=a.txt", text))
        soak.over.wait(3)
        for connection in held:
            connection.close()
        soak.count("attack: replies that nobody reads", len(held))
        soak.pause(dice, 10)


def left_embeddings(soak, seed):
    dice = random.Random(seed)
    body = json.dumps({"model": soak.encoder, "input": [[5 + i % 40 for i in range(298)]] * 64}).encode()
    while not soak.over.is_set():
        with contextlib.suppress(OSError), contextlib.closing(soak.server.raw(post(b"/v1/embeddings", body))):
            time.sleep(dice.random())
        soak.count("attack: embeddings that were left")
        soak.pause(dice, 3)


def batches(soak, rows, count):
    """The file of these rows and as many batches over it; none while the disk is full."""
    file, names = soak.upload(rows), []
    for _ in range(count if file else 0):
        status, reply = soak.ask("/v1/batches", {"input_file_id": file, "endpoint": "/v1/chat/completions"})
        if status == 200:
            names.append(json.loads(reply)["id"])
    return file, names


def finish(soak, name):
    """Waits until the batch is over and removes all of it."""
    batch = {"status": "unknown"}
    while batch["status"] not in OVER:
        if soak.server.process.poll() is not None:
            return
        status, reply = soak.ask("/v1/batches/" + name, name="/v1/batches/ID")
        batch = json.loads(reply) if status == 200 else batch
        time.sleep(1)
    for field in ("output_file_id", "error_file_id"):
        if batch[field]:
            soak.delete("/v1/files/" + batch[field])
    soak.delete("/v1/batches/" + name)
    soak.count(f"attack: a batch {batch['status']}")


def cancelling(soak, seed):
    """A batch that waits is cancelled again and again while those of others run."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        file, names = batches(soak, lines(2, 6), 2)
        for _ in range(20):
            for name in names:
                soak.ask(f"/v1/batches/{name}/cancel", {}, name="/v1/batches/ID/cancel")
            soak.over.wait(0.25)
        for name in names:
            finish(soak, name)
        if file:
            soak.delete("/v1/files/" + file)
        soak.pause(dice, 4)


def failing_batches(soak, seed):
    """Lines that are wrong or large, and inputs that are deleted before their turn."""
    dice = random.Random(seed)
    values = "{}," * 100_000
    large = (
        '{"custom_id":"large","method":"POST","url":"/v1/chat/completions","body":{"model":"x","messages":['
        + values
        + "{}]}}\n"
    )
    for number in itertools.count():
        if soak.over.is_set():
            return
        file, names = batches(soak, ["1\n"] * 300 if number % 2 else [large] * 4, 3)
        if file:
            soak.delete("/v1/files/" + file)
        for name in names:
            finish(soak, name)
        soak.pause(dice, 6)


ATTACKS = (
    growing_requests,
    new_schemas,
    endless_heads,
    unread_replies,
    left_embeddings,
    cancelling,
    failing_batches,
)
