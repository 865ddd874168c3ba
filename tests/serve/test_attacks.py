"""What hostile clients tried and nobody may do again: work that cannot be stopped, memory and disk without end, files of
others. Each test failed before it was repaired."""
import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import tiny_encoder
from harness import BANYAN, FERRY, MODEL, NAME, PATIENCE, READS_HTML, Server, ServeTest
from test_batches import lines, rows_of, start, upload, wait_for

QUICK = {"documents": [FERRY], "questions": ["Who steers the ferry Marigold?"]}
KEYS = {"anna": "anna-key-0123456789", "ben": "ben-key-0123456789"}
MIB = 1 << 20


def bearer(name):
    return {"Authorization": "Bearer " + KEYS[name]}


class Tenant:
    """A server as one of its tenants sees it."""

    def __init__(self, server, name):
        self.server, self.headers = server, bearer(name)

    def json(self, path, body=None, headers=None, method=None):
        return self.server.json(path, body, {**self.headers, **(headers or {})}, method)

    def ask(self, method, path, body=None):
        return self.server.ask(method, path, body, self.headers)

    def wait_until(self, condition, seconds=PATIENCE):
        self.server.wait_until(condition, seconds)


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="banyan-attack-")
    try:
        yield pathlib.Path(path)
    finally:
        shutil.rmtree(path, True)


class Bodies(ServeTest):
    def test_promises_and_halves_leave_no_room_taken(self):
        promise = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554432\r\n\r\n"
        for kind in range(3):
            for _ in range(10):
                connection = self.server.raw(promise + b"x" * (kind and 5 * MIB))
                if kind == 2:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.close()
        self.server.wait_until(lambda: self.server.metric("banyan_bodies_bytes") == 0)
        status, reply = self.server.json("/v1/ask", json.dumps(dict(QUICK, user=" " * 31 * MIB)).encode())
        self.assertEqual((status, reply["error"]["param"]), (400, "user"))
        self.assertEqual(self.server.json("/v1/ask", QUICK)[0], 200)

    def quick(self, path, body, status, seconds=5, headers=None):
        # What the one before took may be given back after its reply.
        self.server.wait_until(lambda: self.server.metric("banyan_bodies_bytes") < MIB)
        began = self.server.processor_seconds()
        reply = self.server.ask("POST", path, body, headers)
        self.assertEqual(reply[0], status, reply[2][:300])
        self.assertLess(self.server.processor_seconds() - began, seconds)
        return reply[2]

    def test_no_body_takes_long_or_much(self):
        self.quick("/v1/ask", QUICK, 200)
        before = self.server.resident_kib()
        keys = "{" + ",".join(f'"k{i}":1' for i in range(100_000)) + "}"
        self.assertIn(b"names", self.quick("/v1/extract", f'{{"schema":{keys},"documents":["x"]}}', 400))
        self.assertIn(b"names", self.quick("/v1/chat/completions", keys, 400))
        for _ in range(3):
            reply = self.quick("/v1/ask", b'{"documents":[' + b"{}," * (10 * MIB) + b"{}]}", 400)
            self.assertIn(b"too many values", reply)
        bomb = gzip.compress(b"\0" * (250 * MIB))
        self.assertLess(len(bomb), MIB)
        self.quick("/v1/documents", bomb, 413)
        peak = self.server.resident_kib("VmHWM") - before
        self.assertLess(peak, 400 * 1024)
        self.server.wait_until(lambda: self.server.resident_kib() < before + 100 * 1024)

    def test_texts_that_are_no_json_take_little(self):
        """The library writes what it cannot read into its message, several times: four of these took 1.2 GB."""
        before = self.server.resident_kib()
        body = b'{"documents":["' + b"\\u0041" * (5 * MIB)
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(self.server.ask("POST", "/v1/ask", body)[0])) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(statuses), {400, 429})
        self.assertLess(self.server.resident_kib("VmHWM") - before, 400 * 1024)

    @unittest.skipUnless(READS_HTML, "built without libxml2")
    def test_no_page_takes_long(self):
        attributes = b"<p " + b"".join(b"a%d=1 " % i for i in range(220_000)) + b">x"
        for page in (attributes, b"&" * (10 * MIB)):
            self.quick("/v1/documents?name=a.html", page, 200)

    def test_everything_that_becomes_rows_counts(self):
        choices = [{"question": "Which?", "choices": [f"c{i}" for i in range(50_000)]}]
        self.assertIn(b"50000 answers", self.quick("/v1/ask", {"documents": [FERRY], "questions": choices}, 400))
        own = [{"text": FERRY, "questions": choices}]
        self.quick("/v1/ask", {"documents": own, "questions": ["Who?"]}, 400)
        attributes = [{"name": f"a{i}", "type": "boolean"} for i in range(40)]
        reply = self.quick("/v1/extract", {"documents": [{"text": FERRY}] * 200, "schema": {"attributes": attributes}}, 400, 30)
        self.assertIn(b"answers are asked for", reply)


