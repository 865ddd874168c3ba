"""Drives a headless Chromium by the DevTools protocol over two pipes: Python's standard library alone.

A browser has a profile of its own, which goes when it is closed. REQUIRES: Debian's chromium, or CHROMIUM in the
environment, the path of one.
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PHONE, DESK = (390, 844), (1280, 860)


def find_chromium():
    """The path of a browser, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


class BrowserError(AssertionError):
    pass


class Chromium:
    """One browser process. Messages are JSON, ended by a zero byte: ours on its descriptor 3, its on 4."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="banyan-browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                 "--force-color-profile=srgb", "--font-render-hinting=none", f"--user-data-dir={self.profile}"]
        if os.geteuid() == 0:  # the sandbox refuses root
            flags.append("--no-sandbox")
        # The browser expects its ends at 3 and 4, which may be taken here: a shell moves them.
        redirect = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        log = open(os.path.join(self.profile, "stderr.txt"), "wb")
        # Chromium puts a socket below TMPDIR, and a socket's path has at most 107 bytes.
        environment = dict(os.environ)
        if len(tempfile.gettempdir()) > 50:
            environment["TMPDIR"] = "/tmp"
        self.process = subprocess.Popen(["bash", "-c", redirect, "browser", find_chromium(), *flags, "about:blank"],
                                        pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, env=environment)
        log.close()
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._last_id, self._events, self._replies = b"", 0, [], {}
        self.ended = False

    def _end(self, what):
        """The browser went without being asked to: what it wrote last tells why."""
        self.ended = True
        with open(os.path.join(self.profile, "stderr.txt"), errors="replace") as log:
            last = "".join([line for line in log if "dbus" not in line][-20:])  # no bus here, as it says all the time
        return BrowserError(f"{what}: the browser has ended, status {self.process.poll()}; its last words:\n{last}")

    def close(self):
        try:
            self.call("Browser.close", timeout=5)
            self.process.wait(timeout=10)
        except (BrowserError, subprocess.TimeoutExpired):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, timeout=90, **parameters):
        """The result of one command of the protocol."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        try:
            while data:
                data = data[os.write(self._write, data):]
        except BrokenPipeError:
            raise self._end(method) from None
        wanted, end = self._last_id, time.monotonic() + timeout
        while wanted not in self._replies:
            self._take(end - time.monotonic(), method)
        reply = self._replies.pop(wanted)
        if "error" in reply:
            raise BrowserError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def events(self, session, seconds=0.0):
        """What a page reported since the last call, after waiting up to `seconds` for something."""
        if not any(e.get("sessionId") == session for e in self._events):
            try:
                self._take(seconds, "events")
            except BrowserError:
                pass
        mine = [e for e in self._events if e.get("sessionId") == session]
        self._events = [e for e in self._events if e.get("sessionId") != session]
        return mine

    def _take(self, seconds, what):
        if not select.select([self._read], [], [], max(0.0, seconds))[0]:
            raise BrowserError(f"{what}: no answer in time")
        data = os.read(self._read, 1 << 20)
        if not data:
            raise self._end(what)
        *messages, self._buffer = (self._buffer + data).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._replies[message["id"]] = message
            else:
                self._events.append(message)


KEYS = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
        "Home": 36, "End": 35, "PageDown": 34, "PageUp": 33}


class Page:
    """One tab: what it asked for, what it complained about, and hands for it."""

    def __init__(self, browser, size=DESK, dark=False):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests, self.complaints = [], []
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        self.resize(size)
        self.prefer(dark)

    def call(self, method, timeout=90, **parameters):
        return self.browser.call(method, self.session, timeout, **parameters)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def resize(self, size):
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)

    def prefer(self, dark):
        """What the person's system prefers, dark or light; pages follow at once."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url, timeout=90):
        """Loads a page; returns the seconds until its scripts have run."""
        start = time.monotonic()
        reply = self.call("Page.navigate", url=url, timeout=timeout)
        if "errorText" in reply:
            raise BrowserError(f"{url}: {reply['errorText']}")
        self.wait("document.readyState === 'complete'", timeout)
        return time.monotonic() - start

    def run(self, expression, timeout=90):
        """The value of an expression of JavaScript, awaited if it is a promise."""
        reply = self.call("Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True,
                          returnByValue=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise BrowserError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return reply["result"].get("value")

    def wait(self, expression, timeout=120):
        """Waits until an expression holds."""
        end = time.monotonic() + timeout
        while True:
            if self.run(f"(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()"):
                return
            if time.monotonic() > end:
                raise BrowserError(f"never true in {timeout} s: {expression}")
            time.sleep(0.03)

    def key(self, key, shift=False, control=False):
        modifiers = (8 if shift else 0) | (2 if control else 0)
        code = KEYS.get(key, ord(key[0].upper()))
        text = "\r" if key == "Enter" else key if len(key) == 1 and not control else ""
        common = dict(key=key, windowsVirtualKeyCode=code, modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """A press of the mouse in the middle of an element, which must be the one that is hit there."""
        place = self.run(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            if (!e) return 'no such element'; e.scrollIntoView({{block: 'nearest'}});
            const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
            const hit = document.elementFromPoint(x, y);
            return hit && (e.contains(hit) || hit.contains(e)) ? [x, y] : 'covered by ' + (hit && hit.outerHTML.slice(0, 80)); }})()""")
        if isinstance(place, str):
            raise BrowserError(f"click {selector}: {place}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def work(self):
        """Seconds of processor time that the page's thread has taken since it was opened: no other program counts."""
        return next(m["value"] for m in self.call("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def look(self):
        """Takes in what was reported: requests, and complaints of scripts, console and network."""
        for event in self.browser.events(self.session, 0.05):
            name, data = event["method"], event["params"]
            if name == "Network.requestWillBeSent":
                self.requests.append(data["request"]["url"])
            elif name == "Runtime.exceptionThrown":
                details = data["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            elif name == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning", "assert"):
                self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in data["args"]))
            elif name == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
                self.complaints.append(data["entry"]["text"] + " " + data["entry"].get("url", ""))
        return self
