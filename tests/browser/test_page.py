"""The page of `banyan serve` in Chromium, against a server that speaks its protocol (fake_server.py)."""
import csv
import io
import json
import os
import pathlib
import stat
import subprocess
import tempfile
import time

from chromium import DESK, PHONE
from fake_server import FakeServer, answer_of
from harness import BrowserTest, main

FERRIES = [{"id": "a", "text": "The ferry leaves at noon. It has twelve seats."},
           {"id": "b", "text": "The ferry leaves at dawn. Nobody knows why."}]
DONE = "document.getElementById('stop').hidden && !document.querySelector('[aria-busy=true]')"
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> 'quoted' \"$(touch taken)` \\ 😀"


class PageTest(BrowserTest):
    def setUp(self):
        self.server = FakeServer()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def visit(self, task="ask", size=DESK, dark=False):
        page = self.page(f"{self.server.url}#{task}", size, dark)
        page.wait("document.getElementById('model').textContent")
        return page

    def give(self, page, documents, questions=()):
        page.run(f"""(() => {{ const paste = document.getElementById('paste'), add = document.getElementById('add-text');
            for (const text of {json.dumps([d["text"] for d in documents])}) {{ paste.value = text; add.click(); }}
            document.getElementById('questions').value = {json.dumps(chr(10).join(questions))};
            document.getElementById('questions').dispatchEvent(new Event('input')); }})()""")

    def ask(self, page, timeout=90):
        page.click("#run")
        page.wait(DONE, timeout)

    def example(self, page):
        page.click(".panel:not([hidden]) .example")
        page.wait(DONE + " && !document.querySelector('.panel:not([hidden]) .progress').hidden")


    def watch_frames(self, page):
        """Keeps in `frames` of the page, for every picture of a run, what is shown as done and how long scripts took for it."""
        page.run("""(() => { window.frames_ = []; const ask = requestAnimationFrame; let script = 0;
            window.requestAnimationFrame = take => ask(time => { const begin = performance.now(); take(time); script += performance.now() - begin; });
            const look = () => { const bar = document.querySelector('.panel:not([hidden]) progress');
              frames_.push({done: bar.value, script}); script = 0; ask(look); };
            Object.defineProperty(window, 'frames', {get: () => frames_}); ask(look); })()""")


