"""Runs `banyan serve` as people do, and asks it with Python's own HTTP client.

REQUIRES: BANYAN in the environment, the path of the program.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BANYAN = os.environ["BANYAN"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import processor_time  # noqa: E402

PATIENCE = 120  # seconds for what takes a moment: the machine may have other work
MODEL = str(ROOT / "models" / "banyan-reader-34m.gguf")
NAME = "banyan-reader-34m"
SAMPLES = ROOT / "eval" / "samples"
READS_HTML = os.environ.get("BANYAN_READS_HTML", "1") == "1"  # built with libxml2

FERRY = ("The ferry Marigold crosses the bay every morning at seven. Anna Walker steers the ferry Marigold. "
         "The harbour office is in Dover Street. The code of the gate is KT-4821.")
PIER = "The pier was built in 1911 by Thomas Reed. It is 240 metres long. Its lamp is green."
QUESTIONS = ["Who steers the ferry Marigold?", "What is the code of the gate?", "How long is the pier?"]
ASK = {"documents": [{"id": "a", "text": FERRY}, {"id": "b", "text": PIER}], "questions": QUESTIONS}
SCHEMA = {"attributes": [{"name": "builder", "description": "who built it"},
                         {"name": "length", "type": "number", "description": "in metres"}]}


class Server:
    """A running server; its stderr is kept in `said`."""

    def __init__(self, *arguments, model=MODEL):
        self.folder = tempfile.mkdtemp(prefix="banyan-serve-")
        self.errors = open(os.path.join(self.folder, "stderr"), "w+b")
        self.process = subprocess.Popen([BANYAN, "serve", "-m", model, "--port", "0", *map(str, arguments)],
                                        stdout=subprocess.DEVNULL, stderr=self.errors, cwd=self.folder)
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(r"http://[0-9.]+:(\d+)/", self.said())
            if found:
                break
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start: " + self.said())
            time.sleep(0.02)
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def said(self):
        with open(self.errors.name, encoding="utf-8") as file:
            return file.read()

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, bytes) of one request on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()

    def json(self, path, body=None, headers=None, method=None):
        status, _, data = self.ask(method or ("GET" if body is None else "POST"), path, body, headers)
        return status, json.loads(data)

    def stream(self, path, body, headers=None):
        """The events of a stream, without the last."""
        status, _, data = self.ask("POST", path, dict(body, stream=True), headers)
        if status != 200:
            raise AssertionError((status, data))
        events = [part[6:] for part in data.decode().split("\n\n") if part.startswith("data: ")]
        if events[-1] != "[DONE]":
            raise AssertionError(events[-1])
        return [json.loads(event) for event in events[:-1]]

    def metric(self, name, headers=None):
        text = self.ask("GET", "/metrics", headers=headers)[2].decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith((name + " ", name + "{")))

    def wait_until(self, condition, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("it did not happen in time")
            time.sleep(0.02)

    def raw(self, data=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.sendall(data)
        return connection

    def processor_seconds(self):
        """The machine may have other work, so the server's own time counts."""
        return processor_time.of_process(self.process.pid)

    def resident_kib(self, which="VmRSS"):
        """Memory in use; VmHWM: the most there ever was."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(which + r":\s+(\d+)", text).group(1))

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=PATIENCE)
        if os.path.exists(self.errors.name):  # not when it is stopped again
            said = self.said()
            self.last_words = said[max(0, said.find("Sanitizer") - 200):][:6000]  # a report begins with that word
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


class ServeTest(unittest.TestCase):
    """One server for all tests of a class; ARGUMENTS are its own."""
    ARGUMENTS = ()
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGUMENTS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"the server ended with {code}: {cls.server.last_words}")

    def chat(self, **more):
        body = {"model": NAME, "temperature": 0, "max_tokens": 24,
                "messages": [{"role": "user", "content": FERRY + "\n\nQuestion: Who steers the ferry Marigold?"}]}
        body.update(more)
        status, reply = self.server.json("/v1/chat/completions", body)
        self.assertEqual(status, 200, reply)
        return reply


def command_rows(command, rows, *arguments):
    """What the command line writes for these input rows."""
    with tempfile.TemporaryDirectory(prefix="banyan-serve-") as folder:
        source, output = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        with open(source, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        subprocess.run([BANYAN, command, "-m", MODEL, "--quiet", "--ordered", "-o", output, *arguments, source],
                       check=True, timeout=280, capture_output=True)
        with open(output, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def timeless(row):
    """A row without what is measured."""
    return {name: value for name, value in row.items() if name not in ("first_token_seconds", "seconds")}


def mixed_requests():
    """(path, body) of requests of every kind, whose answers are the same whenever they are asked."""
    requests = [("/v1/chat/completions", {
        "model": NAME, "messages": [{"role": "user", "content": f"{text}\n\nQuestion: {question}"}], "temperature": 0.8,
        "seed": i, "max_tokens": 20, "logprobs": True}) for i, question in enumerate(QUESTIONS) for text in (FERRY, PIER)]
    return requests + [
        ("/v1/completions", {"model": NAME, "prompt": FERRY[:60], "temperature": 0, "max_tokens": 20, "logprobs": 2}),
        ("/v1/ask", ASK),
        ("/v1/extract", {"documents": ASK["documents"], "schema": SCHEMA}),
        ("/v1/rag", {"questions": QUESTIONS, "documents": ASK["documents"]})]


def essence(reply):
    """What of a reply does not depend on when it was asked: all texts, places and log-probabilities."""
    return [timeless(row) for row in reply["rows"]] if "rows" in reply else reply["choices"]
