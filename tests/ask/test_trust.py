"""The edges of what `ask` promises: which model, which file, which descriptor, whose rows."""
import csv
import gzip
import json
import os
import pathlib
import pty
import random
import shutil
import stat
import subprocess
import time
import unittest

from harness import BANYAN, AskTest, documents, same_rows, tiny_model

ANSWER = ["--max-new", "4", "--temperature", "1", "--quiet"]
ENTRY = 64  # bytes of a journal's entry


class Descriptors(AskTest):
    def closed(self, redirections, *arguments, stdin=None):
        command = self.command(*arguments)
        return subprocess.run(["sh", "-c", f'exec "$@" {redirections}', "sh", *command], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    def test_words_for_a_person_never_land_in_a_file(self):
        path = self.write("in.jsonl", documents(30))
        expected = same_rows(self.answers(path, *ANSWER))
        arguments = [path, "--max-new", "4", "--temperature", "1", "--checkpoint", "0", "--explain"]
        for i, closed in enumerate(("2>&-", "1>&- 2>&-", "0>&- 1>&- 2>&-", "0>&-", "1>&-")):
            name = f"closed{i}.jsonl"
            result = self.closed(closed, *arguments, "-o", self.path(name))
            self.assertEqual(result.returncode, 0, (closed, result.stderr))
            self.assertEqual(same_rows(self.rows(name)), expected, closed)
            self.ask(*arguments, "-o", self.path(name), "--resume", "--receipt", self.path(f"r{i}.json"))
            self.assertEqual(self.json(f"r{i}.json")["rows_this_run"], 0, closed)

    def test_closed_streams_that_are_needed_are_errors(self):
        path = self.write("in.jsonl", documents(2))
        result = self.closed("1>&-", path, *ANSWER)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"standard output", result.stderr)
        result = self.closed("0>&-", "-", *ANSWER, "-o", self.path("out.jsonl"))
        self.assertNotEqual(result.returncode, 0)


