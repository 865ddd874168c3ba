"""The load of the server's benches: what is shared, and what clients measure of a server whose times are known."""

import contextlib
import http.server
import io
import json
import threading
import time
import unittest

from bench import serve_load
from bench.rivals import llama_server
from bench.serve_overhead import rows_of

DELAY = 0.1  # before the first token and before the last


class Slow(http.server.BaseHTTPRequestHandler):
    """Three tokens for every question, the first two after DELAY, the last after DELAY more."""

    protocol_version = "HTTP/1.1"
    refuse = False

    def do_GET(self):
        self.reply(200, json.dumps({"data": [{"id": "slow"}]}).encode())

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refuse or asked["model"] != "slow":
            return self.reply(404, b"no such model")
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
        time.sleep(DELAY)
        self.event({"choices": [{"delta": {"content": "one two "}}]})
        time.sleep(DELAY)
        self.event({"choices": [{"delta": {"content": "three"}}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Load(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Slow,), {}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.port = self.server.server_address[1]

    def test_what_is_shared(self):
        said = lambda shared, seed: [
            body["messages"][0]["content"] for body in serve_load.chats(8, 50, 4, shared, seed)
        ]
        self.assertEqual(len({text.split("\n\n")[0] for text in said(True, 1)}), 1)
        self.assertEqual(len(set(said(True, 1))), 8)
        self.assertEqual(len({text.split("\n\n")[0] for text in said(False, 1)}), 8)
        self.assertEqual(said(True, 1), said(True, 1))
        self.assertNotEqual(said(True, 1)[0], said(True, 2)[0])
        self.assertEqual(len(said(True, 1)[0].split("\n\n")[0].split()), 50)

    def test_times_and_tokens(self):
        figures = serve_load.run(self.port, serve_load.chats(4, 10, 4, True, 1), clients=2)
        self.assertEqual([(a.text, a.prompt_tokens, a.tokens) for a in figures.answers], [("one two three", 7, 3)] * 4)
        for answer in figures.answers:
            self.assertGreaterEqual(answer.first_seconds, DELAY)
            self.assertGreater(answer.seconds, answer.first_seconds)  # by how much, a busy machine decides
            self.assertGreaterEqual(answer.seconds, 2 * DELAY)
        self.assertGreaterEqual(figures.seconds, 4 * DELAY)  # two at a time, one after another
        self.assertAlmostEqual(figures.tokens_per_second, 12 / figures.seconds)

    def test_a_refusal_ends_the_run(self):
        self.server.RequestHandlerClass.refuse = True
        with self.assertRaisesRegex(RuntimeError, "404"):
            serve_load.run(self.port, serve_load.chats(4, 10, 4, True, 1), clients=2)

    def test_the_report_has_medians_of_ratios(self):
        def figures(seconds, first):
            return serve_load.Figures(seconds, [serve_load.Answer("x", first, seconds, 5, 10)])

        pairs = [
            (figures(1, 0.1), figures(2, 0.4)),
            (figures(1, 0.1), figures(3, 0.2)),
            (figures(2, 0.1), figures(20, 0.3)),
        ]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            found = llama_server.report({"shared": pairs}, {"shared": llama_server.Setting(8, True)})["shared"]
        self.assertIn("**3.00** (2.00 to 10.00)", printed.getvalue())
        self.assertAlmostEqual(found["ratio"], 3.0)
        self.assertAlmostEqual(found["first_ratio"], 3.0)
        self.assertEqual((found["answers"], found["equal_answers"], found["setting"]), (3, 3, "8 slots, one buffer"))

    def test_rows_of_both_forms_are_in_the_questions_order(self):
        events = [{"type": "answer", "document": 0, "question": i, "row": {"id": i}} for i in (1, 0)] + [
            {"type": "done"}
        ]
        streamed = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.assertEqual(rows_of(streamed.encode(), True), [{"id": 0}, {"id": 1}])
        self.assertEqual(rows_of(b'{"rows": [{"id": 0}]}', False), [{"id": 0}])


if __name__ == "__main__":
    unittest.main()
