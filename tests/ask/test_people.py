"""`banyan ask` as a person meets it: own files, a terminal, a prompt, tables, messages."""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import BANYAN, AskTest, documents, tiny_model
from terminal import Terminal

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
READER = str(REPOSITORY / "models" / "banyan-reader-34m.gguf")
FERRY = "The ferry Marigold leaves at 7:45 every morning. Anna Walker steers the ferry Marigold. It has a red hull.\n"
WHO = "Who steers the ferry Marigold?"
WHEN = "When does the ferry Marigold leave?"
PHONE = "What is the phone number of Anna Walker?"


class People(AskTest):
    def setUp(self):
        super().setUp()
        self.environment = {k: v for k, v in os.environ.items() if k != "BANYAN_MODEL"}
        self.environment["XDG_STATE_HOME"] = self.path("state")
        self.environment["BANYAN_CACHE"] = self.path("cache")
        self.environment["BANYAN_OFFER"] = "no"  # of a better model
        self.report = self.write("report.txt", FERRY)

    def run_ask(self, *arguments, code=0, stdin=b""):
        """Without -m: the shipped model."""
        result = subprocess.run([BANYAN, "ask", *map(str, arguments)], input=stdin, capture_output=True,
                                timeout=300, env=self.environment, cwd=self.folder)
        self.assertEqual(result.returncode, code, result.stderr.decode(errors="replace"))
        result.stderr = result.stderr.decode(errors="replace")
        return result

    def rows_of(self, *arguments, code=0, stdin=b""):
        out = self.run_ask(*arguments, "--ordered", "--quiet", code=code, stdin=stdin).stdout
        return [json.loads(line) for line in out.decode().splitlines()]

    def terminal(self, *arguments):
        return Terminal([BANYAN, "ask", *map(str, arguments)], env=self.environment)

    def long_answer(self, *arguments):
        """A terminal whose answer takes many seconds, so that a key always comes before its end."""
        return self.terminal("-m", tiny_model(context=16384, layers=8), self.report, "--max-new", 15000, *arguments)


class FirstCommand(People):
    def test_a_file_and_questions(self):
        rows = self.rows_of("report.txt", WHO, WHEN)
        self.assertEqual([r["answer"] for r in rows], ["Anna Walker", "7:45"])
        self.assertEqual([r["question"] for r in rows], [WHO, WHEN])
        self.assertEqual([r["question_id"] for r in rows], [1, 2])
        self.assertEqual({r["id"] for r in rows}, {"report.txt"})

    def test_on_a_terminal_it_is_text_to_read(self):
        screen = self.terminal(self.report, WHO, PHONE, "-q", WHEN)
        self.assertEqual(screen.finish(), 0)
        sure = re.compile(r"  \(\d+ % sure\)$", re.M)
        self.assertEqual(len(sure.findall(screen.text())), 3)
        self.assertIn(f"{WHO}\n  Anna Walker\n\n{PHONE}\n  (the text does not say)\n\n{WHEN}\n  7:45\n",
                      sure.sub("", screen.text()))
        self.assertIn("3 answers in", screen.text())
        self.assertNotIn("{", screen.text())

    def test_answers_stream_in_order(self):
        # A random model writes to its limit: its answer comes piece by piece.
        screen = self.terminal("-m", self.model, self.report, "Tell me more?", "And then?", "--max-new", 200)
        first = screen.wait_for("Tell me more?\r\n  ")
        self.assertEqual(screen.finish(), 0)
        self.assertGreater(len(screen.seen), first + 200)
        self.assertLess(screen.text().index("Tell me more?"), screen.text().index("And then?"))
        rows = self.answers(self.report, "Tell me more?", "And then?", "--max-new", 200, "--ordered")
        shown = re.sub(r"\s+", " ", screen.text())
        for row in rows:
            words = row["answer"].split()
            self.assertIn(words[0], shown)

    def test_the_answers_are_those_of_rows(self):
        read = self.run_ask("report.txt", WHO, PHONE, WHEN, "--output-format", "text").stdout.decode()
        self.assertEqual(read.replace("\n\n", "\n").splitlines(),
                         [WHO, "  Anna Walker", PHONE, "  (the text does not say)", WHEN, "  7:45"])

    def test_piped_or_asked_for_it_is_jsonl(self):
        screen = self.terminal(self.report, WHO, "--output-format", "jsonl", "--quiet")
        self.assertEqual(screen.finish(), 0)
        self.assertEqual(json.loads(screen.text())["answer"], "Anna Walker")

    def test_the_model_of_the_environment(self):
        self.environment["BANYAN_MODEL"] = self.path("no-such.gguf")
        self.assertIn("no-such.gguf", self.run_ask("report.txt", WHO, code=2).stderr)
        self.environment["BANYAN_MODEL"] = READER
        self.assertEqual(self.rows_of("report.txt", WHO)[0]["answer"], "Anna Walker")

    def test_a_word_that_is_neither_file_nor_question(self):
        said = self.run_ask("report.txt", "Summary", code=2).stderr
        self.assertIn("Summary: no such input file", said)
        self.assertIn("-q", said)
        self.assertIn("reprot.txt: no such input file", self.run_ask("reprot.txt", WHO, code=2).stderr)
        self.assertEqual(len(self.rows_of("report.txt", "-q", "Summary")), 1)

    def test_no_question_and_no_terminal(self):
        said = self.run_ask("report.txt", code=2).stderr
        self.assertIn("expected a question", said)
        self.assertIn("banyan ask report.txt", said)

    def test_interrupt(self):
        screen = self.long_answer("-q", "More?")
        screen.wait_for("More?\r\n  ")
        before = screen.processor_seconds_now()
        screen.interrupt()
        self.assertEqual(screen.finish(), 130)
        self.assertLess(screen.processor_seconds - before, 2.0)


