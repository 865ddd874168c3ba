"""`banyan kv` and --kv-store as people use them: the program on files, with the standard library around it.

REQUIRES: BANYAN and MAKE_TINY_MODEL in the environment.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import file_permissions

BANYAN = os.environ["BANYAN"]
ANSWER = ["--max-new", "4", "--threads", "1", "--ordered"]


class Store(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="banyan-kv-")
        cls.root = pathlib.Path(cls.folder.name)
        cls.model = str(cls.root / "model.gguf")
        subprocess.run([os.environ["MAKE_TINY_MODEL"], cls.model, "1024", "1"], check=True)
        cls.docs = cls.root / "docs.jsonl"
        rows = [{"id": f"d{i}", "context": f"Text {i}. " + "The ferry leaves. " * (5 + 3 * i),
                 "questions": ["What?", "Why is that so?"]} for i in range(6)]
        cls.docs.write_text("".join(json.dumps(row) + "\n" for row in rows))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.store = self.root / "store"
        shutil.rmtree(self.store, ignore_errors=True)

    def run_banyan(self, *words, code=0):
        result = subprocess.run([BANYAN, *map(str, words)], capture_output=True, text=True, timeout=250)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def add(self, *more, code=0):
        return self.run_banyan("kv", "add", self.store, self.docs, "-m", self.model, "--threads", "1", *more, code=code)

    def ask(self, *more, code=0):
        """Its rows, and its receipt."""
        receipt = self.root / "receipt.json"
        rows = self.run_banyan("ask", "-m", self.model, self.docs, *ANSWER, "--quiet", "--overwrite", "--receipt", receipt, *more,
                               code=code).stdout
        return rows, json.loads(receipt.read_text())

    def segments(self):
        lines = self.run_banyan("kv", "ls", self.store, "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def test_ask_loads_what_add_computed_and_answers_the_same(self):
        said = self.add().stderr
        self.assertIn("added 6 documents (0 were there, 0 failed)", said)
        self.assertIn("added 0 documents (6 were there, 0 failed): 0 tokens", self.add().stderr)
        fresh, before = self.ask()
        stored, after = self.ask("--kv-store", self.store)
        self.assertEqual(fresh, stored)
        self.assertGreater(after["loaded_tokens"], 0.8 * before["prefilled_tokens"] - 200)
        self.assertEqual(after["loaded_tokens"] + after["prefilled_tokens"] + after["copied_tokens"],
                         before["prefilled_tokens"] + before["copied_tokens"])
        labels = {segment["label"] for segment in self.segments()}
        self.assertLessEqual({f"d{i}" for i in range(6)}, labels | {"instruction"})

    def test_ask_saves_when_told_and_only_then(self):
        self.run_banyan("ask", "-m", self.model, self.docs, "--kv-store", self.store, code=2)
        rows, receipt = self.ask("--kv-store", self.store, "--kv-save")
        self.assertGreater(receipt["saved_tokens"], 0)
        self.assertEqual(rows, self.ask("--kv-store", self.store)[0])
        self.assertEqual(self.ask("--kv-store", self.store)[1]["loaded_tokens"], receipt["saved_tokens"])

    def test_another_instruction_or_model_is_a_miss(self):
        self.add()
        rows, receipt = self.ask("--kv-store", self.store, "--instruction", "Say no.")
        self.assertEqual(receipt["loaded_tokens"], 0)
        self.assertEqual(rows, self.ask("--instruction", "Say no.")[0])
        rows, receipt = self.ask("--kv-store", self.store, "--kv-type", "bf16")
        self.assertEqual(receipt["loaded_tokens"], 0)

    def test_damage_is_found_and_never_answered_from(self):
        self.add()
        fresh = self.ask()[0]
        files = sorted((self.store / "segments").rglob("*.kv"))
        for path in files:
            data = bytearray(path.read_bytes())
            data[-5] ^= 4
            path.write_bytes(data)
        result = self.run_banyan("kv", "verify", self.store, code=1)
        self.assertEqual(len(result.stdout.splitlines()), len(files))
        rows, receipt = self.ask("--kv-store", self.store)
        self.assertEqual(rows, fresh)
        self.assertGreater(receipt["damaged_segments"], 0)
        self.run_banyan("kv", "verify", self.store, "--remove")
        self.assertEqual(self.segments(), [])

    def test_garbage_as_index_is_made_anew(self):
        self.add()
        count = len(self.segments())
        (self.store / "index.sqlite").write_bytes(b"x" * 5000)
        for name in ("index.sqlite-wal", "index.sqlite-shm"):
            (self.store / name).unlink(missing_ok=True)
        self.run_banyan("kv", "ls", self.store, code=2)
        fresh = self.ask()[0]
        self.assertEqual(self.ask("--kv-store", self.store)[0], fresh)
        self.run_banyan("kv", "gc", self.store)
        self.assertEqual(self.ask("--kv-store", self.store)[0], fresh)
        self.assertIn("6 were there", self.add().stderr)
        self.assertEqual(len(self.segments()), count)

    def test_pins_limits_and_removal(self):
        self.add()
        segments = self.segments()
        pinned = segments[-1]["id"]
        self.run_banyan("kv", "pin", self.store, pinned)
        self.run_banyan("kv", "gc", self.store, "--limit", "1K")
        self.assertEqual([s["id"] for s in self.segments()], [pinned])
        said = self.add(code=2).stderr
        self.assertIn("the store is full", said)
        self.run_banyan("kv", "unpin", self.store, pinned)
        self.run_banyan("kv", "rm", self.store, pinned[:6])
        self.assertEqual(self.segments(), [])
        self.run_banyan("kv", "rm", self.store, pinned, code=2)

    def test_eight_bits_say_what_they_lost(self):
        said = self.add("--kv-bits", "8").stderr
        self.assertIn("8 bits lost", said)
        self.assertEqual(self.ask("--kv-store", self.store)[1]["loaded_tokens"], 0)
        self.assertGreater(self.ask("--kv-store", self.store, "--kv-bits", "8")[1]["loaded_tokens"], 0)
        for segment in self.segments():
            self.assertFalse(segment["exact"])
            self.assertLess(segment["key_loss"], 0.02)

    def test_export_agrees_with_the_documented_layout(self):
        self.add()
        segment = max(self.segments(), key=lambda s: s["tokens"])
        out = self.root / "out.safetensors"
        self.run_banyan("kv", "export", self.store, segment["id"], "-o", out)
        about = json.loads(self.run_banyan("kv", "show", self.store, segment["id"]).stdout)
        data = out.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        tensors = json.loads(data[8:8 + length])
        keys = tensors["layers.0.keys"]
        self.assertEqual(keys["shape"], [about["tokens"], about["kv_heads"], about["head_dim"]])
        # The file itself, by docs/kv-store.md: token 17 of layer 0, head 0, value 3.
        raw = (self.store / about["file"]).read_bytes()
        self.assertEqual(raw[:8], b"BANYANKV")
        header = struct.unpack("<I", raw[12:16])[0]
        dim, heads = about["head_dim"], about["kv_heads"]
        head_bytes = (dim * 16 + (dim + 15) // 16 * 256) * 2
        head_bytes = (head_bytes + 63) // 64 * 64
        page = header + heads * head_bytes  # the second page of layer 0
        in_file = raw[page + (3 * 16 + 1) * 2:][:2]
        begin = 8 + length + keys["data_offsets"][0] + (17 * heads * dim + 3) * 2
        self.assertEqual(in_file, data[begin:begin + 2])

    def test_rag_reads_documents_from_the_store(self):
        rows = [{"id": i, "question": "What is it?",
                 "documents": [{"id": f"p{k}", "text": f"Passage {k}. " + "It is a boat. " * (4 + k)} for k in range(4)]}
                for i in range(2)]
        path = self.root / "rag.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.run_banyan("kv", "add", self.store, path, "--for", "rag", "-m", self.model)
        receipt = self.root / "receipt.json"

        def rag(*more):
            text = self.run_banyan("rag", path, "-m", self.model, "--ordered", "--max-new", "3", "--quiet", "--overwrite", "--receipt",
                                   receipt, *more).stdout
            found = [json.loads(line) for line in text.splitlines()]
            for row in found:
                del row["first_token_seconds"], row["seconds"]
            return found, json.loads(receipt.read_text())

        fresh, _ = rag()
        stored, after = rag("--kv-store", self.store)
        self.assertEqual(fresh, stored)
        self.assertGreater(after["loaded_tokens"], 0)

    def test_two_writers(self):
        self.add()
        with open(self.store / "lock", "a") as lock:
            import fcntl
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("another process writes", self.add(code=2).stderr)
            rows, receipt = self.ask("--kv-store", self.store, "--kv-save")
            self.assertGreater(receipt["loaded_tokens"], 0)

    def test_a_store_that_cannot_be_written(self):
        """It is read, and the notice says what the system said, not that another process writes."""
        file_permissions.skip_unless_they_hold(self.root, BANYAN)
        self.add()
        for path in (self.store / "segments", self.store / "lock", self.store):
            path.chmod(path.stat().st_mode & 0o555)
            self.addCleanup(path.chmod, path.stat().st_mode | 0o200)
        words = ["ask", "-m", self.model, self.docs, *ANSWER, "--kv-store", self.store, "--kv-save"]
        result = subprocess.run([BANYAN, *map(str, words)], capture_output=True, text=True, timeout=250, preexec_fn=file_permissions.obey)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, "store: cannot write to the store: Permission denied: nothing is saved")
        self.assertNotIn("another process", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
