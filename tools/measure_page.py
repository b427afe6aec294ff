#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time that the page of `weft serve` takes in Chromium, showing 256x256 cells that tick 20 times a second or
as fast as they can, by kind of process; pictures a second; ticks a second with the page and without it, in turns.
Needs Chromium and its driver.

  tools/measure_page.py WEFT [SECONDS]         10 seconds for each of four turns
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/cli"))
from page_test import FLAGS, ask  # noqa: E402

NETWORK = {"weft": 2, "name": "wave", "grid": {"y": 256, "x": 256}, "inputs": {"drive": [1]},
           "layers": [{"repeat": {"y": [0, 256], "x": [0, 256]}, "type": "dense", "out": 1, "activation": "tanh",
                       "from": ["drive"], "neighbours": "von_neumann"}], "outputs": {"y": [0, 0, 255, 0]}}


def descendants(root):
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found, grows = {root}, True
    while grows:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grows = bool(more)
    return found - {root}


def seconds_by_kind(root):
    used = {}
    for pid in descendants(root):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split(b" ")
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        kind = next((each[7:].decode() for each in words if each.startswith(b"--type=")), "browser")
        used[kind] = used.get(kind, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


class Page:
    """A browser that shows the page, or another one."""

    def __init__(self, folder):
        self.driver = subprocess.Popen([shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, text=True)
        port = next(int(line.split()[-1].rstrip(".")) for line in self.driver.stdout if "successfully on port" in line)
        self.to = f"127.0.0.1:{port}"
        options = {"args": [*FLAGS, "--window-size=1440,900", f"--user-data-dir={folder}/profile"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self.session = "/session/" + json.loads(ask(self.to, "POST", "/session", wanted)[2])["value"]["sessionId"]

    def show(self, address):
        ask(self.to, "POST", f"{self.session}/url", {"url": address})
        time.sleep(3)  # until it is at rest

    def frames(self):
        script = {"script": "return +(document.body.dataset.frames ?? 0)", "args": []}
        return json.loads(ask(self.to, "POST", f"{self.session}/execute/sync", script)[2])["value"]

    def end(self):
        ask(self.to, "DELETE", self.session)
        self.driver.terminate()
        self.driver.communicate()


def measure(address, page, seconds):
    """New pictures and ticks a second, and shares of a core."""
    ticks = lambda: json.loads(ask(address, "GET", "/api/v1/meshes/wave")[2])["ticks"]
    before, frames, tick, begun = seconds_by_kind(page.driver.pid), page.frames(), ticks(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begun
    tick, frames, used = ticks() - tick, page.frames() - frames, seconds_by_kind(page.driver.pid)
    return frames / took, tick / took, {kind: 100 * (used[kind] - before.get(kind, 0)) / took for kind in used}


def main(weft, seconds):
    with tempfile.TemporaryDirectory() as folder:
        network = pathlib.Path(folder, "wave.json")
        network.write_text(json.dumps(NETWORK))
        server = subprocess.Popen([weft, "serve", "--json", "--port", "0", "--threads", "1", network],
                                  stdout=subprocess.PIPE, text=True)
        page = None
        try:
            address = json.loads(server.stdout.readline())["listen"][0]
            ask(address, "POST", "/api/v1/meshes/wave/tick", {"n": 1, "inputs": {"drive": [1]}})
            page = Page(folder)
            for rate in (20, 0):
                ask(address, "POST", "/api/v1/meshes/wave/run", {"mode": "free", "tick_rate": rate})
                for is_shown in (True, False, True, False):
                    page.show(f"http://{address}/#wave" if is_shown else "about:blank")
                    frames, ticks, share = measure(address, page, seconds)
                    print(f"{rate or 'free'}, {'page' if is_shown else 'none'}: {frames:.2f} pictures, {ticks:.2f} ticks a second; "
                          "of a core: " + ", ".join(f"{kind} {part:.1f} %" for kind, part in sorted(share.items())), flush=True)
        finally:
            if page:
                page.end()
            server.terminate()
            server.communicate()


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or not shutil.which("chromedriver"):
        sys.exit(__doc__)
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10)
