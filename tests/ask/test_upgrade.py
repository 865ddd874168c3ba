"""Files of version 0.1.0 are read, or refused with a sentence: its journals had no hash of the input and fewer
parameters, its indexes another version. Its KV stores have the form of today's; the names in them are of another
arithmetic, so that nobody finds them."""
import hashlib
import json
import pathlib
import sqlite3
import struct
import subprocess
import unittest

from harness import BANYAN, AskTest, documents, same_rows, tiny_model

ANSWER = ["--ordered", "--max-new", "6", "--temperature", "1", "--quiet"]
MAGIC, ENTRY, COMMIT = b"BANYANJ2", 64, 2


def prefix(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"".join(parts)).digest()[:8], "little")


def rewritten(journal: bytes, header=lambda header: header, commit=lambda numbers: numbers) -> bytes:
    """A journal with another header, and other numbers in its commits, whose checks are right."""
    assert journal.startswith(MAGIC)
    length = struct.unpack_from("<I", journal, 8)[0]
    text = json.dumps(header(json.loads(journal[12:12 + length])), separators=(",", ":"), sort_keys=True).encode()
    made = MAGIC + struct.pack("<I", len(text)) + text + struct.pack("<I", prefix(text) & 0xffffffff)
    chain = prefix(MAGIC, text)
    for at in range(12 + length + 4, len(journal) - ENTRY + 1, ENTRY):
        kind, flags, unused, _, *numbers = struct.unpack_from("<BBHI7Q", journal, at)
        if kind == COMMIT:
            numbers = commit(numbers)
        entry = struct.pack("<BBHI7Q", kind, flags, unused, 0, *numbers)
        chain = prefix(struct.pack("<Q", chain), entry)
        made += entry[:4] + struct.pack("<I", chain & 0xffffffff) + entry[8:]
    return made


class Upgrade(AskTest):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.jsonl", documents(6, 2))
        self.output = self.path("out.jsonl")
        self.journal = pathlib.Path(self.output + ".journal")
        self.ask(self.input, *ANSWER, "-o", self.output)
        self.expected = same_rows(self.rows("out.jsonl"))

    def resume(self, code=0):
        return self.ask(self.input, *ANSWER, "-o", self.output, "--resume", code=code)

    def test_the_test_itself_writes_journals(self):
        self.assertEqual(rewritten(self.journal.read_bytes()), self.journal.read_bytes())

    def test_a_journal_without_the_hash_of_the_input(self):
        self.journal.write_bytes(rewritten(self.journal.read_bytes(), commit=lambda numbers: numbers[:4] + [0, 0, numbers[6]]))
        self.resume()
        self.assertEqual(same_rows(self.rows("out.jsonl")), self.expected)

    def test_a_journal_without_a_parameter_of_today(self):
        def without(header):
            del header["parameters"]["--choice-score"]
            return header
        before = pathlib.Path(self.output).read_bytes()
        self.journal.write_bytes(rewritten(self.journal.read_bytes(), header=without))
        self.assertIn("--choice-score", self.resume(code=2).stderr)
        self.assertEqual(pathlib.Path(self.output).read_bytes(), before)

    def test_a_journal_of_an_unknown_form(self):
        before = pathlib.Path(self.output).read_bytes()
        self.journal.write_bytes(b"BANYANJ1" + self.journal.read_bytes()[8:])
        self.assertIn("no journal of this version", self.resume(code=2).stderr)
        self.assertEqual(pathlib.Path(self.output).read_bytes(), before)

    def test_an_index_of_the_version_before(self):
        self.write("notes.txt", "Anna Walker steers the ferry Marigold.")
        index = self.path(".banyan-index")
        subprocess.run([BANYAN, "rag", "index", "notes.txt", "--quiet"], cwd=self.folder, check=True, timeout=60)
        found = [path for path in [pathlib.Path(index), *pathlib.Path(index).rglob("*")]
                 if path.is_file() and path.read_bytes().startswith(b"BANYANIX")]
        self.assertEqual(len(found), 1)
        old = bytearray(found[0].read_bytes())
        old[8:12] = struct.pack("<I", 2)  # what 0.1.0 wrote
        found[0].write_bytes(old)
        searched = subprocess.run([BANYAN, "rag", "search", "Marigold", "--index", index], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(searched.returncode, 0)
        self.assertRegex(searched.stderr, r"an index of version 2: expected \d+; make it again")


class Stores(AskTest):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.jsonl", documents(4, 1))
        self.store = pathlib.Path(self.path("store"))
        self.kv("add", self.store, self.input, "-m", self.model, "--threads", "1", "--quiet")
        self.segments = self.kv("ls", self.store, "--json").stdout.splitlines()
        self.assertGreater(len(self.segments), 0)

    def kv(self, *words, code=0):
        result = subprocess.run([BANYAN, "kv", *map(str, words)], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_names_that_nobody_looks_for(self):
        other = tiny_model(512, 1)
        expected = self.answers(self.input, *ANSWER, model=other)
        found = self.answers(self.input, *ANSWER, "--kv-store", self.store, "--receipt", self.path("r.json"), model=other)
        self.assertEqual(found, expected)
        self.assertEqual(self.json("r.json")["loaded_tokens"], 0)
        self.assertEqual(self.kv("ls", self.store, "--json").stdout.splitlines(), self.segments)
        self.kv("gc", self.store, "--limit", "1K")  # which gives their room back
        self.assertEqual(self.kv("ls", self.store, "--json").stdout, "")

    def test_an_index_of_another_version(self):
        with sqlite3.connect(self.store / "index.sqlite") as index:
            index.execute("PRAGMA user_version = 9")
        index.close()
        self.assertIn("version 9 of a store's index: expected 1", self.kv("ls", self.store, code=2).stderr)

    def test_segments_of_another_version(self):
        expected = self.answers(self.input, *ANSWER)
        for path in (self.store / "segments").rglob("*.kv"):
            with open(path, "r+b") as file:
                file.seek(8)
                file.write(struct.pack("<I", 9))
        self.assertIn("version 9: expected 1", self.kv("verify", self.store, code=1).stdout)
        self.assertEqual(self.answers(self.input, *ANSWER, "--kv-store", self.store), expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
