"""An index on disk, a question on the command line, the page of traces, scores."""
import html.parser
import json
import os
import re
import unittest

from harness import MODEL, SAMPLES, RagTest, read_rows

CODES = str(SAMPLES / "code_documents.jsonl")


class Page(html.parser.HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.attributes += attributes
        if tag not in ("meta", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class Index(RagTest):
    def make_notes(self):
        filler = "Some buttons were sold in the square for a good price. "
        self.write("notes/harbour.txt", filler * 3 + "The ferry Marigold leaves at 7:45. " + filler)
        self.write("notes/deep/tea.txt", "The secret code of the yacht Tervonax is KT-4821. " + filler)
        self.write("notes/other.txt", filler * 5)

    def test_a_question_on_the_command_line(self):
        self.make_notes()
        made = self.run_banyan("rag", "index", "notes")
        self.assertIn("3 documents", made.stderr)
        question = "Which secret code does the yacht Tervonax have?"
        asked = self.run_banyan("rag", "-m", MODEL, question)
        self.assertTrue(asked.stdout.startswith("KT-4821\n  notes/deep/tea.txt, characters "), asked.stdout)
        self.assertEqual(self.run_banyan("rag", "-m", MODEL, question, "--quiet").stdout, "KT-4821\n")
        begin, end = map(int, re.search(r"characters (\d+) to (\d+)", asked.stdout).groups())
        with open(self.path("notes/deep/tea.txt"), encoding="utf-8") as file:
            self.assertIn(file.read()[begin:end], "KT-4821")
        row = json.loads(self.run_banyan("rag", "-m", MODEL, "--json", "At what time does the ferry Marigold leave?",
                                         "--trace", "t.html").stdout)
        self.assertEqual(row["answer"], "7:45")
        self.assertTrue(os.path.exists(self.path("t.html")))
        unknown = self.run_banyan("rag", "-m", MODEL, "Who painted the ferry Marigold?")
        self.assertTrue(unknown.stdout.startswith("(no document answers the question)\n"), unknown.stdout)
        self.assertFalse([line for line in unknown.stdout.splitlines()[1:] if not line.startswith("  or ")], unknown.stdout)
        self.assertEqual(unknown.stderr, "")
        nothing = self.run_banyan("rag", "-m", MODEL, "Zzyzx quux?", code=2)
        self.assertIn("shares a word", nothing.stderr)

    def test_links_out_of_the_folder_are_left_out(self):
        self.make_notes()
        self.write("private/secret.txt", "The secret name of the lighthouse is Ozyrion.")
        os.symlink(self.path("private/secret.txt"), self.path("notes/innocent.txt"))
        os.symlink("harbour.txt", self.path("notes/same.txt"))
        said = self.run_banyan("rag", "index", "IDX", "notes", code=1).stderr
        self.assertIn("innocent.txt: left out: a link to a file outside of notes", said)
        self.assertIn("4 documents", said)
        with open(self.path("IDX/index.banyan"), "rb") as file:
            self.assertNotIn(b"Ozyrion", file.read())
        self.assertIn("5 documents", self.run_banyan("rag", "index", "IDX", "notes", "notes/innocent.txt", code=1).stderr)

    def test_many_questions_over_an_index(self):
        self.make_notes()
        self.run_banyan("rag", "index", "idx", "notes/harbour.txt", "notes/deep", "--passage-words", "20", "--quiet")
        questions = [{"id": 1, "question": "At what time does the ferry Marigold leave?"},
                     {"id": 2, "question": "Which secret code does the yacht Tervonax have?"}]
        rows = self.rag(self.write("q.jsonl", questions), "--index", "idx", "--top", "3")
        self.assertEqual([row["answer"] for row in rows], ["7:45", "KT-4821"])
        with open(self.path("notes/harbour.txt"), encoding="utf-8") as file:
            text = file.read()
        for citation in rows[0]["citations"]:
            self.assertEqual(text[citation["source_begin"]:citation["source_end"]], citation["text"])
        self.assertTrue(all(len(row["trace"]["documents"]) <= 3 for row in rows))

    def test_passages_are_found_without_a_model(self):
        self.make_notes()
        self.run_banyan("rag", "index", "notes", "--quiet")
        found = self.run_banyan("rag", "search", "Which ferry leaves?").stdout.splitlines()
        self.assertTrue(found[0].startswith("notes/harbour.txt, from character 0 ("), found)
        self.assertIn("The ferry Marigold leaves at 7:45.", found[1])
        one = json.loads(self.run_banyan("rag", "search", "yacht", "--json", "--top", "1").stdout)
        self.assertEqual([p["source"] for p in one["passages"]], ["notes/deep/tea.txt"])
        self.assertGreater(one["passages"][0]["score"], 0)
        self.assertEqual(self.run_banyan("rag", "search", "Zzyzx").stdout, "(no passage shares a word with it)\n")
        asked = [{"id": 7, "question": "yacht"}, {"question": 3}, {"id": 8, "question": "Zzyzx"}]
        many = self.run_banyan("rag", "search", self.write("q.jsonl", asked), "--top", "1", code=1)
        rows = [json.loads(line) for line in many.stdout.splitlines()]
        self.assertEqual([(row.get("id"), len(row.get("passages", []))) for row in rows], [(7, 1), (None, 0), (8, 0)])
        self.assertIn("q.jsonl, line 2: expected an object with \"question\"", rows[1]["error"]["message"])
        self.assertIn("3 questions in ", many.stderr)
        piped = self.run_banyan("rag", "search", "-", "--quiet", stdin='{"question":"yacht"}\n\nno JSON\n', code=1)
        self.assertIn("stdin, line 3", piped.stdout.splitlines()[1])
        self.assertIn("--by", self.run_banyan("rag", "search", "yacht", "--by", "luck", code=2).stderr)
        self.assertIn("vectors", self.run_banyan("rag", "search", "yacht", "--by", "dense", code=2).stderr)
        self.assertIn("nowhere", self.run_banyan("rag", "search", "yacht", "--index", "nowhere", code=2).stderr)

    def test_a_damaged_index_is_refused(self):
        self.make_notes()
        self.run_banyan("rag", "index", "idx", "notes", "--quiet")
        path = self.path("idx/index.banyan")
        with open(path, "r+b") as file:
            file.seek(200)
            byte = file.read(1)
            file.seek(200)
            file.write(bytes([byte[0] ^ 1]))
        result = self.run_banyan("rag", "-m", MODEL, "When does it leave?", "--index", "idx", code=2)
        self.assertIn("damaged", result.stderr)
        self.run_banyan("rag", "index", "idx", "absent.txt", code=2)
        result = self.run_banyan("rag", "index", "notes/other.txt", "notes/harbour.txt", code=2)
        self.assertIn("folder first", result.stderr)

    def test_the_page_needs_nothing_but_itself(self):
        records = read_rows(CODES)
        records[0]["documents"][0]["id"] = '<script>alert("1")</script>'
        rows = self.rag(self.write("in.jsonl", records), "--trace", self.path("t.html"))
        with open(self.path("t.html"), encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.assertEqual(page.open, [])
        names = {tag for tag, _ in page.tags}
        self.assertFalse(names & {"script", "link", "img", "iframe", "object"}, names)
        self.assertFalse([a for a in page.attributes if a[0] in ("src", "href") or a[0].startswith("on")])
        self.assertNotIn("http", text)
        self.assertNotIn("url(", text)
        marks = [a for tag, a in page.tags if tag == "rect"]
        self.assertEqual(len(marks), sum(row["tokens"] for row in rows))
        self.assertEqual(len([1 for tag, _ in page.tags if tag == "svg"]), len(rows))
        for row in rows:
            self.assertIn(row["answer"], page.text)
        # Every mark of the first drawing stands in its document's line.
        first = rows[0]["trace"]
        lines = [d["id"] for d in first["documents"]]
        top = min(int(a["y1"]) for tag, a in page.tags if tag == "line")
        height = sorted({int(a["y1"]) for tag, a in page.tags if tag == "line"})
        step = height[1] - height[0]
        found = [(int(a["y"]) + 7 - top + step // 2) // step for a in marks[:len(first["tokens"])]]
        self.assertEqual(sorted(found), sorted(lines.index(t["document"]) for t in first["tokens"]))

    def test_scores(self):
        gold = read_rows(CODES)
        answers = [dict(id=gold[0]["id"], answer="It is The " + gold[0]["answers"][0] + ".", method="m",
                        citations=[{"document": d["id"]} for d in gold[0]["documents"] if d["gold"]]),
                   dict(id=gold[1]["id"], error={"kind": "limit", "message": "x"})]
        result = self.run_banyan("eval", "rag", CODES, self.write("out.jsonl", answers), "--json")
        score = json.loads(result.stdout)
        self.assertEqual((score["questions"], score["errors"], score["missing"]), (2, 1, 0))
        self.assertEqual((score["sub_span"], score["exact"]), (0.5, 0.0))
        self.assertAlmostEqual(score["f1"], 0.5 * 2 * 1 / 4)
        self.assertEqual(score["recall_cited"], 0.5)
        rows = self.path("rows.jsonl")
        self.run_banyan("rag", "-m", MODEL, CODES, "-o", rows, "--quiet")
        table = self.run_banyan("eval", "rag", CODES, rows, self.path("out.jsonl")).stdout.splitlines()
        self.assertEqual(len(table), 3)
        self.assertRegex(table[1], r"^experts +2 +1\.000 +1\.000 +1\.000–1\.000 +1\.000 +0\.000 +0\.000 +0 +1\.000 +1\.000")


if __name__ == "__main__":
    unittest.main(verbosity=2)
