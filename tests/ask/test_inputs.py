"""What comes in: files that cannot be read, what standard input holds, JSON, encodings, other people's formats."""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import BANYAN, AskTest, documents, file_permissions

ANSWER = ["--max-new", "4", "-q", "What is it about?"]


class Unreadable(AskTest):
    def setUp(self):
        super().setUp()
        self.docs = self.folder / "docs"
        (self.docs / "locked").mkdir(parents=True)
        (self.docs / "a.txt").write_text("The ferry leaves at seven.")
        (self.docs / "z.txt").write_text("The yacht is blue.")
        (self.docs / "locked" / "inside.txt").write_text("Nobody sees it.")
        os.chmod(self.docs / "locked", 0)
        self.addCleanup(os.chmod, self.docs / "locked", 0o755)
        file_permissions.skip_unless_they_hold(self.folder, BANYAN)

    def unreadable(self, *arguments, code=1):
        return self.ask(self.docs, *ANSWER, *arguments, code=code, preexec_fn=file_permissions.obey)

    def answered(self, name="out.jsonl"):
        rows = self.rows(name)
        return (sorted(os.path.basename(row["id"]) for row in rows if "error" not in row),
                [row["error"] for row in rows if "error" in row])

    def test_a_folder_is_an_error_row(self):
        said = self.unreadable("-o", self.path("out.jsonl")).stderr
        files, errors = self.answered()
        self.assertEqual(files, ["a.txt", "z.txt"])
        self.assertEqual(len(errors), 1)
        self.assertEqual(errors[0]["kind"], "io")
        self.assertTrue(errors[0]["file"].endswith("docs/locked"), errors)
        self.assertIn("Permission denied", errors[0]["message"])
        self.assertIn("1 input could not be read:\n  ", said)

    def test_a_file_is_an_error_row(self):
        os.chmod(self.docs / "z.txt", 0)
        self.unreadable("-o", self.path("out.jsonl"), "--receipt", self.path("r.json"))
        files, errors = self.answered()
        self.assertEqual(files, ["a.txt"])
        self.assertEqual(sorted(os.path.basename(e["file"]) for e in errors), ["locked", "z.txt"])
        self.assertEqual(self.json("r.json")["unread_inputs"], 2)
        # It is asked when it can be read, and its error row goes with --retry-errors.
        os.chmod(self.docs / "z.txt", 0o644)
        self.unreadable("-o", self.path("out.jsonl"), "--resume", "--retry-errors")
        self.assertEqual(self.answered()[0], ["a.txt", "z.txt"])

    def test_a_link_to_nothing_is_an_error_row(self):
        os.chmod(self.docs / "locked", 0o755)
        os.symlink("nowhere.txt", self.docs / "link.txt")
        self.ask(self.docs, *ANSWER, "-o", self.path("out.jsonl"), code=1)
        files, errors = self.answered()
        self.assertEqual(files, ["a.txt", "inside.txt", "z.txt"])
        self.assertTrue(errors[0]["file"].endswith("link.txt"))

    def test_links_out_of_the_folder_are_left_out(self):
        """As `rag index` does: whoever may put a link into the folder could show any file of this machine."""
        os.chmod(self.docs / "locked", 0o755)
        outside = self.write("secret.txt", "Ruth Hale steers the tug Bear.")
        os.symlink(outside, self.docs / "out.txt")
        os.symlink(os.path.dirname(outside), self.docs / "locked" / "folder")
        os.symlink("a.txt", self.docs / "in.txt")
        said = self.ask(self.docs, *ANSWER, "-o", self.path("out.jsonl"), code=0).stderr
        self.assertEqual(self.answered()[0], ["a.txt", "in.txt", "inside.txt", "z.txt"])
        self.assertRegex(said, r"docs/out\.txt: left out: a link to a file outside of .*docs; name it on the command line")
        self.assertRegex(said, r"docs/locked/folder: left out: a link to a folder")
        # Named on the command line, a link is the caller's own wish.
        self.ask(self.docs / "out.txt", *ANSWER, "-o", self.path("other.jsonl"), code=0)

    def test_a_table_without_the_column_is_an_error_row(self):
        (self.docs / "t.csv").write_text("id,body\n1,text\n")
        self.unreadable("-o", self.path("out.jsonl"))
        files, errors = self.answered()
        self.assertEqual(files, ["a.txt", "z.txt"])
        self.assertTrue(any("expected a column 'context'" in e["message"] for e in errors), errors)

    def test_strict_stops_before_anything_is_asked(self):
        said = self.unreadable("-o", self.path("out.jsonl"), "--strict", code=2).stderr
        self.assertIn("docs/locked: cannot read the folder: Permission denied", said)
        self.assertIn("1 of 3 inputs cannot be read", said)
        self.assertFalse(os.path.exists(self.path("out.jsonl")))

    def test_strict_stops_at_a_bad_row(self):
        rows = self.write("in.jsonl", documents(3, 1) + [b"not JSON\n"] + documents(200, 1, "e"))
        said = self.ask(rows, "--max-new", "4", "-o", self.path("out.jsonl"), "--strict", code=1).stderr
        self.assertIn("in.jsonl, line 4: ", said)
        self.assertIn("(--strict)", said)
        self.assertTrue(all("error" not in row for row in self.rows("out.jsonl")))
        self.write("in.jsonl", documents(3, 1) + documents(200, 1, "e"))
        self.ask(rows, "--max-new", "4", "-o", self.path("out.jsonl"), "--strict", "--resume")
        self.assertEqual(len(self.rows("out.jsonl")), 203)

    def test_nothing_that_can_be_read_is_refused(self):
        for name in ("a.txt", "z.txt"):
            os.chmod(self.docs / name, 0)
        self.unreadable("-o", self.path("out.jsonl"), code=2)
        self.assertFalse(os.path.exists(self.path("out.jsonl")))
        self.ask(self.docs / "a.txt", *ANSWER, code=2, preexec_fn=file_permissions.obey)