class Tasks(PageTest):
    def test_one_click_shows_answers_side_by_side(self):
        page = self.visit()
        self.assertFalse(page.run("document.querySelector('.panel:not([hidden]) .welcome').hidden"))
        self.example(page)
        path, asked = self.server.seen[-1]
        self.assertEqual((path, asked["stream"], asked["forest"]), ("/v1/ask", True, True))
        shown = page.run("[...document.querySelectorAll('.matrix-row')].slice(1).map(r => [...r.querySelectorAll('.cell')].map(c => c.textContent))")
        expected = [[(answer_of(d["text"], q) or ["does not say"])[0] for d in asked["documents"]] for q in asked["questions"]]
        self.assertEqual(shown, expected)  # more questions than documents: questions go down
        self.assertIn("saved by sharing", page.texts("dt"))
        self.assert_quiet(page, self.server.url)

    def test_the_longer_of_the_two_goes_down(self):
        page = self.visit()
        self.give(page, FERRIES + [{"text": "Nothing of the kind."}], ["When does the ferry leave?", "How many seats?"])
        self.assertEqual(page.text("#plan"), "3 × 2 = 6 answers")
        self.ask(page)
        self.assertEqual(page.texts(".across"), ["When does the ferry leave?", "How many seats?"])
        self.assertEqual(page.run("[...document.querySelectorAll('.matrix-row')].slice(1).map(r => r.querySelector('.cell').textContent)"),
                         ["The ferry leaves at noon", "The ferry leaves at dawn", "does not say"])

    def test_one_document_gives_a_list_that_opens_the_text(self):
        page = self.visit()
        self.give(page, FERRIES[:1], ["When does the ferry leave?", "Who sings?"])
        self.ask(page)
        self.assertEqual(page.texts(".answers-list .answer"), ["The ferry leaves at noon", "does not say"])
        page.click(".answers-list li:first-child button")
        self.assertEqual(page.texts("#reader mark"), ["The ferry leaves at noon"])
        self.assertEqual(page.text("#reader-text"), FERRIES[0]["text"])
        self.assert_readable(page)
        self.picture(page, "page-reader")

    def test_values_are_marked_where_they_stand(self):
        page = self.visit("extract")
        self.example(page)
        asked = self.server.seen[-1][1]
        self.assertEqual([a["name"] for a in asked["schema"]["attributes"]], page.texts(".values:first-child th"))
        self.assertEqual(page.run("[...document.querySelector('.values').querySelectorAll('mark')].map(m => [m.dataset.names, m.textContent])"),
                         [["colour", "moss green"], ["weight", "3 kg"], ["price", "45 dollars"], ["brand", "Kelvora"]])
        self.assertEqual(page.texts(".values .text"), [d["text"] for d in asked["documents"]])
        self.assert_quiet(page, self.server.url)

    def test_the_trace_names_who_wrote_what(self):
        page = self.visit("experts")
        self.example(page)
        found = page.run("""[...document.querySelector('.experts').querySelectorAll('rect')].map(mark => {
            const middle = r => r.y + r.height / 2, y = middle(mark.getBoundingClientRect());
            return [...document.querySelector('.experts').querySelectorAll('.names li')]
                .find(li => Math.abs(middle(li.getBoundingClientRect()) - y) < 4).querySelector('button').textContent; })""")
        titles = page.run("[...document.querySelector('.experts').querySelectorAll('rect title')].map(t => t.textContent.split(':')[0])")
        self.assertEqual(found, titles)
        self.assertEqual(set(found), {"village", "harbour"})
        self.assertEqual(self.server.seen[-1][1]["relevance"], "equal")
        page.click(".cite")
        self.assertIn(page.text("#reader mark"), page.text(".cite"))
        self.assert_quiet(page, self.server.url)

    def test_the_schema_as_rows_and_as_json(self):
        page = self.visit("extract")
        page.run("document.querySelector('.attribute input').focus()")
        page.type("brand")
        self.assertEqual(json.loads(page.run("document.getElementById('schema-text').value")), {"attributes": [{"name": "brand"}]})
        page.run("""(t => { t.value = JSON.stringify({attributes: [{name: 'size', type: 'enum', values: ['S', 'M']}]});
                    t.dispatchEvent(new Event('input')); })(document.getElementById('schema-text'))""")
        self.assertEqual(page.run("[...document.querySelectorAll('.attribute input, .attribute select')].map(e => e.value)"),
                         ["size", "enum", "S, M"])
        page.run("(t => { t.value = '{'; t.dispatchEvent(new Event('input')); })(document.getElementById('schema-text'))")
        self.assertIn("no JSON", page.text("#schema-problem"))
        self.give(page, FERRIES)
        page.click("#run")
        self.assertIn("no JSON", page.text("#error"))
        self.assertEqual(self.server.seen, [])

    def test_hostile_text_stays_text(self):
        for task in ("ask", "extract", "experts"):
            page = self.visit(task)
            page.run(f"""(t => {{ t.value = JSON.stringify({{attributes: [{{name: {json.dumps(HOSTILE)}}}]}});
                        t.dispatchEvent(new Event('input')); }})(document.getElementById('schema-text'))""")
            self.give(page, [{"text": f"quoted {HOSTILE} : {HOSTILE}"}, {"text": "touch"}], [f"quoted {HOSTILE}?", "taken?"])
            self.ask(page)
            self.assertIn(HOSTILE.split("`")[0], page.text("#results"))
            self.assertEqual(page.run("document.title"), "Banyan")
            self.assertEqual(page.run("document.images.length + document.scripts.length"), 2)
            self.assert_quiet(page, self.server.url)


