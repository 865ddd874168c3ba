"""The page of `make evidence` in Chromium, of a real run at a tiny size: plots, tables, no script, light and dark, phones."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from chromium import PHONE
from harness import ROOT, BrowserTest, main


class Evidence(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = tempfile.TemporaryDirectory(prefix="banyan-evidence-")
        cls.folder = pathlib.Path(cls.home.name)
        done = subprocess.run([sys.executable, "-B", "-m", "bench.evidence", "--size", "tiny", "--minutes", "8", "--draws", "20", "--out", cls.folder, "--banyan", os.environ["BANYAN"]],
                              cwd=ROOT, capture_output=True, text=True, timeout=540)
        assert done.returncode == 0, done.stderr
        cls.made = json.loads((cls.folder / "evidence.json").read_text())
        cls.url = (cls.folder / "evidence.html").as_uri()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()
        super().tearDownClass()

    def test_every_part_is_seen(self):
        page = self.page(self.url)
        self.picture(page, "evidence-light")
        self.assertEqual(page.run("document.scripts.length + document.images.length"), 0)
        sections = page.run("[...document.querySelectorAll('section')].map(s => s.id)")
        self.assertEqual(sections, ["papers", *self.made["sweeps"], *self.made["tables"]])
        # Every sweep that has figures has a plot with marks inside its frame.
        for name, sweep in self.made["sweeps"].items():
            self.assertEqual(sweep["left_out"], "", name)
            marks = page.run(f"""[...document.querySelectorAll('#{name} svg')].map(svg => {{
                const frame = svg.getBoundingClientRect();
                const marks = [...svg.querySelectorAll('.mark, .bar')].map(m => m.getBoundingClientRect());
                return [marks.length, marks.filter(r => r.left < frame.left || r.right > frame.right || r.top < frame.top || r.bottom > frame.bottom).length]; }})""")
            self.assertTrue(marks, name)
            for count, outside in marks:
                self.assertGreater(count, 0, name)
                self.assertEqual(outside, 0, name)
        self.assertEqual(len(page.run("[...document.querySelectorAll('#papers tbody tr')].map(r => r.cells.length)")), len(self.made["papers"]))
        self.assert_readable(page)
        self.assert_quiet(page, self.url)

    def test_texts_of_plots_do_not_overlap(self):
        page = self.page(self.url)
        overlaps = page.run("""[...document.querySelectorAll('svg.plot')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text')].filter(t => !t.hasAttribute('transform')).map(t => [t.textContent, t.getBoundingClientRect()]);
            return texts.flatMap(([a, r], i) => texts.slice(i + 1).filter(([b, s]) =>
                r.left < s.right - 1 && s.left < r.right - 1 && r.top < s.bottom - 3 && s.top < r.bottom - 3).map(([b]) => `${svg.getAttribute('aria-label')}: ${a} / ${b}`)); })""")
        self.assertEqual(overlaps, [])

    def test_dark_and_phone(self):
        for size, dark, name in ((None, True, "dark"), (PHONE, True, "phone-dark"), (PHONE, False, "phone-light")):
            page = self.page(self.url, size or (1280, 860), dark)
            self.picture(page, f"evidence-{name}")
            self.assert_fits(page)
            self.assert_readable(page)
        light, dark = (self.page(self.url, dark=d).run("getComputedStyle(document.body).backgroundColor") for d in (False, True))
        self.assertNotEqual(light, dark)


if __name__ == "__main__":
    main()
