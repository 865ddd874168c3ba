"""The page on the real server: `banyan serve` with the shipped model, each task by one click, and what is copied."""
import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from chromium import DESK
from harness import ROOT, BrowserTest, main
from test_page import DONE

BANYAN = os.environ["BANYAN"]
MODEL = str(ROOT / "models/banyan-reader-34m.gguf")


def pdf_of(text):
    """A page of PDF with one line of text."""
    stream = f"BT /F1 18 Tf 40 700 Td ({text}) Tj ET"
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
               "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
               f"<</Length {len(stream)}>>stream\n{stream}\nendstream", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    out, places = "%PDF-1.4\n", []
    for i, body in enumerate(objects):
        places.append(len(out))
        out += f"{i + 1} 0 obj{body}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return f"{out}xref\n0 6\n0000000000 65535 f \n{table}trailer<</Size 6/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"


def timeless(row):
    return {name: value for name, value in row.items() if name not in ("first_token_seconds", "seconds")}


def start_server(*arguments):
    """A server with the shipped model on any port: (its process, its address)."""
    process = subprocess.Popen([BANYAN, "serve", "-m", MODEL, "--port", "0", *arguments], stderr=subprocess.PIPE, text=True)
    said = ""
    while not (found := re.search(r"http://[0-9.]+:\d+/", said)):
        line = process.stderr.readline()
        assert line, f"the server has ended: {said}"
        said += line
    return process, found[0]


def stop_server(process):
    process.terminate()
    process.wait(timeout=120)
    process.stderr.close()