class Offer(People):
    """A better reader is offered once, to a person. A python3 that fails stands for no network."""

    def setUp(self):
        super().setUp()
        del self.environment["BANYAN_OFFER"]
        python = self.write("bin/python3", "#!/bin/sh\necho no network >&2\nexit 1\n")
        os.chmod(python, 0o755)
        self.environment["PATH"] = f"{self.path('bin')}:{os.environ['PATH']}"

    def write(self, name, rows):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        return super().write(name, rows)

    def test_no_is_kept(self):
        screen = self.terminal(self.report, WHO)
        screen.wait_for("[Y/n] ")
        self.assertIn("smollm2-135m-instruct: 93 MB, licence apache-2.0; 84 of 100 (76 to 90 %) everyday questions right, "
                      "shipped 68 of 100", screen.text().replace("\r\n", " "))
        screen.type("n\n")
        self.assertEqual(screen.finish(), 0)
        self.assertIn("'banyan model better' gets it", screen.text())
        self.assertIn("Anna Walker", screen.text())
        again = self.terminal(self.report, WHO)
        self.assertEqual(again.finish(), 0)
        self.assertNotIn("[Y/n]", again.text())

    def test_what_cannot_be_fetched_is_said_and_the_shipped_model_answers(self):
        screen = self.terminal(self.report, WHO)
        screen.wait_for("[Y/n] ")
        screen.type("y\n")
        self.assertEqual(screen.finish(), 0)
        self.assertIn("no network", screen.text())
        self.assertIn("The shipped model answers. A better one: 'banyan model better' gets it.", screen.text())
        self.assertIn("Anna Walker", screen.text())

    def test_a_bar_says_how_far_the_fetch_is(self):
        # It stands still at one half until the bar was seen.
        self.write("bin/python3", '#!/bin/sh\nhead -c 46435520 /dev/zero >"$TMPDIR/a.whl"\n'
                   f'while [ ! -e {self.path("seen")} ]; do sleep 0.1; done\necho no network >&2\nexit 1\n')
        os.chmod(self.path("bin/python3"), 0o755)
        screen = self.terminal(self.report, WHO)
        screen.wait_for("[Y/n] ")
        screen.type("y\n")
        screen.wait_for("[##########..........]  50 %  46.4 of 92.9 MB")
        self.write("seen", "")
        self.assertEqual(screen.finish(), 0)
        self.assertIn("Anna Walker", screen.text())

    def test_who_names_a_model_is_never_asked(self):
        self.environment["BANYAN_MODEL"] = READER
        screen = self.terminal(self.report, WHO)
        self.assertEqual(screen.finish(), 0)
        self.assertNotIn("[Y/n]", screen.text())
        self.assertIn("Anna Walker", screen.text())

    def test_a_pipe_is_never_asked(self):
        self.assertNotIn("[Y/n]", self.run_ask("report.txt", WHO, stdin=b"y\n").stderr)
        self.assertFalse(os.path.exists(self.path("cache/reader.txt")))