class Files(AskTest):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.jsonl", documents(3))
        self.questions = self.write("q.txt", "What?\nWhy?\n")
        self.instruction = self.write("instruction.txt", "Do it.")
        self.few_shot = self.write("shots.txt", "Q: a\nA: b\n")
        self.own_model = shutil.copy(self.model, self.path("model.gguf"))

    def refused(self, victim, *arguments):
        before = pathlib.Path(victim).read_bytes()
        result = self.ask(self.input, *ANSWER, "--questions", self.questions, "--instruction",
                          "@" + self.instruction, "--few-shot", self.few_shot, *arguments,
                          code=2, model=self.own_model)
        self.assertEqual(pathlib.Path(victim).read_bytes(), before)
        return result.stderr

    def test_what_is_read_is_never_written_to(self):
        for victim, word in ((self.own_model, "the model"), (self.questions, "--questions"),
                             (self.instruction, "--instruction"), (self.few_shot, "--few-shot"),
                             (self.input, "the input")):
            link, hard = self.path("link"), self.path("hard")
            os.symlink(victim, link)
            os.link(victim, hard)
            for name in (victim, link, hard):
                for more in ([], ["--overwrite"]):
                    self.assertIn(word, self.refused(victim, "-o", name, *more))
                    self.assertIn(word, self.refused(victim, "--receipt", name, "--overwrite", "-o",
                                                     self.path("out.jsonl")))
            os.rename(link, self.path("x.journal"))
            self.assertIn(word, self.refused(victim, "-o", self.path("x")))
            os.remove(self.path("x.journal"))
            os.remove(hard)

    def test_streams_are_files_too(self):
        with open(self.input, "ab") as out:
            result = subprocess.run(self.command(self.input, *ANSWER), stdout=out, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 2)
        with open(self.input, "rb") as file:
            result = subprocess.run(self.command("-", *ANSWER, "-o", self.input, "--overwrite"), stdin=file,
                                    stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(len(self.rows("in.jsonl")), 3)

    def test_receipts_write_over_nothing_unasked(self):
        out = self.path("out.jsonl")
        for name in (out, out + ".journal", self.path("./out.jsonl")):
            self.assertIn("receipt", self.ask(self.input, *ANSWER, "-o", out, "--receipt", name, code=2).stderr)
            self.assertFalse(os.path.exists(out))
        notes = self.write("notes.txt", "mine")
        self.assertIn("notes.txt", self.ask(self.input, *ANSWER, "--receipt", notes, code=2).stderr)
        self.assertEqual(self.bytes("notes.txt"), b"mine")
        self.ask(self.input, *ANSWER, "--receipt", notes, "--overwrite")
        self.assertIn("answers_hash", self.json("notes.txt"))

    def test_somebody_elses_file_is_not_overwritten(self):
        for name in ("out.jsonl", "out.csv", "out.jsonl.gz"):
            self.write(name, "somebody else's\n")
            for more in ([], ["--resume"]):
                said = self.ask(self.input, *ANSWER, "-o", self.path(name), *more, code=2).stderr
                self.assertIn("--overwrite", said)
                self.assertIn("another output", said)
                self.assertEqual(self.bytes(name), b"somebody else's\n")
            self.ask(self.input, *ANSWER, "-o", self.path(name), "--overwrite")
            self.assertNotIn(b"somebody", self.bytes(name))

    def test_a_pattern_does_not_match_the_output(self):
        os.mkdir(self.path("d"))
        shutil.copy(self.input, self.path("d/a.jsonl"))
        shutil.copy(self.input, self.path("d/b.jsonl"))
        expected = same_rows(self.answers(self.path("d/[ab].jsonl"), *ANSWER, code=1))
        out = self.path("d/out.jsonl")
        self.ask(self.path("d/*"), *ANSWER, "-o", out, code=1)
        self.assertEqual(same_rows(self.rows("d/out.jsonl")), expected)
        for _ in range(2):
            self.ask(self.path("d/*"), *ANSWER, "-o", out, "--resume", "--receipt", self.path("r.json"), code=1)
            self.assertEqual(self.json("r.json")["rows_this_run"], 0)

    def test_output_that_is_removed_while_it_is_written(self):
        for remove in (shutil.rmtree, lambda d: os.remove(d + "/out.jsonl"),
                       lambda d: os.remove(d + "/out.jsonl.journal"),
                       lambda d: os.replace(self.write("other", "other"), d + "/out.jsonl")):
            folder = self.path("removed")
            os.makedirs(folder, exist_ok=True)
            process = subprocess.Popen(
                self.command("-", *ANSWER, "-o", folder + "/out.jsonl", "--checkpoint", "0", "--overwrite"),
                stdin=subprocess.PIPE, stderr=subprocess.PIPE)
            lines = self.bytes("in.jsonl").splitlines(True)
            process.stdin.write(lines[0])
            process.stdin.flush()
            deadline = time.time() + 120
            while time.time() < deadline and not (os.path.exists(folder + "/out.jsonl") and
                                                  os.path.getsize(folder + "/out.jsonl") > 0):
                time.sleep(0.01)
            remove(folder)
            said = process.communicate(b"".join(lines[1:]), timeout=120)[1].decode()
            self.assertEqual(process.returncode, 2, said)
            self.assertIn("removed or replaced", said)
            shutil.rmtree(folder, ignore_errors=True)

    def test_retrying_errors_keeps_permissions_and_links(self):
        docs = documents(6)
        docs[2]["questions"] = [{"id": "bad"}, "Good?"]
        path = self.write("mixed.jsonl", docs)
        real, link = self.path("real.jsonl"), self.path("link.jsonl")
        pathlib.Path(real).touch(0o600)
        os.chmod(real, 0o600)
        os.symlink("real.jsonl", link)
        victim = self.write("victim", "precious")
        self.ask(path, *ANSWER, "-o", link, code=1)
        before = same_rows(self.rows("real.jsonl"))
        for name in (real + ".replacement", link + ".replacement", link + ".journal.new"):
            os.symlink(victim, name)
        owner = os.stat(real)
        self.ask(path, *ANSWER, "-o", link, "--resume", "--retry-errors", code=1)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(stat.S_IMODE(os.stat(real).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(link + ".journal").st_mode), 0o600)
        self.assertEqual((os.stat(real).st_uid, os.stat(real).st_gid), (owner.st_uid, owner.st_gid))
        self.assertEqual(same_rows(self.rows("real.jsonl")), before)
        self.assertEqual(self.bytes("victim"), b"precious")


class SameModel(AskTest):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.jsonl", documents(4))
        self.whole = pathlib.Path(self.model).read_bytes()
        self.own = self.write("model.gguf", self.whole)
        self.out = self.path("out.jsonl")
        self.ask(self.input, *ANSWER, "-o", self.out, model=self.own)
        self.rows_before = self.bytes("out.jsonl")

    def changed(self, data):
        self.write("model.gguf", bytes(data))
        result = self.ask(self.input, *ANSWER, "-o", self.out, "--resume", code=2, model=self.own)
        self.assertEqual(self.bytes("out.jsonl"), self.rows_before)
        return result.stderr

    def test_every_flipped_bit_of_the_weights(self):
        generator = random.Random(5)
        tensors = len(self.whole) * 2 // 3  # the weights are the end of the file
        for _ in range(12):
            data = bytearray(self.whole)
            data[generator.randrange(tensors, len(data))] ^= 1 << generator.randrange(8)
            self.assertIn("model's weights", self.changed(data))

    def test_every_part_is_named(self):
        def replaced(old, new):
            self.assertEqual(len(old), len(new))
            self.assertIn(old, self.whole)
            return self.whole.replace(old, new, 1)

        self.assertIn("model's chat template",
                      self.changed(replaced(b"<|im_start|>assistant", b"<|im_start|>assistent")))
        self.assertIn("model's tokenizer", self.changed(replaced(b"Quest ion", b"Qu estion")))
        epsilon = b"layer_norm_rms_epsilon"
        at = self.whole.index(epsilon) + len(epsilon) + 4
        data = bytearray(self.whole)
        data[at + 1] ^= 1
        self.assertIn("model's config qwen3.attention.layer_norm_rms_epsilon", self.changed(data))
        at = self.whole.index(b"eos_token_id") + len(b"eos_token_id") + 4
        data = bytearray(self.whole)
        data[at] ^= 1
        self.assertIn("model's end tokens", self.changed(data))

    def test_the_same_bytes_elsewhere_are_the_same_model(self):
        moved = self.write("moved.gguf", self.whole)
        self.ask(self.input, *ANSWER, "-o", self.out, "--resume", model=moved)
        os.utime(self.own, (1, 1))
        self.ask(self.input, *ANSWER, "-o", self.out, "--resume", model=self.own)


class Edited(AskTest):
    """An output or a journal that is not what it was."""

    def setUp(self):
        super().setUp()
        docs = documents(40)
        docs[7] = b"not JSON\n"
        self.input = self.write("in.jsonl", docs)
        self.arguments = [self.input, *ANSWER, "--checkpoint", "0"]

    def finished(self, name, *more):
        self.ask(*self.arguments, "-o", self.path(name), *more, code=1)
        return self.bytes(name), self.bytes(name + ".journal")

    def plain_rows(self, name):
        if name.endswith(".gz"):
            with gzip.open(self.path(name), "rt", encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        if name.endswith(".csv"):
            with open(self.path(name), newline="", encoding="utf-8") as file:
                return list(csv.reader(file))
        return self.rows(name)

    def test_edits_are_noticed_and_nothing_is_cut_unasked(self):
        for name in ("out.jsonl", "out.csv"):
            whole, journal = self.finished(name)
            expected = same_rows(self.plain_rows(name))
            lines = whole.splitlines(True)
            edits = {
                "a line deleted": b"".join(lines[:20] + lines[21:]),
                "the first line deleted": b"".join(lines[1:]),
                "a foreign row": b"".join(lines[:20] + [b'{"id":"foreign"}\n'] + lines[20:]),
                "garbage": whole[:500] + b"garbage" + whole[507:],
                "one letter": whole[:900] + bytes([whole[900] ^ 1]) + whole[901:],
                "two lines swapped": b"".join(lines[:5] + [lines[6], lines[5]] + lines[7:]),
            }
            for what, data in edits.items():
                for more in (["--resume"], []):
                    self.write(name, data)
                    self.write(name + ".journal", journal)
                    said = self.ask(*self.arguments, "-o", self.path(name), *more, code=2).stderr
                    self.assertIn("changed", said, what)
                    self.assertIn("--resume --overwrite", said)
                    self.assertIn("from byte", said)
                    self.assertEqual(self.bytes(name), data, what)
                self.ask(*self.arguments, "-o", self.path(name), "--resume", "--overwrite", code=1)
                self.assertEqual(same_rows(self.plain_rows(name)), expected, what)
                self.write(name, data)
                self.write(name + ".journal", journal)
                self.ask(*self.arguments, "-o", self.path(name), "--overwrite", code=1)
                self.assertEqual(same_rows(self.plain_rows(name)), expected, what)

    def test_edits_of_packed_outputs(self):
        whole, journal = self.finished("out.jsonl.gz")
        expected = same_rows(self.plain_rows("out.jsonl.gz"))
        middle = len(whole) // 2
        for data in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:],
                     gzip.compress(gzip.decompress(whole), 0)):
            self.write("out.jsonl.gz", data)
            self.write("out.jsonl.gz.journal", journal)
            self.assertIn("changed", self.ask(*self.arguments, "-o", self.path("out.jsonl.gz"), "--resume",
                                              code=2).stderr)
            self.assertEqual(self.bytes("out.jsonl.gz"), data)
            self.ask(*self.arguments, "-o", self.path("out.jsonl.gz"), "--resume", "--overwrite", code=1)
            self.assertEqual(same_rows(self.plain_rows("out.jsonl.gz")), expected)

    def test_what_is_cut_is_told(self):
        whole, _ = self.finished("out.jsonl")
        self.write("out.jsonl", whole + b'{"id":"more"}\n')
        said = self.ask(*self.arguments, "-o", self.path("out.jsonl"), code=2).stderr
        self.assertIn("last 14 bytes", said)
        said = self.ask(*self.arguments, "-o", self.path("out.jsonl"), "--resume", code=1).stderr
        self.assertIn("cut 14 bytes", said)
        self.assertEqual(self.bytes("out.jsonl"), whole)

    def test_entries_copied_over_others(self):
        whole, journal = self.finished("out.jsonl")
        expected = same_rows(self.plain_rows("out.jsonl"))
        count = (len(journal) - 200) // ENTRY
        generator = random.Random(2)
        for _ in range(25):
            source, target = (len(journal) - ENTRY * (1 + generator.randrange(count // 2)) for _ in range(2))
            data = bytearray(journal)
            data[target:target + ENTRY] = journal[source:source + ENTRY]
            self.write("out.jsonl", whole)
            self.write("out.jsonl.journal", bytes(data))
            self.ask(*self.arguments, "-o", self.path("out.jsonl"), "--resume", code=1)
            self.assertEqual(same_rows(self.plain_rows("out.jsonl")), expected)

    def test_no_usable_journal(self):
        whole, journal = self.finished("out.jsonl")
        damaged_header = bytearray(journal)
        damaged_header[20] ^= 1
        damaged_entry = bytearray(journal)
        length = int.from_bytes(journal[8:12], "little")
        damaged_entry[8 + 4 + length + 4 + 10] ^= 1
        for data in (None, b"", b"something else", bytes(damaged_header), bytes(damaged_entry), journal[:15]):
            for more in ([], ["--resume"]):
                self.write("out.jsonl", whole)
                if data is None:
                    if os.path.exists(self.path("out.jsonl.journal")):
                        os.remove(self.path("out.jsonl.journal"))
                else:
                    self.write("out.jsonl.journal", data)
                said = self.ask(*self.arguments, "-o", self.path("out.jsonl"), *more, code=2).stderr
                self.assertIn("journal", said)
                self.assertIn("--overwrite", said)
                self.assertIn("another output", said)
                self.assertEqual(self.bytes("out.jsonl"), whole)
                self.ask(*self.arguments, "-o", self.path("out.jsonl"), "--overwrite", *more, code=1)
                self.assertEqual(same_rows(self.rows("out.jsonl")), same_rows(map(json.loads, whole.splitlines())))

    def test_csv_has_its_header_once(self):
        for name in ("out.csv", "out.csv.gz"):
            whole, journal = self.finished(name)
            length = int.from_bytes(journal[8:12], "little")
            empty = journal[:8 + 4 + length + 4 + ENTRY]  # before the first commit of rows
            for output, notes in ((b"", journal), (b"", empty), (whole[:10], empty), (whole[:10], journal),
                                  (whole, empty[:-ENTRY])):
                self.write(name, output)
                self.write(name + ".journal", notes)
                self.ask(*self.arguments, "-o", self.path(name), "--resume", code=1)
                opened = gzip.open if name.endswith(".gz") else open
                with opened(self.path(name), "rt", newline="", encoding="utf-8") as file:
                    rows = list(csv.reader(file))
                self.assertEqual(rows[0][0], "id")
                self.assertEqual(sum(row[0] == "id" for row in rows), 1)
                self.assertEqual(len(rows), 1 + 39 * 2 + 1)


class Rows(AskTest):
    def test_tokens_that_the_tokenizer_does_not_have(self):
        model = tiny_model(1024, 2, padding=3000)
        path = self.write("in.jsonl", documents(8))
        out = self.path("out.jsonl")
        more = ["--token-ids", "--top-logprobs", "3", "--stop", "zzz"]
        self.ask(path, *ANSWER, *more, "-o", out, model=model)
        rows = self.rows("out.jsonl")
        self.assertTrue(any(token > 300 for row in rows for token in row["token_ids"]))
        self.assertEqual(len(rows), 16)
        self.ask(path, *ANSWER, *more, "-o", out, "--resume", model=model)

    def test_ids_are_kept_as_written(self):
        ids = ["18446744073709551616", "18446744073709551617", "-9223372036854775809", "7", "1.50", "1.5",
               "123456789012345678901234567890", "0.12345678901234567890123"]
        text = "".join('{"id":%s,"context":"c","big":%s,"questions":[{"id":%s,"question":"x"}]}\n' % (i, i, i)
                       for i in ids)
        out = self.path("out.jsonl")
        self.ask(self.write("in.jsonl", text), *ANSWER, "--ordered", "-o", out)
        lines = self.bytes("out.jsonl").decode().splitlines()
        for i, line in zip(ids, lines):
            self.assertTrue(line.startswith('{"id":%s,"question_id":%s,' % (i, i)), line)
            self.assertIn('"big":%s' % i, line)
        self.assertEqual(len(lines), len(ids))
        twice = self.answers(self.write("two.jsonl", text + text.splitlines()[0]), *ANSWER, code=1)
        self.assertEqual(sum("error" in row for row in twice), 1)
        self.ask(self.path("in.jsonl"), *ANSWER, "-o", self.path("out.csv"), "--ordered")
        with open(self.path("out.csv"), newline="", encoding="utf-8") as file:
            self.assertEqual([row["id"] for row in csv.DictReader(file)], ids)

    def test_sorted_otherwise_the_first_still_wins(self):
        docs = documents(6, 1)
        again = [dict(doc, context="Another text.") for doc in docs[:3]]
        path = self.write("in.jsonl", docs + again + [docs[5]])
        out = self.path("out.jsonl")
        self.ask(path, *ANSWER, "-o", out, code=1)
        before = self.bytes("out.jsonl")
        self.write("in.jsonl", [docs[5]] + list(reversed(again)) + list(reversed(docs)))
        self.ask(path, *ANSWER, "-o", out, "--resume", code=1)
        self.assertEqual(self.bytes("out.jsonl"), before)

    def test_csv_safe(self):
        docs = [{"id": i, "context": "c", "note": note, "questions": [{"id": "=1+1", "question": "x"}]}
                for i, note in enumerate(["=SUM(A1)", "@x", "+x", "-x", "\tx", "-12.5", "plain", "'=x"])]
        path = self.write("in.jsonl", docs)
        args = [path, *ANSWER, "--ordered", "--columns", "note"]
        notes = {}
        for name, more in (("safe.csv", ["--csv-safe"]), ("raw.csv", [])):
            self.ask(*args, "-o", self.path(name), *more)
            with open(self.path(name), newline="", encoding="utf-8") as file:
                notes[name] = [(row["note"], row["question_id"]) for row in csv.DictReader(file)]
        self.assertEqual([n for n, _ in notes["raw.csv"]], [d["note"] for d in docs])
        self.assertEqual([n for n, _ in notes["safe.csv"]],
                         ["'=SUM(A1)", "'@x", "'+x", "'-x", "'\tx", "-12.5", "plain", "'=x"])
        self.assertTrue(all(q == "'=1+1" for _, q in notes["safe.csv"]))
        self.assertIn("--csv-safe", self.ask(*args, "-o", self.path("safe.csv"), "--resume", code=2).stderr)


class Terminal(AskTest):
    def on_terminal(self, command):
        """What a terminal gets."""
        parent, child = pty.openpty()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=child, stderr=child,
                                   env={**os.environ, "NO_COLOR": "1"})
        os.close(child)
        said = b""
        while True:
            try:
                part = os.read(parent, 4096)
            except OSError:
                break
            if not part:
                break
            said += part
        process.wait(timeout=60)
        os.close(parent)
        return said

    def test_control_characters_are_shown_not_obeyed(self):
        evil = "\x1b]0;owned\x07\x9b31m"
        path = self.write("in.jsonl", [{"id": evil, "context": evil, "questions": [{"id": 1, "question": evil}]}])
        named = self.write("name\x1b[31m.jsonl", "no rows\n")
        model = self.write("model.gguf", pathlib.Path(self.model).read_bytes().replace(
            b"qwen3", b"qw\x1b[3"))
        for command in (self.command(path, *ANSWER), self.command(path, *ANSWER, "--output-format", "jsonl"),
                        self.command(named, *ANSWER), self.command(path, *ANSWER, "-o", "no\x1b[31m/such/out"),
                        self.command(path, "--bad\x1b[31m"), [BANYAN, "model", "show", model],
                        self.command(path, *ANSWER, "--output-format", "csv")):
            said = self.on_terminal(command)
            self.assertGreater(len(said), 0)
            self.assertNotIn(b"\x1b[3", said)
            self.assertNotIn(b"\x1b]", said)
            self.assertNotIn(b"\xc2\x9b", said)
        plain = self.ask(path, *ANSWER).stdout.decode()
        self.assertEqual(json.loads(plain)["id"], evil)


if __name__ == "__main__":
    unittest.main(verbosity=2)