class Serve(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.process, cls.url = start_server("--threads", "1")

    @classmethod
    def tearDownClass(cls):
        stop_server(cls.process)
        super().tearDownClass()

    def visit(self, task):
        page = self.page(f"{self.url}#{task}", DESK)
        page.wait("document.getElementById('model').textContent === 'banyan-reader-34m'")
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"], origin=self.url)
        page.call("Page.bringToFront")
        return page

    def example(self, task):
        page = self.visit(task)
        page.click(".panel:not([hidden]) .example")
        page.wait(DONE + " && !document.querySelector('.panel:not([hidden]) .progress').hidden", 200)
        self.assertTrue(page.run("document.getElementById('error').hidden"), page.text("#error"))
        self.picture(page, f"serve-{task}")
        return page

    def copied(self, page, form):
        page.click(f".panel:not([hidden]) [data-copy={form}]")
        page.wait(f"document.querySelector('.panel:not([hidden]) [data-copy={form}]').textContent === 'Copied'")
        return page.run("navigator.clipboard.readText()")

    def check_command(self, page, output):
        """What was copied does the same on the command line."""
        rows = [timeless(json.loads(line)) for line in self.copied(page, "jsonl").splitlines()]
        with tempfile.TemporaryDirectory() as folder:
            path = f"{pathlib.Path(BANYAN).resolve().parent}:{os.environ['PATH']}"
            subprocess.run(["sh", "-ec", self.copied(page, "command")], cwd=folder, check=True, capture_output=True, timeout=250,
                           env={**os.environ, "PATH": path, "BANYAN_MODEL": MODEL})
            lines = pathlib.Path(folder, output).read_text().splitlines()
        self.assertEqual(rows, [timeless(json.loads(line)) for line in lines])
        return rows

    def test_ask(self):
        page = self.example("ask")
        rows = self.check_command(page, "answers.jsonl")
        said = {(row["id"], row["question"]): row["answer"] for row in rows}
        self.assertEqual(len(said), 24)
        self.assertEqual(said["Marigold", "At what time does the ferry leave?"], "7:45")
        self.assertIsNone(said["Otter", "How much does entry cost?"])
        self.assertGreater(int(page.run("document.querySelector('progress').value")), 23)
        self.assertIn("saved by sharing", page.texts("dt"))
        titles = page.texts(".forest .node title")
        self.assertRegex(titles[0], r"^instruction: \d+ tokens, 24 readers$")
        self.assertEqual(sorted(re.sub(r"\d+ tokens", "N tokens", title) for title in titles[1:4]),
                         [f"{name}: N tokens, 8 readers" for name in ("Marigold", "Otter", "Tamberley")])
        page.click(".cell")
        self.assertEqual(page.texts("#reader mark"), ["7:45"])
        self.assert_readable(page)
        self.assert_quiet(page, self.url)

    def test_extract(self):
        page = self.example("extract")
        rows = self.check_command(page, "values.jsonl")
        self.assertEqual([row["values"]["brand"] for row in rows], ["Kelvora", "Ostrava", "Deltron"])
        self.assertIn("Kelvora", page.texts(".values:first-child mark"))
        self.assertRegex(page.texts(".forest .node title")[0], r"^instruction: \d+ tokens, 18 readers$")  # a value each
        self.assert_quiet(page, self.url)

    def test_experts(self):
        page = self.example("experts")
        rows = self.check_command(page, "answers.jsonl")
        self.assertEqual(rows[0]["answer"], "Anna Walker; doctor")
        # Who knew each of the two; how a name goes on every document can tell.
        owed = {t["text"].strip(): t["document"] for t in rows[0]["trace"]["tokens"]}
        self.assertEqual((owed["Anna"], owed["doctor"]), ("harbour", "village"))
        self.assertEqual(page.text(".experts .said"), rows[0]["answer"])
        # Each question reads four documents and, for what is known without any, none. A picture is of a moment, and has
        # one question or both; whichever, it is whole.
        readers = collections.Counter(re.sub(r"\d+ tokens?", "N", title) for title in page.texts(".forest .node title"))
        one, both = ({f"instruction: N, {5 * n} readers": 1, f"document: N, {n} reader{'s' * (n - 1)}": 4, "question: N, 1 reader": 5 * n,
                      "answer: N, 1 reader": 5 * n} for n in (1, 2))
        self.assertIn(readers, (one, both))
        self.assert_quiet(page, self.url)

    def test_options_are_those_of_the_command_line(self):
        """Words of one's own and a least confidence: other rows than by default, and those that the command writes."""
        for task, output in (("ask", "answers.jsonl"), ("extract", "values.jsonl")):
            page = self.visit(task)
            page.run("document.getElementById('options').open = true; document.getElementById('copy').value = 'false'; document.getElementById('confidence').value = 0.9")
            page.click(".panel:not([hidden]) .example")
            page.wait(DONE + " && !document.querySelector('.panel:not([hidden]) .progress').hidden", 200)
            rows = self.check_command(page, output)
            self.assertTrue(any("withheld" in row or row.get("reasons") for row in rows), rows)

    def test_a_table_into_a_file_has_the_rows_of_the_command_line(self):
        page = self.visit("ask")
        page.run("window.showSaveFilePicker = undefined")
        with tempfile.TemporaryDirectory() as folder:
            self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
            table = pathlib.Path(folder, "ferries.csv")
            table.write_text("id,note\n" + "".join(f"f{i},The ferry number {i} leaves at {i}:45. Its code is K{i} 😀.\n" for i in range(1, 6)))
            node = page.call("Runtime.evaluate", expression="document.getElementById('files')")["result"]["objectId"]
            page.call("DOM.setFileInputFiles", files=[str(table)], objectId=node)
            page.wait("document.querySelectorAll('#document-list li').length === 5")
            page.run("document.getElementById('questions').value = 'At what time does the ferry leave?\\nWhat is its code?'")
            page.click("#to-file")
            page.wait(DONE + " && document.querySelector('.latest')", 100)
            output, end = pathlib.Path(folder, "answers.jsonl"), time.monotonic() + 120
            while time.monotonic() < end and not (output.exists() and output.read_text().endswith("\n")):
                time.sleep(0.05)
            subprocess.run([BANYAN, "ask", "-m", MODEL, table, "--field", "context=note", "-q", "At what time does the ferry leave?", "-q", "What is its code?",
                            "--ordered", "-o", "expected.jsonl", "--quiet"], cwd=folder, check=True, timeout=250)
            expected = [timeless(json.loads(line)) for line in pathlib.Path(folder, "expected.jsonl").read_text().splitlines()]
            self.assertEqual([timeless(json.loads(line)) for line in output.read_text().splitlines()],
                             [{name: value for name, value in row.items() if name != "note"} for row in expected])

    def test_files_and_a_refused_schema(self):
        page = self.visit("extract")
        with tempfile.TemporaryDirectory() as folder:
            files = {"a.pdf": pdf_of("The brand is Kelvora."), "b.html": "<h1>Lamp</h1><p>The brand is <b>Ostrava</b>.", "c.txt": "Plain ü"}
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text)
            node = page.call("Runtime.evaluate", expression="document.getElementById('files')")["result"]["objectId"]
            page.call("DOM.setFileInputFiles", files=[str(pathlib.Path(folder, name)) for name in files], objectId=node)
            page.wait("document.querySelectorAll('#document-list li').length === 3")
        texts = []
        for i in range(3):
            page.click(f"#document-list li:nth-child({i + 1}) .open")
            texts.append(page.run("document.getElementById('edit-text').value").strip())
            page.key("Escape")
        self.assertIn("The brand is Kelvora.", texts[0])
        self.assertIn("The brand is Ostrava.", texts[1])
        self.assertEqual(texts[2], "Plain ü")
        page.run("""(t => { t.value = '{"attributes":[{"name":"x","type":"float"}]}'; t.dispatchEvent(new Event('input')); })
                    (document.getElementById('schema-text'))""")
        page.click("#run")
        page.wait("!document.getElementById('error').hidden")
        self.assertIn("expected one of text, number", page.text("#error"))

    def test_stop(self):
        page = self.visit("ask")
        page.run("""(() => { document.getElementById('paste').value = 'The ferry leaves at 7:45. '.repeat(60);
            document.getElementById('questions').value = Array.from({length: 400}, (_, i) => `When does ferry ${i} leave?`).join('\\n'); })()""")
        page.click("#run")
        page.wait("document.querySelector('.answers-list .answer:not(.waiting)')", 100)
        page.key("Escape")
        page.wait(DONE)
        self.assertIn("answers, then stopped", page.texts("dt"))
        self.assertLess(page.run("document.querySelector('progress').value"), 400)
        self.assert_quiet(page, self.url)


