"""What annoyed people in their first hour, each as they met it."""
import csv
import json
import os
import pathlib
import re
import subprocess
import unittest

from harness import BANYAN, AskTest, documents, tiny_model
from terminal import Terminal

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
READER = str(REPOSITORY / "models" / "banyan-reader-34m.gguf")
FERRY = "The ferry Marigold leaves at 7:45 every morning. Anna Walker steers the ferry Marigold. It has a red hull.\n"
WHO = "Who steers the ferry Marigold?"
SCHEMA = '{"skipper":"text","wheels":"number"}'


class FirstHour(AskTest):
    def setUp(self):
        super().setUp()
        self.environment = {k: v for k, v in os.environ.items() if k != "BANYAN_MODEL"}
        self.environment.update(HOME=self.path("home"), BANYAN_CACHE=self.path("cache"), BANYAN_OFFER="no",
                                XDG_STATE_HOME=self.path("state"))

    def banyan(self, *arguments, code=0, stdin=b""):
        result = subprocess.run([BANYAN, *map(str, arguments)], input=stdin, capture_output=True, timeout=300,
                                env=self.environment, cwd=self.folder)
        result.stderr, result.stdout = (text.decode(errors="replace") for text in (result.stderr, result.stdout))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def terminal(self, *arguments):
        return Terminal([BANYAN, *map(str, arguments)], env=self.environment)


class Names(unittest.TestCase):
    """`banyan` on the public index is a stranger's package."""

    def test_no_page_and_no_message_installs_it(self):
        files = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
        if files.returncode != 0:
            self.skipTest("no repository here")
        old = re.compile(r"pip3? install [^\n`]*?(?<![\w./-])banyan(?=['\"\[`=<>\s]|$)(?!-)")
        found = []
        for name in files.stdout.split("\n"):
            path = REPOSITORY / name
            if not name or path.suffix in (".gguf", ".safetensors", ".png") or path == pathlib.Path(__file__).resolve() or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="ignore")
            found += [f"{name}: {match[0]}" for match in old.finditer(text)]
        self.assertEqual(found, [])


class Refusals(FirstHour):
    """What can be refused is refused before a model is loaded: this one cannot be."""

    def refused(self, said, *arguments):
        stderr = self.banyan(*arguments, "-m", self.broken, code=2).stderr
        self.assertIn(said, stderr, arguments)
        self.assertNotIn("broken.gguf", stderr, arguments)

    def test_every_command(self):
        self.broken = self.write("broken.gguf", "no model")
        self.write("a.txt", FERRY)
        self.write("empty.jsonl", "")
        self.write("q.jsonl", '{"id": 1}\n')
        self.assertIn("broken.gguf", self.banyan("ask", "a.txt", WHO, "-m", self.broken, code=2).stderr)
        ask, extract = ("ask", "a.txt", WHO), ("extract", "a.txt", "--schema", SCHEMA)
        for said, arguments in (
                ("JSONL", (*extract, "-o", "x.csv", "--report", "r.html")),
                ("no such folder", (*extract, "-o", "x.jsonl", "--report", "nowhere/r.html")),
                ("no such folder", (*extract, "-o", "x.jsonl", "--receipt", "nowhere/r.json")),
                ("no category", (*extract, "--category", "car")),
                ("{document}", (*extract, "--template", "no variable")),
                ("--stack", (*extract, "--stack", "3", "--values", "sequential")),
                ("the ending '.xlsx'", (*extract, "-o", "x.xlsx")),
                ("without a temperature", (*ask, "--samples", "3")),
                ("--vote", (*ask, "--vote")),
                ("--regex", (*ask, "--regex", "(")),
                ("--json-schema", (*ask, "--json-schema", '{"type":"no such"}')),
                ("{question}", (*ask, "--template", "no variable")),
                ("--part-tokens", (*ask, "--part-tokens", "50", "--too-long", "fail")),
                ("q.jsonl", ("ask", "a.txt", "--questions", "q.jsonl")),
                ("no such directory", (*ask, "-o", "nowhere/x.jsonl")),
                ("no such folder", (*ask, "-o", "x.jsonl", "--receipt", "nowhere/r.json")),
                ("--retry-errors", (*ask, "-o", "x.jsonl", "--retry-errors")),
                ("it is a folder", (*ask, "-o", "x.jsonl", "--receipt", ".")),
                ("--together", ("rag", WHO, "--together", "1", "--index", "nowhere")),
                ("--verify", ("rag", WHO, "--verify", "--method", "concat", "--index", "nowhere")),
                ("--trace", ("rag", "empty.jsonl", "--trace", "t.html", "-o", "x.csv")),
                ("--kind", ("extract", "schema", "a.txt", "--kind", "no such")),
                ("no such folder", ("extract", "schema", "a.txt", "-o", "nowhere/s.json")),
                ("absent.txt", ("kv", "add", "store", "absent.txt")),
                ("absent.jsonl", ("ids", "absent.jsonl")),
                ("absent.jsonl", ("eval", "rag", "absent.jsonl"))):
            self.refused(said, *arguments)

    def test_the_server(self):
        self.broken = self.write("broken.gguf", "no model")
        self.refused("keys", "serve", "--keys", "no-such-keys", "--port", "0")
        self.refused("no-such-encoder", "serve", "--encoder", "no-such-encoder", "--port", "0")
        self.refused("no-such-index", "serve", "--index", "no-such-index", "--port", "0")


