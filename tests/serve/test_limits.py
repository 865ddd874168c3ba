"""Who may ask, how much, and how a server ends."""
import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import BANYAN, FERRY, MODEL, NAME, PATIENCE, Server, ServeTest, processor_time

ENDLESS = {"model": NAME, "messages": [{"role": "user", "content": FERRY}], "max_tokens": 2000, "regex": "[a-z ]{6000,}"}
QUICK = {"documents": [FERRY], "questions": ["Who steers the ferry Marigold?"]}
KEYS = {"anna": "anna-key-0123456789", "ben": "ben-key-0123456789"}


def bearer(name):
    return {"Authorization": "Bearer " + KEYS[name]}


class Keys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
            file.write("# who may ask\n" + "".join(f"{name}:{key}\n" for name, key in KEYS.items()))
        cls.keys = file.name
        cls.log = file.name + ".log"
        cls.server = Server("--keys", cls.keys, "--isolate", "--admin", "anna", "--log", cls.log)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        os.unlink(cls.keys)
        os.unlink(cls.log)

    def log_text(self):
        """Its lines that are whole."""
        with open(self.log, encoding="utf-8") as file:
            return file.read().rpartition("\n")[0]

    def test_keys_are_asked_for_and_never_told(self):
        for headers in ({}, {"Authorization": "Bearer wrong-key-0123456789"}, {"Authorization": KEYS["anna"]},
                        {"Authorization": "Bearer " + KEYS["anna"][:-1]}):
            status, reply = self.server.json("/v1/ask", QUICK, headers)
            self.assertEqual((status, reply["error"]["type"]), (401, "authentication_error"))
        self.assertEqual(self.server.json("/v1/ask", QUICK, bearer("anna"))[0], 200)
        self.assertEqual(self.server.json("/health")[0], 200)
        self.assertEqual(self.server.ask("GET", "/")[0], 200)
        self.assertEqual(self.server.ask("GET", "/metrics")[0], 401)
        self.server.json("/v1/ask?secret=" + KEYS["ben"], QUICK, bearer("anna"))

        def logged():
            lines = [json.loads(line) for line in self.log_text().splitlines()]
            return sum((line.get("tenant"), line["path"], line["status"]) == ("anna", "/v1/ask", 200) for line in lines)
        self.server.wait_until(lambda: logged() >= 2)  # a line is written after its reply
        text = self.log_text()
        for secret in (*KEYS.values(), "Marigold", "wrong-key"):
            self.assertNotIn(secret, text + self.server.said())

    def test_numbers_of_all_tenants_are_for_the_administrator(self):
        self.assertEqual(self.server.ask("GET", "/metrics", headers=bearer("anna"))[0], 200)
        status, headers, body = self.server.ask("GET", "/metrics", headers=bearer("ben"))
        self.assertEqual((status, json.loads(body)["error"]["code"]), (403, "not_admin"))
        # Nor does the number of a request count those of others.
        numbers = [int(self.server.ask("GET", "/health")[1]["X-Request-Id"].split("-")[1]) for _ in range(8)]
        self.assertGreater(min(abs(a - b) for a, b in zip(numbers, numbers[1:])), 1000)

    def test_tenants_share_nothing(self):
        text = "The lighthouse of Selsey has a white lamp. " * 30
        messages = [{"role": "user", "content": text}]
        cached = []
        for name in ("anna", "ben", "anna", "ben"):
            status, reply = self.server.json("/v1/chat/completions", {
                "model": NAME, "messages": messages, "temperature": 0, "max_tokens": 4}, bearer(name))
            self.assertEqual(status, 200, reply)
            cached.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(cached[:2], [0, 0])
        self.assertTrue(all(count > 100 for count in cached[2:]), cached)


class Browsers(ServeTest):
    ARGUMENTS = ("--allow-origin", "https://good.example")

    def test_pages_elsewhere_may_not_ask(self):
        def status(**headers):
            return self.server.ask("GET", "/v1/models", headers={k.replace("_", "-"): v for k, v in headers.items()})
        here = f"127.0.0.1:{self.server.port}"
        self.assertEqual(status(Origin="https://evil.example")[0], 403)
        self.assertEqual(status(Origin="null")[0], 403)
        self.assertEqual(status(Origin="http://" + here, Host=here)[0], 200)
        good = status(Origin="https://good.example")
        self.assertEqual((good[0], good[1]["Access-Control-Allow-Origin"]), (200, "https://good.example"))
        self.assertEqual(status(Host="evil.example")[0], 403)  # a name that was bent to this machine
        self.assertEqual(status(Host="localhost:1")[0], 200)
        code, headers, _ = self.server.ask("OPTIONS", "/v1/ask", headers={"Origin": "https://good.example"})
        self.assertEqual(code, 204)
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])


