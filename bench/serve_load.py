"""Load for servers that speak OpenAI's API: prompts that share a document or nothing, and clients that ask all at once.

Python's own HTTP client, a thread per client: what is measured is the server's, as long as clients have a core.
"""

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import queue
import random
import re
import statistics
import subprocess
import tempfile
import threading
import time

WORDS = (
    "the river harbour council built a new bridge near old mill during long war while its king signed treaty and "
    "farmers carried grain across narrow valley until winter storms closed every road between northern towns "
    "whose merchants had promised silver for copper rails letters maps engines lamps sailcloth"
).split()


def text_of(words: int, dice: random.Random) -> str:
    """Sentences of drawn words; no two documents begin alike."""
    found = []
    while words > 0:
        length = min(words, dice.randint(8, 16))
        found.append(" ".join(dice.choice(WORDS) for _ in range(length)).capitalize() + ".")
        words -= length
    return " ".join(found)


def chats(count: int, words: int, tokens: int, shared: bool, seed: int) -> list[dict]:
    """Requests over one document, or over one of its own each. Answers are as long as they may be, mostly."""
    dice = random.Random(seed)
    document = text_of(words, dice)
    made = []
    for number in range(count):
        if not shared and number > 0:
            document = text_of(words, dice)
        subject = " ".join(dice.sample(WORDS, 3))
        made.append(
            {
                "messages": [
                    {"role": "user", "content": f"{document}\n\nWrite a long story about this: {subject} ({number})."}
                ],
                "max_tokens": tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
    return made


@dataclasses.dataclass
class Answer:
    text: str = ""
    first_seconds: float = 0.0  # from the request's first byte to the answer's
    seconds: float = 0.0
    prompt_tokens: int = 0
    tokens: int = 0


def ask(port: int, body: dict) -> Answer:
    """One streamed chat on a connection of its own. Throws when it is refused or ends early."""
    answer, began = Answer(), time.perf_counter()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise RuntimeError(f"{reply.status}: {reply.read()[:300]!r}")
        while (line := reply.readline()) != b"data: [DONE]\n":
            if not line:
                raise RuntimeError("the stream ended early")
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            for choice in event.get("choices", []):
                piece = choice["delta"].get("content") or ""
                if piece and not answer.text:
                    answer.first_seconds = time.perf_counter() - began
                answer.text += piece
            if event.get("usage"):
                answer.prompt_tokens = event["usage"]["prompt_tokens"]
                answer.tokens = event["usage"]["completion_tokens"]
    answer.seconds = time.perf_counter() - began
    return answer


@dataclasses.dataclass
class Figures:
    seconds: float
    answers: list[Answer]

    @property
    def tokens_per_second(self) -> float:
        return sum(answer.tokens for answer in self.answers) / self.seconds

    @property
    def first_seconds(self) -> float:
        return statistics.mean(answer.first_seconds for answer in self.answers)


def served_model(port: int) -> str:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/v1/models")
        return json.loads(connection.getresponse().read())["data"][0]["id"]


def run(port: int, bodies: list[dict], clients: int) -> Figures:
    """All requests, by so many clients, each of which asks the next one when its last is answered."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    model = served_model(port)
    for i, body in enumerate(bodies):
        waiting.put((i, {"model": model, **body}))
    found: list = [None] * len(bodies)
    failed: list = []

    def client() -> None:
        with contextlib.suppress(queue.Empty):
            while not failed:
                i, body = waiting.get_nowait()
                try:
                    found[i] = ask(port, body)
                except Exception as error:  # pylint: disable=broad-except
                    failed.append(error)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return Figures(time.perf_counter() - began, found)


class Program:
    """A server as a process of its own, on the cores that are named ("10-13"; empty: any)."""

    def __init__(self, command: list, cores: str = "", environment: dict | None = None):
        self.said = tempfile.NamedTemporaryFile(prefix="serve-load-")
        pinned = ["taskset", "-c", cores] if cores else []
        self.process = subprocess.Popen(
            pinned + [str(word) for word in command],
            stdout=self.said,
            stderr=self.said,
            env={**os.environ, **(environment or {})},
        )

    def output(self) -> str:
        return pathlib.Path(self.said.name).read_text(errors="replace")

    def port_said(self, pattern: str, seconds: float = 120) -> int:
        """The port in what the program prints when it listens."""

        def found():
            match = re.search(pattern, self.output())
            return int(match.group(1)) if match else None

        return self.wait(found, seconds)

    def wait(self, condition, seconds: float = 120):
        end = time.monotonic() + seconds
        while not (value := condition()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the server did not start:\n" + self.output()[-2000:])
            time.sleep(0.05)
        return value

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()


def banyan(program: str, model: str, threads: int, cores: str = "") -> tuple[Program, int]:
    server = Program([program, "serve", "-m", model, "--threads", threads, "--port", 0], cores)
    return server, server.port_said(r"http://127\.0\.0\.1:(\d+)/")