class Prompt(People):
    def test_questions_one_after_another(self):
        screen = self.terminal(self.report)
        at = screen.wait_for_prompt()
        self.assertIn("1 document read", screen.text())
        screen.type(WHO + "\n")
        at = screen.wait_for("Anna Walker", after=at)
        at = screen.wait_for_prompt(at)
        screen.type(PHONE + "\n")
        at = screen.wait_for("(the text does not say)", after=at)
        at = screen.wait_for_prompt(at)
        screen.type("\x1b[A\x1b[A\n")  # two questions up
        at = screen.wait_for("  Anna Walker", after=at)
        screen.wait_for_prompt(at)
        screen.type("/help\n")
        at = screen.wait_for("/quit or Ctrl-D", after=at)
        screen.type("/quit\n")
        self.assertEqual(screen.finish(), 0)

    def test_history_is_kept_and_private(self):
        for typed in (WHEN + "\n", "\x1b[A\n"):
            screen = self.terminal(self.report)
            at = screen.wait_for_prompt()
            screen.type(typed)
            at = screen.wait_for("  7:45", after=at)
            screen.wait_for_prompt(at)
            screen.type("\x04")
            self.assertEqual(screen.finish(), 0, screen.seen)
        kept = pathlib.Path(self.path("state")) / "banyan" / "questions"
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)

    def test_ctrl_c_stops_an_answer_and_not_the_prompt(self):
        screen = self.long_answer()
        at = screen.wait_for_prompt()
        screen.type("Tell me more?\n")
        at = screen.wait_for("\r\n  ", after=at)
        screen.interrupt()
        at = screen.wait_for("…", after=at)
        at = screen.wait_for_prompt(at)
        screen.type("half a ques")
        at = screen.wait_for("half a ques", after=at)
        screen.interrupt()
        screen.wait_for("\r\n? ", after=at)
        screen.type("/quit\n")
        self.assertEqual(screen.finish(), 0)

    def test_the_document_is_computed_once(self):
        # A text that takes long to read: a question costs a small part of that, the second one as the first.
        self.write("long.txt", "".join(f"Page {i} says nothing of use. " for i in range(100)) + FERRY)
        screen = self.terminal(self.path("long.txt"))
        at = screen.wait_for_prompt()
        reading = screen.processor_seconds_now()
        for question in (WHO, WHEN):
            before = screen.processor_seconds_now()
            screen.type(question + "\n")
            at = screen.wait_for("  ", after=at)
            at = screen.wait_for_prompt(at)
            self.assertLess(screen.processor_seconds_now() - before, reading / 2)
        screen.type("/quit\n")
        self.assertEqual(screen.finish(), 0)