class StandardInput(AskTest):
    def only(self, text, *arguments, code=0):
        data = text if isinstance(text, bytes) else text.encode()
        return [json.loads(line) for line in self.ask("-", *ANSWER, "--ordered", "--quiet", *arguments, stdin=data,
                                                      code=code).stdout.splitlines()]

    def test_a_table_is_a_table(self):
        table = 'nr,body\n1,"The ferry, at seven"\n2,The yacht\n'
        rows = self.only(table, "--field", "context=body", "--field", "id=nr")
        self.assertEqual([row["id"] for row in rows], ["1", "2"])
        for delimiter in (";", "\t"):
            rows = self.only(f"nr{delimiter}context\n1{delimiter}The ferry\n")
            self.assertEqual(len(rows), 1)
            self.assertEqual(rows[0]["nr"], "1")

    def test_prose_is_a_text(self):
        rows = self.only("Dear Bob, dear Jim, dear context\nThe ferry, as you know, leaves.\n")
        self.assertEqual([row["id"] for row in rows], ["stdin"])

    def test_a_page_is_read_as_a_browser_shows_it(self):
        page = "<!DOCTYPE html>\n<html><head><script>var secret = 1;</script></head><body><p>The ferry.</p></body></html>"
        prompt = self.ask("-", *ANSWER, "--show-prompt", stdin=page.encode()).stdout.decode()
        self.assertIn("The ferry.", prompt)
        self.assertNotIn("secret", prompt)
        self.assertNotIn("<p>", prompt)

    def test_json(self):
        self.assertEqual([row["id"] for row in self.only('[{"id": 7, "context": "a, ] b"}, {"context": "c"}]')],
                         [7, "standard input:2"])
        self.assertEqual([row["id"] for row in self.only('{\n  "id": "x",\n  "context": "a"\n}\n')], ["x"])
        self.assertEqual([row["id"] for row in self.only('{"id":1,"context":"a"}\n{"id":2,"context":"b"}\n')], [1, 2])


class JsonFiles(AskTest):
    def test_an_array_is_a_table(self):
        docs = [{"context": "The \"ferry\", [leaves] {at} seven\\", "note": {"a": [1, 2]}}, {"id": "y", "context": "The yacht."}]
        for indent in (None, 2):
            path = self.write("in.json", json.dumps(docs, indent=indent))
            rows = self.answers(path, *ANSWER, "--ordered")
            self.assertEqual([row["id"] for row in rows], [f"{path}:1", "y"])
            self.assertEqual(rows[0]["note"], {"a": [1, 2]})

    def test_one_object_is_one_row(self):
        rows = self.answers(self.write("in.json", json.dumps(documents(1)[0], indent=1)), "--max-new", "4")
        self.assertEqual([row["question_id"] for row in rows], ["q0", "q1"])

    def test_lines_are_lines_still(self):
        self.assertEqual(len(self.answers(self.write("in.json", documents(3, 1)), "--max-new", "4")), 3)

    def test_bad_elements_are_error_rows(self):
        rows = self.answers(self.write("in.json", '[{"id":1,"context":"a"},\n 7,\n {"id":2,"context":"b"}'), *ANSWER,
                            "--ordered", code=1)
        self.assertEqual([row["id"] for row in rows], [1, None, 2, None])
        self.assertIn("expected a JSON object", rows[1]["error"]["message"])
        self.assertEqual(rows[1]["error"]["line"], 2)
        self.assertIn("not closed", rows[3]["error"]["message"])


