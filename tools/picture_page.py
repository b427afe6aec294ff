#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the page of `weft serve` in Chromium: a mesh of 48 x 48 cells with a wave in it, and the digits network
while it learns, light and dark, wide and narrow. Needs chromium and chromedriver.

  tools/picture_page.py WEFT FOLDER [MODEL]     MODEL: a language model to write with, too

The picture in README is `readme.png` of it: two passes of the digits, then labels that change places.
"""
import base64
import csv
import gzip
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIDE = 48
WAVE = {"weft": 2, "name": "wave", "grid": {"y": SIDE, "x": SIDE}, "inputs": {"drive": [1]},
        "layers": [{"at": [0, y, x, 0], "type": "dense", "out": 1, "activation": "tanh",
                    "from": [[0, y + dy, x + dx, 0] for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1))
                             if 0 <= y + dy < SIDE and 0 <= x + dx < SIDE] + (["drive"] if (y, x) == (24, 20) else [])}
                   for y in range(SIDE) for x in range(SIDE)], "outputs": {"y": [0, 0, SIDE - 1, 0]}}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
CHANGED = {0: 1, 1: 0, 2: 3, 3: 2, 4: 5, 5: 4}
PICTURES = [("wide-dark", "wave", 1440, 900, True), ("wide-light", "digits", 1440, 900, False),
            ("narrow-dark", "digits", 390, 844, True), ("readme", "digits", 1440, 600, True)]


def ask(address, method, path, body=None):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read() or b"null")
    connection.close()
    return answer


def digits():
    with gzip.open(ROOT / "examples/data/digits.csv.gz", "rt") as file:
        rows = [[float(each) for each in row] for row in csv.reader(file) if row and row[0].replace(".", "").isdigit()]
    return [{"inputs": {"pixels": [each / 16 for each in row[:64]]}, "targets": {"digit": int(row[64])}} for row in rows]


class Browser:
    def __init__(self, folder):
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        port = next(int(line.split()[-1].rstrip(".")) for line in self.process.stdout if "successfully on port" in line)
        self.address = f"127.0.0.1:{port}"
        options = {"args": [*FLAGS, f"--user-data-dir={folder}/profile"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self.session = "/session/" + ask(self.address, "POST", "/session", wanted)["value"]["sessionId"]

    def command(self, name, parameters):
        return ask(self.address, "POST", f"{self.session}/goog/cdp/execute", {"cmd": name, "params": parameters})["value"]

    def run(self, script):
        return ask(self.address, "POST", f"{self.session}/execute/sync", {"script": script, "args": []})["value"]

    def until(self, script):
        end = time.monotonic() + 30
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.1)

    def open(self, url, width, height, is_dark):
        self.command("Emulation.setDeviceMetricsOverride",
                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.command("Emulation.setEmulatedMedia", {"features": [scheme]})
        ask(self.address, "POST", f"{self.session}/url", {"url": "about:blank"})
        ask(self.address, "POST", f"{self.session}/url", {"url": url})
        self.until("return document.getElementById('link').textContent === 'live'")

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", {"format": "png"})["data"]))

    def close(self):
        ask(self.address, "DELETE", self.session)
        self.process.terminate()
        self.process.communicate()


def draw_a_seven(browser):
    browser.run("""const paper = document.getElementById('paper'), box = paper.getBoundingClientRect();
      const at = (type, x, y) => paper.dispatchEvent(new PointerEvent(type, {pointerId: 1, buttons: 1, bubbles: true,
        clientX: box.left + x * box.width, clientY: box.top + y * box.height}));
      paper.setPointerCapture = () => {};
      at('pointerdown', .25, .2);
      for (const [x, y] of [[.5, .2], [.78, .2], [.68, .4], [.56, .6], [.46, .85]]) at('pointermove', x, y);""")
    browser.until("return document.getElementById('answers').children.length > 0")


def show(browser, address, picture, samples):
    name, mesh, width, height, is_dark = picture
    browser.open(f"http://{address}/#{mesh}", width, height, is_dark)
    if mesh == "wave":
        browser.run("const m = document.getElementById('metric'); m.value = 'value'; m.dispatchEvent(new Event('change'))")
        path = "/api/v1/meshes/wave"
        ask(address, "POST", f"{path}/tick", {"n": 4, "inputs": {"drive": [1]}})
        for _ in range(14):
            ask(address, "POST", f"{path}/tick", {"n": 1, "inputs": {"drive": [0]}})
            time.sleep(0.15)
    else:
        for first in range(0, len(samples), 40):
            ask(address, "POST", f"/api/v1/meshes/{mesh}/learn", {"samples": samples[first:first + 40]})
            time.sleep(0.12 if len(samples) < 1000 else 0.2)
        ask(address, "POST", f"/api/v1/meshes/{mesh}/checkpoint", {})
        draw_a_seven(browser)
    time.sleep(1.5)


def main(weft, folder, model=None):
    folder.mkdir(parents=True, exist_ok=True)
    samples = digits()
    other = [{**each, "targets": {"digit": CHANGED.get(each["targets"]["digit"], each["targets"]["digit"])}}
             for each in samples]
    changing = samples + samples[:1200] + other + other[:600]
    with tempfile.TemporaryDirectory() as scratch:
        network = pathlib.Path(scratch, "wave.json")
        network.write_text(json.dumps(WAVE))
        words = [weft, "serve", "--json", "--port", "0", "--threads", "1", "--state", pathlib.Path(scratch, "state"),
                 network, ROOT / "examples/digits.json", *([f"writer={model}"] if model else [])]
        with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as server:
            browser = None
            try:
                address = json.loads(server.stdout.readline())["listen"][0]
                browser = Browser(scratch)
                for picture in PICTURES:
                    show(browser, address, picture, changing if picture[0] == "readme" else samples[:400])
                    path = folder / f"{picture[0]}.png"
                    browser.picture(path)
                    print(f"{path}: {path.stat().st_size:,} bytes")
            finally:
                if browser:
                    browser.close()
                server.kill()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]), *sys.argv[3:])
