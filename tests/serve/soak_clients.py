"""Clients of a soak: good ones, who know what is right, and hostile ones. Each is a function of the soak that runs until it
is over; see soak.py."""
import contextlib
import itertools
import json
import os
import pathlib
import random
import signal
import socket
import time

from harness import timeless
from hostile import attack
from test_batches import lines

BATCH_LINES = 10
MIB = 1 << 20
# Large, and each of another kind: one text, many values, many names, half of one.
FAT = (b'{"documents":["' + b"x " * (15 * MIB) + b'"],"questions":["?"],"user":1}', b'{"documents":[' + b"{}," * (10 * MIB) + b"{}]}",
       b'{"a":' + b'{"b":[' * 5 * MIB, b'{"documents":["' + b"\\u0041" * (5 * MIB))


def pdf(text):
    """A PDF of one page that says the text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
               b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
               b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream), b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return data + b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(data))


def good_client(soak, seed):
    """Requests of every kind, one after another, some of them streamed."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        path, body, expected = dice.choice(soak.requests)
        stream = path in ("/v1/ask", "/v1/extract", "/v1/rag") and dice.random() < 0.3
        status, reply = soak.ask(path, dict(body, stream=True) if stream else body, name=path + (" streamed" if stream else ""))
        if status == 200 and stream and b'"rate_limit_error"' in reply:  # no room for what it became: 429 within a stream
            soak.count(f"{path} streamed, ended for others")
        elif status == 200:
            found = rows_of_stream(reply) if stream else soak.essence(json.loads(reply))
            if found != expected:
                soak.say_wrong(path, "expected", expected, "found", found)
        soak.pause(dice)


def rows_of_stream(data):
    """The rows of a streamed reply in the order of a whole one; None: it broke off."""
    events = [part[6:] for part in data.decode().split("\n\n") if part.startswith("data: ")]
    if not events or events.pop() != "[DONE]":
        return None
    answers = [event for event in map(json.loads, events) if event["type"] == "answer"]
    answers.sort(key=lambda event: (event.get("document", 0), event.get("question", 0)))
    return [timeless(event["row"]) for event in answers]


def batch_client(soak, seed):
    """An upload, a batch, its rows, and everything deleted. While the disk is full an upload may be refused."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        file = soak.upload(lines(BATCH_LINES, 6))
        if file is None:
            soak.pause(dice)
            continue
        status, reply = soak.ask("/v1/batches", {"input_file_id": file, "endpoint": "/v1/chat/completions"})
        if status == 200:
            watch_batch(soak, json.loads(reply)["id"])
        soak.delete("/v1/files/" + file)
        soak.pause(dice)


def watch_batch(soak, name):
    batch = {"status": "unknown"}
    while batch["status"] not in ("completed", "failed"):
        if soak.server.process.poll() is not None:
            return
        status, reply = soak.ask("/v1/batches/" + name, name="/v1/batches/ID")
        batch = json.loads(reply) if status == 200 else batch
        time.sleep(1)
    if batch["status"] != "completed":
        return soak.say_wrong("batch", batch)
    status, reply = soak.ask(f"/v1/files/{batch['output_file_id']}/content", name="/v1/files/ID/content")
    rows = sorted(map(json.loads, reply.splitlines()), key=lambda row: row["custom_id"])
    found = [(row["custom_id"], row["response"]["body"]["choices"]) for row in rows]
    if found != soak.batch_rows:
        soak.say_wrong("rows", found)
    soak.count("batches")
    soak.delete("/v1/files/" + batch["output_file_id"])
    soak.delete("/v1/batches/" + name)


def upload_client(soak, seed):
    """Files of all sizes come back as they went."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        rows = [json.dumps({"text": dice.randbytes(dice.randrange(200)).hex()}) + "\n" for _ in range(dice.randrange(1, 3000))]
        file = soak.upload(rows)
        if file is None:
            soak.pause(dice)
            continue
        status, data = soak.ask(f"/v1/files/{file}/content", name="/v1/files/ID/content")
        if status == 200 and data.decode() != "".join(rows):
            soak.say_wrong("the file is another", file)
        soak.count("files uploaded and read")
        soak.delete("/v1/files/" + file)
        soak.pause(dice)


def pdf_client(soak, seed):
    """A document that is read; one whose client leaves; one whose converter is killed."""
    dice = random.Random(seed)
    for number in itertools.count():
        if soak.over.is_set():
            return
        text = f"The pier number {number} is green."
        status, reply = soak.ask("/v1/documents?name=a.pdf", pdf(text), name="/v1/documents")
        if status == 200 and json.loads(reply)["text"].strip() != text:
            soak.say_wrong("PDF", reply)
        hang = b"%PDF-1.4 HANG"
        with contextlib.closing(soak.server.raw(b"POST /v1/documents?name=b.pdf HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                                                b"%d\r\n\r\n%s" % (len(hang), hang))) as connection:
            time.sleep(1)
            if number % 2:
                soak.server.wait_until(lambda: kill_converters(soak.server.process.pid), 60)  # as soon as it hangs
                connection.settimeout(60)
                status = int((connection.recv(100).split(b" ") + [b"0", b"0"])[1])
                soak.count(f"converter killed: {status}")
                if not 400 <= status < 500:
                    soak.say_wrong("a killed converter", status)
            else:
                soak.count("converter left alone")
        soak.pause(dice, 3)


def kill_converters(pid):
    """How many were there."""
    killed = 0
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            for child in children.read_text().split():
                if pathlib.Path(f"/proc/{child}/comm").read_text() == "sleep\n":
                    os.kill(int(child), signal.SIGKILL)
                    killed += 1
    return killed


def hostile_clients(soak, seed):
    dice = random.Random(seed)
    while not soak.over.is_set():
        attack(soak.server.port, 48, 30, dice)
        soak.count("hostile clients", 48)
        soak.pause(dice, 4)


def fat_clients(soak, seed):
    """Large bodies, several at once: together they would take more than the container has."""
    dice = random.Random(seed)
    while not soak.over.is_set():
        held = []
        for number in range(12):
            body = FAT[number % len(FAT)]
            head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (len(body) + (number % 3 == 2))
            with contextlib.suppress(OSError):
                held.append(soak.server.raw(head))
                held[-1].settimeout(5)
                held[-1].sendall(body)
        for connection in held:
            with contextlib.suppress(OSError):
                connection.settimeout(2)
                reply = connection.recv(100)
                if b" 500 " in reply[:16]:
                    soak.say_wrong("a large body", reply)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        soak.count("large bodies", 12)
        soak.pause(dice, 15)


CLIENTS = (batch_client, upload_client, pdf_client, hostile_clients, fat_clients)