class OwnServers(unittest.TestCase):
    def serve(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server


class Stops(OwnServers):
    """Work that a client does not wait for any more, or that the server shall end, ends."""

    def setUp(self):
        self.tools = tempfile.mkdtemp(prefix="banyan-tools-")
        self.addCleanup(shutil.rmtree, self.tools, True)
        program = pathlib.Path(self.tools, "pdftotext")
        program.write_text("#!/bin/sh\nexec sleep 600\n")
        program.chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{self.tools}:{path}"
        self.addCleanup(os.environ.__setitem__, "PATH", path)

    def hang(self, server):
        return server.raw(b"POST /v1/documents?name=a.pdf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n%PDF-1.4")

    def test_a_client_that_leaves_and_one_that_waits_too_long(self):
        server = self.serve("--request-seconds", 2)
        connection = self.hang(server)
        time.sleep(0.5)
        connection.close()
        server.wait_until(lambda: server.metric("banyan_requests") <= 1)
        self.assertIn(b" 504 ", self.hang(server).recv(4096))
        many = [{"name": f"a{i}", "description": "one of many"} for i in range(200)]
        body = json.dumps({"documents": [FERRY], "schema": {"attributes": many}}).encode()
        connection = server.raw(b"POST /v1/extract HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        time.sleep(0.3)
        connection.close()
        server.wait_until(lambda: server.metric("banyan_requests") <= 1)
        self.assertEqual(server.stop(), 0)

    def long_embeddings(self):
        """An encoder and a request for it that takes minutes, many of them where it does not end before."""
        encoder = tiny_encoder.write(os.path.join(self.tools, "bert"), layers=48)
        return encoder, json.dumps({"model": "bert", "input": [[5 + i % 40 for i in range(298)]] * 2048}).encode()

    def embeds_again(self, server):
        """Whether there is room for a request: what ends, ends with the pass that is under way."""
        status = server.json("/v1/embeddings", {"model": "bert", "input": "abc"})[0]
        self.assertIn(status, (200, 429))
        return status == 200

    def test_embeddings_end_with_their_time(self):
        encoder, body = self.long_embeddings()
        server = self.serve("--encoder", encoder, "--request-seconds", 2, "--max-requests", 2)
        self.assertEqual(server.json("/v1/embeddings", body)[0], 504)
        server.wait_until(lambda: server.metric("banyan_requests") == 1)  # the one that asks for it
        self.assertEqual(server.stop(), 0)

    def test_embeddings_end_with_their_client(self):
        encoder, body = self.long_embeddings()
        server = self.serve("--encoder", encoder, "--max-requests", 5)
        post = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        leaving = [server.raw(post) for _ in range(4)]
        server.wait_until(lambda: server.metric("banyan_requests") == 5)
        for connection in leaving:
            connection.close()
        server.wait_until(lambda: self.embeds_again(server))
        server.wait_until(lambda: server.metric("banyan_requests") == 1)
        self.assertEqual(server.stop(), 0)

    def test_a_second_signal_ends_at_once(self):
        server = self.serve()
        connections = [self.hang(server) for _ in range(4)]
        server.wait_until(lambda: server.metric("banyan_requests") == 5)  # these four and the one that asks for it
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: "finishing what is under way" in server.said())
        self.assertIsNone(server.process.poll())
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=PATIENCE)  # the programs that it waits for would take 600 s
        for connection in connections:
            connection.close()
        server.stop()

    def test_a_byte_after_the_body_hides_nothing(self):
        server = self.serve()
        connection = self.hang(server)
        connection.sendall(b"G")
        time.sleep(0.5)
        connection.close()
        server.wait_until(lambda: server.metric("banyan_requests") <= 1)
        server.stop()


class Hosts(ServeTest):
    def test_only_names_of_this_machine(self):
        def status(*hosts):
            head = b"GET /v1/models HTTP/1.1\r\n" + b"".join(b"Host: %s\r\n" % host for host in hosts)
            with contextlib.closing(self.server.raw(head + b"\r\n")) as connection:
                return int(connection.recv(4096).split(b" ")[1])
        self.assertEqual(status(b"127.0.0.1:80"), 200)
        self.assertEqual(status(b"127.0.0.1.evil.test"), 403)
        self.assertEqual(status(), 400)
        self.assertEqual(status(b"localhost", b"localhost"), 400)


