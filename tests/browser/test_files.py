"""What comes into the page of `banyan serve` and out of it: files, tables, refusals, and jobs whose rows go into a file."""
import csv
import io
import json
import pathlib
import tempfile
import time

from chromium import PHONE
from harness import main
from test_page import DONE, FERRIES, PageTest

NO_PICKER = "window.showSaveFilePicker = undefined"  # as in Firefox and Safari; a headless browser has no dialog


class FilesTest(PageTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="banyan-files-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def choose(self, page, files):
        """Files by name, chosen in the page; waits until all of them are taken or refused."""
        paths = []
        for name, content in files.items():
            path = self.folder / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths.append(str(path))
        page.run("document.getElementById('announce').textContent = ''")
        node = page.call("Runtime.evaluate", expression="document.getElementById('files')")["result"]["objectId"]
        page.call("DOM.setFileInputFiles", files=paths, objectId=node)
        page.wait("document.getElementById('announce').textContent.includes(' added')")

    def pick(self, page, label, option):
        page.run(f"""(s => {{ s.value = [...s.options].find(o => o.textContent === {json.dumps(option)}).value; s.dispatchEvent(new Event('change')); }})
                     (document.querySelector('[aria-label={json.dumps(label)}]'))""")

    def listed(self, page):
        return page.run("[...document.querySelectorAll('#document-list li')].map(li => [li.querySelector('b').textContent, li.querySelector('small').textContent])")


class Tables(FilesTest):
    TABLE = 'id,stars,review,notes\n7,5,"The ferry, ""Marigold"", leaves\nat noon.",x\n8,1,The ferry leaves at dawn.,y\n9,3,,z\n10,2,a,b,c\n'

    def test_a_csv_is_a_document_per_row(self):
        page = self.visit()
        self.choose(page, {"reviews.csv": self.TABLE})
        self.assertEqual(self.listed(page), [["7", "38 characters"], ["8", "25 characters"]])
        self.assertEqual(page.texts("#refused-list li"),
                         ["reviews.csv: row 4 has no text in 'review'", "reviews.csv: row 5 has 5 cells, the header 4"])
        self.assertIn("2 rows", page.text("#tables"))
        self.assertEqual(page.run("[...document.querySelectorAll('#tables select')].map(s => s.selectedOptions[0].textContent)"), ["review", "id"])
        self.assert_readable(page)
        self.pick(page, "Text of reviews.csv", "notes")
        page.wait("document.querySelectorAll('#document-list li').length === 3")
        self.assertEqual(self.listed(page), [["7", "1 character"], ["8", "1 character"], ["9", "1 character"]])
        self.pick(page, "Name of reviews.csv", "number of the row")
        page.wait("document.querySelector('#document-list b').textContent === 'row 2'")
        self.pick(page, "Text of reviews.csv", "review")
        page.wait("document.querySelectorAll('#document-list li').length === 2")
        page.run("document.getElementById('questions').value = 'When does the ferry leave?'")
        self.ask(page)
        self.assertEqual(self.server.seen[-1][1]["documents"],
                         [{"id": "row 2", "text": 'The ferry, "Marigold", leaves\nat noon.'}, {"id": "row 3", "text": "The ferry leaves at dawn."}])
        page.click("#tables .quiet")
        self.assertEqual((self.listed(page), page.texts("#tables *")), ([], []))

    def test_the_text_is_guessed(self):
        for table, column in (("name;words\na;a longer text than the name\n", "words"), ("a\tcontext\nlonger than it\tb\n", "context"),
                              ("\ufeffx|y\r\n1|two words\r\n", "y")):
            page = self.visit()
            self.choose(page, {"table.csv": table})
            self.assertEqual(page.run("document.querySelector('#tables select').selectedOptions[0].textContent"), column)
            self.assertEqual(len(self.listed(page)), 1, table)

    def test_dropped_too_and_other_tables(self):
        page = self.visit()
        page.run("""(() => { const data = new DataTransfer(); data.items.add(new File(['text,id\\nDropped text.,d\\n'], 'drop.csv', {type: 'text/csv'}));
            for (const type of ['dragenter', 'dragover', 'drop'])
              document.body.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true})); })()""")
        page.wait("document.querySelectorAll('#document-list li').length === 1")
        self.choose(page, {"a.tsv": "id\ttext\nt\tof a tsv\n", "b.json": '[{"id":"j","text":"of an array"},{"x":1}]', "c.json": '{"context":"alone"}'})
        self.assertEqual([name for name, _ in self.listed(page)], ["d", "t", "j", "entry 1"])
        self.assertEqual(page.texts("#refused-list li"), ["b.json: entry 2: expected a field 'text' or 'context' with a text"])

    def test_ten_thousand_rows_are_taken_at_once(self):
        page = self.visit()
        before = page.work()
        self.choose(page, {"many.csv": "id,text\n" + "".join(f"same,The ferry number {i} leaves.\n" for i in range(10000))})
        self.assertEqual(page.text("#document-count"), "10,000 documents")
        self.assertIn("and 9,800 more", page.text("#document-list"))
        self.assertLess(page.work() - before, 15)  # of processor time


class Refusals(FilesTest):
    def test_every_refused_file_is_listed_with_its_reason(self):
        page = self.visit()
        self.choose(page, {"good.txt": "The ferry leaves at noon.", "empty.txt": "", "blank.txt": " \n ", "odd.bin": "x", "header.csv": "a,b\n",
                           "latin.csv": b"id,text\n1,F\xe4hre\n", "open.csv": 'a,b\n1,"two', "broken.json": "{", "lines.jsonl": '{"text":"fine"}\n{"text":1}\nno\n'})
        self.assertEqual([name for name, _ in self.listed(page)], ["good.txt", "line 1"])
        self.assertEqual(page.text("#refused-title"), "Not added: 9")
        self.assertEqual(page.texts("#refused-list li"), [
            "empty.txt: the file has no text", "blank.txt: the file has no text", "odd.bin: expected text, HTML or PDF",
            "header.csv: the table has a header and no rows", "latin.csv: not valid UTF-8; please save it in that encoding",
            "open.csv: a quote is opened and never closed", "broken.json: this is no JSON",
            "lines.jsonl: line 2: expected a field 'text' or 'context' with a text", "lines.jsonl: line 3 is no JSON"])
        self.assertIn("2 documents added, 9 not added", page.text("#announce"))
        self.assert_readable(page)
        self.picture(page, "page-refused")
        page.click("#refused-close")
        self.assertTrue(page.run("document.getElementById('refused').hidden"))

    def test_characters_are_the_server_s(self):
        page = self.visit()
        text = "Fähre 😀👩‍🚀 é"
        self.choose(page, {"a.txt": text})
        self.assertEqual(self.listed(page), [["a.txt", f"{len(text)} characters"]])


class Options(FilesTest):
    def test_copy_confidence_and_adapter_go_along(self):
        self.server.adapters, self.server.task_adapters = ["reader", "extract", "other"], {"ask": "reader", "extract": "extract"}
        for task, keys in (("ask", {"copy", "min_confidence", "model"}), ("extract", {"copy", "min_confidence", "model"}), ("experts", {"copy", "model"})):
            page = self.visit(task)
            page.run("document.getElementById('options').open = true")
            self.assertEqual(page.texts("#adapter option")[0], {"ask": "reader, by default", "extract": "extract, by default"}.get(task, "none: the model itself"))
            self.assertEqual(page.run("document.getElementById('confidence').checkVisibility()"), task != "experts")
            page.run("""document.getElementById('copy').value = 'true'; document.getElementById('confidence').value = 0.25;
                        document.getElementById('adapter').value = 'other';""")
            self.assert_readable(page)
            self.example(page)
            asked = self.server.seen[-1][1]
            self.assertEqual({key: asked[key] for key in keys}, {key: {"copy": True, "min_confidence": 0.25, "model": "other"}[key] for key in keys})
            self.assertEqual("min_confidence" in asked, task != "experts")

    def test_numbers_that_make_no_sense_are_told(self):
        page = self.visit()
        self.give(page, FERRIES, ["When?"])
        page.run("document.getElementById('options').open = true; document.getElementById('confidence').value = 70")
        page.run("document.getElementById('run').click()")
        page.wait("!document.getElementById('error').hidden || document.querySelector('#confidence:invalid')")
        self.assertEqual(self.server.seen, [])

    def test_no_adapters_no_choice(self):
        page = self.visit()
        page.run("document.getElementById('options').open = true")
        self.assertFalse(page.run("document.getElementById('adapter').checkVisibility()"))


class IntoAFile(FilesTest):
    def visit(self, task="ask", **more):
        page = super().visit(task, **more)
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.folder))
        page.run(NO_PICKER)
        return page

    def saved(self, name):
        path, end = self.folder / name, time.monotonic() + 90
        while not (path.exists() and path.read_text().endswith("\n")) and time.monotonic() < end:
            time.sleep(0.05)
        return path.read_text()

    def test_rows_of_a_large_table(self):
        """More than the page holds, than a request may have, and one document that the server refuses."""
        self.server.mode, self.server.max_answers, self.server.pause = "strict", 6, 0
        page = self.visit()
        long = "word " * 220000
        rows = [[f"n{i}", f"The ferry leaves at {i} o'clock."] for i in range(10)] + [["long", long]] + [[f"m{i}", long[:9] + f"Ferry {i} leaves."] for i in range(10)]
        rows += [[f"pad{i}", ""] for i in range(3)]
        table = io.StringIO()
        csv.writer(table).writerows([["id", "text"]] + rows)
        padding = "".join(f'p{i},"{" " * 1000000}"\n' for i in range(16))  # rows without text, which make it large
        self.choose(page, {"large.csv": table.getvalue() + padding})
        self.assertEqual(self.listed(page), [])
        self.assertIn("read while it is asked", page.text("#tables"))
        page.run("""(q => { q.value = 'When does the ferry leave?\\nWho sings?'; q.dispatchEvent(new Event('input')); })(document.getElementById('questions'))""")
        self.assertIn("rows go into a file", page.text("#plan"))
        self.ask(page, 60)
        got = [json.loads(line) for line in self.saved("answers.jsonl").splitlines()]
        self.assertEqual([(row["id"], row.get("question_id")) for row in got],
                         [(row[0], q) for row in rows[:10] for q in (1, 2)] + [("long", None)] + [(row[0], q) for row in rows[11:21] for q in (1, 2)])
        self.assertEqual(got[0]["answer"], "The ferry leaves at 0 o'clock")
        self.assertIn("more than the server takes", got[20]["error"]["message"])
        self.assertEqual(len(page.texts(".latest li")), 12)
        self.assertIn("41", page.texts("dd"))
        self.assertEqual(len(page.texts("#refused-list li")), 19)
        self.assertTrue(all(len(asked["documents"]) <= 3 for _, asked in self.server.seen))
        self.assert_quiet_but_refusals(page)

    def assert_quiet_but_refusals(self, page):
        page.look()
        self.assertEqual([c for c in page.complaints if "413" not in c and "429" not in c], [])

    def test_any_job_into_a_table(self):
        page = self.visit()
        self.give(page, FERRIES, ["When does the ferry leave?", "FAIL?"])
        page.run("document.getElementById('file-form').value = 'csv'")
        page.click("#to-file")
        page.wait(DONE)
        table = list(csv.DictReader(io.StringIO(self.saved("answers.csv"))))
        self.assertEqual([(row["question"], row["answer"], bool(row["error"])) for row in table],
                         [("When does the ferry leave?", "The ferry leaves at noon", False), ("FAIL?", "", True),
                          ("When does the ferry leave?", "The ferry leaves at dawn", False), ("FAIL?", "", True)])
        self.assert_readable(page)

    def test_values_and_experts(self):
        for task, name, fields in (("extract", "values.csv", ["id", "brand", "colour"]), ("experts", "answers.csv", ["id", "question", "answer"])):
            page = self.visit(task)
            self.example(page)
            page.run("document.getElementById('file-form').value = 'csv'")
            page.click("#to-file")
            page.wait(DONE)
            table = list(csv.DictReader(io.StringIO(self.saved(name))))
            self.assertEqual(list(table[0])[:3], fields)
            self.assertEqual(len(table), 3 if task == "extract" else 2)

    def test_a_file_that_the_person_chose(self):
        page = super().visit()
        page.call("Page.addScriptToEvaluateOnNewDocument", source="""window.showSaveFilePicker = async options => {
            window.suggested = options.suggestedName; const folder = await navigator.storage.getDirectory();
            return window.chosen = await folder.getFileHandle('mine.jsonl', {create: true}); };""")
        page.call("Page.reload")
        page.wait("window.suggested === undefined && showSaveFilePicker.length === 1 && document.getElementById('model').textContent")
        self.give(page, FERRIES, ["When does the ferry leave?"])
        page.click("#to-file")
        page.wait(DONE + " && document.querySelector('.latest')")
        self.assertIn("The rows are in mine.jsonl", page.text(".output"))
        self.assertEqual(page.run("suggested"), "answers.jsonl")
        rows = [json.loads(line) for line in page.run("chosen.getFile().then(file => file.text())").splitlines()]
        self.assertEqual([row["answer"] for row in rows], ["The ferry leaves at noon", "The ferry leaves at dawn"])
        page.run("chosen.remove()")

    def test_stopped_it_keeps_what_came(self):
        self.server.pause, self.server.max_answers = 0.15, 4  # slow enough that a busy browser can stop it
        page = self.visit()
        self.give(page, [{"text": f"Letter {i}. The ferry leaves at noon."} for i in range(40)], ["When does the ferry leave?"])
        page.click("#run")
        page.wait("document.querySelectorAll('.latest li').length >= 6")
        page.key("Escape")
        page.wait(DONE)
        rows = self.saved("answers.jsonl").splitlines()
        self.assertTrue(4 <= len(rows) < 40, len(rows))
        self.assertEqual([json.loads(row)["id"].split(".")[0] for row in rows], [f"Letter {i}" for i in range(len(rows))])
        self.assertIn("Stopped", page.text("#announce"))


