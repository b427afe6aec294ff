# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly package in Chromium, told by the WebDriver protocol: rows of web_test.py in both modules, and the pages
of examples/web as visitors use them."""
import base64
import http.client
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
         "--disable-backgrounding-occluded-windows"]
ROWS = """<!DOCTYPE html><meta charset="utf-8"><script type="module">
import { load } from '/build/web/package/weft.mjs';
import { compare } from '/tests/bindings/web_rows.mjs';
const expected = await (await fetch('/expected.json')).json();
const results = {};
for (const simd of [true, false]) results[simd] = compare(await load({ simd }), expected);
document.title = JSON.stringify(results);
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """The tree, with the package wherever it is, and the rows."""
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript",
                      ".wasm": "application/wasm", ".json": "application/json", ".gz": "application/gzip"}

    def do_GET(self):
        if self.path != "/rows.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(ROWS.encode())

    def translate_path(self, path):
        path = path.partition("?")[0]
        if path == "/expected.json":
            return str(self.server.expected)
        if path.startswith("/build/web/package/"):
            return str(self.server.package / pathlib.Path(path).name)
        return super().translate_path(path)

    def log_message(self, *_):
        pass


class Browser:
    def __init__(self, driver, folder):
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
        port = next(int(line.split()[-1].rstrip(".")) for line in self.process.stdout if "successfully on port" in line)
        self.to, self.session = f"127.0.0.1:{port}", ""
        options = {"args": [*FLAGS, f"--user-data-dir={folder}/profile", "--window-size=900,800"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.to, timeout=120)
        connection.request(method, self.session + path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        value = json.loads(connection.getresponse().read())["value"]
        connection.close()
        assert not (isinstance(value, dict) and "error" in value), value
        return value

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script):
        return self.ask("POST", "/execute/sync", {"script": script, "args": []})

    def until(self, script, seconds=60):
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, (script, self.run("return document.body.innerText"), self.log())
            time.sleep(0.1)
        return value

    def log(self):
        return self.ask("POST", "/se/log", {"type": "browser"})

    def draw(self, selector, points):
        """A stroke by the pointer, through points within the element."""
        box = self.run(f"const b = document.querySelector('{selector}').getBoundingClientRect(); return [b.left, b.top]")
        moves = [{"type": "pointerMove", "duration": 20, "x": round(box[0] + x), "y": round(box[1] + y)} for x, y in points]
        actions = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        self.ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "pen", "actions": actions}]})

    def picture(self, name):
        """Into the folder WEFT_PICTURES, for people to look at."""
        png = base64.b64decode(self.ask("GET", "/screenshot"))
        assert png[:4] == b"\x89PNG"
        if os.environ.get("WEFT_PICTURES"):
            (pathlib.Path(os.environ["WEFT_PICTURES"]) / f"{name}.png").write_bytes(png)

    def end(self):
        if self.session:
            self.ask("DELETE", "")
        self.process.terminate()
        self.process.communicate()


def check_rows(browser, address):
    browser.go(f"{address}/rows.html")
    results = json.loads(browser.until("return document.title", seconds=300))
    for module, result in results.items():
        assert not result["wrong"] and result["count"] > 500, (module, result["wrong"][:5], result["count"])
    print(f"Chromium: {results['true']['count']} hashes equal the native ones, in both modules")


def check_digits(browser, address):
    """Draws a digit, teaches it, reloads, and goes on."""
    browser.go(f"{address}/examples/web/")
    browser.until("return document.body.dataset.ready")
    browser.run("document.getElementById('data').click()")
    browser.until("return document.getElementById('state').textContent.includes('others right')")
    said = browser.run("return document.getElementById('state').textContent")
    right, of = (int(word) for word in said.split("; ")[1].split(" others")[0].split(" of "))
    assert right > 0.8 * of, said
    browser.draw("#drawing", [(130, 30), (130, 80), (130, 130), (130, 180), (130, 226)])
    share = "return parseFloat(document.querySelectorAll('#answers output')[7].textContent)"
    before = browser.run(share)
    for _ in range(10):
        browser.run("document.querySelectorAll('#answers button')[7].click()")
        time.sleep(0.05)
    after = browser.run(share)
    assert after > before and after > 50, (before, after)
    browser.until("return document.body.dataset.saved === '1447'")
    browser.picture("digits")
    kept = browser.run("return document.body.dataset.hash")
    browser.go(f"{address}/examples/web/")
    browser.until("return document.body.dataset.ready")
    assert browser.run("return document.body.dataset.hash") == kept, "another mesh after a reload"
    browser.draw("#drawing", [(130, 30), (130, 80), (130, 130), (130, 180), (130, 226)])
    assert abs(browser.run(share) - after) < 25, "it has forgotten"
    browser.run("document.querySelectorAll('#answers button')[7].click()")
    browser.until("return document.body.dataset.saved === '1448'")
    assert browser.run("return document.body.dataset.hash") != kept
    print("digits: drawn, learned, kept over a reload, and learned on")


def check_game(browser, address):
    """Two windows with messages that are late: rollbacks, one world, and creatures that learn."""
    page = f"{address}/examples/web/game.html?room=test&script=1"
    first = browser.ask("GET", "/window")
    browser.go(f"{page}&delay=70&jitter=60")
    browser.until("return document.body.dataset.ready")
    second = browser.ask("POST", "/window/new", {"type": "window"})["handle"]
    windows = (first, second)
    browser.ask("POST", "/window", {"handle": second})
    browser.go(f"{page}&delay=90")
    ends = []
    for number, window in enumerate(windows):
        browser.ask("POST", "/window", {"handle": window})
        ends.append(browser.until("return globalThis.game?.frame >= 900 && game.compared >= 20 && game"))
        browser.picture(f"game-{number}")
    for end in ends:
        assert end["parted"] is None, end
        assert end["rollbacks"] > 10 and end["deepest"] > 1, end
        assert end["share"] < 0.7 * end["firstError"], ("they have not learned", end)
    assert {end["side"] for end in ends} == {0, 1}
    said = browser.run("return document.getElementById('frames').textContent")
    print(f"game: {[(end['frame'], end['rollbacks'], end['deepest'], end['compared']) for end in ends]} frames, rollbacks, "
          f"deepest, hashes; the forecast's share of standing still's error {ends[0]['firstError']:.2f} at first, "
          f"{ends[0]['share']:.2f} then; {said}")


def check(package, expected):
    """0, or 77 where there is no Chromium."""
    driver = shutil.which("chromedriver") if shutil.which("chromium") else None
    if not driver:
        print("skipped: no Chromium and driver")
        return 77
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(ROOT)))
    server.package, server.expected = pathlib.Path(package).resolve(), expected
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(driver, folder)
        try:
            check_rows(browser, address)
            check_digits(browser, address)
            check_game(browser, address)
            severe = [each for each in browser.log() if each["level"] == "SEVERE" and "favicon" not in each["message"]]
            assert not severe, severe
        finally:
            browser.end()
            server.shutdown()
    return 0
