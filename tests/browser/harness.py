"""What tests in a browser share: one Chromium for a file of tests, pages that are watched, pictures that are kept.

With PICTURES in the environment, a folder, screenshots are kept there to be looked at. Without a Chromium a file of
tests ends with 77, which ctest calls skipped.
"""
import os
import pathlib
import sys
import unittest

from chromium import DESK, Chromium, Page, find_chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = os.environ.get("PICTURES")

# Text whose contrast with what is behind it is below WCAG's 4.5 (3 for large letters), and the worst of all.
CONTRAST = r"""(() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const known = new Map();
  const parse = colour => known.get(colour) ?? known.set(colour, paint(colour)).get(colour);
  const paint = colour => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (front, back) => [0, 1, 2].map(i => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
  const light = c => {
    const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
  };
  const found = [];
  let worst = 99;
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || (e.placeholder && !e.value);
    if (!own || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || e.closest('[disabled],script,style')) continue;
    const style = getComputedStyle(e), back = behind(e), svg = e instanceof SVGElement;
    const colour = e.placeholder && !e.value ? getComputedStyle(e, '::placeholder').color : svg ? style.fill : style.color;
    const [a, b] = [light(over(parse(colour), back)), light(back)], size = parseFloat(style.fontSize);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    worst = Math.min(worst, ratio);
    if (ratio < (size >= 24 || (size >= 18.6 && style.fontWeight >= 700) ? 3 : 4.5))
      found.push(`${ratio.toFixed(2)} ${e.tagName}.${e.className.baseVal ?? e.className} ${(e.textContent || e.placeholder).trim().slice(0, 30)}`);
  }
  return {found, worst};
})()"""

INTERACTIVE = {"button", "textbox", "searchbox", "combobox", "listbox", "tab", "link", "checkbox", "radio", "img",
               "spinbutton", "slider", "grid", "table", "tablist", "tabpanel", "menuitem", "dialog", "region"}


class Outcomes(unittest.TestResult):
    """Keeps what a test reported, to be told to the true result or forgotten."""

    def __init__(self):
        super().__init__()
        self.told = []

    def addSuccess(self, test):
        self.told.append(("addSuccess", test))

    def addFailure(self, test, error):
        self.told.append(("addFailure", test, error))

    def addError(self, test, error):
        self.told.append(("addError", test, error))

    def addSkip(self, test, reason):
        self.told.append(("addSkip", test, reason))

    def addSubTest(self, test, subtest, error):
        self.told.append(("addSubTest", test, subtest, error))


class BrowserTest(unittest.TestCase):
    """A browser that crashes during a test is replaced, and the test is run once more. A second crash is a failure."""
    maxDiff = None
    browser = None

    @classmethod
    def setUpClass(cls):
        BrowserTest.browser = BrowserTest.browser or Chromium()  # main() closes it

    def run(self, result=None):
        result = self.defaultTestResult() if result is None else result
        first = Outcomes()
        super().run(first)
        if self.browser.ended:
            print(f"{self.id()}: the browser crashed; once more with another\n"
                  f"{''.join(str(told[-1][1]) for told in first.told if told[0] != 'addSuccess')}", file=sys.stderr)
            BrowserTest.browser.close()
            BrowserTest.browser = Chromium()
            super().run(result)
        else:
            result.startTest(self)
            for name, *arguments in first.told:
                getattr(result, name)(*arguments)
            result.stopTest(self)
        return result

    def page(self, url, size=DESK, dark=False):
        page = Page(self.browser, size, dark)
        self.addCleanup(self._close_page, page)
        page.opened_in = page.open(url)
        return page

    def _close_page(self, page):
        if not self.browser.ended:
            page.close()

    def picture(self, page, name):
        if PICTURES:
            pathlib.Path(PICTURES).mkdir(parents=True, exist_ok=True)
            page.screenshot(pathlib.Path(PICTURES) / f"{name}.png")

    def assert_quiet(self, page, origin):
        """No complaint, and nothing asked of anybody but `origin`."""
        page.look()
        self.assertEqual(page.complaints, [])
        others = [url for url in page.requests if not url.startswith((origin, "data:", "blob:"))]
        self.assertEqual(others, [])

    def assert_fits(self, page):
        """Nothing is wider than the window."""
        wide = page.run("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide[0], wide[1])

    def assert_contrast(self, page):
        self.assertEqual(page.run(CONTRAST)["found"], [])

    def assert_readable(self, page):
        """Contrast of all text in sight, and a name for whatever can be operated."""
        self.assert_contrast(page)
        page.call("Accessibility.enable")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        page.call("Accessibility.disable")  # it slows down every change
        nameless = [node["role"]["value"] for node in nodes
                    if not node.get("ignored") and node.get("role", {}).get("value") in INTERACTIVE
                    and not node.get("name", {}).get("value", "").strip()]
        self.assertEqual(nameless, [])
        self.assertEqual(page.run("[...document.querySelectorAll('[id]')].map(e => e.id)"
                                  ".filter((id, i, all) => all.indexOf(id) !== i)"), [])
        self.assertTrue(page.run("!!document.documentElement.lang && !!document.title && !!document.querySelector('h1')"))

    def focus_order(self, page, steps):
        """What Tab reaches, by id, else by label or text."""
        reached = []
        for _ in range(steps):
            page.key("Tab")
            reached.append(page.run("(e => e.id || e.getAttribute('aria-label') || e.textContent.trim().slice(0, 40) "
                                    "|| e.tagName)(document.activeElement)"))
        return reached


def main():
    if find_chromium() is None:
        print("skipped: no Chromium here: apt-get install chromium")
        sys.exit(77)
    try:
        unittest.main(verbosity=2)
    finally:
        if BrowserTest.browser:
            BrowserTest.browser.close()