class LongTexts(FirstHour):
    def test_a_long_text_is_split_by_itself_and_a_line_says_what_that_costs(self):
        model = tiny_model(256)
        self.write("long.txt", " ".join(f"word{i}" for i in range(300)))
        for output in (["-o", "x.jsonl"], ["--output-format", "text"]):
            run = self.banyan("ask", "long.txt", WHO, "-m", model, "--max-new", 4, *output)
            said = re.search(r"long.txt: longer than the model reads at once, so it is read in (\d+) parts", run.stderr)
            self.assertIsNotNone(said, run.stderr)
            self.assertEqual(run.stderr.count("longer than"), 1)
            self.assertIn("banyan rag index", run.stderr)
        self.assertEqual(self.rows("x.jsonl")[0]["parts"], int(said[1]))
        short = self.banyan("ask", self.write("short.txt", "A word."), WHO, "-m", model, "--max-new", 4)
        self.assertNotIn("longer than", short.stderr)

    def test_extract_says_it_too(self):
        self.write("long.txt", " ".join(f"word{i}" for i in range(300)))
        run = self.banyan("extract", "long.txt", "--schema", SCHEMA, "-m", tiny_model(256))
        self.assertRegex(run.stderr, r"long.txt: longer than the model reads at once, so it is read in \d+ parts")


class Tables(FirstHour):
    TICKETS = "Ticketnummer;Betreff;Text\nT-17;Fähre;" + FERRY.strip() + "\nT-18;Boot;Tom Reed steers the tug Bear.\n"

    def table(self, name, delimiter):
        with open(self.path(name), newline="", encoding="utf-8") as file:
            return list(csv.reader(file, delimiter=delimiter))

    def test_what_people_look_at_first_stands_first(self):
        self.write("t.csv", self.TICKETS)
        ask = ("ask", "t.csv", "--field", "context=Text", "-m", READER, "-q", WHO, "--ordered")
        run = self.banyan(*ask, "-o", "o.csv")
        table = self.table("o.csv", ";")  # the input's delimiter
        self.assertEqual(table[0], ["Ticketnummer", "Betreff", "Text", "id", "question", "answer", "confidence", "start", "end",
                                    "question_id", "finish_reason", "tokens", "more", "error"])
        rows = [dict(zip(table[0], row)) for row in table[1:]]
        self.assertEqual([row["id"] for row in rows], ["T-17", "T-18"])
        self.assertEqual(rows[0]["answer"], "Anna Walker")
        self.assertEqual(FERRY[int(rows[0]["start"]):int(rows[0]["end"])], "Anna Walker")
        self.assertGreater(float(rows[0]["confidence"]), 0.5)
        self.assertEqual({row["error"] for row in rows}, {""})
        self.assertIn("t.csv: the column 'Ticketnummer' is taken for the rows' id", run.stderr)
        self.banyan(*ask, "-o", "o.csv", "--resume")  # a finished job finds its rows again
        self.banyan(*ask, "-o", "comma.csv", "--delimiter", ";")
        self.assertEqual(self.table("comma.csv", ";")[0], table[0])
        self.banyan(*ask, "-o", "o.tsv")
        self.assertEqual(self.table("o.tsv", "\t"), table)

    def test_who_names_the_id_is_heard(self):
        self.write("t.csv", self.TICKETS)
        ask = ("ask", "t.csv", "--field", "context=Text", "-m", READER, "-q", WHO, "--ordered")
        for more, ids, code in ((["--id", "Betreff"], ["Fähre", "Boot"], 0), (["--id", "line"], [2, 3], 0),
                                (["--field", "id=Betreff"], ["Fähre", "Boot"], 0)):
            run = self.banyan(*ask, *more, code=code)
            self.assertEqual([json.loads(line)["id"] for line in run.stdout.splitlines()], ids)
            self.assertNotIn("is taken for", run.stderr)
        self.assertIn("Nummer", self.banyan(*ask, "--id", "Nummer", code=2).stderr)
        self.assertIn("give one of them", self.banyan(*ask, "--id", "Text", "--field", "id=Betreff", code=2).stderr)

    def test_an_error_is_the_last_column(self):
        self.write("t.csv", "id,context\n1,fine\n2,fine,too many\n")
        self.banyan("ask", "t.csv", "-m", self.model, "-q", "Why?", "--max-new", 2, "-o", "o.csv", "--ordered", code=1)
        table = self.table("o.csv", ",")
        self.assertEqual(table[0][-2:], ["more", "error"])
        self.assertEqual(table[1][-1], "")
        self.assertIn("line 3: expected 2 fields", table[2][-1])
        self.assertEqual(json.loads(table[2][-2])["error"]["kind"], "input")

    def test_values_are_flat(self):
        self.write("t.csv", self.TICKETS)
        self.banyan("extract", "t.csv", "--field", "text=Text", "-m", self.model, "--schema", SCHEMA, "-o", "v.csv")
        header = self.table("v.csv", ";")[0]
        at = header.index("id")
        self.assertEqual(header[at:at + 5], ["id", "skipper", "wheels", "confidence.skipper", "confidence.wheels"])
        for row in self.table("v.csv", ";")[1:]:
            self.assertTrue(0 <= float(row[at + 3]) <= 1)