class Streams(PageTest):
    def test_text_appears_as_it_is_written_and_stop_stops_the_server(self):
        self.server.pause = 0.15
        page = self.visit()
        page.click(".example")
        page.wait("document.querySelector('.cell.writing') && document.querySelector('.cell.writing').textContent.length > 4")
        page.wait("document.querySelectorAll('.cell:not(.waiting):not(.writing)').length >= 2")
        self.picture(page, "page-streaming")
        # Of one moment: more may come between two looks.
        page.wait("document.querySelector('[aria-busy=true] progress').value === "
                  "document.querySelectorAll('.cell:not(.waiting):not(.writing)').length")
        page.click("#stop")
        page.wait(DONE)
        self.assertTrue(self.server.cancelled.wait(60))
        self.assertIn("answers, then stopped", page.texts("dt"))
        self.assertIn("Stopped", page.text("#announce"))
        self.assertFalse(page.run("document.getElementById('run').disabled"))
        self.picture(page, "page-stopped")
        self.assert_quiet(page, self.server.url)

    def test_escape_stops_too(self):
        self.server.pause = 0.2
        page = self.visit()
        page.click(".example")
        page.wait("document.querySelector('.cell.writing')")
        page.key("Escape")
        page.wait(DONE)
        self.assertTrue(self.server.cancelled.wait(60))

    def test_the_forest_is_drawn_while_it_grows(self):
        self.server.pause = 0.06
        page = self.visit()
        page.click(".example")
        page.wait("document.querySelector('.forest .node.computing')")
        self.server.pause = 0  # seen growing: the rest may come at once
        page.wait(DONE)
        self.assertEqual(page.run("document.querySelectorAll('.forest .node.computing').length"), 0)
        nodes = page.run("""[...document.querySelectorAll('.forest .node')].map(n => [n.querySelector('title').textContent,
            n.querySelector('.ghost') ? n.querySelector('.ghost').getBoundingClientRect().width : 0])""")
        self.assertEqual(len(nodes), 1 + 3 + 24 + 24)
        self.assertTrue(nodes[0][0].startswith("instruction: 30 tokens, 24 readers"))
        self.assertAlmostEqual(nodes[0][1], sum(width for _, width in nodes[1:4]), delta=12)
        self.assertIn("saved", page.run("document.querySelector('.forest svg').getAttribute('aria-label')"))

    def test_the_forest_remembers_what_has_ended(self):
        self.server.mode = "waves"
        page = self.visit()
        page.click(".example")
        page.wait(DONE + " && document.querySelector('.forest .node')")
        titles = page.texts(".forest .node title")
        self.assertEqual(len([t for t in titles if t.startswith("answer")]), 24)
        self.assertTrue(titles[0].startswith("instruction: 30 tokens, 24 readers"), titles[0])
        self.assertEqual([t.split(":")[0] for t in titles[1:4]], ["Marigold", "Otter", "Tamberley"])
        self.assertTrue(all("8 readers" in t for t in titles[1:4]), titles[1:4])

    def test_questions_that_were_over_between_two_pictures_are_drawn_and_confidence_is_seen(self):
        self.server.mode = "quick"
        page = self.visit()
        page.click(".example")
        page.wait(DONE + " && document.querySelector('.forest .node')")
        titles = page.texts(".forest .node title")
        self.assertEqual([len([t for t in titles if t.startswith(name)]) for name in ("question", "answer")], [24, 24])
        sure = page.run("""[...document.querySelectorAll('.cell.answer')].map(e =>
            [e.classList.contains('null'), getComputedStyle(e, '::after').content])""")
        self.assertEqual({said for _, said in sure}, {'"84 %"'})

    def test_no_answer_on_a_phone_is_too_long_for_its_confidence(self):
        self.server.mode = "quick"
        page = self.visit(size=PHONE)
        page.click(".example")
        page.wait(DONE + " && document.querySelector('.cell[data-sure]')")
        places = page.run("""[...document.querySelectorAll('.cell[data-sure]')].map(e => {
            e.firstChild.data = 'a very long answer '.repeat(20);
            const style = getComputedStyle(e, '::after');
            return [style.position, style.right, style.bottom, style.backgroundColor === getComputedStyle(e).backgroundColor]; })""")
        self.assertEqual({tuple(place) for place in places}, {("absolute", "0px", "0px", True)})
        spilled = page.run("[...document.querySelectorAll('.tabs button')].some(b => b.scrollWidth > b.clientWidth)")
        self.assertFalse(spilled, "the words of a tab are wider than it")

    def test_on_a_phone_the_answers_come_into_view(self):
        page = self.visit(size=PHONE)
        page.click(".example")
        page.wait(DONE)
        page.wait("(box => box.top >= 0 && box.top < innerHeight / 2)(document.querySelector('.answer').getBoundingClientRect())")

    def test_fifty_documents_and_a_hundred_questions(self):
        self.server.pause, self.server.max_answers = 0, 5000
        page = self.visit()
        self.give(page, [{"text": f"Letter {i}. The ferry leaves at {i} o'clock. Tom number {i} steers it."} for i in range(50)],
                  [f"When does the ferry leave, version {j}?" for j in range(100)])
        before, start = page.work(), time.monotonic()
        self.watch_frames(page)
        page.click("#run")
        page.wait(DONE, 400)
        work, frames = page.work() - before, page.run("frames")
        print(f"5000 answers in 35 000 events: {work:.1f} s of processor time in {time.monotonic() - start:.1f} s, "
              f"{len(frames)} pictures, the longest script of one {max(f['script'] for f in frames):.0f} ms")
        # It is brought up to date all along, in pieces: the page is never busy with all that came.
        self.assertGreater(len({f["done"] for f in frames}), 20)
        self.assertEqual(page.run("document.querySelectorAll('.cell:not(.waiting):not(.writing)').length"), 5000)
        self.assertIn("5,000", page.texts("dd"))
        self.assertLess(work, 25)  # 7 s beside twenty other programs
        self.assertLess(page.run("document.querySelectorAll('.forest svg *').length"), 6000)
        self.picture(page, "page-large")
        self.assert_quiet(page, self.server.url)


