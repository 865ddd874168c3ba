"""`banyan rag --trace` in Chromium: a mark for every token in its document's line, no script, dark, phones."""
import json
import os
import pathlib
import subprocess
import tempfile

from chromium import PHONE
from harness import ROOT, BrowserTest, main

SAMPLE = ROOT / "eval/samples/two_hop_documents.jsonl"


class Trace(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = tempfile.TemporaryDirectory(prefix="banyan-trace-")
        cls.folder = pathlib.Path(cls.home.name)
        records = [json.loads(line) for line in SAMPLE.read_text().splitlines()[:2]]
        records[1]["documents"][0]["id"] = "<img src=http://example.org/x onerror=alert(1)>"
        (cls.folder / "in.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        subprocess.run([os.environ["BANYAN"], "rag", "-m", ROOT / "models/banyan-reader-34m.gguf", "in.jsonl",
                        "--relevance", "equal", "--ordered", "--quiet", "-o", "out.jsonl", "--trace", "trace.html"],
                       cwd=cls.folder, check=True, timeout=250)
        cls.rows = [json.loads(line) for line in (cls.folder / "out.jsonl").read_text().splitlines()]
        cls.url = (cls.folder / "trace.html").as_uri()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()
        super().tearDownClass()

    def test_marks_stand_beside_their_documents(self):
        page = self.page(self.url)
        self.picture(page, "trace-light")
        self.assertEqual(page.run("document.scripts.length + document.images.length"), 0)
        self.assertEqual([text.strip() for text in page.texts(".answer")], [row["answer"] for row in self.rows])
        # The name at the height of every mark, as it is seen.
        found = page.run("""[...document.querySelectorAll('section')].map(s => [...s.querySelectorAll('.won')].map(mark => {
            const middle = r => r.y + r.height / 2, y = middle(mark.getBoundingClientRect());
            return [...s.querySelectorAll('.names li')].find(li => Math.abs(middle(li.getBoundingClientRect()) - y) < 4)
                .querySelector('b').textContent; }))""")
        self.assertEqual(found, [[t["document"] for t in row["trace"]["tokens"]] for row in self.rows])
        self.assertGreater(len(set(found[0])), 1)  # two documents take turns
        colours = page.run("[...document.querySelectorAll('section:first-of-type .won')].map(m => getComputedStyle(m).fill)")
        self.assertEqual(len(set(colours)), len(set(found[0])))
        self.assert_readable(page)
        self.assert_quiet(page, self.url)

    def test_dark_and_phone(self):
        for size, dark, name in ((None, True, "dark"), (PHONE, True, "phone-dark"), (PHONE, False, "phone-light")):
            page = self.page(self.url, size or (1280, 860), dark)
            self.picture(page, f"trace-{name}")
            self.assert_fits(page)
            self.assert_readable(page)

    def test_a_long_answer_scrolls_in_its_own_place(self):
        text = (self.folder / "trace.html").read_text()
        wide = text.replace("<svg role=\"img\"", "<svg style=\"min-width:6000px\" role=\"img\"")
        (self.folder / "wide.html").write_text(wide)
        page = self.page((self.folder / "wide.html").as_uri(), PHONE)
        self.assert_fits(page)
        page.key("Tab")
        self.assertEqual(page.run("document.activeElement.className"), "scroll")
        page.key("ArrowRight")
        page.wait("document.activeElement.scrollLeft > 0")

    def test_five_hundred_traces_open_at_once(self):
        text = (self.folder / "trace.html").read_text()
        begin, end = text.index("<section>"), text.index("</body>")
        (self.folder / "many.html").write_text(text[:begin] + text[begin:end] * 250 + text[end:])
        page = self.page((self.folder / "many.html").as_uri())
        print(f"500 traces: open {page.opened_in:.2f} s, {page.work():.2f} s of processor time")
        self.assertLess(page.work(), 25)
        self.assertEqual(page.run("document.querySelectorAll('section').length"), 500)


if __name__ == "__main__":
    main()