class Screens(FirstHour):
    def test_values_are_a_small_table_and_one_line_ends_it(self):
        self.write("a.txt", "Skipper: Anna Walker\nFerry: Marigold\n")
        screen = self.terminal("extract", self.path("a.txt"), "--schema", '{"skipper":"text","ferry":"text","price":"number"}',
                               "-m", READER)
        self.assertEqual(screen.finish(), 0)
        shown = screen.text()
        for gone in ("{", "predicted", "answers  ", "strategy"):
            self.assertNotIn(gone, shown)
        self.assertRegex(shown, r"a\.txt\n  skipper  \S[^\n]* % sure\)\n  ferry    [^\n]+\n  price    [^\n]+\n")
        self.assertRegex(shown.strip().splitlines()[-1], r"^extract: 1 row in [\d.]+ s \([\d.]+ rows/s\)$")

    def test_all_of_the_receipt_is_there_for_who_wants_it(self):
        self.write("a.txt", FERRY)
        line = self.banyan("ask", "a.txt", WHO, "-m", self.model, "--max-new", 2, "-o", "x.jsonl").stderr
        self.assertRegex(line, r"^ask: 1 row in [\d.]+ s \([\d.]+ rows/s\), written to x\.jsonl$"
                         if "%" not in line else r"ask: 1 row in ")
        self.assertNotIn("strategy", line)
        self.assertIn("strategy", self.banyan("ask", "a.txt", WHO, "-m", self.model, "--max-new", 2, "-o", "y.jsonl", "--verbose").stderr)

    def test_an_empty_file_is_not_complete(self):
        self.write("a.txt", "")
        said = self.banyan("extract", "a.txt", "--schema", SCHEMA, "-m", self.model, "-o", "x.jsonl", code=1).stderr
        self.assertNotIn("rows/s", said)
        self.assertNotIn("complete", said)
        self.assertIn("a.txt: the file has no text", said)

    def test_what_could_not_be_read_is_listed_at_the_end(self):
        for name in ("a", "b", "c"):
            os.makedirs(self.path("mails"), exist_ok=True)
            self.write(f"mails/{name}.txt", FERRY if name == "b" else "")
        said = self.banyan("ask", "mails", WHO, "-m", self.model, "--max-new", 2, "-o", "x.jsonl", code=1).stderr
        self.assertTrue(said.endswith("banyan: 2 inputs could not be read:\n  mails/a.txt: the file has no text\n"
                                      "  mails/c.txt: the file has no text\n"), said)


    def test_what_was_left_out_of_a_folder_is_told_at_the_end(self):
        os.makedirs(self.path("mixed"))
        for name, text in (("a.txt", FERRY), ("b.eml", FERRY), ("c.png", "x"), ("d.html", f"<p>{FERRY}</p>")):
            self.write(f"mixed/{name}", text)
        said = self.banyan("ask", "mixed", WHO, "-m", self.model, "--max-new", 2, "-o", "x.jsonl").stderr
        self.assertIn("mixed/c.png: left out: an image, which is not read here; convert it: tesseract mixed/c.png mixed/c\n", said)
        self.assertLess(said.index("ask: 3 rows in "), said.index("left out"))


    def test_a_notice_is_not_glued_to_the_progress(self):
        self.write("long.txt", FERRY * 400)
        screen = self.terminal("ask", self.path("long.txt"), WHO, "-m", self.model, "--max-new", 2, "-o", self.path("x.jsonl"))
        screen.finish()
        self.assertRegex(screen.seen.decode(), r"(?:^|\n|\x1b\[K)banyan: [^\n]*longer than the model reads at once")

    def test_text_for_people_has_the_guessed_names_of_rows(self):
        self.write("t.csv", "Ticketnummer;Text\nT-7;Anna.\nT-9;Tom.\n")
        found = self.banyan("ask", "t.csv", "--field", "context=Text", "-q", "Who?", "-m", self.model, "--max-new", 2,
                            "--output-format", "text")
        self.assertRegex(found.stdout, r"^== T-7 ==\n(?s:.*)\n== T-9 ==\n")
        self.assertIn("the column 'Ticketnummer' is taken for the rows' id", found.stderr)


