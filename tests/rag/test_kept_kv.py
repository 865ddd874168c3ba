"""What a question computed of a small index is kept in the cache folder: the same answers with it, without it, and where it
is damaged, cannot be written or is used by several at once."""
import contextlib
import json
import os
import sqlite3
import stat
import subprocess
import unittest

from harness import BANYAN, MODEL, RagTest, file_permissions, timeless

QUESTION = "Which secret code does the yacht Tervonax have?"
NOTES = {"yacht": "The secret code of the yacht Tervonax is KT-4821.",
         "harbour": "The ferry Marigold leaves at 7:45. Some buttons were sold in the square.",
         "market": "On Sunday the market sells mushrooms and gloves. The secret code of the locker Froayist is F4288."}


class KeptKv(RagTest):
    def setUp(self):
        super().setUp()
        for name, text in NOTES.items():
            self.write(f"notes/{name}.txt", text)
        self.run_banyan("rag", "index", "notes")
        self.cache = self.folder / "cache"
        self.kept = self.cache / "kv"

    def command(self, *more):
        return [BANYAN, "rag", "-m", MODEL, QUESTION, "--json", *more]

    def environment(self, cache=None):
        return dict(os.environ, BANYAN_CACHE=str(cache or self.cache))

    def ask(self, *more, cache=None, **process):
        done = subprocess.run(self.command(*more), capture_output=True, text=True, timeout=800, cwd=self.folder,
                              env=self.environment(cache), **process)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return timeless(json.loads(done.stdout))

    def segments(self):
        lines = self.run_banyan("kv", "ls", self.kept, "--json").stdout.splitlines()
        return {row["id"]: row for row in map(json.loads, lines)}

    def limit(self):
        with contextlib.closing(sqlite3.connect(self.kept / "index.sqlite")) as index:
            [[limit]] = index.execute("SELECT value FROM setting WHERE name = 'limit'").fetchall()
        return int(limit)

    def test_the_same_row_with_it_and_without_it(self):
        expected = self.ask("--kv-store", "none")
        self.assertEqual(expected["answer"], "KT-4821")
        self.assertFalse(self.kept.exists())
        self.assertEqual(self.ask(), expected)
        kept = self.segments()
        self.assertGreaterEqual(len(kept), len(NOTES))
        self.assertEqual(stat.S_IMODE(self.kept.stat().st_mode), 0o700)
        self.assertLessEqual(self.limit(), 1 << 30)
        self.assertEqual(self.ask(), expected)
        self.assertEqual(self.ask("--strategy", "flat", "--threads", "1"), expected)
        self.assertEqual(set(self.segments()), set(kept))  # all was there

    def test_what_is_damaged_is_computed_again(self):
        expected = self.ask()
        for file in self.kept.glob("segments/*/*.kv"):
            content = bytearray(file.read_bytes())
            content[-200] ^= 0xff  # of the last block
            file.write_bytes(content)
        self.assertEqual(self.ask(), expected)
        self.assertEqual(self.ask(), expected)
        self.run_banyan("kv", "verify", self.kept)
        (self.kept / "index.sqlite").write_bytes(b"no database")
        self.assertEqual(self.ask(), expected)

    def test_a_cache_that_cannot_be_written_is_no_error(self):
        expected = self.ask("--kv-store", "none")
        self.write("file", "no folder")
        self.assertEqual(self.ask(cache=self.path("file")), expected)
        file_permissions.skip_unless_they_hold(str(self.folder), BANYAN)
        self.cache.mkdir(exist_ok=True)
        for name in (self.cache, *(p for p in self.cache.rglob("*") if p.is_dir())):
            name.chmod(0o500)
        try:
            self.assertEqual(self.ask(preexec_fn=file_permissions.obey), expected)
            self.assertFalse(self.kept.exists())
        finally:
            self.cache.chmod(0o700)

    def test_several_at_once(self):
        expected = self.ask("--kv-store", "none")
        running = [subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                    env=self.environment()) for _ in range(4)]
        for process in running:
            out, errors = process.communicate(timeout=800)
            self.assertEqual((process.returncode, errors), (0, ""))
            self.assertEqual(timeless(json.loads(out)), expected)
        self.run_banyan("kv", "verify", self.kept)

    def test_large_indexes_and_jobs_keep_nothing(self):
        for number in range(62):
            self.write(f"notes/more{number}.txt", f"Note {number} has nothing to say.")
        self.run_banyan("rag", "index")
        self.ask("--top", "3")
        self.rag(self.write("in.jsonl", [{"id": 1, "question": QUESTION, "documents": [{"id": "a", "text": NOTES["yacht"]}]}]))
        self.assertFalse(self.kept.exists())


if __name__ == "__main__":
    unittest.main()