class Files(People):
    def test_kinds_of_documents(self):
        self.write("a.md", "# Ferry\n\n" + FERRY)
        self.write("b.html", "<html><head><title>x</title><style>p{}</style></head><body><script>var Anna;</script>"
                   f"<p>{FERRY}</p><ul><li>one<li>two</ul></body></html>")
        self.write("noending", FERRY)
        for name in ("a.md", "b.html", "noending"):
            rows = self.rows_of(name, WHO)
            self.assertEqual([(r["id"], r["answer"]) for r in rows], [(name, "Anna Walker")])
        self.assertEqual(self.rows_of("-", WHO, stdin=FERRY.encode())[0]["answer"], "Anna Walker")
        shown = self.run_ask("b.html", WHO, "--show-prompt").stdout.decode()
        self.assertIn("- one\n- two", shown)
        self.assertNotIn("var Anna", shown)
        self.assertNotIn("p{}", shown)

    def test_pdf(self):
        stream = f"BT /F1 12 Tf 50 700 Td ({FERRY.split('.')[1].strip()}.) Tj ET".encode()
        parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
                 b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
                 b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
                 b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
        data, places = b"%PDF-1.4\n", []
        for number, part in enumerate(parts, 1):
            places.append(len(data))
            data += b"%d 0 obj%s endobj\n" % (number, part)
        data += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % p for p in places)
        data += b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % data.index(b"xref\n0")
        self.write("a.pdf", data)
        self.write("bad.pdf", b"%PDF-1.4\nnothing")
        if shutil.which("pdftotext") is None:
            self.assertIn("poppler-utils", self.rows_of("a.pdf", WHO, code=1)[0]["error"]["message"])
            return
        self.assertEqual(self.rows_of("a.pdf", WHO)[0]["answer"], "Anna Walker")
        self.assertIn("bad.pdf", self.rows_of("bad.pdf", WHO, code=1)[0]["error"]["message"])
        self.environment["PATH"] = "/nowhere"
        self.assertIn("poppler-utils", self.rows_of("a.pdf", WHO, code=1)[0]["error"]["message"])

    def test_folders(self):
        folder = pathlib.Path(self.path("docs"))
        (folder / "more").mkdir(parents=True)
        (folder / ".hidden").mkdir()
        for name in ("b.txt", "more/a.md", ".hidden/c.txt", "more/x.png", ".d.txt"):
            (folder / name).write_text(FERRY)
        (folder / "rows.jsonl").write_text(json.dumps({"context": FERRY}) + "\n")
        result = self.run_ask("docs", WHO, "--ordered", "-o", "docs/out.jsonl")
        self.assertIn("docs/more/x.png: left out: an image, which is not read here; convert it: tesseract", result.stderr)
        self.assertIn("docs/.d.txt, docs/.hidden: left out: hidden", result.stderr)
        rows = self.rows("docs/out.jsonl")
        self.assertEqual([r["id"] for r in rows], ["docs/b.txt", "docs/more/a.md", "docs/rows.jsonl:1"])
        self.assertEqual({r["answer"] for r in rows}, {"Anna Walker"})
        self.run_ask("docs", WHO, "--ordered", "-o", "docs/out.jsonl", "--resume")  # its output is no input
        self.assertEqual(len(self.rows("docs/out.jsonl")), 3)
        os.mkdir(self.path("empty"))
        self.assertIn("no file in this folder", self.run_ask("empty", WHO, code=2).stderr)

    def test_files_that_are_no_text(self):
        self.write("zero.txt", b"abc\0def")
        self.write("latin.txt", "Zürich".encode("latin-1"))
        self.write("wide.txt", "abc".encode("utf-16"))
        self.write("blank.txt", "  \n")
        for name, word in (("zero.txt", "zero bytes"), ("latin.txt", "--encoding"), ("wide.txt", "UTF-16"),
                           ("blank.txt", "no text")):
            row = self.rows_of(name, WHO, code=1)[0]
            self.assertEqual(row["id"], name)
            self.assertIn(word, row["error"]["message"])

    def test_foreign_formats_are_refused_with_advice(self):
        for name, word in (("a.parquet", "python3 -m banyan"), ("a.jsonl.bz2", "bunzip2"), ("a.csv.xz", "unxz"),
                           ("a.docx", "pandoc"), ("a.xlsx", "libreoffice")):
            self.write(name, "x")
            said = self.run_ask(name, WHO, code=2).stderr
            self.assertIn(name, said)
            self.assertIn(word, said)
        self.write("b", b"BZh91AY&SY....")
        self.assertIn("bunzip2", self.rows_of("b", WHO, code=1)[0]["error"]["message"])


