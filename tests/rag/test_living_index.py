"""An index that is kept up to date, and one that is killed while it is."""
import json
import os
import signal
import subprocess
import time
import unittest

from harness import BANYAN, MODEL, RagTest, file_permissions


class LivingIndex(RagTest):
    def index(self, *arguments, code=0):
        return self.run_banyan("rag", "index", *arguments, code=code).stderr

    def fingerprint(self, folder=".banyan-index"):
        with open(self.path(f"{folder}/index.banyan"), "rb") as file:
            return file.read()

    def notes(self):
        self.write("notes/a.txt", "The ferry Marigold leaves at 7:45.")
        self.write("notes/b.txt", "The secret code of the yacht Tervonax is KT-4821.")
        self.write("notes/rows.jsonl", [{"id": n, "text": f"Row number {n} is about buttons."} for n in range(5)])
        self.write("other/c.txt", "A list of boats.")

    def test_adds_replaces_drops_and_keeps(self):
        self.notes()
        self.assertIn(": 7 new: 7 documents in 7 passages", self.index("notes"))
        self.assertIn(": 7 kept: ", self.index("notes"))
        self.assertIn(": 1 new, 7 kept: 8 documents", self.index("other/c.txt"))  # an index of others is not replaced
        self.write("notes/a.txt", "The ferry Marigold leaves at 8:15.")
        os.remove(self.path("notes/b.txt"))
        self.write("notes/rows.jsonl", [{"id": n, "text": f"Row number {n} is about buttons."} for n in (0, 1, 2, 9)])
        self.write("notes/new.md", "# New\n\nThe pier is old.")
        self.assertIn(": 2 new, 1 changed, 3 gone, 4 kept: 7 documents", self.index("notes/"))
        # What grew is what is made at once, byte for byte.
        grown = self.fingerprint()
        self.index("fresh", "notes", "other/c.txt")
        self.assertEqual(sorted(self.texts(".banyan-index")), sorted(self.texts("fresh")))
        self.index(".banyan-index", "--new", "notes", "other/c.txt")
        self.assertEqual(self.fingerprint(), grown)
        # Without arguments: all that it was made of.
        os.remove(self.path("other/c.txt"))
        self.assertIn(": 1 gone, 6 kept: 6 documents", self.index())
        self.assertIn("no such file", self.index("absent.txt", code=2))

    def texts(self, folder):
        found = []
        for question in ("ferry", "yacht", "row buttons", "boats list", "pier"):
            run = self.run_banyan("rag", "search", "--index", folder, f"Where is the {question}?", "--json")
            found += [json.dumps([p["id"], p["score"]]) for p in json.loads(run.stdout)["passages"]]
        return found

    def test_keeps_its_options(self):
        self.write("notes/a.txt", "One two three four five six. Seven eight nine ten eleven twelve.")
        self.assertIn("1 document in 2 passages", self.index("notes", "--passage-words", "6"))
        self.write("notes/b.txt", "One two three four five six. Seven eight nine ten eleven twelve.")
        self.assertIn("2 documents in 4 passages", self.index("notes"))
        self.assertIn(": 2 kept: 2 documents in 2 passages", self.index("notes/b.txt", "--passage-words", "50"))

    def test_a_citation_of_a_file_that_changed(self):
        self.notes()
        self.index("notes")
        ask = ("rag", "-m", MODEL, "Which secret code does the yacht Tervonax have?")
        self.assertNotIn("since it was indexed", self.run_banyan(*ask).stderr)
        self.write("notes/b.txt", "The secret code of the yacht Tervonax is XX-1111.")
        self.assertIn("notes/b.txt has changed since it was indexed", self.run_banyan(*ask).stderr)
        os.remove(self.path("notes/b.txt"))
        run = self.run_banyan(*ask, "--json")
        self.assertEqual(json.loads(run.stdout)["stale"], [{"source": "notes/b.txt", "state": "gone"}])

    def test_whoever_uses_an_old_one_hears_of_it(self):
        self.notes()
        self.write("notes/blank.txt", " \n")  # nothing of it would be in the index
        self.index("notes", code=1)
        questions = self.write("q.jsonl", [{"id": 1, "question": "When does the ferry Marigold leave?"}])
        uses = (("rag", "search", "ferry"), ("rag", "-m", MODEL, "When does the ferry Marigold leave?"),
                ("rag", "-m", MODEL, questions, "--index", ".banyan-index"))
        for command in uses:
            self.assertNotIn("older than its documents", self.run_banyan(*command).stderr)
        self.write("notes/a.txt", "The ferry Marigold leaves at 8:15.")
        os.remove(self.path("notes/b.txt"))
        self.write("notes/new.md", "The pier is old.")
        for command in uses:
            self.assertIn(".banyan-index: the index is older than its documents: 1 changed, 1 gone, 1 new (notes/a.txt, "
                          "notes/b.txt, notes/new.md); answers come from what it has; 'banyan rag index .banyan-index' "
                          "brings it up to date", self.run_banyan(*command).stderr)
        self.index(".banyan-index", code=1)
        for command in uses:
            self.assertNotIn("older than its documents", self.run_banyan(*command).stderr)

    def test_what_cannot_be_read_is_named_and_stays(self):
        file_permissions.skip_unless_they_hold(self.folder, BANYAN)
        self.notes()
        self.write("notes/deep/d.txt", "A deep note.")
        self.index("notes")
        os.chmod(self.path("notes/deep"), 0)
        os.chmod(self.path("notes/a.txt"), 0)
        self.addCleanup(os.chmod, self.path("notes/deep"), 0o755)
        said = self.run_banyan("rag", "index", "notes", code=1, preexec_fn=file_permissions.obey).stderr
        self.assertIn("notes/deep: left out", said)
        self.assertIn("notes/a.txt: left out", said)
        self.assertIn(": 8 kept: 8 documents", said)

    def test_a_damaged_index_is_not_replaced_by_chance(self):
        self.notes()
        self.index("notes")
        with open(self.path(".banyan-index/index.banyan"), "r+b") as file:
            file.seek(100)
            file.write(b"damage")
        self.assertIn("--new", self.index("other/c.txt", code=2))
        self.assertIn(": 1 new: 1 document ", self.index("other/c.txt", "--new"))

    def test_killed_at_any_moment_it_is_the_old_or_the_new(self):
        rows = [{"id": n, "text": f"Row number {n} is about buttons " + "and boats " * 20} for n in range(3000)]
        self.write("rows.jsonl", rows[:1500])
        self.index("idx", "rows.jsonl", "--quiet")
        old = self.fingerprint("idx")
        self.write("rows.jsonl", rows)
        began = time.monotonic()
        self.index("whole", "rows.jsonl", "--quiet")
        seconds = time.monotonic() - began
        killed = 0
        for moment in range(12):  # from its start to a little after its end, if it is as quick as the whole
            process = subprocess.Popen([BANYAN, "rag", "index", "idx", "rows.jsonl", "--quiet"], cwd=self.folder)
            time.sleep(0.1 * moment * seconds)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            now = self.fingerprint("idx")
            self.run_banyan("rag", "search", "--index", "idx", "Which row is about boats?")
            if now != old:
                break
        self.assertGreater(killed, 0)
        self.assertIn("3 000 documents", self.index("idx", "rows.jsonl"))
        self.assertEqual(os.listdir(self.path("idx")), ["index.banyan"])  # nothing half written is left


if __name__ == "__main__":
    unittest.main(verbosity=2)