class Folders(FirstHour):
    """Every file of a folder is read, or named with its reason at the end."""

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.path("mixed"))
        (folder / "deep").mkdir(parents=True)
        for name in ("a.txt", "b.md", "mail.eml", "deep/d.html", ".hidden.txt", "README", "line\nbreak.txt"):
            (folder / name).write_text(FERRY)
        (folder / ("n" * 240 + ".txt")).write_text(FERRY)
        pathlib.Path(os.fsdecode(os.fsencode(folder) + b"/na\xefve.txt")).write_text(FERRY)
        for name, data in (("empty.txt", b""), ("letter.docx", b"PK\x03\x04"), ("sheet.xlsx", b"PK"), ("zero.txt", b"a\0b"),
                           ("latin.txt", "Fähre".encode("latin-1")), ("wide.txt", "Ferry".encode("utf-16")),
                           *((f"photo{i}.JPG", b"\xff\xd8\xff") for i in range(5))):
            (folder / name).write_bytes(data)
        (folder / "nothing.txt").symlink_to("nowhere.txt")
        (folder / "out.txt").symlink_to("/etc/hostname")
        (folder / "again").symlink_to(".")
        os.mkfifo(folder / "pipe.txt")

    def check(self, said, read, unread):
        for name in unread:
            self.assertRegex(said, rf"(?m)^.*mixed/{re.escape(name)}[,: ]", name)
        for name in read:
            self.assertNotIn(f"mixed/{name}:", said)
        self.assertIn("mixed/photo0.JPG, mixed/photo1.JPG, mixed/photo2.JPG and 2 more: left out: an image", said)

    UNREAD = ("empty.txt", "letter.docx", "sheet.xlsx", "zero.txt", "latin.txt", "wide.txt", "photo0.JPG", "nothing.txt", "out.txt",
              "again", "pipe.txt", ".hidden.txt")

    def test_ask_and_extract(self):
        said = self.banyan("ask", "mixed", WHO, "-m", self.model, "--max-new", 2, "-o", "a.csv", code=1).stderr
        self.check(said, ("a.txt", "mail.eml"), (*self.UNREAD, "README"))
        with open(self.path("a.csv"), newline="", encoding="utf-8", errors="strict") as file:
            names = {row["id"] for row in csv.DictReader(file)}
        self.assertIn("mixed/na\ufffdve.txt", names)
        self.assertIn("mixed/line\nbreak.txt", names)
        said = self.banyan("extract", "mixed", "--schema", SCHEMA, "-m", self.model, "-o", "e.jsonl", code=1).stderr
        self.check(said, ("a.txt", "mail.eml"), (*self.UNREAD, "README"))
        self.rows("e.jsonl")
        text = self.banyan("ask", "mixed", WHO, "-m", self.model, "--max-new", 2, "--output-format", "text", code=1).stdout
        self.assertIn("== mixed/line break.txt ==", text)

    def test_an_index(self):
        found = self.banyan("rag", "index", "mixed", code=1)
        self.check(found.stderr, ("a.txt", "mail.eml", "README"), self.UNREAD)
        self.assertNotIn("--encoding", found.stderr)  # which this command has not
        # The list is the end, after what was done.
        self.assertLess(found.stderr.index("documents in"), found.stderr.index("left out"))
        again = self.banyan("rag", "index", "IDX", ".", code=1).stderr
        self.assertNotRegex(again, r"\.banyan-index[,:][^\n]*left out")  # an index is no one's document


