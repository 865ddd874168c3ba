"""Takes the pictures of docs/images: the page in light, dark and on a phone, and a terminal of 80 columns.

    BANYAN=build/release/banyan python3 tests/browser/screenshots.py docs/images

What is shown is what the program does: the shipped model answers. REQUIRES: Debian's chromium; where pngquant is found,
pictures have 128 colours and are a third as large.
"""
import fcntl
import html
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time

from chromium import Chromium, Page
from harness import ROOT
from test_page import DONE

BANYAN = str(pathlib.Path(os.environ["BANYAN"]).resolve())
MODEL = str(ROOT / "models" / "banyan-reader-34m.gguf")
DESK, PHONE = (1160, 840), (390, 844)
COLUMNS, SECONDS = 80, 120
NOTES = """The ferry Marigold leaves at 7:45 every morning. Anna Walker steers it. It has 64 seats.
The harbour office is in Dover Street. The code of the gate is KT-4821.
"""
KETTLE = "Kelvora Trail 200 kettle\n\nColour : moss green\nWeight : 3 kg\nPrice : 45 dollars\nThe brand is Kelvora.\n"
COMMANDS = [
    ["ask", "notes.txt", "Who steers the ferry Marigold?", "What is the code of the gate?", "What does a ticket cost?"],
    ["extract", "kettle.txt", "--schema", '{"brand": "text", "price": "text"}', "--quiet"],
    ["ask", "notes.txt", "-q", "Who steers it?", "-o", "answers.csv", "--quiet"],
    ["ask", "kettle.txt", "-q", "What colour is it?", "-o", "answers.csv"],
]


def small(path):
    """Fewer colours: a page of text has few."""
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--skip-if-larger", "--output", path, "128", path], check=False)
    print(f"{path}: {os.path.getsize(path) / 1000:.0f} KB")


def on_terminal(command, folder):
    """What a command writes to a terminal of 80 columns."""
    pid, master = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        os.chdir(folder)
        os.execve(BANYAN, ["banyan", *command], {**os.environ, "TERM": "xterm-256color", "BANYAN_MODEL": MODEL})
    seen, end = b"", time.monotonic() + SECONDS
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(master, 65536)
        except OSError:
            data = b""
        if not data:
            break
        seen += data
    else:
        os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(master)
    return seen.decode()


class Screen:
    """Lines of (character, style), as the sequences that the program writes leave them. Lines wrap at 80 columns."""

    def __init__(self):
        self.lines, self.x, self.y, self.style = [[]], 0, 0, ""

    def write(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.|\n", text, re.S):
            if part.startswith("\x1b["):
                self._control(part[2:-1], part[-1])
            elif part == "\r":
                self.x = 0
            elif part == "\n":
                self._down()
            elif part >= " ":
                if self.x == COLUMNS:
                    self.x = 0
                    self._down()
                line = self.lines[self.y]
                line += [(" ", "")] * (self.x + 1 - len(line))
                line[self.x] = (part, self.style)
                self.x += 1

    def _down(self):
        self.y += 1
        if self.y == len(self.lines):
            self.lines.append([])

    def _control(self, numbers, letter):
        if letter == "m":
            words = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "amber"}
            self.style = " ".join(filter(None, [*self.style.split(), *(words.get(n, "") for n in numbers.split(";"))]))
            if numbers in ("", "0"):
                self.style = ""
        elif letter == "K":
            del self.lines[self.y][self.x:]
        elif letter == "J":
            del self.lines[self.y][self.x:]
            del self.lines[self.y + 1:]
        elif letter == "A":
            self.y = max(0, self.y - int(numbers or 1))

    def html(self):
        def line_of(line):
            return "".join(f'<span class="{style}">{html.escape(character)}</span>' if style else html.escape(character)
                           for character, style in line)
        return "\n".join(map(line_of, self.lines))


def terminal(browser, folder):
    screen = Screen()
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "notes.txt").write_text(NOTES)
        pathlib.Path(work, "kettle.txt").write_text(KETTLE)
        for command in COMMANDS:
            words = " ".join(word if re.fullmatch(r"[\w./-]+", word) else f"'{word}'" if '"' in word else f'"{word}"' for word in command)
            screen.write(f"\x1b[32m$\x1b[0m banyan {words}\r\n" + on_terminal(command, work))
            if screen.lines[screen.y]:
                screen.write("\r\n")
        page_file = pathlib.Path(work, "terminal.html")
        page_file.write_text(f"""<!doctype html><meta charset="utf-8"><style>body {{ margin: 0; background: #191816; width: fit-content; }}
            pre {{ margin: 0; padding: 18px 20px; width: {COLUMNS}ch; font: 14px/1.45 "DejaVu Sans Mono", monospace; color: #ebe7de; }}
            .bold {{ font-weight: 700; }} .dim {{ color: #a7a195; }} .green {{ color: #7cc49a; }} .red {{ color: #f09a7c; }} .amber {{ color: #e0ac4e; }}
            </style><pre>{screen.html()}</pre>""")
        page = Page(browser, DESK, dark=True)
        page.open(page_file.as_uri())
        page.resize(page.run("[Math.ceil(document.querySelector('pre').offsetWidth), Math.ceil(document.querySelector('pre').offsetHeight)]"))
        page.screenshot(folder / "terminal.png")
        page.close()
    small(str(folder / "terminal.png"))


def picture(browser, url, folder, name, size, dark, task="ask"):
    page = Page(browser, size, dark)
    page.open(f"{url}#{task}")
    page.wait("document.getElementById('model').textContent")
    page.run("document.querySelector('.panel:not([hidden]) .example').click()")
    page.wait(DONE + " && !document.querySelector('.panel:not([hidden]) .progress').hidden", SECONDS)
    page.run("document.activeElement.blur()")
    if task == "experts":  # room for the trace
        page.run("document.querySelector('.panel:not([hidden]) .forest').open = false; document.querySelector('.explained').open = true")
    if size == PHONE:
        page.run("document.querySelector('.panel:not([hidden])').scrollIntoView()")
    time.sleep(0.3)
    page.screenshot(folder / f"{name}.png")
    page.close()
    small(str(folder / f"{name}.png"))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen([BANYAN, "serve", "-m", MODEL, "--port", "0"], stderr=subprocess.PIPE, text=True)
    browser = Chromium()
    try:
        said = server.stderr.readline()
        while not (found := re.search(r"http://[0-9.]+:\d+/", said)):
            said += server.stderr.readline()
        for name, size, dark, task in (("page", DESK, False, "ask"), ("page-dark", DESK, True, "experts"), ("page-phone", PHONE, False, "ask")):
            picture(browser, found[0], folder, name, size, dark, task)
        terminal(browser, folder)
    finally:
        browser.close()
        server.terminate()
        server.wait(timeout=60)


if __name__ == "__main__":
    main()
