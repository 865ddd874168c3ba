"""A stand-in for the Hugging Face hub on this machine: lists of files, large files behind a redirect to another host,
ranges, ETags, and every fault that a test asks for. Serves only what it is given."""
import collections
import hashlib
import http.server
import json
import re
import ssl
import threading
import urllib.parse


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    """One commit of a repository: files by path. Those of `large` endings have a pointer in git and lie elsewhere."""

    def __init__(self, files: dict[str, bytes], card: dict | None = None, gated=False, private: bool = False,
                 large: tuple[str, ...] = (".gguf", ".safetensors", ".bin")) -> None:
        self.files, self.card, self.gated, self.private, self.large = files, card or {}, gated, private, large
        self.commit = hashlib.sha1(repr(sorted((path, sha256(data)) for path, data in files.items())).encode()).hexdigest()

    def is_large(self, path: str) -> bool:
        return path.endswith(self.large)

    def etag(self, path: str) -> str:
        return sha256(self.files[path]) if self.is_large(path) else git_hash(self.files[path])

    def listing(self) -> dict:
        siblings = []
        for path, data in self.files.items():
            entry = {"rfilename": path, "size": len(data), "blobId": git_hash(data)}
            if self.is_large(path):
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 133}
            siblings.append(entry)
        return {"id": "x", "sha": self.commit, "gated": self.gated, "private": self.private, "cardData": self.card,
                "siblings": siblings, "tags": []}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):  # a client that went away
        pass


class StandIn:
    """`with StandIn({"org/name": Repository(…)}) as hub:` serves at hub.url, and large files at hub.other_url.

    `faults` is asked first for each request: fault(handler, where, path) with where "list", "file" or "large" answers
    the request itself and returns True, or returns False.
    """

    def __init__(self, repositories: dict[str, Repository], token: str | None = None, certificate: str | None = None) -> None:
        self.repositories, self.token = repositories, token
        self.revisions: dict[tuple[str, str], Repository] = {}
        self.faults: list = []
        self.seen: list[tuple[str, str, dict]] = []  # where, path, headers
        self.counts: collections.Counter = collections.Counter()
        self.lock = threading.Lock()
        self.ranges = True
        stand_in = self

        class Hub(_Handler):
            hub = stand_in

            def answer(self):
                stand_in.answer_hub(self)

        class Other(_Handler):
            hub = stand_in

            def answer(self):
                stand_in.answer_other(self)

        self.servers = [_Server(("127.0.0.1", 0), Hub), _Server(("127.0.0.1", 0), Other)]
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.servers[0].socket = context.wrap_socket(self.servers[0].socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.servers[0].server_address[1]}"
        self.other_url = f"http://127.0.0.1:{self.servers[1].server_address[1]}"

    def __enter__(self) -> "StandIn":
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()

    # What happened.
    def requests(self, where: str) -> list[tuple[str, dict]]:
        with self.lock:
            return [(path, headers) for kind, path, headers in self.seen if kind == where]

    def once(self, where: str, act, times: int = 1) -> None:
        """The next `times` requests of that kind are answered by act(handler, path)."""
        left = [times]

        def fault(handler, kind, path):
            with self.lock:
                if kind != where or left[0] == 0:
                    return False
                left[0] -= 1
            act(handler, path)
            return True
        self.faults.append(fault)

    def always(self, where: str, act) -> None:
        self.faults.append(lambda handler, kind, path: kind == where and (act(handler, path) or True))

    # Answers.
    def _note(self, handler, where: str, path: str) -> bool:
        with self.lock:
            self.seen.append((where, path, dict(handler.headers)))
            self.counts[where] += 1
        return any(fault(handler, where, path) for fault in list(self.faults))

    def _find(self, name: str, revision: str) -> Repository | None:
        if (name, revision) in self.revisions:
            return self.revisions[name, revision]
        repository = self.repositories.get(name)
        known = [r for (n, _), r in self.revisions.items() if n == name] + ([repository] if repository else [])
        if repository and revision == "main":
            return repository
        return next((r for r in known if r.commit == revision), None)

    def answer_hub(self, handler) -> None:
        address = urllib.parse.urlsplit(handler.path)
        path = urllib.parse.unquote(address.path)
        listed = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path)
        resolved = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if path.startswith("/large/"):  # as a proxy
            return self.answer_other(handler)
        if listed:
            if self._note(handler, "list", path):
                return
            name, revision, file = listed[1], listed[2], None
        elif resolved:
            name, revision, file = resolved[1], resolved[2], resolved[3]
            if self._note(handler, "file", path):
                return
        else:
            return handler.say(404)
        repository = self._find(name, revision)
        allowed = self.token is not None and handler.headers.get("Authorization") == f"Bearer {self.token}"
        if name not in self.repositories or (self.repositories[name].private and not allowed):
            return handler.say(401, {"X-Error-Code": "RepoNotFound"})
        if repository is None:
            return handler.say(404, {"X-Error-Code": "RevisionNotFound"})
        if file is None:
            return handler.say(200, {"Content-Type": "application/json"}, json.dumps(repository.listing()).encode())
        if repository.gated and not allowed:
            return handler.say(401, {"X-Error-Code": "GatedRepo"})
        if file not in repository.files:
            return handler.say(404, {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": repository.commit}
        if repository.is_large(file):
            headers.update({"X-Linked-Etag": f'"{repository.etag(file)}"', "X-Linked-Size": str(len(repository.files[file])),
                            "Location": f"{self.other_url}/large/{repository.etag(file)}?signed=1"})
            return handler.say(302, headers)
        handler.send_bytes(repository.files[file], {**headers, "ETag": f'"{repository.etag(file)}"'}, self.ranges)

    def answer_other(self, handler) -> None:
        path = urllib.parse.urlsplit(handler.path).path
        if self._note(handler, "large", path):
            return
        wanted = path.rpartition("/")[2]
        for repository in [*self.repositories.values(), *self.revisions.values()]:
            for data in repository.files.values():
                if sha256(data) == wanted:
                    return handler.send_bytes(data, {"ETag": f'"{wanted[:32]}"'}, self.ranges)
        handler.say(404)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer()

    do_HEAD = do_GET

    def say(self, status: int, headers: dict | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def span(self, size: int) -> tuple[int, int] | None:
        """The bytes that the request's range asks for, [begin, end)."""
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not found:
            return None
        return int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)

    def send_bytes(self, data: bytes, headers: dict, ranges: bool = True) -> None:
        span = self.span(len(data)) if ranges else None
        if span is None:
            return self.say(200, headers, data)
        begin, end = span
        if begin >= len(data):
            return self.say(416, {"Content-Range": f"bytes */{len(data)}"})
        self.say(206, {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"}, data[begin:end])

    def cut(self, data: bytes, sent: int) -> None:
        """The head of a whole answer, `sent` bytes of it, and the connection closed."""
        span = self.span(len(data)) or (0, len(data))
        part = data[span[0]:span[1]]
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Length", str(len(part)))
        if self.headers.get("Range"):
            self.send_header("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(part[:sent])
        self.wfile.flush()
        self.close_connection = True
