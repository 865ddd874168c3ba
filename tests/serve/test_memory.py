"""What a request takes of the server's memory: everything that it makes grow is counted, refused beyond the room that
all requests have, and free again afterwards."""

import contextlib
import json
import os
import resource
import signal
import socket
import tempfile
import threading
import time
import unittest

from harness import FERRY, NAME, Server, ServeTest

MIB = 1 << 20
ROOM_MIB = 256  # for all requests together (HttpLimits::max_bodies_bytes)
# What no request counts: the stacks and caches of threads, pieces between freed blocks, and what is allocated between
# two looks at the account.
BESIDE_MIB = 160
KEY = "anna-key-0123456789"
BEARER = {"Authorization": "Bearer " + KEY}
QUICK = {"documents": [FERRY], "questions": ["Who steers the ferry Marigold?"]}
TEXT = {"model": NAME, "prompt": "The ferry", "max_tokens": 1}


def schema(value):
    return dict(TEXT, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": value}})


def serve(test, *arguments):
    server = Server(*arguments)
    test.addCleanup(server.stop, signal.SIGKILL)
    return server


def peak_mib(server):
    return server.resident_kib("VmHWM") / 1024


class WithoutAKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
            file.write(f"anna:{KEY}\n")
        cls.addClassCleanup(os.unlink, file.name)
        cls.server = Server("--keys", file.name, "--body-seconds", 600)
        cls.addClassCleanup(cls.server.stop)

    def test_a_chunk_head_and_trailers_have_an_end(self):
        """They were kept without limit: 2 GiB from one connection."""
        self.server.json("/v1/ask", QUICK, BEARER)
        before = self.server.resident_kib()
        starts = {"head": b"5;a=", "trailers": b"2\r\n{}\r\n0\r\nX-A: "}
        for method, path, head in (
            (b"GET", b"/health", b""),
            (b"POST", b"/v1/ask", b"Authorization: Bearer " + KEY.encode() + b"\r\n"),
        ):
            for what, start in starts.items():
                with self.subTest(path=path, what=what):
                    connection = self.server.raw(
                        b"%s %s HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n"
                        % (method, path, head)
                        + start
                    )
                    sent = 0
                    with contextlib.closing(connection), contextlib.suppress(OSError):
                        while sent < 128 * MIB:  # refused, and for a moment read and dropped
                            connection.sendall(b"x" * 65536)
                            sent += 65536
                    short = self.server.raw(
                        b"%s %s HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n"
                        % (method, path, head)
                        + start
                        + b"x" * 17000
                    )
                    with contextlib.closing(short):
                        self.assertIn(b" 431 ", short.recv(4096).split(b"\r\n")[0])
        self.assertLess(self.server.resident_kib("VmHWM") - before, 64 * 1024)

    def test_short_chunk_heads_and_trailers_are_read(self):
        body = json.dumps(QUICK).encode()
        connection = self.server.raw(
            b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"%x;name=%s\r\n%s\r\n0\r\nX-Checksum: %s\r\n\r\n"
            % (KEY.encode(), len(body), b"v" * 8000, body, b"c" * 8000)
        )
        with contextlib.closing(connection):
            self.assertIn(b" 200 ", connection.recv(4096).split(b"\r\n")[0])

    def test_no_body_without_a_key(self):
        """Eight connections without a key took all room for bodies."""
        for method, path in (
            ("OPTIONS", "/v1/ask"),
            ("GET", "/health"),
            ("GET", "/"),
            ("POST", "/health"),
            ("GET", "/openapi.json"),
        ):
            with self.subTest(method=method, path=path):
                head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
                with contextlib.closing(self.server.raw(head + b"Content-Length: 33554432\r\n\r\n")) as connection:
                    self.assertRegex(connection.recv(4096), rb"^HTTP/1.1 4(01|05|13) ")
                chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
                with contextlib.closing(
                    self.server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
                ) as connection:
                    self.assertRegex(connection.recv(4096), rb"^HTTP/1.1 4(01|05|13) ")
                with contextlib.closing(self.server.raw(head + b"Content-Length: 2\r\n\r\n{}")) as connection:
                    self.assertRegex(connection.recv(4096), rb"^HTTP/1.1 (20[04]|40[15]) ")
        status, _, _ = self.server.ask("GET", "/v1/models", b"x" * 5000, BEARER)
        self.assertEqual(status, 413)  # no path reads a body with GET

    def announced(self, size):
        """The status of a request that has not sent its body."""
        head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
        with contextlib.closing(self.server.raw(head % (KEY.encode(), size))) as connection:
            return int(connection.recv(4096).split(b" ")[1])

    def test_a_full_room_refuses_no_small_request(self):
        held = []
        head = (
            b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 33554432\r\n\r\n"
        )
        for _ in range(9):
            connection = self.server.raw(head % KEY.encode())
            self.addCleanup(connection.close)
            with contextlib.suppress(OSError):  # the ninth is refused
                connection.sendall(b"x" * (32 * MIB - 1))
            held.append(connection)
        self.server.wait_until(lambda: self.server.metric("banyan_bodies_bytes", BEARER) > 220 * MIB)
        self.assertEqual(self.server.json("/v1/ask", QUICK, BEARER)[0], 200)
        self.assertEqual(self.announced(30 * MIB), 429)
        for connection in held:
            connection.close()
        self.server.wait_until(lambda: self.server.metric("banyan_bodies_bytes", BEARER) < MIB)
        self.assertEqual(self.server.json("/v1/ask", b" " * MIB * 30, BEARER)[0], 400)


class Growth(unittest.TestCase):
    """Requests of 1 to 30 MB that became 2 to 6 GiB."""

    def check(self, path, body, statuses=(400, 413), words=b""):
        server = serve(self, "--kv-memory", "64M")
        self.assertEqual(server.json("/v1/ask", QUICK)[0], 200)
        before = server.resident_kib() / 1024
        status, headers, reply = server.ask("POST", path, json.dumps(body))
        self.assertIn(status, statuses, reply[:300])
        self.assertIn(words, reply)
        self.assertNotIn("Retry-After", headers)  # it can never succeed
        self.assertLess(peak_mib(server) - before, ROOM_MIB + BESIDE_MIB)
        self.assertEqual(server.json("/v1/ask", QUICK)[0], 200)
        server.wait_until(lambda: server.resident_kib() / 1024 < before + 100)
        server.wait_until(lambda: server.metric("banyan_bodies_bytes") < MIB)

    def test_stop_texts_of_many_choices(self):
        self.check("/v1/completions", dict(TEXT, n=4096, stop=["x" * 800_000]))

    def test_a_long_id_in_every_row(self):
        self.check(
            "/v1/ask",
            {
                "documents": [{"id": "x" * 1_000_000, "text": FERRY}],
                "max_tokens": 1,
                "questions": [f"Who steers {i}?" for i in range(600)],
            },
        )

    def test_a_long_constant(self):
        self.check("/v1/completions", schema({"const": "x" * 30_000_000}))

    def test_a_long_enumeration(self):
        self.check("/v1/completions", schema({"enum": [f"v{i}" for i in range(1_000_000)]}))

    def test_a_variable_a_thousand_times(self):
        """What one document makes grow ends in its row."""
        body = dict(QUICK, documents=["a b c d " * 125_000], template="{context}" * 1000 + "{question}")
        self.check("/v1/ask", body, (200, 413), b"more memory than this server has")

    def test_a_prompt_that_never_fits(self):
        for text in ("x" * 30_000_000, "a b c d " * 3_700_000):
            self.check("/v1/completions", dict(TEXT, prompt=text))


class Replies(ServeTest):
    ARGUMENTS = ("--kv-memory", "64M", "--write-seconds", 600)

    def test_what_nobody_reads_counts(self):
        text = b"All that is asked for comes back. " * (8 * MIB // 34)
        before = self.server.resident_kib()
        held, refused = [], 0
        for _ in range(60):
            connection = socket.socket()
            self.addCleanup(connection.close)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", self.server.port))
            status = b"429"
            with contextlib.suppress(ConnectionError):  # refused, and the rest of the body is not taken
                connection.sendall(
                    b"POST /v1/documents?name=a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(text)
                    + text
                )
                status = connection.recv(15)[9:12]
            self.assertIn(status, (b"200", b"429"))
            refused += status == b"429"
            held.append(connection)
        self.assertGreater(refused, 20)
        self.assertGreater(self.server.metric("banyan_bodies_bytes"), 100 * MIB)
        self.assertLess((self.server.resident_kib("VmHWM") - before) / 1024, ROOM_MIB + BESIDE_MIB)
        self.assertEqual(self.server.json("/v1/ask", QUICK)[0], 200)
        for connection in held:
            connection.close()
        self.server.wait_until(lambda: self.server.metric("banyan_bodies_bytes") < MIB)
        status, reply = self.server.json("/v1/documents?name=a.txt", text)
        self.assertEqual((status, len(reply["text"])), (200, len(text)))

    def test_alternatives_of_tokens_take_what_their_text_takes(self):
        """As JSON values 20 alternatives took 24 KB a token."""
        tokens = 16 * 128
        body = dict(TEXT, n=16, max_tokens=128, logprobs=20, regex="[a-z ]{2000,}")
        self.server.json("/v1/completions", dict(body, n=1))
        taken, over = [0], threading.Event()

        def watch():
            while not over.wait(0.002):
                with contextlib.suppress(OSError):
                    taken.append(self.server.resident_kib())

        before = self.server.resident_kib()
        watcher = threading.Thread(target=watch)
        watcher.start()
        status, _, reply = self.server.ask("POST", "/v1/completions", body)
        over.set()
        watcher.join()
        self.assertEqual(status, 200, reply[:300])
        choices = json.loads(reply)["choices"]
        self.assertEqual([len(choice["logprobs"]["top_logprobs"]) for choice in choices], [128] * 16)
        self.assertLess(max(taken) - before, 16 * tokens)  # KiB


class EveryField(unittest.TestCase):
    """Every field of every endpoint, as the server describes them, with the largest values that it takes."""

    LARGE = 5 * MIB  # bytes of a value; --max-body is 6M
    BODIES = {
        "/v1/chat/completions": {"model": NAME, "messages": [{"role": "user", "content": FERRY}], "max_tokens": 1},
        "/v1/completions": TEXT,
        "/v1/responses": {"model": NAME, "input": FERRY, "max_output_tokens": 16},
        "/v1/embeddings": {"model": "none", "input": "a"},
        "/v1/ask": dict(QUICK, max_tokens=1),
        "/v1/extract": {"documents": [FERRY], "schema": {"attributes": [{"name": "helmsman"}]}, "max_tokens": 1},
        "/v1/rag": {"documents": [FERRY], "questions": ["Who steers?"], "max_tokens": 1},
        "/v1/batches": {"input_file_id": "file-1", "endpoint": "/v1/completions"},
    }

    def resolved(self, schema):
        if "$ref" in schema:
            return self.resolved(self.description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
        return schema

    def values(self, schema, depth=0):
        """The largest values of a schema: long texts, lists of many and of one long one, objects with a long value."""
        schema = self.resolved(schema)
        for choices in ("oneOf", "anyOf"):
            for choice in schema.get(choices, ()):
                yield from self.values(choice, depth)
        kinds = schema.get("type", [])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind == "string":
                yield from (
                    schema["enum"][-1:]
                    if "enum" in schema
                    else ["word " * (self.LARGE // 5), "x" * self.LARGE, "{question}" * (self.LARGE // 10)]
                )
            elif kind in ("integer", "number"):
                yield schema.get("maximum", 1 << 53)
            elif kind == "boolean":
                yield True
            elif kind == "array" and depth < 3:
                for value in self.values(schema.get("items", {"type": "string"}), depth + 1):
                    size = max(1, len(json.dumps(value)))
                    yield [value] * min(schema.get("maxItems", 1 << 30), max(1, self.LARGE // size), 400_000)
                yield ["v"] * min(schema.get("maxItems", 1 << 30), 400_000)
            elif kind == "object" and depth < 3:
                for name, inner in schema.get("properties", {}).items():
                    for value in self.values(inner, depth + 1):
                        yield {**{needed: "text" for needed in schema.get("required", ())}, name: value}
                yield {f"k{i}": "y" * (self.LARGE // 1000) for i in range(1000)}
        for kind in () if schema.get("type") else ("schema",):
            yield {kind: {"enum": [f"v{i}" for i in range(self.LARGE // 12)]}}

    def test_each_field_at_its_largest(self):
        server = serve(
            self,
            "--kv-memory",
            "64M",
            "--max-body",
            "6M",
            "--max-tokens",
            64,
            "--max-answers",
            512,
            "--request-seconds",
            1,
            "--state",
            tempfile.mkdtemp(prefix="banyan-state-"),
        )
        self.description = server.json("/openapi.json")[1]
        server.json("/v1/ask", QUICK)
        before = server.resident_kib() / 1024
        asked, endpoints = 0, set()
        for path, methods in self.description["paths"].items():
            content = methods.get("post", {}).get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            endpoints.add(path)
            for name, field in self.resolved(content["application/json"]["schema"])["properties"].items():
                for value in self.values(field):
                    body = json.dumps({**self.BODIES[path], name: value})
                    if len(body) > 6 * MIB:
                        continue
                    asked += 1
                    # What the one before took may be given back after its reply.
                    server.wait_until(lambda: server.metric("banyan_bodies_bytes") < MIB)
                    status, headers, reply = server.ask("POST", path, body)
                    what = (path, name, body[:200], reply[:300])
                    self.assertIn(status, (200, 400, 404, 413, 504), what)
                    self.assertLess(peak_mib(server) - before, ROOM_MIB + BESIDE_MIB, what)
        self.assertEqual(endpoints, set(self.BODIES))
        self.assertGreater(asked, 250)
        self.assertEqual(server.json("/v1/ask", QUICK)[0], 200)
        server.wait_until(lambda: server.resident_kib() / 1024 < before + 100)
        server.wait_until(lambda: server.metric("banyan_bodies_bytes") < MIB)


class NoMemory(unittest.TestCase):
    def test_a_moment_without_memory_while_connections_come(self):
        """The server lived on and accepted nobody any more."""
        server = serve(self)
        self.assertEqual(server.json("/v1/ask", QUICK)[0], 200)
        endless = resource.RLIM_INFINITY
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (MIB, endless))
        connections = []
        for _ in range(900):
            connections.append(
                server.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 8000 + b"\r\n\r\n")
            )
        time.sleep(1)  # the server has taken what it takes; nothing tells when
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (endless, endless))
        for connection in connections:
            connection.close()
        server.wait_until(lambda: server.json("/v1/ask", QUICK)[0] == 200)  # not while hundreds are being answered
        server.wait_until(lambda: server.metric("banyan_connections") < 5)
        server.wait_until(lambda: server.metric("banyan_requests") == 1)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