class BesideTheEngine(BrowserTest):
    """A server as it is started by default: the engine has every core, or all but one, and the browser needs time too."""

    def test_hundreds_of_questions_do_not_freeze_the_page(self):
        process, url = start_server()
        self.addCleanup(stop_server, process)
        page = self.page(f"{url}#ask", DESK)
        page.wait("document.getElementById('model').textContent")
        page.run("""(() => { document.getElementById('paste').value = 'The ferry leaves at 7:45. The captain is Anna Walker. ';
            document.getElementById('questions').value = Array.from({length: 400}, (_, i) => `At what time does ferry ${i} leave?`).join('\\n');
            window.pictures = [[performance.now(), 0]]; const look = () => { pictures.push([performance.now(), document.querySelector('.panel:not([hidden]) progress').value]);
              requestAnimationFrame(look); }; requestAnimationFrame(look); })()""")
        page.click("#run")
        page.wait(DONE + " && document.querySelector('progress').value > 0", 300)
        self.assertEqual(page.run("document.querySelector('.panel:not([hidden]) progress').value"), 400)
        pictures = page.run("pictures")
        during = pictures[:1 + next((i for i, p in enumerate(pictures) if p[1] == 400), len(pictures))]
        span = during[-1][0] - during[0][0]
        gaps = [b[0] - a[0] for a, b in zip(during, during[1:])]
        states = len({p[1] for p in during if 0 < p[1] < 400})
        print(f"400 questions: {span / 1000:.1f} s until the last answer, {len(during)} pictures "
              f"with {states} states, {max(gaps, default=0):.0f} ms the longest without one")
        # Answers are seen as they come: a page that freezes shows nothing until the end. A fast machine is done in few
        # pictures, and other programs of the machine may take their time, too.
        self.assertGreaterEqual(states, min(6, span // 2000))
        self.assertLess(max(gaps, default=0), max(10_000, span / 2))
        self.assert_quiet(page, url)

    def test_the_server_is_nicer_than_the_browser(self):
        for arguments, niceness in (((), 5), (("--threads", "1"), 0), (("--address", "0.0.0.0"), 0)):
            process, _ = start_server(*arguments)
            own, end = os.getpriority(os.PRIO_PROCESS, 0), time.monotonic() + 60
            found = set()
            while max(niceness, own) not in found and time.monotonic() < end:  # a thread may have just begun
                for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                        found.add(int((task / "stat").read_text().rsplit(")", 1)[1].split()[16]))
            stop_server(process)
            self.assertIn(max(niceness, own), found, arguments)
            if not niceness:
                self.assertEqual(found, {own}, arguments)


if __name__ == "__main__":
    main()