class Tables(People):
    TEXT = [["id", "context", "note"], ["a", FERRY.strip(), "x;y"], ["b", 'A "quoted" text, with comma', "z"]]

    def table(self, name, delimiter):
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter).writerows(self.TEXT)
        return name

    def test_in(self):
        expected = None
        for name, delimiter in (("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t"), ("d.csv", "\t")):
            rows = self.rows_of(self.table(name, delimiter), WHO)
            self.assertEqual([(r["id"], r["note"]) for r in rows], [("a", "x;y"), ("b", "z")])
            expected = expected or rows
            self.assertEqual(rows, expected)
        self.table("bars.csv", "|")
        self.assertEqual(self.rows_of("bars.csv", WHO, "--delimiter", "|"), expected)
        self.assertIn("--delimiter", self.run_ask("bars.csv", WHO, "--delimiter", "::", code=2).stderr)

    def test_out(self):
        self.table("a.csv", ",")
        expected = self.rows_of("a.csv", WHO)
        for name, delimiter, more in (("o.csv", ",", []), ("o.tsv", "\t", []), ("p.csv", ";", ["--delimiter", ";"])):
            source = "a.csv" if delimiter != ";" else self.table("semicolons.csv", ";")
            self.run_ask(source, WHO, "--ordered", "-o", name, "--columns", "note", *more)
            with open(self.path(name), newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, delimiter=delimiter))
            self.assertEqual([(r["id"], r["question"], r["answer"], r["note"]) for r in rows],
                             [(r["id"], r["question"], r["answer"] or "", r["note"]) for r in expected])

    def test_markdown(self):
        self.write("in.jsonl", [{"id": "a|b", "context": FERRY, "questions": [WHO, PHONE]}, {"id": "c"}])
        self.run_ask("in.jsonl", "--ordered", "-o", "o.md", code=1)
        lines = self.bytes("o.md").decode().splitlines()
        self.assertEqual(lines[:2], ["| id | question | answer | error |", "|---|---|---|---|"])
        self.assertEqual(lines[2], f"| a\\|b | {WHO} | Anna Walker |  |")
        self.assertEqual(lines[3], f"| a\\|b | {PHONE} |  |  |")
        self.assertIn("context", lines[4])
        self.run_ask("in.jsonl", "--ordered", "-o", "o.md", "--resume", code=1)
        self.assertEqual(self.bytes("o.md").decode().splitlines(), lines)

    def test_a_header_without_the_column_stops_at_once(self):
        self.write("in.csv", "id,body\n1,x\n")
        said = self.run_ask("in.csv", WHO, "-o", "o.jsonl", code=2).stderr
        for word in ("in.csv", "'context'", "id, body", "--field context=NAME"):
            self.assertIn(word, said)
        self.assertFalse(os.path.exists(self.path("o.jsonl")))
        self.assertIn("'context'", self.run_ask("-", WHO, "--input-format", "csv", stdin=b"id,body\n1,x\n",
                                                code=2).stderr)
        self.assertEqual(len(self.rows_of("in.csv", WHO, "--field", "context=body")), 1)
        self.write("noquestion.csv", "context\nx\n")
        self.assertIn("'question'", self.run_ask("noquestion.csv", code=2).stderr)

    def test_endings_of_the_output(self):
        for name in ("o.xlsx", "o.txt", "o.parquet", "o.foo.gz"):
            said = self.run_ask("report.txt", WHO, "-o", name, code=2).stderr
            self.assertIn(".jsonl", said)
            self.assertFalse(os.path.exists(self.path(name)))
        for name in ("plain", "o.json", "o.ndjson"):
            self.run_ask("report.txt", WHO, "-o", name)
            self.assertEqual(self.rows(name)[0]["answer"], "Anna Walker")
        self.run_ask("report.txt", WHO, "-o", "o.txt", "--output-format", "csv")
        self.assertTrue(self.bytes("o.txt").startswith(b"id,"))