class OnAPhone(FilesTest):
    REACHED = """(() => { const seen = element => { element.scrollIntoView({block: 'center', inline: 'center'});
          const r = element.getBoundingClientRect(), hit = document.elementFromPoint((Math.max(0, r.left) + Math.min(innerWidth, r.right)) / 2, r.top + r.height / 2);
          return r.left >= -1 && r.right <= innerWidth + 1 && hit && (element.contains(hit) || hit.contains(element) && hit !== document.body); };
        return [...document.querySelectorAll(SELECTOR)].filter(e => e.checkVisibility() && !seen(e)).map(e => e.outerHTML.slice(0, 120)); })()"""

    def reached(self, page, selector):
        self.assertEqual(page.run(self.REACHED.replace("SELECTOR", json.dumps(selector))), [])

    def test_every_column_can_be_reached(self):
        page = self.visit(size=PHONE)
        self.example(page)
        third = page.run("[document.querySelectorAll('.across')[2].getBoundingClientRect().left, document.querySelector('.matrix').getBoundingClientRect().right]")
        self.assertLess(third[0], third[1] - 20)  # a part of it is in sight: there is more to the right
        self.reached(page, ".cell, .across")
        self.assertEqual(page.run("getComputedStyle(document.querySelector('.matrix')).overflowX"), "auto")
        page = self.visit("extract", size=PHONE)
        page.run("""(t => { t.value = JSON.stringify({attributes: [{name: 'a_rather_long_name_of_an_attribute_of_products'}, {name: 'brand'}, {name: 'price'}]});
                    t.dispatchEvent(new Event('input')); })(document.getElementById('schema-text'))""")
        self.give(page, [{"text": "Brand : Ostrava-with-a-name-that-is-not-hyphenated-anywhere-at-all\nPrice : 120 dollars"}])
        self.ask(page)
        self.assertEqual(len(page.texts(".sure")), 3)
        self.reached(page, ".values th, .values td")
        self.assert_fits(page)
        page = self.visit("experts", size=PHONE)
        self.example(page)
        page.run("document.querySelectorAll('.explained').forEach(d => { d.open = true; })")
        self.reached(page, ".explained td, .explained th, .explained p")
        self.assert_fits(page)


class Trace(FilesTest):
    def test_the_letters_are_explained_in_place(self):
        page = self.visit("experts")
        self.example(page)
        self.assertEqual(page.text(".explained summary"), "What r and β mean")
        page.click(".explained summary")
        self.assertIn("relevance", page.texts(".explained p")[0])
        self.assertIn("contrast", page.texts(".explained p")[1])
        table = page.run("[...document.querySelector('.numbers').rows].map(row => [...row.cells].map(cell => cell.textContent))")
        self.assertEqual(table[0], ["document", "tokens", "r", "β"])
        self.assertEqual([row[2:] for row in table[1:]], [["0.500", "0.250"]] * 4)
        marks = page.run("document.querySelector('.experts').querySelectorAll('rect').length")
        self.assertEqual(sum(int(row[1]) for row in table[1:]), marks)
        self.assert_readable(page)


if __name__ == "__main__":
    main()