class Tables(AskTest):
    def table(self, name):
        with open(self.path(name), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_the_columns_come_out_again(self):
        rows = self.write("in.csv", 'nr,body,who,note\n1,The ferry,Anna,"a, b"\n2,The yacht,Bob,\n')
        self.ask(rows, *ANSWER, "--field", "context=body", "--ordered", "-o", self.path("out.csv"))
        table = self.table("out.csv")
        self.assertEqual(list(table[0])[:4], ["nr", "body", "who", "note"])
        self.assertEqual([(row["nr"], row["body"], row["who"], row["note"]) for row in table],
                         [("1", "The ferry", "Anna", "a, b"), ("2", "The yacht", "Bob", "")])
        self.assertIn("answer", table[0])
        self.assertNotIn("who", table[0]["more"])

    def test_also_from_a_pipe(self):
        self.ask("-", *ANSWER, "-o", self.path("out.csv"), "--delimiter", ",", stdin=b"who,context\nAnna,The ferry\n")
        self.assertEqual([(row["who"], row["context"]) for row in self.table("out.csv")], [("Anna", "The ferry")])
        self.ask("-", *ANSWER, "-o", self.path("semicolons.csv"), stdin=b"who;context\nAnna;The ferry\n")
        self.assertTrue(self.bytes("semicolons.csv").startswith(b"who;context;id;"))
        self.ask("-", *ANSWER, "-o", self.path("out.csv"), "--overwrite", stdin=b"who,context\nAnna,The ferry\n")
        self.assertEqual([(row["who"], row["context"]) for row in self.table("out.csv")], [("Anna", "The ferry")])

    def test_own_columns_and_bad_rows(self):
        rows = self.write("in.csv", "id,context,answer\na,The ferry,mine\nb\n")
        self.ask(rows, *ANSWER, "--ordered", "-o", self.path("out.csv"), code=1)
        table = self.table("out.csv")
        self.assertEqual(list(table[0])[0], "id")
        self.assertEqual([row["id"] for row in table], ["a", "b"])
        self.assertIn("expected 3 fields", table[1]["error"])
        self.assertEqual(len(set(table[0])), len(table[0]), "every column once")

    def test_resumed_tables_keep_their_columns(self):
        rows = self.write("in.csv", "who,context\nAnna,The ferry\n")
        self.ask(rows, *ANSWER, "-o", self.path("out.csv"))
        self.write("in.csv", "who,context\nAnna,The ferry\nBob,The yacht\n")
        self.ask(rows, *ANSWER, "-o", self.path("out.csv"), "--resume")
        self.assertEqual(sorted(row["who"] for row in self.table("out.csv")), ["Anna", "Bob"])

    def test_fields_of_some_files(self):
        os.mkdir(self.path("d"))
        self.write("d/mails.csv", "id,body\nm,The ferry\n")
        self.write("d/tickets.jsonl", [{"id": "t", "text": "The yacht"}])
        self.write("d/other.jsonl", [{"id": "o", "context": "The quay"}])
        rows = self.answers(self.path("d"), *ANSWER, "--field", "mails*.csv:context=body", "--field",
                            "tickets.jsonl:context=text")
        self.assertEqual(sorted(row["id"] for row in rows), ["m", "o", "t"])
        self.assertIn("PATTERN:OURS=THEIRS", self.ask(self.path("d"), *ANSWER, "--field", "x:y=z", code=2).stderr)


class Slips(AskTest):
    def test_fields_that_are_called_almost_right(self):
        path = self.write("in.jsonl", [{"id": 1, "contxt": "Text.", "question": "What?"},
                                       {"id": 2, "context": "Text.", "questions": [{"qestion": "What?"}]},
                                       {"id": 3, "context": "Text.", "questions": ["What?"], "instuction": "Be brief."}])
        run = self.ask(path, "--max-new", "2", "-o", self.path("out.jsonl"), "--ordered", code=1)
        rows = self.rows("out.jsonl")
        self.assertEqual(rows[0]["error"]["message"],
                         f"{path}, line 1: expected the field 'context', found none; did you mean 'context' by 'contxt'?")
        self.assertIn("did you mean 'question' by 'qestion'?", rows[1]["error"]["message"])
        self.assertEqual(rows[2]["instuction"], "Be brief.")
        self.assertIn(f"{path}, line 3: the field 'instuction' is carried, not read (in 1 row); did you mean 'instruction'?",
                      run.stderr)

    def test_columns(self):
        path = self.write("in.csv", b"id,contxt,lables\n1,Text.,\n")
        said = self.ask(path, "-q", "What?", code=2).stderr
        self.assertIn("expected a column 'context'; the header has id, contxt, lables", said)
        self.assertIn("did you mean 'contxt'?", said)
        said = self.ask(path, "-q", "What?", "--field", "context=contxt", "--field", "choices=labels", code=2).stderr
        self.assertIn("expected a column 'labels' for 'choices'; the header has id, contxt, lables; did you mean 'lables'?", said)

    def test_equal_choices(self):
        path = self.write("in.jsonl", [{"id": 1, "context": "Text.", "question": "Is it?", "choices": ["yes", "no", "yes"]}])
        self.assertIn("'choices': expected different texts, found \"yes\" twice",
                      self.answers(path, "--max-new", "2", code=1)[0]["error"]["message"])


class Encodings(AskTest):
    def test_latin_1(self):
        text = self.write("a.txt", "Die Fähre heißt Möwe.".encode("latin-1"))
        self.assertIn("--encoding windows-1252", self.ask(text, *ANSWER, code=1).stdout.decode())
        prompt = self.ask(text, *ANSWER, "--encoding", "latin-1", "--show-prompt").stdout.decode()
        self.assertIn("Die Fähre heißt Möwe.", prompt)
        table = self.write("t.csv", "id;context;wer\n1;Fähre;Jörg\n".encode("windows-1252"))
        rows = self.answers(table, *ANSWER, "--encoding", "windows-1252")
        self.assertEqual(rows[0]["wer"], "Jörg")
        self.assertIn("--encoding: expected the name", self.ask(text, *ANSWER, "--encoding", "klingon", code=2).stderr)

    def test_utf_16_and_bad_bytes(self):
        text = self.write("a.txt", "Die Fähre".encode("utf-16"))
        self.assertIn("Die Fähre", self.ask(text, *ANSWER, "--encoding", "UTF-16", "--show-prompt").stdout.decode())
        bad = self.write("b.txt", b"ok \x81\xff")
        row = json.loads(self.ask(bad, *ANSWER, "--encoding", "UTF-8", code=1).stdout)
        self.assertIn("not valid UTF-8 at byte 4", row["error"]["message"])


class ForeignFormats(AskTest):
    def test_the_refusal_is_a_command(self):
        for name, words in (("my table.xlsx", ("libreoffice --headless --convert-to csv", "'")),
                            ("letter.docx", ("pandoc", "letter.docx", "letter.txt")),
                            ("rows.parquet", ("python3 -m banyan", "banyan-engine[arrow]")),
                            ("rows.feather", ("python3 -c", "rows.feather", "rows.jsonl"))):
            path = self.write(name, b"PK\x03\x04")
            said = self.ask(path, *ANSWER, code=2).stderr
            for word in words:
                self.assertIn(word, said)

    def test_among_others_it_is_an_error_row(self):
        rows = self.answers(self.write("letter.docx", b"PK"), self.write("a.txt", "The ferry."), *ANSWER, code=1)
        self.assertIn("pandoc", next(row for row in rows if "error" in row)["error"]["message"])

    @unittest.skipUnless(shutil.which("python3"), "no python3")
    def test_the_command_for_feather_runs(self):
        try:
            import pandas
            pandas.DataFrame({"context": ["The ferry"]}).to_feather(self.path("rows.feather"))
        except ImportError:
            self.skipTest("no pandas with Feather here: pip install pandas pyarrow")
        said = self.ask(self.path("rows.feather"), *ANSWER, code=2).stderr
        command = said[said.index("python3 -c"):].splitlines()[0]
        subprocess.run(["bash", "-c", command], check=True)
        self.assertEqual(self.rows("rows.jsonl"), [{"context": "The ferry"}])


class Pages(AskTest):
    def shown(self, page):
        text = self.write("page.html", page)
        return self.ask(text, *ANSWER, "--show-prompt").stdout.decode()

    @unittest.skipUnless(os.environ.get("BANYAN_READS_HTML", "1") == "1", "built without libxml2")
    def test_what_is_not_displayed_is_not_read(self):
        prompt = self.shown("""<html><body><p>seen one</p>
            <div style="color:red; DISPLAY : none !important">hidden one<div>hidden two</div>hidden three</div>
            <p>seen two</p><span hidden>hidden four</span><p style='visibility:hidden'>hidden five</p>
            <input style="display:none"><img style="display:none" src=x>seen three
            <style>.gone, p.away { margin: 0; display:none } #menu{display:none} .kept{color:red}</style>
            <p class="x gone">hidden six</p><nav id=menu>hidden seven</nav><p class="kept">seen four</p>
            <p class="away">hidden eight</p><div class="away">seen five</div>
            <p data-hidden style="background:url(display:none)">seen six</p></body></html>""")
        for number in ("one", "two", "three", "four", "five", "six"):
            self.assertIn("seen " + number, prompt)
        self.assertNotIn("hidden", prompt)


if __name__ == "__main__":
    unittest.main(verbosity=2)