class Errors(PageTest):
    def test_refusals_in_words(self):
        page = self.visit()
        page.click("#run")
        self.assertIn("There is no document", page.text("#error"))
        self.assertEqual(page.run("document.activeElement.id"), "paste")
        self.give(page, FERRIES, [])
        page.click("#run")
        self.assertIn("There is no question", page.text("#error"))
        self.give(page, [], ["When does the ferry leave?"])
        self.server.mode = "busy"
        self.ask(page)
        self.assertIn("busy", page.text("#error"))
        self.assertEqual(page.text("#error"), "The server is busy. Try again in 7 seconds. (the queue is full)")
        self.assertEqual(page.texts(".answer"), [])
        self.picture(page, "page-error")
        self.assert_readable(page)
        self.server.mode = ""
        self.ask(page)
        self.assertTrue(page.run("document.getElementById('error').hidden"))

    def test_a_refused_schema_is_told_in_the_servers_words(self):
        self.server.mode = "refused"
        page = self.visit("extract")
        page.click(".panel:not([hidden]) .example")
        page.wait("!document.getElementById('error').hidden")
        self.assertIn("at /attributes/0/type", page.text("#error"))

    def test_a_stream_that_breaks_keeps_what_came(self):
        self.server.mode = "broken"
        page = self.visit()
        page.click(".example")
        page.wait("document.querySelectorAll('.cell:not(.waiting):not(.writing)').length === 1")
        self.server.may_break.set()
        page.wait("!document.getElementById('error').hidden")
        self.assertIn("What was answered is below", page.text("#error"))
        self.assertIn("1 of 24", page.texts("dd"))

    def test_a_server_that_is_gone(self):
        page = self.visit()
        self.give(page, FERRIES, ["When does the ferry leave?"])
        self.server.mode = "gone"
        self.ask(page)
        self.assertIn("does not answer", page.text("#error"))

    def test_failed_rows_stand_in_their_place(self):
        page = self.visit()
        self.give(page, FERRIES, ["When does the ferry leave?", "FAIL?"])
        self.ask(page)
        self.assertEqual(page.texts(".cell.bad"), ["the document is longer than the model reads"] * 2)
        self.assertIn("failed", page.texts("dt"))

    def test_a_document_that_cannot_be_read_fails_whole(self):
        page = self.visit()
        self.give(page, FERRIES + [{"text": "UNREADABLE"}], ["When does the ferry leave?", "How many seats?"])
        self.ask(page)
        self.assertEqual(page.texts(".cell.bad"), ["not a document"] * 2)
        self.assertEqual(page.texts(".cell.stopped, .cell.never"), [])
        self.assertIn("6", page.texts("dd"))

    def test_an_api_key_is_asked_for_and_forgotten(self):
        self.server.key = "secret-7"
        page = self.visit()
        self.give(page, FERRIES, ["When does the ferry leave?"])
        page.click("#run")
        page.wait("document.getElementById('key-dialog').open")
        self.assert_readable(page)
        self.picture(page, "page-key")
        page.type("wrong")
        page.key("Enter")  # and it is asked again
        page.wait("document.getElementById('key-dialog').open && document.getElementById('error').textContent.includes('does not know this one')")
        page.type("secret-7")
        page.key("Enter")
        page.wait(DONE + " && document.querySelectorAll('.answers-list .answer:not(.waiting):not(.stopped)').length === 2")
        self.assertEqual(page.texts(".answers-list .answer"), ["The ferry leaves at noon", "The ferry leaves at dawn"])
        kept = page.run("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.documentElement.outerHTML])")
        self.assertNotIn("secret-7", kept)


