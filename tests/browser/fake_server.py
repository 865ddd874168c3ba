"""A server that speaks the protocol of `banyan serve` to its page, without a model: a fixture for tests of the page.

Answers are sentences of the documents that share words with the question, written word by word. What it was asked is
in `seen`; `mode` makes it misbehave: busy, broken (the stream ends early), refused, gone; in `waves` few answers
run at a time; in `strict` a request with more than `max_answers` answers is refused, and the first one is told to come
again, as by the program.
"""
import http.server
import json
import mimetypes
import pathlib
import re
import socket
import threading
import time
import urllib.parse

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
          "font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'")


def answer_of(text, question):
    """(answer, begin, end) of the sentence with most words of the question, or None."""
    words = set(re.findall(r"\w{4,}", question.lower()))
    best = max(re.finditer(r"[^.\n]+", text), key=lambda m: len(words & set(re.findall(r"\w{4,}", m[0].lower()))), default=None)
    if best is None or not words & set(re.findall(r"\w{4,}", best[0].lower())):
        return None
    said = best[0].strip()
    begin = text.index(said)
    return said, begin, begin + len(said)


def tokens_of(text):
    return re.findall(r"\s*\S+", text)


class FakeServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.mode, self.key, self.pause, self.seen, self.cancelled = "", None, 0.002, [], threading.Event()
        self.may_break = threading.Event()  # in the mode `broken`: what came before was seen
        self.adapters, self.task_adapters, self.max_answers, self.refused = [], {}, 4096, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()  # shutdown waits so long

    def handle_error(self, request, client_address):
        pass  # a browser that leaves is no error


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, content, kind="application/json", **headers):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message, **headers):
        self.reply(status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}, **headers)

    def do_GET(self):
        path = urllib.parse.urlparse(self.path).path
        if path == "/health":
            return self.reply(200, {"status": "ok", "model": "banyan-reader-34m", "version": "0", "context_length": 2048,
                                    "tasks": ["ask", "extract", "rag"], "embeddings": False, "index": False,
                                    "keys": self.server.key is not None, "adapters": self.server.adapters,
                                    "task_adapters": self.server.task_adapters, "max_answers": self.server.max_answers,
                                    "max_body": 32 << 20})
        file = WEB / ("page.html" if path == "/" else path[1:])
        if "/" in path[1:] or not file.is_file():
            return self.refuse(404, "no such page")
        kind = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file.name)[0]
        return self.reply(200, file.read_bytes(), kind)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, _, query = self.path.partition("?")
        server = self.server
        if server.key is not None and self.headers["Authorization"] != f"Bearer {server.key}":
            return self.refuse(401, "expected an API key")
        if server.mode == "gone":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if server.mode == "busy":
            return self.refuse(429, "the queue is full", Retry_After="7")
        if path == "/v1/documents":
            name = urllib.parse.parse_qs(query)["name"][0]
            if name.endswith(".bin"):
                return self.refuse(415, "expected text, HTML or PDF")
            return self.reply(200, {"name": name, "kind": "text", "text": body.decode(), "characters": len(body.decode())})
        asked = json.loads(body)
        server.seen.append((path, asked))
        if server.mode == "strict":
            server.refused += 1
            if server.refused == 1:
                return self.refuse(429, "the queue is full", Retry_After="1")
            if len(asked["documents"]) * len(asked.get("questions", [0])) > server.max_answers:
                return self.refuse(400, f"this server gives at most {server.max_answers} at once")
            if any(len(document["text"]) > 100000 for document in asked["documents"]):
                return self.refuse(413, "the body is too large")
        if server.mode == "refused":
            return self.refuse(400, "schema: at /attributes/0/type: expected one of text, number; found 'float'")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.stream(path, asked)
        except (BrokenPipeError, ConnectionResetError):
            server.cancelled.set()

    def event(self, event):
        data = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def stream(self, path, asked):
        documents, questions = asked["documents"], asked.get("questions", [])
        self.event({"type": "start", "documents": [{"id": d["id"], "characters": len(d["text"])} for d in documents],
                    "questions": len(questions)})
        self.wfile.write(b"e\r\n: keep-alive\n\n\r\n")
        {"/v1/ask": self.ask, "/v1/extract": self.extract, "/v1/rag": self.rag}[path](documents, questions, asked)
        self.event({"type": "done", "usage": {}, "seconds": 1.0, "saved_tokens": 900, "computed_tokens": 100})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def forest(self, documents, questions, done):
        nodes = [{"id": 0, "parent": None, "tokens": 30, "readers": len(documents) * len(questions), "state": "kept",
                  "label": "instruction", "document": None}]
        for i, document in enumerate(documents):
            nodes.append({"id": 1 + i, "parent": 0, "tokens": len(document["text"]) // 4, "readers": len(questions),
                          "state": "kept" if done > i * len(questions) else "computing", "label": "document", "document": i})
            for j, question in enumerate(questions):
                at = i * len(questions) + j
                if self.server.mode == "waves" and not done - 3 <= at < done:
                    continue  # only what runs now
                if self.server.mode == "quick" and j > 1:
                    continue  # over before anybody looked
                base = 1 + len(documents) + 2 * at
                nodes.append({"id": base, "parent": 1 + i, "tokens": len(question) // 4 + 4, "readers": 1, "state": "kept",
                              "label": "question", "document": i})
                if at < done:
                    nodes.append({"id": base + 1, "parent": base, "tokens": 6, "readers": 1, "state": "tail",
                                  "label": "answer", "document": i})
        alone = sum((30 + len(d["text"]) // 4) * len(questions) for d in documents)
        once = 30 + sum(len(d["text"]) // 4 for d in documents)
        if self.server.mode == "waves":
            parents = {node["parent"] for node in nodes}
            nodes = [{**node, "readers": min(3, node["readers"])} for node in nodes if node["label"] != "document" or node["id"] in parents]
        self.event({"type": "forest", "nodes": nodes, "prompt_tokens": alone, "saved_tokens": alone - once, "computed_tokens": once})

    def ask(self, documents, questions, asked):
        done = 0
        for i, document in enumerate(documents):
            if "UNREADABLE" in document["text"]:
                self.event({"type": "answer", "document": i, "question": 0,
                            "row": {"id": document["id"], "question_id": None, "error": {"kind": "input", "message": "not a document"}}})
                continue
            for j, question in enumerate(questions):
                row = {"id": document["id"], "question_id": j + 1, "question": question}
                if "FAIL" in question:
                    row["error"] = {"kind": "limit", "message": "the document is longer than the model reads"}
                    self.event({"type": "answer", "document": i, "question": j, "row": row})
                    continue
                found = answer_of(document["text"], question)
                for token in tokens_of(" " + found[0]) if found else []:
                    self.event({"type": "token", "document": i, "question": j, "text": token})
                    time.sleep(self.server.pause)
                row["answer"] = found[0] if found else None
                if found:
                    row["start"], row["end"] = found[1:]
                row.update(finish_reason="stop", tokens=3, prompt_tokens=100)
                if self.server.mode == "quick":
                    row["confidence"] = 0.84
                done += 1
                self.event({"type": "answer", "document": i, "question": j, "row": row})
                if self.server.mode == "broken":
                    self.server.may_break.wait(120)  # what a browser has not read when a connection breaks, it forgets
                    self.connection.shutdown(socket.SHUT_RDWR)
                    raise ConnectionResetError
                if asked.get("forest") and (done % max(1, len(questions) * len(documents) // 12) == 0 or done == 1):
                    self.forest(documents, questions, done)

    def extract(self, documents, questions, asked):
        for i, document in enumerate(documents):
            values, confidence, spans = {}, {}, {}
            for k, attribute in enumerate(asked["schema"]["attributes"]):
                name = attribute["name"]
                found = re.search(rf"{re.escape(name)}(?: is| :)\s*([^\n.]+)", document["text"], re.IGNORECASE)
                values[name], confidence[name] = (found[1].strip() if found else None), 0.95 ** k
                if found:
                    spans[name] = [found.start(1), found.start(1) + len(values[name])]
            time.sleep(self.server.pause * 20)
            self.event({"type": "answer", "document": i, "row": {"id": document["id"], "values": values, "confidence": confidence,
                        "spans": spans, "tokens": 9, "prompt_tokens": 90}})

    def rag(self, documents, questions, asked):
        for j, question in enumerate(questions):
            found = [(d, answer_of(d["text"], question)) for d in documents]
            said = [(d, f) for d, f in found if f][:2]
            tokens = [{"text": t, "document": d["id"], "logprob": -0.1} for d, f in said for t in tokens_of(" " + f[0])]
            for token in tokens:
                self.event({"type": "token", "question": j, "text": token["text"]})
                time.sleep(self.server.pause)
            row = {"id": j + 1, "question": question, "answer": "".join(t["text"] for t in tokens).strip() or None,
                   "finish_reason": "stop", "tokens": len(tokens), "prompt_tokens": 9, "method": "experts",
                   "citations": [{"document": d["id"], "text": f[0], "begin": f[1], "end": f[2]} for d, f in said],
                   "trace": {"documents": [{"id": d["id"], "relevance": 0.5, "beta": 0.25} for d in documents], "tokens": tokens}}
            self.event({"type": "answer", "question": j, "row": row})