class Limits(ServeTest):
    ARGUMENTS = ("--max-requests", 3, "--max-body", "64K", "--header-seconds", 3, "--body-seconds", 3, "--write-seconds", 2,
                 "--max-connections", 40, "--request-seconds", 60)

    def setUp(self):
        # Nothing of the test before is under way but the request that asks for it.
        self.server.wait_until(lambda: self.server.metric("banyan_requests") == 1)

    def test_more_than_there_is_place_for(self):
        leaving = [self.server.connect() for _ in range(3)]
        for connection in leaving:
            connection.request("POST", "/v1/chat/completions", json.dumps(dict(ENDLESS, stream=True)))
        for connection in leaving:  # each has its place
            self.assertEqual(connection.getresponse().status, 200)
        status, headers, body = self.server.ask("GET", "/v1/models")
        self.assertEqual((status, headers["Retry-After"], json.loads(body)["error"]["type"]), (429, "1", "rate_limit_error"))
        for connection in leaving:
            connection.close()
        self.server.wait_until(lambda: self.server.ask("GET", "/health")[0] == 200)

    def test_sizes(self):
        self.assertEqual(self.server.json("/v1/ask", b"x" * 70000)[0], 413)
        chunked = self.server.raw(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 8)
        self.assertIn(b" 413 ", chunked.recv(4096))
        big = self.server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40000 + b"\r\n\r\n")
        self.assertIn(b" 431 ", big.recv(4096))

    def test_what_is_no_http(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"POST /v1/ask HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                     b"GET http//%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"):
            with contextlib.closing(self.server.raw(data)) as connection:
                try:
                    reply = connection.recv(4096)
                except ConnectionError:
                    reply = b""
                self.assertTrue(reply == b"" or b" 400 " in reply.split(b"\r\n")[0], (data, reply))

    def test_slow_and_silent_clients_are_closed(self):
        slow = self.server.raw(b"POST /v1/ask HTTP/1.1\r\nHost: loc")
        late = self.server.raw(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        for connection in (slow, late):
            self.assertEqual(connection.recv(100), b"")

    def test_many_idle_connections_do_not_keep_others_out(self):
        idle = [self.server.raw(b"GET /health HTTP/1.1\r\n") for _ in range(120)]
        status, reply = self.server.json("/v1/ask", QUICK)
        self.assertEqual((status, reply["rows"][0]["answer"]), (200, "Anna Walker"))
        for connection in idle:
            connection.close()

    def test_a_client_that_does_not_read(self):
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(("127.0.0.1", self.server.port))
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)  # 16 MB of replies
        self.server.wait_until(lambda: self.server.metric("banyan_connections_timed_out_total") > 0)
        deaf.close()
        self.assertEqual(self.server.json("/v1/ask", QUICK)[0], 200)

    def test_an_upload_that_asks_first(self):
        body = json.dumps(QUICK).encode()
        connection = self.server.raw(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        self.assertIn(b"100 Continue", connection.recv(100))
        connection.sendall(body)
        self.assertIn(b" 200 ", connection.recv(4096))


class Ends(unittest.TestCase):
    def test_what_is_under_way_is_finished(self):
        server = Server()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            documents = [f"{FERRY} This is copy number {i}." for i in range(60)]
            asked = pool.submit(server.json, "/v1/ask", dict(QUICK, documents=documents, copy=False, regex="[A-Za-z ]{30,40}"))
            server.wait_until(lambda: server.metric("banyan_running_answers") > 0)
            server.process.send_signal(signal.SIGTERM)
            status, reply = asked.result(240)
        self.assertEqual((status, len(reply["rows"])), (200, 60))
        self.assertEqual(server.stop(), 0)

    def test_a_second_time_ends_at_once(self):
        server = Server()
        connection = server.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(dict(ENDLESS, stream=True, n=8)))
        connection.getresponse().read(10)
        server.process.send_signal(signal.SIGINT)
        server.wait_until(lambda: "finishing what is under way" in server.said())
        self.assertIsNone(server.process.poll())
        spent, before = server.processor_seconds(), processor_time.of_children()
        server.process.send_signal(signal.SIGINT)
        # By itself, or, on a machine that is too busy for that, after two seconds.
        self.assertIn(server.process.wait(timeout=PATIENCE), (0, 128 + signal.SIGTERM))
        self.assertLess(processor_time.of_children() - before - spent, 5)
        connection.close()
        server.stop()

    def test_what_people_get_wrong(self):
        server = Server()
        broken = tempfile.NamedTemporaryFile(suffix=".gguf")
        self.addCleanup(broken.close)
        for arguments, words in ((["--port", str(server.port)], "--port takes another one"), (["--port", "99999"], "port"),
                                 (["--address", "nowhere"], "--address"), (["-m", "no/such.gguf"], "no/such.gguf"),
                                 # Before a model is loaded, which may take long.
                                 (["--port", str(server.port), "-m", broken.name], "--port takes another one"),
                                 (["--keys", "no-such-file", "-m", broken.name], "--keys"),
                                 (["--keys", "no-such-file"], "--keys"), (["--isolate"], "--keys FILE"), (["--admin", "anna"], "--isolate"),
                                 (["--state", "/proc/nothing"], "--state"), (["--prot", "1"], "--port")):
            others = ([] if "-m" in arguments else ["-m", MODEL]) + ([] if "--port" in arguments else ["--port", "0"])
            result = subprocess.run([BANYAN, "serve", *others, *arguments], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(words, result.stderr)
        server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