class Hands(PageTest):
    def test_files_are_chosen_and_dropped(self):
        page = self.visit()
        with tempfile.TemporaryDirectory() as folder:
            names = {"note.txt": "The ferry leaves at noon.", "rows.jsonl": '{"id":"r1","text":"one","category":"shoe","other":1}\n{"context":"two"}\n', "odd.bin": "x"}
            for name, text in names.items():
                pathlib.Path(folder, name).write_text(text)
            node = page.call("Runtime.evaluate", expression="document.getElementById('files')")["result"]["objectId"]
            page.call("DOM.setFileInputFiles", files=[str(pathlib.Path(folder, name)) for name in names], objectId=node)
            page.wait("document.querySelectorAll('#document-list li').length === 3 && !document.getElementById('refused').hidden")
        self.assertEqual(page.texts("#document-list b"), ["note.txt", "r1", "line 2"])
        self.assertEqual(page.texts("#refused-list li"), ["odd.bin: expected text, HTML or PDF"])
        page.run("""(() => { const data = new DataTransfer(); data.items.add(new File(['Dropped text.'], 'drop.txt', {type: 'text/plain'}));
            for (const type of ['dragenter', 'dragover', 'drop'])
              document.body.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true})); })()""")
        page.wait("document.querySelectorAll('#document-list li').length === 4")
        self.assertTrue(page.run("document.getElementById('drop').hidden"))
        page.click("#document-list li:nth-child(4) .open")
        self.assertEqual(page.run("document.getElementById('edit-text').value"), "Dropped text.")
        page.run("document.getElementById('edit-text').value = 'Changed.'")
        self.assert_readable(page)
        page.click("#edit-save")
        page.run("location.hash = 'extract'")
        page.wait("!document.getElementById('schema-part').hidden")
        page.run("document.querySelector('.attribute input').focus()")
        page.type("size")
        self.ask(page)
        self.assertEqual([d.get("category") for d in self.server.seen[-1][1]["documents"]], [None, "shoe", None, None])
        self.assertEqual(set(self.server.seen[-1][1]["documents"][1]), {"id", "text", "category"})
        page.click("#document-list li:nth-child(2) .quiet")
        self.assertEqual(page.texts("#document-list b"), ["note.txt", "line 2", "drop.txt"])
        self.assertIn("8 characters", page.text("#document-list li:nth-child(3)"))

    def test_keys_alone(self):
        page = self.visit()
        self.assertEqual(self.focus_order(page, 9), ["Skip to the answers", "tab-ask", "theme", "paste", "add-text", "choose-files",
                                                     "questions", "Options", "run"])
        for _ in range(5):
            page.key("Tab", shift=True)
        self.assertEqual(page.run("document.activeElement.id"), "paste")
        page.type("The ferry leaves at noon.")
        page.key("Tab")
        page.key("Enter")
        page.run("document.getElementById('paste').focus()")
        page.type("The ferry leaves at dawn.")
        page.run("document.getElementById('questions').focus()")
        page.type("When does the ferry leave?\nWho sings?")
        page.key("Enter", control=True)  # what was pasted counts too
        page.wait(DONE + " && document.querySelector('.matrix')")
        self.assertEqual(page.text("#announce"), "Done: 4 answers")
        page.run("document.querySelector('.cell[tabindex=\"0\"]').focus()")
        page.key("ArrowRight")
        self.assertEqual(page.run("document.activeElement.textContent"), "The ferry leaves at dawn")
        page.key("ArrowDown")
        page.key("ArrowDown")
        page.key("Home")
        page.key("ArrowUp")
        page.key("Enter")
        self.assertTrue(page.run("document.getElementById('reader').open"))
        self.assertEqual(page.texts("#reader mark"), ["The ferry leaves at noon"])
        page.key("Escape")
        self.assertFalse(page.run("document.getElementById('reader').open"))
        self.assertEqual(page.run("document.activeElement.textContent"), "The ferry leaves at noon")
        page.run("document.getElementById('tab-ask').focus()")
        page.key("ArrowRight")
        page.wait("!document.getElementById('schema-part').hidden && document.activeElement.id === 'tab-extract'")

    def test_everything_is_named_and_readable(self):
        for size in (DESK, PHONE):
            for task in ("ask", "extract", "experts"):
                page = self.visit(task, size)
                self.assert_fits(page)
                self.assert_readable(page)
                page.prefer(dark=True)
                self.assert_contrast(page)
                self.example(page)
                self.assert_fits(page)
                self.assert_contrast(page)
                self.picture(page, f"page-{task}-{'phone' if size == PHONE else 'desk'}-dark")
                page.prefer(dark=False)
                self.assert_readable(page)
                self.picture(page, f"page-{task}-{'phone' if size == PHONE else 'desk'}-light")
                page.close()
                self._cleanups.pop()

    def test_the_button_switches_light_and_dark(self):
        page = self.visit()
        colour = "getComputedStyle(document.body).backgroundColor"
        light = page.run(colour)
        page.click("#theme")
        dark = page.run(colour)
        page.click("#theme")
        self.assertEqual((page.run(colour), light == dark), (light, False))


