"""axe-core's rules on the page of `banyan serve` and its dialogs: light, dark, and as wide as a phone.

axe-core comes by npm each time and is not kept. Skipped (exit code 77) where npm or its registry cannot be reached;
AXE names a file axe.min.js to use instead.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from chromium import DESK, PHONE
from harness import main
from test_page import FERRIES, PageTest

PACKAGE = "axe-core@4.14.0"
ALL = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]  # what differs between light and dark
RUN = """(async () => { const found = await axe.run(document, {runOnly: %s});
    return {rules: found.passes.length, violations: found.violations.map(v => `${v.id}: ${v.help}: ${v.nodes.map(n => n.target.join(' ')).slice(0, 4).join(', ')}`)}; })()"""


def fetch():
    """The text of axe.min.js, or None and why not."""
    if "AXE" in os.environ:
        return pathlib.Path(os.environ["AXE"]).read_text(), ""
    npm = shutil.which("npm")
    if npm is None:
        return None, "no npm here"
    with tempfile.TemporaryDirectory(prefix="banyan-axe-") as folder:
        try:
            done = subprocess.run([npm, "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, f"npm did not get {PACKAGE} in 120 s"
        archives = list(pathlib.Path(folder).glob("axe-core-*.tgz"))
        if done.returncode != 0 or not archives:
            return None, f"npm cannot get {PACKAGE}: {(done.stderr or done.stdout).strip()[-300:]}"
        with tarfile.open(archives[0]) as archive:
            return archive.extractfile("package/axe.min.js").read().decode(), ""


class Axe(PageTest):
    script = ""

    def check(self, page, what, only=ALL, least=21):
        if not page.run("!!window.axe"):
            page.run(self.script + "\n;1")
        page.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        found = page.run(RUN % json.dumps(only))
        self.assertEqual(found["violations"], [], what)
        self.assertGreaterEqual(found["rules"], least)

    def check_dark(self, page, what):
        page.prefer(dark=True)
        self.check(page, what + ", dark", COLOURS, 1)
        page.prefer(dark=False)

    def test_the_rules_find_what_is_wrong(self):
        page = self.visit()
        page.run("document.getElementById('theme').removeAttribute('aria-label'); document.getElementById('theme').textContent = ''")
        with self.assertRaisesRegex(AssertionError, "button-name"):
            self.check(page, "a button without a name")
        page.run("document.querySelector('h1').style.color = '#333'")  # which is readable on white
        with self.assertRaisesRegex(AssertionError, "color-contrast"):
            self.check_dark(page, "a headline that stays dark")

    def test_every_task_before_and_after(self):
        self.server.adapters = ["reader"]
        for size in (DESK, PHONE):
            for task in ("ask", "extract", "experts"):
                what = f"{task} {size[0]} wide"
                page = self.visit(task, size)
                self.check(page, what + ", welcome")
                self.check_dark(page, what + ", welcome")
                self.example(page)
                self.check(page, what)
                self.check_dark(page, what)
                page.close()
                self._cleanups.pop()

    def test_dialogs_lists_and_refusals(self):
        for dark, size in ((False, DESK), (True, PHONE)):
            page = self.visit(size=size, dark=dark)
            page.run("""(() => { const data = new DataTransfer();
                for (const [name, text] of [['a.csv', 'id,text,other\\n1,The ferry leaves at noon.,x\\n'], ['empty.txt', ''], ['odd.bin', 'x']])
                  data.items.add(new File([text], name));
                for (const type of ['dragenter', 'dragover', 'drop'])
                  document.body.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true})); })()""")
            page.wait("document.querySelectorAll('#refused-list li').length === 2")
            self.check(page, "a table and what was refused")
            self.give(page, [], ["When does the ferry leave?", "Who sings?", "FAIL?"])
            self.ask(page)
            self.check(page, "a list of answers")
            page.click(".answers-list li:first-child button")
            self.check(page, "the reader")
            page.key("Escape")
            page.click("#document-list .open")
            self.check(page, "a document to change")
            page.key("Escape")
            page.run("document.getElementById('key-open').hidden = false; document.getElementById('key-open').click()")
            self.check(page, "the dialog of the key")
            page.key("Escape")
            self.server.mode = "busy"
            self.ask(page)
            self.check(page, "an error")
            self.server.mode = ""

    def test_rows_that_go_into_a_file(self):
        page = self.visit()
        page.run("window.showSaveFilePicker = undefined")
        self.browser.call("Browser.setDownloadBehavior", behavior="deny")
        self.give(page, FERRIES, ["When does the ferry leave?"])
        page.click("#to-file")
        page.wait("document.querySelectorAll('.latest li').length === 2 && document.getElementById('stop').hidden")
        self.check(page, "the last rows")


if __name__ == "__main__":
    Axe.script, reason = fetch()
    if Axe.script is None:
        print(f"skipped: {reason}")
        sys.exit(77)
    main()
