"""Models by name, from a stand-in of the hub: choosing, fetching, resuming, refusing, and the cache that other tools share.

REQUIRES: BANYAN and MAKE_TINY_MODEL in the environment. Exits with 77 where the program was built without libcurl.
"""
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "rag")]
import tiny_encoder  # noqa: E402
from stand_in import Repository, StandIn, git_hash, sha256  # noqa: E402

BANYAN = os.environ["BANYAN"]
CARD = b"---\nlicense: apache-2.0\n---\n# A tiny model\n"
MIB = 1 << 20


def some_bytes(count: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(count)


class HubTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="banyan-hub-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, True)
        path = cls.shared / "tiny.gguf"
        subprocess.run([os.environ["MAKE_TINY_MODEL"], path, "1024", "2", "0"], check=True)
        cls.tiny = path.read_bytes()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=self.shared))
        self.cache = self.folder / "hub cache"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.lower().endswith("_proxy") and not name.startswith(("HF_", "OLLAMA_"))}
        self.environment |= {"HOME": str(self.folder), "HF_HUB_CACHE": str(self.cache), "BANYAN_OFFER": "no",
                             "BANYAN_CACHE": str(self.folder / "cache"), "NO_PROXY": "127.0.0.1"}
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "BANYAN_MODEL", "LLAMA_CACHE"):
            self.environment.pop(name, None)

    def hub(self, repositories, **more) -> StandIn:
        hub = StandIn(repositories, **more)
        hub.__enter__()
        self.addCleanup(hub.__exit__)
        self.environment["HF_ENDPOINT"] = hub.url
        return hub

    def start(self, *arguments, **variables):
        return subprocess.Popen([BANYAN, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment | variables)

    def run_banyan(self, *arguments, code=0, stdin=None, **variables):
        process = self.start(*arguments, **variables)
        out, err = process.communicate(stdin, timeout=280)
        result = subprocess.CompletedProcess(arguments, process.returncode, out, err)
        self.assertEqual(result.returncode, code, err + out)
        return result

    def refused(self, *words, name="org/model", code=2, **variables) -> str:
        """`model get` fails with a message that has all these words."""
        result = self.run_banyan("model", "get", name, code=code, **variables)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def repository_folder(self, name="org/model") -> pathlib.Path:
        return self.cache / ("models--" + name.replace("/", "--"))

    def blobs(self, name="org/model") -> list[str]:
        folder = self.repository_folder(name) / "blobs"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def assert_cached(self, repository: Repository, paths, name="org/model", revision="main"):
        """The hub's own layout, as huggingface_hub writes it."""
        folder = self.repository_folder(name)
        self.assertEqual((folder / "refs" / revision).read_text(), repository.commit)
        for path in paths:
            link = folder / "snapshots" / repository.commit / path
            up = "../" * (path.count("/") + 2)
            self.assertEqual(os.readlink(link), f"{up}blobs/{repository.etag(path)}")
            self.assertEqual(link.read_bytes(), repository.files[path])
        self.assertFalse([blob for blob in self.blobs(name) if "banyan" in blob])

    def ask(self, *arguments, code=0, **variables):
        document = self.folder / "note.txt"
        document.write_text("Anna steers the ferry.")
        return self.run_banyan("ask", document, "Who?", "--threads", "1", "--max-new", "4", "--output-format", "jsonl",
                               *arguments, code=code, **variables)


class Fetching(HubTest):
    def test_a_model_by_name_is_fetched_once_and_answers_as_its_file_does(self):
        repository = Repository({"tiny-Q4_0.gguf": self.tiny, "README.md": CARD, "run.py": b"import os",
                                 "pytorch_model.bin": b"\x80\x04."}, {"license": "apache-2.0"})
        hub = self.hub({"org/model": repository})
        first = self.ask("-m", "org/model")
        self.assertIn("licence: apache-2.0", first.stderr)
        self.assert_cached(repository, ["tiny-Q4_0.gguf", "README.md"])
        snapshot = self.repository_folder() / "snapshots" / repository.commit
        self.assertEqual(sorted(os.listdir(snapshot)), ["README.md", "tiny-Q4_0.gguf"], "no code, no pickles")
        asked = sum(hub.counts.values())
        second = self.ask("-m", "org/model")
        self.assertEqual(sum(hub.counts.values()), asked, "what is here needs no network")
        path = self.folder / "same.gguf"
        path.write_bytes(self.tiny)
        third = self.ask("-m", path)
        answers = [json.loads(run.stdout)["answer"] for run in (first, second, third)]
        self.assertEqual(len(set(answers)), 1, answers)
        for name in ("hf:org/model", "org/model:q4_0", "org/model@main", "org/model/tiny-Q4_0.gguf",
                     f"org/model@{repository.commit[:9]}:Q4_0"):
            self.assertEqual(self.run_banyan("model", "path", name, HF_HUB_OFFLINE="1").stdout.strip(),
                             str(snapshot / "tiny-Q4_0.gguf"), name)

    def test_get_prints_the_path_and_takes_the_newest_commit(self):
        old, new = Repository({"m-Q8_0.gguf": self.tiny}), Repository({"m-Q8_0.gguf": self.tiny + bytes(32)})
        hub = self.hub({"org/model": old})
        out = self.run_banyan("model", "get", "org/model").stdout.strip()
        self.assertEqual(out, str(self.repository_folder() / "snapshots" / old.commit / "m-Q8_0.gguf"))
        hub.revisions["org/model", old.commit] = old
        hub.repositories["org/model"] = new
        self.assertIn(new.commit, self.run_banyan("model", "get", "org/model").stdout)
        self.assert_cached(new, ["m-Q8_0.gguf"])
        pinned = self.run_banyan("model", "get", f"org/model@{old.commit}").stdout
        self.assertIn(old.commit, pinned)
        self.assertEqual((self.repository_folder() / "refs" / "main").read_text(), new.commit)

    def test_the_best_quantisation_that_fits_is_chosen_and_said(self):
        files = {f"big-{kind}.gguf": bytes([i]) * (1000 * (i + 1)) for i, kind in
                 enumerate(("Q2_K", "Q4_K_M", "IQ4_XS", "Q8_0", "F16"))}
        hub = self.hub({"org/model": Repository(files | {"mmproj-F16.gguf": bytes(9000), "imatrix.gguf": bytes(8000)})})
        result = self.run_banyan("model", "get", "org/model")
        self.assertTrue(result.stdout.strip().endswith("/big-Q8_0.gguf"), result.stdout)
        self.assertIn("Q8_0 (0.0 MB), the best that fits this machine's ", result.stderr)
        named = self.run_banyan("model", "get", "org/model:iq4_xs").stdout
        self.assertTrue(named.strip().endswith("/big-IQ4_XS.gguf"), named)
        self.refused("no quantisation 'Q5_K_M'", "Q8_0 (0.0 MB)", name="org/model:Q5_K_M")
        self.assertEqual(hub.counts["large"], 2)

    def test_parts_of_a_split_file_come_together(self):
        parts = {f"Q4_K_M/m-Q4_K_M-0000{i}-of-00003.gguf": some_bytes(3000, i) for i in (1, 2, 3)}
        repository = Repository(parts)
        self.hub({"org/model": repository})
        out = self.run_banyan("model", "get", "org/model:Q4_K_M").stdout.strip()
        self.assertTrue(out.endswith("/Q4_K_M/m-Q4_K_M-00001-of-00003.gguf"), out)
        self.assert_cached(repository, parts)

    def test_shards_of_safetensors_are_those_that_the_index_names(self):
        index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
        files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode(),
                 "model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two",
                 "consolidated.safetensors": b"other", "modeling_x.py": b"raise SystemExit", "onnx/model.onnx": b"x",
                 "LICENSE": b"words", "1_Pooling/config.json": b"{}"}
        repository = Repository(files)
        self.hub({"org/model": repository})
        self.run_banyan("model", "get", "org/model")
        wanted = [path for path in files if not path.startswith(("consolidated", "modeling", "onnx"))]
        self.assert_cached(repository, wanted)
        snapshot = self.repository_folder() / "snapshots" / repository.commit
        there = sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir())
        self.assertEqual(there, sorted(wanted))
        # One that another tool left half there is completed.
        (snapshot / "model-00002-of-00002.safetensors").unlink()
        self.run_banyan("ids", "-m", "org/model", code=2, stdin="")
        self.assert_cached(repository, wanted)

    def test_pickles_are_never_a_model(self):
        self.hub({"org/model": Repository({"config.json": b"{}", "pytorch_model.bin": b"\x80"})})
        self.refused("expected GGUF files, or config.json with safetensors", "pickles are never loaded")

    def test_a_name_on_this_disk_is_a_path(self):
        hub = self.hub({})
        (self.folder / "models").mkdir()
        result = self.ask("-m", "models/reader", code=2)
        self.assertIn("no file or directory 'models/reader'", result.stderr)
        self.ask("-m", "nothing.gguf", code=2)
        self.ask("-m", "a/nothing.gguf", code=2)
        self.assertFalse(hub.counts)

    def test_what_can_be_checked_is_checked_before_a_download(self):
        hub = self.hub({"org/model": Repository({"m-Q8_0.gguf": self.tiny})})
        self.run_banyan("ask", "absent.txt", "Who?", "-m", "org/model", code=2)
        self.assertFalse(hub.counts)