class Copies(PageTest):
    def copied(self, page, form):
        page.click(f".panel:not([hidden]) [data-copy={form}]")
        page.wait(f"document.querySelector('.panel:not([hidden]) [data-copy={form}]').textContent === 'Copied'")
        return page.run("navigator.clipboard.readText()")

    def visit(self, task="ask", **more):
        page = super().visit(task, **more)
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"], origin=self.server.url)
        page.call("Page.bringToFront")
        return page

    def run_command(self, command):
        """Runs it with a `banyan` that tells its words; returns them and the folder's files."""
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "banyan")
            tool.write_text("#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n")
            tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
            done = subprocess.run(["sh", "-ec", command], cwd=folder, capture_output=True, text=True, check=True,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            files = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir() if file != tool}
            return done.stdout.split("\0")[:-1], files

    def test_answers_as_lines_table_and_command(self):
        page = self.visit()
        questions = ["When does the ferry leave?", "Isn't it \"$HOME\" `ls` \\?"]
        texts = [FERRIES[0]["text"], "END\nThe ferry, \"it\"\nleaves 'soon' $(touch taken)"]
        self.give(page, [{"text": text} for text in texts], questions)
        self.ask(page)
        rows = [json.loads(line) for line in self.copied(page, "jsonl").splitlines()]
        self.assertEqual([(row["id"], row["question_id"]) for row in rows],
                         [("The ferry leaves at noon. It has …", 1), ("The ferry leaves at noon. It has …", 2), ("END", 1), ("END", 2)])
        table = list(csv.DictReader(io.StringIO(self.copied(page, "csv"))))
        self.assertEqual([line["question"] for line in table], questions * 2)
        self.assertEqual([line["answer"] for line in table], [row["answer"] or "" for row in rows])
        words, files = self.run_command(self.copied(page, "command"))
        self.assertEqual(words, ["ask", "documents.jsonl", "-q", questions[0], "-q", questions[1], "--ordered", "-o", "answers.jsonl"])
        self.assertEqual([json.loads(line)["context"] for line in files["documents.jsonl"].splitlines()], texts)
        self.assertEqual(set(files), {"documents.jsonl"})

    def test_many_questions_come_in_a_file(self):
        page = self.visit()
        questions = [f"Question {i}?" for i in range(11)] + ["END"]
        self.give(page, FERRIES, questions)
        self.ask(page)
        words, files = self.run_command(self.copied(page, "command"))
        self.assertEqual(words[:4], ["ask", "documents.jsonl", "--questions", "questions.txt"])
        self.assertEqual(files["questions.txt"].splitlines(), questions)

    def test_options_go_along(self):
        page = self.visit()
        self.give(page, FERRIES, ["When does the ferry leave?"])
        page.run("document.getElementById('options').open = true")
        for instruction in ("Answer 'briefly', $please.", "@home and -away"):
            page.run(f"document.getElementById('instruction').value = {json.dumps(instruction)}; document.getElementById('max-tokens').value = 9")
            self.ask(page)
            asked = self.server.seen[-1][1]
            self.assertEqual((asked["instruction"], asked["max_tokens"]), (instruction, 9))
            words, files = self.run_command(self.copied(page, "command"))
            told = words[words.index("--instruction") + 1]
            self.assertEqual(files["instruction.txt"] if told == "@instruction.txt" else told, instruction)
            self.assertEqual(words[words.index("--max-new") + 1], "9")
            page.wait("document.querySelector('[data-copy=command]').textContent === 'Command'")

    def test_values_and_experts(self):
        page = self.visit("extract")
        self.example(page)
        table = list(csv.DictReader(io.StringIO(self.copied(page, "csv"))))
        self.assertEqual(table[0]["brand"], "Kelvora")
        words, files = self.run_command(self.copied(page, "command"))
        self.assertEqual(words[:4], ["extract", "documents.jsonl", "--schema", "schema.json"])
        self.assertEqual(json.loads(files["schema.json"]), self.server.seen[-1][1]["schema"])
        page = self.visit("experts")
        self.example(page)
        words, files = self.run_command(self.copied(page, "command"))
        self.assertEqual(words[:4], ["rag", "questions.jsonl", "--relevance", "equal"])
        self.assertEqual(json.loads(files["questions.jsonl"].splitlines()[0])["documents"], self.server.seen[-1][1]["documents"])


if __name__ == "__main__":
    main()