class Disk(OwnServers):
    def allow(self, server, size):
        """Files of the server may grow to so many bytes; None: as they like."""
        hard = resource.RLIM_INFINITY
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

    def test_a_full_disk_is_waited_for(self):
        with folder() as state:
            server = self.serve("--state", state)
            file = upload(server, lines(40))
            self.allow(server, 6000)  # before there is anything to write
            batch = start(server, file)

            def waits():
                found = server.json("/v1/batches/" + batch)[1]
                return found["errors"] and found["errors"]["data"][0]["code"] == "waiting"
            server.wait_until(waits)
            found = server.json("/v1/batches/" + batch)[1]
            self.assertEqual(found["status"], "in_progress")
            self.assertNotIn(str(state), json.dumps(found))
            self.assertEqual(server.json("/v1/ask", QUICK)[0], 200)
            with self.assertRaises(AssertionError):
                upload(server, lines(100))
            self.allow(server, None)
            done = wait_for(server, batch, "completed", "failed")
            self.assertEqual((done["status"], done["errors"]), ("completed", None))
            self.assertEqual(done["request_counts"], {"total": 40, "completed": 40, "failed": 0})
            rows = rows_of(server, done["output_file_id"])
            self.assertEqual(sorted(row["custom_id"] for row in rows), sorted(f"line-{i}" for i in range(40)))
            self.assertEqual(server.stop(), 0)

    def test_a_file_that_cannot_be_opened_is_not_empty(self):
        """No descriptor is left, or the disk does not answer: the batch waits, and no line of it is lost."""
        with folder() as state:
            server = self.serve("--state", state)
            file = upload(server, lines(5))
            (state / "files" / file).rename(state / "away")
            batch = start(server, file)
            server.wait_until(lambda: server.json("/v1/batches/" + batch)[1]["errors"])
            self.assertEqual(server.json("/v1/batches/" + batch)[1]["errors"]["data"][0]["code"], "waiting")
            (state / "away").rename(state / "files" / file)
            done = wait_for(server, batch, "completed", "failed")
            self.assertEqual(done["request_counts"], {"total": 5, "completed": 5, "failed": 0})
            self.assertEqual(server.stop(), 0)

    def test_two_servers_do_not_share_a_folder(self):
        with folder() as state:
            server = self.serve("--state", state)
            second = subprocess.run([BANYAN, "serve", "-m", MODEL, "--port", "0", "--state", str(state)], capture_output=True,
                                    text=True, timeout=PATIENCE)
            self.assertEqual(second.returncode, 2)
            self.assertIn("another server works on this folder", second.stderr)
            server.stop()
            self.serve("--state", state)

    def test_metadata_and_deletion(self):
        with folder() as state:
            server = self.serve("--state", state)
            file = upload(server, lines(1))
            request = {"input_file_id": file, "endpoint": "/v1/chat/completions"}
            for metadata in ({"a": "x" * 513}, {"n" * 65: "x"}, {"a": 1}, {"a": {}}, {str(i): "x" for i in range(17)}, "a"):
                status, reply = server.json("/v1/batches", dict(request, metadata=metadata))
                self.assertEqual((status, reply["error"]["param"]), (400, "metadata"), metadata)
            status, batch = server.json("/v1/batches", dict(request, metadata={"n" * 64: "ä" * 512}))
            self.assertEqual((status, batch["metadata"]), (200, {"n" * 64: "ä" * 512}))
            done = wait_for(server, batch["id"], "completed")
            self.assertEqual(server.json("/v1/batches/" + batch["id"], method="DELETE")[1]["deleted"], True)
            self.assertEqual(server.json("/v1/batches/" + batch["id"])[0], 404)
            self.assertEqual(len(rows_of(server, done["output_file_id"])), 1)
            running = start(server, upload(server, lines(200, 400, regex="[a-z ]{300,}")))
            self.assertEqual(server.json("/v1/batches/" + running, method="DELETE")[0], 409)
            server.json(f"/v1/batches/{running}/cancel", {}, method="POST")
            wait_for(server, running, "cancelled")
            self.assertEqual(server.json("/v1/batches/" + running, method="DELETE")[0], 200)
            server.stop()

    def test_tenants_do_not_disturb_one_another(self):
        with folder() as state:
            keys = state / "keys"
            keys.write_text("".join(f"{name}:{key}\n" for name, key in KEYS.items()))
            server = self.serve("--keys", keys, "--state", state / "state", "--max-files", "200K")
            anna, ben = Tenant(server, "anna"), Tenant(server, "ben")
            over = threading.Event()
            refused = []

            def disturb():
                until = time.monotonic() + PATIENCE
                while not over.is_set() or (not refused and time.monotonic() < until):
                    try:
                        ids = [upload(ben, lines(150)) for _ in range(3)]
                    except AssertionError as error:  # no room of its own
                        refused.append(str(error))
                        ids = []
                    for file in [f["id"] for f in ben.json("/v1/files")[1]["data"]] + ids:
                        ben.ask("DELETE", "/v1/files/" + file)
            thread = threading.Thread(target=disturb)
            thread.start()
            for _ in range(3):
                done = wait_for(anna, start(anna, upload(anna, lines(20))), "completed", "failed")
                self.assertEqual(done["status"], "completed", done)
                self.assertEqual(len(rows_of(anna, done["output_file_id"])), 20)
            over.set()
            thread.join()
            self.assertTrue(refused)
            for word in (str(state), "/files/"):
                self.assertNotIn(word, "".join(refused))
            server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