class Rows(People):
    def test_ids_are_optional(self):
        self.write("in.jsonl", [{"context": FERRY, "questions": [WHO]}, {"id": None, "context": FERRY, "question": WHO},
                                {"id": "own", "context": FERRY, "question": WHO}])
        self.assertEqual([r["id"] for r in self.rows_of("in.jsonl")], ["in.jsonl:1", "in.jsonl:2", "own"])
        self.write("in.csv", f"id,context,question\n,x,{WHO}\nb,y,{WHO}\n")
        self.assertEqual([r["id"] for r in self.rows_of("in.csv")], ["in.csv:2", "b"])
        self.assertEqual([r["id"] for r in self.rows_of("in.jsonl", "in.csv")],
                         ["in.jsonl:1", "in.jsonl:2", "own", "in.csv:2", "b"])

    def test_own_questions_and_common_ones(self):
        self.write("in.jsonl", [{"id": "a", "context": FERRY, "questions": [WHO, {"id": 2, "question": WHEN}]},
                                {"id": "b", "context": FERRY}])
        self.write("q.txt", PHONE + "\n")
        rows = self.rows_of("in.jsonl", "-q", WHEN, "--questions", "q.txt")
        by_document = {}
        for row in rows:
            by_document.setdefault(row["id"], {})[row["question_id"]] = row["question"]
        self.assertEqual(by_document, {"a": {1: WHEN, 3: PHONE, 4: WHO, 2: WHEN}, "b": {1: WHEN, 2: PHONE}})

    def test_no_answer_is_null(self):
        row = self.rows_of("report.txt", PHONE)[0]
        self.assertIsNone(row["answer"])
        self.assertNotIn("start", row)

    def test_where_the_answer_stands(self):
        text = "Größe: 3 m.\n" + FERRY
        self.write("umlaut.txt", text)
        row = self.rows_of("umlaut.txt", WHO)[0]
        self.assertEqual(text[row["start"]:row["end"]], row["answer"])
        self.assertEqual(row["answer"], "Anna Walker")

    def test_show_prompt(self):
        shown = self.run_ask("report.txt", WHO, "--show-prompt").stdout.decode()
        self.assertIn(FERRY.strip(), shown)
        self.assertIn(WHO, shown)
        self.assertIn("tokens", shown)

    def test_the_journal_may_go(self):
        said = self.run_ask("report.txt", WHO, "-o", "o.jsonl", "--verbose").stderr
        self.assertIn("o.jsonl.journal", said)
        self.assertIn("may be removed", said)


class Messages(People):
    def test_if_every_row_failed_the_first_reason_is_shown(self):
        self.write("in.jsonl", ["{}\n".encode(), b"x\n"])
        said = self.run_ask("in.jsonl", WHO, "-o", "o.jsonl", "--quiet", code=1).stderr
        self.assertIn("every row failed; the first: in.jsonl, line 1", said)
        said = self.run_ask("in.jsonl", WHO, "-o", "again.jsonl", code=1).stderr
        self.assertIn("every row failed; the first: in.jsonl, line 1", said)
        self.assertNotIn("errors among", said)  # which would say the same twice

    def test_options_that_change_nothing_say_so(self):
        said = self.run_ask("report.txt", WHO, "--thinking", "on", "-o", "a.jsonl", "--columns", "nosuch").stderr
        self.assertIn("--thinking on: changes nothing", said)
        self.assertIn("--columns: no row had a field 'nosuch'", said)


class Progress(People):
    LINE = re.compile(r"(\d+) %  (\d+) rows.*?([\d.]+)([kM]?) tokens saved.*?(?:(\d+)(:\d\d)? (s|min) left)?$")

    def test_the_percentage_is_of_answers_and_savings_never_fall(self):
        rows = documents(240, 3)
        self.write("in.jsonl", rows)
        process = subprocess.Popen(
            [BANYAN, "ask", "-m", self.model, "--threads", "1", self.path("in.jsonl"), "-o", self.path("o.jsonl"),
             "--max-new", "24"], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        said = process.communicate(timeout=280)[1]
        self.assertEqual(process.returncode, 0, said)
        lines = [match for match in map(self.LINE.search, said.splitlines()) if match]
        self.assertTrue(lines, said)
        self.assertEqual(lines[-1].group(1), "100")
        saved = 0.0
        for match in lines:
            self.assertAlmostEqual(int(match.group(1)), 100 * int(match.group(2)) / 720, delta=12)
            now = float(match.group(3)) * {"": 1, "k": 1e3, "M": 1e6}[match.group(4)]
            self.assertGreaterEqual(now, saved)
            saved = now


if __name__ == "__main__":
    unittest.main(verbosity=2)
