"""One reader of rows: a job in blocks, as Ray runs it, has the rows of one machine for every kind of input."""
import gzip
import json
import unittest

import banyan
from banyan._ask import ask_task
from banyan._block_job import BlockWorker, plan, write_output
from banyan._columns import InputColumns
from banyan._records import read_rows
from support import PackageTest


class SameReader(PackageTest):
    def in_blocks(self, data, questions=None, fields=None) -> list[bytes]:
        """The rows of a job in blocks of few tokens, by one worker in this process."""
        columns = InputColumns("ask", fields)
        folder = self.path(f"job-{len(list(self.folder.iterdir()))}")
        options = {**ask_task(questions, {"max_new": 3}), "max_new": 3}
        job = plan("ask", data, folder, options, model=self.model_path, model_options={}, columns=columns, workers=2,
                   common=[questions] if questions else [], block_tokens=60)
        worker = BlockWorker(folder, {"model": self.model_path, "threads": 1}, "ask", options, {}, columns.fields)
        for number in range(len(job.manifest()["blocks"])):
            worker.work(number)
        worker.model.close()
        write_output(job, self.path("out.jsonl"))
        return (self.folder / "out.jsonl").read_bytes().splitlines()

    def check(self, name, text, *, fields=None, packed=False, questions="What?", code=None):
        path = self.folder / name
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(data) if packed else data)
        more = [part for ours, theirs in (fields or {}).items() for part in ("--field", f"{ours}={theirs}")]
        asked = ["-q", questions] if questions else []
        has_errors = b'"error":{' in (wanted := self.raw(str(path), "--max-new", 3, *asked, *more))
        self.assertEqual(self.in_blocks(str(path), questions, fields), wanted.splitlines(), name)
        return has_errors

    def raw(self, *arguments) -> bytes:
        import os
        import subprocess
        done = subprocess.run([os.environ["BANYAN"], "ask", "-m", self.model_path, "--threads", "1", "--ordered", "--quiet",
                               *map(str, arguments)], capture_output=True, timeout=300)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def test_csv(self):
        self.check("empty.csv", "id,context,instruction,note\n1,Anna steers.,,x\n2,Ivan steers.,Be brief.,\n,No id here.,,\n")
        self.assertTrue(self.check("ragged.csv", "id,context\n1,Anna\n2,Ivan,more\n3\n4,Eva\n"))
        self.check("semicolon.csv", "id;context\n1;Anna steers, slowly.\n2;\"Ivan; steers\"\n")
        self.check("lines.csv", 'id,context\n1,"two\nlines"\n2,b\n')
        self.check("long.csv", "id,context,note\n1,Anna," + "x" * 200_000 + "\n2,Ivan,y\n")
        self.check("bom.csv", b"\xef\xbb\xbfid,context\n1,Anna\n")
        self.check("tabs.tsv", "id\tcontext\n1\tAnna\n2\tIvan\n")
        self.check("named.csv", "key,body\na,Anna\nb,Ivan\n", fields={"id": "key", "context": "body"})
        self.check("choices.csv", 'id,context,question,choices\n1,Anna,Who?,"[""Anna"",""Ivan""]"\n2,Ivan,Who?,\n', questions=None)

    def test_csv_that_cannot_be_read_whole(self):
        self.assertTrue(self.check("quote.csv", 'id,context\n1,Anna\n2,"never closed\n3,Ivan\n'))
        self.assertTrue(self.check("bytes.csv", b"id,context\n1,Anna\n2,\xff\xfe\n3,Ivan\n"))

    def test_a_header_with_one_name_twice_is_refused_alike(self):
        path = self.folder / "twice.csv"
        path.write_text("id,context,context\n1,Anna,Ivan\n")
        wanted = self.raw(str(path), "-q", "What?").splitlines()
        self.assertEqual(self.in_blocks(str(path), "What?"), wanted)

    def test_json(self):
        rows = [{"id": 1, "context": "Anna"}, {"context": "Ivan", "n": 1.50, "big": 2**70}, {"id": "x", "text": "Eva"}]
        self.check("array.json", json.dumps(rows, indent=1))
        self.check("one.json", json.dumps(rows[0]))
        self.check("lines.json", "\n".join(map(json.dumps, rows)))
        self.assertTrue(self.check("open.json", json.dumps(rows)[:-1]))
        self.check("packed.jsonl.gz", "\n".join(map(json.dumps, rows)), packed=True)
        self.assertTrue(self.check("bad.jsonl", '{"id":1,"context":"a"}\nnot json\n[1]\n\n{"id":1,"context":"twice"}\n{"id":[2],"context":"b"}\n'))
        self.assertTrue(self.check("bytes.jsonl", b'{"id":1,"context":"a"}\n{"id":2,"context":"\xff"}\n'))

    def test_documents(self):
        self.check("notes.txt", "Anna steers the ferry.\n")
        self.check("page.html", "<html><body><p>Ivan steers.</p></body></html>")
        self.assertTrue(self.check("empty.txt", "   \n"))

    def test_rows_in_memory(self):
        rows = [{"id": 7, "context": "Anna"}, {"context": "Ivan", "when": float("nan")}, {"id": 7, "context": "again"}]
        wanted = banyan.ask(rows, "What?", model=self.model, max_new=3)
        self.assertEqual(self.in_blocks(rows, "What?"), wanted.lines)

    def test_a_field_with_our_name_that_is_another_one(self):
        self.check("both.jsonl", '{"id":1,"body":"Anna","context":"other","text":"third"}\n{"id":2,"text":"only"}\n',
                   fields={"context": "body"})

    def test_rows_say_where_they_are(self):
        path = self.write("a.jsonl", [{"context": "x"}, "broken"])
        rows = list(read_rows("ask", path, InputColumns("ask")))
        self.assertEqual([(row[0], row[1], row[3]) for row in rows], [(path, 1, False), (path, 2, True)])
        self.assertEqual(json.loads(rows[0][2]), {"id": 1, "context": "x"})


if __name__ == "__main__":
    unittest.main()