class Tour(FirstHour):
    def test_four_recipes_and_a_line_that_leads_on(self):
        environment = {**self.environment, "BANYAN": BANYAN, "BANYAN_MODEL": READER}
        tour = subprocess.run([str(REPOSITORY / "tools" / "tour.sh")], capture_output=True, text=True, timeout=250, env=environment)
        self.assertEqual(tour.returncode, 0, tour.stderr)
        self.assertEqual(len(re.findall(r"^\d\. .*\n\$ banyan ", tour.stdout, re.M)), 4, tour.stdout)
        for word in ("Anna Walker", "answer", "moss green", "7:45"):
            self.assertIn(word, tour.stdout)
        self.assertTrue(tour.stdout.splitlines()[-1].startswith("Next: banyan ask YOUR-FILE"))


class Help(FirstHour):
    def help_at(self, columns, *arguments):
        screen = Terminal(["sh", "-c", f"stty cols {columns}; exec " + " ".join([BANYAN, *arguments])], env=self.environment)
        self.assertEqual(screen.finish(), 0)
        return screen.text()

    def test_it_follows_the_width_and_breaks_no_word(self):
        words = set(self.banyan("ask", "--help-all").stdout.split())
        for columns in (60, 80):
            for command in ("ask", "extract", "rag", "serve", "kv", ""):
                lines = self.help_at(columns, *command.split(), "--help").split("\n")
                # A word alone may be longer than the line.
                wide = [line for line in lines if len(line) > columns and len(line.split()) > 1 and " " in line.strip()]
                self.assertEqual([line for line in wide if len(line.strip().split()[0]) < columns], [], command)
            self.assertLessEqual(set(self.help_at(columns, "ask", "--help-all").split()) - {"\\"}, words | {"\\"})

    def test_also_through_a_pager(self):
        screen = Terminal(["sh", "-c", f"stty cols 70; {BANYAN} ask --help | cat"], env=self.environment)
        self.assertEqual(screen.finish(), 0)
        wide = [line for line in screen.text().split("\n") if len(line) > 70]
        self.assertEqual([line for line in wide if len(line.split()) > 1 and max(map(len, line.split())) < 40], [])

    def test_the_options_people_use_are_there_in_groups(self):
        for command in ("ask", "extract", "rag"):
            text = self.banyan(command, "--help").stdout
            for option in ("--quiet", "--too-long", "--output-format", "--ordered", "--output", "--id", "--help-all"):
                self.assertIn(option, text, command)
            for group in ("\nOutput:\n", "\nJobs:\n", "\nModel:\n"):
                self.assertIn(group, text, command)

    def test_help_all_everywhere(self):
        for command in ("serve", "ask", "extract", "rag index", "kv add", "embed", "merge", "model get", "eval ask"):
            self.assertIn("--help-all", self.banyan(*command.split(), "--help-all").stdout, command)
        self.assertLess(len(self.banyan("serve", "--help").stdout), len(self.banyan("serve", "--help-all").stdout))
        listed = self.banyan("--help").stdout
        for command in ("completion", "man"):
            self.assertRegex(listed, rf"\n  {command} ")


class Prompt(FirstHour):
    def test_numbers_saving_again_and_no_coin_for_yes_or_no(self):
        self.write("a.txt", FERRY)
        screen = self.terminal("ask", self.path("a.txt"), "-m", READER)
        at = screen.wait_for_prompt()
        for question, answer in ((WHO, "Anna Walker"), ("Is the hull of the ferry red?", "how well it chooses"),
                                 ("When does the ferry Marigold leave?", "7:45")):
            screen.type(question + "\n")
            at = screen.wait_for(question, after=at)
            at = screen.wait_for(answer, after=at)
            at = screen.wait_for_prompt(at)
        saved = self.path("saved.jsonl")
        screen.type(f"/save {saved}\n")
        at = screen.wait_for("2 rows written", after=at)
        at = screen.wait_for_prompt(at)
        screen.type(f"/save {saved}\n")
        at = screen.wait_for(f"/save! {saved} replaces it", after=at)
        at = screen.wait_for_prompt(at)
        screen.type(f"/save! {saved}\n")
        at = screen.wait_for("2 rows written", after=at)
        screen.wait_for_prompt(at)
        screen.type("/quit\n")
        self.assertEqual(screen.finish(), 0)
        self.assertNotIn("--overwrite", screen.text())
        rows = self.rows("saved.jsonl")
        self.assertEqual([row["question_id"] for row in rows], [1, 2])
        self.assertEqual([row["answer"] for row in rows], ["Anna Walker", "7:45"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
