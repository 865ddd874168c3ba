#!/usr/bin/env python3
"""Every row of the option table on the command line: what is in range is taken, what is not is refused by name. The
journal's header is what earlier versions wrote, so that their jobs resume; docs/options.md is current.

Usage: test_options.py PROGRAM MODEL. REQUIRES: MAKE_TINY_MODEL in the environment.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from option_values import outside, read_table, within  # noqa: E402

PROGRAM, MODEL = (os.path.abspath(path) for path in sys.argv[1:3])
# Whose command line has a table.
COMMANDS = {"ask": ["ask"], "extract": ["extract"], "rag": ["rag"], "job": ["ask", "extract", "rag"], "table": ["map"],
            "model": ["ask", "serve"], "engine": ["ask", "serve"], "kv": ["ask", "rag"]}
# Options of a table that another command has.
ELSEWHERE = {**dict.fromkeys(("threshold", "all", "recall", "precision", "confidence", "sample", "label"), "filter"),
             "top": "rank", "pairwise": "rank"}
# What an option is given with.
BESIDE = {"recall": ["--large", "a"], "precision": ["--large", "a"], "label": ["--recall", "0.5", "--large", "a"]}


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def words(row, value, folder):
    """The option with this value, as a person types it."""
    name, style = row["command"], row["style"]
    if row["kind"] == "flag" and style == "on or off":
        return [name, "on" if value is True else "off" if value is False else value]
    if row["kind"] == "flag" and style == "zero or one":
        return [name, int(value)]
    if row["kind"] == "flag":
        if value:
            return [name] if style != "only no" else []
        return {"yes or no": ["--no-" + name[2:]], "only no": [name]}.get(style, [])
    if style in ("file", "inline or file"):
        path = folder / "value.txt"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return [name, path]
    if row["kind"] == "texts":
        return [word for one in value for word in (name, one)]
    return [f"{name}={value}"]  # also where it begins with a dash


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = [row for row in read_table(PROGRAM) if row["command"] is not None]
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.tiny = os.path.join(home.name, "tiny.gguf")  # serve loads it each time, by the slow reference device too
        subprocess.run([os.environ["MAKE_TINY_MODEL"], cls.tiny, "512", "1"], check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self):
        for row in self.table:
            for command in COMMANDS[row["table"]]:
                yield row, ELSEWHERE.get(row["name"], command) if command == "map" else command

    def end_of(self, command):
        """What ends a command line early and for another reason: an input that is not there."""
        return {"serve": ["--keys", "/nowhere/keys"], "extract": ["/nowhere/in.jsonl", "--schema", '{"a":"text"}'],
                "ask": ["/nowhere/in.jsonl", "-q", "Why?"],
                **dict.fromkeys(("map", "filter", "rank"), ["/nowhere/in.jsonl", "{a}"])}.get(command, ["/nowhere/in.jsonl"])

    def test_what_is_in_range_is_taken(self):
        tried = 0
        for row, command in self.rows():
            if row["name"] in ("model", "output", "receipt", "kv_store", "adapter"):  # names of files
                continue
            if row["name"] == "schema":
                continue
            values = [value for value in within(row) if value != "cuda"]  # not in every build
            for value in values[:: max(1, len(values) - 1)]:
                device = ["--device", "reference"] if value == "w8a8" else []  # the device cpu has none
                found = run(command, "-m", self.tiny, *words(row, value, self.folder), *device,
                            *(BESIDE.get(row["name"], []) if value and row["table"] == "table" else []), *self.end_of(command))
                self.assertIn("/nowhere/", found.stderr, (row["name"], value))
                self.assertEqual(found.returncode, 2)
                tried += 1
        self.assertGreater(tried, 150)

    def test_what_is_out_of_range_is_refused_by_name(self):
        tried = 0
        for row, command in self.rows():
            for value in outside(row):
                found = run(command, *words(row, value, self.folder), *self.end_of(command))
                said = found.stderr.splitlines()[0]
                self.assertEqual(found.returncode, 2)
                self.assertTrue(said.startswith(f"banyan: {row['command']}: expected "), (row["name"], value, said))
                self.assertIn(str(value), said)
                self.assertIn(row["range"] if row["kind"] in ("whole", "number") else "", said)
                tried += 1
        self.assertGreater(tried, 100)

    def test_every_option_stands_in_the_help_and_the_manual(self):
        for command in ("ask", "extract", "rag"):
            text = run(command, "--help-all").stdout
            manual = run("man", "banyan-" + command).stdout.replace("\\-", "-")
            for row in self.table:
                if command in COMMANDS[row["table"]] and not row["for_comparison"]:
                    self.assertIn(row["command"], text)
                    self.assertIn(row["command"], manual)

    def test_knobs_of_comparisons_are_shown_by_bench_and_ids_alone(self):
        knobs = [row for row in self.table if row["for_comparison"]]
        self.assertEqual(len(knobs), 10)
        measured = run("bench", "tree", "--help").stdout
        tokens = run("ids", "--help").stdout
        elsewhere = "".join(run(command, "--help-all").stdout + run("man", "banyan-" + command).stdout.replace("\\-", "-")
                            for command in ("ask", "extract", "rag"))
        elsewhere += run("serve", "--help").stdout + (ROOT / "docs" / "options.md").read_text()
        for row in knobs:
            self.assertIn(row["command"], measured)
            self.assertIn(row["command"], tokens)
            self.assertNotIn(row["command"], elsewhere)

    def test_a_knob_of_comparisons_still_works_elsewhere_and_says_where_it_went(self):
        found = run("ask", "/nowhere/in.jsonl", "-q", "Why?", "--steps-ahead", "0")
        self.assertEqual(found.stderr.splitlines()[0],
                         "banyan ask: --steps-ahead moved to `banyan bench` and will be refused from 0.4.0")
        self.assertIn("/nowhere/", found.stderr)
        self.assertNotIn("moved", run("ids", "--steps-ahead", "0", "/nowhere/in.jsonl").stderr)

    def test_removed_options_say_what_to_do_instead(self):
        for words, said in ((["extract", "in.jsonl", "--price-per-hour", "2"], "--price-per-hour was removed: the receipt has"),
                            (["eval", "extract", "gold.jsonl", "--price-per-hour=2"], "--price-per-hour was removed: the receipt has"),
                            (["rag", "in.jsonl", "--abstention-scope", "answer"], "--abstention-scope was removed: experts abstain"),
                            (["rag", "index", "notes", "--vectors", "flat"], "--vectors flat was removed: use --vectors exact")):
            found = run(*words)
            self.assertEqual(found.returncode, 2)
            self.assertIn(said, found.stderr)

    def test_both_words_for_a_list_work(self):
        for command in (["model", "list"], ["model", "ls"]):
            self.assertIn("banyan-reader-34m", run(*command).stdout)
        for command in (["kv", "ls"], ["kv", "list"]):
            self.assertIn("/nowhere/store", run(*command, "/nowhere/store").stderr)

    def test_the_page_of_options_is_current(self):
        page = run("help", "--reference").stdout
        self.assertIn("--max-new", page)
        self.assertEqual(page, (ROOT / "docs" / "options.md").read_text(), "banyan help --reference > docs/options.md")


class Names(unittest.TestCase):
    """One option, two names; the document's field, two names."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self, *arguments):
        found = run(*arguments, "-m", MODEL, "--quiet", "--threads", 1)
        self.assertEqual(found.returncode, 0, found.stderr)
        return [{key: value for key, value in json.loads(line).items() if not key.endswith("seconds")}
                for line in found.stdout.splitlines()]

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_context_and_text(self):
        ferry = "Anna Walker steers the ferry Marigold."
        wanted = None
        for file in (self.write("a.jsonl", json.dumps({"id": 1, "context": ferry}) + "\n"),
                     self.write("b.jsonl", json.dumps({"id": 1, "text": ferry}) + "\n"),
                     self.write("c.csv", f"id,text\n1,{ferry}\n")):
            for command in (["ask", file, "-q", "Who steers the ferry Marigold?", "--max-tokens", 8],
                            ["ask", file, "-q", "Who steers the ferry Marigold?", "--max-new", 8]):
                rows = self.rows(*command)
                self.assertEqual(rows[0]["answer"], "Anna Walker")
            values = self.rows("extract", file, "--schema", '{"ferry":"text"}')[0]["values"]
            wanted = wanted or values
            self.assertEqual(values, wanted)
        mapped = self.write("d.jsonl", json.dumps({"id": 1, "body": ferry, "text": "no"}) + "\n")
        for field in ("context=body", "text=body"):
            row = self.rows("ask", mapped, "-q", "Who steers the ferry Marigold?", "--field", field)[0]
            self.assertEqual(row["answer"], "Anna Walker")

    def test_tables_of_extract_and_rag(self):
        source = self.write("in.csv", "id;text;question\n1;=Anna steers.;Who?\n")
        for command in (["extract", "--schema", '{"who":"text"}'], ["ask"]):
            out = self.folder / (command[0] + ".csv")
            self.rows(*command, source, "--delimiter", ";", "--csv-safe", "-o", out)
            self.assertTrue(out.read_text().count(";") >= 2, out.read_text())
            self.assertNotIn(";=Anna", out.read_text())
        rows = self.write("in.jsonl", json.dumps({"id": 1, "question": "Who?", "documents": [{"id": "=d", "text": "Anna."}]}))
        out = self.folder / "rag.csv"
        self.rows("rag", rows, "--delimiter", ";", "--csv-safe", "--columns", "id,answer", "-o", out)
        self.assertTrue(out.read_text().startswith("id;"), out.read_text())


class Journal(unittest.TestCase):
    """What the journal's header had when there was no table."""

    def parameters(self, command, record, *options):
        with tempfile.TemporaryDirectory() as folder:
            source, out = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            pathlib.Path(source).write_text(json.dumps(record) + "\n")
            found = run(command, source, "-m", MODEL, "--threads", 1, "--quiet", "-o", out, *options)
            self.assertLess(found.returncode, 2, found.stderr)
            journal = pathlib.Path(out + ".journal").read_bytes()
        header = json.JSONDecoder().raw_decode(journal[journal.index(b"{"):].decode("utf-8", "replace"))[0]
        return header["parameters"]

    def test_headers(self):
        wanted = json.loads((ROOT / "tests" / "data" / "journal_parameters.json").read_text())
        self.assertEqual(len(wanted), 7)
        for job in wanted:
            found = self.parameters(job["command"], job["record"], *job["options"])
            self.assertEqual({name: found.get(name) for name in job["parameters"]}, job["parameters"])
            self.assertEqual(set(found), set(job["parameters"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