class Everywhere(HubTest):
    """The other places that take a name."""

    def files_of(self, folder: pathlib.Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def test_encoders(self):
        folder = self.folder / "encoder"
        tiny_encoder.write(folder, [["boat", "ferry"], ["fig"]])
        repository = Repository(self.files_of(folder))
        hub = self.hub({"org/encoder": repository})
        by_name, by_path = (self.run_banyan("embed", "-m", model, "-", stdin='{"id": 1, "text": "the ferry"}\n').stdout
                            for model in ("org/encoder", folder))
        self.assertEqual(by_name, by_path)
        self.assert_cached(repository, repository.files, "org/encoder")
        (self.folder / "texts.jsonl").write_text('{"id": 1, "text": "A ferry."}\n')
        self.run_banyan("model", "rm", "org/encoder")
        self.run_banyan("rag", "index", "index", "texts.jsonl", "--encoder", "org/encoder", "--quiet")
        self.assert_cached(repository, repository.files, "org/encoder")
        self.assertEqual(hub.counts["list"], 2)

    def test_adapters(self):
        folder = pathlib.Path(__file__).resolve().parents[2] / "models" / "smollm2-reader"
        files = {name: (folder / name).read_bytes() for name in
                 ("adapter_config.json", "adapter_model.safetensors", "banyan.json", "README.md")}
        repository = Repository(files | {"optimizer.pt": b"x"})
        self.hub({"org/adapter": repository, "org/model": Repository({"m-Q8_0.gguf": self.tiny})})
        for adapter in ("org/adapter", "legal=hf:org/adapter"):
            refused = self.ask("-m", "org/model", "--adapter", adapter, code=2).stderr  # it is of another model
            self.assert_cached(repository, files, "org/adapter")
            self.assertIn("adapter_model.safetensors", refused)
        self.assertIn("an adapter, no model", self.ask("-m", "org/adapter", code=2).stderr)
        self.assertIn("expected adapter_config.json", self.ask("-m", "org/model", "--adapter", "org/model", code=2).stderr)

    def test_the_environments_model_and_token_ids(self):
        self.hub({"org/model": Repository({"m-Q8_0.gguf": self.tiny})})
        self.ask(BANYAN_MODEL="org/model")
        self.run_banyan("model", "rm", "org/model")
        out = self.run_banyan("ids", "-m", "org/model", stdin='{"id": 1, "kind": "tokenize", "text": "a"}\n').stdout
        self.assertEqual(json.loads(out)["id"], 1)


class Transfers(HubTest):
    def setUp(self):
        super().setUp()
        self.data = some_bytes(20 * MIB + 12345)
        self.repository = Repository({"m-Q8_0.gguf": self.data})

    def test_several_ranges_at_once(self):
        hub = self.hub({"org/model": self.repository})
        arrived = threading.Barrier(2, timeout=120)

        def together(handler, path):
            arrived.wait()  # passes only while another range is asked for
            handler.send_bytes(self.data, {})
        hub.once("large", together, times=2)
        result = self.run_banyan("model", "get", "org/model")
        self.assert_cached(self.repository, ["m-Q8_0.gguf"])
        self.assertIn("100 %", result.stderr)
        self.assertEqual(hub.counts["large"], 3)

    def test_a_killed_download_goes_on_with_what_came(self):
        hub = self.hub({"org/model": self.repository})
        stop = threading.Event()
        self.addCleanup(stop.set)

        def hold(handler, kind, path):  # the last range never comes
            if kind != "large" or stop.is_set() or handler.headers.get("Range", "").startswith("bytes=0-"):
                return False
            stop.wait(200)
            return True
        hub.faults.append(hold)
        process = self.start("model", "get", "org/model")
        partial = self.repository_folder() / "blobs" / (sha256(self.data) + ".banyan-incomplete")
        deadline = time.monotonic() + 120
        while not (partial.exists() and partial.stat().st_size > len(self.data) and
                   partial.read_bytes()[len(self.data):len(self.data) + 1] == b"\1"):
            self.assertLess(time.monotonic(), deadline, "the first range is kept")
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.kill()
        process.communicate()
        stop.set()
        before = len(hub.requests("large"))
        self.run_banyan("model", "get", "org/model")
        again = [headers["Range"] for _, headers in hub.requests("large")[before:]]
        self.assertFalse([r for r in again if r.startswith("bytes=0-")], again)
        self.assert_cached(self.repository, ["m-Q8_0.gguf"])

    def test_connections_that_break_and_servers_that_fail_for_a_while(self):
        hub = self.hub({"org/model": self.repository})
        hub.once("list", lambda h, _: h.say(503))
        hub.once("list", lambda h, _: h.cut(b"{" * 1000, 10))
        hub.once("file", lambda h, _: h.say(500))
        hub.once("large", lambda h, _: h.cut(self.data, 100_000), times=4)
        hub.once("large", lambda h, _: h.say(502))
        hub.once("large", lambda h, _: h.say(429, {"Retry-After": "1"}))
        self.run_banyan("model", "get", "org/model")
        self.assert_cached(self.repository, ["m-Q8_0.gguf"])

    def test_a_server_without_ranges(self):
        hub = self.hub({"org/model": self.repository})
        hub.ranges = False
        self.run_banyan("model", "get", "org/model")
        self.assert_cached(self.repository, ["m-Q8_0.gguf"])

    def test_a_proxy_is_used(self):
        hub = self.hub({"org/model": self.repository})
        self.environment |= {"HF_ENDPOINT": "http://hub.invalid", "NO_PROXY": "", "http_proxy": hub.url, "HF_TOKEN": "hf_secret"}
        self.run_banyan("model", "get", "org/model")
        self.assert_cached(self.repository, ["m-Q8_0.gguf"])
        self.assertEqual({headers["Host"] for _, headers in hub.requests("file")}, {"hub.invalid"})
        self.assertFalse([headers for _, headers in hub.requests("large") if "Authorization" in headers])

    def test_a_slow_server_is_waited_for(self):
        hub = self.hub({"org/model": Repository({"m-Q8_0.gguf": self.tiny})})

        def slowly(handler, path):
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(self.tiny)))
            handler.end_headers()
            for i in range(0, len(self.tiny), 1 + len(self.tiny) // 8):
                handler.wfile.write(self.tiny[i:i + 1 + len(self.tiny) // 8])
                handler.wfile.flush()
                time.sleep(0.15)
        hub.once("large", slowly)
        self.run_banyan("model", "get", "org/model")
        self.assert_cached(hub.repositories["org/model"], ["m-Q8_0.gguf"])

    def test_two_downloads_of_one_file_wait_for_one_another(self):
        hub = self.hub({"org/model": self.repository})
        locks = self.cache / ".locks" / "models--org--model"
        locks.mkdir(parents=True)
        with open(locks / (sha256(self.data) + ".lock"), "w") as lock:  # as huggingface_hub's filelock holds it
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start("model", "get", "org/model")
            line = process.stderr.readline()
            while "waiting" not in line:
                self.assertTrue(line, "it says that it waits")
                line = process.stderr.readline()
            self.assertEqual(hub.counts["large"], 0)
            blob = self.repository_folder() / "blobs" / sha256(self.data)
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(self.data)  # the other one is done
        process.communicate(timeout=280)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(hub.counts["large"], 0)
        self.assert_cached(self.repository, ["m-Q8_0.gguf"])

    def test_ctrl_c_ends_it_and_leaves_what_came(self):
        hub = self.hub({"org/model": self.repository})
        stop = threading.Event()
        self.addCleanup(stop.set)
        hub.always("large", lambda handler, path: stop.wait(200))
        process = self.start("model", "get", "org/model")
        deadline = time.monotonic() + 120
        while not hub.requests("large"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual([b for b in self.blobs() if "banyan" not in b], [])


class Refusing(HubTest):
    def setUp(self):
        super().setUp()
        self.repository = Repository({"m-Q8_0.gguf": self.tiny, "README.md": CARD})

    def test_wrong_bytes_are_thrown_away(self):
        hub = self.hub({"org/model": self.repository})
        wrong = bytes(len(self.tiny))
        hub.once("large", lambda h, _: h.send_bytes(wrong, {}))
        self.refused("expected SHA-256 " + sha256(self.tiny), "found " + sha256(wrong), "thrown away")
        self.assertFalse([blob for blob in self.blobs() if blob.startswith(sha256(self.tiny))])
        self.run_banyan("model", "get", "org/model")
        hub.repositories["org/small"] = self.repository
        hub.always("file", lambda h, path: h.send_bytes(b"x" * len(CARD), {}) if path.endswith("README.md") else h.say(500))
        self.refused("README.md: expected git's hash " + git_hash(CARD), name="org/small")

    def test_a_file_that_changed_meanwhile(self):
        hub = self.hub({"org/model": self.repository})
        place = {"X-Linked-Etag": '"' + "0" * 64 + '"', "Location": f"{hub.other_url}/large/{sha256(self.tiny)}"}
        hub.faults.append(lambda handler, where, path: where == "file" and path.endswith(".gguf") and
                          (handler.say(302, place) or True))
        self.refused("expected ETag", "not the file that was listed")

    def test_sizes_that_lie(self):
        for name, answer in (("more", lambda h, _: h.send_bytes(self.tiny + b"x", {})),
                             ("less", lambda h, _: h.send_bytes(self.tiny[:-1], {})),
                             ("past", lambda h, _: h.say(416))):
            with self.subTest(name):
                hub = self.hub({"org/model": self.repository})
                hub.always("large", answer)
                self.refused("m-Q8_0.gguf")

    def test_no_such_name_revision_or_file(self):
        self.hub({"org/model": self.repository})
        self.refused("org/nothing: there is no such public repository: check the name", "HF_TOKEN", name="org/nothing")
        self.refused("no such revision", name="org/model@v9")
        self.refused("no GGUF file 'other.gguf'", "Q8_0", name="org/model/other.gguf")

    def test_private_and_gated_ones_say_what_to_do_and_the_token_stays_with_the_hub(self):
        private = Repository({"m-Q8_0.gguf": self.tiny}, private=True)
        gated = Repository({"m-Q8_0.gguf": self.tiny}, {"license": "other", "license_name": "their terms",
                                                        "license_link": "https://example.org/terms"}, gated="manual")
        hub = self.hub({"org/model": private, "org/gated": gated}, token="hf_secret")
        self.refused("HF_TOKEN")
        self.refused("HF_TOKEN gives no access", HF_TOKEN="wrong")
        self.refused("agreement first", f"{hub.url}/org/gated", name="org/gated")
        self.run_banyan("model", "get", "org/model", HF_TOKEN=" hf_secret\n")
        home = self.folder / "home"
        home.mkdir()
        (home / "token").write_text("hf_secret\n")
        said = self.run_banyan("model", "get", "org/gated", HF_HOME=str(home)).stderr
        self.assertIn("licence: their terms, see https://example.org/terms", said)
        self.assertTrue(hub.requests("large"))
        for path, headers in hub.requests("large"):
            self.assertNotIn("Authorization", headers, "the token went to another host")
        self.assertTrue(any(h.get("Authorization") == "Bearer hf_secret" for _, h in hub.requests("file")))

    def test_too_many_requests(self):
        hub = self.hub({"org/model": self.repository})
        hub.always("list", lambda h, _: h.say(429, {"Retry-After": "4000"}))
        self.refused("asks to wait 4000 s", "with HF_TOKEN it allows more")
        self.assertEqual(hub.counts["list"], 1)

    def test_a_server_that_keeps_failing(self):
        hub = self.hub({"org/model": self.repository})
        hub.always("list", lambda h, _: h.say(500))
        self.refused("answers 500", "try again later")
        self.assertEqual(hub.counts["list"], 3)

    def test_endless_and_unsafe_redirects(self):
        hub = self.hub({"org/model": self.repository})
        hub.always("file", lambda h, path: h.say(302, {"Location": path + "?again"}))
        self.refused("more than 8 redirects")
        self.assertLess(hub.counts["file"], 100)
        for place in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"):
            hub = self.hub({"org/model": self.repository})
            hub.always("file", lambda h, path: h.say(302, {"Location": place}))
            self.refused("not safe")

    def test_hostile_lists_of_files(self):
        good = self.repository.listing()

        def entry(**changes):
            return {**good["siblings"][0], **changes}
        lists = {
            "up": {**good, "siblings": [entry(rfilename="../../evil.gguf")]},
            "root": {**good, "siblings": [entry(rfilename="/etc/evil.gguf")]},
            "inner": {**good, "siblings": [entry(rfilename="a/../../b.gguf")]},
            "zero": {**good, "siblings": [entry(rfilename="a\0b.gguf")]},
            "etag": {**good, "siblings": [entry(lfs={"sha256": "../../../evil", "size": 5})]},
            "blob": {**good, "siblings": [{"rfilename": "a.json", "size": 5, "blobId": "../x"}]},
            "minus": {**good, "siblings": [entry(size=-5)]},
            "huge": {**good, "siblings": [entry(size=2**60)]},
            "twice": {**good, "siblings": [entry(), entry()]},
            "commit": {**good, "sha": "../../evil"},
            "none": {"sha": good["sha"]},
            "list": [1, 2],
            "words": {**good, "siblings": [entry(rfilename=5)]},
        }
        for name, answer in lists.items():
            with self.subTest(name):
                hub = self.hub({"org/model": self.repository})
                hub.always("list", lambda h, _: h.say(200, {}, json.dumps(answer).encode()))
                self.refused("list of files")
                self.assertEqual(hub.counts["file"], 0)
        self.assertFalse(list(self.folder.rglob("*evil*")))

    def test_a_million_files(self):
        hub = self.hub({"org/model": self.repository})
        row = b'{"rfilename":"f%07d.txt","size":1,"blobId":"' + b"0" * 40 + b'"},'
        text = b'{"sha":"' + b"1" * 40 + b'","siblings":[' + b"".join(row % i for i in range(1_000_000))
        hub.always("list", lambda h, _: h.say(200, {}, text))
        self.refused("no repository of a model")

    def test_a_full_disk_is_seen_before_a_byte_is_fetched(self):
        listing = self.repository.listing()
        listing["siblings"][0]["lfs"]["size"] = listing["siblings"][0]["size"] = 1 << 45
        hub = self.hub({"org/model": self.repository})
        hub.always("list", lambda h, _: h.say(200, {}, json.dumps(listing).encode()))
        self.refused("the disk has", "HF_HUB_CACHE", name="org/model:Q8_0")
        self.refused("none fits this machine's", "Q8_0")
        self.assertEqual(hub.counts["file"], 0)

    def test_offline_and_nobody_there(self):
        self.refused("HF_HUB_OFFLINE", HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9")
        self.refused("127.0.0.1:9", HF_ENDPOINT="http://127.0.0.1:9")
        self.refused("HF_ENDPOINT: expected https://HOST", code=2, HF_ENDPOINT="hub.example")

    def test_a_certificate_that_does_not_match(self):
        openssl = shutil.which("openssl")
        if not openssl:
            self.skipTest("needs openssl to make a certificate")
        both = self.folder / "both.pem"
        subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.folder / "key.pem", "-out",
                        self.folder / "cert.pem", "-days", "30", "-subj", "/CN=another.example", "-addext",
                        "subjectAltName=DNS:another.example"], check=True, capture_output=True)
        both.write_bytes((self.folder / "key.pem").read_bytes() + (self.folder / "cert.pem").read_bytes())
        hub = self.hub({"org/model": self.repository}, certificate=str(both), token="hf_secret")
        for variables in ({}, {"SSL_CERT_FILE": str(self.folder / "cert.pem")}):  # not trusted; trusted for another name
            self.refused("certificate", "nothing was sent", HF_TOKEN="hf_secret", **variables)
        self.assertFalse(hub.counts)


def built_with_downloads() -> bool:
    words = subprocess.run([BANYAN, "model", "get", "org/model"], capture_output=True, text=True,
                           env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}).stderr
    return "built without downloads" not in words and "downloads need libcurl" not in words


if __name__ == "__main__":
    if not built_with_downloads():
        print("skipped: models of the hub by name (libcurl4-openssl-dev)")
        sys.exit(77)
    unittest.main()
