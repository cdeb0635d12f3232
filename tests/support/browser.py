"""Debian's Chromium without a window, driven over its debugging pipe: it opens pages from disk, clicks, types and reads."""

import base64
import itertools
import json
import os
import select
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds for one answer


class Browser:
    def __init__(self, width=1100, height=900):
        # Its processes may write into it for a moment after the first of them has ended.
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, answers = os.pipe(), os.pipe()
        # Chromium reads file descriptor 3 and writes 4; it reaches no host.
        words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}",
                 "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--disable-component-update", "--no-first-run",
                 f"--window-size={width},{height}"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{commands[0]} 4>&{answers[1]}', "bash", *words],
                                        pass_fds=[commands[0], answers[1]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands[0])
        os.close(answers[1])
        self.commands, self.answers = commands[1], answers[0]
        self.numbers, self.buffer, self.events, self.session = itertools.count(1), b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive(self):
        """The next message, without its end, which is a zero byte."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            assert select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0], "Chromium does not answer"
            piece = os.read(self.answers, 1 << 20)
            assert piece, "Chromium has ended"
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def wait_for(self, method):
        while True:
            for place, event in enumerate(self.events):
                if event.get("method") == method:
                    return self.events.pop(place)
            self.events.append(self.receive())

    def open(self, path):
        """Opens a page from disk; returns when its scripts have run."""
        self.events = []
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")

    def run(self, script):
        """The value of an expression in the page, once what it awaits is there."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def settle(self):
        """Waits until the page has answered what was done to it and is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText)")

    def click(self, selector):
        """With the mouse, in the middle of the first element: what lies above it would get the click."""
        x, y = self.run(f"(() => {{ const each = document.querySelector({json.dumps(selector)}); each.scrollIntoView({{ block: 'center' }});"
                        "const box = each.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def type(self, selector, text):
        """In place of what the field holds."""
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text) if text else self.call("Input.dispatchKeyEvent", type="rawKeyDown", key="Delete", windowsVirtualKeyCode=46)
        self.settle()

    def size(self, width, height, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path, whole=False):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def printed(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def complaints(self):
        """What the console said, and the addresses that the page asked for besides its own and what lies in it."""
        said = [event["params"] for event in self.events if event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]
        asked = {event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"}
        return said, {url for url in asked if not url.startswith(("file:", "data:"))}
